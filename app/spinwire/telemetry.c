/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Live numbers on DPDK's telemetry socket: /spinwire/info, /spinwire/ports, /spinwire/rails,
 * /spinwire/handlers, /spinwire/objects, /spinwire/ledger, /spinwire/lcores, /spinwire/latency,
 * /spinwire/causes, /spinwire/histogram, /spinwire/record, /spinwire/rules, /spinwire/rule_add,
 * /spinwire/rule_remove. Opened and closed by control.c around a
 * run. EAL calls back in its own thread: everything read here is a counter that its owner writes
 * with one store, or a view under its lock. DPDK cannot unregister a command, so `live` is NULL
 * between runs.
 *
 * A value has the name of the JSON summary (share/schema/summary.json), its path joined by '_':
 * held.lost.sum_ns is "held_lost_sum_ns".
 *
 * Source: rte_telemetry.h; names hold letters, digits, '_' and '/' only.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <rte_telemetry.h>

#include "app.h"
#include "base/spw_err.h"
#include "base/spw_log.h"
#include "live/dict.h"

/* Places of all tables of handlers in an answer: DPDK sends 16 KiB, and 256 of a dictionary. */
#define HANDLER_PLACES 160u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct app *live; /* NULL: not running; under lock, since commands cannot be unregistered */

/* A dictionary with the counters of a port, or of one of its rails; NULL without memory. */
static struct rte_tel_data *dict_add_port(const struct spw_port *port,
					  const struct spw_port_stat *stat)
{
	struct rte_tel_data *dict = app_dict_new();

	if (!dict)
		return NULL;
	app_dict_add_text(dict, "name", port->name);
	app_dict_add_text(dict, "driver", port->driver->name);
	app_dict_add(dict, "rx_frames", stat->rx_frames);
	app_dict_add(dict, "rx_bytes", stat->rx_bytes);
	app_dict_add(dict, "tx_frames", stat->tx_frames);
	app_dict_add(dict, "tx_bytes", stat->tx_bytes);
	if (stat->link_bps)
		app_dict_add(dict, "link_bps", stat->link_bps);
	if (stat->retransmits_known)
		app_dict_add(dict, "retransmits", stat->retransmits);
	for (int i = 0; i < SPW_PORT_DROP_CNT; i++)
		app_dict_add_as(dict, "dropped", spw_port_drop_name((enum spw_port_drop)i),
				stat->dropped[i]);
	for (int i = 0; i < SPW_PORT_ERR_CNT; i++)
		app_dict_add_as(dict, "errors", spw_port_err_name((enum spw_port_err)i),
				stat->err[i]);
	return dict;
}

/* Ports by number: DPDK refuses the characters of a PCI address as a name. */
static void ports_dict(struct app *app, const char *params SPW_UNUSED, struct rte_tel_data *d)
{
	for (uint32_t p = 0; p < app->topo.port_cnt; p++) {
		struct rte_tel_data *port;
		struct spw_port_stat stat;
		char number[16];

		spw_port_stat(app->topo.port[p], &stat);
		if (!(port = dict_add_port(app->topo.port[p], &stat)))
			return;
		snprintf(number, sizeof(number), "%u", p);
		app_dict_add_dict(d, number, port);
	}
}

/* Rails by the numbers of port and rail, "0_1"; a port that is not made of rails has none here. */
static void rails_dict(struct app *app, const char *params SPW_UNUSED, struct rte_tel_data *d)
{
	for (uint32_t p = 0; p < app->topo.port_cnt; p++) {
		struct spw_port_rail rail[SPW_PORT_RAIL_MAX];
		const uint32_t cnt = spw_port_rails(app->topo.port[p], rail);

		for (uint32_t r = 0; r < cnt; r++) {
			struct rte_tel_data *dict = dict_add_port(rail[r].port, &rail[r].stat);
			char number[24];

			if (!dict)
				return;
			app_dict_add(dict, "wire", rail[r].stat.wire_frames);
			if (rail[r].stat.missed_known)
				app_dict_add(dict, "missed", rail[r].stat.missed_frames);
			app_dict_add(dict, "late", rail[r].late);
			app_dict_add(dict, "duplicate", rail[r].duplicate);
			app_dict_add(dict, "moved", rail[r].moved);
			app_dict_add(dict, "outages", rail[r].outages);
			app_dict_add(dict, "tx_flushed", rail[r].stat.tx_flushed);
			snprintf(number, sizeof(number), "%u_%u", p, r);
			app_dict_add_dict(d, number, dict);
		}
	}
}

