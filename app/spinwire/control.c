/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The control thread: starts the data path, serves it once a millisecond, and stops it. Called by
 * main after the topology is open; calls lib/topo for everything that touches ports, pipes and
 * executor.
 *
 *   every ms       executor service, port events, receipts of objects
 *   every 20 ms    clock pairs; the objective of --slo
 *   every 100 ms   what the kernel counts for each lcore
 *   every second   recorder intervals for telemetry
 *   --stats-period a line of rates
 *
 * A run ends by a signal, --seconds, --frames, every pipe ended, or a fault (a device gone, an
 * executor that cannot go on). After a second signal lcores are not waited for, which is no fault
 * of theirs, and an executor only shortly.
 *
 * Before changing the stop: whatever does not return (an lcore, a handler) keeps its memory, ports
 * and executor; then app->hung is set and main ends by _exit without freeing anything.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include <rte_launch.h>

#include "app.h"
#include "app_life.h"
#include "app_port.h"
#include "base/spw_err.h"
#include "base/spw_log.h"

#define TURN_NS        1000000       /* of the control loop */
#define CLOCK_TURNS    20            /* clock pairs: 50 a second */
#define WHO_TURNS      100           /* what the kernel counts for each lcore */
#define COLLECT_TURNS  1000          /* recorder intervals for telemetry */
#define SLO_TURNS      20            /* looks at the objective */
#define LCORES_STOP_NS 5000000000ull /* more than a pipe drains */
#define EXEC_STOP_MS   2000
#define EXEC_FORCED_MS 100 /* after a second signal */

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

/* ---- start ---- */

/* What an lcore runs from start to stop; everything else happens on other threads. */
static int control_lcore_main(void *arg)
{
	struct app_lcore *lc = arg;

	spw_who_begin(&lc->who, app_lcore_cpu(lc->lane->conf.lcore_id));
	spw_pipe_run(&lc->lane->pipe, lc->stop);
	return 0;
}

/* Ports and executor first, lcores last: they find everything running. */
static int control_start(struct app *app)
{
	int rc = spw_topo_start(&app->topo);

	if (rc < 0)
		return rc;
	app->start_tsc = spw_tsc_now();
	app->started = true;
	for (; app->launched_cnt < app->topo.lane_cnt; app->launched_cnt++) {
		struct app_lcore *lc = &app->lcore[app->launched_cnt];
		uint32_t id = lc->lane->conf.lcore_id;

		if (rte_eal_remote_launch(control_lcore_main, lc, id) < 0)
			return spw_err(EBUSY, "lcore %u cannot be launched", id);
	}
	return 0;
}

/* ---- the loop ---- */

/* A failing device has thousands of events a second: they are rate-limited, but the loss of a
 * device is always logged. */
static void control_log_events(struct app *app)
{
	static struct spw_log_limit others;
	struct spw_port_event event;
	struct spw_topo_lane *lane;

	while (spw_topo_event(&app->topo, &lane, &event)) {
		bool gone = event.kind == SPW_PORT_EVENT_DEVICE_GONE;
		char link[APP_PORT_LINK_BYTES] = "";

		if (event.kind == SPW_PORT_EVENT_LINK_UP)
			app_port_link_text(lane->port, link);
		spw_log_limited(gone ? &(struct spw_log_limit){0} : &others, SPW_LOG_INFO,
				"port %s queue %u: %s%s", lane->port->name, event.queue, event.text,
				link);
		app->fault |= gone;
		if (gone || event.kind == SPW_PORT_EVENT_QUEUE_ERROR)
			app_record_fault(app);
	}
	if (app->stop)
		spw_log_limit_end(&others);
}

/* Telemetry reads the view under the lock; without stamps there is none. */
static void control_collect(struct app *app)
{
	pthread_mutex_lock(&view_lock);
	if (live_view)
		spw_topo_collect(&app->topo, live_view);
	pthread_mutex_unlock(&view_lock);
	app_hdr_tick(&app->hdr);
}

static int control_check_slo(struct app *app)
{
	int rc;

	pthread_mutex_lock(&view_lock);
	spw_topo_collect_more(&app->topo, live_view);
	rc = app_slo_turn(app, live_view);
	pthread_mutex_unlock(&view_lock);
	return rc;
}

