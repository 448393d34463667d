/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Private to lib/nixl: what is behind an address that NIXL calls VRAM, and how a NIC reaches it.
 *
 *   pinned host memory (cudaHostAlloc)   as host memory: no copy, on every machine
 *   a GPU's own (cudaMalloc)             as a dma-buf, where the driver exports one; a GB10's does
 *                                        not
 *   managed, or unknown to CUDA          refused: its pages move, or are no VRAM at all
 */
#ifndef SPW_NIXL_VRAM_H
#define SPW_NIXL_VRAM_H

#include "xfer/spw_xfer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Purpose: how to register [addr, addr + bytes).
 * Shape: bytes > 0.
 * Owner: with SPW_XFER_DMABUF, req_out->dmabuf_fd is the caller's to close, once it is registered.
 * Thread: any.
 * Errors: -EOPNOTSUPP with the reason and both remedies. */
int nixl_vram_find(uint64_t addr, size_t bytes, struct spw_xfer_mem_req *req_out);

/* Purpose: -EOPNOTSUPP, with the text of the last error as the reason, and both remedies. */
int nixl_vram_refuse(void);

#ifdef __cplusplus
}
#endif
#endif
