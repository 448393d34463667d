/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 */
#include "numbers.h"

#include <stdlib.h>
#include <string.h>

#include "../../unit/unit_test.h"
#include "coll/spw_coll_reduce.h"

void numbers_fill(void *at, uint64_t count, enum spw_coll_type type, uint32_t rank, uint64_t round)
{
	uint64_t seed = round * SPW_COLL_RANK_MAX + rank;

	for (uint64_t i = 0; i < count; i++) {
		const uint64_t v = unit_random(&seed);
		/* any bits in one of 16; else a number of modest size, whose sums round */
		const uint32_t bits = v >> 60 ? 0x3d000000u + (uint32_t)(v & 0x83ffffffu)
					      : (uint32_t)v;
		const uint16_t half = type == SPW_COLL_F16
					      ? spw_coll_f16_of_f32(spw_coll_f32_of(bits))
					      : (uint16_t)(bits >> 16);

		if (type == SPW_COLL_F32)
			memcpy((uint8_t *)at + 4 * i, &bits, sizeof(bits));
		else
			memcpy((uint8_t *)at + 2 * i, &half, sizeof(half));
	}
}

static float get(const uint8_t *at, uint64_t i, enum spw_coll_type type)
{
	uint32_t w[4] = {0};

	memcpy(w, at + i * spw_coll_type_bytes(type), spw_coll_type_bytes(type));
	return spw_coll_cell_get(w, 0, type);
}

/* In the order of ranks; the arithmetic of one element is judged by tests/unit/coll. */
void numbers_reference(const struct spw_coll_call *call, uint32_t rank_cnt, uint64_t round,
		       uint8_t *out)
{
	const uint32_t size = spw_coll_type_bytes(call->type);
	float *acc = calloc(call->count + 1, sizeof(*acc));
	uint8_t *one = malloc(call->count * size + 1);

	for (uint32_t r = 0; r < rank_cnt; r++) {
		if (call->kind == SPW_COLL_ALL_GATHER) {
			numbers_fill(out + r * call->count * size, call->count, call->type, r,
				     round);
			continue;
		}
		numbers_fill(one, call->count, call->type, r, round);
		for (uint64_t i = 0; i < call->count; i++) {
			const float v = get(one, i, call->type);

			acc[i] = r ? spw_coll_combine(acc[i], v, call->op) : v;
		}
	}
	for (uint64_t i = 0; i < call->count && call->kind == SPW_COLL_ALL_REDUCE; i++) {
		const uint32_t word = spw_coll_elem_of(acc[i], call->type);

		memcpy(out + i * size, &word, size);
	}
	free(acc);
	free(one);
}
