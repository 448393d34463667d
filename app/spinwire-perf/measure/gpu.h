/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The bytes of GPU rows, made and compared by kernels: they stay in the GPU's view of the memory,
 * as the bytes of a user's kernels do. gpu.c passes the calls on to gpu.cu, which is part of the
 * CUDA module. The pattern is that of pattern.h. Each call ends when its kernel has; nothing of it
 * is timed.
 */
#ifndef PERF_GPU_H
#define PERF_GPU_H

#include "base/spw_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Purpose: whether this program can run kernels here.
 * Returns: ""; else why not, in one clause.
 * Lifetime: until the thread's next error. Thread: main. */
const char *perf_gpu_missing(void);

/* Shape of all: at is a device address, as spw_region.dev_va has it; of any alignment.
 * perf_gpu_missing has returned "".
 * Thread: main. Errors: -EIO with CUDA's text. */
int perf_gpu_fill(uint64_t at, uint64_t bytes, uint64_t seed);
int perf_gpu_clear(uint64_t at, uint64_t bytes);
/* Purpose: waits until all kernels have ended. */
int perf_gpu_wait(void);
/* Shape: *wrong_out is the first byte that differs; bytes: none does. */
int perf_gpu_check(uint64_t at, uint64_t bytes, uint64_t seed, uint64_t *wrong_out);

/* The same calls, in the CUDA module. */
struct perf_gpu_ops {
	const char *(*missing)(void);
	int (*fill)(uint64_t at, uint64_t bytes, uint64_t seed);
	int (*clear)(uint64_t at, uint64_t bytes);
	int (*wait)(void);
	int (*check)(uint64_t at, uint64_t bytes, uint64_t seed, uint64_t *wrong_out);
};
extern const struct perf_gpu_ops perf_gpu_cuda_ops;

#ifdef __cplusplus
}
#endif
#endif
