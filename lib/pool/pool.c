/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Set-up and tear-down of a pool, and the checks of sanitizer builds. Get and put are inline in
 * spw_pool.h.
 *
 * What a sanitizer build adds, per slot:
 *
 *              free                         taken
 *   flag       slot_is_free 1               0          a double put or get traps (ASan, TSan)
 *   memory     poisoned                     open       any access to a free slot traps (ASan)
 *
 * The NIC's writes are not checked: a sanitizer instruments loads and stores of this program only.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#if defined(__SANITIZE_ADDRESS__) || defined(__clang__)
#include <sanitizer/asan_interface.h>
#endif

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "pool/spw_pool.h"

#define SLOT_ALIGN 64u
/* The longest RDMA message, with any driver's headroom. */
#define SLOT_BYTES_MAX ((64ul << 20) + (64ul << 10))

/* The divisions are written so that nothing overflows: the numbers come from the user's
 * configuration. */
static int pool_check_shape(const struct spw_region *region, size_t offset, size_t slot_bytes,
			    uint32_t slot_cnt)
{
	if (slot_bytes == 0 || slot_bytes % SLOT_ALIGN || slot_bytes > SLOT_BYTES_MAX)
		return spw_err(EINVAL, "pool: slots of %zu bytes: use a multiple of %u up to %lu",
			       slot_bytes, SLOT_ALIGN, SLOT_BYTES_MAX);
	if (slot_cnt == 0)
		return spw_err(EINVAL, "pool: 0 slots were asked for");
	if (offset % SLOT_ALIGN || offset > region->bytes)
		return spw_err(
			EINVAL,
			"pool: offset %zu: use a multiple of %u within the region's %zu bytes",
			offset, SLOT_ALIGN, region->bytes);
	if (slot_cnt > (region->bytes - offset) / slot_bytes)
		return spw_err(
			ENOSPC,
			"pool: %u slots of %zu bytes do not fit: the region has room for %zu",
			slot_cnt, slot_bytes, (region->bytes - offset) / slot_bytes);
	return 0;
}

#ifdef SPW_POOL_ASAN
#define slot_poison(pool, slot) \
	ASAN_POISON_MEMORY_REGION(spw_pool_slot_addr(pool, slot), (pool)->slot_bytes)
#define slot_unpoison(pool, slot) \
	ASAN_UNPOISON_MEMORY_REGION(spw_pool_slot_addr(pool, slot), (pool)->slot_bytes)
#else
#define slot_poison(pool, slot)   ((void)0)
#define slot_unpoison(pool, slot) ((void)0)
#endif

#if SPW_POOL_CHECK
/* A trap, not a return: the pool's list is wrong already, and the stack of the caller that broke
 * the rule is what a developer needs. */
static SPW_COLD void pool_fault(const struct spw_pool *pool, uint32_t slot, const char *what)
{
	spw_log(SPW_LOG_ERROR, "pool: slot %u of %u: %s", slot, pool->slot_cnt, what);
	__builtin_trap();
}

void spw_pool_check_get(struct spw_pool *pool, uint32_t *slot, uint32_t cnt)
{
	for (uint32_t i = 0; i < cnt; i++) {
		if (!pool->slot_is_free[slot[i]])
			pool_fault(pool, slot[i], "on the free list, but in use");
		pool->slot_is_free[slot[i]] = 0;
		slot_unpoison(pool, slot[i]);
	}
}

void spw_pool_check_put(struct spw_pool *pool, const uint32_t *slot, uint32_t cnt)
{
	for (uint32_t i = 0; i < cnt; i++) {
		if (slot[i] >= pool->slot_cnt)
			pool_fault(pool, slot[i], "put, but not of this pool");
		if (pool->slot_is_free[slot[i]])
			pool_fault(pool, slot[i], "put twice");
		pool->slot_is_free[slot[i]] = 1;
		slot_poison(pool, slot[i]);
	}
}

