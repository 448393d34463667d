/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Kernels that bench_handoff.c compares the executors with. All return a cudaError_t as int; every
 * kernel is bounded in time by the device's clock. */
#ifndef SPW_BENCH_HANDOFF_DEV_H
#define SPW_BENCH_HANDOFF_DEV_H

#include "base/spw_types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct handoff_ping {
	uint64_t ask, unused;
	uint64_t answer SPW_ALIGNED(128);
} SPW_ALIGNED(128);

/* Purpose: answers ask with the same number until it is ~0 or life_ns is over: two warps poll,
 * relaxed store, no fence. */
int handoff_ping_launch(struct handoff_ping *dev, uint64_t life_ns, void *stream);

/* What handoff_read_launch reads: in round r, bytes from dev_src + r % places * stride on. */
struct handoff_read {
	uint64_t dev_src; /* the device's address */
	uint64_t bytes, stride;
	uint32_t places, rounds;
};

/* Purpose: reads it with ctas CTAs of 1024 threads, round after round (each CTA its own share,
 * eight loads of 16 bytes in flight per thread). dev_ns_out (mapped memory): ns that CTA 0 took for
 * all.
 */
int handoff_read_launch(const struct handoff_read *read, uint32_t ctas, uint64_t *dev_ns_out,
			void *stream);

/* Purpose: the baseline's kernel: sum of bytes at src to dev_sum_out (mapped; several CTAs add up
 * in dev_scratch). */
int handoff_sum_launch(const void *dev_src, uint64_t bytes, uint64_t *dev_scratch,
		       uint64_t *dev_sum_out, void *stream);

#ifdef __cplusplus
}
#endif
#endif
