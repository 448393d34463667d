/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What an address of VRAM is (vram.h), asked of the CUDA driver of the process, which is opened at
 * run time: serving programs have it loaded, and one without a GPU needs none.
 *
 * A dma-buf begins and ends at a page, so what is exported may reach beyond the region at both
 * ends; the registration is of the region alone.
 *
 * Source of names and numbers: CUDA driver API, cuda.h.
 */
#include "nixl/vram.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "cuda/spw_cuda_library.h"

#define POINTER_MEMORY_TYPE 2 /* CU_POINTER_ATTRIBUTE_MEMORY_TYPE */
#define POINTER_IS_MANAGED  8 /* CU_POINTER_ATTRIBUTE_IS_MANAGED */
#define MEMORY_HOST         1 /* CU_MEMORYTYPE_HOST */
#define RANGE_DMABUF        1 /* CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD */

#define VRAM_CALLS(X)                                                       \
	X(init, cuInit, (unsigned int flags))                               \
	X(ask, cuPointerGetAttribute, (void *value, int what, uint64_t at)) \
	X(give, cuMemGetHandleForAddressRange,                              \
	  (void *fd, uint64_t at, size_t bytes, int type, uint64_t flags))

struct vram_calls {
	VRAM_CALLS(SPW_CUDA_LIBRARY_MEMBER)
};

static int vram_open(struct vram_calls *of)
{
	const struct spw_cuda_symbol wanted[] = {VRAM_CALLS(SPW_CUDA_LIBRARY_SYMBOL)};
	int rc =
		spw_cuda_library_open("libcuda.so.1", "CUDA driver", wanted, SPW_ARRAY_CNT(wanted));

	if (!rc && of->init(0))
		rc = spw_err(ENODEV, "the CUDA driver does not start (cuInit)");
	return rc;
}

int nixl_vram_refuse(void)
{
	char why[SPW_ERR_TEXT_BYTES / 2];

	snprintf(why, sizeof(why), "%s", spw_err_text());
	return spw_err(EOPNOTSUPP,
		       "VRAM that no NIC here can reach: %s; allocate it as pinned host memory "
		       "(cudaHostAlloc, in torch by a CUDAPluggableAllocator), or pass it as DRAM "
		       "(vLLM: kv_buffer_device=cpu)",
		       why);
}

/* The whole pages around it, as a file of the driver's. */
static int vram_export(const struct vram_calls *of, struct spw_xfer_mem_req *req)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)req->addr;
	const uint64_t start = at & ~(page - 1), end = SPW_ALIGN_UP(at + req->bytes, page);
	int error = of->give(&req->dmabuf_fd, start, end - start, RANGE_DMABUF, 0);

	if (error)
		return spw_err(EOPNOTSUPP, "cuMemGetHandleForAddressRange: CUDA error %d", error);
	req->kind = SPW_XFER_DMABUF;
	req->dmabuf_offset = at - start;
	return 0;
}

static int vram_find(struct spw_xfer_mem_req *req)
{
	const uint64_t at = (uintptr_t)req->addr;
	unsigned int type = 0, managed = 0;
	struct vram_calls of;
	int rc = vram_open(&of);

	if (rc)
		return rc;
	if (of.ask(&type, POINTER_MEMORY_TYPE, at))
		return spw_err(EINVAL, "CUDA does not know %p", req->addr);
	if (!of.ask(&managed, POINTER_IS_MANAGED, at) && managed)
		return spw_err(EINVAL, "%p is managed memory, whose pages move", req->addr);
	return type == MEMORY_HOST ? 0 : vram_export(&of, req);
}

int nixl_vram_find(uint64_t addr, size_t bytes, struct spw_xfer_mem_req *req_out)
{
	*req_out = (struct spw_xfer_mem_req){
		.kind = SPW_XFER_HOST, .addr = (void *)(uintptr_t)addr, .bytes = bytes};
	return vram_find(req_out) ? nixl_vram_refuse() : 0;
}
