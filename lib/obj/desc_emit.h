/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Private to lib/obj: a plan while it is made (desc_emit.c, desc_emit_key.c, desc_emit_sum.c).
 */
#ifndef OBJ_DESC_EMIT_H
#define OBJ_DESC_EMIT_H

#include "obj/desc.h"

struct emit {
	struct desc_build *b;
	struct spw_obj_plan *plan;
	uint32_t pending;          /* bytes of the header behind `at` */
	struct spw_obj_step spill; /* takes what is too much */
};

/* Purpose: the next step; one too many goes nowhere, and is counted. */
struct spw_obj_step *desc_step_emit(struct emit *e, enum plan_op op);

/* Purpose: whether all that a sum names has a value; its steps. known: the first register that has
 *          none yet. Errors: -EINVAL with the place. */
int desc_sum_check(const struct desc_sum *sum, enum plan_reg known);
int desc_sum_emit(struct emit *e, const struct desc_sum *sum, enum plan_reg known);

/* Purpose: whether it is one field, and nothing else. Pure. */
bool desc_sum_is_plain(const struct desc_sum *sum);

/* Purpose: the steps of the object's key. */
int desc_key_emit(struct emit *e);

#endif
