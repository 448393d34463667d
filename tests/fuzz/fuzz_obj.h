/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What holds for whatever a plan finds in any frame: fuzz_obj_desc and fuzz_obj_plan demand it.
 */
#ifndef FUZZ_OBJ_H
#define FUZZ_OBJ_H

#include <stdlib.h>

#include "obj/plan.h"

static inline void fuzz_demand(bool holds)
{
	if (!holds)
		abort();
}

/* Whether another frame may say where the object ends, and a piece may be short there. */
static inline bool fuzz_plan_is_short(const struct spw_obj_plan *plan)
{
	for (uint32_t i = 0; i < plan->step_cnt; i++)
		if (plan->step[i].op == PLAN_OP_piece && plan->step[i].need == PLAN_PIECE_SHORT)
			return true;
	return false;
}

/* Pieces lie within the frame and the object, and are made of granules but for the object's end. */
static inline void fuzz_plan_run(const struct spw_obj_desc *desc, const uint8_t *frame,
				 uint32_t head, uint32_t len)
{
	const struct spw_obj_plan *plan = &desc->plan;
	struct spw_obj_hit hit;
	uint64_t limit;

	if (spw_obj_plan_run(plan, frame, head, len, &hit) != SPW_OBJ_MISS_none)
		return;
	fuzz_demand(hit.piece_cnt <= SPW_OBJ_PIECE_MAX && hit.size <= plan->object_bytes);
	fuzz_demand(plan->key_bits == 64 || hit.key >> plan->key_bits == 0);
	fuzz_demand(hit.piece_cnt || hit.flags & SPW_OBJ_INFO);
	limit = hit.flags & SPW_OBJ_SIZE ? hit.size : plan->object_bytes;
	for (uint32_t i = 0; i < hit.piece_cnt; i++) {
		const struct spw_obj_piece *piece = &hit.piece[i];

		fuzz_demand(piece->len && piece->pos <= limit && piece->len <= limit - piece->pos);
		fuzz_demand(piece->skip <= len && piece->len <= len - piece->skip);
		fuzz_demand(piece->pos % plan->granule == 0);
		fuzz_demand(piece->len % plan->granule == 0 || piece->pos + piece->len == limit ||
			    hit.flags & SPW_OBJ_END || fuzz_plan_is_short(plan));
	}
}

#endif
