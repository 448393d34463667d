/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A compute load for a GPU: cuBLAS multiplies square bf16 matrices without a pause. cuBLAS is
 * opened at run time, so nothing that builds or runs without it changes.
 */
#ifndef SPW_BENCH_GEMM_H
#define SPW_BENCH_GEMM_H

#include <pthread.h>

#include <cuda_runtime_api.h>

#include "base/spw_types.h"

#define GEMM_AHEAD 4u /* multiplications that wait in the stream, so that it never runs dry */

struct gemm {
	void *lib, *blas;
	int (*multiply)(void *blas, int op_a, int op_b, int m, int n, int k, const void *alpha,
			const void *a, int type_a, int lda, const void *b, int type_b, int ldb,
			const void *beta, void *c, int type_c, int ldc, int compute, int algo);
	int (*destroy)(void *blas);
	void *a, *b, *c;
	cudaStream_t stream;
	cudaEvent_t done[GEMM_AHEAD];
	pthread_t thread;
	uint32_t stop;
	uint64_t cnt; /* multiplications that are done */
	int rc;       /* of the thread */
};

/* Purpose: finds cuBLAS, fills two matrices with random numbers and multiplies once.
 * Owner:   the caller, until gemm_close, also after an error.
 * Thread:  main.
 * Errors:  -ENOTSUP no cuBLAS (the text says where it was looked for), -EIO. */
int gemm_open(struct gemm *g);
void gemm_close(struct gemm *g);

/* Purpose: multiplies in a thread of its own until gemm_stop.
 * Thread:  main.
 * Errors:  start: -errno; stop: -EIO, a multiplication failed. */
int gemm_start(struct gemm *g);
int gemm_stop(struct gemm *g);

/* Purpose: multiplications done so far, for a rate between two calls.
 * Thread:  any. */
uint64_t gemm_done(const struct gemm *g);

/* Floating point operations of one multiplication, in 10^12. */
double gemm_tflop(void);

#endif
