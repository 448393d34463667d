/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The control thread: starts the data path, looks after it once a millisecond, and stops it in the right order.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include <rte_launch.h>

#include "app.h"
#include "base/spw_err.h"
#include "base/spw_log.h"

#define TURN_NS         1000000   /* of the control loop */
#define CLOCK_TURNS     20        /* clock pairs: 50 a second */
#define WHO_TURNS       100       /* what the kernel counts for each lcore */
#define COLLECT_TURNS   1000      /* recorder intervals for telemetry */
#define EXEC_STOP_MS    2000

static pthread_mutex_t view_lock = PTHREAD_MUTEX_INITIALIZER;
static struct spw_rec_view *live_view;

const struct spw_rec_view *app_view_lock(void)
{
	pthread_mutex_lock(&view_lock);
	return live_view;
}

void app_view_unlock(void)
{
	pthread_mutex_unlock(&view_lock);
}

/* ---- start ----------------------------------------------------------------------------------------- */

static int lcore_main(void *arg)
{
	struct app_lcore *lc = arg;

	app_who_begin(lc);
	spw_pipe_run(&lc->pipe, lc->stop);
	return 0;
}

static int start(struct app *app)
{
	int rc = spw_exec_start(app->exec);

	for (uint32_t p = 0; rc == 0 && p < app->port_cnt; p++)
		rc = spw_port_start(app->port[p]);
	if (rc < 0)
		return rc;
	app->start_tsc = spw_tsc_now();
	app->started = true;
	for (; app->launched_cnt < app->lcore_cnt; app->launched_cnt++) {
		struct app_lcore *lc = app->lcore[app->launched_cnt];

		if (rte_eal_remote_launch(lcore_main, lc, lc->lcore_id) < 0)
			return spw_err(EBUSY, "lcore %u cannot be launched", lc->lcore_id);
	}
	return 0;
}

/* ---- the loop --------------------------------------------------------------------------------------- */

static void tell_events(struct app *app)
{
	struct spw_port_event event;

	for (uint32_t i = 0; i < app->lcore_cnt; i++) {
		while (spw_pipe_event(&app->lcore[i]->pipe, &event)) {
			spw_info("port %s queue %u: %s", app->port[app->lcore[i]->port]->name, event.queue, event.text);
			if (event.kind == SPW_PORT_EVENT_DEVICE_GONE)
				app->fault = true;
		}
	}
}

/* Looks after the executor; frames that waited for a kernel that had to come back are to know. Returns: 0, -EIO. */
static int serve_executor(struct app *app)
{
	uint64_t before = spw_tsc_now(), seen = app->relaunched;
	struct spw_exec_stat stat;
	int rc = spw_exec_service(app->exec);

	if (app->exec_kind != SPW_EXEC_CUDA_PERSISTENT)
		return rc;
	spw_exec_stat(app->exec, &stat);
	app->relaunched = stat.relaunched;
	for (uint32_t i = 0; stat.relaunched != seen && i < app->lcore_cnt; i++)
		spw_pipe_relaunched(&app->lcore[i]->pipe, before, spw_tsc_now());
	return rc;
}

static void collect(struct app *app)
{
	pthread_mutex_lock(&view_lock);
	if (live_view) {
		spw_rec_view_interval(live_view);
		for (uint32_t i = 0; i < app->lcore_cnt; i++)
			spw_rec_collect(&app->lcore[i]->pipe.rec, live_view);
	}
	pthread_mutex_unlock(&view_lock);
	app_hdr_tick(&app->hdr);
}

static bool all_ended(const struct app *app)
{
	for (uint32_t i = 0; i < app->launched_cnt; i++)
		if (!spw_pipe_ended(&app->lcore[i]->pipe))
			return false;
	return true;
}

/* With one queue the pipe itself stops on the frame; with several their sum is looked at here. */
static bool enough_frames(const struct app *app)
{
	uint64_t frames = 0;

	for (uint32_t i = 0; i < app->lcore_cnt; i++)
		frames += spw_thr_load_rlx(&app->lcore[i]->pipe.ledger.polled_frames);
	return app->conf.run.frames && frames >= app->conf.run.frames;
}

