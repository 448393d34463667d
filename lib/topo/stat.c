/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What a topology reports: events, recorder intervals, and the ledger, whose sides are gathered
 * here, each from the part that counted it (ports, pipes, executor, pools). Nobody above this file
 * reads a pipe's counters itself.
 */
#include <string.h>

#include "topo.h"

#define FATE_NAME(prefix, name, text) #name,

/* ---- lanes ---- */

/* One event a call, the first lane's first: the caller loops until there is none. */
bool spw_topo_event(struct spw_topo *topo, struct spw_topo_lane **lane_out,
		    struct spw_port_event *event_out)
{
	for (uint32_t i = 0; i < topo->lane_cnt; i++) {
		if (spw_pipe_event(&topo->lane[i]->pipe, event_out)) {
			*lane_out = topo->lane[i];
			return true;
		}
	}
	return false;
}

void spw_topo_collect(struct spw_topo *topo, struct spw_rec_view *view)
{
	spw_rec_view_interval(view);
	spw_topo_collect_more(topo, view);
}

/* Within an interval: for a caller that looks more often than once a second. */
void spw_topo_collect_more(struct spw_topo *topo, struct spw_rec_view *view)
{
	spw_rec_view_round(view);
	for (uint32_t i = 0; i < topo->lane_cnt; i++)
		spw_pipe_collect(&topo->lane[i]->pipe, view);
}

/* After the lcores have ended: takes what their recorders still hold. */
void spw_topo_collect_rest(struct spw_topo *topo, struct spw_rec_view *view)
{
	spw_rec_view_interval(view);
	for (uint32_t i = 0; i < topo->lane_cnt; i++)
		spw_pipe_collect_rest(&topo->lane[i]->pipe, view);
}

bool spw_topo_ended(const struct spw_topo *topo, uint32_t lane_cnt)
{
	for (uint32_t i = 0; i < lane_cnt; i++)
		if (!spw_pipe_ended(&topo->lane[i]->pipe))
			return false;
	return true;
}

uint64_t spw_topo_frames(const struct spw_topo *topo)
{
	uint64_t frames = 0;

	for (uint32_t i = 0; i < topo->lane_cnt; i++)
		frames += spw_thr_load_rlx(&topo->lane[i]->pipe.ledger.polled_frames);
	return frames;
}

/* ---- the ledger ---- */

/* A port that does not count its misses makes the sum unknown. */
static void topo_add_ports(struct spw_topo *topo, struct spw_topo_stat *out)
{
	static const char *name[SPW_PORT_DROP_CNT];
	struct spw_ledger *ledger = &out->ledger;

	for (int i = 0; i < SPW_PORT_DROP_CNT; i++)
		name[i] = spw_port_drop_name((enum spw_port_drop)i);
	ledger->missed_known = true;
	for (uint32_t p = 0; p < topo->port_cnt; p++) {
		struct spw_port_stat *stat = &out->port[p];

		spw_port_stat(topo->port[p], stat);
		ledger->wire_frames += stat->wire_frames;
		ledger->missed_frames += stat->missed_frames;
		ledger->missed_known &= stat->missed_known;
		ledger->lent_frames += stat->rx_frames;
		ledger->sent_frames += stat->tx_frames;
		ledger->flushed_frames += stat->tx_flushed;
		out->port_copies += stat->port_copies;
		spw_ledger_add_reasons(&ledger->port_dropped, name, stat->dropped,
				       SPW_PORT_DROP_CNT);
	}
}

/* Descriptors of fill moves were executed and are no frames. */
static void topo_add_objects(const struct spw_topo_lane *lane, const struct spw_pipe_summary *pipe,
			     struct spw_topo_stat *out)
{
	struct spw_ledger *ledger = &out->ledger;
	static const char *const name[] = {SPW_OBJ_FATE_LIST(FATE_NAME, )};
	struct spw_obj_count count;

	if (!lane->stream.obj) {
		ledger->plain_frames += pipe->ledger.pushed_frames;
		return;
	}
	spw_obj_stat(lane->stream.obj, &count);
	spw_ledger_add_reasons(&ledger->fate, name, count.frames, SPW_OBJ_FATE_CNT);
	out->exec.frames -= pipe->fill_frames;
}

/* The pool's count is read while its owner writes it: one load is enough for a report. */
static void topo_add_lane(const struct spw_topo_lane *lane, struct spw_topo_stat *out)
{
	struct spw_ledger *ledger = &out->ledger;
	static const char *name[SPW_BAD_CNT];
	struct spw_pipe_summary pipe;

	for (int r = 0; r < SPW_BAD_CNT; r++)
		name[r] = spw_bad_name((enum spw_bad)r);
	spw_pipe_summary(&lane->pipe, &pipe);
	spw_ledger_add_reasons(&ledger->bad, name, pipe.bad, SPW_BAD_CNT);
	spw_ledger_add_lcore(ledger, &pipe.ledger);
	topo_add_objects(lane, &pipe, out);
	ledger->pool_slots += lane->pool.slot_cnt;
	ledger->pool_free += spw_thr_load_rlx(&lane->pool.free_cnt);
}

/* Device and reason are those of the first backend; counters are sums. */
void topo_exec_stat(struct spw_topo *topo, struct spw_exec_stat *stat_out)
{
	struct spw_exec_stat one;

	spw_exec_stat(topo->backend[0].exec, stat_out);
	for (uint32_t w = 1; w < topo->backend_cnt; w++) {
		spw_exec_stat(topo->backend[w].exec, &one);
		stat_out->batches += one.batches;
		stat_out->frames += one.frames;
		stat_out->relaunched += one.relaunched;
		stat_out->kernel_launches += one.kernel_launches;
		stat_out->faults += one.faults;
		stat_out->flushes += one.flushes;
		stat_out->h2d_copies += one.h2d_copies;
	}
}

/* During a run the edges of the ledger differ by what is under way; after spw_topo_stop they must
 * not. */
void spw_topo_stat(struct spw_topo *topo, struct spw_topo_stat *stat_out)
{
	memset(stat_out, 0, sizeof(*stat_out));
	topo_add_ports(topo, stat_out);
	topo_exec_stat(topo, &stat_out->exec);
	for (uint32_t i = 0; i < topo->lane_cnt; i++)
		topo_add_lane(topo->lane[i], stat_out);
	stat_out->ledger.executed_frames = stat_out->exec.frames;
	spw_ledger_balance(&stat_out->ledger, &stat_out->sum);
}

const struct spw_handler *topo_lane_handler(const struct spw_topo *topo, uint32_t lane)
{
	const struct spw_handler *own = topo->conf.lane[lane].handler;

	return own ? own : topo->conf.exec.handler;
}

/* Lane i uses ring i of every backend. */
int spw_topo_handler_read(const struct spw_topo *topo, const struct spw_handler *handler,
			  uint64_t *digest_out, void *sum_out)
{
	int rc = 0;

	*digest_out = 0;
	for (uint32_t w = 0; w < topo->backend_cnt && rc == 0; w++) {
		struct spw_exec *exec = topo->backend[w].exec;

		for (uint32_t i = 0; i < topo->lane_cnt; i++)
			if (topo_lane_handler(topo, i) == handler)
				*digest_out += spw_gring_digest(spw_exec_ring(exec, (uint16_t)i));
		rc = sum_out ? spw_exec_counters_add(exec, handler, sum_out) : 0;
	}
	*digest_out &= SPW_GRING_VALUE_MASK;
	return rc;
}
