/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The reorder window: puts frames that came over several rails back into the order of their source.
 * Memory alone: no port, no clock, no frame is touched here.
 *
 * A sequence is a flow, or a stream of flows; its source numbers the frames. The number expected
 * next divides what is over from what is to come:
 *
 *      passed                next            next + cnt
 *   ───────────────────────────┼───────────────────┼──────────────►  numbers
 *   late: was given up         │  parked, until    │  beyond: the lowest numbers are given up
 *   duplicate: was delivered   │  next has come    │  until it fits
 *
 * The number that is expected costs one comparison and one store, and no memory but the sequence's
 * 8 bytes. Any other takes a ring, which the sequence has until nothing of it is parked; a window
 * is `cnt` entries of such a ring. Rings, parked frames and the time that a missing number is
 * waited for are all bounded: where one runs out, the oldest wait is given up. Frames that become
 * deliverable while others are, leave through one FIFO (`ready`), so their order is that of its
 * entries.
 *
 * Thread: setup for init and fini, the queue's owner for all others.
 */
#ifndef RAILS_WINDOW_H
#define RAILS_WINDOW_H

#include "frame/spw_desc.h"
#include "base/spw_order.h"

#define RAILS_RING_CNT   64u /* sequences that may wait at the same time */
#define RAILS_GIVEN_CNT  64u /* ranges of numbers given up last, to separate late from duplicate */
#define RAILS_FAR        (1u << 20) /* a number so far off is believed when the next confirms it */
#define RAILS_WINDOW_MAX 4096u
#define RAILS_NOTHING    UINT32_MAX

/* What a sequence expects: a number, in a run of its source, and the ring in which later ones are
 * parked, or 0. The word 0: not used yet. */
#define RAILS_WORD(seq, run, ring) \
	((uint64_t)(uint32_t)(seq) | (uint64_t)(ring) << 32 | (uint64_t)(run) << 48)
#define RAILS_WORD_SEQ(word)  ((uint32_t)(word))
#define RAILS_WORD_RING(word) ((uint16_t)((word) >> 32))
#define RAILS_WORD_RUN(word)  ((uint16_t)((word) >> 48))

/* cnt numbers on, which may wrap. No ring. */
SPW_INLINE uint64_t rails_word_add(uint64_t word, uint32_t cnt)
{
	return (word + cnt) & ~RAILS_WORD(0, 0, UINT16_MAX);
}

/* Where a frame stands: the word of sequence idx when this frame is next and none is parked. */
struct rails_tag {
	uint64_t word;
	uint32_t idx;
};

struct rails_ring {
	uint64_t since_tsc; /* when a frame came that showed the number expected next to be missing
			     */
	uint32_t idx;       /* of the sequence */
	uint32_t cnt;       /* parked */
	uint16_t before,
		after; /* in the list of rings that wait, the longest wait first; 0: ends */
};

struct rails_range {
	uint32_t idx, first, last;
	uint16_t run;
};

/* Written by the owner, sampled by others. */
struct rails_window_stat {
	uint64_t parked;   /* frames that had to wait */
	uint64_t gap;      /* numbers given up */
	uint64_t gap_down; /* of them, while a rail was down */
	uint64_t far;      /* frames delivered as they came: their number was not believed */
};

struct rails_window {
	/* read for every frame */
	uint64_t *seq;     /* [seq_cnt + 1]; the last one expects nothing */
	uint32_t untagged; /* its index */
	uint32_t mask;     /* entries of a ring - 1 */
	uint32_t ready_in, ready_out, ready_mask;
	uint32_t waiting;  /* rings in the list */
	bool rail_is_down; /* set by the queue: what is given up now is counted in gap_down too */
	/* what is out of order */
	uint64_t now_tsc;  /* set by the queue before each call */
	uint64_t wait_tsc; /* the longest wait for a number */
	uint32_t parked_cnt, parked_max;
	struct spw_desc *parked; /* [slot_cnt], by slot */
	uint64_t *parked_tsc;    /* [slot_cnt], when it came */
	uint32_t *ready;         /* [ready_mask + 1], slots */
	struct rails_ring *ring; /* [RAILS_RING_CNT + 1]; 0 is the head of the list */
	uint32_t *ring_slot;     /* [RAILS_RING_CNT + 1][mask + 1], by number; RAILS_NOTHING */
	uint32_t free_cnt;
	uint16_t free[RAILS_RING_CNT];
	uint32_t given_at;
	struct rails_range given[RAILS_GIVEN_CNT];
	struct rails_tag far;
	struct rails_window_stat stat;
};

struct rails_window_conf {
	uint32_t cnt;      /* numbers in a window, a power of 2 up to RAILS_WINDOW_MAX */
	uint32_t seq_cnt;  /* sequences; a tag's idx is below it */
	uint32_t slot_cnt; /* of the pool: slots are below it */
	uint32_t parked_max;
	uint64_t wait_tsc;
};

enum rails_verdict {
	RAILS_PASS,      /* deliver it now, before anything that is ready */
	RAILS_KEPT,      /* parked, or ready: the window has a copy of the descriptor */
	RAILS_LATE,      /* its number was given up */
	RAILS_DUPLICATE, /* its number is parked or was delivered */
};

/* Purpose: an empty window.
 * Owner:   the caller, until rails_window_fini.
 * Thread:  setup
 * Errors:  -ENOMEM. */
int rails_window_init(struct rails_window *w, const struct rails_window_conf *conf);
void rails_window_fini(struct rails_window *w);

/* Purpose: whether this frame is the one that its sequence expects, with none parked behind it and
 *          none ready before it.
 * Thread:  owner */
SPW_INLINE bool rails_window_expects(const struct rails_window *w, const struct rails_tag *tag)
{
	return w->seq[tag->idx] == tag->word && w->ready_in == w->ready_out;
}

/* Purpose: the same; if so, it counts as delivered.
 * Thread:  owner */
SPW_INLINE bool rails_window_next(struct rails_window *w, const struct rails_tag *tag)
{
	if (spw_unlikely(!rails_window_expects(w, tag)))
		return false;
	w->seq[tag->idx] = rails_word_add(tag->word, 1);
	return true;
}

/* Purpose: any frame with a tag, in order or not. Afterwards frames may be ready.
 * Owner:   with RAILS_KEPT the slot is the window's until rails_window_take.
 * Thread:  owner */
enum rails_verdict rails_window_put(struct rails_window *w, const struct rails_tag *tag,
				    const struct spw_desc *desc);

/* Purpose: a frame without a tag: it leaves behind what is ready.
 * Returns: RAILS_PASS or RAILS_KEPT.
 * Thread:  owner */
enum rails_verdict rails_window_untagged(struct rails_window *w, const struct spw_desc *desc);

/* Purpose: gives up the numbers that were waited for too long.
 * Thread:  owner */
void rails_window_expire(struct rails_window *w);

/* Purpose: gives up every number that is waited for: all parked frames become ready.
 * Thread:  owner, or setup after stop */
void rails_window_flush(struct rails_window *w);

/* Purpose: the next ready frames.
 * Returns: 0 .. cnt; desc[0 .. returned - 1] are filled.
 * Thread:  owner */
uint16_t rails_window_take(struct rails_window *w, struct spw_desc *desc, uint16_t cnt);

#endif
