/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The recorder of one lcore: where its ticks went (regimes), how long its frames took, stage by
 * stage, and why the slow ones were slow.
 *
 *  stamp    NIC        polled     pushed    exec_start   exec_end     reaped       sent
 *            │ nic_     │ polled_   │ pushed_   │ start_end  │ end_      │ reaped_   │
 *            │ polled   │ pushed    │ start     │            │ reaped    │ sent      │
 *  stage     ├──────────┼───────────┼───────────┼────────────┼───────────┼───────────┤──> time
 *            ├─ nic_start ─────────────────────>│            │           │           │
 *            │          ├─ polled_sent ─────────────────────────────────────────────>│
 *            ├─ nic_sent ───────────────────────────────────────────────────────────>│
 *  regime    idle_poll, │           │                                    │           │
 *            rx ───────>│ push ────>│ idle_poll, ... ──────── reap ─────>│ tx or     │
 *                                                                        │ refill ──>│
 *
 * Stamps are ticks of the CPU's clock. A stamp that ends a stage also ends a regime, so a turn that
 * moves a batch through reads the clock four times (after rx, push, reap, and tx or refill) and an
 * idle turn once. With an inline executor, which runs the batch within push, the poll's reading is
 * the executor's start and the executor's end is the end of push and of reap: two readings do.
 *
 * A batch of n frames is one record of weight n per stage; only stages that begin at a NIC stamp
 * have one record per frame. All memory is allocated before; a record is a few instructions and no
 * division.
 *
 * A clock map (time/spw_time.h) translates executor and NIC stamps, with a stated ± uncertainty.
 * The stamps are then put in order: if the executor starts before push has returned, the push
 * stage ends there; a stage that would be negative is cut to zero, and counted as that stage's
 * defect if it is negative by more than its uncertainty. Therefore the stages sum to the whole,
 * exactly.
 *
 * Slow frames. The hot path compares once per clock reading (was this step a gap?) and once per
 * batch (is it slow, or among the longest?). The rest is cold:
 *
 *   spw_rec_slow_new    describes the batch: stamps, poll, gaps of the loop
 *        │              at least wait_tsc: the executor reports a pause only after it
 *   spw_rec_slow_due    finds it again
 *   spw_rec_slow_judge  spw_cause_split names its cause; kept if among the worst
 *
 * Variants: `flags` below is a constant at every call, so a body that passes 0 contains no trace of
 * the recorder.
 *
 * Threads: "owner" is the lcore; "reader" is the one thread that collects intervals (telemetry);
 * "setup" is the main thread before start and after stop.
 */
#ifndef SPW_REC_H
#define SPW_REC_H

#include "frame/spw_desc.h"
#include "frame/spw_ident.h"
#include "base/spw_order.h"
#include "trail/spw_trail.h"
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
	SPW_REC_ON = 1u << 0,         /* regimes and stages; without it every call is nothing */
	SPW_REC_EXEC_CLOCK = 1u << 1, /* executor stamps come from another clock: translate them */
	/* Push runs the batch, from polled to reaped: polled_pushed, pushed_start and end_reaped
	 * are not recorded, nor nic_start, which would equal nic_polled. */
	SPW_REC_INLINE = 1u << 2,
	/* The clock is not read: a recording is run again, and spw_rec.script has the readings. */
	SPW_REC_REPLAY = 1u << 3,
};

/* The stamps of one batch, in ticks; those of the executor in its own clock until translated. */
struct spw_rec_stamps {
	uint64_t since; /* its oldest frame's NIC stamp, translated; else see struct spw_rec_poll */
	uint64_t polled, pushed;
	uint64_t exec_start, exec_end; /* executor clock; spw_rec_batch translates them */
	uint64_t reaped, sent;         /* sent: tx_burst or release_burst returned */
};

