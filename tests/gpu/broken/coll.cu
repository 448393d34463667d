/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * One collective's kernel, from which one ordering of the device code is removed, named by
 * BREAK_...; tests/gpu/check_coll_code looks at the code of each, and must find it.
 *
 *   BREAK_none     nothing: the check must pass, or the others prove nothing
 *   BREAK_post     the post does not release what was staged (CO1)
 *   BREAK_fence    CTAs do not fence their own staging before the last one posts (CO1)
 *   BREAK_poll     flags, acked and gone are not acquired (X1, CO2, CO3)
 *   BREAK_nc       windows are read through the non-coherent path, which may return an old round's
 *                  bytes
 *   BREAK_end      the end does not come after what the round wrote (CO4)
 */
#include "exec/spwd_order.cuh"

/* A release becomes a relaxed store by the name of its word: "&d.words->post[slot]" or
 * "&d.words->failed". */
#if defined(BREAK_post)
#define BROKEN_WORD 'p'
#elif defined(BREAK_end)
#define BROKEN_WORD 'f'
#endif
#ifdef BROKEN_WORD
#define spwd_sys_store_rel(p, v) \
	((#p)[10] == BROKEN_WORD ? spwd_sys_store_rlx(p, v) : spwd_sys_store_rel(p, v))
#endif
#ifdef BREAK_fence
#define spwd_sys_fence() ((void)0)
#endif
#ifdef BREAK_poll
#define spwd_sys_load_acq2 spwd_sys_load_rlx2
#endif
#ifdef BREAK_nc
SPWD void broken_load_16(const void *p, uint32_t *w)
{
	asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
		     : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
		     : "l"(p));
}
#define spwd_load_16 broken_load_16
#endif

#include "coll/spwd_coll.cuh"

__global__ void coll_broken(const __grid_constant__ struct spw_coll_dev dev, void *out,
			    const void *in, uint64_t count)
{
	__shared__ struct spwd_coll coll;

	spwd_coll_begin(&coll, dev, blockIdx.x, gridDim.x);
	spwd_coll_all_gather<SPW_COLL_F32>(&coll, dev, out, in, count);
	spwd_coll_end(&coll, dev);
}
