/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The steps by which a plan finds the key of a frame's object, and the width in which it wraps.
 * desc_emit.c calls desc_key_emit once for each description, after the steps that load the fields.
 *
 *   number   key = number / per     which object        part = number % per   which piece of it
 *   label    key = field, field ... concatenated, the first in the highest bits
 *
 * The width (plan.key_bits) is what lib/obj compares keys in: a counter of 16 bits with per 256
 * gives keys of 8 bits, and key 0 follows key 255. A key that is too wide would make each wrap look
 * like a jump back; so key_bits is less than 64 only where the wrap falls between two objects.
 */
#include <errno.h>

#include "base/spw_err.h"
#include "obj/desc_emit.h"

/* The bits of a number that is one field, so that it wraps there; 64 of any other. */
static uint32_t number_bits(const struct desc_build *b)
{
	for (uint32_t i = 0; desc_sum_is_plain(&b->number) && i < b->field_cnt; i++)
		if (b->field[i].reg == (uint8_t)b->number.term[0].reg)
			return b->field[i].bits;
	return 64;
}

/* A counter that wraps within an object would cut it; one of 48 bits does not wrap in any run. */
static int number_emit(struct emit *e)
{
	struct spw_obj_plan *plan = e->plan;
	uint64_t per = e->b->per ? e->b->per : 1;
	uint32_t bits = number_bits(e->b);
	bool plain = desc_sum_is_plain(&e->b->number);
	struct spw_obj_step *step;
	int rc = plain ? 0 : desc_sum_emit(e, &e->b->number, PLAN_REG_HEADER);

	plan->number_mask = UINT64_MAX >> (64 - bits);
	plan->key_bits = 64;
	if (rc == 0 && bits < 64 && per > plan->number_mask)
		rc = desc_fail(&e->b->per_at, spw_err(EINVAL,
						      "a number of %u bits never reaches "
						      "the next object",
						      bits));
	if (rc == 0 && bits < 48 && !SPW_IS_POW2(per))
		rc = desc_fail(
			&e->b->per_at,
			spw_err(EINVAL,
				"%llu does not divide 2^%u, where the number wraps and would "
				"cut an object; a power of 2, or a wider number",
				(unsigned long long)per, bits));
	/* Else the number has 48 bits or more, and its key counts as one of 64. */
	if (SPW_IS_POW2(per))
		plan->key_bits = bits - spw_log2_floor64(per);
	step = desc_step_emit(e, PLAN_OP_key_per);
	step->reg = plain ? (uint8_t)e->b->number.term[0].reg : PLAN_REG_ZERO;
	step->a = per;
	step->b = plan_inverse(per);
	/* The sender starts again at 0 before its field wraps; a larger key is refused. */
	if (e->b->wrap) {
		plan->key_bits = spw_log2_floor64(e->b->wrap);
		desc_step_emit(e, PLAN_OP_key_wrap)->off = plan->key_bits;
	}
	return rc;
}

/* The first field is shifted by 0, since the key is 0 before it. */
static void label_emit(struct emit *e)
{
	for (uint32_t i = 0; i < e->b->label_cnt; i++) {
		const struct desc_field *field = &e->b->field[e->b->label[i]];
		struct spw_obj_step *step = desc_step_emit(e, PLAN_OP_key_cat);

		step->off = i ? field->bits : 0;
		step->reg = field->reg;
	}
	e->plan->key_label = true;
}

/* per, wrap and align compute with a number; a label is bits. */
int desc_key_emit(struct emit *e)
{
	const struct desc_build *b = e->b;

	if (!b->number.cnt == !b->label_cnt)
		return desc_fail(&b->at, spw_err(EINVAL, "either number or label says which object "
							 "a frame belongs to"));
	if (b->label_cnt && (b->per || b->wrap || e->plan->align_first))
		return desc_fail(&b->at, spw_err(EINVAL, "per, wrap and align are of a number"));
	if (b->label_cnt)
		label_emit(e);
	return b->label_cnt ? 0 : number_emit(e);
}
