/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The recorder of one lcore: where its ticks went (regimes), how long its frames took, stage by stage, and why the slow
 * ones were slow.
 *
 *   NIC stamp ─ polled ─ pushed ─ exec start ─ exec end ─ reaped ─ sent (or recycled)
 *
 * Stamps are ticks; a stamp that ends a stage also ends a regime, so that a turn of the loop that moves a batch through
 * reads the clock four times (after rx, push, reap, and tx or refill) and an idle turn once. Where push itself runs the
 * batch, the poll's reading is the executor's start and its end is the end of push and of reap, and two readings do. A batch of n frames is one
 * record of weight n per stage; only what starts at a NIC's stamp is one record per frame. Everything is allocated
 * before; a record is a few instructions and no division.
 *
 * Executor and NIC stamps are translated by a clock map with a stated uncertainty (time/spw_time.h). The chain is kept in
 * order: an executor that starts before push has returned ends the push there; a stage that would be negative by more
 * than its uncertainty is counted as that stage's defect and cut off. Stages therefore sum to the whole, exactly.
 *
 * Slow frames. The hot path compares once per clock reading (was this step a gap?) and once per batch (is it slow, or
 * among the longest?); the rest is cold: the batch is described in struct spw_rec_slow, waits a millisecond until its
 * executor can have told of a pause, and is then judged by spw_cause_split.
 *
 * Variants: `flags` below is a constant at every call, so a body that passes 0 has no trace of the recorder.
 *
 * Threads: "owner" is the lcore; "reader" is the one thread that collects intervals (telemetry); "setup" is main before
 * start and after stop.
 */
#ifndef SPW_REC_H
#define SPW_REC_H

#include "base/spw_desc.h"
#include "base/spw_ident.h"
#include "base/spw_order.h"
#include "base/spw_types.h"
#include "hist/spw_hist.h"
#include "rec/spw_cause.h"
#include "rec/spw_stage.h"
#include "time/spw_time.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Constant flags of a variant. */
enum spw_rec_flag {
	SPW_REC_ON         = 1u << 0, /* regimes and stages; without it every call is nothing */
	SPW_REC_EXEC_CLOCK = 1u << 1, /* executor stamps come from another clock: translate them */
	SPW_REC_INLINE     = 1u << 2, /* push runs the batch, from polled to reaped: no polled_pushed, pushed_start,
	                               * end_reaped, and nic_start would be nic_polled */
};

/* The stamps of one batch, ticks except where said. */
struct spw_rec_stamps {
	uint64_t since;                /* its oldest frame's NIC stamp, translated; else see struct spw_rec_poll */
	uint64_t polled, pushed;
	uint64_t exec_start, exec_end; /* executor clock; spw_rec_batch translates them */
	uint64_t reaped, sent;         /* sent: tx_burst or release_burst returned */
};

/* What a poll that brought frames notes for its batch. */
struct spw_rec_poll {
	uint64_t polled;
	uint64_t since;  /* polled; but what is polled right after a gap of the loop may have waited since the gap began */
	uint64_t empty;  /* the last poll before it that could have brought more and did not */
	uint64_t before; /* the regimes of the eight turns before, the last one in the lowest byte, a bit each */
	uint64_t turn;   /* length of the turn before, ticks */
};

/* A step of the loop that took long. */
struct spw_rec_gap {
	uint64_t from, to;
	uint64_t lost;         /* of it, without a core */
	enum spw_regime regime;
	enum spw_hold hold;    /* what the rest is called */
};

/* A batch kept whole: it was slow, or is among the longest. Its oldest frame speaks for it. */
struct spw_rec_slow {
	struct spw_rec_stamps at;     /* executor stamps translated to ticks, the chain in order */
	struct spw_rec_poll poll;
	uint64_t raw_start, raw_end;  /* executor clock */
	uint64_t seq;                 /* as the executor ring numbers it */
	uint32_t cnt;                 /* frames in it */
	uint32_t above;               /* of them slower than the threshold */
	uint32_t in_exec_frames;      /* in the executor when it was recorded */
	uint32_t ahead;               /* batches in the executor when it was pushed */
	uint16_t lcore, queue;        /* where: the caller's numbers */
	bool nic_known, ident_known;
	struct spw_ident ident;       /* of the oldest frame, if it is a generator's */
	struct spw_cause_facts facts;
	uint64_t blame[SPW_CAUSE_CNT]; /* ticks by cause, they sum to the whole */
	enum spw_cause cause;
};

