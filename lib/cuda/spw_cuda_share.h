/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Memory of a GPU that processes share: one makes it and exports it as a file descriptor, others
 * map what that descriptor stands for. lib/mem makes it for objects, lib/tensor maps it for their
 * consumers. Only the driver is called, opened at run time; the CUDA module is not needed.
 *
 *   owner     spw_cuda_share_make ─► at, fd ──SCM_RIGHTS──► spw_cuda_share_map ─► at     consumer
 *
 * The descriptor must be passed on as it is: /proc/PID/fd/N opens the driver's device anew, and
 * that names no memory. The memory lives as long as a mapping or a descriptor of it, so an owner
 * that ends takes nothing from a consumer.
 *
 * Order. Kernels of all processes reach it through the same L2, so it needs no more than the host's
 * memory does: the writer's fence of system scope before its release, the reader's acquire before
 * its loads, or before it launches what loads (docs/040-ordering.md).
 *
 * Source: CUDA driver API, virtual memory management, cuda.h.
 */
#ifndef SPW_CUDA_SHARE_H
#define SPW_CUDA_SHARE_H

#include "base/spw_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPW_CUDA_UUID_BYTES 16u

struct spw_cuda_share {
	uint64_t at;  /* for kernels of this process on that GPU; the CPU cannot use it */
	size_t bytes; /* whole pages */
	size_t page_bytes;
	uint8_t gpu[SPW_CUDA_UUID_BYTES]; /* ordinals differ between processes, this does not */
	int fd;
	int device; /* private */
};

/* Purpose: zeroed memory of that GPU, exported.
 * Shape:   ordinal: as CUDA counts in this process; bytes > 0.
 * Owner:   the caller, until spw_cuda_share_free.
 * Thread:  setup; no kernel of this process runs that does not end by itself.
 * Errors:  -ENOMEM; -ENOTSUP no driver, or one that cannot; -EIO with CUDA's number. */
int spw_cuda_share_make(int ordinal, size_t bytes, struct spw_cuda_share *share_out);
void spw_cuda_share_free(struct spw_cuda_share *share);

/* Purpose: the ordinal of a GPU in this process.
 * Thread:  any.
 * Errors:  -ENODEV this process has no such GPU. */
int spw_cuda_share_find(const uint8_t gpu[SPW_CUDA_UUID_BYTES], int *ordinal_out);

/* Purpose: maps what another process exported, for kernels of this one on the GPU that it is of.
 * Shape:   fd stays the caller's, and may be closed; bytes: as in struct spw_cuda_share.
 * Owner:   the caller, until spw_cuda_share_unmap.
 * Thread:  any, a context of that GPU being current.
 * Errors:  -EPROTO fd is no such memory, or it is smaller; -ENOTSUP. */
int spw_cuda_share_map(int ordinal, int fd, size_t bytes, uint64_t *at_out);
void spw_cuda_share_unmap(uint64_t at, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
