/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Pauses: times in which an executor that should have been polling was not. A GPU that is shared in time slices stops a
 * resident kernel between any two of its instructions, an operating system does the same to a thread; who is stopped
 * finds a hole between two of its own polls and writes it down. Handlers' run times are no pauses.
 *
 *   field               place        writer    reader    order
 *   ------------------  -----------  --------  --------  -------------------------------------------------------------
 *   at[k % 64].w[0, 1]  host memory  executor  host      G6: relaxed at system scope, no fence: begin and end of pause k,
 *                                                        each with the tag of k in its top byte as in gpu/spw_gring.h;
 *                                                        both words whole and of one tag, or the pair is passed over
 *   cnt                 host memory  executor  executor  private: the next k, kept when a kernel leaves and comes back
 *
 * A resident kernel lets the first warp of unit 0 write: time slices stop all CTAs together. The cpu executor's thread
 * writes its own. Inline, graph and launch executors have nobody who polls, and write nothing.
 */
#ifndef SPW_GPU_PAUSE_H
#define SPW_GPU_PAUSE_H

#include "gpu/spw_gring.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPW_PAUSE_CNT 64u      /* the newest are kept, some milliseconds of a GPU that is shared in small slices; a power of 2 */
#define SPW_PAUSE_NS  50000ull /* shorter holes are none: 20 times a slow poll across the link, a 20th of a time slice */

struct spw_pauses {
	uint64_t cnt;
	uint64_t reserved[15];
	struct { uint64_t w[2]; } at[SPW_PAUSE_CNT];
} SPW_ALIGNED(128);
SPW_ASSERT_SIZE(struct spw_pauses, 1152);

struct spw_pause {
	uint64_t begin, end; /* executor clock */
};

SPW_HD SPW_INLINE uint64_t spw_pause_word(uint64_t k, uint64_t stamp)
{
	return ((k + 1) & 0xff) << SPW_GRING_TAG_SHIFT | (stamp & SPW_GRING_VALUE_MASK);
}

/* Purpose: writes a pause down. Thread: the executor's one writer, on the host. */
void spw_pause_add(struct spw_pauses *pauses, uint64_t begin, uint64_t end);

/* Purpose: the longest part of [from, to] that the executor of this ring was away, as far as its newest SPW_PAUSE_CNT
 *          pauses tell. Shape: from <= to, executor clock. Returns: ticks of that clock, 0 if none; the whole pause in
 *          pause_out. A pause is written when it is over, by one unit for all: ask a millisecond after the batch.
 * Thread:  any. Cost: about 200 loads, no waiting. Order: G6. */
uint64_t spw_pause_find(struct spw_gring *ring, uint64_t from, uint64_t to, struct spw_pause *pause_out);

#ifdef __cplusplus
}
#endif
#endif