static void pool_check_open(struct spw_pool *pool)
{
	memset(pool->slot_is_free, 1, pool->slot_cnt);
	for (uint32_t i = 0; i < pool->slot_cnt; i++)
		slot_poison(pool, i);
}

/* The region outlives the pool: its memory may be used for another one. */
static void pool_check_close(struct spw_pool *pool)
{
	for (uint32_t i = 0; i < pool->slot_cnt; i++)
		slot_unpoison(pool, i);
}
#else
static void pool_check_open(struct spw_pool *pool SPW_UNUSED) {}

static void pool_check_close(struct spw_pool *pool SPW_UNUSED) {}
#endif

/* *pool is zeroed in any case, so spw_pool_fini may follow a failure. A region without a host
 * address (GPU memory) gives slots whose addresses are for the NIC and the device only. */
int spw_pool_init(struct spw_pool *pool, const struct spw_region *region, size_t offset,
		  size_t slot_bytes, uint32_t slot_cnt)
{
	int rc = pool_check_shape(region, offset, slot_bytes, slot_cnt);

	memset(pool, 0, sizeof(*pool));
	if (rc)
		return rc;
	pool->free_slot = aligned_alloc(SPW_CACHE_LINE,
					SPW_ALIGN_UP((size_t)slot_cnt * 4, (size_t)SPW_CACHE_LINE));
	if (!pool->free_slot)
		return spw_err(ENOMEM, "pool: no memory for the list of %u slots", slot_cnt);
#if SPW_POOL_CHECK
	pool->slot_is_free = malloc(slot_cnt);
	if (!pool->slot_is_free) {
		free(pool->free_slot);
		return spw_err(ENOMEM, "pool: no memory to check %u slots", slot_cnt);
	}
#endif
	pool->base =
		(region->host_va ? region->host_va : (uint8_t *)(uintptr_t)region->dev_va) + offset;
	pool->slot_bytes = slot_bytes;
	pool->slot_cnt = slot_cnt;
	pool->free_cnt = slot_cnt;
	pool->region = region;
	pool->region_offset = offset;
	pool->head = pool->base;
	pool->head_stride = slot_bytes;
	pool->head_bytes = (uint32_t)slot_bytes;
	pool->head_region = region;
	pool->head_offset = offset;
	for (uint32_t i = 0; i < slot_cnt; i++)
		pool->free_slot[i] = slot_cnt - 1 - i; /* so that slot 0 is lent first */
	pool_check_open(pool);
	return 0;
}

int spw_pool_split(struct spw_pool *pool, const struct spw_region *region, size_t offset,
		   uint32_t head_bytes)
{
	const size_t stride = spw_pool_head_stride(head_bytes);

	if (!spw_in_1_to(head_bytes, (uint32_t)pool->slot_bytes - 1))
		return spw_err(EINVAL, "pool: heads of %u bytes: use 1 .. %zu, less than a slot",
			       head_bytes, pool->slot_bytes - 1);
	if (!region->host_va || offset % SLOT_ALIGN || offset > region->bytes)
		return spw_err(EINVAL,
			       "pool: heads at offset %zu: use a multiple of %u within memory "
			       "that the CPU reads",
			       offset, SLOT_ALIGN);
	if (pool->slot_cnt > (region->bytes - offset) / stride)
		return spw_err(ENOSPC,
			       "pool: %u heads of %zu bytes do not fit: there is room "
			       "for %zu",
			       pool->slot_cnt, stride, (region->bytes - offset) / stride);
	pool->head = region->host_va + offset;
	pool->head_stride = stride;
	pool->head_bytes = head_bytes;
	pool->head_region = region;
	pool->head_offset = offset;
	return 0;
}

/* Slots that are missing are counted, not searched: whoever has them must not use them any more. */
uint32_t spw_pool_fini(struct spw_pool *pool)
{
	uint32_t leaked = pool->slot_cnt - pool->free_cnt;

	pool_check_close(pool);
	free(pool->free_slot);
	free(pool->slot_is_free);
	memset(pool, 0, sizeof(*pool));
	return leaked;
}
