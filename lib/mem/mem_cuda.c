/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Memory that a GPU can read, allocated by the CUDA runtime. It is part of the CUDA module; mem.c
 * calls it through spw_mem_cuda_ops.
 *
 * Sources: CUDA runtime API (cudaHostAlloc, cudaHostRegister), CUDA driver API
 * (cuMemGetHandleForAddressRange).
 */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <errno.h>
#include <numa.h>
#include <string.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "mem/mem_impl.h"

static int mem_cuda_err(cudaError_t rc, const char *call)
{
	return spw_err(rc == cudaErrorMemoryAllocation ? ENOMEM : EIO, "%s: %s", call,
		       cudaGetErrorString(rc));
}

/* The kernel's address of mapped host memory; the same as the host's where addresses are unified.
 */
static int mem_cuda_map_device(struct spw_region *region)
{
	void *dev = NULL;
	cudaError_t rc = cudaHostGetDevicePointer(&dev, region->host_va, 0);

	if (rc != cudaSuccess)
		return mem_cuda_err(rc, "cudaHostGetDevicePointer");
	region->dev_va = (uint64_t)(uintptr_t)dev;
	return 0;
}

/* Zeroed, as all regions are. CUDA pins the pages, which are of the smallest size. */
static int mem_cuda_host_alloc(size_t bytes, int numa_node, struct spw_region *region)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	bool placed = numa_node >= 0 && numa_available() >= 0 && numa_node <= numa_max_node();
	void *va = NULL;
	cudaError_t rc;
	int err;

	if (placed)
		numa_set_preferred(numa_node); /* the driver allocates under the caller's policy */
	rc = cudaHostAlloc(&va, SPW_ALIGN_UP(bytes, page),
			   cudaHostAllocMapped | cudaHostAllocPortable);
	if (placed)
		numa_set_localalloc();
	if (rc != cudaSuccess)
		return mem_cuda_err(rc, "cudaHostAlloc");
	region->host_va = va;
	region->bytes = SPW_ALIGN_UP(bytes, page);
	region->page_bytes = page;
	region->numa_node = placed ? numa_node : -1;
	memset(va, 0, region->bytes);
	err = mem_cuda_map_device(region);
	if (err)
		cudaFreeHost(va);
	return err;
}

/* Registers for all contexts (portable), since a plug-in may use a runtime of its own. */
static int mem_cuda_register(struct spw_region *region)
{
	cudaError_t rc = cudaHostRegister(region->host_va, region->bytes,
					  cudaHostRegisterMapped | cudaHostRegisterPortable);
	int err;

	if (rc != cudaSuccess)
		return mem_cuda_err(rc, "cudaHostRegister");
	err = mem_cuda_map_device(region);
	if (err)
		cudaHostUnregister(region->host_va);
	return err;
}

/* ---- the GPU's own memory ---- */

/* The GPU's page size: address and length of a dma-buf are multiples of it. */
#define GPU_PAGE_BYTES ((size_t)2 << 20)

#define EXPORT_RANGE "cuMemGetHandleForAddressRange"

typedef CUresult export_fn(void *handle, CUdeviceptr va, size_t bytes, CUmemRangeHandleType type,
			   unsigned long long flags);

/* The driver's call is looked up by name, so that the program starts without a driver. */
static int mem_cuda_dmabuf(void *va, size_t bytes, int *fd_out)
{
	export_fn *export_range = NULL;
	cudaError_t rc;
	CUresult result;

#if CUDART_VERSION >= 12050
	rc = cudaGetDriverEntryPointByVersion(EXPORT_RANGE, (void **)&export_range, 12000,
					      cudaEnableDefault, NULL);
#else
	rc = cudaGetDriverEntryPoint(EXPORT_RANGE, (void **)&export_range, cudaEnableDefault, NULL);
#endif
	if (rc != cudaSuccess || !export_range)
		return spw_err(ENOTSUP,
			       "this CUDA driver cannot export a dma-buf (it has no " EXPORT_RANGE
			       "): use cuda-reg, or a newer driver");
	result = export_range(fd_out, (CUdeviceptr)(uintptr_t)va, bytes,
			      CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
	if (result != CUDA_SUCCESS)
		return spw_err(ENOTSUP,
			       EXPORT_RANGE
			       ": error %d: the kernel driver cannot export a dma-buf (the open "
			       "kernel modules can): use cuda-reg",
			       (int)result);
	return 0;
}

/* Zeroed, as all regions are. The dma-buf names the whole allocation: bytes is a multiple of the
 * GPU's page. */
static int mem_cuda_gpu_alloc(size_t bytes, struct spw_region *region)
{
	void *va = NULL;
	cudaError_t rc;
	int err;

	bytes = SPW_ALIGN_UP(bytes, GPU_PAGE_BYTES);
	rc = cudaMalloc(&va, bytes);
	if (rc != cudaSuccess)
		return mem_cuda_err(rc, "cudaMalloc");
	rc = cudaMemset(va, 0, bytes);
	err = rc == cudaSuccess ? mem_cuda_dmabuf(va, bytes, &region->dmabuf_fd)
				: mem_cuda_err(rc, "cudaMemset");
	if (err) {
		cudaFree(va);
		return err;
	}
	region->dev_va = (uint64_t)(uintptr_t)va;
	region->bytes = bytes;
	region->page_bytes = GPU_PAGE_BYTES;
	return 0;
}

/* The dma-buf refers to the memory too: it is closed first. */
static void mem_cuda_gpu_free(struct spw_region *region)
{
	cudaError_t rc;

	close(region->dmabuf_fd);
	rc = cudaFree((void *)(uintptr_t)region->dev_va);
	if (rc != cudaSuccess)
		spw_warn("memory: cudaFree: %s", cudaGetErrorString(rc));
}

/* Nothing can be done about an error here but to log it. */
static void mem_cuda_host_free(struct spw_region *region)
{
	cudaError_t rc = cudaFreeHost(region->host_va);

	if (rc != cudaSuccess)
		spw_warn("memory: cudaFreeHost: %s", cudaGetErrorString(rc));
}

static void mem_cuda_unregister(struct spw_region *region)
{
	cudaError_t rc = cudaHostUnregister(region->host_va);

	if (rc != cudaSuccess)
		spw_warn("memory: cudaHostUnregister: %s", cudaGetErrorString(rc));
}

extern const struct mem_cuda_ops spw_mem_cuda_ops; /* for cuda/module/module.c */
const struct mem_cuda_ops spw_mem_cuda_ops = {
	.host_alloc = mem_cuda_host_alloc,
	.host_free = mem_cuda_host_free,
	.register_host = mem_cuda_register,
	.unregister_host = mem_cuda_unregister,
	.gpu_alloc = mem_cuda_gpu_alloc,
	.gpu_free = mem_cuda_gpu_free,
};
