/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The window of a stream: the objects that its owner knows (spw_obj.h has the picture).
 *
 *   fill     an object that got its first frame. It has a buffer, or is shed. It stands in one of
 *            two rows, each in the order of keys:
 *
 *            line: closed, behind the window       window: the open_max newest
 *            first to publish ──► ... ──► last ──── oldest ──► ... ──► newest
 *
 *   window.c   opens and ends a stream, reads frames, and places one that comes in order
 *   claim.c    any other frame: which of its granules are new
 *   key.c      which object a key names: unwraps, ambiguous, restart; makes room in the window
 *   shed.c     begins objects: finds a buffer, takes one back, or sheds
 *   close.c    ends objects: deadlines, fill moves
 *   publish.c  hands them over, with their receipts
 *
 * Thread: owner, for all functions here.
 */
#ifndef OBJ_WINDOW_H
#define OBJ_WINDOW_H

#include "base/spw_order.h"
#include "obj/plan.h"
#include "obj/spw_obj.h"

#define OBJ_NO_BUFFER UINT32_MAX

enum obj_fill_state {
	OBJ_OPEN,
	OBJ_CLOSED, /* no frame gets in any more; fill moves, and moves under way, are waited for */
	OBJ_DONE,   /* its receipt is final; in the window it shows which frames are late */
};

struct obj_fill {
	/* read or written for each frame */
	uint64_t key;       /* as on the wire */
	uint64_t whole_cnt; /* granules that lie wholly within size; 0 if it takes no frame */
	uint64_t *claimed;  /* a bit for each granule */
	uint64_t base;      /* of its buffer, in the region */
	uint64_t left;      /* bytes missing */
	uint64_t free_seq;  /* no move into it is in this batch or a later one */
	uint64_t packets, last_nic, last_tsc;
	/* the rest */
	uint64_t id;
	uint64_t size; /* bytes of the object, on the wire */
	uint64_t due_tsc;
	uint64_t fill_at, fill_to; /* closed: the gap that gets fill moves now */
	uint32_t buffer;           /* OBJ_NO_BUFFER: shed */
	enum obj_fill_state state;
	bool sized;    /* a frame has given the size */
	bool unfilled; /* closed, and wants fill moves */
	struct spw_obj_receipt receipt;
	struct spw_obj_way way;
};

struct obj_leaving {
	uint64_t free_seq; /* as obj_fill's */
	uint32_t buffer;
};

/* Fills in the order of their keys: fill[first .. end - 1], by index & mask. */
struct obj_row {
	struct obj_fill **fill;
	uint32_t mask, first, end;
};

struct spw_obj {
	/* read or written for each frame */
	struct obj_fill *cur; /* of the last frame; &none if that is not open */
	struct spw_obj_turn turn;
	uint64_t granule, granule_inverse;
	uint64_t move_dst;  /* op and region of a move */
	uint64_t heard_tsc; /* when the last frame of the stream came */
	uint32_t grow;      /* log2 of bytes written for a byte read */
	uint32_t element;   /* bytes read together */
	struct spw_obj_count count;
	struct obj_fill none; /* takes no frame */

	/* keys */
	uint64_t near;      /* keys farther than this from the highest one are not believed */
	uint64_t far_key;   /* the last one that was not, */
	uint64_t far_mark;  /* and how many frames had been believed by then */
	uint64_t far_step;  /* how far beyond far_key a key confirms it */
	uint64_t quiet_tsc; /* after so long a silence any key is believed */
	uint64_t lowest;    /* id since the sender began */
	uint64_t floor;     /* the highest id that has left the window */
	bool has_floor;
	bool unaligned; /* the next frame says where objects begin */

	/* objects */
	struct obj_row window, line;
	uint32_t open_max;
	uint32_t closed_cnt, unfilled_cnt; /* fills that are; with a buffer */
	uint64_t due_tsc;                  /* no deadline is before it */
	uint64_t deadline_tsc;
	uint32_t free_cnt;
	struct obj_fill *fill, **free; /* [open_max + buffer_cnt] */

