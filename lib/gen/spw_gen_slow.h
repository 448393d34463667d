/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Slow frames as the source measures them: the worst echoes with their three times, one for each
 * hold-up, and a cause for each frame above a threshold.
 *
 *   intended ---- late ----> taken by the port ---- path, receiver, way back ----> echo
 *                                                        |<------- behind ------->|
 *                                            the sender had last emptied its port
 *
 * The source knows its own part: how late it sent, and since when it had not emptied its port. An
 * echo that is found after that may have waited for the sender all that time, so what it lost there
 * is not charged to the path. Where the rest of the time went is in spinwire's own summary.
 * The times of building and sending are kept for the last 2^20 frames of a sender, by the frame's
 * number.
 */
#ifndef SPW_GEN_SLOW_H
#define SPW_GEN_SLOW_H

#include "base/spw_enum.h"
#include "base/spw_order.h"
#include "base/spw_types.h"

#define GEN_SENT_LOG2 20u
#define GEN_WORST_MAX 32u

/* The cause of a slow frame is the larger part of its round trip. name, meaning */
#define GEN_CAUSE_LIST(X, P)                                                                  \
	X(P, sender_late, "sent late: most of the time had passed when the port took it")     \
	X(P, sender_behind, "the sender had not emptied its port for most of that time")      \
	X(P, beyond_sender, "sent in time; the path, the receiver or the way back took long") \
	X(P, lost, "sent, and never came back")                                               \
	X(P, unsent, "due, and never taken by the port")

enum gen_cause { SPW_ENUM(GEN_CAUSE) };

/* When frame n of a sender was built and when the port took it, in ticks. Written by the sender,
 * read by any. */
struct gen_sent {
	uint64_t *tsc;       /* [1 << GEN_SENT_LOG2] */
	uint64_t *taken_tsc; /* [1 << GEN_SENT_LOG2]: the schedule was checked and it was due */
	uint64_t made_cnt;   /* frames built so far: numbers below this are in use */
};

struct gen_worst {
	uint32_t flow;
	uint64_t seq;
	uint64_t whole_ns;
	uint64_t intended_tsc, sent_tsc, echo_tsc; /* sent_tsc 0: no longer recorded */
	uint64_t drained_tsc; /* the last poll before the echo that emptied the port */
	uint64_t like;        /* shorter ones that overlap it and are not kept */
	enum gen_cause cause;
};

struct gen_slow {
	uint64_t floor_ns; /* longer round trips are recorded: min(threshold, least of the worst) */
	uint64_t threshold_ns;
	struct {
		uint64_t frames, worst_ns;
	} by[GEN_CAUSE_CNT];
	struct gen_worst worst[GEN_WORST_MAX];
	uint32_t worst_cnt;
};

/* Purpose: starts an empty account.
 * Thread: setup.
 */
void gen_slow_init(struct gen_slow *slow, uint64_t threshold_ns);

/* Purpose: records a frame: its cause, if it is above the threshold, and its place among the worst.
 *   Of frames whose times from intended to echo overlap, only the longest is kept, so that one
 *   hold-up does not fill the list.
 * Shape: intended_tsc <= sent_tsc <= echo_tsc, or sent_tsc 0; `cause` and `like` are not read. The
 *   cause follows from ratios of ticks.
 * Thread: owner.
 */
void gen_slow_note(struct gen_slow *slow, const struct gen_worst *frame);

/* Purpose: adds `from`; the worst of both are kept.
 * Thread: owner of slow.
 */
void gen_slow_merge(struct gen_slow *slow, const struct gen_slow *from);

/* Purpose: counts frames without a round trip.
 * Shape: cause LOST or UNSENT.
 * Thread: owner.
 */
void gen_slow_missing(struct gen_slow *slow, enum gen_cause cause, uint64_t frames);

/* Purpose: sorts the worst, the longest first.
 * Thread: owner.
 */
void gen_slow_sort(struct gen_slow *slow);

/* Purpose: how many frames were above the threshold, or have no round trip.
 * Thread: any.
 */
uint64_t gen_slow_above(const struct gen_slow *slow);

/* Purpose: the name of a cause and what it means.
 * Returns: static text.
 * Thread: any.
 */
const char *gen_cause_name(enum gen_cause cause);
const char *gen_cause_text(enum gen_cause cause);

/* ---- times of sending ---- */

/* Purpose: records when frame `number` was sent.
 * Thread: owner (the sender).
 */
SPW_INLINE void gen_sent_note(struct gen_sent *sent, uint64_t number, uint64_t tsc)
{
	spw_thr_store_rlx(&sent->tsc[number & ((1u << GEN_SENT_LOG2) - 1)], tsc);
}

/* Purpose: records when the loop found that frame `number` was due.
 * Thread: owner (the sender).
 */
SPW_INLINE void gen_sent_taken(struct gen_sent *sent, uint64_t number, uint64_t tsc)
{
	spw_thr_store_rlx(&sent->taken_tsc[number & ((1u << GEN_SENT_LOG2) - 1)], tsc);
}

/* Purpose: when that was, for a frame of which gen_sent_find has found the time of sending.
 * Thread: any.
 */
SPW_INLINE uint64_t gen_sent_taken_find(const struct gen_sent *sent, uint64_t number)
{
	return spw_thr_load_rlx(&sent->taken_tsc[number & ((1u << GEN_SENT_LOG2) - 1)]);
}

/* Purpose: when the frame that was due at due_tsc was sent.
 * Returns: 0 if the time is no longer, or not yet, recorded.
 * Thread: any.
 */
SPW_INLINE uint64_t gen_sent_find(const struct gen_sent *sent, uint64_t number, uint64_t due_tsc)
{
	uint64_t tsc = spw_thr_load_rlx(&sent->tsc[number & ((1u << GEN_SENT_LOG2) - 1)]);

	if (spw_thr_load_rlx(&sent->made_cnt) - number > 1u << GEN_SENT_LOG2)
		return 0;
	/* An older time is the last lap's: the sender has not recorded this frame yet. */
	return tsc >= due_tsc ? tsc : 0;
}

#endif
