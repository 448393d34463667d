/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Runs a plan on a frame (plan.h has the steps). The lcore calls this for every frame, so a step is
 * a few instructions, and what is constant was computed by desc_emit.c.
 *
 * Every value in the frame is an attacker's. at <= end <= len holds at every read: `at` moves only
 * by constants, which a later read or plan_payload checks, and by sums that plan_skip checks; all
 * of it is far from 2^64. What is read lies below `head`, besides.
 *
 * obj/frame.c calls it for each frame, plan_begin.c to align. Before changing it: look at the code
 * that the compiler makes of steps_run, and run the fuzzer of plans; a step that most formats do
 * without belongs into step_other, so that the loop keeps its registers.
 */
#include "frame/spw_ident.h"
#include "obj/plan.h"

struct run {
	const uint8_t *frame;
	uint64_t head, len;  /* readable bytes of the frame; all of them */
	uint64_t begin, end; /* of what the packet's headers enclose */
	uint64_t at, sum;
	uint64_t word, have;    /* of the last load; bytes of the packet from its first byte on */
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

	if (spw_likely(plan->under == SPW_OBJ_UNDER_udp &&
		       run->head >= UDP_PLAIN + PLAN_UDP_BYTES && spw_ident_is_udp(run->frame) &&
		       !(spw_be16_load(run->frame + 20) & 0x3fff))) {
		run->begin = UDP_PLAIN;
		return udp_read(plan, run);
	}
	run->end = run->len;
	miss = plan_begin(plan, run->frame, (uint32_t)run->head, &run->begin);
	return miss || plan->under != SPW_OBJ_UNDER_udp ? miss : udp_read(plan, run);
}

/* ---- fields ---- */

/* The same near the end of what is readable: fewer than 8 bytes are left. */
SPW_COLD static bool tail_load(const struct run *run, uint64_t at, uint32_t need, uint64_t *w_out,
			       uint64_t *have_out)
{
	const uint64_t left = run->head > at ? run->head - at : 0;

	*w_out = 0;
	*have_out = SPW_MIN(*have_out, left);
	for (uint32_t i = 0; i < left; i++)
		*w_out |= (uint64_t)run->frame[at + i] << (56 - 8 * i);
	return need <= left;
}

/* The 8 bytes at the field, as a big-endian number, and how many bytes the packet has there; false:
 * it ends before the field's `need`. */
SPW_INLINE bool field_load(const struct run *run, const struct spw_obj_step *step, uint64_t *w_out,
			   uint64_t *have_out)
{
	uint64_t at = run->at + step->off;

	*have_out = run->end - at;
	if (spw_unlikely(at + step->need > run->end))
		return false;
	if (spw_unlikely(at + 8 > run->head))
		return tail_load(run, at, step->need, w_out, have_out);
	*w_out = spw_be64_load(run->frame + at);
	return true;
}

/* A bit of a set of values below 64. */
SPW_INLINE bool set_has(uint64_t set, uint64_t value)
{
	return value < 64 && (set >> value & 1);
}

/* The first of the four ids in `row`, 16 bits each, that is `id`; 4: none of them. A lane of `diff`
 * is 0 where they are equal; subtracting 1 borrows into the top bit of the lowest such lane. */
SPW_INLINE uint32_t ids_find(uint64_t row, uint64_t id)
{
	const uint64_t one = 0x0001000100010001, diff = row ^ id * one;
	const uint64_t zero = (diff - one) & ~diff & one << 15;

	return zero ? (uint32_t)__builtin_ctzll(zero) / 16 : 4;
}

/* step[0] has the shape of an item, step[1] the ids in 16 bits each; the values of the first
 * step[1].need of them go into registers from step[1].reg on, and none of the others may be there.
 * A later item replaces an earlier one of its id. */