SPW_INLINE uint64_t spw_rec_slow_whole(const struct spw_rec_slow *slow)
{
	return slow->at.sent - slow->at.since;
}

#define SPW_REC_WORST_CNT   16u
#define SPW_REC_GAP_CNT     32u  /* kept; a power of 2 */
#define SPW_REC_PENDING_CNT 128u /* slow batches that wait for judgement; a power of 2 */

struct spw_rec_causes {
	uint64_t frames[SPW_CAUSE_CNT];    /* slower than the threshold */
	uint64_t worst_tsc[SPW_CAUSE_CNT];
};

struct spw_rec_bank {
	struct spw_hist stage[SPW_STAGE_CNT];
	struct spw_rec_slow worst[SPW_REC_WORST_CNT]; /* a heap: [0] is the least of them; valid: worst_cnt */
	uint32_t worst_cnt;
	struct spw_rec_causes causes;
};

/* How long, and how often, the loop was held up by what. */
struct spw_rec_held {
	uint64_t cnt[SPW_HOLD_CNT], sum_tsc[SPW_HOLD_CNT], max_tsc[SPW_HOLD_CNT];
};

/* Whether, and for how long, the owner's core went to somebody else. */
struct spw_rec_away {
	uint64_t *word;          /* the kernel clears it when it takes the core; NULL: not known here */
	uint64_t cnt;            /* times it was found cleared */
	uint64_t base_tsc, base_wall_ns, base_cpu_ns;
};

struct spw_rec {
	/* owner */
	uint64_t last_tsc;                       /* end of the regime before */
	uint64_t gap_tsc;                        /* a step longer than this is a gap */
	uint64_t cold_tsc;                       /* a batch longer than this is looked at closely */
	struct spw_rec_bank *bank;               /* the one being written */
	uint64_t seen;                           /* regimes of the turn that runs, a bit each */
	uint64_t before;                         /* of the eight turns before it */
	uint64_t turn_start_tsc, turn_tsc;       /* of the turn that runs, length of the one before */
	uint64_t turn_max_tsc;
	uint64_t turns;
	uint64_t empty_tsc;                      /* the last poll that brought less than it could */
	uint64_t behind_tsc;                     /* 0, or begin of a gap that frames may still have waited for */
	uint64_t behind_len_tsc, behind_until_tsc;
	uint64_t start_tsc;
	uint64_t regime_tsc[SPW_REGIME_CNT];
	uint64_t defects[SPW_STAGE_CNT];         /* stages that came out negative by more than their uncertainty */
	struct spw_clock_map exec_map, nic_map;
	uint64_t exec_unc, nic_unc;              /* in ticks, renewed with the maps */
	int64_t nic_step_2_32;                   /* ticks to a tick of the NIC's clock, in 2^-32 */
	/* cold */
	uint64_t slow_tsc;                       /* the threshold */
	uint64_t wait_tsc;                       /* before a slow batch is judged */
	bool push_calls;                         /* push runs a handler or calls a driver */
	struct spw_rec_away away;
	struct spw_rec_held held;
	struct spw_rec_gap gap[SPW_REC_GAP_CNT];
	uint64_t gap_cnt;
	struct spw_rec_slow pending[SPW_REC_PENDING_CNT];
	uint64_t pending_head, pending_tail;
	struct spw_hist_flip flip;
	struct spw_rec_bank bank_of[2] SPW_ALIGNED(2 * SPW_CACHE_LINE);
} SPW_ALIGNED(2 * SPW_CACHE_LINE);

/* Purpose: an empty recorder whose clocks are the CPU's own and that calls nothing slow. Shape: rec aligned to 128 bytes,
 *          about 0.8 MiB, on the lcore's NUMA node; every page is touched. Owner: the caller. Thread: setup. */
