/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What every unit test needs: cmocka with the headers it expects, and a random sequence that is the
 * same each time.
 */
#ifndef UNIT_TEST_H
#define UNIT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/spw_err.h"
#include "base/spw_types.h"

/* splitmix64 (Steele, Lea, Flood 2014) */
SPW_INLINE uint64_t unit_random(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15ull);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

/* Any number of significant bits is equally likely: finds the edges of ranges. bits 1 .. 64. */
SPW_INLINE uint64_t unit_random_log(uint64_t *state, uint32_t bits)
{
	return unit_random(state) >> (64 - 1 - unit_random(state) % bits);
}

#endif
