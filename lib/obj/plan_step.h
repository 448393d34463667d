/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Private to lib/obj: what plan.c and plan_path.c do alike: where a header begins, and the steps
 * that compute keys and pieces from fields (plan.h has all of them). Both run them in a function of
 * their own, by jumps; `run` stays in registers as long as its address goes into inlined functions
 * alone.
 */
#ifndef OBJ_PLAN_STEP_H
#define OBJ_PLAN_STEP_H

#include "frame/spw_ident.h"
#include "obj/plan.h"

struct run {
	const uint8_t *frame;
	uint64_t head, len;  /* readable bytes of the frame; all of them */
	uint64_t begin, end; /* of what the packet's headers enclose */
	uint64_t whole;      /* below it 8 bytes can be read, and are the packet's */
	uint64_t at, sum;
	uint64_t word, have;    /* of the last load; bytes of the packet in it */
	uint64_t start, length; /* of the payload */
};

__extension__ typedef unsigned __int128 plan_wide;

/* ---- where the header begins ---- */

enum { UDP_PLAIN = 34 }; /* bytes in front of UDP without tags and options */

/* UDP's length, not the frame's, is where the payload ends: short frames are padded. */
SPW_INLINE enum spw_obj_miss udp_read(const struct spw_obj_plan *plan, struct run *run)
{
	const uint8_t *udp = run->frame + run->begin;
	uint64_t bytes = spw_be16_load(udp + 4);

	if ((plan->port && spw_be16_load(udp + 2) != plan->port) || bytes < PLAN_UDP_BYTES)
		return SPW_OBJ_MISS_not_object;
	run->end = run->begin + bytes;
	run->begin += PLAN_UDP_BYTES;
	return run->end <= run->len ? SPW_OBJ_MISS_none : SPW_OBJ_MISS_cut;
}

SPW_INLINE enum spw_obj_miss header_begin(const struct spw_obj_plan *plan, struct run *run)
{
	enum spw_obj_miss miss;
	uint64_t begin;

	if (spw_likely(plan->under == SPW_OBJ_UNDER_udp &&
		       run->head >= UDP_PLAIN + PLAN_UDP_BYTES && spw_ident_is_udp(run->frame) &&
		       !(spw_be16_load(run->frame + 20) & 0x3fff))) {
		run->begin = UDP_PLAIN;
		return udp_read(plan, run);
	}
	run->end = run->len;
	miss = plan_begin(plan, run->frame, (uint32_t)run->head, &begin);
	run->begin = begin;
	return miss || plan->under != SPW_OBJ_UNDER_udp ? miss : udp_read(plan, run);
}

/* ---- sums ---- */

SPW_INLINE bool sum_add(struct run *run, const struct spw_obj_step *step, uint64_t value)
{
	uint64_t term;

	return value >= step->a && !__builtin_mul_overflow(value - step->a, step->b, &term) &&
	       !__builtin_add_overflow(run->sum, term, &run->sum);
}

SPW_INLINE bool sum_sub(struct run *run, const struct spw_obj_step *step, uint64_t value)
{
	uint64_t term;

	return value >= step->a && !__builtin_mul_overflow(value - step->a, step->b, &term) &&
	       !__builtin_sub_overflow(run->sum, term, &run->sum);
}

SPW_INLINE bool sum_add_ratio(struct run *run, const struct spw_obj_step *step, uint64_t value)
{
	plan_wide term = ((plan_wide)value * step->b + (1ull << 63)) >> 64;

	return value <= step->a && !__builtin_add_overflow(run->sum, (uint64_t)term, &run->sum);
}

SPW_INLINE bool sum_add_exact(struct run *run, const struct spw_obj_step *step, uint64_t value)
{
	uint64_t rest, term, q = plan_divide(value, step->off, step->a, &rest);

	return rest == 0 && !__builtin_mul_overflow(q, step->b, &term) &&
	       !__builtin_add_overflow(run->sum, term, &run->sum);
}

SPW_INLINE bool product_set(const struct spw_obj_step *step, uint64_t *reg)
{
	return !__builtin_mul_overflow(reg[step->reg], reg[step->off], &reg[PLAN_REG_PRODUCT]);
}

SPW_INLINE uint64_t sum_take(struct run *run)
{
	uint64_t sum = run->sum;

	run->sum = 0;
	return sum;
}

/* ---- what is found ---- */

SPW_INLINE void length_set(struct run *run, const struct spw_obj_step *step, uint64_t value)
{
	uint64_t length = sum_take(run) + value;

	run->length = length ? length : step->a;
}

SPW_INLINE void key_per(const struct spw_obj_plan *plan, const struct spw_obj_step *step,
			struct run *run, struct spw_obj_hit *hit, uint64_t *reg)
{
	uint64_t number = (sum_take(run) + reg[step->reg] - plan->phase) & plan->number_mask;

	hit->key = plan_divide(number, step->a, step->b, &hit->part);
	reg[PLAN_REG_PART] = hit->part;
}

SPW_INLINE enum spw_obj_miss size_set(const struct spw_obj_plan *plan, struct run *run,
				      uint64_t value, struct spw_obj_hit *hit)
{
	uint64_t size = sum_take(run) + value;

	if (size > plan->object_bytes)
		return SPW_OBJ_MISS_beyond;
	hit->size = size;
	hit->flags |= size ? SPW_OBJ_SIZE : 0u;
	return SPW_OBJ_MISS_none;
}

