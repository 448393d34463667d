/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The words between cuda.c, which asks for the device's clock, and the kernel in clock.cu, which
 * answers up to SPW_CLOCK_ROUNDS times (G5).
 */
#ifndef EXEC_CUDA_CLOCK_H
#define EXEC_CUDA_CLOCK_H

#include "base/spw_types.h"

#define SPW_CLOCK_ROUNDS 64u

/* In host memory. The host writes asked; the kernel writes the other line: answered last. */
struct spw_clock_words {
	uint64_t asked, unused;
	uint64_t answered SPW_ALIGNED(128);
	uint64_t answer;
	uint64_t step_ns;
} SPW_ALIGNED(128);

#ifdef __cplusplus
extern "C" {
#endif
/* Purpose: loads the kernel onto the current device. Returns a cudaError_t. */
int spw_cuda_clock_load(void);
/* Purpose: launches the kernel; it ends after all rounds or about 20 ms. Returns a cudaError_t. */
int spw_cuda_clock_launch(struct spw_clock_words *dev_words, void *stream);
#ifdef __cplusplus
}
#endif
#endif
