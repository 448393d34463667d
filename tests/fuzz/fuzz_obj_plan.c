/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Fuzzing plans with frames: the first byte chooses a shipped format, the rest is the frame.
 */
#include "fuzz_obj.h"
#include "obj/desc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static struct spw_obj_desc desc[16];
	const char *name, *text;
	size_t text_bytes;
	uint32_t idx;

	if (bytes == 0)
		return 0;
	idx = data[0] % format_cnt();
	if (desc[idx].shape.ndim == 0) {
		name = format_name(idx, NULL);
		text = format_text(name, &text_bytes);
		fuzz_demand(format_cnt() <= SPW_ARRAY_CNT(desc) &&
			    spw_obj_desc_load_text(name, text, text_bytes, &desc[idx]) == 0);
	}
	if (desc[idx].plan.align_first && bytes & 1)
		spw_obj_plan_align(&desc[idx].plan, data + 1, (uint32_t)(bytes - 1));
	fuzz_plan_run(&desc[idx], data + 1, (uint32_t)(bytes - 1));
	return 0;
}
