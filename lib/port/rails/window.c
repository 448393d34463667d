/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The reorder window, what is not the number expected next (window.h). Called by rx.c; every loop
 * here is bounded by the window's length.
 *
 *   frame ──► put ─┬─ expected ──► PASS, and what waited for it ──► ready
 *                  ├─ ahead ─────► parked in its sequence's ring
 *                  ├─ beyond ────► the lowest numbers are given up, then parked
 *                  └─ passed ────► late or duplicate
 *   time ──► expire: the longest wait is given up ───────────────► ready
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "port/rails/window.h"

static uint32_t rails_seq_next(const struct rails_window *w, uint32_t idx)
{
	return RAILS_WORD_SEQ(w->seq[idx]);
}

static uint16_t rails_seq_run(const struct rails_window *w, uint32_t idx)
{
	return RAILS_WORD_RUN(w->seq[idx]);
}

static uint16_t rails_seq_ring(const struct rails_window *w, uint32_t idx)
{
	return RAILS_WORD_RING(w->seq[idx]);
}

/* Ring 0 is the list's head, and no sequence's. */
static uint32_t *rails_ring_at(struct rails_window *w, uint16_t r, uint32_t seq)
{
	return &w->ring_slot[(size_t)r * (w->mask + 1) + (seq & w->mask)];
}

/* It has room for every slot of the pool, so it is never full. */
static void rails_ready_push(struct rails_window *w, uint32_t slot)
{
	w->ready[w->ready_in++ & w->ready_mask] = slot;
}

/* ---- the list of rings that wait ---- */

static void rails_list_remove(struct rails_window *w, uint16_t r)
{
	w->ring[w->ring[r].before].after = w->ring[r].after;
	w->ring[w->ring[r].after].before = w->ring[r].before;
}

/* A wait that begins now is the shortest; one that began while another number was expected is not.
 */
static void rails_list_insert(struct rails_window *w, uint16_t r, uint64_t since_tsc)
{
	uint16_t before = w->ring[0].before, after;

	while (before && (int64_t)(w->ring[before].since_tsc - since_tsc) > 0)
		before = w->ring[before].before;
	after = w->ring[before].after;
	w->ring[r].since_tsc = since_tsc;
	w->ring[r].before = before;
	w->ring[r].after = after;
	w->ring[before].after = r;
	w->ring[after].before = r;
}

/* Nothing is parked in it; the sequence takes another when it has to wait again. */
static void rails_ring_release(struct rails_window *w, uint16_t r)
{
	rails_list_remove(w, r);
	w->waiting--;
	w->free[w->free_cnt++] = r;
	w->seq[w->ring[r].idx] &= ~RAILS_WORD(0, 0, UINT16_MAX);
}

/* ---- from parked to ready ---- */

/* Numbers first .. last never came. */
static void rails_give_up(struct rails_window *w, uint32_t idx, uint32_t first, uint32_t last)
{
	const uint64_t cnt = (uint64_t)(last - first) + 1;

	w->given[w->given_at++ % RAILS_GIVEN_CNT] =
		(struct rails_range){idx, first, last, rails_seq_run(w, idx)};
	spw_thr_count(&w->stat.gap, cnt);
	if (w->rail_is_down)
		spw_thr_count(&w->stat.gap_down, cnt);
}

/* Whether a number that was passed was given up. */
static bool rails_was_given_up(const struct rails_window *w, const struct rails_tag *tag)
{
	const uint32_t seq = RAILS_WORD_SEQ(tag->word);

	for (uint32_t i = 0; i < RAILS_GIVEN_CNT; i++) {
		const struct rails_range *g = &w->given[i];

		if (i < w->given_at && g->idx == tag->idx && g->run == RAILS_WORD_RUN(tag->word) &&
		    seq - g->first <= g->last - g->first)
			return true;
	}
	return false;
}

/* What is expected now has been waited for since the frame behind it came. */
static void rails_wait_on(struct rails_window *w, uint16_t r)
{
	uint32_t seq = rails_seq_next(w, w->ring[r].idx);

	while (*rails_ring_at(w, r, seq) == RAILS_NOTHING)
		seq++;
	rails_list_remove(w, r);
	rails_list_insert(w, r, w->parked_tsc[*rails_ring_at(w, r, seq)]);
}

/* Moves the expected number up to `to`, if it is not there yet, and on over all that are parked
 * without a gap. Parked ones that are passed become ready, the others are given up. */
