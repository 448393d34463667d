/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Private to lib/obj: the steps of a plan. A run has an offset `at` into the frame, where fields
 * are counted from; an accumulator `sum`, which every use empties; and registers, one for each
 * field that anything needs, and those below. Pieces are compared with granules if `need`.
 *
 *   begin ──fields, guards, skips──> at ──payload──> start ... end      number ──key_*──> key, part
 *                                                                       length, piece ──> a piece
 *
 * Every step goes on to the next one, or skips some, or ends the run: there are no loops, so that
 * step_cnt bounds the time of a run (`items` looks at PLAN_ITEM_MAX items at most).
 */
#ifndef OBJ_PLAN_H
#define OBJ_PLAN_H

#include "obj/spw_obj_plan.h"

/* op, what it does. A field needs `need` bytes from at + off on, else the frame is cut. */
#define PLAN_OP_LIST(X, P)                                                              \
	X(P, load, "reg = (w >> shift) & a, w the 8 bytes at off, big-endian")          \
	X(P, load_is, "the same field must be b, else not_object")                      \
	X(P, same, "as load, of the word that the last load has read, off bytes on")    \
	X(P, same_is, "as load_is, of that word")                                       \
	X(P, match, "skips shift steps, guards one by one, if w & a is b")              \
	X(P, load_little, "reg = (w >> shift) & a, w the `need` bytes at off, little")  \
	X(P, test_is, "reg must be b, else not_object")                                 \
	X(P, test_in, "bit reg of b must be set, else not_object")                      \
	X(P, zero, "reg and the registers behind it, off in all, are 0")                \
	X(P, product, "product = reg * register off, at most 64 bits, else beyond")     \
	X(P, unless_is, "skips off steps unless reg is b")                              \
	X(P, unless_in, "skips off steps unless bit reg of b is set")                   \
	X(P, unless_more, "skips off steps unless bytes are left behind at + a")        \
	X(P, skip, "at += off")                                                         \
	X(P, skip_sum, "at += sum, at most to the end, else cut")                       \
	X(P, items, "searches reg items at + off for the next step's ids; skips them")  \
	X(P, ids, "nothing: its values are those of the step before it")                \
	X(P, bound, "end = begin + sum, at most what it was, else cut")                 \
	X(P, add, "sum += (reg - a) * b")                                               \
	X(P, sub, "sum -= (reg - a) * b")                                               \
	X(P, add_ratio, "sum += reg * b / 2^64, rounded; reg up to a, else beyond")     \
	X(P, add_exact, "sum += reg / off * b, a the inverse of off; no remainder")     \
	X(P, key_cat, "key = key << off | reg")                                         \
	X(P, key_per, "key = number / a, part = number % a, number = sum - phase")      \
	X(P, key_wrap, "key must be below 2^off, else beyond")                          \
	X(P, size, "size = sum + reg, unless 0; larger than the object: beyond")        \
	X(P, end, "flag END")                                                           \
	X(P, info, "flag INFO; the run is over")                                        \
	X(P, payload, "the payload starts at + off; header and rest; whole if a")       \
	X(P, length, "length = sum + reg, or a where that is 0")                        \
	X(P, piece, "length bytes from start on belong at sum + (reg - a) * b - off")   \
	X(P, piece_after, "length bytes, from where spread says, at sum; at += off")    \
	X(P, piece_inline, "length bytes at + off belong at sum; at moves behind them") \
	X(P, spread, "pieces start one after the other from at + off on")               \
	X(P, refuse, "beyond: more segments than a frame may have")                     \
	X(P, done, "the run is over")

enum plan_op { SPW_ENUM(PLAN_OP) };

/* Registers that are no fields, before those that are. */
enum plan_reg {
	PLAN_REG_ZERO,    /* 0 */
	PLAN_REG_ONE,     /* 1 */
	PLAN_REG_PRODUCT, /* of fields, for the step behind it */
	PLAN_REG_HEADER,  /* bytes of the header */
	PLAN_REG_REST,    /* bytes from the header to the packet's end */
	PLAN_REG_PART,    /* number % per; last, as a label leaves it without a value */
	PLAN_REG_FIELD,   /* the first field */
	PLAN_REG_CNT = PLAN_REG_FIELD + 32
};

/* `need` of a piece: whether it may break a granule, at its end where the object may end. */
enum { PLAN_PIECE_FITS, PLAN_PIECE_WHOLE, PLAN_PIECE_SHORT };

#define PLAN_ITEM_MAX    32u /* items of a packet that are looked at */
#define PLAN_ITEM_ID_MAX 8u  /* ids that are searched for */

#define PLAN_UDP_BYTES 8u

/* Purpose: where the description's header begins in a frame; of UDP, where its header begins, of
 *          which all bytes are readable. Shape: head bytes of the frame are readable. */
