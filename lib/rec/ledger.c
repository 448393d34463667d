/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The balance of spw_ledger.h: sums both sides of each edge and takes the differences. Called for
 * the summary after stop, live for telemetry, and by every test that moves frames.
 *
 * Who counts what, along a frame's way:
 *
 *   wire ──> port ──lent──> pipe ──polled──> executor ──executed──> pipe ──tx──> port ──> sent
 *             │ missed        │ ring_full                             │ tx_full    │ flushed
 *             │ dropped       │ stopping, exec_lost                   │ tx_down
 *             v               v unmoved                               v consumed, bad
 *
 * Each arrow is an edge: what the part on its left counted minus what the part on its right
 * counted. No part reads a counter of its neighbour, so an error of one of them appears as a
 * difference. The residual sums absolute values: a frame too many here must not hide a frame too
 * few there.
 *
 * While the lcores run, the counters are sampled one after the other, so edges of a live ledger
 * differ by the frames that were under way; only the balance after stop must be 0.
 */
#include "rec/spw_ledger.h"

enum side { SIDE_RX, SIDE_TX };

#define DROP_ROW(prefix, name, side, text) {#name, SIDE_##side},

static const struct {
	const char *name;
	enum side side;
} drop_table[SPW_DROP_CNT] = {SPW_DROP_LIST(DROP_ROW, )};

static const struct spw_enum_word edge_word[] = {SPW_ENUM_WORDS(SPW_EDGE)};

const char *spw_edge_name(enum spw_edge edge)
{
	return SPW_ENUM_NAME(edge_word, edge);
}

const char *spw_edge_text(enum spw_edge edge)
{
	return SPW_ENUM_TEXT(edge_word, edge);
}

/* Adds one pipe's counters. Relaxed loads: the pipe may be running. */
void spw_ledger_add_lcore(struct spw_ledger *ledger, const struct spw_ledger_lcore *lcore)
{
	struct spw_ledger_lcore *sum = &ledger->pipe;

	sum->polled_frames += spw_thr_load_rlx(&lcore->polled_frames);
	sum->polled_bytes += spw_thr_load_rlx(&lcore->polled_bytes);
	sum->pushed_batches += spw_thr_load_rlx(&lcore->pushed_batches);
	sum->pushed_frames += spw_thr_load_rlx(&lcore->pushed_frames);
	sum->reaped_batches += spw_thr_load_rlx(&lcore->reaped_batches);
	sum->reaped_frames += spw_thr_load_rlx(&lcore->reaped_frames);
	sum->consumed_frames += spw_thr_load_rlx(&lcore->consumed_frames);
	sum->bad_frames += spw_thr_load_rlx(&lcore->bad_frames);
	sum->unmoved_frames += spw_thr_load_rlx(&lcore->unmoved_frames);
	sum->tx_frames += spw_thr_load_rlx(&lcore->tx_frames);
	for (uint32_t i = 0; i < SPW_DROP_CNT; i++)
		sum->dropped[i] += spw_thr_load_rlx(&lcore->dropped[i]);
}

void spw_ledger_add_reasons(struct spw_ledger_reasons *reasons, const char *const *name,
			    const uint64_t *count, uint32_t cnt)
{
	reasons->name = name;
	reasons->cnt = SPW_MIN(cnt, SPW_LEDGER_REASON_MAX);
	for (uint32_t i = 0; i < reasons->cnt; i++)
		reasons->count[i] += count[i];
}

static uint64_t reasons_sum(const struct spw_ledger_reasons *reasons)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < reasons->cnt; i++)
		sum += reasons->count[i];
	return sum;
}

/* The pipe's own drops of one side: before the executor (RX) or after it (TX). */
static uint64_t drops_of(const struct spw_ledger_lcore *pipe, enum side side)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < SPW_DROP_CNT; i++)
		sum += drop_table[i].side == side ? pipe->dropped[i] : 0;
	return sum;
}

/* Stores one difference and adds its magnitude to the residual; unsigned arithmetic, as counters
 * may wrap. */
static void edge_set(struct spw_ledger_sum *sum, enum spw_edge edge, uint64_t left, uint64_t right)
{
	int64_t diff = (int64_t)(left - right);

	sum->edge[edge] = diff;
	sum->residual += diff < 0 ? 0 - (uint64_t)diff : (uint64_t)diff;
}

/* tx_flushed is the only TX drop that the port counts itself (flushed_frames): it had taken the
 * frames. All others were refused by the port and counted by the pipe. */
void spw_ledger_balance(const struct spw_ledger *ledger, struct spw_ledger_sum *sum_out)
{
	const struct spw_ledger_lcore *pipe = &ledger->pipe;
	uint64_t port_dropped = reasons_sum(&ledger->port_dropped),
		 rx_dropped = drops_of(pipe, SIDE_RX);
	uint64_t flushed = ledger->flushed_frames, refused = drops_of(pipe, SIDE_TX);
	uint64_t tx_dropped = refused + flushed, bad = reasons_sum(&ledger->bad);

	*sum_out = (struct spw_ledger_sum){
		.wire = ledger->wire_frames,
		.missed = ledger->missed_frames,
		.missed_known = ledger->missed_known,
		.received = ledger->lent_frames + port_dropped,
		.executed = ledger->executed_frames + pipe->unmoved_frames,
		.echoed = ledger->sent_frames,
		.consumed = pipe->consumed_frames + pipe->unmoved_frames,
		.bad = bad,
		.dropped = port_dropped + rx_dropped + tx_dropped,
		.tx_dropped = tx_dropped,
		.leaked = (int64_t)(ledger->pool_slots - ledger->pool_free),
	};
	edge_set(sum_out, SPW_EDGE_wire, ledger->wire_frames,
		 ledger->missed_frames + sum_out->received);
	edge_set(sum_out, SPW_EDGE_received, ledger->lent_frames, pipe->polled_frames);
	edge_set(sum_out, SPW_EDGE_executed,
		 pipe->polled_frames - rx_dropped - pipe->unmoved_frames, ledger->executed_frames);
	edge_set(sum_out, SPW_EDGE_verdict, ledger->executed_frames,
		 pipe->tx_frames + refused + pipe->consumed_frames + pipe->bad_frames);
	edge_set(sum_out, SPW_EDGE_bad, pipe->bad_frames, bad);
	edge_set(sum_out, SPW_EDGE_sent, pipe->tx_frames, ledger->sent_frames + flushed);
	if (ledger->fate.cnt)
		edge_set(sum_out, SPW_EDGE_placed, ledger->executed_frames + pipe->unmoved_frames,
			 reasons_sum(&ledger->fate) + ledger->plain_frames -
				 pipe->dropped[SPW_DROP_exec_lost]);
}

/* One list of reasons for tables and JSON: first the drivers', then the pipe's. */
const char *spw_ledger_drop(const struct spw_ledger *ledger, uint32_t idx, uint64_t *count_out)
{
	const struct spw_ledger_reasons *port = &ledger->port_dropped;

	if (idx < port->cnt) {
		*count_out = port->count[idx];
		return port->name[idx];
	}
	idx -= port->cnt;
	if (idx >= SPW_DROP_CNT)
		return NULL;
	*count_out = ledger->pipe.dropped[idx] +
		     (idx == SPW_DROP_tx_flushed ? ledger->flushed_frames : 0);
	return drop_table[idx].name;
}
