/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The recorder of one lcore: where its ticks went (regimes) and how long its batches took, stage by stage.
 *
 *   NIC stamp ─ polled ─ pushed ─ exec start ─ exec end ─ reaped ─ sent (or recycled)
 *
 * Stamps are ticks; a stamp that ends a stage also ends a regime, so that a turn of the loop that moves a batch through
 * reads the clock four times (after rx, push, reap, and tx or refill) and an idle turn once. A batch of n frames is one
 * record of weight n per stage. Everything is allocated before; a record is a few instructions and no division.
 *
 * Executor and NIC stamps are translated by a clock map with a stated uncertainty (time/spw_time.h). The chain is kept in
 * order: an executor that starts before push has returned ends the push there; what lies outside [polled, reaped] by
 * more than the uncertainty is counted in out_of_order and cut off. Stages therefore sum to the whole, exactly.
 *
 * Variants: `flags` below is a constant at every call, so a body that passes 0 has no trace of the recorder.
 *
 * Threads: "owner" is the lcore; "reader" is the one thread that collects intervals (telemetry); "setup" is main before
 * start and after stop.
 */
#ifndef SPW_REC_H
#define SPW_REC_H

#include "base/spw_order.h"
#include "base/spw_types.h"
#include "hist/spw_hist.h"
#include "time/spw_time.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Constant flags of a variant. */
enum spw_rec_flag {
	SPW_REC_ON         = 1u << 0, /* regimes and stages; without it every call is nothing */
	SPW_REC_EXEC_CLOCK = 1u << 1, /* executor stamps come from another clock: translate them */
};

/* name, meaning */
#define SPW_STAGE_LIST(X)                                                                                              \
	X(nic_polled, "NIC stamp to burst returned")                                                                   \
	X(polled_pushed, "burst returned to pushed, or to executor start if that came first")                          \
	X(pushed_start, "pushed to executor start")                                                                    \
	X(start_end, "executor start to executor end")                                                                 \
	X(end_reaped, "executor end to reaped")                                                                        \
	X(reaped_sent, "reaped to sent or recycled")                                                                   \
	X(polled_sent, "burst returned to sent or recycled: the whole")

enum spw_stage {
#define X(name, text) SPW_STAGE_##name,
	SPW_STAGE_LIST(X)
#undef X
	SPW_STAGE_CNT
};

/* Every tick of an lcore belongs to exactly one. name, meaning */
#define SPW_REGIME_LIST(X)                                                                                             \
	X(idle_poll, "polled and found nothing, nothing to reap either")                                               \
	X(rx, "rx_burst that brought frames")                                                                          \
	X(push, "handing batches to the executor; with the inline executor, running them")                             \
	X(reap, "looking for finished batches")                                                                        \
	X(tx, "tx_burst")                                                                                              \
	X(refill, "release_burst")                                                                                     \
	X(housekeeping, "events, heartbeat, telemetry")

enum spw_regime {
#define X(name, text) SPW_REGIME_##name,
	SPW_REGIME_LIST(X)
#undef X
	SPW_REGIME_CNT
};

const char *spw_stage_name(enum spw_stage stage);
const char *spw_regime_name(enum spw_regime regime);

/* The stamps of one batch, ticks except where said. */
struct spw_rec_stamps {
	uint64_t polled, pushed;
	uint64_t exec_start, exec_end; /* executor clock */
	uint64_t reaped, sent;         /* sent: tx_burst or release_burst returned */
};

/* A batch kept whole. */
struct spw_rec_worst {
	struct spw_rec_stamps at; /* executor stamps translated to ticks, the chain in order */
	uint64_t seq;             /* as the executor ring numbers it */
	uint64_t turn_tsc;        /* length of the loop turn before the one that polled it */
	uint32_t cnt;             /* frames */
	uint32_t in_exec_frames;  /* in the executor when it was recorded */
};
#define SPW_REC_WORST_CNT 16u

struct spw_rec_bank {
	struct spw_hist stage[SPW_STAGE_CNT];
	struct spw_rec_worst worst[SPW_REC_WORST_CNT]; /* a heap: [0] is the least of them; valid: worst_cnt */
	uint64_t worst_floor;                          /* a whole longer than this is taken in */
	uint32_t worst_cnt;
};

