/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * --record: a flight recorder for each lane (flight/spw_flight.h), and when its file is written.
 * Called by topology.c, by control.c once a millisecond, and by main after the stop.
 *
 *   rule       fires when                                             written
 *   request    SIGUSR1, or telemetry's /spinwire/record               at once
 *   fault      a device is gone, a queue failed, the executor cannot  at once, before the stop
 *              go on
 *   slow       a slow frame is the longest so far                     once a second at most
 *   ledger     at the end the ledger does not balance                 at the end
 *   end        none of these fired, or --record-rule end (no slow)    at the end
 *
 * The file always holds what led to the last of these: it is replaced as a whole. A fault's file is
 * not replaced by a slow frame's.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app.h"
#include "base/spw_err.h"
#include "base/spw_log.h"
#include "flight/spw_flight.h"

#define SLOW_NS 1000000000ull /* between two files that slow frames ask for */

enum rule { RULE_NONE, RULE_END, RULE_SLOW, RULE_LEDGER, RULE_REQUEST, RULE_FAULT };

static const char *const rule_name[] = {
	[RULE_NONE] = "none",     [RULE_END] = "end",         [RULE_SLOW] = "slow",
	[RULE_LEDGER] = "ledger", [RULE_REQUEST] = "request", [RULE_FAULT] = "fault"};

struct app_record {
	struct spw_flight flight[SPW_TOPO_LANE_MAX]; /* by lane */
	uint64_t slow_tsc,
		slow_last_tsc;   /* the longest of the last file, and when it was asked for */
	enum rule wanted, asked; /* asked: the owners have been asked to freeze */
	enum rule last;          /* of the last file */
	uint32_t written;
};

static uint32_t requested; /* by the signal's handler, or by telemetry; any thread */

static void record_on_signal(int number SPW_UNUSED)
{
	spw_thr_store_rlx(&requested, 1);
}

/* Called by the telemetry thread, so it only sets the flag: control writes the file. */
void app_record_request(void)
{
	spw_thr_store_rlx(&requested, 1);
}

int app_record_open(struct app *app)
{
	const struct sigaction action = {.sa_handler = record_on_signal, .sa_flags = SA_RESTART};
	const struct spw_topo_conf *tc = &app->topo_conf;
	int rc = 0;

	if (!app->conf.run.record[0])
		return 0;
	if (!app->conf.run.stamps)
		return spw_err(EINVAL, "--record needs stamps: leave out --stamps no");
	app->record = aligned_alloc(2 * SPW_CACHE_LINE,
				    SPW_ALIGN_UP(sizeof(*app->record), 2 * (size_t)SPW_CACHE_LINE));
	if (!app->record)
		return spw_err(ENOMEM, "no memory for the recorders");
	memset(app->record, 0, sizeof(*app->record));
	for (uint32_t i = 0; rc == 0 && i < tc->lane_cnt; i++)
		rc = spw_flight_open(&app->record->flight[i], app->conf.run.record_memory,
				     (uint32_t)app->conf.run.record_snap, tc->lane[i].numa_node);
	app->topo_conf.pipe.flight = app->record->flight;
	app->topo_conf.pipe.flight_raw = app->conf.run.record_cqes;
	sigaction(SIGUSR1, &action, NULL);
	return rc < 0 ? spw_err_ctx(rc, "--record-memory") : 0;
}

void app_record_close(struct app *app)
{
	for (uint32_t i = 0; app->record && i < SPW_TOPO_LANE_MAX; i++)
		spw_flight_close(&app->record->flight[i]);
	free(app->record);
	app->record = NULL;
}

/* ---- the file ---- */

static void record_lane_fill(const struct app *app, uint32_t i, struct spw_flight_lane *out)
{
	const struct spw_topo_lane *lane = app->topo.lane[i];

	memset(out, 0, sizeof(*out));
	spw_pipe_flight_lane(&lane->pipe, out);
	snprintf(out->port, sizeof(out->port), "%s", lane->port->name);
	for (uint32_t w = 0; w < app->topo.backend_cnt; w++)
		snprintf(out->backend[w].exec, sizeof(out->backend[w].exec), "%s",
			 app->topo.backend[w].name);
	snprintf(out->handler, sizeof(out->handler), "%.63s",
		 app_handler_of(app, i)->handler->name);
	if (strchr(app_handler_of(app, i)->spec, '/'))
		snprintf(out->plugin, sizeof(out->plugin), "%s", app_handler_of(app, i)->spec);
}

/* Known only after the stop: while the run is on the ports are ahead of the pipes. */
static void record_ports_fill(struct spw_flight_ports *out, const struct spw_topo_stat *stat)
{
	const struct spw_ledger *ledger = &stat->ledger;

	out->wire = ledger->wire_frames;
	out->missed = ledger->missed_frames;
	out->missed_known = ledger->missed_known;
	out->lent = ledger->lent_frames;
	out->sent = ledger->sent_frames;
	out->flushed = ledger->flushed_frames;
	for (uint32_t i = 0; i < SPW_PORT_DROP_CNT; i++)
		out->dropped[i] = ledger->port_dropped.count[i];
	out->pool_slots = ledger->pool_slots;
	out->pool_free = ledger->pool_free;
	out->known = 1;
}

