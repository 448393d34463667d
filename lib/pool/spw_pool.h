/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Fixed slots in one region, named by u32 index. The free list is a last-in first-out stack in memory of its own:
 * nothing of ours lies inside a slot, and the slot handed out next is the one whose lines are still in cache.
 *
 * One pool belongs to one queue and so to one lcore: no atomics. The port driver takes slots to post them and puts
 * them back; everyone else borrows (port/spw_port.h). Conservation, checked at stop and sampled by telemetry:
 *   free + in port + in executor + in TX = slot_cnt.
 */
#ifndef SPW_POOL_H
#define SPW_POOL_H

#include "base/spw_order.h"
#include "base/spw_types.h"
#include "mem/spw_mem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sanitizer builds check each get and put: a slot put twice, a slot that is not of this pool, and under ASan every access to
 * a free slot. The first fault is logged and the program trapped. Other builds carry none of it. */
#if defined(__SANITIZE_ADDRESS__)
#define SPW_POOL_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SPW_POOL_ASAN 1
#endif
#endif
#if defined(SPW_POOL_ASAN) || defined(SPW_TSAN)
#define SPW_POOL_CHECK 1
#endif

struct spw_pool {
	uint8_t *base;            /* host address of slot 0 */
	size_t slot_bytes;        /* distance of two slots: payload room plus alignment */
	uint32_t slot_cnt;
	uint32_t free_cnt;        /* written by the owner; others sample it */
	uint32_t *free_slot;      /* stack of free_cnt indices */
	const struct spw_region *region;
	size_t region_offset;     /* of slot 0 within the region */
	uint8_t *slot_is_free;    /* debug aid of the sanitizer builds: one byte a slot; NULL otherwise */
};

/* Purpose: carves slot_cnt slots of slot_bytes from region, from offset on.
 * Shape:   slot_bytes any multiple of 64 from 64 B up to 64 MiB + headroom; offset a multiple of 64.
 * Owner:   the pool borrows the region, which outlives it. Thread: setup. Errors: -EINVAL, -ENOSPC (text says
 *          how many slots would fit), -ENOMEM. */
int spw_pool_init(struct spw_pool *pool, const struct spw_region *region, size_t offset, size_t slot_bytes,
		  uint32_t slot_cnt);

/* Purpose: frees the list. Returns: slots that were not free (leaked), 0 when all came home. Thread: setup. */
uint32_t spw_pool_fini(struct spw_pool *pool);

#ifdef SPW_POOL_CHECK
void spw_pool_check_get(struct spw_pool *pool, uint32_t *slot, uint32_t cnt);
void spw_pool_check_put(struct spw_pool *pool, const uint32_t *slot, uint32_t cnt);
#else
SPW_INLINE void spw_pool_check_get(struct spw_pool *pool SPW_UNUSED, uint32_t *slot SPW_UNUSED,
				   uint32_t cnt SPW_UNUSED)
{
}
SPW_INLINE void spw_pool_check_put(struct spw_pool *pool SPW_UNUSED, const uint32_t *slot SPW_UNUSED,
				   uint32_t cnt SPW_UNUSED)
{
}
#endif

/* Purpose: takes up to cnt slots. Returns: how many, 0 .. cnt. Thread: owner. */
SPW_INLINE uint32_t spw_pool_get(struct spw_pool *pool, uint32_t *slot_out, uint32_t cnt)
{
	uint32_t n = SPW_MIN(cnt, pool->free_cnt);
	const uint32_t *top = pool->free_slot + pool->free_cnt - n;

	for (uint32_t i = 0; i < n; i++)
		slot_out[i] = top[i];
	spw_pool_check_get(pool, slot_out, n);
	spw_thr_store_rlx(&pool->free_cnt, pool->free_cnt - n);
	return n;
}

/* Purpose: gives cnt slots back, in any order. They must have come from this pool and not be free. Thread: owner. */
SPW_INLINE void spw_pool_put(struct spw_pool *pool, const uint32_t *slot, uint32_t cnt)
{
	uint32_t *top = pool->free_slot + pool->free_cnt;

	spw_pool_check_put(pool, slot, cnt);
	for (uint32_t i = 0; i < cnt; i++)
		top[i] = slot[i];
	spw_thr_store_rlx(&pool->free_cnt, pool->free_cnt + cnt);
}

/* Thread: any. */
SPW_INLINE uint8_t *spw_pool_slot_addr(const struct spw_pool *pool, uint32_t slot)
{
	return pool->base + (size_t)slot * pool->slot_bytes;
}

#ifdef __cplusplus
}
#endif
#endif
