/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Fuzzing plans with frames: the first byte chooses a shipped format, or a description that uses
 * every register; the rest is the frame.
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz_obj.h"
#include "obj/desc.h"
#include "obj_same.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* 31 fields of the header have registers, an item the last one, and seven ids have none. */
static const char full[] =
	"under: message\n"
	"header:\n"
	"- [cnt 8, a 8, b 8, c 8, d 8, e 8, f 8, g 8, h 8, i 8, j 8, k 8, l 8, m 8, n 8, o 8]\n"
	"- [p 8, q 8, r 8, s 8, t 8, u 8, v 8, w 8, x 8, y 8, z 8, aa 8, bb 8, cc 8, dd 8]\n"
	"- { when: { a: 1, b: 1, c: 1, d: 1, e: 1, f: 1, g: 1, h: 1 }, bytes: 1 }\n"
	"- { when: { i: 1, j: 1, k: 1, l: 1, m: 1, n: 1, o: 1, p: 1 }, bytes: 1 }\n"
	"- { when: { q: 1, r: 1, s: 1, t: 1, u: 1, v: 1, w: 1, x: 1 }, bytes: 1 }\n"
	"- { when: { y: 1, z: 1, aa: 1, bb: 1, cc: 1, dd: 1 }, bytes: 1 }\n"
	"items: { count: cnt, id: 16, fields: { item: 1 }, none: [2, 3, 4, 5, 6, 7, 8] }\n"
	"number: item\n"
	"place: 0\n"
	"wire: uint8\n"
	"shape: [64]\n";

/* A memo that has learned the frame reads it, and another one beside it, as the plan does. */
static void fuzz_path(const struct spw_obj_plan *plan, const uint8_t *data, uint32_t len)
{
	struct plan_memo memo = {0};
	uint8_t *frame = malloc(len);

	fuzz_demand(frame);
	memcpy(frame, data, len);
	for (uint32_t i = 0; i < 4; i++) {
		fuzz_demand(obj_plan_same(plan, &memo, frame, len, len));
		fuzz_demand(obj_plan_same(plan, &memo, data, len, len));
		frame[(data[0] + 7u * data[len / 2] + i) % len] ^=
			(uint8_t)(1u << data[len - 1] % 8);
	}
	free(frame);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static struct spw_obj_desc desc[16];
	const char *name, *text;
	size_t text_bytes;
	uint32_t idx, len;

	if (bytes == 0)
		return 0;
	len = (uint32_t)(bytes - 1);
	idx = data[0] % (format_cnt() + 1);
	if (desc[idx].shape.ndim == 0) {
		name = idx < format_cnt() ? format_name(idx, NULL) : "full";
		text_bytes = sizeof(full) - 1;
		text = idx < format_cnt() ? format_text(name, &text_bytes) : full;
		fuzz_demand(format_cnt() < SPW_ARRAY_CNT(desc) &&
			    spw_obj_desc_load_text(name, text, text_bytes, &desc[idx]) == 0);
	}
	if (desc[idx].plan.align_first && bytes & 1)
		spw_obj_plan_align(&desc[idx].plan, data + 1, len, len);
	fuzz_plan_run(&desc[idx], data + 1, len, len);
	if (len > 1) { /* split, with no byte behind the head, so that a sanitizer finds a read */
		uint8_t *head = malloc(len / 2);

		fuzz_demand(head);
		memcpy(head, data + 1, len / 2);
		fuzz_plan_run(&desc[idx], head, len / 2, len);
		free(head);
		fuzz_path(&desc[idx].plan, data + 1, len);
	}
	return 0;
}