static enum spw_obj_miss items_search(struct run *run, const struct spw_obj_step *step,
				      uint64_t *reg)
{
	uint64_t cnt = reg[step->reg], at = run->at + step->off, ids = 0;

	if (cnt > PLAN_ITEM_MAX)
		return SPW_OBJ_MISS_not_object;
	if (at > run->end || run->end - at < cnt * 8 || at + cnt * 8 > run->head)
		return SPW_OBJ_MISS_cut;
	for (uint64_t i = 0; i < cnt; i++) {
		uint64_t w = spw_be64_load(run->frame + at + 8 * i), id = w >> step->shift;
		uint32_t k = ids_find(step[1].a, id);

		if (k == 4)
			k += ids_find(step[1].b, id);
		if (k >= step[1].off)
			continue;
		ids |= 1ull << k;
		if (k < step[1].need) /* the ids of `none` have no register */
			reg[step[1].reg + k] = w & step->a;
	}
	run->at += cnt * 8;
	return ids == (1ull << step[1].need) - 1 ? SPW_OBJ_MISS_none : SPW_OBJ_MISS_not_object;
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

static bool sum_add_ratio(struct run *run, const struct spw_obj_step *step, uint64_t value)
{
	plan_wide term = ((plan_wide)value * step->b + (1ull << 63)) >> 64;

	return value <= step->a && !__builtin_add_overflow(run->sum, (uint64_t)term, &run->sum);
}

static bool sum_add_exact(struct run *run, const struct spw_obj_step *step, uint64_t value)
{
	uint64_t rest, term, q = plan_divide(value, step->off, step->a, &rest);

	return rest == 0 && !__builtin_mul_overflow(q, step->b, &term) &&
	       !__builtin_add_overflow(run->sum, term, &run->sum);
}

SPW_INLINE uint64_t sum_take(struct run *run)
{
	uint64_t sum = run->sum;

	run->sum = 0;
	return sum;
}

/* ---- what is found ---- */

SPW_INLINE enum spw_obj_miss payload_begin(struct run *run, const struct spw_obj_step *step,
					   uint64_t *reg)
{
	uint64_t at = run->at + step->off;

	if (spw_unlikely(at > run->end))
		return SPW_OBJ_MISS_cut;
	reg[PLAN_REG_HEADER] = at - run->begin;
	run->start = step->a ? run->begin : at;
	reg[PLAN_REG_REST] = run->end - run->start;
	run->length = step->b ? step->b : reg[PLAN_REG_REST];
	return SPW_OBJ_MISS_none;
}

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
				      struct spw_obj_hit *hit)
{
	uint64_t size = sum_take(run);

	if (size > plan->object_bytes)
		return SPW_OBJ_MISS_beyond;
	hit->size = size;
	hit->flags |= size ? SPW_OBJ_SIZE : 0u;
	return SPW_OBJ_MISS_none;
}

/* The object's bytes, or this frame's statement of them, bound the piece; it is made of whole
 * granules, but for the object's last one, which step->need says has to be looked at. Where only a
 * mark, or the size in another frame, ends an object, its size is not known here. */
SPW_INLINE enum spw_obj_miss piece_add(const struct spw_obj_plan *plan, const struct run *run,
				       const struct spw_obj_step *step, uint64_t pos, uint64_t skip,
				       struct spw_obj_hit *hit)
{
	uint64_t limit = hit->flags & SPW_OBJ_SIZE ? hit->size : plan->object_bytes;
	uint64_t len = run->length, off_pos, off_len;

	if (len == 0)
		return SPW_OBJ_MISS_none;
	if (pos > limit || len > limit - pos)
		return SPW_OBJ_MISS_beyond;
	if (step->need) {
		plan_divide(pos, plan->granule, plan->granule_inverse, &off_pos);
		plan_divide(len, plan->granule, plan->granule_inverse, &off_len);
		if (off_pos || (off_len && step->need == PLAN_PIECE_WHOLE && pos + len != limit &&
				(hit->flags & (SPW_OBJ_END | SPW_OBJ_SIZE)) != SPW_OBJ_END))
			return SPW_OBJ_MISS_beyond;
	}
	hit->piece[hit->piece_cnt++] = (struct spw_obj_piece){pos, (uint32_t)skip, (uint32_t)len};
	return SPW_OBJ_MISS_none;
}

SPW_INLINE enum spw_obj_miss piece_inline(const struct spw_obj_plan *plan, struct run *run,
					  const struct spw_obj_step *step, struct spw_obj_hit *hit)
{
	uint64_t skip = run->at + step->off;

	if (skip > run->end || run->length > run->end - skip)
		return SPW_OBJ_MISS_cut;
	run->at = skip + run->length;
	return piece_add(plan, run, step, sum_take(run), skip, hit);
}

static enum spw_obj_miss pieces_spread(struct run *run, const struct spw_obj_step *step,
				       struct spw_obj_hit *hit)
{
	uint64_t skip = run->at + step->off;

