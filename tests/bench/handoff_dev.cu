/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#include <cuda_runtime.h>

#include "exec/spw_handler.h"
#include "exec/spwd_order.cuh"

#include "handoff_dev.h"

static __global__ void ping_kernel(struct handoff_ping *p, uint64_t life_ns)
{
	const uint64_t begin = spwd_now_ns();
	uint64_t ask = 0, unused, last = 0;

	if (threadIdx.x & 31)
		return;
	for (uint32_t spins = 0;; spins++) {
		spwd_sys_load_acq2(&p->ask, &ask, &unused);
		if (ask == ~0ull)
			return;
		if (ask != last) {
			spwd_sys_store_rlx(&p->answer, ask);
			last = ask;
		}
		if ((spins & 255) == 0 && spwd_now_ns() > begin + life_ns)
			return;
	}
}

extern "C" int handoff_ping_launch(struct handoff_ping *dev, uint64_t life_ns, void *stream)
{
	ping_kernel<<<1, 64, 0, (cudaStream_t)stream>>>(dev, life_ns);
	return (int)cudaGetLastError();
}

static __device__ __forceinline__ uint64_t sum_share(const uint8_t *src, uint64_t bytes)
{
	const uint64_t cells = bytes / 16, all = (uint64_t)gridDim.x * blockDim.x;
	uint64_t sum = 0, at = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
	uint32_t w[8][4];

	for (; at < cells; at += 8 * all) {
#pragma unroll
		for (int i = 0; i < 8; i++)
			if (at + i * all < cells)
				spwd_load_16(src + 16 * (at + i * all), w[i]);
			else
				w[i][0] = w[i][1] = w[i][2] = w[i][3] = 0;
#pragma unroll
		for (int i = 0; i < 8; i++)
			for (int k = 0; k < 4; k++)
				sum = spw_bytes_sum4(w[i][k], sum);
	}
	at = 16 * cells + (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
	return at < bytes ? sum + spwd_load_u8(src + at) : sum;
}

static __global__ void __launch_bounds__(1024, 1)
	read_kernel(const uint8_t *src, uint64_t bytes, uint64_t stride, uint32_t places,
		    uint32_t rounds, uint64_t *ns_out)
{
	const uint64_t begin = spwd_now_ns();
	uint64_t sum = 0;

	for (uint32_t r = 0; r < rounds; r++) {
		sum += sum_share(src + r % places * stride, bytes);
		/* All loads of a round are over before the next one begins. */
		if (__syncthreads_or(sum == ~0ull))
			return;
	}
	if (blockIdx.x == 0 && threadIdx.x == 0)
		spwd_sys_store_rlx(ns_out, spwd_now_ns() - begin);
}

extern "C" int handoff_read_launch(const struct handoff_read *read, uint32_t ctas,
				   uint64_t *dev_ns_out, void *stream)
{
	read_kernel<<<ctas, 1024, 0, (cudaStream_t)stream>>>(
		(const uint8_t *)read->dev_src, read->bytes, read->stride, read->places,
		read->rounds, dev_ns_out);
	return (int)cudaGetLastError();
}

static __global__ void sum_kernel(const uint8_t *src, uint64_t bytes, unsigned long long *scratch,
				  uint64_t *sum_out)
{
	uint64_t sum = sum_share(src, bytes);
	__shared__ unsigned long long total;

	if (threadIdx.x == 0)
		total = 0;
	__syncthreads();
	for (uint32_t d = 16; d; d >>= 1)
		sum += __shfl_xor_sync(0xffffffffu, sum, d);
	if ((threadIdx.x & 31) == 0)
		atomicAdd(&total, sum);
	__syncthreads();
	if (threadIdx.x == 0) {
		atomicAdd(&scratch[0], total);
		spwd_sys_fence();
		if (atomicAdd(&scratch[1], 1ull) + 1 == gridDim.x) {
			spwd_sys_store_rlx(sum_out, atomicExch(&scratch[0], 0ull));
			scratch[1] = 0;
		}
	}
}

extern "C" int handoff_sum_launch(const void *dev_src, uint64_t bytes, uint64_t *dev_scratch,
				  uint64_t *dev_sum_out, void *stream)
{
	const uint64_t wanted = (bytes + 32767) / 32768;
	const uint32_t ctas = wanted < 1 ? 1 : wanted > 64 ? 64 : (uint32_t)wanted;

	sum_kernel<<<ctas, 256, 0, (cudaStream_t)stream>>>(
		(const uint8_t *)dev_src, bytes, (unsigned long long *)dev_scratch, dev_sum_out);
	return (int)cudaGetLastError();
}
