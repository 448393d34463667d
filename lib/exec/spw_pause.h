/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Pauses: times in which an executor that should have been polling was suspended. A GPU that is
 * shared in time slices stops a resident kernel between any two instructions, an operating system
 * does the same to a thread. The executor finds a gap between two of its own polls and records it;
 * the run time of a handler is not a pause.
 *
 *   field              place        writer    reader    order
 *   -----------------  -----------  --------  --------  ------------------------------------------
 *   at[k % 64].w[0,1]  host memory  executor  host      G6: relaxed at system scope, no fence
 *   cnt                host memory  executor  executor  private: the next k
 *
 * w[0] and w[1] are begin and end of pause k, each with the tag of k in its top byte as in
 * exec/spw_gring.h; a reader skips a pair with two different tags, because it is being written.
 * cnt is kept when a kernel is launched again.
 *
 * In a resident kernel the first warp of unit 0 writes, as time slices stop all CTAs together. The
 * cpu executor's thread writes its own. Inline, graph and launch executors do not poll, and write
 * nothing.
 */
#ifndef SPW_EXEC_PAUSE_H
#define SPW_EXEC_PAUSE_H

#include "exec/spw_gring.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Newest pauses kept: some milliseconds of a GPU that is shared in small slices. A power of 2. */
#define SPW_PAUSE_CNT 64u

/* Shorter gaps are not pauses: 20 times a slow poll across the link, a 20th of a time slice. */
#define SPW_PAUSE_NS 50000ull

struct spw_pauses {
	uint64_t cnt;
	uint64_t reserved[15];
	struct {
		uint64_t w[2];
	} at[SPW_PAUSE_CNT];
} SPW_ALIGNED(128);
SPW_ASSERT_SIZE(struct spw_pauses, 1152);

struct spw_pause {
	uint64_t begin, end; /* executor clock */
};

/* Purpose: one word of pause k: stamp with the tag of k.
 * Thread:  any; pure. */
SPW_HD SPW_INLINE uint64_t spw_pause_word(uint64_t k, uint64_t stamp)
{
	return ((k + 1) & 0xff) << SPW_GRING_TAG_SHIFT | (stamp & SPW_GRING_VALUE_MASK);
}

/* Purpose: records a pause, executor clock.
 * Order:   G6.
 * Thread:  owner (the cpu executor's thread; a kernel's writer is spwd_pause_add). */
void spw_pause_add(struct spw_pauses *pauses, uint64_t begin, uint64_t end);

/* Purpose: finds the pause that covers the longest part of [from, to], among the newest
 *          SPW_PAUSE_CNT. A pause is recorded only after it ends: call this about a millisecond
 *          after the batch.
 * Shape:   from <= to, executor clock.
 * Returns: the length of that part, ticks of the executor clock; 0 if there is none. pause_out gets
 *          the whole pause.
 * Order:   G6.
 * Thread:  any. About 200 loads, no waiting. */
uint64_t spw_pause_find(struct spw_gring *ring, uint64_t from, uint64_t to,
			struct spw_pause *pause_out);

#ifdef __cplusplus
}
#endif
#endif
