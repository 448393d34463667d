/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Reads the device's clock for cuda.c: a one-thread kernel answers the host's words with its global
 * timer. */
#include <cuda_runtime.h>

#include "exec/cuda/clock.h"
#include "exec/spwd_order.cuh"

/* Bounded: ends after the last answer, or after 20 ms without a new question. */
static __global__ void spwd_clock(struct spw_clock_words *words)
{
	uint64_t asked, unused, begin = spwd_now_ns(), now = begin, step = ~0ull, last = begin;

	for (uint32_t i = 0; i < 4096;
	     i++) { /* the timer's step: the smallest distance of two readings */
		now = spwd_now_ns();
		if (now != last)
			step = now - last < step ? now - last : step;
		last = now;
	}
	spwd_sys_store_rlx(&words->step_ns, step);
	for (uint64_t i = 1; i <= SPW_CLOCK_ROUNDS; i++) {
		do {
			spwd_sys_load_acq2(&words->asked, &asked, &unused);
			now = spwd_now_ns();
			if (now > last + 20000000ull)
				return;
		} while (asked < i);
		last = now;
		spwd_sys_store_rlx(&words->answer, now);
		spwd_sys_fence(); /* the answer is there before its number is */
		spwd_sys_store_rlx(&words->answered, i);
	}
}

extern "C" int spw_cuda_clock_load(void)
{
	struct cudaFuncAttributes attr;

	return (int)cudaFuncGetAttributes(&attr, spwd_clock);
}

extern "C" int spw_cuda_clock_launch(struct spw_clock_words *dev_words, void *stream)
{
	spwd_clock<<<1, 1, 0, (cudaStream_t)stream>>>(dev_words);
	return (int)cudaGetLastError();
}
