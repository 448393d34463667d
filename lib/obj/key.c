/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * From a key on the wire to an object: unwraps it, separates late from new and a restart from a
 * damaged key; a new object makes room for itself in the window (spw_obj.h, "Keys").
 */
#include "obj/window.h"

/* How far a key is ahead of the highest one; negative: behind. */
static int64_t key_delta(const struct spw_obj *obj, uint64_t key, uint64_t high)
{
	const uint32_t unused = 64 - obj->desc.plan.key_bits;

	return (int64_t)((key - high) << unused) >> unused;
}

/* Frames whose key was believed: if there was none since a far key, the next is "in a row". */
static uint64_t key_believed(const struct spw_obj *obj)
{
	const uint64_t *frames = obj->count.frames;

	return frames[SPW_OBJ_FATE_placed] + frames[SPW_OBJ_FATE_duplicate] +
	       frames[SPW_OBJ_FATE_late] + frames[SPW_OBJ_FATE_shed];
}

/* A second far key in a row that goes on where the first was. */
static bool key_is_confirmed(const struct spw_obj *obj, uint64_t key)
{
	const uint64_t mask = UINT64_MAX >> (64 - obj->desc.plan.key_bits);

	return obj->far_mark == key_believed(obj) && ((key - obj->far_key) & mask) <= obj->far_step;
}

/* The oldest object leaves the window. */
static void key_evict(struct spw_obj *obj, enum spw_obj_cause cause)
{
	struct obj_fill *f = *window_row(&obj->window, obj->window.first++);

	if (f->state == OBJ_OPEN)
		obj_close_fill(obj, f, cause);
	obj->floor = f->id;
	obj->has_floor = true;
	if (f->state == OBJ_DONE)
		obj->free[obj->free_cnt++] = f;
	else
		*window_row(&obj->line, obj->line.end++) = f;
}

/* Objects of a counter between the lowest and the highest one of which no frame came. */
static void key_count_unseen(struct spw_obj *obj, uint64_t id, int64_t delta)
{
	uint64_t *unseen = &obj->count.unseen;

	if (obj->desc.plan.key_label)
		return;
	if (delta > 0) {
		spw_thr_count(unseen, (uint64_t)delta - 1);
	} else if ((int64_t)(id - obj->lowest) > 0) {
		spw_thr_count(unseen, UINT64_MAX); /* one less */
	} else {
		spw_thr_count(unseen, obj->lowest - id - 1);
		obj->lowest = id;
	}
}

/* A new object, in its place by id: at the window's end unless its first frame was overtaken. */
static struct obj_fill *key_insert(struct spw_obj *obj, uint64_t id, uint64_t key)
{
	struct obj_row *row = &obj->window;
	struct obj_fill *f;
	uint32_t i;

	if (row->end - row->first == obj->open_max)
		key_evict(obj, SPW_OBJ_CAUSE_newer);
	f = obj_shed_begin(obj, id, key);
	for (i = row->end++; i != row->first; i--) {
		struct obj_fill *before = *window_row(row, i - 1);

		if ((int64_t)(before->id - id) < 0)
			break;
		*window_row(row, i) = before;
	}
	*window_row(row, i) = f;
	return f;
}

/* The sender began, or began again. Where its first frame says how its counter is divided, the
 * key is the old division's, and the next frame begins. */
static struct obj_fill *key_restart(struct spw_obj *obj, uint64_t key, enum spw_obj_fate *fate_out)
{
	obj->unaligned = obj->desc.plan.align_first && obj->window.first != obj->window.end;
	if (obj->window.first != obj->window.end)
		spw_thr_count(&obj->count.restarts, 1);
	while (obj->window.first != obj->window.end)
		key_evict(obj, SPW_OBJ_CAUSE_restart);
	obj->has_floor = false;
	*fate_out = SPW_OBJ_FATE_ambiguous;
	if (obj->unaligned)
		return NULL;
	obj->lowest = key;
	return key_insert(obj, key, key);
}

/* From the newest on: frames belong to the newest objects, or those just before. */
static struct obj_fill *key_in_row(const struct obj_row *row, uint64_t id)
{
	for (uint32_t i = row->end; i != row->first; i--) {
		struct obj_fill *f = *window_row(row, i - 1);

		if (f->id == id)
			return f;
		if ((int64_t)(f->id - id) < 0)
			break;
	}
	return NULL;
}

/* A late frame must not bring back an object that was published, or closed to make room.
 * Behind the window: lower than what has left it, or than all that is in it while it is full. */
static bool key_is_behind(const struct spw_obj *obj, uint64_t id)
{
	const struct obj_row *row = &obj->window;

	return (obj->has_floor && (int64_t)(id - obj->floor) <= 0) ||
	       (row->end - row->first == obj->open_max &&
		(int64_t)(id - (*window_row(row, row->first))->id) < 0);
}

/* In this order: an open object; a sender that began again; a key that is not believed; a new
 * object; one that is over. */
struct obj_fill *obj_key_find(struct spw_obj *obj, uint64_t key, enum spw_obj_fate *fate_out)
{
	const bool quiet = obj->turn.now_tsc - obj->heard_tsc > obj->quiet_tsc;
	struct obj_fill *f = NULL;
	uint64_t high, id;
	int64_t delta;
	bool far;

	if (obj->window.first == obj->window.end)
		return key_restart(obj, key, fate_out);
	high = (*window_row(&obj->window, obj->window.end - 1))->id;
	delta = key_delta(obj, key, high);
	id = high + (uint64_t)delta;
	far = (delta < 0 ? 0 - (uint64_t)delta : (uint64_t)delta) > obj->near;
	if (!far)
		f = key_in_row(&obj->window, id);
	if (f && f->state == OBJ_OPEN)
		return f;
	if (quiet ? far || delta <= 0 : far && key_is_confirmed(obj, key))
		return key_restart(obj, key, fate_out);
	if (far) {
		obj->far_key = key;
		obj->far_mark = key_believed(obj);
		*fate_out = SPW_OBJ_FATE_ambiguous;
		return NULL;
	}
	if (!f && !key_is_behind(obj, id)) {
		key_count_unseen(obj, id, delta);
		return key_insert(obj, id, key);
	}
	if (!f) /* closed, behind the window, and its receipt is not final */
		f = key_in_row(&obj->line, id);
	if (f && f->state == OBJ_CLOSED)
		f->receipt.packets_late++;
	*fate_out = SPW_OBJ_FATE_late;
	return NULL;
}
