/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The steps of a sum: one for each term, and one more for each further field of a product.
 */
#include <errno.h>

#include "base/spw_err.h"
#include "obj/desc_emit.h"

/* p / q of 2^64, rounded up, so that v * p / q is rounded right for v below 2^63 / q; a frame with
 * a larger v is refused. For `number` alone: a sender that stamps its samples in other units has
 * rounded, and the nearest sample is the one that it meant. */
static int ratio_emit(struct emit *e, const struct desc_sum *sum, const struct desc_term *term)
{
	__extension__ typedef unsigned __int128 wide;
	struct spw_obj_step *step;

	if (term->times >= term->over || term->minus || term->negative)
		return desc_fail(&sum->at,
				 spw_err(EINVAL, "a fraction here is below 1, and added"));
	step = desc_step_emit(e, PLAN_OP_add_ratio);
	step->reg = (uint8_t)term->reg;
	step->a = (UINT64_MAX >> 1) / term->over;
	step->b = (uint64_t)((((wide)term->times << 64) + term->over - 1) / term->over);
	return 0;
}

/* A place or a length that is not a whole number of bytes is a malformed frame, so a remainder
 * refuses the frame instead of being rounded. The divisor travels in 32 bits of the step. */
static int exact_emit(struct emit *e, const struct desc_sum *sum, const struct desc_term *term)
{
	struct spw_obj_step *step;

	if (term->over > UINT32_MAX || term->minus || term->negative)
		return desc_fail(&sum->at, spw_err(EINVAL, "a quotient here is of a field alone, "
							   "by less than 2^32, and added"));
	step = desc_step_emit(e, PLAN_OP_add_exact);
	step->reg = (uint8_t)term->reg;
	step->off = (uint32_t)term->over;
	step->a = plan_inverse(term->over);
	step->b = term->times;
	return 0;
}

/* Reducing the fraction first makes `x * 8 / 4` a product: it costs no division in a run, and
 * takes an x that 4 does not divide. */
static int term_emit(struct emit *e, const struct desc_sum *sum, struct desc_term term)
{
	uint64_t divisor = desc_divisor(term.times, term.over);
	struct spw_obj_step *step;

	if (term.times == 0) /* a constant 0 */
		return 0;
	for (uint32_t i = 0; i < term.by_cnt; i++) {
		step = desc_step_emit(e, PLAN_OP_product);
		step->reg = (uint8_t)term.reg;
		step->off = (uint32_t)term.by[i];
		term.reg = PLAN_REG_PRODUCT;
	}
	term.times /= divisor;
	term.over /= divisor;
	if (term.over > 1 && term.reg == PLAN_REG_ONE)
		return desc_fail(&sum->at, spw_err(EINVAL, "a constant that is no whole number"));
	if (term.over > 1)
		return sum == &e->b->number ? ratio_emit(e, sum, &term) : exact_emit(e, sum, &term);
	step = desc_step_emit(e, term.negative ? PLAN_OP_sub : PLAN_OP_add);
	step->reg = (uint8_t)term.reg;
	step->a = term.minus;
	step->b = term.times;
	return 0;
}

static bool term_uses(const struct desc_term *term, enum plan_reg from, enum plan_reg end)
{
	bool uses = term->reg >= from && term->reg < end;

	for (uint32_t i = 0; i < term->by_cnt; i++)
		uses |= term->by[i] >= from && term->by[i] < end;
	return uses;
}

int desc_sum_check(const struct desc_sum *sum, enum plan_reg known)
{
	for (uint32_t i = 0; i < sum->cnt; i++)
		if (term_uses(&sum->term[i], known, PLAN_REG_FIELD))
			return desc_fail(&sum->at, spw_err(EINVAL, "%s not known here",
							   known == PLAN_REG_PART
								   ? "without a number, part is"
								   : "part, header and rest are"));
	return 0;
}

/* What is subtracted comes last, since a sum is never negative: in 64 bits without a sign, an early
 * subtraction would refuse frames whose total is fine. */
int desc_sum_emit(struct emit *e, const struct desc_sum *sum, enum plan_reg known)
{
	int rc = desc_sum_check(sum, known);

	for (uint32_t pass = 0; pass < 2; pass++)
		for (uint32_t i = 0; rc == 0 && i < sum->cnt; i++)
			if (sum->term[i].negative == (pass == 1))
				rc = term_emit(e, sum, sum->term[i]);
	return rc;
}

bool desc_sum_is_plain(const struct desc_sum *sum)
{
	const struct desc_term *term = &sum->term[0];

	return sum->cnt == 1 && term->reg >= PLAN_REG_FIELD && !term->by_cnt && !term->minus &&
	       term->times == 1 && term->over == 1;
}
