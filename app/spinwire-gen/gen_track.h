/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What came back, by flow: each sequence number once, more than once, out of order, or never. A sliding window of the
 * last 4096 numbers of a flow remembers which came; what leaves the window unseen is written down as missing, and if it
 * comes after that it is counted as late (the window is far longer than any reordering that is not loss).
 *
 *   sent = unique + late + lost,   echoed = unique + late + duplicated
 */
#ifndef SPW_GEN_TRACK_H
#define SPW_GEN_TRACK_H

#include "base/spw_types.h"

#define GEN_TRACK_WINDOW 4096u
#define GEN_MISSING_MAX  65536u /* ranges that are written down; more of them are counted by flow only */
#define GEN_CAME_MAX     4096u

struct gen_flow {
	uint64_t next_seq;       /* one above the highest seen */
	uint64_t unique, duplicated, reordered, late, corrupted;
	uint64_t seen[GEN_TRACK_WINDOW / 64]; /* bit seq % WINDOW, for seq in [next_seq - WINDOW, next_seq) */
};

enum gen_seen { GEN_SEEN_NEW, GEN_SEEN_REORDERED, GEN_SEEN_DUPLICATE, GEN_SEEN_LATE };

/* Numbers of one flow that did not come back, or, in came, that did after all. */
struct gen_range {
	uint32_t flow;
	uint64_t first, last;
};

struct gen_track {
	struct gen_flow *flow;
	uint32_t flow_cnt;
	struct gen_range *missing, *came; /* [GEN_MISSING_MAX], [GEN_CAME_MAX]; in the order in which it was noticed */
	uint32_t missing_cnt, came_cnt;
	bool missing_cut;        /* there was no room: the list does not name all */
};

int gen_track_init(struct gen_track *track, uint32_t flow_cnt);
void gen_track_fini(struct gen_track *track);

/* Purpose: the whole sequence number that a frame's 32 bits mean: the one nearest to what is expected. Thread: owner. */
SPW_INLINE uint64_t gen_flow_extend(const struct gen_flow *flow, uint32_t seq32)
{
	return flow->next_seq + (uint64_t)(int64_t)(int32_t)(seq32 - (uint32_t)flow->next_seq);
}

/* Purpose: counts one echo of flow < flow_cnt. Thread: owner.
 * Shape: seq from gen_flow_extend; one below zero (an int64_t less than 0) is a number never sent: LATE. */
enum gen_seen gen_track_saw(struct gen_track *track, uint32_t flow, uint64_t seq);

/* Purpose: writes down what of sent frames (numbers 0 .. sent - 1) of a flow is still missing. Once for a flow, after its last
 *          echo. Thread: owner. */
void gen_track_end(struct gen_track *track, uint32_t flow, uint64_t sent);

/* Purpose: sorts missing by flow and number, joins neighbours, and takes out what came late. Thread: owner, after the last
 *          gen_track_end. */
void gen_track_settle(struct gen_track *track);

/* Purpose: by flow, then by number. */
void gen_range_sort(struct gen_range *range, uint32_t cnt);

#endif