enum spw_obj_miss plan_begin(const struct spw_obj_plan *plan, const uint8_t *frame, uint32_t head,
			     uint64_t *begin_out);

/* What decides a frame's way through a plan (guards, flags that move offsets, ids of items) seldom
 * differs from the frame before. A path is one such way: the bits that decide it, with their
 * values, and what is left of the plan where they are so. Offsets count from the header's first
 * byte.
 *
 *   plan   load guard skip load items load key sum piece       path   ─words─> is it this way?
 *                                                                     ─loads─> registers
 *                                                                     ─steps─> key, sum, piece
 *
 * It finds what the plan finds: all that a left-out step could have refused is among the words, in
 * `need` or in `bound`. A frame that differs there is read by the plan. */
#define PLAN_PATH_CNT   4u /* kinds of frames that a stream alternates between */
#define PLAN_PATH_WORDS 12u
#define PLAN_PATH_LOADS 16u
#define PLAN_PATH_STEPS 32u
#define PLAN_PATH_BYTES 192u /* of a header */

struct plan_path {
	uint64_t need;  /* bytes of the packet that a frame must have in its head; 0: no path */
	uint64_t bound; /* the packet's bytes, by its header: at most what it has; 0: not said */
	uint64_t start, header; /* of the payload; bytes of the header */
	uint64_t length;        /* of the payload; 0: the rest, or a step sets it */
	uint32_t flags;         /* of the hit */
	uint32_t word_cnt, load_cnt, step_cnt;
	struct plan_word {
		uint64_t off, mask, value; /* of 8 bytes, as they are in memory */
	} word[PLAN_PATH_WORDS];
	struct plan_load {
		uint64_t mask; /* 0: the field is not there */
		uint32_t off;
		uint8_t shift;
		bool little;
	} load[PLAN_PATH_LOADS]; /* into PLAN_REG_FIELD and the registers behind it */
	struct spw_obj_step step[PLAN_PATH_STEPS];
};

/* The paths of a stream's frames; all zero at first. */
struct plan_memo {
	uint32_t last; /* index of the path that was taken last */
	uint32_t wait; /* frames without a path until the next one is learned */
	uint32_t vain; /* frames tried since then that have none; counted up to a bound */
	struct plan_path path[PLAN_PATH_CNT];
};

/* Purpose: as spw_obj_plan_run, with the same result, and faster where a path is known.
 * Shape:   memo is of this plan, whose steps never change.
 * Thread:  owner of the memo. */
enum spw_obj_miss plan_path_run(const struct spw_obj_plan *plan, struct plan_memo *memo,
				const uint8_t *frame, uint32_t head, uint32_t len,
				struct spw_obj_hit *hit_out);

/* Purpose: learns the path of a header.
 * Shape:   have bytes at header are readable; they may change meanwhile.
 * Returns: false: this plan, or this way, has no path, and path_out->need is 0. */
bool plan_path_learn(const struct spw_obj_plan *plan, const uint8_t *header, uint64_t have,
		     struct plan_path *path_out);

/* Purpose: sets the granule, above 0, with what plan_granule_divides computes by. */
void plan_granule_set(struct spw_obj_plan *plan, uint64_t granule);

/* Purpose: whether n bytes are whole granules, without a division. The product with an inverse
 *          maps the multiples of an odd number to their quotients, one to one, and so every other n
 *          to a number above the largest quotient; the rotation does the same for a power of 2.
 *          Pure. Source: Hacker's Delight, 10-17. */
SPW_INLINE bool plan_granule_divides(const struct spw_obj_plan *plan, uint64_t n)
{
	const uint64_t product = n * plan->granule_inverse;
	const uint32_t shift = plan->granule_shift;

	return (product >> shift | product << (-shift & 63)) <= plan->granule_max;
}

/* Purpose: a bit of a set of values below 64. Pure. */
SPW_INLINE bool plan_set_has(uint64_t set, uint64_t value)
{
	return value < 64 && (set >> value & 1);
}

/* Purpose: what plan_divide multiplies by. d > 0. Pure. */
SPW_INLINE uint64_t plan_inverse(uint64_t d)
{
	return UINT64_MAX / d;
}

/* Purpose: n / d without a division; *rest_out = n % d. inverse: plan_inverse(d). The product is
 *          the quotient, or one less: n / d - n * inverse / 2^64 < 1. Pure. */
SPW_INLINE uint64_t plan_divide(uint64_t n, uint64_t d, uint64_t inverse, uint64_t *rest_out)
{
	__extension__ typedef unsigned __int128 wide;
	uint64_t q = (uint64_t)((wide)n * inverse >> 64), rest = n - q * d;

	if (rest >= d) {
		rest -= d;
		q++;
	}
	*rest_out = rest;
	return q;
}

#endif
