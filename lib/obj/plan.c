/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Runs a plan on a frame (plan.h has the steps). The lcore calls this for every frame, so a step is
 * a few instructions, and what is constant was computed by desc_emit.c.
 *
 * Every value in the frame is an attacker's. at <= end <= len holds at every read: `at` moves only
 * by constants, which a later read or payload_begin checks, and by sums that sum_skip checks; all
 * of it is far from 2^64. What is read lies below `head`, besides.
 *
 * plan_path.c calls it for frames whose way is not known, plan_begin.c to align. Before changing
 * it: run the fuzzer of plans.
 */
#include "obj/plan_step.h"

/* ---- fields ---- */

/* What the packet has of 8 bytes near its end, or near that of what is readable. */
SPW_COLD static uint64_t tail_load(const uint8_t *at, uint64_t left)
{
	uint64_t w = 0;

	for (uint64_t i = 0; i < SPW_MIN(left, 8); i++)
		w |= (uint64_t)at[i] << (56 - 8 * i);
	return w;
}

/* The 8 bytes at the field, as a big-endian number, and how many of them the packet has; false: it
 * ends before the field's `need`. */
SPW_INLINE bool field_load(const struct run *run, const struct spw_obj_step *step, uint64_t *w_out,
			   uint64_t *have_out)
{
	uint64_t at = run->at + step->off, stop;

	*have_out = 8;
	if (spw_likely(at < run->whole)) {
		*w_out = spw_be64_load(run->frame + at);
		return true;
	}
	stop = SPW_MIN(run->head, run->end);
	*have_out = stop > at ? stop - at : 0;
	*w_out = tail_load(run->frame + at, *have_out);
	return step->need <= *have_out;
}

SPW_INLINE void whole_set(struct run *run)
{
	const uint64_t stop = SPW_MIN(run->head, run->end);

	run->whole = stop < 8 ? 0 : stop - 7;
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
SPW_INLINE enum spw_obj_miss items_search(struct run *run, const struct spw_obj_step *step,
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

/* ---- the steps ---- */

SPW_INLINE bool value_load(struct run *run, const struct spw_obj_step *step, uint64_t *reg,
			   const bool little)
{
	uint64_t w, have;

	if (!field_load(run, step, &w, &have))
		return false;
	run->word = w;
	run->have = have;
	if (little) /* the first `need` bytes of w, the other way round */
		w = __builtin_bswap64(w) & (UINT64_MAX >> (64 - 8 * step->need));
	reg[step->reg] = w >> step->shift & step->a;
	return true;
}

SPW_INLINE bool value_same(const struct run *run, const struct spw_obj_step *step, uint64_t *reg)
{
	reg[step->reg] = run->word >> step->shift & step->a;
	return step->need <= run->have;
}

SPW_INLINE enum spw_obj_miss value_is(const struct run *run, const struct spw_obj_step *step,
				      const bool same)
{
	uint64_t w = run->word, have;

	if (same ? step->need > run->have : !field_load(run, step, &w, &have))
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

SPW_INLINE void regs_zero(uint64_t *reg, const struct spw_obj_step *step)
{
	for (uint32_t i = step->off; i-- > 0;)
		reg[step->reg + i] = 0;
}

/* Whether bytes are left for another segment. */
SPW_INLINE bool is_more(const struct run *run, const struct spw_obj_step *step)
{
	return run->end > run->at && run->end - run->at > step->a;
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

SPW_INLINE enum spw_obj_miss sum_skip(struct run *run)
{
	uint64_t sum = sum_take(run);

	if (run->at > run->end || sum > run->end - run->at)
		return SPW_OBJ_MISS_cut;
	run->at += sum;
	return SPW_OBJ_MISS_none;
}

SPW_INLINE enum spw_obj_miss end_bound(struct run *run)
{
	uint64_t sum = sum_take(run);

	if (sum > run->end - run->begin)
		return SPW_OBJ_MISS_cut;
	run->end = run->begin + sum;
	whole_set(run);
	return SPW_OBJ_MISS_none;
}

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

/* ---- the run ---- */

/* op, action */
#define STEP_LIST(X)                                                                \
	X(load, STEP_CHECK(value_load(&run, step, reg, false), cut))                \
	X(load_is, STEP_MISS(value_is(&run, step, false)))                          \
	X(same, STEP_CHECK(value_same(&run, step, reg), cut))                       \
	X(same_is, STEP_MISS(value_is(&run, step, true)))                           \
	X(match, step += guards_match(&run, step))                                  \
	X(load_little, STEP_CHECK(value_load(&run, step, reg, true), cut))          \
	X(test_is, STEP_CHECK(reg[step->reg] == step->b, not_object))               \
	X(test_in, STEP_CHECK(plan_set_has(step->b, reg[step->reg]), not_object))   \
	X(zero, regs_zero(reg, step))                                               \
	X(unless_is, step += reg[step->reg] == step->b ? 0 : step->off)             \
	X(unless_in, step += plan_set_has(step->b, reg[step->reg]) ? 0 : step->off) \
	X(unless_more, step += is_more(&run, step) ? 0 : step->off)                 \
	X(skip, run.at += step->off)                                                \
	X(skip_sum, STEP_MISS(sum_skip(&run)))                                      \
	X(items, STEP_MISS(items_search(&run, step, reg)))                          \
	X(ids, )                                                                    \
	X(bound, STEP_MISS(end_bound(&run)))                                        \
	X(payload, STEP_MISS(payload_begin(&run, step, reg)))                       \
	X(piece_inline, STEP_MISS(piece_inline(plan, &run, step, hit)))             \
	X(refuse, return SPW_OBJ_MISS_beyond)                                       \
	STEP_FIND_LIST(X)

/* A plan ends with `piece` or `done`, so that nothing is counted. */
enum spw_obj_miss spw_obj_plan_run(const struct spw_obj_plan *plan, const uint8_t *frame,
				   uint32_t head, uint32_t len, struct spw_obj_hit *hit)
{
	static const void *const at[] = {STEP_LIST(STEP_PLACE)};
	const struct spw_obj_step *step = plan->step;
	struct run run = {.frame = frame, .head = head, .len = len};
	enum spw_obj_miss miss = header_begin(plan, &run);
	uint64_t reg[PLAN_REG_CNT];

	if (spw_unlikely(miss != SPW_OBJ_MISS_none))
		return miss;
	run.at = run.begin;
	whole_set(&run);
	hit->key = hit->part = hit->size = 0;
	hit->flags = hit->piece_cnt = 0;
	reg[PLAN_REG_ONE] = 1;
	reg[PLAN_REG_ZERO] = 0;
	goto *at[step->op];
	STEP_LIST(STEP_CODE)
over:
	hit->flags |= step->op == PLAN_OP_info || hit->piece_cnt == 0 ? SPW_OBJ_INFO : 0u;
	return miss;
}