/* The executors' turn, and that of the objective. */
static int control_check_executors(struct app *app, uint64_t turn)
{
	int rc = spw_topo_service(&app->topo);

	if (rc == 0 && turn % SLO_TURNS == 0 && app->slo && live_view)
		rc = control_check_slo(app);
	return rc;
}

/* What the kernel counts for each lcore, in the tenths of a second in which its loop had gaps. */
static void control_read_who(struct app *app)
{
	struct spw_who *who[SPW_TOPO_LANE_MAX];
	uint64_t gaps[SPW_TOPO_LANE_MAX];
	struct spw_pipe_summary pipe;

	for (uint32_t i = 0; i < app->topo.lane_cnt; i++) {
		spw_pipe_summary(&app->topo.lane[i]->pipe, &pipe);
		who[i] = &app->lcore[i].who;
		gaps[i] = 0;
		for (int h = 0; h < SPW_HOLD_CNT; h++)
			gaps[i] += pipe.held_cnt[h];
	}
	spw_who_read(who, gaps, app->topo.lane_cnt);
}

/* Given up, by whomever: missed by the device, dropped by port, pipe or at TX. */
static void control_print_rates(struct app *app)
{
	static struct spw_topo_stat stat; /* control alone */
	struct app_rate_count count = {0};

	spw_topo_stat(&app->topo, &stat);
	for (uint32_t p = 0; p < app->topo.port_cnt; p++)
		app_rate_add(&count, &stat.port[p], app->topo.port[p]->caps.messages);
	count.dropped = stat.sum.missed + stat.sum.dropped;
	app_rate_print(&app->period, &count);
}

static bool control_all_ended(const struct app *app)
{
	return spw_topo_ended(&app->topo, app->launched_cnt);
}

/* With one queue the pipe itself stops on the exact frame; with several, the control loop compares
 * their sum. */
static bool control_enough_frames(const struct app *app)
{
	return app->conf.run.frames && spw_topo_frames(&app->topo) >= app->conf.run.frames;
}

static bool control_time_is_up(const struct app *app)
{
	return app->conf.run.seconds_ns &&
	       spw_tsc_to_ns(&app->tsc, spw_tsc_now() - app->start_tsc) >= app->conf.run.seconds_ns;
}

/* What ended the watch. A run without a limit ends by a signal, and has its report. */
static bool control_is_interrupted(const struct app *app)
{
	return spw_thr_load_rlx(&app->signals) &&
	       (app->conf.run.seconds_ns || app->conf.run.frames) && !control_time_is_up(app) &&
	       !control_enough_frames(app);
}

/* Returns: an exit status. */
static int control_watch(struct app *app)
{
	const struct timespec nap = {.tv_nsec = TURN_NS};

	for (uint64_t turn = 0; !spw_thr_load_rlx(&app->signals) && !control_time_is_up(app);
	     turn++) {
		if (control_check_executors(app, turn) < 0) {
			spw_warn("executor: %s", spw_err_text());
			app_record_fault(app);
			return APP_FAULT;
		}
		control_log_events(app);
		app_record_turn(app);
		app_objects_turn(app, turn);
		if (turn % CLOCK_TURNS == 0)
			spw_topo_clocks_pair(&app->topo);
		if (turn % WHO_TURNS == 0 && app->conf.run.stamps)
			control_read_who(app);
		if (turn % COLLECT_TURNS == 0)
			control_collect(app);
		if (app_rate_is_due(&app->period))
			control_print_rates(app);
		if (app->fault)
			return APP_FAULT;
		if (control_all_ended(app) || control_enough_frames(app))
			return APP_GOOD;
		nanosleep(&nap, NULL);
	}
	return APP_GOOD;
}

/* ---- stop ---- */

static bool control_forced(const struct app *app)
{
	return spw_thr_load_rlx(&app->signals) & APP_SIGNAL_AGAIN;
}

