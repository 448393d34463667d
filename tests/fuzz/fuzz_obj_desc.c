/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Fuzzing descriptions of streams: any bytes as a file. What is accepted must be within its limits,
 * and its plan must hold on frames; a refusal must name a line. A file may end with a frame behind
 * a NUL byte, which YAML ends at for this target.
 */
#include <string.h>

#include "base/spw_err.h"
#include "fuzz_obj.h"
#include "obj/plan.h"
#include "obj/spw_obj_page.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static struct spw_obj_desc desc;
	const uint8_t *end = bytes ? memchr(data, '\0', bytes) : NULL;
	size_t text = end ? (size_t)(end - data) : bytes;
	uint8_t zeros[256] = {0};

	spw_err_clear();
	if (spw_obj_desc_load_text("fuzz.yaml", (const char *)data, text, &desc)) {
		fuzz_demand(strstr(spw_err_text(), ":") != NULL);
		return 0;
	}
	fuzz_demand(desc.plan.step_cnt <= SPW_OBJ_PLAN_STEP_MAX && desc.plan.object_bytes > 0);
	for (uint32_t i = 0; i < desc.plan.step_cnt; i++) {
		const struct spw_obj_step *step = &desc.plan.step[i];
		const uint32_t regs = step->op == PLAN_OP_ids    ? step->need
				      : step->op == PLAN_OP_zero ? step->off
								 : 1;

		fuzz_demand(step->reg + regs <= PLAN_REG_CNT);
		fuzz_demand(step->op != PLAN_OP_product || step->off < PLAN_REG_CNT);
	}
	fuzz_demand(desc.plan.granule == desc.rule.granule && desc.plan.granule > 0 &&
		    desc.plan.granule <= desc.plan.object_bytes);
	fuzz_demand(desc.plan.key_bits <= 64);
	fuzz_demand(desc.rule.open_max < desc.rule.buffers &&
		    desc.rule.buffers <= SPW_OBJ_BUFFER_MAX);
	fuzz_demand(desc.shape.ndim >= 1 && desc.shape.ndim <= SPW_OBJ_DIM_MAX);
	fuzz_demand(desc.shape.bytes * desc.rule.buffers <= 1ull << 40);
	fuzz_plan_run(&desc, zeros, sizeof(zeros), sizeof(zeros));
	if (end)
		fuzz_plan_run(&desc, end + 1, (uint32_t)(bytes - text - 1),
			      (uint32_t)(bytes - text - 1));
	return 0;
}
