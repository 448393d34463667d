/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A frame's way: the plan reads where its payload belongs (plan.c), the window decides what becomes
 * of it (window.c).
 */
#include "obj/window.h"

struct spw_obj_placed spw_obj_frame(struct spw_obj *obj, const uint8_t *frame, uint32_t head,
				    uint32_t len, uint64_t nic_ns, struct spw_move *move_out)
{
	static const uint8_t fate_of[] = {[SPW_OBJ_MISS_not_object] = SPW_OBJ_FATE_not_object,
					  [SPW_OBJ_MISS_cut] = SPW_OBJ_FATE_cut,
					  [SPW_OBJ_MISS_beyond] = SPW_OBJ_FATE_beyond};
	enum spw_obj_miss miss = SPW_OBJ_MISS_beyond;
	struct spw_obj_placed placed = {0};
	struct spw_obj_hit hit;

	/* Where objects begin is the plan's, and the window knows when that is to be found out
	 * anew: at the begin, and when the sender begins again. */
	if (spw_unlikely(obj->unaligned))
		obj->unaligned = !spw_obj_plan_align(&obj->desc.plan, frame, head, len);
	if (spw_likely(len <= SPW_MOVE_LEN_MAX)) /* what a move can name */
		miss = spw_obj_plan_run(&obj->desc.plan, frame, head, len, &hit);
	if (spw_likely(miss == SPW_OBJ_MISS_none))
		placed.fate = obj_window_hit(obj, &hit, nic_ns, move_out, &placed.move_cnt);
	else
		placed.fate = window_count(obj, (enum spw_obj_fate)fate_of[miss]);
	return placed;
}
