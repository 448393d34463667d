/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The calls of gpu.h, passed on to the CUDA module. perf_gpu_missing opens it; the callers ask it
 * before they make GPU rows, so the other calls are not reached without a module.
 *
 *   facts.c, lane.c ─ perf_gpu_missing ─► libspinwire-cuda.so is opened, once ─► gpu_ops
 *   bytes.c         ─ perf_gpu_fill, _clear, _check ─► gpu_ops ─► gpu.cu
 *
 * This file needs neither nvcc nor libcudart: one program serves machines with and without a GPU.
 */
#include "measure/gpu.h"

#include "base/spw_err.h"
#include "cuda/spw_cuda.h"
#include "plat/spw_plat.h"

/* NULL until the module is open; it stays open until the program ends. */
static const struct perf_gpu_ops *gpu_ops;

/* A module that could not be opened is asked for again at the next call. Having a module is not
 * enough: whether kernels run here is asked of CUDA each time. */
const char *perf_gpu_missing(void)
{
	const struct spw_cuda_module *module;
	struct spw_plat_gpu gpu;

	if (!gpu_ops && spw_plat_gpu_open(&gpu, &module) < 0)
		return spw_err_text();
	if (!gpu_ops)
		gpu_ops = module->perf;
	return gpu_ops->missing();
}

int perf_gpu_fill(uint64_t at, uint64_t bytes, uint64_t seed)
{
	return gpu_ops->fill(at, bytes, seed);
}

int perf_gpu_clear(uint64_t at, uint64_t bytes)
{
	return gpu_ops->clear(at, bytes);
}

int perf_gpu_wait(void)
{
	return gpu_ops->wait();
}

int perf_gpu_check(uint64_t at, uint64_t bytes, uint64_t seed, uint64_t *wrong_out)
{
	return gpu_ops->check(at, bytes, seed, wrong_out);
}