void spw_rec_init(struct spw_rec *rec);

/* Purpose: frames above slow_tsc ticks get a cause, wait_tsc ticks after they were recorded; steps above an eighth of it are gaps.
 * Shape:   slow_tsc >= 1. push_calls: push does more than hand over. Thread: setup. */
void spw_rec_slow_above(struct spw_rec *rec, uint64_t slow_tsc, uint64_t wait_tsc, bool push_calls);

/* Purpose: the clock starts: everything from now on is attributed. Thread: owner, once, before the loop. */
void spw_rec_begin(struct spw_rec *rec);
/* Purpose: the owner will not mark any more; what waits for judgement was taken. Thread: owner, once, after the loop. */
void spw_rec_end(struct spw_rec *rec);

/* Purpose: takes over newer clock maps, where the boxes (NULL: leave as it is) have one. Thread: owner, in
 *          housekeeping. */
void spw_rec_clocks(struct spw_rec *rec, struct spw_clock_box *exec_box, struct spw_clock_box *nic_box);

/* Private to spw_rec_mark and spw_rec_poll. */
void spw_rec_gap_take(struct spw_rec *rec, enum spw_regime regime, uint64_t now) SPW_COLD;
uint64_t spw_rec_behind(struct spw_rec *rec, bool full, uint64_t now) SPW_COLD;

/* Purpose: the ticks from the last mark to now, a reading that somebody else has made, belong to regime. Returns: now.
 * Shape: a reading from before the last mark counts as that mark. Thread: owner. */
SPW_INLINE uint64_t spw_rec_mark_at(const unsigned int flags, struct spw_rec *rec, enum spw_regime regime, uint64_t now)
{
	uint64_t took;

	if (!(flags & SPW_REC_ON))
		return 0;
	now = SPW_MAX(now, rec->last_tsc);
	took = now - rec->last_tsc;
	spw_thr_count(&rec->regime_tsc[regime], took);
	rec->seen |= 1u << regime;
	if (spw_unlikely(took > rec->gap_tsc))
		spw_rec_gap_take(rec, regime, now);
	spw_thr_store_rlx(&rec->last_tsc, now);
	return now;
}

/* Purpose: the ticks since the last mark belong to regime. Returns: now, the stamp for the batch; 0 without SPW_REC_ON.
 * Thread: owner. Cost: one clock read. */
SPW_INLINE uint64_t spw_rec_mark(const unsigned int flags, struct spw_rec *rec, enum spw_regime regime)
{
	return flags & SPW_REC_ON ? spw_rec_mark_at(flags, rec, regime, spw_tsc_now()) : 0;
}

/* Purpose: a poll brought frames. full: as many as it could bring. Thread: owner. Cost: one clock read. */
SPW_INLINE void spw_rec_polled(const unsigned int flags, struct spw_rec *rec, bool full, struct spw_rec_poll *poll_out)
{
	uint64_t last, now;

	if (!(flags & SPW_REC_ON))
		return;
	last = rec->last_tsc;
	now = spw_rec_mark(flags, rec, SPW_REGIME_rx);
	poll_out->polled = now;
	poll_out->since = spw_likely(!rec->behind_tsc) ? now : spw_rec_behind(rec, full, now);
	poll_out->empty = rec->before & 1u << SPW_REGIME_idle_poll ? last : rec->empty_tsc;
	poll_out->before = rec->before;
	poll_out->turn = rec->turn_tsc;
	rec->empty_tsc = full ? poll_out->empty : now;
}

/* Purpose: a turn of the loop ends here; call it after the turn's last mark. Thread: owner. No clock read. */
SPW_INLINE void spw_rec_turn(const unsigned int flags, struct spw_rec *rec)
{
	if (!(flags & SPW_REC_ON))
		return;
	rec->turn_tsc = rec->last_tsc - rec->turn_start_tsc;
	rec->turn_start_tsc = rec->last_tsc;
	rec->before = rec->before << 8 | rec->seen;
	rec->seen = 0;
	if (spw_unlikely(rec->turn_tsc > rec->turn_max_tsc))
		spw_thr_store_rlx(&rec->turn_max_tsc, rec->turn_tsc);
	spw_thr_count(&rec->turns, 1);
}

