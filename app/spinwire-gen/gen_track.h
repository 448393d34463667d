/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What came back, by flow: each sequence number once, more than once, out of order, or never. A sliding window of the
 * last 4096 numbers of a flow remembers which came; what leaves the window unseen is lost for good, and if it comes after
 * that it is counted as late (it is lost in the books: the window is far longer than any reordering that is not loss).
 *
 *   sent = unique + late + lost,   echoed = unique + late + duplicated
 */
#ifndef SPW_GEN_TRACK_H
#define SPW_GEN_TRACK_H

#include "base/spw_types.h"

#define GEN_TRACK_WINDOW 4096u

struct gen_flow {
	uint64_t next_seq;       /* one above the highest seen */
	uint64_t unique, duplicated, reordered, late, corrupted;
	uint64_t seen[GEN_TRACK_WINDOW / 64]; /* bit seq % WINDOW, for seq in [next_seq - WINDOW, next_seq) */
};

enum gen_seen { GEN_SEEN_NEW, GEN_SEEN_REORDERED, GEN_SEEN_DUPLICATE, GEN_SEEN_LATE };

struct gen_track {
	struct gen_flow *flow;
	uint32_t flow_cnt;
};

int gen_track_init(struct gen_track *track, uint32_t flow_cnt);
void gen_track_fini(struct gen_track *track);

/* Purpose: the whole sequence number that a frame's 32 bits mean: the one nearest to what is expected. Thread: owner. */
SPW_INLINE uint64_t gen_flow_extend(const struct gen_flow *flow, uint32_t seq32)
{
	return flow->next_seq + (uint64_t)(int64_t)(int32_t)(seq32 - (uint32_t)flow->next_seq);
}

/* Purpose: counts one echo of flow. Only NEW and REORDERED ones have a round trip that counts. Thread: owner.
 * Shape: seq from gen_flow_extend; one below zero (an int64_t less than 0) is a number never sent: LATE. */
enum gen_seen gen_flow_saw(struct gen_flow *flow, uint64_t seq);

#endif