/* What a poll that brought frames notes for its batch. */
struct spw_rec_poll {
	uint64_t polled;
	/* When the frames may have begun to wait: `polled`, or the begin of a gap of the loop that
	 * ended just before. */
	uint64_t since;
	/* The last earlier poll that could have brought more and did not; of an empty poll, when
	 * its turn began. */
	uint64_t empty;
	/* Regimes of the eight turns before, a byte each with a bit per regime, the last turn in
	 * the lowest byte. */
	uint64_t before;
	uint64_t turn; /* length of the turn before, ticks */
};

/* A gap: a step of the loop that took longer than gap_tsc. */
struct spw_rec_gap {
	uint64_t from, to;
	uint64_t lost; /* the part of it without a core */
	enum spw_regime regime;
	enum spw_hold hold; /* what the other part is attributed to */
};

/* Takes a gap, and spw_rec.empty_tsc at that time. */
typedef void spw_rec_gap_note(void *to, const struct spw_rec_gap *gap, uint64_t empty_tsc);

/* The description of a batch that was slow or is among the longest; it is judged by its oldest
 * frame. */
struct spw_rec_slow {
	struct spw_rec_stamps at; /* executor stamps translated to ticks, the chain in order */
	struct spw_rec_poll poll;
	uint64_t raw_start, raw_end; /* executor clock */
	uint64_t seq;                /* as the executor ring numbers it */
	uint32_t cnt;                /* frames in it */
	uint32_t above;              /* how many of them were slower than the threshold */
	uint32_t in_exec_frames;     /* in the executor when it was recorded */
	uint32_t ahead;              /* batches in the executor when it was pushed */
	uint16_t lcore, queue;       /* where: the caller's numbers */
	bool nic_known, ident_known;
	struct spw_ident ident; /* of the oldest frame, if it is a generator's */
	struct spw_cause_facts facts;
	uint64_t blame[SPW_CAUSE_CNT]; /* ticks by cause; they sum to the whole */
	enum spw_cause cause;
};

/* Returns: the whole time of the batch's oldest frame, ticks. Thread: any. */
SPW_INLINE uint64_t spw_rec_slow_whole(const struct spw_rec_slow *slow)
{
	return slow->at.sent - slow->at.since;
}

#define SPW_REC_WORST_CNT   16u  /* longest batches kept */
#define SPW_REC_GAP_CNT     32u  /* newest gaps kept; a power of 2 */
#define SPW_REC_PENDING_CNT 128u /* batches described and not yet judged; a power of 2 */

/* Slow frames by cause. */
struct spw_rec_causes {
	uint64_t frames[SPW_CAUSE_CNT]; /* slower than the threshold */
	uint64_t worst_tsc[SPW_CAUSE_CNT];
};

/* What the owner records of one interval; two banks take turns (struct spw_hist_flip). */
struct spw_rec_bank {
	struct spw_hist stage[SPW_STAGE_CNT];
	struct spw_rec_slow worst[SPW_REC_WORST_CNT]; /* a heap of worst_cnt, the least at [0] */
	uint32_t worst_cnt;
	struct spw_rec_causes causes;
};

/* How often and how long the loop was held up, by reason. */
struct spw_rec_held {
	uint64_t cnt[SPW_HOLD_CNT], sum_tsc[SPW_HOLD_CNT], max_tsc[SPW_HOLD_CNT];
};

/* Whether and for how long the owner lost its core (preempt.c). */
struct spw_rec_preempt {
	uint64_t *word; /* the kernel clears it when it preempts the thread; NULL: no rseq here */
	uint64_t cnt;   /* how often it was found cleared */
	uint64_t base_tsc, base_wall_ns, base_cpu_ns;
	int quota_fd;       /* cpu.stat of the control group; 0: it has no CPU quota */
	uint64_t throttled; /* nr_throttled there, as last read */
};

