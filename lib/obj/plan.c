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
 * that the compiler makes of steps_run, and run the fuzzer of plans. `run` stays in registers as
 * long as its address goes into inlined functions alone; steps that few frames meet get a copy
 * (step_other).
 */
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

SPW_INLINE bool sum_add_exact(struct run *run, const struct spw_obj_step *step, uint64_t value)
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

SPW_INLINE enum spw_obj_miss piece_behind(const struct spw_obj_plan *plan, struct run *run,
					  const struct spw_obj_step *step, struct spw_obj_hit *hit)
{
	run->at += step->off;
	return piece_add(plan, run, step, sum_take(run), 0, hit);
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

SPW_INLINE enum spw_obj_miss sum_skip(struct run *run)
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
	whole_set(run);
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

/* The steps that most formats do without. */
static enum spw_obj_miss step_other(const struct spw_obj_plan *plan, struct run *run,
				    const struct spw_obj_step *step, uint64_t *reg,
				    struct spw_obj_hit *hit)
{
	switch ((enum plan_op)step->op) {
	case PLAN_OP_product:
		return __builtin_mul_overflow(reg[step->reg], reg[step->off],
					      &reg[PLAN_REG_PRODUCT])
			       ? SPW_OBJ_MISS_beyond
			       : SPW_OBJ_MISS_none;
	case PLAN_OP_bound:
		return end_bound(run);
	case PLAN_OP_items:
		return items_search(run, step, reg);
	case PLAN_OP_sub:
		return sum_sub(run, step, reg[step->reg]) ? SPW_OBJ_MISS_none : SPW_OBJ_MISS_beyond;
	case PLAN_OP_add_ratio:
		return sum_add_ratio(run, step, reg[step->reg]) ? SPW_OBJ_MISS_none
								: SPW_OBJ_MISS_beyond;
	case PLAN_OP_key_wrap:
		return hit->key >> step->off ? SPW_OBJ_MISS_beyond : SPW_OBJ_MISS_none;
	case PLAN_OP_piece_inline:
		return piece_inline(plan, run, step, hit);
	default:
		return SPW_OBJ_MISS_beyond; /* refuse */
	}
}

/* ---- the run ---- */

/* What each step does, by the local names of spw_obj_plan_run. Where it may miss, the run is over.
 */
#define STEP_MISS(found)                                     \
	do {                                                 \
		miss = (found);                              \
		if (spw_unlikely(miss != SPW_OBJ_MISS_none)) \
			return miss;                         \
	} while (0)
#define STEP_CHECK(holds, otherwise) \
	STEP_MISS((holds) ? SPW_OBJ_MISS_none : SPW_OBJ_MISS_##otherwise)
#define STEP_OTHER()                                            \
	do {                                                    \
		copy = run;                                     \
		miss = step_other(plan, &copy, step, reg, hit); \
		run = copy;                                     \
		STEP_MISS(miss);                                \
	} while (0)

/* op, action */
#define STEP_LIST(X)                                                                      \
	X(load, STEP_CHECK(value_load(&run, step, reg, false), cut))                      \
	X(load_is, STEP_MISS(value_is(&run, step, false)))                                \
	X(same, STEP_CHECK(value_same(&run, step, reg), cut))                             \
	X(same_is, STEP_MISS(value_is(&run, step, true)))                                 \
	X(match, step += guards_match(&run, step))                                        \
	X(load_little, STEP_CHECK(value_load(&run, step, reg, true), cut))                \
	X(test_is, STEP_CHECK(reg[step->reg] == step->b, not_object))                     \
	X(test_in, STEP_CHECK(set_has(step->b, reg[step->reg]), not_object))              \
	X(zero, regs_zero(reg, step))                                                     \
	X(product, STEP_OTHER())                                                          \
	X(unless_is, step += reg[step->reg] == step->b ? 0 : step->off)                   \
	X(unless_in, step += set_has(step->b, reg[step->reg]) ? 0 : step->off)            \
	X(unless_more, step += is_more(&run, step) ? 0 : step->off)                       \
	X(skip, run.at += step->off)                                                      \
	X(skip_sum, STEP_MISS(sum_skip(&run)))                                            \
	X(items, STEP_OTHER())                                                            \
	X(ids, )                                                                          \
	X(bound, STEP_OTHER())                                                            \
	X(add, STEP_CHECK(sum_add(&run, step, reg[step->reg]), beyond))                   \
	X(sub, STEP_OTHER())                                                              \
	X(add_ratio, STEP_OTHER())                                                        \
	X(add_exact, STEP_CHECK(sum_add_exact(&run, step, reg[step->reg]), beyond))       \
	X(key_cat, hit->key = hit->key << step->off | reg[step->reg])                     \
	X(key_per, key_per(plan, step, &run, hit, reg))                                   \
	X(key_wrap, STEP_OTHER())                                                         \
	X(size, STEP_MISS(size_set(plan, &run, hit)))                                     \
	X(end, hit->flags |= SPW_OBJ_END)                                                 \
	X(info, goto over)                                                                \
	X(payload, STEP_MISS(payload_begin(&run, step, reg)))                             \
	X(length, length_set(&run, step, reg[step->reg]))                                 \
	X(piece, miss = piece_at_start(plan, &run, step, reg[step->reg], hit); goto over) \
	X(piece_after, STEP_MISS(piece_behind(plan, &run, step, hit)))                    \
	X(piece_inline, STEP_OTHER())                                                     \
	X(spread, STEP_MISS(pieces_spread(&run, step, hit)))                              \
	X(refuse, STEP_OTHER())                                                           \
	X(done, goto over)

/* Each step has a jump of its own to the next one: one for all of them would be predicted worse,
 * and costs a comparison. */
#define STEP_PLACE(prefix, name, text) [PLAN_OP_##name] = &&at_##name,
#define STEP_CODE(name, ...)     \
	at_##name : __VA_ARGS__; \
	goto *at[(++step)->op];

/* A plan ends with `piece` or `done`, so that nothing is counted. */
enum spw_obj_miss spw_obj_plan_run(const struct spw_obj_plan *plan, const uint8_t *frame,
				   uint32_t head, uint32_t len, struct spw_obj_hit *hit)
{
	static const void *const at[] = {PLAN_OP_LIST(STEP_PLACE, )};
	const struct spw_obj_step *step = plan->step;
	struct run run = {.frame = frame, .head = head, .len = len}, copy;
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
