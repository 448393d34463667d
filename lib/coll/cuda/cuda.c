/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The CUDA side of a group on the host: memory that both map, what a kernel gets, launches. No call
 * here waits for a kernel but close; the proxy's thread never calls CUDA, so a kernel that waits
 * cannot stop it.
 *
 *   coll_cuda_open    one piece of pinned host memory, which GPU, NIC and CPU map
 *   coll_cuda_start   addresses of its parts as the device has them; memory of the device for
 *                     words that only kernels use; all kernels loaded
 *   spw_coll_launch   one kernel into the caller's stream; returns at once
 *   coll_cuda_stop    kernels end; coll_cuda_close frees the memory when no NIC uses it either
 *
 * Called by coll.c, except launch and device, which are the owner's. nocuda.c stands here in a
 * build without CUDA.
 */
#include <cuda_runtime_api.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "coll/coll.h"
#include "coll/cuda/kernels.h"

#define CTA_BYTES (COLL_CTA_THREADS * 16u) /* of a contribution: a cell for each thread */
#define CTA_MAX   16u

struct coll_cuda {
	struct spw_coll_dev dev;
	bool early; /* kernels may overlap: see kernels.cu */
};

static int coll_cuda_err(int rc, const char *call)
{
	return spw_err(rc == cudaErrorMemoryAllocation ? ENOMEM : EIO, "%s: %s", call,
		       cudaGetErrorString((cudaError_t)rc));
}

/* ---- memory ---- */

int coll_cuda_open(struct spw_coll *c, size_t bytes, uint8_t **mem_out)
{
	int device;
	cudaError_t rc = cudaGetDevice(&device);
	void *mem = NULL;

	*mem_out = NULL;
	if (rc != cudaSuccess)
		return spw_err(ENOTSUP, "no CUDA device: %s; the cpu executor needs none",
			       cudaGetErrorString(rc));
	c->cuda = calloc(1, sizeof(*c->cuda));
	if (!c->cuda)
		return spw_err(ENOMEM, "no memory for a group");
	rc = cudaHostAlloc(&mem, bytes, cudaHostAllocMapped | cudaHostAllocPortable);
	if (rc != cudaSuccess)
		return coll_cuda_err(rc, "cudaHostAlloc");
	memset(mem, 0, bytes);
	*mem_out = mem;
	return 0;
}

/* The GPU may map the piece at another address; its parts lie at the same offsets. */
static void *coll_device_of(const struct spw_coll *c, const uint8_t *host, const uint8_t *base_dev)
{
	return (void *)(uintptr_t)(base_dev + (host - c->base));
}

/* A kernel that is loaded at its first launch would wait for those that run, and they for it. */
static int coll_cuda_load(bool *early_out)
{
	int rc = coll_kernels_load(early_out);

	return rc ? spw_err(ENOTSUP,
			    "the kernels of collectives do not load: %s; this build "
			    "has " SPW_CUDA_BUILT ": build it for this GPU (meson configure "
			    "-Dgpu_arch=...), or install a "
			    "newer driver",
			    cudaGetErrorString((cudaError_t)rc))
		  : 0;
}

/* Words that only kernels use are the GPU's own: reading them costs no way over PCIe. */
static int state_alloc(struct spw_coll_dev *dev)
{
	cudaError_t rc = cudaMalloc((void **)&dev->state, sizeof(*dev->state));

	if (rc == cudaSuccess)
		rc = cudaMemset(dev->state, 0, sizeof(*dev->state));
	return rc == cudaSuccess ? 0 : coll_cuda_err(rc, "memory for a group's words");
}

/* A kernel looks only at flag words that some rail can write. */
static uint32_t coll_rails_of(const struct spw_coll *c)
{
	struct spw_xfer_rail_stat stat;
	uint32_t most = 0;

	for (uint32_t i = 0; i < c->rank_cnt; i++)
		for (uint32_t rail = 0; rail < SPW_XFER_RAIL_MAX && i != c->rank; rail++)
			if (spw_xfer_conn_rail_stat(c->peer[i].conn, rail, &stat))
				most = SPW_MAX(most, rail + 1);
	return most;
}

int coll_cuda_start(struct spw_coll *c)
{
	struct spw_coll_dev *dev = &c->cuda->dev;
	void *base = NULL;
	cudaError_t rc = cudaHostGetDevicePointer(&base, c->base, 0);
	int err;

	if (rc != cudaSuccess)
		return coll_cuda_err(rc, "cudaHostGetDevicePointer");
	err = state_alloc(dev);
	err = err ? err : coll_cuda_load(&c->cuda->early);
	if (err)
		return err;
	dev->words = coll_device_of(c, (const uint8_t *)c->words, base);
	for (uint32_t s = 0; s < SPW_COLL_SLOT_CNT; s++) {
		dev->stage[s] = coll_device_of(c, c->stage[s], base);
		for (uint32_t i = 0; i < c->rank_cnt; i++)
			if (i != c->rank)
				dev->window[i][s] = coll_device_of(c, c->peer[i].mine[s], base);
	}
	dev->session = c->session;
	dev->timeout_ns = c->timeout_ns;
	dev->rank = c->rank;
	dev->rank_cnt = c->rank_cnt;
	dev->bytes_max = c->conf.bytes_max;
	dev->rail_cnt = coll_rails_of(c);
	return 0;
}

/* Every kernel of a group ends by itself; the proxy still runs, so a round under way completes. */
void coll_cuda_stop(struct spw_coll *c)
{
	cudaError_t rc = c->cuda ? cudaDeviceSynchronize() : cudaSuccess;

	if (rc != cudaSuccess)
		spw_warn("coll: cudaDeviceSynchronize: %s", cudaGetErrorString(rc));
}

void coll_cuda_close(struct spw_coll *c)
{
	if (!c->cuda)
		return;
	if (cudaFree(c->cuda->dev.state) != cudaSuccess || cudaFreeHost(c->base) != cudaSuccess)
		spw_warn("coll: CUDA did not free the memory of a group");
	free(c->cuda);
}

/* ---- calls ---- */

/* The CTAs of a kernel wait for each other, so all must be on the GPU at once: at most CTA_MAX. */
int spw_coll_launch(struct spw_coll *coll, const struct spw_coll_call *call, void *stream)
{
	const uint64_t bytes = call->count * spw_coll_type_bytes(call->type);
	uint32_t cta_cnt;
	int rc = coll->cuda
			 ? coll_check_call(coll, call)
			 : spw_err(EINVAL, "this group is one of the cpu executor: spw_coll_run");

	if (rc)
		return rc;
	cta_cnt = (uint32_t)((bytes + CTA_BYTES - 1) / CTA_BYTES);
	cta_cnt = SPW_MAX(SPW_MIN(cta_cnt, CTA_MAX), 1u);
	rc = coll_kernel_launch(&coll->cuda->dev, call, cta_cnt, coll->cuda->early, stream);
	return rc ? coll_cuda_err(rc, "launching a collective") : 0;
}

/* For kernels of the caller's own that use a group (spwd_coll.cuh). */
int spw_coll_device(const struct spw_coll *coll, struct spw_coll_dev *dev_out)
{
	if (!coll->cuda)
		return spw_err(ENOTSUP, "this group is one of the cpu executor");
	*dev_out = coll->cuda->dev;
	return 0;
}
