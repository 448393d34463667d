/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The loss ledger: every frame that reached the wire side of a port is accounted for, and each side
 * of each equation comes from a counter of its own.
 *
 *   edge      left side                       right side
 *   --------  ------------------------------  ---------------------------------------------------
 *   wire      port: wire count                port: missed (if known) + lent + dropped by driver
 *   received  port: lent                      pipe: polled
 *   executed  pipe: polled - dropped by pipe  executor: its own frame counts
 *             - decided by the lcore alone
 *   verdict   executor: its own frame counts  pipe: handed to TX + dropped at TX + consumed + bad
 *   bad       pipe: verdict bits              executor: its own count by reason
 *   sent      pipe: handed to TX              port: sent by the device's count, + flushed
 *   placed    executor: its own frame counts  frames of every fate (obj/spw_obj.h) + those of lanes
 *             + decided by the lcore alone      without objects - lost in the executor
 *   pool      slots                           free after stop
 *
 * The residual is the sum of the absolute differences of all edges but the pool's, so that two
 * errors never cancel; the pool's difference is `leaked`. A counter that a source does not have is
 * unknown: it is printed as such, and its edge is then drawn without it.
 *
 * This file depends on neither ports nor executors: their reasons come as tables of names and
 * counts.
 */
#ifndef SPW_LEDGER_H
#define SPW_LEDGER_H

#include "base/spw_enum.h"
#include "base/spw_order.h"
#include "base/spw_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Frames dropped by the pipe or (tx_flushed) by the port, which counts those. name, side, meaning.
 * Side RX: lent and never executed. Side TX: executed and should have been echoed. The slot is
 * returned in both cases. */
#define SPW_DROP_LIST(X, P)                                                                \
	X(P, ring_full, RX,                                                                \
	  "executor ring had no free batch: the executor is slower than the port")         \
	X(P, stopping, RX, "received while stopping, not handed over")                     \
	X(P, exec_lost, RX, "pushed, but the executor ended without a verdict")            \
	X(P, tx_full, TX, "transmit ring had no room for the echo")                        \
	X(P, tx_down, TX, "echo wanted, but the port cannot transmit or its link is down") \
	X(P, tx_flushed, TX, "taken by the port and not sent: its send queue failed, or it stopped")

enum spw_drop { SPW_ENUM(SPW_DROP) };

#define SPW_LEDGER_REASON_MAX 16u

/* The pipe's side, one per lcore; the owner adds with spw_ledger_add, anyone may sample. */
struct spw_ledger_lcore {
	uint64_t polled_frames, polled_bytes; /* lent by rx_burst */
	uint64_t pushed_batches, pushed_frames;
	uint64_t reaped_batches, reaped_frames;
	uint64_t consumed_frames; /* verdicts, counted at reap */
	uint64_t bad_frames;
	/* Of objects, with nothing to move: recycled without the executor. Printed as executed and
	 * consumed. */
	uint64_t unmoved_frames;
	uint64_t tx_frames; /* taken by tx_burst */
	uint64_t dropped[SPW_DROP_CNT];
} SPW_ALIGNED(2 * SPW_CACHE_LINE);

/* Purpose: adds n to one of the owner's counters; a sampling thread never reads a torn value.
 * Thread:  owner. */
#define spw_ledger_add(counter, n) spw_thr_count((counter), (n))

/* Counters by reason of another part. name has cnt entries and outlives the ledger. */
struct spw_ledger_reasons {
	const char *const *name;
	uint64_t count[SPW_LEDGER_REASON_MAX];
	uint32_t cnt; /* 0 .. SPW_LEDGER_REASON_MAX */
};

/* Sums over all ports, lcores and rings; taken after stop for a verdict, or live for telemetry (the
 * edges then differ by what is under way). Start from zeroed memory. */
struct spw_ledger {
	/* the ports' side */
	uint64_t wire_frames, missed_frames;
	bool missed_known; /* false if one port does not count them */
	uint64_t lent_frames;
	uint64_t sent_frames, flushed_frames; /* of the frames that tx_burst took */
	struct spw_ledger_reasons port_dropped;
	/* the executor's side */
	uint64_t executed_frames;
	struct spw_ledger_reasons bad; /* by reason, as the executor counted them */
	/* the objects' side, cnt 0: no lane has objects */
	struct spw_ledger_reasons fate;
	uint64_t plain_frames; /* handed over by lanes without objects */
	/* the pipe's side */
	struct spw_ledger_lcore pipe;
	/* the pool's side */
	uint64_t pool_slots, pool_free;
};

/* Purpose: adds one lcore's counters, which may be live (spw_pipe_summary samples them).
 * Thread:  any. */
void spw_ledger_add_lcore(struct spw_ledger *ledger, const struct spw_ledger_lcore *lcore);

/* Purpose: adds one source's counts by reason.
 * Shape:   name is the same array at every call; cnt <= SPW_LEDGER_REASON_MAX, the rest is ignored.
 * Thread:  any. */
void spw_ledger_add_reasons(struct spw_ledger_reasons *reasons, const char *const *name,
			    const uint64_t *count, uint32_t cnt);

/* name, meaning */
#define SPW_EDGE_LIST(X, P)                                                                  \
	X(P, wire, "port's wire count against missed + lent + dropped by the driver")        \
	X(P, received, "frames lent by the port against frames polled by the pipe")          \
	X(P, executed, "frames polled and not dropped against the executor's own count")     \
	X(P, verdict, "executor's own count against echoes, TX drops, consumed and bad")     \
	X(P, bad, "bad verdicts counted by the pipe against the executor's count by reason") \
	X(P, sent, "frames handed to TX against the port's sent and flushed counts")         \
	X(P, placed, "executor's own count against frames that objects took or refused")

enum spw_edge { SPW_ENUM(SPW_EDGE) };

/* Purpose: the edge's name and meaning as printed. Shape: edge below SPW_EDGE_CNT. Thread: any. */
const char *spw_edge_name(enum spw_edge edge);
const char *spw_edge_text(enum spw_edge edge);

/* The ledger as it is printed. */
struct spw_ledger_sum {
	uint64_t wire, missed;
	bool missed_known;
	uint64_t received; /* lent + dropped by the driver */
	uint64_t executed, echoed, consumed, bad;
	uint64_t dropped;           /* all reasons: driver, pipe before the executor, pipe at TX */
	uint64_t tx_dropped;        /* the TX part of it */
	int64_t edge[SPW_EDGE_CNT]; /* left - right */
	uint64_t residual;          /* sum of |edge| */
	int64_t leaked;             /* slots - free */
};

/* Purpose: draws the balance.
 * Thread:  any. */
void spw_ledger_balance(const struct spw_ledger *ledger, struct spw_ledger_sum *sum_out);

/* Purpose: the idx-th drop reason of all, the drivers' first, then the pipe's, for tables and JSON:
 *          for (i = 0; (name = spw_ledger_drop(ledger, i, &n)); i++)
 * Returns: NULL after the last.
 * Thread:  any. */
const char *spw_ledger_drop(const struct spw_ledger *ledger, uint32_t idx, uint64_t *count_out);

#ifdef __cplusplus
}
#endif
#endif