/* stat: the final counters; NULL while the run is on. */
static int record_file_write(struct app *app, enum rule rule, const struct spw_topo_stat *stat)
{
	struct spw_flight_lane *lane = calloc(app->topo.lane_cnt, sizeof(*lane));
	struct spw_flight *flight[SPW_TOPO_LANE_MAX];
	struct spw_flight_file file = {.lane_cnt = app->topo.lane_cnt,
				       .tsc_hz = app->tsc.hz,
				       .slow_ns = app->conf.run.slow_ns,
				       .from_tsc = app->start_tsc};
	int rc;

	if (!lane)
		return spw_err(ENOMEM, "no memory for the recording's file");
	for (uint32_t i = 0; i < app->topo.lane_cnt; i++) {
		record_lane_fill(app, i, &lane[i]);
		flight[i] = &app->record->flight[i];
	}
	if (stat)
		record_ports_fill(&file.ports, stat);
	snprintf(file.why, sizeof(file.why), "%s", rule_name[rule]);
	rc = spw_flight_write(flight, lane, &file,
			      spw_tsc_from_ns(&app->tsc, app->conf.run.record_window_ns),
			      app->conf.run.record);
	free(lane);
	app->record->last = rc ? app->record->last : rule;
	app->record->written += rc == 0;
	return rc;
}

/* ---- while the run is on ---- */

/* Only the wish is noted: app_record_turn or app_record_end writes the file. */
void app_record_fault(struct app *app)
{
	if (app->record)
		app->record->wanted = RULE_FAULT;
}

/* A longer slow frame than that of the last file. */
static bool record_slow_fired(struct app *app)
{
	struct app_record *record = app->record;
	uint64_t now = spw_tsc_now(), most = 0;

	if (app->conf.run.record_rule == SPW_CONF_RECORD_END)
		return false;
	for (uint32_t i = 0; i < app->topo.lane_cnt; i++)
		most = SPW_MAX(most, spw_thr_load_rlx(&record->flight[i].worst_tsc));
	if (most <= record->slow_tsc || record->last == RULE_FAULT ||
	    now - record->slow_last_tsc < spw_tsc_from_ns(&app->tsc, SLOW_NS))
		return false;
	record->slow_tsc = most;
	record->slow_last_tsc = now;
	return true;
}

static void record_ask(struct app *app)
{
	struct app_record *record = app->record;

	if (spw_thr_load_rlx(&requested)) {
		spw_thr_store_rlx(&requested, 0);
		record->wanted = SPW_MAX(record->wanted, RULE_REQUEST);
	}
	if (record->wanted == RULE_NONE && record_slow_fired(app))
		record->wanted = RULE_SLOW;
	record->asked = record->wanted;
	record->wanted = RULE_NONE;
	for (uint32_t i = 0; record->asked && i < app->topo.lane_cnt; i++)
		spw_flight_ask(&record->flight[i]);
}

/* A lane that has ended grants nothing, and does not write either. */
static bool record_all_granted(const struct app *app)
{
	for (uint32_t i = 0; i < app->topo.lane_cnt; i++)
		if (!spw_flight_is_granted(&app->record->flight[i])) {
			if (!spw_pipe_ended(&app->topo.lane[i]->pipe))
				return false;
			spw_flight_freeze(&app->record->flight[i]);
		}
	return true;
}

/* One step in each turn: ask, or wait until every lane has frozen, then write and give back. */
void app_record_turn(struct app *app)
{
	struct app_record *record = app->record;

	if (!record)
		return;
	if (!record->asked)
		record_ask(app);
	if (!record->asked || !record_all_granted(app))
		return;
	if (record_file_write(app, record->asked, NULL) < 0)
		spw_warn("%s", spw_err_text());
	else
		spw_info("%s is written: %s", app->conf.run.record, rule_name[record->asked]);
	for (uint32_t i = 0; i < app->topo.lane_cnt; i++)
		spw_flight_return(&record->flight[i]);
	record->asked = RULE_NONE;
}

/* After the lanes have ended nothing moves any more: the whole ring is the window. */
int app_record_end(struct app *app, const struct spw_topo_stat *stat)
{
	struct app_record *record = app->record;
	bool unbalanced = stat->sum.residual || stat->sum.leaked;
	enum rule rule = record && record->asked ? record->asked : RULE_NONE;

	if (!record || app->hung)
		return 0;
	/* enum rule is in the order of weight: the strongest reason names the file. */
	rule = SPW_MAX(rule, record->wanted);
	if (spw_thr_load_rlx(&requested))
		rule = SPW_MAX(rule, RULE_REQUEST);
	if (unbalanced && rule != RULE_FAULT)
		rule = RULE_LEDGER;
	if (!rule && (!record->written || app->conf.run.record_rule == SPW_CONF_RECORD_END))
		rule = RULE_END;
	if (!rule)
		return 0;
	for (uint32_t i = 0; i < app->topo.lane_cnt; i++)
		spw_flight_freeze(&record->flight[i]);
	return record_file_write(app, rule, stat);
}

void app_record_print(const struct app *app)
{
	const struct app_record *record = app->record;
	uint64_t missed = 0;

	if (!record)
		return;
	for (uint32_t i = 0; i < app->topo.lane_cnt; i++)
		missed += spw_thr_load_rlx(&record->flight[i].missed_cnt);
	printf("\nrecording  %s: written %u times, last for: %s", app->conf.run.record,
	       record->written, rule_name[record->last]);
	if (missed)
		printf("; %" PRIu64 " segments were not recorded while it was written", missed);
	printf("\n");
}
