/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * spw_coll_launch's kernels: one call of spwd_coll.cuh each, a kernel for each kind, type and op.
 *
 * Launches overlap. A kernel that follows another of these in a stream is brought to the GPU while
 * that one runs, and waits there until it has ended:
 *
 *   call n      wait ─ next may come ─ round n ─ end
 *   call n+1              launch ─── wait ───────┴ next may come ─ round n+1 ...
 *
 * A kernel of somebody else in between is waited for as ever: only what is launched with the
 * attribute comes early, and only after a kernel that lets it. Code for less than sm_90 cannot
 * wait, so it is launched without the attribute, on a newer device too, and launches do not
 * overlap. Source: CUDA C++ Programming Guide, "Programmatic Dependent Launch and Synchronization".
 */
#include "coll/cuda/kernels.h"
#include "coll/spwd_coll.cuh"

template <enum spw_coll_type TYPE, enum spw_coll_op OP>
static __global__ void __launch_bounds__(COLL_CTA_THREADS, 1)
	coll_all_reduce(const __grid_constant__ struct spw_coll_dev dev, void *out, const void *in,
			uint64_t count, uint64_t whole)
{
	__shared__ struct spwd_coll coll;

	spwd_grid_wait();
	spwd_grid_let_next();
	spwd_coll_begin(&coll, dev, blockIdx.x, gridDim.x);
	spwd_coll_all_reduce<TYPE, OP>(&coll, dev, out, in, count, whole);
	spwd_coll_end(&coll, dev);
}

template <enum spw_coll_type TYPE>
static __global__ void __launch_bounds__(COLL_CTA_THREADS, 1)
	coll_all_gather(const __grid_constant__ struct spw_coll_dev dev, void *out, const void *in,
			uint64_t count, uint64_t whole)
{
	__shared__ struct spwd_coll coll;

	spwd_grid_wait();
	spwd_grid_let_next();
	spwd_coll_begin(&coll, dev, blockIdx.x, gridDim.x);
	spwd_coll_all_gather<TYPE>(&coll, dev, out, in, count, whole);
	spwd_coll_end(&coll, dev);
}

typedef void kernel_fn(const struct spw_coll_dev dev, void *out, const void *in, uint64_t count,
		       uint64_t whole);

/* By type; sum, max, gather. */
static kernel_fn *const kernel[3][3] = {
	{coll_all_reduce<SPW_COLL_F32, SPW_COLL_SUM>, coll_all_reduce<SPW_COLL_F32, SPW_COLL_MAX>,
	 coll_all_gather<SPW_COLL_F32>},
	{coll_all_reduce<SPW_COLL_BF16, SPW_COLL_SUM>, coll_all_reduce<SPW_COLL_BF16, SPW_COLL_MAX>,
	 coll_all_gather<SPW_COLL_BF16>},
	{coll_all_reduce<SPW_COLL_F16, SPW_COLL_SUM>, coll_all_reduce<SPW_COLL_F16, SPW_COLL_MAX>,
	 coll_all_gather<SPW_COLL_F16>},
};

/* ptxVersion is the architecture that the code in use was compiled for (__CUDA_ARCH__ / 10). */
int coll_kernels_load(bool *early_out)
{
	struct cudaFuncAttributes attr;

	*early_out = true;
	for (uint32_t type = 0; type < 3; type++)
		for (uint32_t i = 0; i < 3; i++) {
			cudaError_t rc =
				cudaFuncGetAttributes(&attr, (const void *)kernel[type][i]);

			if (rc != cudaSuccess)
				return (int)rc;
			*early_out = *early_out && attr.ptxVersion >= 90;
		}
	return 0;
}

int coll_kernel_launch(const struct spw_coll_dev *dev, const struct spw_coll_call *call,
		       uint64_t whole, uint32_t cta_cnt, bool early, void *stream)
{
	const uint32_t what = call->kind == SPW_COLL_ALL_GATHER ? 2 : (uint32_t)call->op;

	cudaLaunchAttribute attr = {};
	cudaLaunchConfig_t conf = {};

	attr.id = cudaLaunchAttributeProgrammaticStreamSerialization;
	attr.val.programmaticStreamSerializationAllowed = 1;
	conf.gridDim = cta_cnt;
	conf.blockDim = COLL_CTA_THREADS;
	conf.stream = (cudaStream_t)stream;
	conf.attrs = &attr;
	conf.numAttrs = early;
	return (int)cudaLaunchKernelEx(&conf, kernel[call->type][what], *dev, call->out,
				       (const void *)call->in, call->count, whole);
}
