/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#ifndef SPW_GPU_CLOCK_IMPL_H
#define SPW_GPU_CLOCK_IMPL_H

#include "base/spw_types.h"

#define SPW_CLOCK_ROUNDS 64u

/* Host memory; answer and step_ns are written by the kernel, asked by the host. */
struct spw_clock_words {
	uint64_t asked, unused;
	uint64_t answered SPW_ALIGNED(128);
	uint64_t answer;
	uint64_t step_ns;
} SPW_ALIGNED(128);

#ifdef __cplusplus
extern "C" {
#endif
int spw_cuda_clock_launch(struct spw_clock_words *dev_words, void *stream);
#ifdef __cplusplus
}
#endif
#endif
