/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Bytes of a message that follow from its number, so that a receiver knows them.
 */
#ifndef XFER_NUMBERED_H
#define XFER_NUMBERED_H

#include <string.h>

#include "base/spw_types.h"

SPW_INLINE uint64_t numbered_word(uint64_t n, uint64_t i)
{
	return (n << 32 | i) * 0x9e3779b97f4a7c15ull;
}

SPW_INLINE void numbered_fill(uint8_t *at, uint64_t len, uint64_t n)
{
	for (uint64_t i = 0; i < len; i += 8) {
		const uint64_t word = numbered_word(n, i);

		memcpy(at + i, &word, SPW_MIN(len - i, (uint64_t)8));
	}
}

/* Returns: where the first wrong word begins; len: none is wrong. */
SPW_INLINE uint64_t numbered_wrong(const uint8_t *at, uint64_t len, uint64_t n)
{
	for (uint64_t i = 0; i < len; i += 8) {
		const uint64_t word = numbered_word(n, i);

		if (memcmp(at + i, &word, SPW_MIN(len - i, (uint64_t)8)))
			return i;
	}
	return len;
}

#endif
