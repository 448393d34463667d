/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What the loop calls in its variants with SPW_PIPE_OBJECTS (pipe_obj.c). Thread: owner.
 */
#ifndef PIPE_OBJ_H
#define PIPE_OBJ_H

#include "pipe/pipe_impl.h"

/* Returns: whether the table of moves has room for any batch. */
bool pipe_obj_has_room(const struct spw_pipe *pipe);

/* Purpose: decides about the frames of a batch behind those that wait. Those with moves wait, too;
 *          the others are recycled, and in the spill record all are. */
void pipe_obj_place(struct spw_pipe *pipe, struct spw_gring_batch *batch);

/* Returns: whether the frames that wait are pushed now. */
SPW_INLINE bool pipe_obj_is_due(const struct spw_pipe *pipe)
{
	const struct spw_gring *ring = pipe->ring;
	const uint32_t waiting = pipe->obj.waiting;

	return waiting && (waiting == SPW_BURST_MAX ||
			   ring->head_seq - ring->retired_seq <= ring->batch_mask / 2);
}

/* Purpose: before the push of the batch: its moves are the table's next. */
void pipe_obj_push(struct spw_pipe *pipe, struct spw_gring_batch *batch);

/* Purpose: after the push of the batch: notes whether it was cut. */
void pipe_obj_pushed(struct spw_pipe *pipe, struct spw_gring_batch *batch);

/* Purpose: closes what is due, and pushes the fill moves of closed objects. */
void pipe_obj_fill(struct spw_pipe *pipe);

/* Purpose: counts a batch of fill moves that was reaped. */
void pipe_obj_filled(struct spw_pipe *pipe, const struct spw_gring_batch *batch);

/* Purpose: frees the moves of a batch that is retired. */
SPW_INLINE void pipe_obj_retire(struct spw_pipe *pipe, const struct spw_gring_batch *batch)
{
	pipe->obj.tail = batch->move_end;
}

/* Purpose: publishes objects, after a batch was retired; its record is still as it was. */
void pipe_obj_retired(struct spw_pipe *pipe, const struct spw_gring_batch *batch);

/* pipe_obj_slow.c. Purpose: counts an object whose receipt is final.
 * Returns: whether it is to be judged: it was slow, or is among the longest. */
bool pipe_obj_slow_wants(struct spw_pipe *pipe, const struct spw_obj_receipt *receipt);

/* pipe_obj_slow.c. Purpose: judges such an object. one: its receipt; the rest is zero. */
void pipe_obj_slow_judge(struct spw_pipe *pipe, const struct spw_obj_way *way,
			 struct spw_pipe_receipt *one);

/* Returns: whether the stream has objects that are closed and not published, or frames wait. */
bool pipe_obj_is_pending(const struct spw_pipe *pipe);

/* Purpose: takes over conf->objects; pipe->flags get SPW_PIPE_OBJECTS.
 * Errors:  -EINVAL, -ENOTSUP with a text.
 * Thread:  setup. */
int pipe_obj_init(struct spw_pipe *pipe, const struct spw_pipe_conf *conf);

#endif
