/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The CUDA side of a group on the host: memory that both map, what a kernel gets, launches. No call
 * here waits for a kernel but close; the proxy's thread never calls CUDA, so a kernel that waits
 * cannot stop it.
 *
 *   open     one piece of pinned host memory, which GPU, NIC and CPU map
 *   start    addresses of its parts as the device has them; memory of the device for words that
 *            only kernels use; all kernels loaded
 *   launch   one kernel into the caller's stream; returns at once
 *   stop     kernels end; close frees the memory when no NIC uses it either
 *
 * Part of the CUDA module; coll.c and gpu.c call it through spw_coll_cuda_ops.
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

static int coll_cuda_open(struct spw_coll *c)
{
	int device;
	cudaError_t rc = cudaGetDevice(&device);
	void *mem = NULL;

	if (rc != cudaSuccess)
		return spw_err(ENOTSUP, "no CUDA device: %s; the cpu executor needs none",
			       cudaGetErrorString(rc));
	c->cuda = calloc(1, sizeof(*c->cuda));
	if (!c->cuda)
		return spw_err(ENOMEM, "no memory for a group");
	rc = cudaHostAlloc(&mem, c->base_bytes, cudaHostAllocMapped | cudaHostAllocPortable);
	if (rc != cudaSuccess)
		return coll_cuda_err(rc, "cudaHostAlloc");
	memset(mem, 0, c->base_bytes);
	c->base = mem;
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
			    "the kernels of collectives do not load: %s; the module "
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

static int coll_cuda_start(struct spw_coll *c, uint32_t rail_cnt)
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
	dev->rail_cnt = rail_cnt;
	return 0;
}

/* Every kernel of a group ends by itself; the proxy still runs, so a round under way completes. */
static void coll_cuda_stop(struct spw_coll *c)
{
	cudaError_t rc = c->cuda ? cudaDeviceSynchronize() : cudaSuccess;

	if (rc != cudaSuccess)
		spw_warn("coll: cudaDeviceSynchronize: %s", cudaGetErrorString(rc));
}

static void coll_cuda_close(struct spw_coll *c)
{
	if (!c->cuda)
		return;
	if (cudaFree(c->cuda->dev.state) != cudaSuccess || cudaFreeHost(c->base) != cudaSuccess)
		spw_warn("coll: CUDA did not free the memory of a group");
	free(c->cuda);
}

/* ---- calls ---- */

/* The CTAs of a kernel wait for each other, so all must be on the GPU at once: at most CTA_MAX. */
static int coll_cuda_launch(struct spw_coll *c, const struct spw_coll_call *call, uint64_t whole,
			    void *stream)
{
	const uint64_t bytes = call->count * spw_coll_type_bytes(call->type);
	uint32_t cta_cnt = (uint32_t)((bytes + CTA_BYTES - 1) / CTA_BYTES);
	int rc;

	cta_cnt = SPW_MAX(SPW_MIN(cta_cnt, CTA_MAX), 1u);
	rc = coll_kernel_launch(&c->cuda->dev, call, whole, cta_cnt, c->cuda->early, stream);
	return rc ? coll_cuda_err(rc, "launching a collective") : 0;
}

static void coll_cuda_device(const struct spw_coll *c, struct spw_coll_dev *dev_out)
{
	*dev_out = c->cuda->dev;
}

extern const struct coll_cuda_ops spw_coll_cuda_ops; /* for cuda/module/module.c */
const struct coll_cuda_ops spw_coll_cuda_ops = {
	.open = coll_cuda_open,
	.start = coll_cuda_start,
	.launch = coll_cuda_launch,
	.device = coll_cuda_device,
	.stop = coll_cuda_stop,
	.close = coll_cuda_close,
};
