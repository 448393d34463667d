/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A stream's description, compiled: what an object is, and how a frame says where its payload
 * belongs. A description is YAML (share/streams, docs/140); spw_obj_desc_load checks all of it and
 * makes a flat plan; spw_obj_plan_run is the data path's part.
 *
 *   description ──load──> struct spw_obj_desc ─┬─ plan    frame ──run──> struct spw_obj_hit
 *   (YAML, once)                               ├─ rule    how objects are kept (spw_obj.h)
 *                                              └─ shape   what a consumer sees
 *
 * Every value on the wire is an attacker's: the plan reads a byte only after it has checked that
 * the frame has it, computes in 64 bits with checks, loads each field once, and returns no piece
 * that does not lie within both the frame and the object.
 *
 * Positions count bytes of the object as it is on the wire, before a conversion.
 */
#ifndef SPW_OBJ_PLAN_H
#define SPW_OBJ_PLAN_H

#include "base/spw_enum.h"
#include "base/spw_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPW_OBJ_PIECE_MAX  4u /* pieces of one frame */
#define SPW_OBJ_DIM_MAX    8u /* dimensions of an object's shape */
#define SPW_OBJ_NAME_BYTES 64u

/* A piece of payload: frame[skip .. skip + len) belongs at byte pos of the object. */
struct spw_obj_piece {
	uint64_t pos;
	uint32_t skip, len; /* len > 0 */
};

enum spw_obj_hit_flag {
	SPW_OBJ_END = 1u << 0,  /* the frame says that it is the object's last */
	SPW_OBJ_SIZE = 1u << 1, /* `size` is the object's size, by this frame */
	SPW_OBJ_INFO = 1u << 2, /* belongs to the object and has no payload: a leader, a trailer */
};

/* What the plan found in a frame. */
struct spw_obj_hit {
	uint64_t key;  /* the object's number or label as it is on the wire, after division */
	uint64_t part; /* counter within the object if the description names one, else 0 */
	uint64_t size; /* bytes of the object, with SPW_OBJ_SIZE; else 0 */
	uint32_t flags;
	uint32_t piece_cnt; /* 0 .. SPW_OBJ_PIECE_MAX */
	struct spw_obj_piece piece[SPW_OBJ_PIECE_MAX];
};

/* Why a frame is no part of an object. name, meaning */
#define SPW_OBJ_MISS_LIST(X, P)                                                  \
	X(P, none, "it is part of an object")                                    \
	X(P, not_object, "a guard of the description does not hold")             \
	X(P, cut, "the frame ends before a field or the payload that it claims") \
	X(P, beyond, "the payload would lie outside the object, or off its granules")

enum spw_obj_miss { SPW_ENUM(SPW_OBJ_MISS) };

/* Where the description's header begins: behind the headers of the packet, or with the frame. */
#define SPW_OBJ_UNDER_LIST(X, P)                                                     \
	X(P, udp, "in the payload of UDP over IPv4 or IPv6, with up to 2 VLAN tags") \
	X(P, ethernet, "behind the Ethernet type, with up to 2 VLAN tags")           \
	X(P, message, "at the start of an RDMA message (mode=rc)")

enum spw_obj_under { SPW_ENUM(SPW_OBJ_UNDER) };

/* One step of a plan: lib/obj/plan.h says what each op does with the rest. */
struct spw_obj_step {
	uint64_t a, b;
	uint32_t off;
	uint8_t op, reg, shift, need;
};
SPW_ASSERT_SIZE(struct spw_obj_step, 24);

/* The compiled plan: straight on, steps are only ever skipped. */
#define SPW_OBJ_PLAN_STEP_MAX 128u
struct spw_obj_plan {
	uint32_t step_cnt;
	uint32_t key_bits; /* width of hit.key on the wire, after division: it wraps there */
	bool key_label;    /* equal or not, and modular order; not a count by one */
	bool align_first;  /* objects begin where the first frame does: spw_obj_plan_align */
	uint16_t port;     /* UDP destination port or Ethernet type; 0: any */
	enum spw_obj_under under;
	uint64_t phase;        /* of the counter, where an object begins; below `per` */
	uint64_t number_mask;  /* all ones of the counter's width */
	uint64_t object_bytes; /* of the largest object, as on the wire */
	uint64_t granule;      /* bytes; pieces begin and end at its multiples, or end the object */
	uint64_t granule_max;  /* quotients by it: 0 .. granule_max */
	uint64_t granule_inverse; /* of its odd factor, modulo 2^64 */
	uint32_t granule_shift;   /* log2 of the other one */
	struct spw_obj_step step[SPW_OBJ_PLAN_STEP_MAX];
};