/* A table's sum, what it is indexed by, its largest places, and how many are left out:
 * "sum_syns", "by_syns", "top_syns_443", "left_out_syns". */
static void dict_add_counter(struct rte_tel_data *dict, const struct spw_handler_counter *c,
			     const void *block, uint32_t max)
{
	const uint64_t *value = (const uint64_t *)((const char *)block + c->offset);
	uint32_t at[HANDLER_PLACES], used, cnt;
	uint64_t sum;
	char key[80];

	cnt = spw_handler_counter_top(c, value, max, at, &sum, &used);
	app_dict_add_as(dict, c->index ? "sum" : "count", c->name, sum);
	if (!c->index)
		return;
	snprintf(key, sizeof(key), "by_%.40s", c->name);
	app_dict_add_text(dict, key, c->index);
	for (uint32_t k = 0; k < cnt; k++) {
		snprintf(key, sizeof(key), "top_%.40s_%" PRIu64, c->name, c->first + at[k]);
		app_dict_add(dict, key, value[at[k]]);
	}
	app_dict_add_as(dict, "left_out", c->name, used - cnt);
}

static uint32_t handlers_tables(const struct app *app)
{
	uint32_t cnt = 0;

	for (uint32_t i = 0; i < app->handler_cnt; i++) {
		const struct spw_handler_state *state = app->handler[i].handler->state;

		for (const struct spw_handler_counter *c = state ? state->counter : NULL;
		     c && c->name; c++)
			cnt += c->index != NULL;
	}
	return cnt;
}

/* By number; a counter that DPDK has no room for is counted as refused. */
static void handlers_dict(struct app *app, const char *params SPW_UNUSED, struct rte_tel_data *d)
{
	const uint32_t max = HANDLER_PLACES / SPW_MAX(handlers_tables(app), 1u);

	for (uint32_t i = 0; i < app->handler_cnt; i++) {
		const struct spw_handler_state *state = app->handler[i].handler->state;
		const struct spw_handler_counter *c = state ? state->counter : NULL;
		struct rte_tel_data *dict = app_dict_new();
		char ports[128], number[16];
		uint64_t digest;
		const void *block = app_handler_read(app, i, &digest);

		if (!dict)
			return;
		app_dict_add_text(dict, "name", app->handler[i].name);
		app_dict_add_text(dict, "ports", app_handler_ports(app, i, ports, sizeof(ports)));
		app_dict_add(dict, "digest", digest);
		for (; block && c && c->name; c++)
			dict_add_counter(dict, c, block, max);
		snprintf(number, sizeof(number), "%u", i);
		app_dict_add_dict(d, number, dict);
	}
}

/* Streams of objects by number, and where a consumer finds them: descriptors that it opens through
 * /proc/PID/fd. */
