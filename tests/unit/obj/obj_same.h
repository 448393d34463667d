/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Whether a frame means the same with a memo and without: what holds for every frame and memo.
 */
#ifndef OBJ_SAME_H
#define OBJ_SAME_H

#include <string.h>

#include "obj/plan.h"

static inline bool obj_hit_same(const struct spw_obj_hit *a, const struct spw_obj_hit *b)
{
	bool same = a->key == b->key && a->part == b->part && a->size == b->size &&
		    a->flags == b->flags && a->piece_cnt == b->piece_cnt;

	for (uint32_t i = 0; same && i < a->piece_cnt; i++)
		same = a->piece[i].pos == b->piece[i].pos && a->piece[i].skip == b->piece[i].skip &&
		       a->piece[i].len == b->piece[i].len;
	return same;
}

static inline bool obj_plan_same(const struct spw_obj_plan *plan, struct plan_memo *memo,
				 const uint8_t *frame, uint32_t head, uint32_t len)
{
	struct spw_obj_hit hit, want;
	enum spw_obj_miss miss = spw_obj_plan_run(plan, frame, head, len, &want);

	return plan_path_run(plan, memo, frame, head, len, &hit) == miss &&
	       (miss != SPW_OBJ_MISS_none || obj_hit_same(&hit, &want));
}

#endif
