/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Bytes that only the right message has: a function of seed and position. Pure. Thread: any.
 */
#ifndef PERF_PATTERN_H
#define PERF_PATTERN_H

#include <string.h>

#include "base/spw_types.h"

#define PERF_PATTERN_ODD 0x9e3779b97f4a7c15ull

#ifdef __CUDACC__
#define PERF_PATTERN_HERE __host__ __device__ static inline /* kernels of GPU rows make it too */
#else
#define PERF_PATTERN_HERE SPW_INLINE
#endif

PERF_PATTERN_HERE uint64_t perf_pattern_word(uint64_t seed, uint64_t idx)
{
	uint64_t x = (seed + idx) * PERF_PATTERN_ODD;

	return x ^ x >> 29;
}

static inline void perf_pattern_fill(uint8_t *at, uint64_t bytes, uint64_t seed)
{
	for (uint64_t i = 0; i < bytes; i += 8) {
		uint64_t word = perf_pattern_word(seed, i / 8);

		memcpy(at + i, &word, SPW_MIN(bytes - i, 8ull));
	}
}

/* Returns: the first byte that differs; bytes: none does. */
static inline uint64_t perf_pattern_check(const uint8_t *at, uint64_t bytes, uint64_t seed)
{
	for (uint64_t i = 0; i < bytes; i += 8) {
		uint64_t word = perf_pattern_word(seed, i / 8);
		const uint8_t *want = (const uint8_t *)&word;

		if (!memcmp(at + i, want, SPW_MIN(bytes - i, 8ull)))
			continue;
		while (at[i] == *want) {
			i++;
			want++;
		}
		return i;
	}
	return bytes;
}

#endif
