/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Memory regions. A region is one contiguous piece of memory that the NIC (or a PMD) writes, the
 * CPU reads, and the executor reads at its own address. Its kind is chosen from the GPU's
 * attributes, and the reason is kept for the summary:
 *
 *   kind        memory                        the GPU reads it    for
 *   host        hugepages                     if it can           CPU executors, Grace
 *   cuda-host   cudaHostAlloc                 mapped              integrated GPUs (GB10)
 *   cuda-reg    hugepages, cudaHostRegister   mapped, over PCIe   discrete GPUs
 *   gpu         the GPU's own                 as its own          discrete GPUs: of a NIC's frames
 *                                                                 with dma-buf, or of objects
 *
 * Managed memory (cudaMallocManaged) is refused: its pages move between CPU and GPU, and a NIC that
 * has registered them writes to where they were. No call takes memory that the caller allocated.
 */
#ifndef SPW_MEM_H
#define SPW_MEM_H

#include "base/spw_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPW_REGION_MAX 8 /* ids that fit the descriptor's region field */

enum spw_mem_kind {
	SPW_MEM_AUTO,      /* choose by what the machine can do */
	SPW_MEM_HOST,      /* hugepages, or plain pages with a warning */
	SPW_MEM_CUDA_HOST, /* cudaHostAlloc, mapped */
	SPW_MEM_CUDA_REG,  /* hugepages, registered by cudaHostRegister */
	/* a NIC writes it through a dma-buf, or kernels do (shared); the CPU cannot; never by AUTO
	 */
	SPW_MEM_GPU,
};

struct spw_mem_req {
	enum spw_mem_kind kind;
	size_t bytes;         /* > 0; rounded up to whole pages */
	int numa_node;        /* preferred; -1: any */
	bool executor_is_gpu; /* a CUDA executor will read it */
	/* Other processes may map it (spw_region.shared_fd), and no NIC does: host; cuda-reg or gpu
	 * for a GPU. */
	bool shared;
};

struct spw_region {
	uint8_t *host_va; /* for the CPU and, registered, for the NIC; NULL for SPW_MEM_GPU */
	uint64_t dev_va;  /* address for the executor; SPW_MEM_GPU: for the NIC too */
	size_t bytes;
	size_t page_bytes;      /* 4096, 65536, 2 MiB, 1 GiB ...: never assume one */
	enum spw_mem_kind kind; /* never AUTO */
	uint16_t id;            /* 0 .. SPW_REGION_MAX - 1, unique in the process */
	int numa_node;          /* of the pages; -1 unknown */
	int dmabuf_fd; /* SPW_MEM_GPU, not shared: a dma-buf of all of it; else meaningless */
	/* Of a shared one, else -1: what other processes open as /proc/PID/fd/N. A memfd, sealed:
	 * its size stays as it is; of SPW_MEM_GPU the place of a socket (spw_region_hand). */
	int shared_fd;
	struct mem_hand *hand; /* private */
	bool flush;    /* SPW_MEM_GPU: what a NIC wrote must be flushed before a kernel reads it */
	char why[160]; /* why this kind: one clause */
};

/* Purpose: chooses the kind if AUTO, allocates the memory, populates and pins it; logs the choice
 *   and its reason.
 * Owner: the caller, until spw_region_free.
 * Thread: setup.
 * Errors: -ENOTSUP the machine cannot do this kind (the text names the attribute, and a kind that
 *   works); -ENOMEM (with the figures); -ENOSPC no region id is free; -EINVAL.
 */
int spw_region_alloc(const struct spw_mem_req *req, struct spw_region *region_out);

/* Purpose: unpins and frees the memory, and its id. A zeroed or freed region is allowed.
 * Thread: setup, after all users have stopped.
 */
void spw_region_free(struct spw_region *region);

/* What a process that connects to the socket of a GPU's memory is sent, beside one descriptor,
 * which stands for the memory (cuda/spw_cuda_share.h). */
struct spw_mem_handed {
	uint8_t gpu[16]; /* its UUID */
};

/* Purpose: answers processes that have connected to the socket of a shared region of SPW_MEM_GPU:
 *   one message of struct spw_mem_handed each, SOCK_SEQPACKET. The kernel lets in those that may
 *   open /proc/PID/fd, as for a memfd. Of other regions it does nothing.
 * Thread: control, about every 20 ms; it never waits.
 */
void spw_region_hand(const struct spw_region *region);

/* Purpose: zeroed memory of the CPU's that other processes may map: they open /proc/PID/fd/FD.
 * Shape:   bytes: rounded up to whole pages, *bytes_out. Its size cannot be changed by anybody.
 * Owner:   the caller, until spw_mem_share_free.
 * Thread:  setup.
 * Errors:  -ENOMEM, -errno of memfd_create(2). */
int spw_mem_share(size_t bytes, void **va_out, size_t *bytes_out, int *fd_out);
void spw_mem_share_free(void *va, size_t bytes, int fd);

/* Purpose: the name of a kind ("auto", "host", "cuda-host", "cuda-reg", "gpu") and back.
 * Returns: name: static text, "?" for no kind.
 * Thread: any.
 * Errors: parse: -EINVAL with the list of names; "managed": with the reason.
 */
const char *spw_mem_kind_name(enum spw_mem_kind kind);
int spw_mem_kind_parse(const char *name, enum spw_mem_kind *kind_out);

#ifdef __cplusplus
}
#endif
#endif
