/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Live numbers on DPDK's telemetry socket: /spinwire/info, /spinwire/ports, /spinwire/ledger, /spinwire/lcores,
 * /spinwire/latency, /spinwire/causes, /spinwire/histogram. EAL calls back in a thread of its own; everything read here is a counter that its
 * owner writes whole.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <rte_telemetry.h>
#include <rte_version.h>

#include "app.h"
#include "base/spw_err.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct app *live; /* NULL: not running; under lock, since commands cannot be taken back */

static void add(struct rte_tel_data *d, const char *name, uint64_t v)
{
#if RTE_VERSION >= RTE_VERSION_NUM(23, 3, 0, 0)
	rte_tel_data_add_dict_uint(d, name, v);
#else
	rte_tel_data_add_dict_u64(d, name, v);
#endif
}

/* Names of one kind may be those of another: no_slot is a drop and an error. */
static void add_as(struct rte_tel_data *d, const char *kind, const char *name, uint64_t v)
{
	char key[64];

	snprintf(key, sizeof(key), "%s_%s", kind, name);
	add(d, key, v);
}

static void ports_dict(struct app *app, const char *params SPW_UNUSED, struct rte_tel_data *d)
{
	for (uint32_t p = 0; p < app->port_cnt; p++) {
		struct rte_tel_data *port = rte_tel_data_alloc();
		struct spw_port_stat stat;

		if (!port)
			return;
		spw_port_stat(app->port[p], &stat);
		rte_tel_data_start_dict(port);
		rte_tel_data_add_dict_string(port, "driver", app->port[p]->driver->name);
		add(port, "rx_frames", stat.rx_frames);
		add(port, "rx_bytes", stat.rx_bytes);
		add(port, "tx_frames", stat.tx_frames);
		add(port, "tx_bytes", stat.tx_bytes);
		for (int i = 0; i < SPW_PORT_DROP_CNT; i++)
			add_as(port, "dropped", spw_port_drop_name((enum spw_port_drop)i), stat.dropped[i]);
		for (int i = 0; i < SPW_PORT_ERR_CNT; i++)
			add_as(port, "error", spw_port_err_name((enum spw_port_err)i), stat.err[i]);
		rte_tel_data_add_dict_container(d, app->port[p]->name, port, 0);
	}
}

/* Live, the edges differ by what is under way: the residual is for the summary only. */
static void ledger_dict(struct app *app, const char *params SPW_UNUSED, struct rte_tel_data *d)
{
	static struct app_result res; /* under lock */
	const char *name;
	uint64_t cnt;

	app_result_gather(app, NULL, &res);
	add(d, "wire", res.sum.wire);
	if (res.sum.missed_known)
		add(d, "missed", res.sum.missed);
	add(d, "received", res.sum.received);
	add(d, "executed", res.sum.executed);
	add(d, "echoed", res.sum.echoed);
	add(d, "consumed", res.sum.consumed);
	add(d, "bad", res.sum.bad);
	for (uint32_t i = 0; (name = spw_ledger_drop(&res.ledger, i, &cnt)); i++)
		add(d, name, cnt);
	add(d, "pool_slots", res.ledger.pool_slots);
	add(d, "pool_free", res.ledger.pool_free);
}

static void latency_dict(struct app *app, const char *params SPW_UNUSED, struct rte_tel_data *d)
{
	const struct spw_rec_view *view = app_view_lock();

	for (int s = 0; view && s < SPW_STAGE_CNT; s++) {
		struct rte_tel_data *stage;
		struct spw_rec_row row;

		spw_rec_row(view, (enum spw_stage)s, true, &app->tsc, 0, &row);
		if (!row.count || !(stage = rte_tel_data_alloc()))
			continue;
		rte_tel_data_start_dict(stage);
		add(stage, "count", row.count);
		for (int p = 0; p < SPW_HIST_POINT_CNT; p++)
			if (row.answer[p] == SPW_HIST_VALUE)
				add(stage, spw_hist_point_name((enum spw_hist_point)p), row.value_ns[p]);
		add(stage, "uncertainty", row.uncertainty_ns);
		rte_tel_data_add_dict_container(d, row.stage, stage, 0);
	}
	app_view_unlock();
}

/* Ticks of every regime and what came of them, one dictionary an lcore. */
static void lcores_dict(struct app *app, const char *params SPW_UNUSED, struct rte_tel_data *d)
{
	for (uint32_t i = 0; i < app->lcore_cnt; i++) {
		const struct app_lcore *lc = app->lcore[i];
		struct rte_tel_data *lcore = rte_tel_data_alloc();
		char name[16];

		if (!lcore)
			return;
		snprintf(name, sizeof(name), "%u", lc->lcore_id);
		rte_tel_data_start_dict(lcore);
		rte_tel_data_add_dict_string(lcore, "port", app->port[lc->port]->name);
		add(lcore, "queue", lc->queue);
		add(lcore, "frames", spw_thr_load_rlx(&lc->pipe.ledger.polled_frames));
		add(lcore, "turn_max_ns", spw_tsc_to_ns(&app->tsc, spw_thr_load_rlx(&lc->pipe.rec.turn_max_tsc)));
		for (int r = 0; r < SPW_REGIME_CNT; r++)
			add(lcore, spw_regime_name((enum spw_regime)r), spw_thr_load_rlx(&lc->pipe.rec.regime_tsc[r]));
		rte_tel_data_add_dict_container(d, name, lcore, 0);
	}
}

