/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Hands closed objects over, in the order of their keys, once no executor writes into them: the
 * owner's side of the page (spw_obj_page.h has the picture).
 *
 *   key 4   open ──────────── closed ── filled ── retired ─> published
 *   key 5   open ── closed ── retired ······ waits for 4 ···> published, right behind 4
 *   key 6        open ───────────────────────────────────────── ...
 */
#include "obj/window.h"

/* A receipt that is final: the counts, and whoever wants it. */
static void publish_receipt(struct spw_obj *obj, const struct spw_obj_receipt *r,
			    const struct spw_obj_way *way)
{
	spw_thr_count(&obj->count.causes[r->cause], 1);
	spw_thr_count(&obj->count.bytes_present, r->bytes_present);
	spw_thr_count(&obj->count.bytes_missing, r->bytes_due - r->bytes_present);
	if (obj->receipt)
		obj->receipt(obj->receipt_arg, r, way);
}

/* What is counted elsewhere while the object is open. */
static void publish_sum_up(const struct spw_obj *obj, struct obj_fill *f)
{
	struct spw_obj_receipt *r = &f->receipt;

	r->packets_present = f->packets;
	r->bytes_due = f->size;
	r->bytes_present = f->size - f->left;
	r->last_nic = f->last_nic;
	f->way.last_tsc = f->last_tsc;
	r->nic_unc_ns = obj->turn.nic_unc_ns;
}

void obj_publish_none(struct spw_obj *obj, struct obj_fill *f, enum spw_obj_state state)
{
	if (f->state == OBJ_CLOSED)
		obj->closed_cnt--;
	f->state = OBJ_DONE;
	f->receipt.state = state;
	publish_sum_up(obj, f);
	spw_thr_count(&obj->count.objects[state], 1);
	publish_receipt(obj, &f->receipt, &f->way);
}

void obj_publish_taken_back(struct spw_obj *obj, uint32_t buffer, uint64_t generation)
{
	const struct spw_obj_receipt *first = &obj->page->buffer[buffer].receipt;
	const struct spw_obj_receipt r = {.id = first->id,
					  .generation = generation,
					  .state = SPW_OBJ_STATE_shed,
					  .cause = SPW_OBJ_CAUSE_taken_back,
					  .open_tsc = first->open_tsc,
					  .close_tsc = first->close_tsc,
					  .publish_tsc = first->publish_tsc};

	spw_thr_count(&obj->count.taken_back, 1);
	publish_receipt(obj, &r, &(const struct spw_obj_way){0});
}

/* A consumer may have written anything into the page: what is taken from it are numbers that are
 * only reported. */
void obj_publish_released(struct spw_obj *obj, uint32_t buffer)
{
	const struct spw_obj_buffer *b = &obj->page->buffer[buffer];
	const struct spw_obj_receipt r = {.id = b->receipt.id,
					  .generation = spw_thr_load_rlx(&b->state) >> 8,
					  .publish_tsc = b->receipt.publish_tsc};
	const struct spw_obj_way way = {.release_tsc = spw_thr_load_rlx(&b->release_tsc),
					.released = true};

	if (obj->receipt && r.generation)
		obj->receipt(obj->receipt_arg, &r, &way);
}

/* The receipt before READY, READY before the queue's new end: a consumer that finds the one finds
 * the other. */
static void publish_fill(struct spw_obj *obj, struct obj_fill *f, uint64_t now_tsc)
{
	struct spw_obj_buffer *buffer = &obj->page->buffer[f->buffer];
	const uint32_t at = (uint32_t)obj->head++ & obj->queue_mask;

	publish_sum_up(obj, f);
	f->state = OBJ_DONE;
	f->receipt.generation = obj->head;
	f->receipt.publish_tsc = now_tsc;
	f->way.order_tsc = obj->closed_tsc;
	obj->closed_tsc = SPW_MAX(obj->closed_tsc, f->receipt.close_tsc);
	buffer->receipt = f->receipt;
	spw_thr_store_rel(&buffer->state, /* [OB1 release] */
			  spw_obj_state_word(obj->head, SPW_OBJ_READY));
	obj->queue_own[at] = f->buffer;
	spw_thr_store_rlx(&obj->queue[at], f->buffer);
	spw_thr_store_rel(&obj->page->head, obj->head); /* [OB3 release] */
	spw_thr_count(&obj->page->wake, 1);
	obj->closed_cnt--;
	spw_thr_count(&obj->count.published, 1);
	spw_thr_count(&obj->count.objects[f->receipt.state], 1);
	publish_receipt(obj, &f->receipt, &f->way);
}

/* Nothing is written into it any more: it is closed, its gaps are filled, and the last batch with a
 * move into it has retired. */
static bool publish_is_ready(const struct obj_fill *f, uint64_t retired_seq)
{
	return f->state == OBJ_CLOSED && !f->unfilled && f->free_seq <= retired_seq;
}

/* What was in such a buffer is nobody's: of generation 0, so that no release is reported. */
static void publish_leave(struct spw_obj *obj, uint64_t retired_seq)
{
	for (; obj->leaving_first != obj->leaving_end; obj->leaving_first++) {
		const struct obj_leaving *l = &obj->leaving[obj->leaving_first & obj->queue_mask];

		if (l->free_seq > retired_seq)
			return;
		spw_thr_store_rlx(&obj->page->buffer[l->buffer].state,
				  spw_obj_state_word(0, SPW_OBJ_FREE));
	}
}

/* An object that is not ready yet holds up those with higher keys, open ones too. One that is shed
 * holds up nothing. */
void spw_obj_retired(struct spw_obj *obj, uint64_t retired_seq, uint64_t now_tsc)
{
	struct obj_row *line = &obj->line;

	publish_leave(obj, retired_seq);
	for (; line->first != line->end; line->first++) {
		struct obj_fill *f = *window_row(line, line->first);

		if (!publish_is_ready(f, retired_seq))
			return;
		publish_fill(obj, f, now_tsc);
		obj->free[obj->free_cnt++] = f;
	}
	for (uint32_t i = obj->window.first; i != obj->window.end && obj->closed_cnt; i++) {
		struct obj_fill *f = *window_row(&obj->window, i);

		if (publish_is_ready(f, retired_seq))
			publish_fill(obj, f, now_tsc);
		else if (f->state != OBJ_DONE && f->buffer != OBJ_NO_BUFFER)
			return;
	}
}

bool spw_obj_pending(const struct spw_obj *obj, uint64_t now_tsc)
{
	return obj->closed_cnt || now_tsc >= obj->due_tsc;
}

/* Objects whose last move was in batch seq wait for last_seq. */
static void publish_wait_on(struct obj_row *row, uint64_t seq, uint64_t last_seq)
{
	for (uint32_t i = row->first; i != row->end; i++) {
		struct obj_fill *f = *window_row(row, i);

		if (f->free_seq == seq + 1)
			f->free_seq = last_seq + 1;
	}
}

void spw_obj_cut(struct spw_obj *obj, uint64_t seq, uint64_t last_seq)
{
	for (uint32_t i = obj->leaving_first; i != obj->leaving_end; i++)
		if (obj->leaving[i & obj->queue_mask].free_seq == seq + 1)
			obj->leaving[i & obj->queue_mask].free_seq = last_seq + 1;
	publish_wait_on(&obj->line, seq, last_seq);
	publish_wait_on(&obj->window, seq, last_seq);
}
