/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The echoes of each flow: each sequence number came once, more than once, out of order, or never.
 *
 *              next_seq - 4096              next_seq
 *   ... missing or late | window: one bit each | not sent yet, or under way ...
 *
 * The window remembers which of a flow's last 4096 numbers came. A number that leaves the window
 * without an echo is listed as missing; if its echo comes after all, it counts as late. (The window
 * is far longer than any reordering that is not loss.)
 *
 *   sent = unique + late + lost,   echoed = unique + late; what comes again is counted apart
 */
#ifndef SPW_GEN_TRACK_H
#define SPW_GEN_TRACK_H

#include "base/spw_types.h"

#define GEN_TRACK_WINDOW 4096u
#define GEN_MISSING_MAX  65536u /* ranges in the list; further ones are only counted */
#define GEN_CAME_MAX     4096u

struct gen_flow {
	uint64_t next_seq; /* one above the highest echoed */
	uint64_t unique, duplicated, reordered, late, corrupted;
	uint64_t seen[GEN_TRACK_WINDOW / 64]; /* bit seq % WINDOW, for the window's numbers */
};

enum gen_seen { GEN_SEEN_NEW, GEN_SEEN_REORDERED, GEN_SEEN_DUPLICATE, GEN_SEEN_LATE };

/* Numbers of one flow that did not come back or, in `came`, came late. */
struct gen_range {
	uint32_t flow;
	uint64_t first, last;
};

struct gen_track {
	struct gen_flow *flow;
	uint32_t flow_cnt;
	/* [GEN_MISSING_MAX] and [GEN_CAME_MAX], in the order of detection */
	struct gen_range *missing, *came;
	uint32_t missing_cnt, came_cnt;
	bool missing_cut; /* the list is full and incomplete */
};

/* Purpose: starts an empty account of flow_cnt flows.
 * Owner: the caller, until gen_track_fini.
 * Thread: setup.
 * Errors: -ENOMEM.
 */
int gen_track_init(struct gen_track *track, uint32_t flow_cnt);
void gen_track_fini(struct gen_track *track);

/* Purpose: the 64-bit sequence number of a frame's 32 bits: the one nearest to the expected number.
 * Thread: owner.
 */
SPW_INLINE uint64_t gen_flow_extend(const struct gen_flow *flow, uint32_t seq32)
{
	return flow->next_seq + (uint64_t)(int64_t)(int32_t)(seq32 - (uint32_t)flow->next_seq);
}

/* Purpose: counts one echo of a flow.
 * Shape: flow < flow_cnt; seq from gen_flow_extend. A seq that is negative as an int64_t was never
 *   sent, and counts as LATE.
 * Thread: owner.
 */
enum gen_seen gen_track_saw(struct gen_track *track, uint32_t flow, uint64_t seq);

/* Purpose: lists what is still missing of a flow's numbers 0 .. sent - 1. To be called once for
 *   each flow, after its last echo.
 * Thread: owner.
 */
void gen_track_end(struct gen_track *track, uint32_t flow, uint64_t sent);

/* Purpose: sorts `missing` by flow and number, joins adjacent ranges, and removes what came late.
 * Thread: owner, after the last gen_track_end.
 */
void gen_track_settle(struct gen_track *track);

/* Purpose: sorts ranges by flow, then by number.
 * Thread: any.
 */
void gen_range_sort(struct gen_range *range, uint32_t cnt);

#endif
