/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The page that a stream shares with its consumers: how it is made and checked, and the consumer's
 * side (spw_obj_page.h has the picture). The owner's side is in publish.c.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/spw_err.h"
#include "obj/spw_obj_page.h"

uint64_t spw_obj_page_bytes(uint32_t buffer_cnt)
{
	return sizeof(struct spw_obj_page) + buffer_cnt * sizeof(struct spw_obj_buffer) +
	       spw_obj_page_queue_cnt(buffer_cnt) * sizeof(uint32_t);
}

/* The magic is last: a page that has it is whole, as far as one process goes. */
void spw_obj_page_init(struct spw_obj_page *page, const struct spw_obj_desc *desc,
		       uint64_t buffer_stride, uint64_t tsc_hz)
{
	page->version = SPW_OBJ_PAGE_VERSION;
	page->buffer_cnt = desc->rule.buffers;
	page->object_bytes = desc->shape.bytes;
	page->buffer_stride = buffer_stride;
	page->page_bytes = spw_obj_page_bytes(desc->rule.buffers);
	page->tsc_hz = tsc_hz;
	memcpy(page->name, desc->name, sizeof(page->name));
	page->shape = desc->shape;
	page->magic = SPW_OBJ_PAGE_MAGIC;
}

/* A page is another process's: nothing of it is used before its sizes were compared with what is
 * mapped. */
static int page_check_sizes(const struct spw_obj_page *page, uint64_t bytes)
{
	if (bytes < sizeof(*page) || page->magic != SPW_OBJ_PAGE_MAGIC)
		return spw_err(EPROTO, "no page of a spinwire stream (%" PRIu64 " bytes)", bytes);
	if (page->version != SPW_OBJ_PAGE_VERSION)
		return spw_err(EPROTO,
			       "page of version %u, this library reads version %u: use one release "
			       "of spinwire for both programs",
			       page->version, SPW_OBJ_PAGE_VERSION);
	if (!spw_in_range(page->buffer_cnt, 2, SPW_OBJ_BUFFER_MAX))
		return spw_err(EPROTO, "page with %u buffers: 2 .. %u", page->buffer_cnt,
			       SPW_OBJ_BUFFER_MAX);
	if (page->page_bytes != spw_obj_page_bytes(page->buffer_cnt) || page->page_bytes > bytes)
		return spw_err(EPROTO,
			       "page of %" PRIu64 " bytes for %u buffers, %" PRIu64 " are mapped",
			       page->page_bytes, page->buffer_cnt, bytes);
	if (page->object_bytes == 0 || page->buffer_stride % 256 ||
	    page->buffer_stride < page->object_bytes || page->buffer_stride > 1ull << 40)
		return spw_err(EPROTO, "buffers of %" PRIu64 " bytes for objects of %" PRIu64,
			       page->buffer_stride, page->object_bytes);
	return 0;
}

/* Every element that the shape names lies in the buffer. Dimensions and strides are not negative,
 * so the last element of each dimension is the farthest. */
static int page_check_shape(const struct spw_obj_page *page)
{
	const struct spw_obj_shape *shape = &page->shape;
	uint64_t last = 0;

	if (!spw_in_range(shape->ndim, 1, SPW_OBJ_DIM_MAX) || shape->type_bits == 0)
		return spw_err(EPROTO, "objects of %u dimensions and %u bits an element",
			       shape->ndim, shape->type_bits);
	for (uint32_t i = 0; i < shape->ndim; i++) {
		uint64_t way;

		if (shape->dim[i] <= 0 || shape->stride[i] < 0 ||
		    __builtin_mul_overflow((uint64_t)shape->dim[i] - 1, (uint64_t)shape->stride[i],
					   &way) ||
		    __builtin_add_overflow(last, way, &last) || last > 1ull << 48)
			return spw_err(EPROTO,
				       "dimension %u of an object: %" PRId64 " elements, %" PRId64
				       " apart",
				       i, shape->dim[i], shape->stride[i]);
	}
	if (shape->bytes != page->object_bytes ||
	    (last + 1) * shape->type_bits > page->object_bytes * 8)
		return spw_err(EPROTO, "the shape reaches beyond an object of %" PRIu64 " bytes",
			       page->object_bytes);
	return 0;
}

