/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Private to lib/mem: host mappings, and the CUDA calls that turn them into memory a GPU can read.
 */
#ifndef SPW_MEM_IMPL_H
#define SPW_MEM_IMPL_H

#include "mem/spw_mem.h"

/* What the choice of a kind depends on. */
struct mem_gpu {
	bool usable;           /* a driver and at least one device */
	bool integrated;       /* GPU and CPU share the memory */
	bool host_register;    /* cudaHostRegister works */
	bool pageable_access;  /* the GPU reads any host memory */
	bool dma_buf;          /* its own memory can be given to a NIC */
	bool ordered;          /* and what the NIC wrote there is seen by a kernel that hears of it later */
	char name[64];
	char why_not[120];     /* !usable: why */
};

/* Purpose: the first GPU's attributes, or why there is none. Thread: setup. */
void mem_gpu_probe(struct mem_gpu *gpu_out);

/* Purpose: pure; AUTO becomes a kind, any other is checked against the machine. why_out: SPW_MEM_WHY_BYTES.
 * Errors: -ENOTSUP with the attribute and what would do. */
int mem_choose(const struct spw_mem_req *req, const struct mem_gpu *gpu, enum spw_mem_kind *kind_out, char *why_out);

/* ---- host mappings (mem_host.c) ---- */

struct mem_map {
	uint8_t *va;
	size_t bytes;      /* whole pages */
	size_t page_bytes;
	int numa_node;     /* of the first page; -1 unknown */
	bool huge;
};

/* Purpose: hugepages if a fitting size has enough free ones, else plain pages with a warning; bound to the node,
 * touched, locked as the limits allow. Errors: -ENOMEM before anything is touched. */
int mem_map_host(size_t bytes, int numa_node, struct mem_map *map_out);
void mem_unmap_host(void *va, size_t bytes);

/* Purpose: are there so many bytes of plain pages (MemAvailable, less if a cgroup says so)? Errors: -ENOMEM with both
 * figures. */
int mem_check_room(size_t bytes);

/* ---- CUDA (mem_cuda.c, or mem_nocuda.c in a build without it) ---- */

int mem_cuda_host_alloc(size_t bytes, int numa_node, struct spw_region *region);
int mem_cuda_register(struct spw_region *region); /* maps region->host_va; sets dev_va */
int mem_cuda_gpu_alloc(size_t bytes, struct spw_region *region); /* SPW_MEM_GPU */
void mem_cuda_gpu_free(struct spw_region *region);
void mem_cuda_free(struct spw_region *region);
void mem_cuda_unregister(struct spw_region *region);

#endif
