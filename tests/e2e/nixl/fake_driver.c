/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * libcuda.so.1 of a machine with a GPU, as far as the plugin asks it: what an address is, and a
 * dma-buf of a range. The test names the ranges by fake_range; all others are unknown, as memory is
 * that CUDA has not seen.
 */
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include "fake_driver.h"

#define INVALID_VALUE 1
#define NOT_SUPPORTED 801

int cuInit(unsigned int flags);
int cuPointerGetAttribute(void *value, int what, uint64_t at);
int cuMemGetHandleForAddressRange(void *fd, uint64_t at, size_t bytes, int type, uint64_t flags);

struct fake_range fake_ranges[FAKE_RANGES];

int cuInit(unsigned int flags)
{
	return (int)flags;
}

static const struct fake_range *range_of(uint64_t at)
{
	for (const struct fake_range *r = fake_ranges; r < fake_ranges + FAKE_RANGES; r++)
		if (at >= r->at && at - r->at < r->bytes)
			return r;
	return NULL;
}

/* CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED. */
int cuPointerGetAttribute(void *value, int what, uint64_t at)
{
	const struct fake_range *r = range_of(at);

	if (!r || (what != 2 && what != 8))
		return INVALID_VALUE;
	*(unsigned int *)value = what == 2 ? r->type : r->managed;
	return 0;
}

/* As the driver does, whole pages of one allocation only; these here begin where that does. */
int cuMemGetHandleForAddressRange(void *fd, uint64_t at, size_t bytes, int type, uint64_t flags)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	const struct fake_range *r = range_of(at);

	if (!r || type != 1 || flags || at % page || bytes % page || at != r->at ||
	    bytes > r->bytes)
		return INVALID_VALUE;
	if (r->dmabuf < 0)
		return NOT_SUPPORTED;
	*(int *)fd = dup(r->dmabuf);
	return 0;
}
