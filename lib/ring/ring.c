/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The only part of the index ring that is not inline: its set-up. All users of a queue between two
 * threads share this ring: port events (pipe to control), requests and answers of rdma/ctl.c,
 * frames to the capture writer.
 *
 * Positions run freely from 0 in 64 bits and are masked on use, so write_pos - read_pos is the fill
 * level, and full and empty need no spare entry. Each side has the mask on a line of its own,
 * beside its copy of the other side's position.
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
