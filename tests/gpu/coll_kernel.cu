/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Kernels of a program that uses collectives: one with many calls inside, and one that nobody has
 * loaded before.
 */
#include "coll_kernel.h"

#include "coll/spwd_coll.cuh"

static __global__ void many(const __grid_constant__ struct spw_coll_dev dev, float *out,
			    const float *in, uint64_t count, uint32_t calls)
{
	__shared__ struct spwd_coll coll;

	spwd_coll_begin(&coll, dev, blockIdx.x, gridDim.x);
	for (uint32_t i = 0; i < calls; i++)
		if (!spwd_coll_all_reduce<SPW_COLL_F32, SPW_COLL_SUM>(&coll, dev, out + i * count,
								      in + i * count, count))
			break;
	spwd_coll_end(&coll, dev);
}

static __global__ void spare(uint32_t *word)
{
	*word = 1;
}

int coll_test_many(const struct spw_coll_dev *dev, void *out, const void *in, uint64_t count,
		   uint32_t calls, uint32_t cta_cnt)
{
	many<<<cta_cnt, 256>>>(*dev, (float *)out, (const float *)in, count, calls);
	return (int)cudaGetLastError();
}

int coll_test_spare(uint32_t *word, void *stream)
{
	spare<<<1, 1, 0, (cudaStream_t)stream>>>(word);
	return (int)cudaGetLastError();
}
