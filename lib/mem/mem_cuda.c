/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Memory that a GPU can read, through the CUDA runtime (linked statically).
 */
#include <cuda_runtime_api.h>
#include <errno.h>
#include <numa.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "mem/mem_impl.h"
#include "plat/spw_plat.h"

/* What the GPU can do stands in lib/plat; here is only what is made of it. */
void mem_gpu_probe(struct mem_gpu *gpu_out)
{
	struct spw_plat_gpu gpu;

	*gpu_out = (struct mem_gpu){.usable = spw_plat_gpu_read(0, &gpu) == 0};
	if (!gpu_out->usable) {
		snprintf(gpu_out->why_not, sizeof(gpu_out->why_not), "%s", spw_err_text());
		return;
	}
	gpu_out->integrated = gpu.attr[SPW_PLAT_GPU_INTEGRATED] > 0;
	gpu_out->host_register = gpu.attr[SPW_PLAT_GPU_HOST_REGISTER_SUPPORTED] > 0;
	gpu_out->pageable_access = gpu.attr[SPW_PLAT_GPU_PAGEABLE_MEMORY_ACCESS] > 0;
	snprintf(gpu_out->name, sizeof(gpu_out->name), "%.63s", gpu.name);
}

static int cuda_err(cudaError_t rc, const char *call)
{
	return spw_err(rc == cudaErrorMemoryAllocation ? ENOMEM : EIO, "%s: %s", call, cudaGetErrorString(rc));
}

static int map_device(struct spw_region *region)
{
	void *dev = NULL;
	cudaError_t rc = cudaHostGetDevicePointer(&dev, region->host_va, 0);

	if (rc != cudaSuccess)
		return cuda_err(rc, "cudaHostGetDevicePointer");
	region->dev_va = (uint64_t)(uintptr_t)dev;
	return 0;
}

int mem_cuda_host_alloc(size_t bytes, int numa_node, struct spw_region *region)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	bool placed = numa_node >= 0 && numa_available() >= 0 && numa_node <= numa_max_node();
	void *va = NULL;
	cudaError_t rc;
	int err = mem_check_room(bytes);

	if (err)
		return err;
	if (placed)
		numa_set_preferred(numa_node); /* the driver allocates under the caller's policy */
	rc = cudaHostAlloc(&va, SPW_ALIGN_UP(bytes, page), cudaHostAllocMapped | cudaHostAllocPortable);
	if (placed)
		numa_set_localalloc();
	if (rc != cudaSuccess)
		return cuda_err(rc, "cudaHostAlloc");
	region->host_va = va;
	region->bytes = SPW_ALIGN_UP(bytes, page);
	region->page_bytes = page;
	region->numa_node = placed ? numa_node : -1;
	memset(va, 0, region->bytes);
	err = map_device(region);
	if (err)
		cudaFreeHost(va);
	return err;
}

int mem_cuda_register(struct spw_region *region)
{
	cudaError_t rc = cudaHostRegister(region->host_va, region->bytes,
					  cudaHostRegisterMapped | cudaHostRegisterPortable);
	int err;

	if (rc != cudaSuccess)
		return cuda_err(rc, "cudaHostRegister");
	err = map_device(region);
	if (err)
		cudaHostUnregister(region->host_va);
	return err;
}

void mem_cuda_free(struct spw_region *region)
{
	cudaError_t rc = cudaFreeHost(region->host_va);

	if (rc != cudaSuccess)
		spw_warn("memory: cudaFreeHost: %s", cudaGetErrorString(rc));
}

void mem_cuda_unregister(struct spw_region *region)
{
	cudaError_t rc = cudaHostUnregister(region->host_va);

	if (rc != cudaSuccess)
		spw_warn("memory: cudaHostUnregister: %s", cudaGetErrorString(rc));
}
