/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Launches of coll_kernel.cu; each returns a cudaError_t.
 */
#ifndef SPW_GPU_COLL_KERNEL_H
#define SPW_GPU_COLL_KERNEL_H

#include "coll/spw_coll.h"

#ifdef __cplusplus
extern "C" {
#endif

/* `calls` sums of count f32 each, in one kernel of cta_cnt CTAs. */
int coll_test_many(const struct spw_coll_dev *dev, void *out, const void *in, uint64_t count,
		   uint32_t calls, uint32_t cta_cnt);
/* Writes 1. */
int coll_test_spare(uint32_t *word, void *stream);

#ifdef __cplusplus
}
#endif
#endif