static void rails_advance(struct rails_window *w, uint32_t idx, uint32_t to)
{
	const uint16_t r = rails_seq_ring(w, idx);
	uint32_t next = rails_seq_next(w, idx), gap = next;
	struct rails_ring *ring = &w->ring[r];
	const uint32_t parked = ring->cnt;

	while (r && ring->cnt) {
		uint32_t *slot = rails_ring_at(w, r, next);

		if (*slot == RAILS_NOTHING && (int32_t)(to - next) <= 0)
			break;
		if (*slot != RAILS_NOTHING) {
			if (gap != next)
				rails_give_up(w, idx, gap, next - 1);
			gap = next + 1;
			rails_ready_push(w, *slot);
			*slot = RAILS_NOTHING;
			ring->cnt--;
			w->parked_cnt--;
		}
		next++;
	}
	if ((int32_t)(to - next) > 0)
		next = to;
	if (gap != next)
		rails_give_up(w, idx, gap, next - 1);
	w->seq[idx] = RAILS_WORD(next, rails_seq_run(w, idx), r);
	if (!r)
		return;
	if (!ring->cnt)
		rails_ring_release(w, r);
	else if (ring->cnt != parked)
		rails_wait_on(w, r);
}

/* Gives up what the ring waits for now, up to the first number that is parked. */
static void rails_ring_skip(struct rails_window *w, uint16_t r)
{
	const uint32_t idx = w->ring[r].idx;
	uint32_t to = rails_seq_next(w, idx);

	while (*rails_ring_at(w, r, to) == RAILS_NOTHING)
		to++;
	rails_advance(w, idx, to);
}

/* All that is parked becomes ready, in order; what is missing between is given up. */
static void rails_ring_flush(struct rails_window *w, uint16_t r)
{
	for (uint32_t left = w->ring[r].cnt; left; left = w->ring[r].cnt)
		rails_ring_skip(w, r);
}

/* The ring of a sequence, or a new one; the longest wait is given up if all are in use. */
static uint16_t rails_ring_of(struct rails_window *w, uint32_t idx)
{
	uint16_t r = rails_seq_ring(w, idx);

	if (r)
		return r;
	if (!w->free_cnt)
		rails_ring_flush(w, w->ring[0].after);
	r = w->free[--w->free_cnt];
	w->ring[r].idx = idx;
	w->ring[r].cnt = 0;
	rails_list_insert(w, r, w->now_tsc);
	w->waiting++;
	w->seq[idx] |= RAILS_WORD(0, 0, r);
	return r;
}

/* ---- a frame ---- */

/* Delivers at once, or behind what is ready. */
static enum rails_verdict rails_deliver(struct rails_window *w, const struct spw_desc *desc)
{
	if (w->ready_in == w->ready_out)
		return RAILS_PASS;
	w->parked[desc->slot] = *desc;
	rails_ready_push(w, desc->slot);
	return RAILS_KEPT;
}

/* Beyond parked_max the longest wait is given up, of whatever sequence. */
static enum rails_verdict rails_park(struct rails_window *w, const struct rails_tag *tag,
				     const struct spw_desc *desc)
{
	const uint16_t r = rails_ring_of(w, tag->idx);
	uint32_t *slot = rails_ring_at(w, r, RAILS_WORD_SEQ(tag->word));

	if (*slot != RAILS_NOTHING)
		return RAILS_DUPLICATE;
	*slot = desc->slot;
	w->parked[desc->slot] = *desc;
	w->parked_tsc[desc->slot] = w->now_tsc;
	w->ring[r].cnt++;
	spw_thr_count(&w->stat.parked, 1);
	if (++w->parked_cnt > w->parked_max)
		rails_ring_skip(w, w->ring[0].after);
	return RAILS_KEPT;
}

/* A damaged number must not move the window away from its flow: the frame is delivered as it came,
 * and only a second one that continues it is believed. */
static bool rails_is_far(struct rails_window *w, const struct rails_tag *tag)
{
	const uint32_t off = RAILS_WORD_SEQ(tag->word) - rails_seq_next(w, tag->idx);
	const struct rails_tag *far = &w->far;

	if (off + RAILS_FAR <= 2 * RAILS_FAR)
		return false;
	if (far->idx == tag->idx && rails_word_add(far->word, 1) == tag->word)
		return false;
	w->far = *tag;
	spw_thr_count(&w->stat.far, 1);
	return true;
}

/* A source begins with number 0. Whoever joins it later begins where it is. */
static void rails_seq_begin(struct rails_window *w, const struct rails_tag *tag, uint32_t next)
{
	if (rails_seq_ring(w, tag->idx))
		rails_ring_flush(w, rails_seq_ring(w, tag->idx));
	w->seq[tag->idx] = RAILS_WORD(next, RAILS_WORD_RUN(tag->word), 0);
}

/* In this order: a new run, a number that is far off, one that is over, one beyond the window, the
 * next. */