struct spw_rec {
	/* owner */
	uint64_t last_tsc;                 /* end of the regime before */
	uint64_t gap_tsc;                  /* a step longer than this is a gap */
	uint64_t cold_tsc;                 /* a batch longer than this takes the cold path */
	struct spw_rec_bank *bank;         /* the one being written */
	uint64_t turn_regimes;             /* regimes of the current turn, a bit each */
	uint64_t before;                   /* the same of the eight turns before it, a byte each */
	uint64_t turn_start_tsc, turn_tsc; /* begin of the current turn, length of the last one */
	uint64_t turn_max_tsc;
	uint64_t turns;
	uint64_t empty_tsc; /* the last poll that brought less than it could (spw_rec_poll.empty) */
	/* 0, or the begin of a gap: frames polled now may have waited since then unless a poll has
	 * found the port empty in the meantime (backlog_tsc < empty_tsc). */
	uint64_t backlog_tsc;
	uint64_t backlog_len_tsc, backlog_until_tsc;
	uint64_t start_tsc;
	uint64_t regime_tsc[SPW_REGIME_CNT];
	/* How often a stage came out negative by more than its uncertainty. */
	uint64_t defects[SPW_STAGE_CNT];
	struct spw_clock_map exec_map, nic_map;
	uint64_t exec_unc, nic_unc; /* their uncertainty now, ticks */
	int64_t nic_step_2_32;      /* ticks to a tick of the NIC's clock, in 2^-32 */
	/* cold */
	uint64_t slow_tsc;          /* the threshold */
	uint64_t keep_tsc;          /* a batch longer than this is described */
	struct spw_trail *trail;    /* NULL: none; else every batch takes the cold path */
	uint64_t keep_most_tsc;     /* keep_tsc does not rise above it */
	spw_rec_gap_note *gap_note; /* NULL: none; else it is called with each measured gap */
	void *gap_to;
	const uint64_t *script; /* the next clock reading, with SPW_REC_REPLAY */
	uint64_t wait_tsc;      /* before a slow batch is judged */
	bool push_calls;        /* push runs a handler or calls a driver, so it may be long */
	struct spw_rec_preempt preempt;
	struct spw_rec_held held;
	struct spw_rec_gap gap[SPW_REC_GAP_CNT];
	uint64_t gap_cnt;
	struct spw_rec_slow pending[SPW_REC_PENDING_CNT];
	uint64_t pending_head, pending_tail;
	struct spw_hist_flip flip;
	struct spw_rec_bank bank_of[2] SPW_ALIGNED(2 * SPW_CACHE_LINE);
} SPW_ALIGNED(2 * SPW_CACHE_LINE);

/* Purpose: an empty recorder that reads the CPU's own clock and finds no frame slow.
 * Shape:   rec is about 0.8 MiB, aligned to 128 bytes, best on the lcore's NUMA node; every page is
 *          touched.
 * Owner:   the caller.
 * Thread:  setup. */
void spw_rec_init(struct spw_rec *rec);

/* Purpose: sets the threshold: frames above slow_tsc ticks get a cause, wait_tsc ticks after they
 *          were recorded; steps of the loop above an eighth of slow_tsc are gaps.
 * Shape:   slow_tsc >= 1.
 * Thread:  setup. */
void spw_rec_slow_above(struct spw_rec *rec, uint64_t slow_tsc, uint64_t wait_tsc);

/* Purpose: says what is known of the executor that the next batch goes to. Its stamps are taken for
 *          CPU ticks, unc_tsc uncertain, until spw_rec_clocks brings a map.
 * Shape:   push_calls: push runs a handler or calls a driver.
 * Thread:  setup; owner, while no batch is under way. */
void spw_rec_exec(struct spw_rec *rec, bool push_calls, uint64_t unc_tsc);

/* Purpose: also writes gaps, and the causes of every batch above an eighth of the threshold, to
 *          trail.
 * Lifetime: trail outlives the last call of the owner.
 * Thread:  setup, after spw_rec_slow_above. */
void spw_rec_trail(struct spw_rec *rec, struct spw_trail *trail);

/* Purpose: note is called with `to` and each gap that is measured from now on, before anything of
 *          the poll in which it was found is recorded; the flight recorder's hook.
 * Lifetime: to outlives the last call of the owner.
 * Thread:  setup. */
void spw_rec_gaps_to(struct spw_rec *rec, spw_rec_gap_note *note, void *to);

