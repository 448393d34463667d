/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Runs the lanes of a recording one after the other and adds up what they report: the recorders'
 * views as spinwire does, the ledger from the pipes that ran again, the executor's words and, of a
 * run that had ended, the ports' own counters.
 *
 * replay.c calls app_replay_open, which does all of it, and asks for the results. Lanes are
 * independent, as they were when they ran: each has its own pipe, and no order between them is
 * kept.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "exec/spw_handler.h"
#include "port/spw_port_raw.h"
#include "replay.h"

/* Counts are added; of the first difference the earliest lane's is kept. */
static void replay_sum_add(struct spw_replay_result *sum, const struct spw_replay_result *one,
			   bool first)
{
	if (!sum->raw_differs)
		memcpy(sum->raw_first, one->raw_first, sizeof(sum->raw_first));
	if (!sum->verdict_first[0])
		memcpy(sum->verdict_first, one->verdict_first, sizeof(sum->verdict_first));
	for (size_t i = 0; i < SPW_ARRAY_CNT(sum->count); i++)
		sum->count[i] += one->count[i];
	sum->from_tsc = first ? one->from_tsc : SPW_MIN(sum->from_tsc, one->from_tsc);
	sum->to_tsc = SPW_MAX(sum->to_tsc, one->to_tsc);
	sum->from_start = (first || sum->from_start) && one->from_start;
	sum->ended = (first || sum->ended) && one->ended;
}

/* The pipe's counters are read after its lane has run, so they are those of the whole window. */
static int replay_lane_run(struct replay *replay, uint32_t i)
{
	static const char *bad_name[SPW_BAD_CNT];
	struct spw_ledger *ledger = &replay->result.topo.ledger;
	struct spw_pipe_summary pipe;
	int rc = spw_replay_open(&replay->file.lane[i], &replay->lane[i]);

	if (!rc && replay->handler)
		rc = spw_replay_handler(replay->lane[i], replay->handler);
	rc = rc ? rc : spw_replay_run(replay->lane[i]);
	if (rc)
		return rc;
	for (int r = 0; r < SPW_BAD_CNT; r++)
		bad_name[r] = spw_bad_name((enum spw_bad)r);
	replay_sum_add(&replay->sum, spw_replay_result(replay->lane[i]), i == 0);
	spw_pipe_summary(spw_replay_pipe(replay->lane[i]), &pipe);
	spw_ledger_add_lcore(ledger, &pipe.ledger);
	spw_ledger_add_reasons(&ledger->bad, bad_name, pipe.bad, SPW_BAD_CNT);
	ledger->executed_frames += spw_replay_executed(replay->lane[i]);
	spw_pipe_collect_rest(spw_replay_pipe(replay->lane[i]), replay->view);
	return 0;
}

/* The ports' side, as they counted it. While a run is on the ports and the executor are ahead of
 * the pipes, so there is no balance; the pipes' side then stands for the ports' too. */
static void replay_ports_take(struct replay *replay)
{
	static const char *name[SPW_PORT_DROP_CNT];
	const struct spw_flight_ports *ports = &replay->file.file->ports;
	struct spw_ledger *ledger = &replay->result.topo.ledger;

	for (int i = 0; i < SPW_PORT_DROP_CNT; i++)
		name[i] = spw_port_drop_name((enum spw_port_drop)i);
	ledger->wire_frames = ports->wire;
	ledger->missed_frames = ports->missed;
	ledger->missed_known = ports->missed_known;
	ledger->lent_frames = ports->lent;
	ledger->sent_frames = ports->sent;
	ledger->flushed_frames = ports->flushed;
	ledger->pool_slots = ports->pool_slots;
	ledger->pool_free = ports->pool_free;
	spw_ledger_add_reasons(&ledger->port_dropped, name, ports->dropped, SPW_PORT_DROP_CNT);
	if (!ports->known) {
		/* The pipes' side on both: these edges then balance by themselves. */
		ledger->wire_frames = ledger->lent_frames = ledger->pipe.polled_frames;
		ledger->sent_frames = ledger->pipe.tx_frames;
		ledger->missed_known = false;
	}
	spw_ledger_balance(ledger, &replay->result.topo.sum);
}