static void objects_dict(struct app *app, const char *params SPW_UNUSED, struct rte_tel_data *d)
{
	for (uint32_t i = 0; i < app->topo.lane_cnt; i++) {
		const struct spw_topo_lane *lane = app->topo.lane[i];
		const struct spw_region *region = &app->topo.region[lane->stream.region];
		struct rte_tel_data *dict = lane->stream.obj ? app_dict_new() : NULL;
		const struct spw_pipe_objects_slow *slow = spw_pipe_objects_slow(&lane->pipe);
		struct spw_obj_count count;
		char number[16];

		if (!dict)
			continue;
		spw_obj_stat(lane->stream.obj, &count);
		app_dict_add_text(dict, "name", lane->stream.page->name);
		app_dict_add_text(dict, "kind", spw_mem_kind_name(region->kind));
		app_dict_add_path(dict, "config", app->conf_file);
		app_dict_add_path(dict, "description", app->object_files[lane->conf.port]);
		app_dict_add(dict, "pid", (uint64_t)getpid());
		app_dict_add(dict, "page_fd", (uint64_t)lane->stream.page_fd);
		app_dict_add(dict, "page_bytes", lane->stream.page_bytes);
		app_dict_add(dict, "memory_fd", (uint64_t)region->shared_fd);
		app_dict_add(dict, "memory_bytes", region->bytes);
		for (int s = 0; s < SPW_OBJ_STATE_CNT; s++)
			app_dict_add_as(dict, "states", app_objects_state_name(s),
					count.objects[s]);
		for (int c = 0; c < SPW_OBJ_CAUSE_CNT; c++)
			app_dict_add_as(dict, "causes", app_objects_cause_name(c), count.causes[c]);
		for (int c = 0; c < SPW_OBJ_SLOW_CNT; c++)
			app_dict_add_as(dict, "slow", spw_obj_slow_name((enum spw_obj_slow)c),
					spw_thr_load_rlx(&slow->objects[c]));
		snprintf(number, sizeof(number), "%u", i);
		app_dict_add_dict(d, number, dict);
	}
}

/* Live, the edges differ by what is under way: the residual is for the summary only. */
static void ledger_dict(struct app *app, const char *params SPW_UNUSED, struct rte_tel_data *d)
{
	static struct app_result res; /* under lock */
	const char *name;
	uint64_t cnt;

	app_result_gather(app, NULL, &res);
	app_dict_add(d, "wire", res.topo.sum.wire);
	if (res.topo.sum.missed_known)
		app_dict_add(d, "missed", res.topo.sum.missed);
	app_dict_add(d, "received", res.topo.sum.received);
	app_dict_add(d, "executed", res.topo.sum.executed);
	app_dict_add(d, "echoed", res.topo.sum.echoed);
	app_dict_add(d, "consumed", res.topo.sum.consumed);
	app_dict_add(d, "bad", res.topo.sum.bad);
	for (uint32_t i = 0; (name = spw_ledger_drop(&res.topo.ledger, i, &cnt)); i++)
		app_dict_add_as(d, "dropped", name, cnt);
	app_dict_add(d, "pool_slots", res.topo.ledger.pool_slots);
	app_dict_add(d, "pool_free", res.topo.ledger.pool_free);
}

/* Of the last second, unlike causes and histogram, which are of the whole run. */
static void latency_dict(struct app *app, const char *params SPW_UNUSED, struct rte_tel_data *d)
{
	const struct spw_rec_view *view = app_view_lock();

	for (int s = 0; view && s < SPW_STAGE_CNT; s++) {
		struct rte_tel_data *stage;
		struct spw_rec_row row;

		spw_rec_row(view, (enum spw_stage)s, true, &app->tsc, 0, &row);
		if (!row.count || !(stage = app_dict_new()))
			continue;
		app_dict_add(stage, "count", row.count);
		for (int p = 0; p < SPW_HIST_POINT_CNT; p++)
			if (row.answer[p] == SPW_HIST_VALUE)
				app_dict_add_ns(stage, spw_hist_point_name((enum spw_hist_point)p),
						row.value_ns[p]);
		app_dict_add_ns(stage, "uncertainty", row.uncertainty_ns);
		app_dict_add_dict(d, row.stage, stage);
	}
	app_view_unlock();
}

