/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Replaces lib/softhca/kernel/umem.c: the fuzzed application has no memory but the arena. Any other
 * address could be in the fuzzer's own heap, which a guess would hit sooner or later.
 */
#include <errno.h>
#include <string.h>

#include "fuzz_arena.h"
#include "softhca/kernel/ctl.h"

static bool inside(uint64_t at, uint64_t len)
{
	const uint64_t off = at - (uint64_t)(uintptr_t)FUZZ_ARENA;

	return off <= FUZZ_ARENA_BYTES && len <= FUZZ_ARENA_BYTES - off;
}

int hca_umem_check(uint64_t addr, uint64_t len, bool write)
{
	(void)write;
	return inside(addr, len) ? 0 : -EFAULT;
}

int hca_umem_read(void *dst, uint64_t src, size_t len)
{
	if (!len)
		return 0;
	if (!inside(src, len))
		return -EFAULT;
	memcpy(dst, (const void *)(uintptr_t)src, len);
	return 0;
}

int hca_umem_write(uint64_t dst, const void *src, size_t len)
{
	if (!len)
		return 0;
	if (!inside(dst, len))
		return -EFAULT;
	memmove((void *)(uintptr_t)dst, src, len);
	return 0;
}