enum rails_verdict rails_window_put(struct rails_window *w, const struct rails_tag *tag,
				    const struct spw_desc *desc)
{
	const uint32_t seq = RAILS_WORD_SEQ(tag->word);
	const uint16_t run = RAILS_WORD_RUN(tag->word);
	enum rails_verdict verdict;
	uint32_t off;

	if (!w->seq[tag->idx] || rails_seq_run(w, tag->idx) != run)
		rails_seq_begin(w, tag, seq <= w->mask ? 0 : seq);
	else if (rails_is_far(w, tag))
		return rails_deliver(w, desc);
	off = seq - rails_seq_next(w, tag->idx);
	if (off + RAILS_FAR > 2 * RAILS_FAR) { /* believed now */
		if ((int32_t)off > 0)
			rails_advance(w, tag->idx, seq);
		else
			rails_seq_begin(w, tag, seq);
		off = 0;
	}
	if ((int32_t)off < 0)
		return rails_was_given_up(w, tag) ? RAILS_LATE : RAILS_DUPLICATE;
	if (off > w->mask)
		rails_advance(w, tag->idx, seq - w->mask);
	if (seq != rails_seq_next(w, tag->idx))
		return rails_park(w, tag, desc);
	verdict = rails_deliver(w, desc);
	w->seq[tag->idx] = RAILS_WORD(seq + 1, run, rails_seq_ring(w, tag->idx));
	if (rails_seq_ring(w, tag->idx))
		rails_advance(w, tag->idx, seq + 1);
	return verdict;
}

enum rails_verdict rails_window_untagged(struct rails_window *w, const struct spw_desc *desc)
{
	return rails_deliver(w, desc);
}

void rails_window_expire(struct rails_window *w)
{
	while (w->waiting && w->now_tsc - w->ring[w->ring[0].after].since_tsc > w->wait_tsc)
		rails_ring_skip(w, w->ring[0].after);
}

/* At stop and close: what was parked can be taken or returned afterwards. */
void rails_window_flush(struct rails_window *w)
{
	while (w->waiting)
		rails_ring_flush(w, w->ring[0].after);
}

/* In the order of the FIFO, which is that of the sequences. */
uint16_t rails_window_take(struct rails_window *w, struct spw_desc *desc, uint16_t cnt)
{
	const uint32_t n = SPW_MIN(w->ready_in - w->ready_out, (uint32_t)cnt);

	for (uint32_t i = 0; i < n; i++)
		desc[i] = w->parked[w->ready[w->ready_out++ & w->ready_mask]];
	return (uint16_t)n;
}

/* ---- set-up ---- */

/* Errors: -ENOMEM, with a text; nothing is left. */
int rails_window_init(struct rails_window *w, const struct rails_window_conf *conf)
{
	const uint32_t ready_cnt = spw_pow2_ceil32(conf->slot_cnt);
	const size_t places = (size_t)(RAILS_RING_CNT + 1) * conf->cnt;

	*w = (struct rails_window){
		.seq = calloc((size_t)conf->seq_cnt + 1, sizeof(*w->seq)),
		.untagged = conf->seq_cnt,
		.mask = conf->cnt - 1,
		.ready_mask = ready_cnt - 1,
		.wait_tsc = conf->wait_tsc,
		.parked_max = conf->parked_max,
		.parked = calloc(conf->slot_cnt, sizeof(*w->parked)),
		.parked_tsc = calloc(conf->slot_cnt, sizeof(*w->parked_tsc)),
		.ready = calloc(ready_cnt, sizeof(*w->ready)),
		.ring = calloc(RAILS_RING_CNT + 1, sizeof(*w->ring)),
		.ring_slot = malloc(places * sizeof(*w->ring_slot)),
		.far = {.idx = UINT32_MAX},
	};
	if (!w->seq || !w->parked || !w->parked_tsc || !w->ready || !w->ring || !w->ring_slot) {
		rails_window_fini(w);
		return spw_err(ENOMEM, "no memory for a reorder window of %u frames", conf->cnt);
	}
	w->seq[w->untagged] = RAILS_WORD(0, 0, UINT16_MAX); /* a ring that there is not */
	memset(w->ring_slot, 0xff, places * sizeof(*w->ring_slot));
	while (w->free_cnt < RAILS_RING_CNT) {
		w->free[w->free_cnt] = (uint16_t)(w->free_cnt + 1);
		w->free_cnt++;
	}
	return 0;
}

void rails_window_fini(struct rails_window *w)
{
	free(w->seq);
	free(w->parked);
	free(w->parked_tsc);
	free(w->ready);
	free(w->ring);
	free(w->ring_slot);
	*w = (struct rails_window){0};
}
