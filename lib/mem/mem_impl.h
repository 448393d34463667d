/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Private to lib/mem: the choice of a kind, host mappings, and the CUDA calls that make memory a
 * GPU can read. All of it is called by mem.c. Thread: setup.
 */
#ifndef SPW_MEM_IMPL_H
#define SPW_MEM_IMPL_H

#include "base/spw_err.h"
#include "mem/spw_mem.h"
#include "plat/spw_plat.h"

/* What the choice of a kind depends on. */
struct mem_gpu {
	bool usable;          /* a driver and at least one device */
	bool integrated;      /* GPU and CPU share the memory */
	bool host_register;   /* cudaHostRegister works */
	bool pageable_access; /* the GPU reads any host memory */
	bool dma_buf;         /* its own memory can be exported to a NIC */
	bool ordered; /* a kernel that learns of a frame later reads all that the NIC wrote of it */
	bool shareable; /* other processes can map its own memory */
	bool can_flush; /* the host can make what the NIC wrote there visible to kernels */
	char name[64];
	char why_not[SPW_ERR_TEXT_BYTES]; /* !usable: why */
};

/* Purpose: the first GPU's attributes, or why there is none that the CUDA module can use.
 */
void mem_gpu_probe(struct mem_gpu *gpu_out);

/* Purpose: what the choice needs to know, from the attributes that lib/plat read or replayed. Pure.
 */
void mem_gpu_of(const struct spw_plat_gpu *plat, struct mem_gpu *gpu_out);

/* Purpose: turns AUTO into a kind; checks any other kind against the machine. Pure.
 * Shape: fills kind, why and flush of the region.
 * Errors: -ENOTSUP with the attribute that is missing and a kind that would work; -EINVAL.
 */
int mem_choose(const struct spw_mem_req *req, const struct mem_gpu *gpu, struct spw_region *region);

/* ---- host mappings (mem_host.c) ---- */

struct mem_map {
	uint8_t *va;
	size_t bytes; /* whole pages */
	size_t page_bytes;
	int numa_node; /* of the first page; -1 unknown */
	bool huge;
	int fd; /* its memfd; -1: it is private */
};

/* Purpose: maps hugepages if a fitting size has enough free ones, else plain pages with a warning;
 *   prefers the node, populates all pages, locks them as the limits allow. shared: of a memfd.
 * Owner: the caller, until mem_unmap_host.
 * Errors: -ENOMEM, before any page is touched if the memory is known not to be there.
 */
int mem_map_host(size_t bytes, int numa_node, bool shared, struct mem_map *map_out);
void mem_unmap_host(void *va, size_t bytes, int fd);

/* Purpose: checks that `bytes` of plain pages are available (MemAvailable, or less in a cgroup).
 * Errors: -ENOMEM with both figures.
 */
int mem_check_room(size_t bytes);

/* ---- the GPU's own memory, for other processes (mem_hand.c) ---- */

/* Purpose: allocates it, and opens the socket that hands it over (spw_region_hand); fills the
 *   region. Owner: the caller, until mem_hand_close.
 * Errors: those of spw_cuda_share_make, or of the socket.
 */
int mem_hand_open(size_t bytes, struct spw_region *region);
void mem_hand_close(struct spw_region *region);

/* ---- CUDA (mem_cuda.c, in the CUDA module) ---- */

/* Each allocation fills its part of the region, and is the caller's until it is freed by its
 * counterpart, which logs an error of CUDA. register_host maps the host memory that
 * region->host_va already has for the GPU, and sets dev_va. host_alloc: the caller has checked the
 * room.
 * Errors: -ENOMEM, -EIO with CUDA's text, -ENOTSUP (no dma-buf).
 */
struct mem_cuda_ops {
	int (*host_alloc)(size_t bytes, int numa_node, struct spw_region *region);
	void (*host_free)(struct spw_region *region);
	int (*register_host)(struct spw_region *region);
	void (*unregister_host)(struct spw_region *region);
	int (*gpu_alloc)(size_t bytes, struct spw_region *region);
	void (*gpu_free)(struct spw_region *region);
};

#endif
