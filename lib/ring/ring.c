/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#include <errno.h>
#include <string.h>

#include "base/spw_err.h"
#include "ring/spw_ring.h"
#include "ring/spw_slotring.h"

#define RING_CNT_MAX   (1u << 31)
#define SLOT_CNT_MAX   (1u << 20)
#define SLOT_BYTES_MAX (1u << 20)

int spw_ring_init(struct spw_ring *ring, uint32_t entry_cnt)
{
	if (!SPW_IS_POW2(entry_cnt) || entry_cnt > RING_CNT_MAX)
		return spw_err(EINVAL, "ring of %u entries: a power of 2, 1 .. 2^31", entry_cnt);
	memset(ring, 0, sizeof(*ring));
	ring->producer.mask = entry_cnt - 1;
	ring->consumer.mask = entry_cnt - 1;
	return 0;
}

size_t spw_slotring_bytes(uint32_t slot_bytes, uint32_t slot_cnt)
{
	if (!SPW_IS_POW2(slot_cnt) || slot_cnt < 2 || slot_cnt > SLOT_CNT_MAX || slot_bytes == 0 ||
	    slot_bytes % SPW_CACHE_LINE || slot_bytes > SLOT_BYTES_MAX)
		return 0;
	return (size_t)slot_bytes * slot_cnt;
}

int spw_slotring_init(void *base, uint32_t slot_bytes, uint32_t slot_cnt,
                      struct spw_slotring *view_out)
{
	if (!spw_slotring_bytes(slot_bytes, slot_cnt) || (uintptr_t)base % SPW_CACHE_LINE)
		return spw_err(EINVAL,
		               "slot ring of %u slots of %u bytes: a power of 2, 2 .. 2^20; a "
		               "multiple of 64 up to "
		               "1 MiB; memory aligned to 64",
		               slot_cnt, slot_bytes);
	*view_out =
	        (struct spw_slotring){.base = base, .slot_bytes = slot_bytes, .mask = slot_cnt - 1};
	for (uint64_t pos = 0; pos < slot_cnt; pos++)
		spw_gpu_store_rel64((uint64_t *)(void *)spw_slot_addr(view_out, pos), pos);
	return 0;
}