/* Ticks of every regime and the frames polled, one dictionary per lcore. */
static void lcores_dict(struct app *app, const char *params SPW_UNUSED, struct rte_tel_data *d)
{
	for (uint32_t i = 0; i < app->topo.lane_cnt; i++) {
		const struct spw_topo_lane *lane = app->topo.lane[i];
		struct rte_tel_data *lcore = app_dict_new();
		struct spw_pipe_summary pipe;
		char name[16];

		if (!lcore)
			return;
		spw_pipe_summary(&lane->pipe, &pipe);
		snprintf(name, sizeof(name), "%u", lane->conf.lcore_id);
		app_dict_add_text(lcore, "port", lane->port->name);
		app_dict_add(lcore, "queue", lane->conf.queue);
		app_dict_add(lcore, "frames", pipe.ledger.polled_frames);
		app_dict_add(lcore, "turn_max_ns", spw_tsc_to_ns(&app->tsc, pipe.turn_max_tsc));
		for (int r = 0; r < SPW_REGIME_CNT; r++)
			app_dict_add_as(lcore, spw_regime_name((enum spw_regime)r), "tsc",
					pipe.regime_tsc[r]);
		app_dict_add_dict(d, name, lcore);
	}
}

/* Causes of the frames above --slow-threshold, and what delayed the loops, as of the last second.
 */
static void causes_dict(struct app *app, const char *params SPW_UNUSED, struct rte_tel_data *d)
{
	const struct spw_rec_view *view = app_view_lock();

	for (int c = 0; view && c < SPW_CAUSE_CNT; c++)
		app_dict_add(d, spw_cause_name((enum spw_cause)c), view->causes.frames[c]);
	for (int h = 0; view && h < SPW_HOLD_CNT; h++) {
		char held[32];

		snprintf(held, sizeof(held), "held_%s", spw_hold_name((enum spw_hold)h));
		app_dict_add_as(d, held, "times", view->held.cnt[h]);
		app_dict_add_as(d, held, "sum_ns", spw_tsc_to_ns(&app->tsc, view->held.sum_tsc[h]));
	}
	app_view_unlock();
}

/* With --slo the executor is the one in use now; all lanes are asked for the same. */
static void info_dict(struct app *app, const char *params SPW_UNUSED, struct rte_tel_data *d)
{
	char names[256];
	uint16_t burst;
	const uint32_t backend = spw_pipe_backend(&app->topo.lane[0]->pipe, &burst);

	app_dict_add_text(d, "version", SPW_VERSION);
	app_dict_add_text(d, "executor", app->topo.backend[backend].name);
	app_dict_add_text(d, "handler", app_handlers_names(app, names, sizeof(names)));
	app_dict_add(d, "running_ms",
		     spw_tsc_to_ns(&app->tsc, spw_tsc_now() - app->start_tsc) / 1000000);
	app_dict_add(d, "tsc_hz", app->tsc.hz);
}

/* Values up to 1, 2 and 5 times each power of ten, cumulative, as monitoring systems want them; to
 * within a bucket. */
static void histogram_dict(const struct spw_hist *hist, const struct spw_tsc *tsc,
			   struct rte_tel_data *d)
{
	static const uint64_t step[] = {1, 2, 5};
	uint64_t below = 0, bucket = 0;
	struct spw_hist_summary sum;

	for (uint64_t ten = 100; ten <= 1000000000; ten *= 10) {
		for (uint32_t i = 0; i < SPW_ARRAY_CNT(step); i++) {
			uint64_t limit =
				SPW_MIN(spw_tsc_from_ns(tsc, ten * step[i]), SPW_HIST_VALUE_MAX);
			char name[24];

			for (; bucket <= spw_hist_bucket(limit); bucket++)
				below += hist->count[bucket];
			snprintf(name, sizeof(name), "le_%lu_ns", (unsigned long)(ten * step[i]));
			app_dict_add(d, name, below);
		}
	}
	spw_hist_summary(hist, 0, &sum);
	app_dict_add(d, "count", sum.count);
	app_dict_add(d, "sum_ns", spw_tsc_to_ns(tsc, (uint64_t)(sum.mean * (double)sum.count)));
}

