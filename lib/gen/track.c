/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The account of echoes by flow (spw_gen_track.h). The common case, the next number in order, is a
 * test and a few adds; everything else is cold.
 *
 *   numbers   0 ........ next_seq - WINDOW ....................... next_seq ........>
 *             leaves: missing if   │ one bit each: echo observed? │  expected next
 *             its bit is not set   └ reordered if it comes now    ┘
 *
 * A number that comes after it has left the window is late: it is taken out of the list of missing
 * ones at the end (gen_track_settle). The lists have a limit; missing_cut reports that it was
 * reached, and the counts stay exact.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "gen/spw_gen_track.h"

/* Bit seq % WINDOW: the window is a ring of bits. */
static bool track_window_test(const struct gen_flow *flow, uint64_t seq)
{
	return flow->seen[seq % GEN_TRACK_WINDOW / 64] >> (seq % 64) & 1;
}

static void track_window_set(struct gen_flow *flow, uint64_t seq)
{
	flow->seen[seq % GEN_TRACK_WINDOW / 64] |= 1ull << (seq % 64);
}

static void track_window_clear(struct gen_flow *flow, uint64_t seq)
{
	flow->seen[seq % GEN_TRACK_WINDOW / 64] &= ~(1ull << (seq % 64));
}

/* Neighbours of one flow are one range: a burst of losses takes one entry. */
static SPW_COLD void track_note_missing(struct gen_track *track, uint32_t flow, uint64_t first,
					uint64_t last)
{
	struct gen_range *before = track->missing_cnt ? &track->missing[track->missing_cnt - 1]
						      : NULL;

	if (before && before->flow == flow && before->last + 1 == first)
		before->last = last;
	else if (track->missing_cnt < GEN_MISSING_MAX)
		track->missing[track->missing_cnt++] = (struct gen_range){flow, first, last};
	else
		track->missing_cut = true;
}

/* A late echo; it is matched with the missing ranges when the run has ended. */
static SPW_COLD void track_note_came(struct gen_track *track, uint32_t flow, uint64_t seq)
{
	if (track->came_cnt < GEN_CAME_MAX)
		track->came[track->came_cnt++] = (struct gen_range){flow, seq, seq};
	else
		track->missing_cut = true;
}

/* The numbers below `until` leave the window; those without an echo are listed as missing. */
static void track_window_leave(struct gen_track *track, uint32_t idx, uint64_t until)
{
	struct gen_flow *flow = &track->flow[idx];
	uint64_t s = flow->next_seq > GEN_TRACK_WINDOW ? flow->next_seq - GEN_TRACK_WINDOW : 0;

	for (; s < SPW_MIN(until, flow->next_seq); s++)
		if (!track_window_test(flow, s))
			track_note_missing(track, idx, s, s);
	if (until > flow->next_seq)
		track_note_missing(track, idx, flow->next_seq, until - 1);
}

/* Numbers [next_seq, seq] enter the window, in the bits of those that are WINDOW below them: these
 * leave it, and the bits are cleared. */
static SPW_COLD void track_window_jump(struct gen_track *track, uint32_t idx, uint64_t seq)
{
	struct gen_flow *flow = &track->flow[idx];

	if (seq >= GEN_TRACK_WINDOW)
		track_window_leave(track, idx, seq + 1 - GEN_TRACK_WINDOW);
	if (seq - flow->next_seq >= GEN_TRACK_WINDOW)
		memset(flow->seen, 0, sizeof(flow->seen));
	else
		for (uint64_t s = flow->next_seq; s <= seq; s++)
			track_window_clear(flow, s);
}

/* In the order of likelihood: the expected number, a jump ahead, too old for the window, within the
 * window. */
enum gen_seen gen_track_saw(struct gen_track *track, uint32_t idx, uint64_t seq)
{
	struct gen_flow *flow = &track->flow[idx];

