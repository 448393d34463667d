/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Regions: choose a kind (mem_choose.c), allocate it (mem_host.c; mem_cuda.c in the CUDA module; a
 * GPU's memory for other processes: mem_hand.c), give it an id. Ids travel in descriptors, so there
 * are only SPW_REGION_MAX of them.
 *
 * Allocation of a region, and what each step decides:
 *
 *   mem_gpu_probe   what the GPU can do           mem_choose   which kind, and why (logged)
 *   mem_id_take     0 .. SPW_REGION_MAX - 1       mem_alloc_kind   pages, then device address
 *
 * host_va is what the CPU uses, dev_va what a GPU kernel uses; for `gpu` memory there is no
 * host_va. Setup thread only, so ids need no lock.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "cuda/spw_cuda.h"
#include "mem/mem_impl.h"

static const char *const kind_name[] = {
	[SPW_MEM_AUTO] = "auto",         [SPW_MEM_HOST] = "host", [SPW_MEM_CUDA_HOST] = "cuda-host",
	[SPW_MEM_CUDA_REG] = "cuda-reg", [SPW_MEM_GPU] = "gpu",
};

/* Of the setup thread. */
static bool id_used[SPW_REGION_MAX];
static const struct mem_cuda_ops *mem_cuda; /* of the CUDA module; NULL: not opened */

const char *spw_mem_kind_name(enum spw_mem_kind kind)
{
	return (size_t)kind < SPW_ARRAY_CNT(kind_name) ? kind_name[kind] : "?";
}

int spw_mem_kind_parse(const char *name, enum spw_mem_kind *kind_out)
{
	for (size_t i = 0; i < SPW_ARRAY_CNT(kind_name); i++) {
		if (!strcmp(name, kind_name[i])) {
			*kind_out = (enum spw_mem_kind)i;
			return 0;
		}
	}
	if (!strcmp(name, "managed"))
		return spw_err(EINVAL,
			       "memory kind managed: its pages move between CPU and GPU, and a NIC "
			       "that has registered them writes to where they were: use cuda-host");
	return spw_err(EINVAL,
		       "memory kind '%s' is not known: use auto, host, cuda-host, cuda-reg or gpu",
		       name);
}

/* The lowest free one: topologies rely on 0, 1, ... in a process that has no other regions. */
static int mem_id_take(uint16_t *id_out)
{
	for (uint16_t i = 0; i < SPW_REGION_MAX; i++) {
		if (!id_used[i]) {
			id_used[i] = true;
			*id_out = i;
			return 0;
		}
	}
	return spw_err(ENOSPC, "memory: all %d region ids are in use", SPW_REGION_MAX);
}

/* Without a GPU the device's address is the host's. */
static int mem_alloc_host(const struct spw_mem_req *req, struct spw_region *region)
{
	struct mem_map map;
	int rc = mem_map_host(req->bytes, req->numa_node, req->shared, &map);

	if (rc)
		return rc;
	region->host_va = map.va;
	region->dev_va = (uint64_t)(uintptr_t)map.va;
	region->bytes = map.bytes;
	region->page_bytes = map.page_bytes;
	region->numa_node = map.numa_node;
	region->shared_fd = map.fd;
	return 0;
}

/* lib/plat reads the attributes; mem_gpu_of makes of them what the choice depends on. */
void mem_gpu_probe(struct mem_gpu *gpu_out)
{
	const struct spw_cuda_module *module;
	struct spw_plat_gpu gpu;

	if (spw_plat_gpu_open(&gpu, &module) == 0) {
		mem_cuda = module->mem;
		mem_gpu_of(&gpu, gpu_out);
		return;
	}
	*gpu_out = (struct mem_gpu){.usable = false};
	snprintf(gpu_out->why_not, sizeof(gpu_out->why_not), "%s", spw_err_text());
}

static int mem_alloc_cuda_host(const struct spw_mem_req *req, struct spw_region *region)
{
	int rc = mem_check_room(req->bytes);

	return rc ? rc : mem_cuda->host_alloc(req->bytes, req->numa_node, region);
}

/* Host pages first, so that they can be hugepages on the right node; CUDA then maps them. */
static int mem_alloc_cuda_reg(const struct spw_mem_req *req, struct spw_region *region)
{
	int rc = mem_alloc_host(req, region);

	if (rc)
		return rc;
	rc = mem_cuda->register_host(region);
	if (rc)
		mem_unmap_host(region->host_va, region->bytes, region->shared_fd);
	return rc;
}

/* The kind was chosen and checked: it is allocated or fails, no other is tried. */
static int mem_alloc_kind(const struct spw_mem_req *req, struct spw_region *region)
{
	switch (region->kind) {
	case SPW_MEM_CUDA_HOST:
		return mem_alloc_cuda_host(req, region);
	case SPW_MEM_CUDA_REG:
		return mem_alloc_cuda_reg(req, region);
	case SPW_MEM_GPU:
		return req->shared ? mem_hand_open(req->bytes, region)
				   : mem_cuda->gpu_alloc(req->bytes, region);
	default:
		return mem_alloc_host(req, region);
	}
}

/* The reason stands in the log, since it decides how fast a run can be. */
static void mem_log_region(const struct spw_region *region)
{
	const bool large = region->bytes >= 1u << 20;

	spw_info("memory: %s, %zu %s in pages of %zu KiB on NUMA node %d, because %s",
		 spw_mem_kind_name(region->kind), region->bytes >> (large ? 20 : 10),
		 large ? "MiB" : "KiB", region->page_bytes >> 10, region->numa_node, region->why);
}

/* A failure leaves nothing behind: the id is free again, and region_out stays zero. */
int spw_region_alloc(const struct spw_mem_req *req, struct spw_region *region_out)
{
	struct spw_region region = {.numa_node = -1, .shared_fd = -1};
	struct mem_gpu gpu;
	int rc;

	memset(region_out, 0, sizeof(*region_out));
	if (req->bytes == 0)
		return spw_err(EINVAL, "memory: a region of 0 bytes was asked for");
	mem_gpu_probe(&gpu);
	rc = mem_choose(req, &gpu, &region);
	if (rc)
		return rc;
	rc = mem_id_take(&region.id);
	if (rc)
		return rc;
	rc = mem_alloc_kind(req, &region);
	if (rc) {
		id_used[region.id] = false;
		return spw_err_ctx(rc, "memory %s", spw_mem_kind_name(region.kind));
	}
	mem_log_region(&region);
	*region_out = region;
	return 0;
}

/* In reverse: unregister before unmapping. A region that was never allocated has bytes 0. */
void spw_region_free(struct spw_region *region)
{
	if (!region->bytes)
		return;
	if (region->kind == SPW_MEM_CUDA_HOST) {
		mem_cuda->host_free(region);
	} else if (region->hand) {
		mem_hand_close(region);
	} else if (region->kind == SPW_MEM_GPU) {
		mem_cuda->gpu_free(region);
	} else {
		if (region->kind == SPW_MEM_CUDA_REG)
			mem_cuda->unregister_host(region);
		mem_unmap_host(region->host_va, region->bytes, region->shared_fd);
	}
	id_used[region->id] = false;
	memset(region, 0, sizeof(*region));
}
