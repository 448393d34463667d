/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What a replay (replay/spw_replay.h) does with a pipe beside what spw_pipe.h offers: it runs
 * single turns of the loop on recorded readings of the clock, and reports to the pipe what
 * housekeeping found out during the run. Not for a lane that runs.
 *
 * Thread: setup; of the loop's own calls, owner.
 */
#ifndef SPW_PIPE_AGAIN_H
#define SPW_PIPE_AGAIN_H

#include "pipe/spw_pipe.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Flags of a variant beside enum spw_rec_flag. */
#define SPW_PIPE_NIC_STAMPS (1u << 8)  /* a batch counts from its oldest frame's NIC stamp */
#define SPW_PIPE_NIC_FRAMES (1u << 9)  /* and each frame of it is recorded by its own stamp */
#define SPW_PIPE_FLIGHT     (1u << 10) /* bursts and completions go to the flight recorder */
#define SPW_PIPE_OBJECTS    (1u << 11) /* payload goes into objects (pipe_obj.c) */

/* Purpose: runs one turn of any variant, on readings of the clock that rec.script has. The executor
 *          ring's completions are already written.
 * Thread:  setup. */
uint16_t spw_pipe_turn_again(struct spw_pipe *pipe);

/* Purpose: from now on ring, clock and variant of the loop are those of backend[idx].
 * Shape:   no batch is under way.
 * Thread:  setup; owner. */
void spw_pipe_backend_use(struct spw_pipe *pipe, uint32_t idx);

/* Purpose: judges described batches whose waiting time is over, at most four; with `all` every one,
 *          at once.
 * Thread:  setup; owner. */
void spw_pipe_slow_judge(struct spw_pipe *pipe, bool all) SPW_COLD;

/* Purpose: notes a stretch of time in which the port had no free slots.
 * Thread:  setup; owner. */
void spw_pipe_dry_add(struct spw_pipe_slow *slow, uint64_t from, uint64_t to) SPW_COLD;

#ifdef __cplusplus
}
#endif
#endif
