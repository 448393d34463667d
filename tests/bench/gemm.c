/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The calls of cuBLAS are declared here, not included: cublas_v2.h is not on every machine that
 * builds this. Source of names and numbers: cublas_v2.h, cublas_api.h and library_types.h of CUDA
 * 12 and 13.
 */
#include "gemm.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "base/spw_order.h"

#define SIDE               8192 /* 1.1 * 10^12 operations: 1.5 ms on an H100 */
#define MATRIX_BYTES       ((size_t)SIDE * SIDE * 2)
#define CUBLAS_OP_N        0
#define CUBLAS_COMPUTE_32F 68
#define CUBLAS_DEFAULT     (-1)
#define CUDA_BF16          14 /* CUDA_R_16BF */

double gemm_tflop(void)
{
	return 2.0 * SIDE * SIDE * SIDE / 1e12;
}

/* memcpy: ISO C has no cast from an object pointer to a function pointer. */
static bool symbol(void *lib, const char *name, void *at)
{
	void *found = dlsym(lib, name);

	memcpy(at, &found, sizeof(found));
	return found != NULL;
}

static int blas_open(struct gemm *g)
{
	static const char *const names[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so"};
	int (*create)(void **blas), (*set_stream)(void *blas, cudaStream_t stream);

	for (size_t i = 0; i < SPW_ARRAY_CNT(names) && !g->lib; i++)
		g->lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	if (!g->lib)
		return spw_err(ENOTSUP,
			       "no cuBLAS: neither libcublas.so.13 nor .12 is in a library folder; "
			       "name the folder in LD_LIBRARY_PATH");
	if (!symbol(g->lib, "cublasCreate_v2", &create) ||
	    !symbol(g->lib, "cublasSetStream_v2", &set_stream) ||
	    !symbol(g->lib, "cublasDestroy_v2", &g->destroy) ||
	    !symbol(g->lib, "cublasGemmEx", &g->multiply))
		return spw_err(ENOTSUP, "cuBLAS lacks a call that is needed: %s", dlerror());
	if (create(&g->blas) || set_stream(g->blas, g->stream))
		return spw_err(EIO, "cuBLAS does not start on this GPU");
	return 0;
}

/* Numbers between -2 and 2 with random mantissas: multiplying zeros would take less power. */
static int matrix_fill(void *matrix, uint64_t seed)
{
	uint16_t *host = malloc(MATRIX_BYTES);
	int rc;

	if (!host)
		return -ENOMEM;
	for (size_t i = 0; i < MATRIX_BYTES / sizeof(*host); i++) {
		seed = seed * 6364136223846793005ull + 1442695040888963407ull;
		host[i] = (uint16_t)((seed >> 63) << 15 | 0x3f80 | (seed >> 33 & 0x7f));
	}
	rc = (int)cudaMemcpy(matrix, host, MATRIX_BYTES, cudaMemcpyHostToDevice);
	free(host);
	return rc ? spw_err(EIO, "matrix: %s", cudaGetErrorString((cudaError_t)rc)) : 0;
}

static int multiply(struct gemm *g)
{
	const float one = 1, zero = 0;

	return g->multiply(g->blas, CUBLAS_OP_N, CUBLAS_OP_N, SIDE, SIDE, SIDE, &one, g->a,
			   CUDA_BF16, SIDE, g->b, CUDA_BF16, SIDE, &zero, g->c, CUDA_BF16, SIDE,
			   CUBLAS_COMPUTE_32F, CUBLAS_DEFAULT);
}

int gemm_open(struct gemm *g)
{
	int rc;

	memset(g, 0, sizeof(*g));
	if (cudaStreamCreateWithFlags(&g->stream, cudaStreamNonBlocking) ||
	    cudaMalloc(&g->a, MATRIX_BYTES) || cudaMalloc(&g->b, MATRIX_BYTES) ||
	    cudaMalloc(&g->c, MATRIX_BYTES))
		return spw_err(EIO, "GPU memory for three matrices of %zu MB: %s",
			       MATRIX_BYTES >> 20, cudaGetErrorString(cudaGetLastError()));
	for (uint32_t i = 0; i < GEMM_AHEAD; i++)
		if (cudaEventCreateWithFlags(&g->done[i],
					     cudaEventDisableTiming | cudaEventBlockingSync))
			return spw_err(EIO, "events");
	rc = blas_open(g);
	rc = rc ? rc : matrix_fill(g->a, 1);
	rc = rc ? rc : matrix_fill(g->b, 2);
	/* cuBLAS loads its kernel now: beside a resident kernel that could wait for ever. */
	if (!rc && (multiply(g) || cudaStreamSynchronize(g->stream)))
		rc = spw_err(EIO, "cuBLAS cannot multiply bf16 matrices here");
	return rc;
}

void gemm_close(struct gemm *g)
{
	if (g->blas)
		g->destroy(g->blas);
	for (uint32_t i = 0; i < GEMM_AHEAD; i++)
		if (g->done[i])
			cudaEventDestroy(g->done[i]);
	cudaFree(g->a);
	cudaFree(g->b);
	cudaFree(g->c);
	if (g->stream)
		cudaStreamDestroy(g->stream);
	if (g->lib)
		dlclose(g->lib);
}

static void *gemm_main(void *arg)
{
	struct gemm *g = arg;

	for (uint64_t n = 0; !g->rc && !spw_thr_load_rlx(&g->stop); n++) {
		cudaEvent_t oldest = g->done[n % GEMM_AHEAD];

		if (n >= GEMM_AHEAD) {
			g->rc = (int)cudaEventSynchronize(oldest);
			spw_thr_store_rlx(&g->cnt, n - GEMM_AHEAD + 1);
		}
		if (!g->rc)
			g->rc = multiply(g);
		if (!g->rc)
			g->rc = (int)cudaEventRecord(oldest, g->stream);
	}
	if (!g->rc)
		g->rc = (int)cudaStreamSynchronize(g->stream);
	return NULL;
}

int gemm_start(struct gemm *g)
{
	int rc;

	g->stop = 0;
	g->rc = 0;
	g->cnt = 0;
	rc = pthread_create(&g->thread, NULL, gemm_main, g);
	return rc ? spw_err(rc, "a thread for the GEMM") : 0;
}

int gemm_stop(struct gemm *g)
{
	spw_thr_store_rlx(&g->stop, 1);
	pthread_join(g->thread, NULL);
	return g->rc ? spw_err(EIO, "a multiplication of cuBLAS failed: %d", g->rc) : 0;
}

uint64_t gemm_done(const struct gemm *g)
{
	return spw_thr_load_rlx(&g->cnt);
}