/* Private to spw_rec_batch: counts and cuts off what lies outside the chain. */
void spw_rec_order_keep(struct spw_rec *rec, struct spw_rec_stamps *at) SPW_COLD;

/* Purpose: records a finished batch of cnt frames. Shape: all stamps set; since <= polled <= pushed <= reaped <= sent. The
 *          executor's stamps come back translated and in order. Returns: true if it should be described (spw_rec_slow_new).
 * Thread:  owner. */
SPW_INLINE bool spw_rec_batch(const unsigned int flags, struct spw_rec *rec, struct spw_rec_stamps *at, uint32_t cnt)
{
	struct spw_rec_bank *bank = rec->bank;

	if (!(flags & SPW_REC_ON))
		return false;
	if (flags & SPW_REC_EXEC_CLOCK) {
		at->exec_start = spw_clock_map_ref(&rec->exec_map, at->exec_start);
		at->exec_end = spw_clock_map_ref(&rec->exec_map, at->exec_end);
	}
	if (spw_unlikely(at->exec_start < at->polled || at->exec_end < at->exec_start || at->exec_end > at->reaped))
		spw_rec_order_keep(rec, at);
	if (!(flags & SPW_REC_INLINE)) {
		uint64_t handed = SPW_MIN(at->pushed, at->exec_start);

		spw_hist_record(&bank->stage[SPW_STAGE_polled_pushed], handed - at->polled, cnt);
		spw_hist_record(&bank->stage[SPW_STAGE_pushed_start], at->exec_start - handed, cnt);
		spw_hist_record(&bank->stage[SPW_STAGE_end_reaped], at->reaped - at->exec_end, cnt);
	}
	spw_hist_record(&bank->stage[SPW_STAGE_start_end], at->exec_end - at->exec_start, cnt);
	spw_hist_record(&bank->stage[SPW_STAGE_reaped_sent], at->sent - at->reaped, cnt);
	spw_hist_record(&bank->stage[SPW_STAGE_polled_sent], at->sent - at->polled, cnt);
	return spw_unlikely(at->sent - at->since > rec->cold_tsc);
}

#define SPW_REC_APART_LOG2 25u /* NIC ticks that one multiplication may bridge, half of it to each side: exact to 1/256 of a tick */
#define SPW_REC_APART_MAX  (1ull << (SPW_REC_APART_LOG2 - 1))

/* Private to spw_rec_nic: frame by frame, whatever their stamps are. */
void spw_rec_nic_odd(const unsigned int flags, struct spw_rec *rec, const struct spw_desc *desc, uint32_t cnt,
		     const struct spw_rec_stamps *at) SPW_COLD;

/* Purpose: the ways of a batch's frames from their NIC stamps. Shape: 1 .. 64 descriptors; those with SPW_DESC_NIC_STAMP
 *          count; at as spw_rec_batch left it. A stamp that lies after polled is taken as polled, and counted as a defect
 *          if by more than the uncertainty. Thread: owner. Cost: three counts a frame (INLINE: two); three a batch if its frames
 *          share a stamp, as those of a compressed completion do. */