/* An lcore ends by itself unless a handler or a driver does not return, or it had no time to. */
static void control_name_hung(const struct app *app)
{
	if (control_forced(app)) {
		spw_warn("a second signal: the lcores were not waited for, and their frames are "
			 "not accounted for");
		return;
	}
	for (uint32_t i = 0; i < app->launched_cnt; i++) {
		const struct spw_topo_lane *lane = app->topo.lane[i];

		if (!spw_pipe_ended(&lane->pipe))
			spw_warn("lcore %u does not end: handler %s or a call of port %s does not "
				 "return; its frames are "
				 "not accounted for",
				 lane->conf.lcore_id, app_handler_of(app, i)->name,
				 lane->port->name);
	}
}

/* Serves the executor while the lcores drain, because a resident kernel that left must be launched
 * again to finish. Returns: false if some did not end in time, or when a second signal came. */
static bool control_lcores_stop(struct app *app, int status)
{
	const struct timespec nap = {.tv_nsec = TURN_NS};
	uint64_t begin = spw_tsc_now(), limit = spw_tsc_from_ns(&app->tsc, LCORES_STOP_NS);

	spw_thr_store_rlx(&app->stop, 1);
	while (!control_all_ended(app)) {
		if (spw_tsc_now() - begin > limit || control_forced(app))
			return false;
		if (status != APP_FAULT)
			spw_topo_service(&app->topo);
		nanosleep(&nap, NULL);
	}
	rte_eal_mp_wait_lcore();
	return true;
}

/* Lcores first (they drain), then the topology, which returns every slot to its pool. An lcore that
 * does not end still uses all of its parts: then nothing is stopped. Returns: an exit status. */
static int control_stop(struct app *app, int status)
{
	struct spw_topo_end end;

	app->hung = !control_lcores_stop(app, status);
	app->stop_tsc = spw_tsc_now();
	if (app->hung) {
		control_name_hung(app);
		app->interrupted = control_forced(app);
		return app->interrupted ? status : APP_FAULT;
	}
	spw_topo_stop(&app->topo, control_forced(app) ? EXEC_FORCED_MS : EXEC_STOP_MS, &end);
	app->hung = end.exec_rc == -EBUSY;
	if (end.exec_faults)
		spw_warn("executor: %lu completions contradict their batches and were refused; "
			 "frames counted bad, reason "
			 "verdict",
			 (unsigned long)end.exec_faults);
	if (end.lost_frames)
		spw_warn("%lu frames were with the executor when it had to be abandoned",
			 (unsigned long)end.lost_frames);
	control_log_events(app);
	return end.lost_frames || app->hung || end.exec_faults ? APP_FAULT : status;
}

static struct spw_rec_view *control_view_new(void)
{
	struct spw_rec_view *view = aligned_alloc(_Alignof(struct spw_rec_view), sizeof(*view));

	if (view)
		spw_rec_view_init(view);
	return view;
}

/* A start that fails half-way is stopped like a run: what was started must end in order. */
int app_run(struct app *app)
{
	int status, rc;

	app_catch_signals(&app->signals);
	if (app->conf.run.stamps)
		live_view = control_view_new();
	rc = app_hdr_log_open(app, live_view);
	if (rc == 0)
		rc = control_start(app);
	/* Ports and executor were never started: there is nothing to stop. */
	if (rc < 0 && !app->started)
		return APP_MACHINE;
	if (rc == 0)
		rc = app_telemetry_open(app);
	if (rc < 0)
		spw_warn("%s", spw_err_text());
	if (app->conf.run.seconds_ns && !app->conf.run.stats_period_ns)
		app_life_phase(app->conf.run.seconds_ns, "running");
	app_rate_begin(&app->period, app->conf.run.stats_period_ns, &app->tsc);
	status = rc < 0 ? APP_MACHINE : control_watch(app);
	app->interrupted = control_is_interrupted(app);
	app_life_phase(0, "%s", "");
	app_telemetry_close();
	return control_stop(app, status);
}

/* After the lcores have ended: the last banks are taken, and the view belongs to the caller. */
struct spw_rec_view *app_view_final(struct app *app)
{
	struct spw_rec_view *view = live_view ? live_view : control_view_new();

	live_view = NULL;
	if (!view)
		return NULL;
	spw_topo_collect_rest(&app->topo, view);
	app->hdr_rc = app_hdr_close(&app->hdr);
	return view;
}