/* Purpose: reads a frame by the plan.
 * Shape:   head of the frame's len bytes are readable; nothing beyond is read, and each byte once
 *          at most a field: a frame whose fields lie behind its head is cut. The payload may lie
 *          there. hit_out is defined only for SPW_OBJ_MISS_none.
 * Returns: SPW_OBJ_MISS_none, or why not.
 * Thread:  any. No wait, lock, allocation, division or system call. */
enum spw_obj_miss spw_obj_plan_run(const struct spw_obj_plan *plan, const uint8_t *frame,
				   uint32_t head, uint32_t len, struct spw_obj_hit *hit_out);

/* Returns: bytes of a frame, from its first on, that its head must have at least, or every frame
 *          would be cut: the fields that are always read, in the shortest packet. Thread: any. */
uint32_t spw_obj_plan_head(const struct spw_obj_plan *plan);

/* Purpose: lets objects begin at this frame's counter, where a sender starts at any number. To be
 *          called, if plan->align_first, with frames of a stream and of each restart until it
 *          returns true, before they are read.
 * Returns: whether the frame is the stream's; the plan is unchanged if not.
 * Thread:  owner of the plan, while nobody runs it. */
bool spw_obj_plan_align(struct spw_obj_plan *plan, const uint8_t *frame, uint32_t head,
			uint32_t len);

/* What happens to objects when the consumer is slower than the wire. name, meaning */
#define SPW_OBJ_POLICY_LIST(X, P)                                                            \
	X(P, oldest, "keep what is unread: a new object that finds no buffer is shed whole") \
	X(P, newest, "take back the oldest object that nobody reads: consumers see the newest")

enum spw_obj_policy { SPW_ENUM(SPW_OBJ_POLICY) };

/* How objects are kept. */
struct spw_obj_rule {
	uint64_t deadline_ns; /* from an object's first frame to its close, never extended */
	uint64_t granule;     /* bytes of the wire that are present or missing together: plan's */
	uint32_t buffers;     /* objects in memory, 2 .. SPW_OBJ_BUFFER_MAX */
	uint32_t open_max;    /* objects being filled at once, 1 .. buffers - 1 */
	enum spw_obj_policy policy;
	uint32_t priority; /* 0 is shed first */
	uint8_t fill;      /* missing bytes become this, in the object as consumers see it */
	uint32_t op;       /* enum spw_move_op, not fill */
};

/* DLPack's type codes: dlpack.h, DLDataTypeCode. */
struct spw_obj_shape {
	uint8_t type_code, type_bits;
	uint16_t ndim; /* 1 .. SPW_OBJ_DIM_MAX */
	int64_t dim[SPW_OBJ_DIM_MAX];
	int64_t stride[SPW_OBJ_DIM_MAX]; /* in elements */
	uint64_t bytes;                  /* of an object as a consumer sees it, after conversion */
};

struct spw_obj_desc {
	char name[SPW_OBJ_NAME_BYTES];
	struct spw_obj_plan plan;
	struct spw_obj_rule rule;
	struct spw_obj_shape shape;
};

/* Purpose: reads a description from a file, or from memory (name stands where FILE would).
 * Errors:  -EINVAL with "FILE:LINE:COLUMN: what; what is allowed"; -errno of the file. A
 *          description that cannot be (a field beyond every frame, zero sizes, an object above
 *          its buffers, a position that overlaps another) is refused here.
 * Thread:  setup. */
int spw_obj_desc_load(const char *path, struct spw_obj_desc *desc_out);
int spw_obj_desc_load_text(const char *name, const char *text, size_t bytes,
			   struct spw_obj_desc *desc_out);

/* One key of a description, as documents say it. */
struct spw_obj_desc_key {
	const char *section;            /* the mapping that it stands in */
	const char *name, *help, *dflt; /* dflt NULL: none */
	char range[160];                /* "": in help */
};

/* Purpose: the idx-th key of descriptions, section by section; the idx-th shipped format.
 * Returns: false, or NULL: there are fewer.
 * Thread:  any */
bool spw_obj_desc_key(uint32_t idx, struct spw_obj_desc_key *key_out);
const char *spw_obj_desc_format(uint32_t idx);

#ifdef __cplusplus
}
#endif
#endif