struct spw_rec {
	/* owner */
	uint64_t last_tsc;                       /* end of the regime before */
	struct spw_rec_bank *bank;               /* the one being written */
	uint64_t out_of_order;                   /* batches whose executor stamps lay outside [polled, reaped] */
	uint64_t turn_start_tsc, turn_tsc;       /* of the turn that runs, length of the one before */
	uint64_t turn_max_tsc;
	uint64_t turns;
	uint64_t start_tsc;
	uint64_t regime_tsc[SPW_REGIME_CNT];
	struct spw_clock_map exec_map, nic_map;
	uint64_t exec_unc, nic_unc;              /* in ticks, renewed with the maps */
	struct spw_hist_flip flip;
	struct spw_rec_bank bank_of[2] SPW_ALIGNED(2 * SPW_CACHE_LINE);
} SPW_ALIGNED(2 * SPW_CACHE_LINE);

/* Purpose: an empty recorder whose clocks are the CPU's own. Shape: rec aligned to 128 bytes, about 0.5 MiB, on the
 *          lcore's NUMA node; every page is touched. Owner: the caller. Thread: setup. */
void spw_rec_init(struct spw_rec *rec);

/* Purpose: the clock starts: everything from now on is attributed. Thread: owner, once, before the loop. */
void spw_rec_begin(struct spw_rec *rec);

/* Purpose: takes over newer clock maps, where the boxes (NULL: leave as it is) have one. Thread: owner, in
 *          housekeeping. */
void spw_rec_clocks(struct spw_rec *rec, struct spw_clock_box *exec_box, struct spw_clock_box *nic_box);

/* Purpose: the ticks since the last mark belong to regime. Returns: now, the stamp for the batch; 0 without SPW_REC_ON.
 * Thread: owner. Cost: one clock read. */
SPW_INLINE uint64_t spw_rec_mark(const unsigned int flags, struct spw_rec *rec, enum spw_regime regime)
{
	uint64_t now;

	if (!(flags & SPW_REC_ON))
		return 0;
	now = spw_tsc_now();
	spw_thr_count(&rec->regime_tsc[regime], now - rec->last_tsc);
	spw_thr_store_rlx(&rec->last_tsc, now);
	return now;
}

/* Purpose: a turn of the loop ends here; call it after the turn's last mark. Thread: owner. No clock read. */
SPW_INLINE void spw_rec_turn(const unsigned int flags, struct spw_rec *rec)
{
	if (!(flags & SPW_REC_ON))
		return;
	rec->turn_tsc = rec->last_tsc - rec->turn_start_tsc;
	rec->turn_start_tsc = rec->last_tsc;
	if (spw_unlikely(rec->turn_tsc > rec->turn_max_tsc))
		spw_thr_store_rlx(&rec->turn_max_tsc, rec->turn_tsc);
	spw_thr_count(&rec->turns, 1);
}

/* Private to spw_rec_batch: takes a batch into the worst list; counts and cuts off what lies outside the chain. */
void spw_rec_worst_take(struct spw_rec *rec, const struct spw_rec_stamps *at, uint64_t seq, uint32_t cnt,
			uint32_t in_exec_frames) SPW_COLD;
void spw_rec_order_keep(struct spw_rec *rec, struct spw_rec_stamps *at) SPW_COLD;

/* Purpose: records a finished batch of cnt frames. Shape: all stamps set; polled <= pushed <= reaped <= sent.
 * seq and in_exec_frames only travel into the worst list. Thread: owner. */