/* Purpose: a lost core of the owner has the cause cpu_quota while the control group's count of
 *          throttled periods rises.
 * Shape:   fd: its cpu.stat, open for reading; 0: it has no CPU quota.
 * Lifetime: fd outlives the last call of the owner.
 * Thread:  setup. */
void spw_rec_quota(struct spw_rec *rec, int fd);

/* Purpose: starts the clock: every tick from now on is attributed to a regime.
 * Thread:  owner, once, before the loop. */
void spw_rec_begin(struct spw_rec *rec);

/* Purpose: ends recording.
 * Shape:   no described batch is left to judge; nothing is marked afterwards.
 * Thread:  owner, once, after the loop. */
void spw_rec_end(struct spw_rec *rec);

/* Purpose: takes the newest clock maps out of the boxes; a NULL box leaves the map as it is.
 * Thread:  owner, in housekeeping. */
void spw_rec_clocks(struct spw_rec *rec, struct spw_clock_box *exec_box,
		    struct spw_clock_box *nic_box);

/* Private to spw_rec_mark_at: records a step of the loop that ended at `now` and took longer than
 * gap_tsc. Private to spw_rec_polled_at: since when frames that were polled now may have waited.
 * Thread:  owner. */
void spw_rec_gap_take(struct spw_rec *rec, enum spw_regime regime, uint64_t now) SPW_COLD;
uint64_t spw_rec_backlog_since(struct spw_rec *rec, bool full, uint64_t now) SPW_COLD;

/* Purpose: takes a gap that was measured, or one of a recording.
 * Thread:  owner. */
void spw_rec_gap_add(struct spw_rec *rec, const struct spw_rec_gap *gap) SPW_COLD;

/* Purpose: attributes the ticks from the last mark to `now`, a clock reading that the caller has.
 * Shape:   a reading from before the last mark counts as that mark.
 * Returns: now; 0 without SPW_REC_ON.
 * Thread:  owner. */
SPW_INLINE uint64_t spw_rec_mark_at(const unsigned int flags, struct spw_rec *rec,
				    enum spw_regime regime, uint64_t now)
{
	uint64_t took;

	if (!(flags & SPW_REC_ON))
		return 0;
	now = SPW_MAX(now, rec->last_tsc);
	took = now - rec->last_tsc;
	spw_thr_count(&rec->regime_tsc[regime], took);
	rec->turn_regimes |= 1u << regime;
	if (spw_unlikely(took > rec->gap_tsc))
		spw_rec_gap_take(rec, regime, now);
	spw_thr_store_rlx(&rec->last_tsc, now);
	return now;
}

/* Returns: the clock, or the recording's next reading of it. Thread: owner. */
SPW_INLINE uint64_t spw_rec_now(const unsigned int flags, struct spw_rec *rec)
{
	return flags & SPW_REC_REPLAY ? *rec->script++ : spw_tsc_now();
}

/* Purpose: reads the clock and attributes the ticks since the last mark to regime.
 * Returns: the reading, the batch's stamp; 0 without SPW_REC_ON.
 * Thread:  owner. */
SPW_INLINE uint64_t spw_rec_mark(const unsigned int flags, struct spw_rec *rec,
				 enum spw_regime regime)
{
	return flags & SPW_REC_ON ? spw_rec_mark_at(flags, rec, regime, spw_rec_now(flags, rec))
				  : 0;
}

/* Purpose: marks a poll that returned at `now` with frames.
 * Shape:   full: it brought as many as it could, so that more may wait in the port.
 * Thread:  owner. */
SPW_INLINE void spw_rec_polled_at(const unsigned int flags, struct spw_rec *rec, bool full,
				  uint64_t now, struct spw_rec_poll *poll_out)
{
	if (!(flags & SPW_REC_ON))
		return;
	now = spw_rec_mark_at(flags, rec, SPW_REGIME_rx, now);
	poll_out->polled = now;
	poll_out->since = spw_likely(!rec->backlog_tsc) ? now
							: spw_rec_backlog_since(rec, full, now);
	poll_out->empty = rec->empty_tsc;
	poll_out->before = rec->before;
	poll_out->turn = rec->turn_tsc;
	rec->empty_tsc = full ? rec->empty_tsc : now;
}

