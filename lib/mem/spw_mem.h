/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Memory regions: one contiguous piece of memory that the NIC (or a PMD) writes, the CPU reads and the
 * executor reads under its own address. Chosen from the device's attributes, with the reason kept.
 */
#ifndef SPW_MEM_H
#define SPW_MEM_H

#include "base/spw_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPW_REGION_MAX 8 /* ids that fit the descriptor's region field */

enum spw_mem_kind {
	SPW_MEM_AUTO,      /* ask the machine, choose, say why */
	SPW_MEM_HOST,      /* hugepages, or plain pages with a warning */
	SPW_MEM_CUDA_HOST, /* cudaHostAlloc, mapped: the path of integrated GPUs (GB10) */
	SPW_MEM_CUDA_REG,  /* hugepages + cudaHostRegister: the path of discrete GPUs */
	SPW_MEM_GPU,       /* the GPU's own memory, which the NIC reaches by a dma-buf and the CPU not at all; only if asked for */
};

struct spw_mem_req {
	enum spw_mem_kind kind;
	size_t bytes;        /* > 0; rounded up to the page size that is used */
	int numa_node;       /* -1: any */
	bool executor_is_gpu;/* the executor that will read it is a CUDA one; AUTO takes it into account */
};

struct spw_region {
	uint8_t *host_va;    /* for the CPU and, registered, for the NIC; NULL: SPW_MEM_GPU */
	uint64_t dev_va;     /* where the executor sees the same bytes; host_va for CPU executors. SPW_MEM_GPU: for the NIC too */
	size_t bytes;
	size_t page_bytes;   /* real page size: 4096, 65536, 2 MiB, 1 GiB ... never assume */
	enum spw_mem_kind kind; /* never AUTO */
	uint16_t id;         /* 0 .. SPW_REGION_MAX-1, unique in the process, travels in descriptors */
	int numa_node;       /* where the pages are; -1 unknown */
	int dmabuf_fd;       /* SPW_MEM_GPU: the dma-buf over all of it, for registration; else of no meaning */
	char why[160];       /* why this kind: one clause for the summary */
};

/* Purpose: chooses (if AUTO), allocates, pins and touches a region; logs the choice and why.
 * Errors:  -ENOTSUP the machine cannot do this kind (the text names the attribute and what would do),
 *          -ENOMEM (says how much was asked and how much there is), -ENOSPC no region id left, -EINVAL.
 * Owner:   the caller, until spw_region_free. Thread: setup. */
int spw_region_alloc(const struct spw_mem_req *req, struct spw_region *region_out);

/* Purpose: gives everything back; a zeroed or freed region is fine. Thread: setup, after all users stopped. */
void spw_region_free(struct spw_region *region);

/* Purpose: "host", "cuda-host", ... and back; -EINVAL with the list of names. Thread: any. */
const char *spw_mem_kind_name(enum spw_mem_kind kind);
int spw_mem_kind_parse(const char *name, enum spw_mem_kind *kind_out);

#ifdef __cplusplus
}
#endif
#endif