static bool time_is_up(const struct app *app)
{
	return app->conf.run.seconds_ns &&
	       spw_tsc_to_ns(&app->tsc, spw_tsc_now() - app->start_tsc) >= app->conf.run.seconds_ns;
}

/* Returns: an exit status. */
static int watch(struct app *app)
{
	const struct timespec nap = {.tv_nsec = TURN_NS};

	for (uint64_t turn = 0; !spw_thr_load_rlx(&app->signal_seen) && !time_is_up(app); turn++) {
		if (serve_executor(app) < 0) {
			spw_warn("executor: %s", spw_err_text());
			return APP_FAULT;
		}
		tell_events(app);
		if (turn % CLOCK_TURNS == 0)
			app_clocks_pair(app);
		if (turn % WHO_TURNS == 0 && app->conf.run.stamps)
			app_who_look(app);
		if (turn % COLLECT_TURNS == 0)
			collect(app);
		if (app->fault)
			return APP_FAULT;
		if (all_ended(app) || enough_frames(app))
			return APP_GOOD;
		nanosleep(&nap, NULL);
	}
	return APP_GOOD;
}

/* ---- stop ------------------------------------------------------------------------------------------- */

/* Lcores first (they drain), then the executor, then what it may have kept, then the ports: so every slot comes home. The
 * executor is still served while lcores drain: a resident kernel that left must come back to finish. */
static int stop(struct app *app, int status)
{
	const struct timespec nap = {.tv_nsec = TURN_NS};
	uint64_t lost = 0;

	spw_thr_store_rlx(&app->stop, 1);
	while (!all_ended(app)) {
		if (status != APP_FAULT)
			spw_exec_service(app->exec);
		nanosleep(&nap, NULL);
	}
	rte_eal_mp_wait_lcore();
	app->stop_tsc = spw_tsc_now();
	if (spw_exec_stop(app->exec, EXEC_STOP_MS) < 0)
		spw_warn("executor: %s", spw_err_text());
	for (uint32_t i = 0; i < app->lcore_cnt; i++)
		lost += spw_pipe_reclaim(&app->lcore[i]->pipe);
	if (lost)
		spw_warn("%lu frames were with the executor when it had to be abandoned", (unsigned long)lost);
	tell_events(app);
	for (uint32_t p = 0; p < app->port_cnt; p++)
		if (spw_port_stop(app->port[p]) < 0)
			spw_warn("port %s: %s", app->port[p]->name, spw_err_text());
	return lost ? APP_FAULT : status;
}

static struct spw_rec_view *view_new(void)
{
	struct spw_rec_view *view = aligned_alloc(_Alignof(struct spw_rec_view), sizeof(*view));

	if (view)
		spw_rec_view_init(view);
	return view;
}

int app_run(struct app *app)
{
	int status, rc;

	app_catch_signals(&app->signal_seen);
	if (app->conf.run.stamps)
		live_view = view_new();
	rc = app_hdr_log_open(app, live_view);
	if (rc == 0)
		rc = start(app);
	if (rc < 0 && !app->started) {
		spw_exec_stop(app->exec, EXEC_STOP_MS);
		return APP_MACHINE;
	}
	if (rc == 0)
		rc = app_telemetry_open(app);
	if (rc < 0)
		spw_warn("%s", spw_err_text());
	status = rc < 0 ? APP_MACHINE : watch(app);
	app_telemetry_close();
	return stop(app, status);
}

struct spw_rec_view *app_view_final(struct app *app)
{
	struct spw_rec_view *view = live_view ? live_view : view_new();

	live_view = NULL;
	if (!view)
		return NULL;
	spw_rec_view_interval(view);
	for (uint32_t i = 0; i < app->lcore_cnt; i++)
		spw_rec_collect_rest(&app->lcore[i]->pipe.rec, view);
	app_hdr_close(&app->hdr); /* what it could not write has been told */
	return view;
}