/* Purpose: spw_rec_polled_at with a clock reading of its own. It is no earlier than the load that
 *          found the frames: a CPU that reads its counter ahead of that load would poll frames
 *          before the NIC has stamped them.
 * Thread:  owner. */
SPW_INLINE void spw_rec_polled(const unsigned int flags, struct spw_rec *rec, bool full,
			       struct spw_rec_poll *poll_out)
{
	uint64_t now = 0;

	if (flags & SPW_REC_ON)
		now = flags & SPW_REC_REPLAY ? *rec->script++ : spw_tsc_now_after();
	spw_rec_polled_at(flags, rec, full, now, poll_out);
}

/* Purpose: notes an empty poll: whatever a later poll brings arrived after the last mark. Reads no
 *          clock.
 * Thread:  owner. */
SPW_INLINE void spw_rec_empty(const unsigned int flags, struct spw_rec *rec)
{
	if (flags & SPW_REC_ON)
		rec->empty_tsc = rec->last_tsc;
}

/* Purpose: ends a turn of the loop; comes after the turn's last mark. Reads no clock.
 * Thread:  owner. */
SPW_INLINE void spw_rec_turn(const unsigned int flags, struct spw_rec *rec)
{
	if (!(flags & SPW_REC_ON))
		return;
	rec->turn_tsc = rec->last_tsc - rec->turn_start_tsc;
	rec->turn_start_tsc = rec->last_tsc;
	rec->before = rec->before << 8 | rec->turn_regimes;
	rec->turn_regimes = 0;
	if (spw_unlikely(rec->turn_tsc > rec->turn_max_tsc))
		spw_thr_store_rlx(&rec->turn_max_tsc, rec->turn_tsc);
	spw_thr_count(&rec->turns, 1);
}

/* Private to spw_rec_batch: puts executor stamps that lie outside polled .. reaped in order, and
 * counts defects.
 * Thread:  owner. */
void spw_rec_chain_fix(struct spw_rec *rec, struct spw_rec_stamps *at) SPW_COLD;

/* Purpose: records a finished batch of cnt frames.
 * Shape:   all stamps are set; since <= polled <= pushed <= reaped <= sent. On return the
 *          executor's stamps are ticks and in order.
 * Returns: true if the batch takes the cold path: it is on the trail, or to be described
 *          (spw_rec_slow_wants).
 * Thread:  owner. */
SPW_INLINE bool spw_rec_batch(const unsigned int flags, struct spw_rec *rec,
			      struct spw_rec_stamps *at, uint32_t cnt)
{
	struct spw_rec_bank *bank = rec->bank;