	if (spw_likely(seq == flow->next_seq &&
		       (seq < GEN_TRACK_WINDOW || track_window_test(flow, seq)))) {
		flow->next_seq++; /* the number that leaves the window had an echo */
		track_window_set(flow, seq);
		flow->unique++;
		return GEN_SEEN_NEW;
	}
	if ((int64_t)(seq - flow->next_seq) >= 0) {
		track_window_jump(track, idx, seq);
		flow->next_seq = seq + 1;
		track_window_set(flow, seq);
		flow->unique++;
		return GEN_SEEN_NEW;
	}
	if ((int64_t)seq < 0 || flow->next_seq - seq > GEN_TRACK_WINDOW) {
		flow->late++;
		track_note_came(track, idx, seq);
		return GEN_SEEN_LATE;
	}
	if (track_window_test(flow, seq)) {
		flow->duplicated++;
		return GEN_SEEN_DUPLICATE;
	}
	track_window_set(flow, seq);
	flow->unique++;
	flow->reordered++;
	return GEN_SEEN_REORDERED;
}

/* What was sent and has no echo is missing. */
void gen_track_end(struct gen_track *track, uint32_t flow, uint64_t sent)
{
	track_window_leave(track, flow, sent);
}

/* ---- the list of missing numbers, at the end ---- */

static int track_by_number(const void *a, const void *b)
{
	const struct gen_range *x = a, *y = b;

	if (x->flow != y->flow)
		return x->flow < y->flow ? -1 : 1;
	return (x->first > y->first) - (x->first < y->first);
}

void gen_range_sort(struct gen_range *range, uint32_t cnt)
{
	qsort(range, cnt, sizeof(*range), track_by_number);
}

/* Removes one number from its range. What follows it in that range becomes a new range at the end
 * of the list. */
static void track_take_out(struct gen_track *track, const struct gen_range *came)
{
	for (uint32_t i = 0; i < track->missing_cnt; i++) {
		struct gen_range *r = &track->missing[i];
		uint64_t last = r->last;

		if (r->flow != came->flow || came->first < r->first || came->first > r->last)
			continue;
		if (came->first == r->first) {
			r->first++; /* may leave an empty range, first above last */
			return;
		}
		r->last = came->first - 1;
		if (came->first < last && track->missing_cnt < GEN_MISSING_MAX)
			track->missing[track->missing_cnt++] =
				(struct gen_range){r->flow, came->first + 1, last};
		else
			track->missing_cut |= came->first < last;
		return;
	}
}

void gen_track_settle(struct gen_track *track)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < track->came_cnt; i++)
		track_take_out(track, &track->came[i]);
	gen_range_sort(track->missing, track->missing_cnt);
	for (uint32_t i = 0; i < track->missing_cnt; i++) {
		struct gen_range r = track->missing[i];

		if (r.first > r.last)
			continue;
		if (n && track->missing[n - 1].flow == r.flow &&
		    track->missing[n - 1].last + 1 == r.first)
			track->missing[n - 1].last = r.last;
		else
			track->missing[n++] = r;
	}
	track->missing_cnt = n;
	track->came_cnt = 0;
}

/* All flows of the run: an echo may come to another sender than the one that sent its frame. */
int gen_track_init(struct gen_track *track, uint32_t flow_cnt)
{
	*track = (struct gen_track){
		.flow = calloc(flow_cnt, sizeof(*track->flow)),
		.flow_cnt = flow_cnt,
		.missing = calloc(GEN_MISSING_MAX, sizeof(*track->missing)),
		.came = calloc(GEN_CAME_MAX, sizeof(*track->came)),
	};
	if (track->flow && track->missing && track->came)
		return 0;
	gen_track_fini(track);
	return spw_err(ENOMEM, "no memory to follow %u flows", flow_cnt);
}

void gen_track_fini(struct gen_track *track)
{
	free(track->flow);
	free(track->missing);
	free(track->came);
	memset(track, 0, sizeof(*track));
}
