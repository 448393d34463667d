/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The CUDA calls of a build without CUDA: there is no GPU, and mem_choose refuses what needs one.
 *
 * mem_choose has already refused every kind but host with this reason, so the functions below are
 * not reached; they exist for the linker.
 */
#include <errno.h>
#include <stdio.h>

#include "base/spw_err.h"
#include "mem/mem_impl.h"

#define NO_CUDA "this build has no CUDA"

void mem_gpu_probe(struct mem_gpu *gpu_out)
{
	*gpu_out = (struct mem_gpu){.why_not = NO_CUDA};
}

int mem_cuda_host_alloc(size_t bytes SPW_UNUSED, int numa_node SPW_UNUSED,
			struct spw_region *region SPW_UNUSED)
{
	return spw_err(ENOTSUP, NO_CUDA);
}

int mem_cuda_register(struct spw_region *region SPW_UNUSED)
{
	return spw_err(ENOTSUP, NO_CUDA);
}

int mem_cuda_gpu_alloc(size_t bytes SPW_UNUSED, struct spw_region *region SPW_UNUSED)
{
	return spw_err(ENOTSUP, NO_CUDA);
}

void mem_cuda_gpu_free(struct spw_region *region SPW_UNUSED) {}

void mem_cuda_free(struct spw_region *region SPW_UNUSED) {}

void mem_cuda_unregister(struct spw_region *region SPW_UNUSED) {}