/* The histogram of the stage named by the parameter; nothing without one. */
static void stage_dict(struct app *app, const char *stage, struct rte_tel_data *d)
{
	const struct spw_rec_view *view = app_view_lock();

	for (int s = 0; view && stage && s < SPW_STAGE_CNT; s++)
		if (!strcmp(stage, spw_stage_name((enum spw_stage)s)))
			histogram_dict(&view->total[s], &app->tsc, d);
	app_view_unlock();
}

/* Asks for the recording's file; the control thread writes it. */
static void record_dict(struct app *app, const char *params SPW_UNUSED, struct rte_tel_data *d)
{
	if (!app->record)
		return;
	app_record_request();
	app_dict_add_text(d, "file", app->conf.run.record);
}

static const struct {
	const char *name, *help;
	void (*fill)(struct app *app, const char *params, struct rte_tel_data *d);
} command[] = {
	{"/spinwire/info", "What runs here. Takes no parameters.", info_dict},
	{"/spinwire/ports", "Counters of every port, by number. Takes no parameters.", ports_dict},
	{"/spinwire/rails", "Counters of the rails of every port. Takes no parameters.",
	 rails_dict},
	{"/spinwire/handlers", "What handlers counted, by number. Takes no parameters.",
	 handlers_dict},
	{"/spinwire/objects",
	 "Streams of objects, and where consumers find them. Takes no parameters.", objects_dict},
	{"/spinwire/ledger", "Where every frame is. Takes no parameters.", ledger_dict},
	{"/spinwire/lcores", "Ticks of every lcore by regime. Takes no parameters.", lcores_dict},
	{"/spinwire/latency", "Stages of the last second, in ns. Takes no parameters.",
	 latency_dict},
	{"/spinwire/causes",
	 "Slow frames by cause, and what held the loops up. Takes no parameters.", causes_dict},
	{"/spinwire/histogram", "A stage since start, cumulative. Parameter: the stage's name.",
	 stage_dict},
	{"/spinwire/rules", "Flow rules of every port, and their frames. Takes no parameters.",
	 app_rules_dict},
	{"/spinwire/rule_add", "Adds a flow rule. Parameters: the port's number, udp=N or tcp=N.",
	 app_rule_add_dict},
	{"/spinwire/rule_remove", "Removes a flow rule. Parameters: as rule_add.",
	 app_rule_remove_dict},
	{"/spinwire/record", "Writes the file of --record now. Takes no parameters.", record_dict},
};

/* For every command: the fill function runs under the lock, so the run cannot end meanwhile. */
static int telemetry_answer(const char *cmd, const char *params, struct rte_tel_data *d)
{
	rte_tel_data_start_dict(d);
	pthread_mutex_lock(&lock);
	app_dict_refused = 0;
	for (uint32_t i = 0; live && i < SPW_ARRAY_CNT(command); i++)
		if (!strcmp(cmd, command[i].name))
			command[i].fill(live, params, d);
	if (app_dict_refused)
		spw_warn("telemetry: %u values of %s are left out: DPDK did not take them",
			 app_dict_refused, cmd);
	pthread_mutex_unlock(&lock);
	return 0;
}

/* Commands are registered before `live` is set: until then an answer is empty. */
int app_telemetry_open(struct app *app)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < SPW_ARRAY_CNT(command); i++)
		rc = rte_telemetry_register_cmd(command[i].name, telemetry_answer, command[i].help);
	if (rc < 0)
		return spw_err(-rc, "telemetry commands cannot be registered: %s", strerror(-rc));
	pthread_mutex_lock(&lock);
	live = app;
	pthread_mutex_unlock(&lock);
	return 0;
}

/* After this returns no command reads the run any more. */
void app_telemetry_close(void)
{
	pthread_mutex_lock(&lock);
	live = NULL;
	pthread_mutex_unlock(&lock);
}