int spw_obj_page_check(const struct spw_obj_page *page, uint64_t bytes)
{
	int rc = page_check_sizes(page, bytes);

	if (rc)
		return rc;
	if (!memchr(page->name, '\0', sizeof(page->name)))
		return spw_err(EPROTO, "the stream's name has no end");
	return page_check_shape(page);
}

/* One consumer at a time: the queue has one tail. */
int spw_obj_page_claim(struct spw_obj_page *page, uint32_t pid)
{
	uint32_t none = 0;

	if (spw_thr_cas(&page->consumer_pid, &none, pid))
		return 0;
	return spw_err(EBUSY, "process %u takes this stream's objects: end it first", none);
}

/* Buffers first, then the claim: the next consumer takes none before this is over. */
int spw_obj_page_reclaim(struct spw_obj_page *page, uint32_t pid)
{
	int freed = 0;

	if (spw_thr_load_acq(&page->consumer_pid) != pid)
		return -ESRCH;
	for (uint32_t b = 0; b < page->buffer_cnt; b++) {
		uint64_t state = spw_thr_load_rlx(&page->buffer[b].state);

		if ((state & 0xff) == SPW_OBJ_TAKEN)
			freed += spw_obj_release(page, b, state >> 8, 0) == 0;
	}
	spw_thr_cas(&page->consumer_pid, &pid, 0);
	return freed;
}

int spw_obj_take(struct spw_obj_page *page, uint64_t *generation_out)
{
	const uint32_t cnt = page->buffer_cnt, mask = spw_obj_page_queue_cnt(cnt) - 1;
	const uint32_t *queue = spw_obj_page_queue(page, cnt);
	const uint32_t ended = spw_thr_load_acq(&page->ended); /* [OB4 acquire] */
	const uint64_t head = spw_thr_load_acq(&page->head);   /* [OB3 acquire] */
	uint64_t tail = spw_thr_load_rlx(&page->tail);
	int buffer = ended ? -EPIPE : -EAGAIN;

	/* What was published before the last cnt objects is not READY any more. */
	if (head - tail > cnt)
		tail = head - cnt;
	while (tail != head && buffer < 0) {
		const uint32_t b = spw_thr_load_rlx(&queue[tail++ & mask]);
		uint64_t ready = spw_obj_state_word(tail, SPW_OBJ_READY);

		/* It fails if the owner took the object back, or has overtaken this queue entry. */
		if (b < cnt && spw_thr_cas(&page->buffer[b].state, &ready, /* [OB1 acquire] */
					   spw_obj_state_word(tail, SPW_OBJ_TAKEN)))
			buffer = (int)b;
	}
	spw_thr_store_rlx(&page->tail, tail);
	*generation_out = tail;
	return buffer;
}

/* The stamp is written before the CAS, while the buffer is still this consumer's. */
int spw_obj_release(struct spw_obj_page *page, uint32_t buffer, uint64_t generation,
		    uint64_t now_tsc)
{
	uint64_t taken = spw_obj_state_word(generation, SPW_OBJ_TAKEN);

	if (buffer >= page->buffer_cnt || spw_thr_load_rlx(&page->buffer[buffer].state) != taken)
		return -EALREADY;
	spw_thr_store_rlx(&page->buffer[buffer].release_tsc, now_tsc);
	return spw_thr_cas(&page->buffer[buffer].state, &taken, /* [OB2 release] */
			   spw_obj_state_word(generation, SPW_OBJ_FREE))
		       ? 0
		       : -EALREADY;
}
