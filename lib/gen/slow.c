/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The worst frames and the causes of slow ones (spw_gen_slow.h). Runs for slow frames only.
 *
 * The three moments by which a slow echo is attributed:
 *
 *   intended ──── sent ───────────────── drained ──── echo read ──> time
 *      └ sender_late ┘└─ beyond_sender ─┘└─ sender_behind ─┘
 *
 * The part that is more than half of the whole is the cause. drained: the last poll that left the
 * port empty; an echo cannot have waited there before it.
 */
#include <stdlib.h>
#include <string.h>

#include "gen/spw_gen_slow.h"

static const struct spw_enum_word cause_word[] = {SPW_ENUM_WORDS(GEN_CAUSE)};

const char *gen_cause_name(enum gen_cause cause)
{
	return SPW_ENUM_NAME(cause_word, cause);
}

const char *gen_cause_text(enum gen_cause cause)
{
	return SPW_ENUM_TEXT(cause_word, cause);
}

void gen_slow_init(struct gen_slow *slow, uint64_t threshold_ns)
{
	memset(slow, 0, sizeof(*slow));
	slow->threshold_ns = threshold_ns;
}

static void slow_count(struct gen_slow *slow, enum gen_cause cause, uint64_t frames,
		       uint64_t worst_ns)
{
	slow->by[cause].frames += frames;
	slow->by[cause].worst_ns = SPW_MAX(slow->by[cause].worst_ns, worst_ns);
}

/* A short list: a linear search is enough. */
static uint32_t slow_least(const struct gen_slow *slow)
{
	uint32_t least = 0;

	for (uint32_t i = 1; i < slow->worst_cnt; i++)
		if (slow->worst[i].whole_ns < slow->worst[least].whole_ns)
			least = i;
	return least;
}

/* Frames that were under way at the same time are one incident. */
static bool slow_overlaps(const struct gen_worst *a, const struct gen_worst *b)
{
	return a->intended_tsc <= b->echo_tsc && b->intended_tsc <= a->echo_tsc;
}

/* Removes the frames that overlap `frame` and are shorter. Returns: false if one is longer, which
 * then represents `frame`. */
static bool slow_stand_for(struct gen_slow *slow, struct gen_worst *frame)
{
	for (uint32_t i = 0; i < slow->worst_cnt; i++) {
		if (!slow_overlaps(&slow->worst[i], frame))
			continue;
		if (slow->worst[i].whole_ns >= frame->whole_ns) {
			slow->worst[i].like += frame->like + 1;
			return false;
		}
		frame->like += slow->worst[i].like + 1;
		slow->worst[i--] = slow->worst[--slow->worst_cnt];
	}
	return true;
}

/* Adds the frame to the worst, if it is one of them. */
static void slow_keep(struct gen_slow *slow, struct gen_worst frame)
{
	uint32_t least;

	if (!slow_stand_for(slow, &frame))
		return;
	if (slow->worst_cnt < GEN_WORST_MAX) {
		slow->worst[slow->worst_cnt++] = frame;
	} else {
		least = slow_least(slow);
		if (frame.whole_ns > slow->worst[least].whole_ns)
			slow->worst[least] = frame;
	}
	slow->floor_ns =
		slow->worst_cnt < GEN_WORST_MAX
			? 0
			: SPW_MIN(slow->threshold_ns, slow->worst[slow_least(slow)].whole_ns);
}

/* Half of the whole, so at most one part can be it; if none is, the time was spent beyond the
 * sender. */
static enum gen_cause slow_cause(const struct gen_worst *frame)
{
	uint64_t half = (frame->echo_tsc - frame->intended_tsc) / 2;
	uint64_t out_tsc = SPW_MAX(frame->sent_tsc, frame->intended_tsc);
	uint64_t since_tsc = SPW_MAX(out_tsc, frame->drained_tsc);

	if (out_tsc - frame->intended_tsc > half)
		return GEN_CAUSE_sender_late;
	return frame->echo_tsc - since_tsc > half ? GEN_CAUSE_sender_behind
						  : GEN_CAUSE_beyond_sender;
}

/* Every frame above the threshold has exactly one cause; the list has fewer, one for each
 * incident. */
void gen_slow_note(struct gen_slow *slow, const struct gen_worst *frame)
{
	struct gen_worst kept = *frame;

	kept.cause = slow_cause(frame);
	if (frame->whole_ns > slow->threshold_ns)
		slow_count(slow, kept.cause, 1, frame->whole_ns);
	slow_keep(slow, kept);
}

/* Lists of senders overlap where an incident hit several: the same rule joins them. */
void gen_slow_merge(struct gen_slow *slow, const struct gen_slow *from)
{
	for (int c = 0; c < GEN_CAUSE_CNT; c++)
		slow_count(slow, (enum gen_cause)c, from->by[c].frames, from->by[c].worst_ns);
	for (uint32_t i = 0; i < from->worst_cnt; i++)
		slow_keep(slow, from->worst[i]);
}

/* Lost and unsent frames are slow without an echo: they count by cause and have no worst time. */
void gen_slow_missing(struct gen_slow *slow, enum gen_cause cause, uint64_t frames)
{
	slow_count(slow, cause, frames, 0);
}

static int slow_longest_first(const void *a, const void *b)
{
	const struct gen_worst *x = a, *y = b;

	return (x->whole_ns < y->whole_ns) - (x->whole_ns > y->whole_ns);
}

void gen_slow_sort(struct gen_slow *slow)
{
	qsort(slow->worst, slow->worst_cnt, sizeof(slow->worst[0]), slow_longest_first);
}

uint64_t gen_slow_above(const struct gen_slow *slow)
{
	uint64_t sum = 0;

	for (int c = 0; c < GEN_CAUSE_CNT; c++)
		sum += slow->by[c].frames;
	return sum;
}
