/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Private to lib/obj: a plan while it is made (desc_emit.c; desc_emit_key.c).
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

/* Purpose: the steps of a sum. known: the first register that has no value yet. */
int desc_sum_emit(struct emit *e, const struct desc_sum *sum, enum plan_reg known);

/* Purpose: the steps of the object's key. */
int desc_key_emit(struct emit *e);

#endif