	/* buffers */
	struct spw_obj_page *page;
	uint32_t *queue, queue_mask;
	uint32_t *queue_own;            /* the same, out of the consumers' reach */
	uint32_t buffer_cnt, buffer_at; /* where the search for a free one goes on */
	uint64_t head;                  /* objects published */
	uint64_t closed_tsc;            /* the latest close of one that was published */
	uint64_t unread;                /* those published before this one are not READY */
	uint64_t *written;              /* [buffer]: bytes on the wire beyond which all is fill */
	/* [queue_mask + 1]: buffers of objects that were shed while moves into them were under way
	 */
	struct obj_leaving *leaving;
	uint32_t leaving_first, leaving_end;
	uint64_t *claimed, claimed_words; /* of one buffer */
	uint32_t region;
	uint32_t busy_max; /* 256ths of the executor's room: above it no object begins */
	uint64_t frames;   /* of the last object that was complete */
	uint64_t region_offset, stride;

	spw_obj_receipt_fn *receipt;
	void *receipt_arg;
	struct spw_obj_desc desc;
	struct plan_memo memo; /* of desc.plan */
};

/* The granule in which byte pos lies. */
SPW_INLINE uint64_t window_granule(const struct spw_obj *obj, uint64_t pos)
{
	uint64_t rest;

	return plan_divide(pos, obj->granule, obj->granule_inverse, &rest);
}

/* Granules of so many bytes; the last one may be shorter. */
SPW_INLINE uint64_t window_granules(const struct spw_obj *obj, uint64_t bytes)
{
	return window_granule(obj, bytes + obj->granule - 1);
}

/* A move of bytes [pos, pos + len) of the object from frame[skip]. */
SPW_INLINE struct spw_move window_move(const struct spw_obj *obj, const struct obj_fill *f,
				       uint64_t pos, uint32_t skip, uint32_t len)
{
	return (struct spw_move){obj->move_dst | (f->base + (pos << obj->grow)),
				 (uint64_t)skip << 24 | len};
}

SPW_INLINE struct obj_fill **window_row(const struct obj_row *row, uint32_t i)
{
	return &row->fill[i & row->mask];
}

SPW_INLINE enum spw_obj_fate window_count(struct spw_obj *obj, enum spw_obj_fate fate)
{
	spw_thr_count(&obj->count.frames[fate], 1);
	return fate;
}

/* window.c: the second half of spw_obj_frame, what becomes of a frame that the plan has read. */
enum spw_obj_fate obj_window_hit(struct spw_obj *obj, const struct spw_obj_hit *hit,
				 uint64_t nic_ns, struct spw_move *move_out, uint32_t *cnt_out);

/* claim.c: the same, for a frame that is not the common one. */
enum spw_obj_fate obj_claim_hit(struct spw_obj *obj, const struct spw_obj_hit *hit, uint64_t nic_ns,
				struct spw_move *move_out, uint32_t *cnt_out);

/* claim.c: the first granule in [from, end) whose bit is `set`, or end. */
uint64_t obj_claim_find(const uint64_t *claimed, uint64_t from, uint64_t end, bool set);

/* key.c: the open object that a key names, which may begin now; NULL: none, *fate_out says why. */
struct obj_fill *obj_key_find(struct spw_obj *obj, uint64_t key, enum spw_obj_fate *fate_out);

/* shed.c: a new object, with a buffer or shed. */
struct obj_fill *obj_shed_begin(struct spw_obj *obj, uint64_t id, uint64_t key);

/* shed.c: sheds an open object of which a frame finds no room. */
void obj_shed_drop(struct spw_obj *obj, struct obj_fill *f);

/* close.c: ends an open object; one that is shed has its receipt then. cause: if bytes are
 * missing. */
void obj_close_fill(struct spw_obj *obj, struct obj_fill *f, enum spw_obj_cause cause);

/* close.c: ends all that are open, cause stop. */
void obj_close_all(struct spw_obj *obj);

/* publish.c: the receipt of an object that nobody gets. */
void obj_publish_none(struct spw_obj *obj, struct obj_fill *f, enum spw_obj_state state);
/* publish.c: the object that was in a buffer that is FREE, and now is to be used. */
void obj_publish_released(struct spw_obj *obj, uint32_t buffer);
/* publish.c: for an object that the owner took back. */
void obj_publish_taken_back(struct spw_obj *obj, uint32_t buffer, uint64_t generation);

#endif