SPW_INLINE void spw_rec_nic(const unsigned int flags, struct spw_rec *rec, const struct spw_desc *desc, uint32_t cnt,
			    const struct spw_rec_stamps *at)
{
	struct spw_hist *stage = rec->bank->stage;
	uint64_t wait[64], start = at->exec_start - at->polled, sent = at->sent - at->polled, odd = 0;
	int64_t first = (int64_t)(at->polled - spw_clock_map_ref(&rec->nic_map, desc[0].nic_stamp));
	int64_t least = first, most = first;

	for (uint32_t i = 0; i < cnt; i++) {
		uint64_t apart = desc[i].nic_stamp - desc[0].nic_stamp; /* those before the first wrap, and so does their product */
		int64_t took = first - ((int64_t)(apart * (uint64_t)rec->nic_step_2_32) >> 32);

		wait[i] = (uint64_t)took;
		least = SPW_MIN(least, took);
		most = SPW_MAX(most, took);
		odd |= (uint64_t)!(desc[i].flags & SPW_DESC_NIC_STAMP) | (apart + SPW_REC_APART_MAX) >> SPW_REC_APART_LOG2;
	}
	if (spw_unlikely(odd || least < 0 ||
			 (uint64_t)most + sent > SPW_MIN(stage[SPW_STAGE_nic_sent].max_value, SPW_HIST_VALUE_MAX))) {
		spw_rec_nic_odd(flags, rec, desc, cnt, at);
		return;
	}
	spw_hist_bump_each(&stage[SPW_STAGE_nic_polled], wait, cnt, 0, (uint64_t)least, (uint64_t)most);
	if (!(flags & SPW_REC_INLINE))
		spw_hist_bump_each(&stage[SPW_STAGE_nic_start], wait, cnt, start, (uint64_t)least, (uint64_t)most);
	spw_hist_bump_each(&stage[SPW_STAGE_nic_sent], wait, cnt, sent, (uint64_t)least, (uint64_t)most);
}

/* Purpose: a NIC stamp in ticks, not after polled. Thread: owner. */
SPW_INLINE uint64_t spw_rec_nic_since(const struct spw_rec *rec, uint64_t nic_stamp, uint64_t polled)
{
	uint64_t nic = spw_clock_map_ref(&rec->nic_map, nic_stamp);

	return (int64_t)(polled - nic) < 0 ? polled : nic;
}

/* ---- slow batches: cold, owner ------------------------------------------------------------------------- */

/* Returns: true when a batch must be judged before another can be described. */
bool spw_rec_slow_full(const struct spw_rec *rec);
/* Purpose: a place for one more, with its stamps, its poll and what the recorder knows (parts, gaps); the caller fills the rest.
 * Shape:   not spw_rec_slow_full. Lifetime: until it is judged. */
struct spw_rec_slow *spw_rec_slow_new(struct spw_rec *rec, const struct spw_rec_stamps *at, const struct spw_rec_poll *poll);
/* Purpose: the oldest described batch whose time has come (all: any). Returns: NULL if there is none. */
struct spw_rec_slow *spw_rec_slow_due(struct spw_rec *rec, uint64_t now, bool all);
/* Purpose: judges the batch that spw_rec_slow_due returned, counts its frames, and keeps it if it is among the worst. */
void spw_rec_slow_judge(struct spw_rec *rec, struct spw_rec_slow *slow);

/* Purpose: obeys a reader that asked for the interval; renews the trap that tells whether the core was taken. Thread:
 *          owner, in housekeeping. */
void spw_rec_flip(struct spw_rec *rec);

/* ---- reading --------------------------------------------------------------------------------------- */

/* What a reader has collected of one recorder, or of several one after the other. About 0.7 MiB. */
struct spw_rec_view {
	struct spw_hist total[SPW_STAGE_CNT];    /* since start */
	struct spw_hist interval[SPW_STAGE_CNT]; /* the last interval that was collected; cleared by spw_rec_view_interval */
	struct spw_rec_slow worst[SPW_REC_WORST_CNT]; /* longest first */
	uint32_t worst_cnt;
	struct spw_rec_causes causes;            /* since start */
	uint64_t regime_tsc[SPW_REGIME_CNT];     /* sums over recorders, as of the last collect */
	uint64_t elapsed_tsc;
	uint64_t defects[SPW_STAGE_CNT];
	uint64_t turns, turn_max_tsc;
	uint64_t away_cnt;
	bool away_known;                         /* every recorder can tell */
	struct spw_rec_held held;
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
	uint64_t defects;                         /* times it came out negative by more than that */
};

/* Purpose: a histogram of ticks as a row of nanoseconds. lost_cnt frames count as longer than any (0 if none).
 * Thread: any. */
void spw_rec_row(const struct spw_rec_view *view, enum spw_stage stage, bool interval, const struct spw_tsc *tsc,
		 uint64_t lost_cnt, struct spw_rec_row *row_out);

#ifdef __cplusplus
}
#endif
#endif