	for (uint32_t i = 0; i < hit->piece_cnt; i++) {
		hit->piece[i].skip = (uint32_t)skip;
		skip += hit->piece[i].len;
	}
	return skip <= run->end ? SPW_OBJ_MISS_none : SPW_OBJ_MISS_cut;
}

static enum spw_obj_miss sum_skip(struct run *run)
{
	uint64_t sum = sum_take(run);

	if (run->at > run->end || sum > run->end - run->at)
		return SPW_OBJ_MISS_cut;
	run->at += sum;
	return SPW_OBJ_MISS_none;
}

static enum spw_obj_miss end_bound(struct run *run)
{
	uint64_t sum = sum_take(run);

	if (sum > run->end - run->begin)
		return SPW_OBJ_MISS_cut;
	run->end = run->begin + sum;
	return SPW_OBJ_MISS_none;
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

SPW_INLINE bool value_load(struct run *run, const struct spw_obj_step *step, uint64_t *reg)
{
	uint64_t w, have;

	if (!field_load(run, step, &w, &have))
		return false;
	run->word = w;
	run->have = have;
	if (step->op == PLAN_OP_load_little) /* the first `need` bytes of w, the other way round */
		w = __builtin_bswap64(w) & (UINT64_MAX >> (64 - 8 * step->need));
	reg[step->reg] = w >> step->shift & step->a;
	return true;
}

SPW_INLINE bool value_same(const struct run *run, const struct spw_obj_step *step, uint64_t *reg)
{
	reg[step->reg] = run->word >> step->shift & step->a;
	return step->need <= run->have;
}

static enum spw_obj_miss value_is(const struct run *run, const struct spw_obj_step *step)
{
	uint64_t w = run->word, have;

	if (step->op == PLAN_OP_same_is ? step->need > run->have
					: !field_load(run, step, &w, &have))
		return SPW_OBJ_MISS_cut;
	return (w >> step->shift & step->a) == step->b ? SPW_OBJ_MISS_none
						       : SPW_OBJ_MISS_not_object;
}

/* Guards that lie together hold in nearly every frame: then none of their steps is run. */
SPW_INLINE uint32_t guards_match(const struct run *run, const struct spw_obj_step *step)
{
	uint64_t w, have;

	return field_load(run, step, &w, &have) && (w & step->a) == step->b ? step->shift : 0;
}

/* How many steps are skipped. */
SPW_INLINE uint32_t step_jump(const struct run *run, const struct spw_obj_step *step,
			      const uint64_t *reg)
{
	bool holds;

	if (step->op == PLAN_OP_unless_is)
		holds = reg[step->reg] == step->b;
	else if (step->op == PLAN_OP_unless_in)
		holds = set_has(step->b, reg[step->reg]);
	else
		holds = run->end > run->at && run->end - run->at > step->a;
	return holds ? 0 : step->off;
}

/* The steps that most formats do without, or that few frames meet. */
static enum spw_obj_miss step_other(const struct spw_obj_plan *plan, struct run *run,
				    const struct spw_obj_step *step, uint64_t *reg,
				    struct spw_obj_hit *hit)
{
	switch ((enum plan_op)step->op) {
	case PLAN_OP_load_is:
	case PLAN_OP_same_is:
		return value_is(run, step);
	case PLAN_OP_test_is:
		return reg[step->reg] == step->b ? SPW_OBJ_MISS_none : SPW_OBJ_MISS_not_object;
	case PLAN_OP_test_in:
		return set_has(step->b, reg[step->reg]) ? SPW_OBJ_MISS_none
							: SPW_OBJ_MISS_not_object;
	case PLAN_OP_product:
		return __builtin_mul_overflow(reg[step->reg], reg[step->off],
					      &reg[PLAN_REG_PRODUCT])
			       ? SPW_OBJ_MISS_beyond
			       : SPW_OBJ_MISS_none;
	case PLAN_OP_zero:
		for (uint32_t i = 0; i < step->off; i++)
			reg[step->reg + i] = 0;
		return SPW_OBJ_MISS_none;
	case PLAN_OP_ids:
		return SPW_OBJ_MISS_none;
	case PLAN_OP_skip_sum:
		return sum_skip(run);
	case PLAN_OP_bound:
		return end_bound(run);
	case PLAN_OP_items:
		return items_search(run, step, reg);
	case PLAN_OP_sub:
		return sum_sub(run, step, reg[step->reg]) ? SPW_OBJ_MISS_none : SPW_OBJ_MISS_beyond;
	case PLAN_OP_add_ratio:
		return sum_add_ratio(run, step, reg[step->reg]) ? SPW_OBJ_MISS_none
								: SPW_OBJ_MISS_beyond;
	case PLAN_OP_add_exact:
		return sum_add_exact(run, step, reg[step->reg]) ? SPW_OBJ_MISS_none
								: SPW_OBJ_MISS_beyond;
	case PLAN_OP_key_wrap:
		return hit->key >> step->off ? SPW_OBJ_MISS_beyond : SPW_OBJ_MISS_none;
	case PLAN_OP_size:
		return size_set(plan, run, hit);
	case PLAN_OP_end:
		hit->flags |= SPW_OBJ_END;
		return SPW_OBJ_MISS_none;
	case PLAN_OP_piece_after:
		run->at += step->off;
		return piece_add(plan, run, step, sum_take(run), 0, hit);
	case PLAN_OP_piece_inline:
		return piece_inline(plan, run, step, hit);
	case PLAN_OP_spread:
		return pieces_spread(run, step, hit);
	default:
		return SPW_OBJ_MISS_beyond; /* refuse */
	}
}

/* A plan ends with `piece` or `done`, so that the loop has no count. */
static enum spw_obj_miss steps_run(const struct spw_obj_plan *plan, struct run *run,
				   struct spw_obj_hit *hit)
{
	uint64_t reg[PLAN_REG_CNT];
	enum spw_obj_miss miss = SPW_OBJ_MISS_none;

