/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Slots of a pool as the memory of peers, for mode=rc of mlx5/ and verbs/. A peer owns a fixed
 * range of slots while it is connected, so the whole range leaves the pool at set-up.
 *
 * The pool stays the owner of the slots' memory and of the balance (in_rx counts the range); it
 * only has none of them to hand out. Slots beyond the peers' ranges stay free, for messages that
 * this side starts.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/spw_err.h"
#include "port/rc_slots.h"

/* Takes everything and returns what is not wanted, because a pool hands out slots in no particular
 * order. -EBUSY, with the pool unchanged, if one of them was in use. */
int port_slots_take(struct spw_pool *pool, uint32_t first, uint32_t cnt)
{
	uint32_t got, back = 0, missing = cnt;
	uint32_t *slot = calloc(pool->slot_cnt, sizeof(*slot));

	if (!slot)
		return spw_err(ENOMEM, "no memory for a table of %u slots", pool->slot_cnt);
	got = spw_pool_get(pool, slot, pool->slot_cnt);
	for (uint32_t i = 0; i < got; i++)
		missing -= slot[i] - first < cnt;
	for (uint32_t i = 0; i < got; i++)
		if (missing || slot[i] - first >= cnt)
			slot[back++] = slot[i];
	spw_pool_put(pool, slot, back);
	free(slot);
	return missing ? spw_err(EBUSY,
				 "mode=rc needs %u slots of the pool for itself, but %u of them "
				 "are in use",
				 cnt, missing)
		       : 0;
}

void port_slots_give(struct spw_pool *pool, uint32_t first, uint32_t cnt)
{
	for (uint32_t slot = first; slot < first + cnt; slot++)
		spw_pool_put(pool, &slot, 1);
}

struct spw_peer_memory port_slots_memory(const struct spw_pool *pool, uint32_t first, uint32_t cnt,
					 uint32_t lkey)
{
	return (struct spw_peer_memory){.slot = spw_pool_slot_addr(pool, first),
					.slot_bytes = pool->slot_bytes,
					.slot_cnt = cnt,
					.lkey = lkey,
					.all = pool->base,
					.all_bytes = pool->slot_cnt * pool->slot_bytes};
}
