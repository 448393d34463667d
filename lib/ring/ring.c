/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The only part of the index ring that is not inline: its set-up.
 */
#include <errno.h>
#include <string.h>

#include "base/spw_err.h"
#include "ring/spw_ring.h"

#define ENTRY_CNT_MAX (1u << 31)

int spw_ring_init(struct spw_ring *ring, uint32_t entry_cnt)
{
	if (!SPW_IS_POW2(entry_cnt) || entry_cnt > ENTRY_CNT_MAX)
		return spw_err(EINVAL, "ring of %u entries: a power of 2, 1 .. 2^31", entry_cnt);
	memset(ring, 0, sizeof(*ring));
	ring->producer.mask = entry_cnt - 1;
	ring->consumer.mask = entry_cnt - 1;
	return 0;
}
