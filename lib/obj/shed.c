/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The begin of an object: a buffer for it, or none. Overload sheds whole objects here and nowhere
 * else: while consumers hold all buffers, or while the executor is behind. A stream of priority 0
 * begins no object while more than half of the executor's room is taken, one of priority 1 no
 * object above three quarters, and so on; and what has begun has to fit in with it to its end.
 *
 *   the executor is behind ──────────────────────> shed, cause executor
 *   a buffer is FREE ────────────────────────────> that one
 *   policy newest, and one is READY, unread ─────> that one; its object is taken back
 *   else ────────────────────────────────────────> shed, cause no_buffer
 *   later a frame of it finds no room ───────────> shed, cause lost_place
 *
 *   room   |  busy: waits, or is executed  |  open objects' other frames  |  this one's  | ... |
 */
#include <string.h>

#include "obj/window.h"

/* What is FREE is the owner's alone: consumers only take what is READY. */
static uint32_t shed_find_free(struct spw_obj *obj)
{
	for (uint32_t i = 0; i < obj->buffer_cnt; i++) {
		const uint32_t b = obj->buffer_at;
		uint64_t state;

		obj->buffer_at = b + 1 == obj->buffer_cnt ? 0 : b + 1;
		state = spw_thr_load_acq(&obj->page->buffer[b].state); /* [OB2 acquire] */
		if ((state & 0xff) == SPW_OBJ_FREE) {
			obj_publish_released(obj, b);
			return b;
		}
	}
	return OBJ_NO_BUFFER;
}

/* Takes back the oldest object that nobody has taken. */
static uint32_t shed_take_back(struct spw_obj *obj)
{
	while (obj->unread != obj->head) {
		const uint32_t b = obj->queue_own[obj->unread++ & obj->queue_mask];
		uint64_t ready = spw_obj_state_word(obj->unread, SPW_OBJ_READY);

		if (!spw_thr_cas(&obj->page->buffer[b].state, &ready,
				 spw_obj_state_word(obj->unread, SPW_OBJ_FREE)))
			continue;
		obj_publish_taken_back(obj, b, obj->unread);
		return b;
	}
	return OBJ_NO_BUFFER;
}

/* Frames that objects with a buffer still wait for, if they are like the last complete one. */
static uint64_t shed_open_frames(const struct spw_obj *obj)
{
	uint64_t frames = 0;

	for (uint32_t i = obj->window.first; i != obj->window.end; i++) {
		const struct obj_fill *f = *window_row(&obj->window, i);

		if (f->state == OBJ_OPEN && f->buffer != OBJ_NO_BUFFER && f->packets < obj->frames)
			frames += obj->frames - f->packets;
	}
	return frames;
}

/* An executor with little to do keeps up with the wire: then objects may be larger than its room.
 */
static bool shed_executor_takes(const struct spw_obj *obj)
{
	const uint64_t busy = obj->turn.busy, room = obj->turn.room;

	if (room == 0 || busy * 256 > room * obj->busy_max)
		return false;
	return busy <= room / 8 || busy + shed_open_frames(obj) + obj->frames <= room;
}

/* The executor's backlog comes first: a buffer that nobody fills helps nobody. */
static uint32_t shed_find_buffer(struct spw_obj *obj, enum spw_obj_cause *cause_out)
{
	uint32_t b;

	*cause_out = SPW_OBJ_CAUSE_executor;
	if (!shed_executor_takes(obj))
		return OBJ_NO_BUFFER;
	*cause_out = SPW_OBJ_CAUSE_no_buffer;
	b = shed_find_free(obj);
	if (b == OBJ_NO_BUFFER && obj->desc.rule.policy == SPW_OBJ_POLICY_newest)
		b = shed_take_back(obj);
	return b;
}

/* The generation stays the last object's until this one is published. */
static void shed_use_buffer(struct spw_obj *obj, struct obj_fill *f)
{
	struct spw_obj_buffer *buffer = &obj->page->buffer[f->buffer];
	const uint64_t generation = spw_thr_load_rlx(&buffer->state) >> 8;

	spw_thr_store_rlx(&buffer->state, spw_obj_state_word(generation, SPW_OBJ_FILLING));
	f->claimed = obj->claimed + f->buffer * obj->claimed_words;
	memset(f->claimed, 0, obj->claimed_words * sizeof(*f->claimed));
	f->base = obj->region_offset + f->buffer * obj->stride;
	f->whole_cnt = window_granule(obj, f->size);
	spw_thr_count(&obj->count.opened, 1);
}

struct obj_fill *obj_shed_begin(struct spw_obj *obj, uint64_t id, uint64_t key)
{
	struct obj_fill *f = obj->free[--obj->free_cnt];
	enum spw_obj_cause cause;

	*f = (struct obj_fill){.key = key,
			       .id = id,
			       .size = obj->desc.plan.object_bytes,
			       .left = obj->desc.plan.object_bytes,
			       .due_tsc = obj->turn.now_tsc + obj->deadline_tsc,
			       .receipt.open_tsc = obj->turn.now_tsc};
	f->buffer = shed_find_buffer(obj, &cause);
	f->receipt.id = obj->desc.plan.key_label ? key : id;
	f->receipt.cause = cause;
	if (f->buffer != OBJ_NO_BUFFER)
		shed_use_buffer(obj, f);
	obj->due_tsc = SPW_MIN(obj->due_tsc, f->due_tsc);
	return f;
}

/* It goes on like one that got no buffer. What is of it in the executor is still moved. Such
 * objects have more frames than was believed. */
void obj_shed_drop(struct spw_obj *obj, struct obj_fill *f)
{
	obj->leaving[obj->leaving_end++ & obj->queue_mask] =
		(struct obj_leaving){f->free_seq, f->buffer};
	obj->written[f->buffer] = SPW_MAX(obj->written[f->buffer], f->size);
	obj->frames = SPW_MAX(obj->frames, f->packets + 1);
	f->buffer = OBJ_NO_BUFFER;
	f->whole_cnt = 0;
	f->receipt.cause = SPW_OBJ_CAUSE_lost_place;
}