SPW_INLINE void spw_rec_batch(const unsigned int flags, struct spw_rec *rec, const struct spw_rec_stamps *stamps,
			      uint64_t seq, uint32_t cnt, uint32_t in_exec_frames)
{
	struct spw_rec_bank *bank = rec->bank;
	struct spw_rec_stamps at = *stamps;

	if (!(flags & SPW_REC_ON))
		return;
	if (flags & SPW_REC_EXEC_CLOCK) {
		at.exec_start = spw_clock_map_ref(&rec->exec_map, at.exec_start);
		at.exec_end = spw_clock_map_ref(&rec->exec_map, at.exec_end);
	}
	if (spw_unlikely(at.exec_start < at.polled || at.exec_end < at.exec_start || at.exec_end > at.reaped))
		spw_rec_order_keep(rec, &at);
	at.pushed = SPW_MIN(at.pushed, at.exec_start);
	spw_hist_record(&bank->stage[SPW_STAGE_polled_pushed], at.pushed - at.polled, cnt);
	spw_hist_record(&bank->stage[SPW_STAGE_pushed_start], at.exec_start - at.pushed, cnt);
	spw_hist_record(&bank->stage[SPW_STAGE_start_end], at.exec_end - at.exec_start, cnt);
	spw_hist_record(&bank->stage[SPW_STAGE_end_reaped], at.reaped - at.exec_end, cnt);
	spw_hist_record(&bank->stage[SPW_STAGE_reaped_sent], at.sent - at.reaped, cnt);
	spw_hist_record(&bank->stage[SPW_STAGE_polled_sent], at.sent - at.polled, cnt);
	if (spw_unlikely(at.sent - at.polled > bank->worst_floor))
		spw_rec_worst_take(rec, &at, seq, cnt, in_exec_frames);
}

/* Purpose: one frame's way from the NIC's stamp to the poll that brought it. Shape: polled in ticks. A stamp that lies
 *          after polled by more than the uncertainty is counted in out_of_order. Thread: owner. */
SPW_INLINE void spw_rec_nic(struct spw_rec *rec, uint64_t nic_stamp, uint64_t polled)
{
	int64_t took = (int64_t)(polled - spw_clock_map_ref(&rec->nic_map, nic_stamp));

	if (spw_unlikely(took < 0)) {
		if (took + (int64_t)rec->nic_unc < 0)
			spw_thr_count(&rec->out_of_order, 1);
		took = 0;
	}
	spw_hist_record(&rec->bank->stage[SPW_STAGE_nic_polled], (uint64_t)took, 1);
}

/* Purpose: obeys a reader that asked for the interval. Thread: owner, in housekeeping. */
void spw_rec_flip(struct spw_rec *rec);

/* ---- reading --------------------------------------------------------------------------------------- */

/* What a reader has collected of one recorder, or of several one after the other. About 0.5 MiB. */
struct spw_rec_view {
	struct spw_hist total[SPW_STAGE_CNT];    /* since start */
	struct spw_hist interval[SPW_STAGE_CNT]; /* the last interval that was collected; cleared by spw_rec_view_interval */
	struct spw_rec_worst worst[SPW_REC_WORST_CNT]; /* longest first */
	uint32_t worst_cnt;
	uint64_t regime_tsc[SPW_REGIME_CNT];     /* sums over recorders, as of the last collect */
	uint64_t elapsed_tsc;
	uint64_t out_of_order, turns, turn_max_tsc;
	uint64_t exec_unc, nic_unc;              /* the largest, ticks */
};

void spw_rec_view_init(struct spw_rec_view *view);
/* Purpose: begins a new interval and forgets the sums that spw_rec_collect adds up (regimes, turns). Thread: reader. */
void spw_rec_view_interval(struct spw_rec_view *view);
/* Purpose: takes the interval that the owner has put aside, if it is ready, adds it to view, and asks for the next one.
 *          Regimes and counters are sampled live. Returns: false if the owner has not flipped since the last call.
 * Thread: reader; the same one for a recorder's whole life, until the owner has ended. */
bool spw_rec_collect(struct spw_rec *rec, struct spw_rec_view *view);
/* Purpose: the same after the owner has ended: takes both banks. Thread: setup. */
void spw_rec_collect_rest(struct spw_rec *rec, struct spw_rec_view *view);

/* One row of the latency table. */
struct spw_rec_row {
	const char *stage;
	uint64_t count;                           /* frames */
	uint64_t value_ns[SPW_HIST_POINT_CNT];    /* where answer is SPW_HIST_VALUE */
	enum spw_hist_answer answer[SPW_HIST_POINT_CNT];
	uint64_t uncertainty_ns;                  /* of the clocks in it; the bucket's 0.8 % comes on top */
};

/* Purpose: a histogram of ticks as a row of nanoseconds. lost_cnt frames count as longer than any (0 if none).
 * Thread: any. */
void spw_rec_row(const struct spw_rec_view *view, enum spw_stage stage, bool interval, const struct spw_tsc *tsc,
		 uint64_t lost_cnt, struct spw_rec_row *row_out);

#ifdef __cplusplus
}
#endif
#endif
