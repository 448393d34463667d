/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The end of an object: no frame gets in any more, and what is missing is filled. The receipt's
 * missing ranges are found on the way, since both walk the same bits.
 *
 *   claimed   1 1 0 0 0 1 1 0 │           size │ a longer object was here before
 *                 └─gap─┘   └─┴─ gap ──────────┴─ gap, in no range of the receipt
 */
#include "obj/window.h"

#define FILL_BYTES                                                                     \
	(1u << 21) /* on the wire, for one fill move: several workers share a long gap \
		    */

/* A complete object ended by its bytes, whoever closed it. */
static enum spw_obj_cause close_cause(const struct obj_fill *f, enum spw_obj_cause cause)
{
	if (f->left)
		return cause;
	return f->sized ? SPW_OBJ_CAUSE_end : SPW_OBJ_CAUSE_all;
}

void obj_close_fill(struct spw_obj *obj, struct obj_fill *f, enum spw_obj_cause cause)
{
	f->receipt.close_tsc = obj->turn.now_tsc;
	f->way.empty_tsc = obj->turn.empty_tsc;
	f->whole_cnt = 0; /* the common frame finds no room in it */
	if (obj->cur == f)
		obj->cur = &obj->none;
	if (f->buffer == OBJ_NO_BUFFER) {
		obj_publish_none(obj, f, SPW_OBJ_STATE_shed);
		return;
	}
	f->state = OBJ_CLOSED;
	f->receipt.state = f->left ? SPW_OBJ_STATE_partial : SPW_OBJ_STATE_complete;
	f->receipt.cause = close_cause(f, cause);
	if (!f->left) {
		f->fill_at = f->fill_to = f->size;
		obj->frames = f->packets;
	}
	f->unfilled = f->left || obj->written[f->buffer] > f->size;
	if (!f->unfilled)
		obj->written[f->buffer] = f->size;
	obj->closed_cnt++;
	obj->unfilled_cnt += f->unfilled;
}

/* The next gap from fill_to on. */
static bool close_next_gap(struct spw_obj *obj, struct obj_fill *f)
{
	const uint64_t end = window_granules(obj, f->size);
	uint64_t from = end, to;
	struct spw_obj_receipt *r = &f->receipt;

	if (f->fill_to < f->size)
		from = obj_claim_find(f->claimed, window_granule(obj, f->fill_to), end, false);
	if (from == end) {
		f->fill_at = f->size;
		f->fill_to = SPW_MAX(f->size, obj->written[f->buffer]);
		obj->written[f->buffer] = f->size;
		return f->fill_at != f->fill_to;
	}
	to = obj_claim_find(f->claimed, from, end, true);
	f->fill_at = from * obj->granule;
	f->fill_to = SPW_MIN(to * obj->granule, f->size);
	if (r->range_cnt < SPW_OBJ_RANGE_MAX)
		r->range[r->range_cnt++] = (struct spw_obj_range){f->fill_at, f->fill_to};
	else
		r->range_more++;
	return true;
}

/* Fill moves for one object, as far as `max` goes; it goes on where it stopped. The object may be
 * published once this has found that there is no further gap. */
static uint32_t close_fill_moves(struct spw_obj *obj, struct obj_fill *f, struct spw_move *move_out,
				 uint32_t max)
{
	uint32_t cnt = 0;

	while (cnt < max) {
		uint32_t len;

		if (f->fill_at == f->fill_to && !close_next_gap(obj, f)) {
			f->unfilled = false;
			obj->unfilled_cnt--;
			break;
		}
		len = (uint32_t)SPW_MIN(f->fill_to - f->fill_at, FILL_BYTES);
		move_out[cnt++] = spw_move_make(SPW_MOVE_OP_fill, obj->region,
						f->base + (f->fill_at << obj->grow), 0,
						len << obj->grow, obj->desc.rule.fill);
		f->fill_at += len;
		f->free_seq = obj->turn.seq + 1;
	}
	return cnt;
}

/* Deadlines that are over. The time of the next one is exact afterwards; an object that closes
 * earlier leaves it too early, which costs one more look. */
static void close_expired(struct spw_obj *obj)
{
	obj->due_tsc = UINT64_MAX;
	for (uint32_t i = obj->window.first; i != obj->window.end; i++) {
		struct obj_fill *f = *window_row(&obj->window, i);

		if (f->state != OBJ_OPEN)
			continue;
		if (f->due_tsc <= obj->turn.now_tsc)
			obj_close_fill(obj, f, SPW_OBJ_CAUSE_deadline);
		else
			obj->due_tsc = SPW_MIN(obj->due_tsc, f->due_tsc);
	}
}

/* The oldest objects first: those are published first. */
static uint32_t close_fill_row(struct spw_obj *obj, const struct obj_row *row,
			       struct spw_move *move_out, uint32_t max)
{
	uint32_t cnt = 0;

	for (uint32_t i = row->first; i != row->end && obj->unfilled_cnt; i++) {
		struct obj_fill *f = *window_row(row, i);

		if (f->unfilled)
			cnt += close_fill_moves(obj, f, move_out + cnt, max - cnt);
	}
	return cnt;
}

uint32_t spw_obj_due(struct spw_obj *obj, struct spw_move *move_out, uint32_t max)
{
	uint32_t cnt;

	if (spw_unlikely(obj->turn.now_tsc >= obj->due_tsc))
		close_expired(obj);
	if (spw_likely(obj->unfilled_cnt == 0))
		return 0;
	cnt = close_fill_row(obj, &obj->line, move_out, max);
	return cnt + close_fill_row(obj, &obj->window, move_out + cnt, max - cnt);
}

void obj_close_all(struct spw_obj *obj)
{
	for (uint32_t i = obj->window.first; i != obj->window.end; i++) {
		struct obj_fill *f = *window_row(&obj->window, i);

		if (f->state == OBJ_OPEN)
			obj_close_fill(obj, f, SPW_OBJ_CAUSE_stop);
	}
}

/* No frame follows. The fills still go through the executor, so that those who take the last
 * objects find nothing undefined in them. No buffer is used again, so releases are reported now. */
void spw_obj_stop(struct spw_obj *obj)
{
	obj_close_all(obj);
	for (uint32_t b = 0; b < obj->buffer_cnt; b++)
		if ((spw_thr_load_acq(&obj->page->buffer[b].state) & 0xff) ==
		    SPW_OBJ_FREE) /* [OB2 acquire] */
			obj_publish_released(obj, b);
}
