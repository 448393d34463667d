/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Polling warps and nothing else: measures how long one turn takes, by what it does. */
#include <cuda_runtime.h>

#include "exec/spwd_order.cuh"

#include "poll_dev.h"

static __global__ void poll_kernel(const uint8_t *mem, struct poll_way way, uint64_t life_ns,
				   uint64_t *ps_out)
{
	__shared__ uint64_t word[2];
	const uint32_t warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
	const uint8_t *at = mem + (uint64_t)blockIdx.x * way.stride + (lane < 31 ? lane * 16 : 0);
	const long long begin = clock64(),
			cycles = (long long)(life_ns * 2); /* at about 2 GHz or less */
	const uint64_t begin_ns = spwd_now_ns();
	uint64_t lo = 0, hi = 0, turns = 0, seen = 0;

	if (threadIdx.x == 0)
		word[0] = word[1] = 0;
	__syncthreads();
	if (warp >=
	    way.pollers) { /* what the executor's workers do while they have nothing to do */
		while (__all_sync(0xffffffffu, spwd_cta_load_acq(&word[0]) == 0))
			if (__all_sync(0xffffffffu, spwd_cta_load_acq(&word[1]) == 1))
				break;
		return;
	}
	while (clock64() - begin < cycles) {
		if (way.timer)
			seen += spwd_now_ns();
		if (lane < way.lanes) {
			if (way.acquire)
				spwd_sys_load_acq2(at, &lo, &hi);
			else
				spwd_sys_load_rlx2(at, &lo, &hi);
		}
		__syncwarp();
		seen += lo + hi;
		turns++;
	}
	if (lane == 0) {
		ps_out[blockIdx.x * way.pollers + warp] =
			(spwd_now_ns() - begin_ns) * 1000 / turns + (seen == 1);
		spwd_cta_store_rel(&word[0], 1);
	}
}

extern "C" int poll_launch(const void *dev_mem, struct poll_way way, uint64_t life_ns,
			   uint64_t *dev_ps, void *stream)
{
	poll_kernel<<<way.ctas, way.warps * 32, 0, (cudaStream_t)stream>>>((const uint8_t *)dev_mem,
									   way, life_ns, dev_ps);
	return (int)cudaGetLastError();
}