/* Only what a report prints of a recording; the rest stays zero. */
static void replay_result_fill(struct replay *replay)
{
	const struct spw_rec_view *view = replay->view;
	struct app_result *res = &replay->result;

	replay_ports_take(replay);
	res->seconds =
		(double)spw_tsc_to_ns(&replay->app.tsc, replay->sum.to_tsc - replay->sum.from_tsc) *
		1e-9;
	res->causes = view->causes;
	res->worst_cnt = view->worst_cnt;
	memcpy(res->worst, view->worst, view->worst_cnt * sizeof(view->worst[0]));
	res->held = view->held;
}

/* Without payload in the file there is nothing to run it on. */
static int replay_handler_open(struct replay *replay, const char *given)
{
	const struct spw_flight_lane *lane = replay->file.lane[0].conf;

	if (given && !lane->snap_bytes)
		return spw_err(EINVAL, "--handler: the recording has no payload: it was made "
				       "without --record-snap");
	if (given)
		return spw_handler_open(given, &replay->handler);
	if (!lane->snap_bytes || lane->plugin[0])
		return 0;
	replay->handler = spw_handler_find(lane->handler);
	return replay->handler
		       ? 0
		       : spw_err(ENOENT,
				 "handler %s of the recording is not built in: name the one "
				 "to run with --handler",
				 lane->handler);
}

/* What was opened before an error is closed by app_replay_close. */
int app_replay_open(struct replay *replay, const char *path, const char *handler)
{
	int rc = spw_flight_read_open(path, &replay->file);

	if (rc)
		return rc;
	rc = replay_handler_open(replay, handler);
	if (rc)
		return rc;
	replay->app.conf.run.slow_ns = replay->file.file->slow_ns;
	rc = spw_tsc_from_hz(replay->file.file->tsc_hz, &replay->app.tsc);
	replay->view = aligned_alloc(_Alignof(struct spw_rec_view), sizeof(*replay->view));
	if (!rc && !replay->view)
		rc = spw_err(ENOMEM, "no memory for what the recorders collect");
	if (!rc)
		spw_rec_view_init(replay->view);
	for (uint32_t i = 0; !rc && i < replay->file.file->lane_cnt; i++)
		rc = replay_lane_run(replay, i);
	if (rc)
		return spw_err_ctx(rc, "%s", path);
	replay_result_fill(replay);
	return 0;
}

void app_replay_close(struct replay *replay)
{
	for (uint32_t i = 0; i < SPW_FLIGHT_LANE_MAX; i++)
		spw_replay_close(replay->lane[i]);
	spw_handler_close(replay->handler);
	free(replay->view);
	spw_flight_read_close(&replay->file);
}

/* Digests count like verdicts: the handler may differ without one. */
uint64_t app_replay_differs(const struct replay *replay)
{
	return replay->sum.since_differs + replay->sum.cause_differs + replay->sum.ledger_differs +
	       replay->sum.raw_differs + replay->sum.verdict_differs + replay->sum.digest_differs;
}

bool app_replay_has_cqes(const struct replay *replay)
{
	struct spw_port_raw_shape shape;
	bool has = false;

	for (uint32_t i = 0; i < replay->file.file->lane_cnt; i++) {
		memcpy(&shape, replay->file.lane[i].conf->raw_shape, sizeof(shape));
		has |= shape.kind != SPW_PORT_RAW_NONE;
	}
	return has;
}

/* A file that was written while the run was on has no counters of the ports. */
bool app_replay_is_whole(const struct replay *replay)
{
	return replay->file.file->ports.known && replay->sum.ended;
}