	reg[PLAN_REG_ONE] = 1;
	reg[PLAN_REG_ZERO] = 0;
	for (const struct spw_obj_step *step = plan->step;; step++) {
		switch ((enum plan_op)step->op) {
		case PLAN_OP_load:
		case PLAN_OP_load_little:
			if (!value_load(run, step, reg))
				return SPW_OBJ_MISS_cut;
			continue;
		case PLAN_OP_match:
			step += guards_match(run, step);
			continue;
		case PLAN_OP_same:
			if (!value_same(run, step, reg))
				return SPW_OBJ_MISS_cut;
			continue;
		case PLAN_OP_unless_is:
		case PLAN_OP_unless_in:
		case PLAN_OP_unless_more:
			step += step_jump(run, step, reg);
			continue;
		case PLAN_OP_skip:
			run->at += step->off;
			continue;
		case PLAN_OP_add:
			if (!sum_add(run, step, reg[step->reg]))
				return SPW_OBJ_MISS_beyond;
			continue;
		case PLAN_OP_key_cat:
			hit->key = hit->key << step->off | reg[step->reg];
			continue;
		case PLAN_OP_key_per:
			key_per(plan, step, run, hit, reg);
			continue;
		case PLAN_OP_payload:
			miss = payload_begin(run, step, reg);
			break;
		case PLAN_OP_length:
			length_set(run, step, reg[step->reg]);
			continue;
		case PLAN_OP_piece:
			return piece_at_start(plan, run, step, reg[step->reg], hit);
		case PLAN_OP_info:
			hit->flags |= SPW_OBJ_INFO;
			return SPW_OBJ_MISS_none;
		case PLAN_OP_done:
			return SPW_OBJ_MISS_none;
		default:
			miss = step_other(plan, run, step, reg, hit);
		}
		if (spw_unlikely(miss != SPW_OBJ_MISS_none))
			return miss;
	}
}

enum spw_obj_miss spw_obj_plan_run(const struct spw_obj_plan *plan, const uint8_t *frame,
				   uint32_t head, uint32_t len, struct spw_obj_hit *hit_out)
{
	struct run run = {.frame = frame, .head = head, .len = len};
	enum spw_obj_miss miss = header_begin(plan, &run);

	if (spw_unlikely(miss != SPW_OBJ_MISS_none))
		return miss;
	run.at = run.begin;
	hit_out->key = hit_out->part = hit_out->size = 0;
	hit_out->flags = hit_out->piece_cnt = 0;
	miss = steps_run(plan, &run, hit_out);
	if (hit_out->piece_cnt == 0)
		hit_out->flags |= SPW_OBJ_INFO;
	return miss;
}