/* Of the frames above --slow-threshold, and what held the loops up, as of the last second. */
static void causes_dict(struct app *app, const char *params SPW_UNUSED, struct rte_tel_data *d)
{
	const struct spw_rec_view *view = app_view_lock();

	for (int c = 0; view && c < SPW_CAUSE_CNT; c++)
		add(d, spw_cause_name((enum spw_cause)c), view->causes.frames[c]);
	for (int h = 0; view && h < SPW_HOLD_CNT; h++) {
		add_as(d, "held_times", spw_hold_name((enum spw_hold)h), view->held.cnt[h]);
		add_as(d, "held_ns", spw_hold_name((enum spw_hold)h), spw_tsc_to_ns(&app->tsc, view->held.sum_tsc[h]));
	}
	app_view_unlock();
}

static void info_dict(struct app *app, const char *params SPW_UNUSED, struct rte_tel_data *d)
{
	rte_tel_data_add_dict_string(d, "version", SPW_VERSION);
	rte_tel_data_add_dict_string(d, "executor", spw_exec_kind_name(app->exec_kind));
	rte_tel_data_add_dict_string(d, "handler", app->handler->name);
	add(d, "running_ms", spw_tsc_to_ns(&app->tsc, spw_tsc_now() - app->start_tsc) / 1000000);
	add(d, "tsc_hz", app->tsc.hz);
}

/* Values up to 1, 2 and 5 times each power of ten, cumulative, as monitoring systems want them; to within a bucket. */
static void histogram_dict(const struct spw_hist *hist, const struct spw_tsc *tsc, struct rte_tel_data *d)
{
	static const uint64_t step[] = {1, 2, 5};
	uint64_t below = 0, bucket = 0;
	struct spw_hist_summary sum;

	for (uint64_t ten = 100; ten <= 1000000000; ten *= 10) {
		for (uint32_t i = 0; i < SPW_ARRAY_CNT(step); i++) {
			uint64_t limit = SPW_MIN(spw_tsc_from_ns(tsc, ten * step[i]), SPW_HIST_VALUE_MAX);
			char name[24];

			for (; bucket <= spw_hist_bucket(limit); bucket++)
				below += hist->count[bucket];
			snprintf(name, sizeof(name), "le_%lu_ns", (unsigned long)(ten * step[i]));
			add(d, name, below);
		}
	}
	spw_hist_summary(hist, 0, &sum);
	add(d, "count", sum.count);
	add(d, "sum_ns", spw_tsc_to_ns(tsc, (uint64_t)(sum.mean * (double)sum.count)));
}

/* Of the stage that was asked for; nothing without one. */
static void stage_dict(struct app *app, const char *stage, struct rte_tel_data *d)
{
	const struct spw_rec_view *view = app_view_lock();

	for (int s = 0; view && stage && s < SPW_STAGE_CNT; s++)
		if (!strcmp(stage, spw_stage_name((enum spw_stage)s)))
			histogram_dict(&view->total[s], &app->tsc, d);
	app_view_unlock();
}

static const struct {
	const char *name, *help;
	void (*fill)(struct app *app, const char *params, struct rte_tel_data *d);
} command[] = {
	{"/spinwire/info", "What runs here. Takes no parameters.", info_dict},
	{"/spinwire/ports", "Counters of every port. Takes no parameters.", ports_dict},
	{"/spinwire/ledger", "Where every frame is. Takes no parameters.", ledger_dict},
	{"/spinwire/lcores", "Ticks of every lcore by regime. Takes no parameters.", lcores_dict},
	{"/spinwire/latency", "Stages of the last second, in ns. Takes no parameters.", latency_dict},
	{"/spinwire/causes", "Slow frames by cause, and what held the loops up. Takes no parameters.", causes_dict},
	{"/spinwire/histogram", "A stage since start, cumulative. Parameter: the stage's name.", stage_dict},
};

static int answer(const char *cmd, const char *params, struct rte_tel_data *d)
{
	rte_tel_data_start_dict(d);
	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; live && i < SPW_ARRAY_CNT(command); i++)
		if (!strcmp(cmd, command[i].name))
			command[i].fill(live, params, d);
	pthread_mutex_unlock(&lock);
	return 0;
}

int app_telemetry_open(struct app *app)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < SPW_ARRAY_CNT(command); i++)
		rc = rte_telemetry_register_cmd(command[i].name, answer, command[i].help);
	if (rc < 0)
		return spw_err(-rc, "telemetry commands cannot be registered: %s", strerror(-rc));
	pthread_mutex_lock(&lock);
	live = app;
	pthread_mutex_unlock(&lock);
	return 0;
}

void app_telemetry_close(void)
{
	pthread_mutex_lock(&lock);
	live = NULL;
	pthread_mutex_unlock(&lock);
}
