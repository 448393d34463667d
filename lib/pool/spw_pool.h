/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Fixed slots in one region, named by a u32 index. The free list is a stack in memory of its own:
 * no data of the pool lies inside a slot, and the slot handed out next is the one returned last,
 * whose lines are still in cache.
 *
 *   a slot's life       pool --get--> port: posted to the NIC --> lent: executor --> verdict
 *                        ^                                                            |
 *                        +---- put by the port: recycled, or after the echo was sent -+
 *
 * One pool belongs to one queue and so to one lcore: no atomics. Only the port driver gets and puts
 * slots; all others borrow them (port/spw_port.h). Slots are conserved, which is sampled by
 * telemetry and checked at stop: free + in port + in executor + in TX = slot_cnt.
 *
 * A pool can be split: the first head_bytes bytes of each frame then lie in another region, where
 * the CPU can read them, and the slot, in whatever memory, has the rest in its place:
 *
 *   heads   | head of slot 0 | head of slot 1 | ...      head_stride apart
 *   slots   | not written    | the frame from byte head_bytes on | not written ...
 *           ^ slot_addr      ^ slot_addr + head_bytes
 *
 * So byte k of a frame is k bytes behind its head for k < head_bytes, and k bytes behind the
 * start of its slot for any other k. A frame of up to head_bytes bytes leaves the slot untouched.
 */
#ifndef SPW_POOL_H
#define SPW_POOL_H

#include "base/spw_order.h"
#include "base/spw_types.h"
#include "mem/spw_mem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sanitizer builds check each get and put: a slot put twice, a slot of another pool and, under
 * ASan, every access to a free slot. The first fault is logged and traps. Other builds have none of
 * it. */
#if defined(__SANITIZE_ADDRESS__)
#define SPW_POOL_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SPW_POOL_ASAN 1
#endif
#endif
#if defined(SPW_POOL_ASAN) || defined(SPW_TSAN)
#define SPW_POOL_CHECK 1
#else
#define SPW_POOL_CHECK 0
#endif

struct spw_pool {
	uint8_t *base;     /* host address of slot 0 */
	size_t slot_bytes; /* from one slot to the next: payload room and alignment */
	uint32_t slot_cnt;
	uint32_t free_cnt;   /* written by the owner; others sample it */
	uint32_t *free_slot; /* stack of free_cnt indices */
	const struct spw_region *region;
	size_t region_offset; /* of slot 0 within the region */
	uint8_t *head;        /* of slot 0; not split: base, all bytes of a slot, region */
	size_t head_stride;
	uint32_t head_bytes;
	const struct spw_region *head_region;
	size_t head_offset;    /* of head 0 within head_region */
	uint8_t *slot_is_free; /* sanitizer builds: a byte for each slot; else NULL */
};

/* Purpose: divides a part of region, from offset on, into slot_cnt slots; all are free.
 * Shape: slot_bytes a multiple of 64, up to 64 MiB + headroom; offset a multiple of 64.
 * Owner: the caller, until spw_pool_fini; the region must outlive the pool.
 * Thread: setup.
 * Errors: -EINVAL; -ENOSPC (the text has the number of slots that fit); -ENOMEM.
 */
int spw_pool_init(struct spw_pool *pool, const struct spw_region *region, size_t offset,
		  size_t slot_bytes, uint32_t slot_cnt);

/* Purpose: splits a pool: the heads of its slots lie in region, from offset on.
 * Shape: head_bytes at least 1 and below slot_bytes; offset a multiple of 64; spw_pool_head_stride
 *        bytes for each slot. The CPU can read the region.
 * Owner: the region must outlive the pool.
 * Thread: setup, before a port gets the pool.
 * Errors: -EINVAL; -ENOSPC.
 */
int spw_pool_split(struct spw_pool *pool, const struct spw_region *region, size_t offset,
		   uint32_t head_bytes);

/* Returns: bytes from one head to the next: whole cache lines. Thread: any. */
SPW_INLINE size_t spw_pool_head_stride(uint32_t head_bytes)
{
	return SPW_ALIGN_UP((size_t)head_bytes, (size_t)SPW_CACHE_LINE);
}

/* Purpose: frees the free list.
 * Returns: slots that were not returned (leaked); 0 is the only good result.
 * Thread: setup.
 */
uint32_t spw_pool_fini(struct spw_pool *pool);

/* Private: the checks of sanitizer builds; other builds do not have them.
 * Thread: owner. Traps at the first fault. */
void spw_pool_check_get(struct spw_pool *pool, uint32_t *slot, uint32_t cnt);
void spw_pool_check_put(struct spw_pool *pool, const uint32_t *slot, uint32_t cnt);

/* Purpose: takes up to cnt slots.
 * Returns: how many, 0 .. cnt; fewer than cnt only if the pool is empty.
 * Thread: owner.
 */
SPW_INLINE uint32_t spw_pool_get(struct spw_pool *pool, uint32_t *slot_out, uint32_t cnt)
{
	uint32_t n = SPW_MIN(cnt, pool->free_cnt);
	const uint32_t *top = pool->free_slot + pool->free_cnt - n;

	for (uint32_t i = 0; i < n; i++)
		slot_out[i] = top[i];
	if (SPW_POOL_CHECK)
		spw_pool_check_get(pool, slot_out, n);
	spw_thr_store_rlx(&pool->free_cnt, pool->free_cnt - n);
	return n;
}

/* Purpose: returns cnt slots.
 * Shape: slots of this pool that are not free, in any order.
 * Thread: owner.
 */
SPW_INLINE void spw_pool_put(struct spw_pool *pool, const uint32_t *slot, uint32_t cnt)
{
	uint32_t *top = pool->free_slot + pool->free_cnt;

	if (SPW_POOL_CHECK)
		spw_pool_check_put(pool, slot, cnt);
	for (uint32_t i = 0; i < cnt; i++)
		top[i] = slot[i];
	spw_thr_store_rlx(&pool->free_cnt, pool->free_cnt + cnt);
}

/* Purpose: the host address of a slot; for SPW_MEM_GPU its device address.
 * Shape: slot below slot_cnt.
 * Thread: any.
 */
SPW_INLINE uint8_t *spw_pool_slot_addr(const struct spw_pool *pool, uint32_t slot)
{
	return pool->base + (size_t)slot * pool->slot_bytes;
}

/* Purpose: where the CPU reads a frame's first head_bytes bytes; not split: the slot's address.
 * Shape: slot below slot_cnt.
 * Thread: any.
 */
SPW_INLINE uint8_t *spw_pool_head_addr(const struct spw_pool *pool, uint32_t slot)
{
	return pool->head + (size_t)slot * pool->head_stride;
}

/* Returns: whether spw_pool_split was called. Thread: any. */
SPW_INLINE bool spw_pool_is_split(const struct spw_pool *pool)
{
	return pool->head != pool->base;
}

#ifdef __cplusplus
}
#endif
#endif