	if (!(flags & SPW_REC_ON))
		return false;
	if (flags & SPW_REC_EXEC_CLOCK) {
		at->exec_start = spw_clock_map_ref(&rec->exec_map, at->exec_start);
		at->exec_end = spw_clock_map_ref(&rec->exec_map, at->exec_end);
	}
	if (spw_unlikely(at->exec_start < at->polled || at->exec_end < at->exec_start ||
			 at->exec_end > at->reaped))
		spw_rec_chain_fix(rec, at);
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

/* Log2 of the distance between two NIC stamps that one multiplication may bridge, half of it to
 * each side; the result is exact to 1/256 of a tick. */
#define SPW_REC_APART_LOG2 25u
#define SPW_REC_APART_MAX  (1ull << (SPW_REC_APART_LOG2 - 1))

/* Private to spw_rec_nic: the slow way for any stamps, frame by frame.
 * Thread:  owner. */
void spw_rec_nic_odd(const unsigned int flags, struct spw_rec *rec, const struct spw_desc *desc,
		     uint32_t cnt, const struct spw_rec_stamps *at) SPW_COLD;

/* Purpose: records the stages that begin at a NIC stamp, for each frame of a batch that has one.
 * Shape:   1 .. 64 descriptors; `at` as spw_rec_batch left it. A stamp later than `polled` counts
 *          as `polled`, and as a defect if it is later by more than the uncertainty.
 * Cost:    three counts per frame (INLINE: two); three per batch if its frames share a stamp, as
 *          those of one compressed CQE do.
 * Thread:  owner. */
SPW_INLINE void spw_rec_nic(const unsigned int flags, struct spw_rec *rec,
			    const struct spw_desc *desc, uint32_t cnt,
			    const struct spw_rec_stamps *at)
{
	struct spw_hist *stage = rec->bank->stage;
	uint64_t wait[64], start = at->exec_start - at->polled, sent = at->sent - at->polled,
			   odd = 0;
	int64_t first = (int64_t)(at->polled - spw_clock_map_ref(&rec->nic_map, desc[0].nic_stamp));
	int64_t least = first, most = first;

	for (uint32_t i = 0; i < cnt; i++) {
		/* Wraps for a stamp before the first; the product then wraps back. */
		uint64_t apart = desc[i].nic_stamp - desc[0].nic_stamp;
		int64_t took = first - ((int64_t)(apart * (uint64_t)rec->nic_step_2_32) >> 32);

		wait[i] = (uint64_t)took;
		least = SPW_MIN(least, took);
		most = SPW_MAX(most, took);
		odd |= (uint64_t) !(desc[i].flags & SPW_DESC_NIC_STAMP) |
		       (apart + SPW_REC_APART_MAX) >> SPW_REC_APART_LOG2;
	}
	if (spw_unlikely(odd || least < 0 ||
			 (uint64_t)most + sent > SPW_MIN(stage[SPW_STAGE_nic_sent].max_value,
							 SPW_HIST_VALUE_MAX))) {
		spw_rec_nic_odd(flags, rec, desc, cnt, at);
		return;
	}
	spw_hist_bump_each(&stage[SPW_STAGE_nic_polled], wait, cnt, 0, (uint64_t)least,
			   (uint64_t)most);
	if (!(flags & SPW_REC_INLINE))
		spw_hist_bump_each(&stage[SPW_STAGE_nic_start], wait, cnt, start, (uint64_t)least,
				   (uint64_t)most);
	spw_hist_bump_each(&stage[SPW_STAGE_nic_sent], wait, cnt, sent, (uint64_t)least,
			   (uint64_t)most);
}

/* Purpose: translates a NIC stamp to the last tick at which the frame can have arrived: the map's
 *          uncertainty later, at most polled. A frame is slow only by what is certain of its wait;
 *          the stages (spw_rec_nic) keep the middle, and state the uncertainty.
 * Thread:  owner. */
SPW_INLINE uint64_t spw_rec_nic_since(const struct spw_rec *rec, uint64_t nic_stamp,
				      uint64_t polled)
{
	uint64_t nic = spw_clock_map_ref(&rec->nic_map, nic_stamp) + rec->nic_unc;

	return (int64_t)(polled - nic) < 0 ? polled : nic;
}

/* Purpose: how long the loop did something else within [from, to], by the gaps that it remembers:
 *          it had no core, or a call to the port was long. Hand-overs to the executor are its work.
 * Thread:  owner. */
uint64_t spw_rec_away(const struct spw_rec *rec, uint64_t from, uint64_t to);

/* Returns: since when all gaps are remembered, ticks; 0: since the begin. Thread: owner. */
uint64_t spw_rec_gaps_since(const struct spw_rec *rec);

/* ---- slow batches: cold, owner ---- */

/* Returns: whether a batch is to be described: it is slow, or among the longest. Thread: owner. */
SPW_INLINE bool spw_rec_slow_wants(const struct spw_rec *rec, const struct spw_rec_stamps *at)
{
	return at->sent - at->since > rec->keep_tsc;
}

/* Returns: true if a batch must be judged before another can be described. Thread: owner. */
bool spw_rec_slow_full(const struct spw_rec *rec);

/* Purpose:  describes a batch: fills in stamps, poll, parts and gaps; the caller fills the rest.
 * Shape:    spw_rec_slow_full is false.
 * Lifetime: until it is judged.
 * Thread:   owner. */
struct spw_rec_slow *spw_rec_slow_new(struct spw_rec *rec, const struct spw_rec_stamps *at,
				      const struct spw_rec_poll *poll);

/* Purpose: the oldest described batch if it has waited long enough; with `all` in any case.
 * Returns: NULL if there is none.
 * Thread:  owner. */
struct spw_rec_slow *spw_rec_slow_due(struct spw_rec *rec, uint64_t now, bool all);

/* Purpose: judges the batch that spw_rec_slow_due returned, counts its slow frames by cause, and
 *          keeps it if it is among the worst.
 * Thread:  owner. */
void spw_rec_slow_judge(struct spw_rec *rec, struct spw_rec_slow *slow);

/* Purpose: changes banks if a reader has requested the interval, and rearms the trap that detects
 *          preemption.
 * Order:   H1 and H2 of hist/spw_hist.h.
 * Thread:  owner, in housekeeping. */
void spw_rec_flip(struct spw_rec *rec);

/* ---- reading ---- */

/* What a reader has collected of one recorder, or of several one after the other. About 0.7 MiB. */
struct spw_rec_view {
	struct spw_hist total[SPW_STAGE_CNT];         /* since start */
	struct spw_hist interval[SPW_STAGE_CNT];      /* since spw_rec_view_interval */
	struct spw_rec_slow worst[SPW_REC_WORST_CNT]; /* longest first */
	uint32_t worst_cnt;
	struct spw_rec_causes causes;        /* since start */
	uint64_t regime_tsc[SPW_REGIME_CNT]; /* sums over recorders, as of the last collect */
	uint64_t elapsed_tsc;
	uint64_t defects[SPW_STAGE_CNT];
	uint64_t turns, turn_max_tsc;
	uint64_t away_cnt; /* times the core was lost, as far as rseq shows */
	bool away_known;   /* every recorder has rseq */
	struct spw_rec_held held;
	uint64_t exec_unc, nic_unc; /* the largest, ticks */
};

/* Purpose: an empty view. Owner: the caller. Thread: owner (reader). */
void spw_rec_view_init(struct spw_rec_view *view);

/* Purpose: begins a new interval: clears its histograms and the sums over recorders (regimes,
 *          turns) that spw_rec_collect adds to. Call it before collecting from the first recorder.
 * Thread:  owner (reader). */
void spw_rec_view_interval(struct spw_rec_view *view);

/* Purpose: begins another round of collecting in the same interval: clears the sums over recorders,
 *          but not the histograms.
 * Thread:  owner (reader). */
void spw_rec_view_round(struct spw_rec_view *view);

/* Purpose: adds the bank that the owner has left to view, clears it, and requests the next one.
 *          Regimes and counters are sampled live.
 * Returns: false if the owner has not changed banks since the last call.
 * Order:   H3 and H4 of hist/spw_hist.h.
 * Thread:  owner (reader): one and the same for a recorder from its begin until the lcore ended. */
bool spw_rec_collect(struct spw_rec *rec, struct spw_rec_view *view);

/* Purpose: the same after the owner has ended: adds both banks.
 * Thread:  setup. */
void spw_rec_collect_rest(struct spw_rec *rec, struct spw_rec_view *view);

/* One row of the latency table. */
struct spw_rec_row {
	const char *stage;
	uint64_t count;                        /* frames */
	uint64_t value_ns[SPW_HIST_POINT_CNT]; /* where answer is SPW_HIST_VALUE */
	enum spw_hist_answer answer[SPW_HIST_POINT_CNT];
	uint64_t uncertainty_ns; /* of the clocks in it; the bucket's 0.8 % comes on top */
	uint64_t defects;        /* times it came out negative by more than that */
};

/* Purpose: one stage of a view as a row in nanoseconds, of the interval or since start.
 * Shape:   lost_cnt frames without an end count as longer than any other.
 * Thread:  any. */
void spw_rec_row(const struct spw_rec_view *view, enum spw_stage stage, bool interval,
		 const struct spw_tsc *tsc, uint64_t lost_cnt, struct spw_rec_row *row_out);

#ifdef __cplusplus
}
#endif
#endif