/* Whether a piece that is not made of whole granules may be so: at the object's end. */
SPW_INLINE bool piece_is_short(const struct spw_obj_plan *plan, const struct spw_obj_step *step,
			       uint64_t pos, bool inside, const struct spw_obj_hit *hit)
{
	return plan_granule_divides(plan, pos) &&
	       (step->need == PLAN_PIECE_SHORT || !inside ||
		(hit->flags & (SPW_OBJ_END | SPW_OBJ_SIZE)) == SPW_OBJ_END);
}

/* The object's bytes, or this frame's statement of them, bound the piece; it is made of whole
 * granules, but for the object's last one, which step->need says has to be looked at. Where only a
 * mark, or the size in another frame, ends an object, its size is not known here. */
SPW_INLINE enum spw_obj_miss piece_add(const struct spw_obj_plan *plan, const struct run *run,
				       const struct spw_obj_step *step, uint64_t pos, uint64_t skip,
				       struct spw_obj_hit *hit)
{
	uint64_t limit = hit->flags & SPW_OBJ_SIZE ? hit->size : plan->object_bytes;
	uint64_t len = run->length;

	if (len == 0)
		return SPW_OBJ_MISS_none;
	if (pos > limit || len > limit - pos)
		return SPW_OBJ_MISS_beyond;
	if (step->need && (!plan_granule_divides(plan, pos) || !plan_granule_divides(plan, len)) &&
	    !piece_is_short(plan, step, pos, pos + len != limit, hit))
		return SPW_OBJ_MISS_beyond;
	hit->piece[hit->piece_cnt++] = (struct spw_obj_piece){pos, (uint32_t)skip, (uint32_t)len};
	return SPW_OBJ_MISS_none;
}

SPW_INLINE enum spw_obj_miss piece_behind(const struct spw_obj_plan *plan, struct run *run,
					  const struct spw_obj_step *step, struct spw_obj_hit *hit)
{
	run->at += step->off;
	return piece_add(plan, run, step, sum_take(run), 0, hit);
}

SPW_INLINE enum spw_obj_miss pieces_spread(const struct run *run, const struct spw_obj_step *step,
					   struct spw_obj_hit *hit)
{
	uint64_t skip = run->at + step->off;

	for (uint32_t i = 0; i < hit->piece_cnt; i++) {
		hit->piece[i].skip = (uint32_t)skip;
		skip += hit->piece[i].len;
	}
	return skip <= run->end ? SPW_OBJ_MISS_none : SPW_OBJ_MISS_cut;
}

SPW_INLINE enum spw_obj_miss piece_at_start(const struct spw_obj_plan *plan, struct run *run,
					    const struct spw_obj_step *step, uint64_t value,
					    struct spw_obj_hit *hit)
{
	if (run->length > run->end - run->start)
		return SPW_OBJ_MISS_cut;
	if (!sum_add(run, step, value) || run->sum < step->off)
		return SPW_OBJ_MISS_beyond;
	return piece_add(plan, run, step, run->sum - step->off, run->start, hit);
}

/* ---- the steps ---- */

/* What a step does, by the local names of the function that runs it: plan, step, run, reg, hit,
 * miss, and the place `over`. Where it may miss, the run is over. */
#define STEP_MISS(found)                                     \
	do {                                                 \
		miss = (found);                              \
		if (spw_unlikely(miss != SPW_OBJ_MISS_none)) \
			return miss;                         \
	} while (0)
#define STEP_CHECK(holds, otherwise) \
	STEP_MISS((holds) ? SPW_OBJ_MISS_none : SPW_OBJ_MISS_##otherwise)

/* op, action */
#define STEP_FIND_LIST(X)                                                                 \
	X(product, STEP_CHECK(product_set(step, reg), beyond))                            \
	X(add, STEP_CHECK(sum_add(&run, step, reg[step->reg]), beyond))                   \
	X(sub, STEP_CHECK(sum_sub(&run, step, reg[step->reg]), beyond))                   \
	X(add_ratio, STEP_CHECK(sum_add_ratio(&run, step, reg[step->reg]), beyond))       \
	X(add_exact, STEP_CHECK(sum_add_exact(&run, step, reg[step->reg]), beyond))       \
	X(key_cat, hit->key = hit->key << step->off | reg[step->reg])                     \
	X(key_per, key_per(plan, step, &run, hit, reg))                                   \
	X(key_wrap, STEP_CHECK(hit->key >> step->off == 0, beyond))                       \
	X(size, STEP_MISS(size_set(plan, &run, reg[step->reg], hit)))                     \
	X(end, hit->flags |= SPW_OBJ_END)                                                 \
	X(info, goto over)                                                                \
	X(length, length_set(&run, step, reg[step->reg]))                                 \
	X(piece, miss = piece_at_start(plan, &run, step, reg[step->reg], hit); goto over) \
	X(piece_after, STEP_MISS(piece_behind(plan, &run, step, hit)))                    \
	X(spread, STEP_MISS(pieces_spread(&run, step, hit)))                              \
	X(done, goto over)

/* Each step has a jump of its own to the next one: one for all of them would be predicted worse,
 * and costs a comparison. */
#define STEP_PLACE(name, ...) [PLAN_OP_##name] = &&at_##name,
#define STEP_CODE(name, ...)     \
	at_##name : __VA_ARGS__; \
	goto *at[(++step)->op];

#endif
