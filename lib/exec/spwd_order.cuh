/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * ALL ordering and all special loads and stores of device code: the partner of base/spw_order.h.
 * Nothing else in device code uses asm, volatile or fences.
 *
 *   spwd_load_*   bytes of a frame: weak loads that bypass L1 where they can
 *   spwd_sys_*    words shared with the host: system scope
 *   spwd_cta_*    words in shared memory, between the warps of a CTA
 *
 * spwd_load_* is never ld.global.nc: asm states the instruction, so that no version of the compiler
 * may turn it into the non-coherent one.
 *
 * What it needs, by PTX ISA's notes at each instruction (.target, version):
 *
 *   sm_70, 6.0   ld.acquire, ld.relaxed, st.release, st.relaxed, fence, atom.acq_rel with a scope
 *   sm_70, 7.4   ld.global.L1::no_allocate; nanosleep (6.3)
 *   sm_80, 7.0   redux.sync; below, lanes exchange values
 *   sm_90, 7.8   mbarrier.try_wait, griddepcontrol; below, warps poll, and kernels do not overlap
 *
 * So it compiles for sm_75 and later, with nvcc 12.0 (PTX 8.0) and later.
 *
 * Sources: PTX ISA, "Memory Consistency Model" and "ld"; CUDA C++ Programming Guide, memory fence
 * functions. */
#ifndef SPWD_ORDER_CUH
#define SPWD_ORDER_CUH

#include <stdint.h>

#define SPWD static __device__ __forceinline__

/* Whether a CTA's warps can be suspended until a gate opens, and a kernel be brought to the GPU
 * before the one that it follows has ended: from sm_90. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define SPWD_HOPPER 1
#else
#define SPWD_HOPPER 0
#endif

#define SPWD_NAP_NS 100u /* between two polls of a gate; the hardware takes up to twice as long */

/* ---- bytes of a frame ---- */

SPWD uint32_t spwd_load_u8(const void *p)
{
	uint32_t v;

	asm volatile("ld.global.u8 %0, [%1];" : "=r"(v) : "l"(p));
	return v;
}

SPWD uint32_t spwd_load_u32(const void *p)
{
	uint32_t v;

	asm volatile("ld.global.u32 %0, [%1];" : "=r"(v) : "l"(p));
	return v;
}

/* p is a multiple of 16. */
SPWD void spwd_load_16(const void *p, uint32_t *w)
{
	asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
		     : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
		     : "l"(p));
}

/* The same where wanted is not 0; w is left as it is where it is. No branch, so that several stay
 * in flight. */
SPWD void spwd_load_16_if(uint32_t wanted, const void *p, uint32_t *w)
{
	asm volatile("{\n .reg .pred p;\n setp.ne.u32 p, %5, 0;\n"
		     " @p ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];\n}"
		     : "+r"(w[0]), "+r"(w[1]), "+r"(w[2]), "+r"(w[3])
		     : "l"(p), "r"(wanted));
}

/* Keeps bytes [lo, lo + len) of a cell and clears the others. */
SPWD void spwd_cell_clear(uint32_t *w, uint32_t lo, uint32_t len)
{
#pragma unroll
	for (int i = 0; i < 4; i++) {
		int from = (int)lo - 4 * i, to = from + (int)len;

		from = from < 0 ? 0 : from > 4 ? 4 : from;
		to = to < 0 ? 0 : to > 4 ? 4 : to;
		w[i] &= (uint32_t)(0xffffffffull << (8 * from)) &
			(uint32_t)(0xffffffffull >> (8 * (4 - to)));
	}
}

/* Bytes 4 * lane .. 4 * lane + 3 of a frame, 0 past its end. */
SPWD uint32_t spwd_window_word(const uint8_t *addr, uint32_t len, uint32_t lane)
{
	uint32_t at = 4 * lane, v = 0, n = at < len ? len - at : 0;

	if (n >= 4 && ((uintptr_t)addr & 3) == 0)
		return spwd_load_u32(addr + at);
#pragma unroll
	for (uint32_t i = 0; i < 4; i++)
		if (i < n)
			v |= spwd_load_u8(addr + at + i) << (8 * i);
	return v;
}

SPWD void spwd_store_u8(void *p, uint32_t v)
{
	asm volatile("st.global.u8 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

/* p is a multiple of 16. */
SPWD void spwd_store_16(void *p, const uint32_t *w)
{
	asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(w[0]), "r"(w[1]),
		     "r"(w[2]), "r"(w[3])
		     : "memory");
}

/* ---- words shared with the host ---- */

/* Two tagged words; each is whole and each acquires. Partner: spw_gpu_store_rel64 in gring.c (G1).
 */
SPWD void spwd_sys_load_acq2(const void *p, uint64_t *lo, uint64_t *hi)
{
	asm volatile("ld.acquire.sys.global.v2.u64 {%0, %1}, [%2];"
		     : "=l"(*lo), "=l"(*hi)
		     : "l"(p)
		     : "memory");
}

/* The same without order, for entries that an acquired one vouches for: several may be in flight.
 */
SPWD void spwd_sys_load_rlx2(const void *p, uint64_t *lo, uint64_t *hi)
{
	asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
		     : "=l"(*lo), "=l"(*hi)
		     : "l"(p)
		     : "memory");
}

/* Partner: spw_gpu_load_acq64 in gring.c (G2) and pause.c (G6). */
SPWD void spwd_sys_store_rlx(uint64_t *p, uint64_t v)
{
	asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}

/* Partner: take_post in coll/proxy.c (CO1), coll_ended in coll/end.c (CO4). */
SPWD void spwd_sys_store_rel(uint64_t *p, uint64_t v)
{
	asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}

/* Writes of this CTA's warps that this thread has acquired reach host and NIC before its next
 * stores (G2, echo). */
SPWD void spwd_sys_fence(void)
{
	asm volatile("fence.acq_rel.sys;" ::: "memory");
}

/* ---- between CTAs, in device memory ---- */

SPWD void spwd_gpu_store_rlx(uint64_t *p, uint64_t v)
{
	asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}

SPWD void spwd_gpu_store_rel(uint64_t *p, uint64_t v)
{
	asm volatile("st.release.gpu.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}

SPWD uint64_t spwd_gpu_load_acq(const uint64_t *p)
{
	uint64_t v;

	asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
	return v;
}

/* Nobody waits for the sum: a reduction, which the L2 cache does. */
SPWD void spwd_gpu_add_rlx(uint64_t *p, uint64_t v)
{
	asm volatile("red.relaxed.gpu.global.add.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}

/* Returns the old value; who reads the sum has acquired what each that added did before. */
SPWD uint64_t spwd_gpu_add(uint64_t *p, uint64_t v)
{
	uint64_t old;

	asm volatile("atom.acq_rel.gpu.global.add.u64 %0, [%1], %2;"
		     : "=l"(old)
		     : "l"(p), "l"(v)
		     : "memory");
	return old;
}

/* ---- between the warps of a CTA ---- */

SPWD uint32_t spwd_shared_addr(const void *p)
{
	return (uint32_t)__cvta_generic_to_shared(p);
}

SPWD uint64_t spwd_cta_load_acq(const uint64_t *p)
{
	uint64_t v;

	asm volatile("ld.acquire.cta.shared.u64 %0, [%1];"
		     : "=l"(v)
		     : "r"(spwd_shared_addr(p))
		     : "memory");
	return v;
}

SPWD void spwd_cta_store_rel(uint64_t *p, uint64_t v)
{
	asm volatile("st.release.cta.shared.u64 [%0], %1;" ::"r"(spwd_shared_addr(p)), "l"(v)
		     : "memory");
}

/* Returns the old value; releases what was done before to every thread that reads the sum. */
SPWD uint32_t spwd_cta_add(uint32_t *p, uint32_t v)
{
	uint32_t old;

	asm volatile("atom.acq_rel.cta.shared.add.u32 %0, [%1], %2;"
		     : "=r"(old)
		     : "r"(spwd_shared_addr(p)), "r"(v)
		     : "memory");
	return old;
}

SPWD uint32_t spwd_cta_load_acq32(const uint32_t *p)
{
	uint32_t v;

	asm volatile("ld.acquire.cta.shared.u32 %0, [%1];"
		     : "=r"(v)
		     : "r"(spwd_shared_addr(p))
		     : "memory");
	return v;
}

SPWD uint64_t spwd_cta_cas(uint64_t *p, uint64_t expected, uint64_t desired)
{
	uint64_t old;

	asm volatile("atom.acq_rel.cta.shared.cas.b64 %0, [%1], %2, %3;"
		     : "=l"(old)
		     : "r"(spwd_shared_addr(p)), "l"(expected), "l"(desired)
		     : "memory");
	return old;
}

/* A word that warps wait for without taking the others' time: spinning workers would slow the one
 * warp that has work. One opening completes a phase; phases are numbered from 0. Opening releases,
 * waiting acquires.
 *
 *   sm_90   an mbarrier for one arrival, which suspends who waits and knows a phase by its parity
 *   below   the number of completed phases, polled with naps: no phase is missed in a nap */
SPWD void spwd_gate_init(uint64_t *gate)
{
#if SPWD_HOPPER
	asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(spwd_shared_addr(gate)) : "memory");
#else
	*(uint32_t *)gate = 0;
#endif
}

SPWD void spwd_gate_open(uint64_t *gate)
{
#if SPWD_HOPPER
	asm volatile("{\n .reg .b64 t;\n mbarrier.arrive.shared.b64 t, [%0];\n}" ::"r"(
			     spwd_shared_addr(gate))
		     : "memory");
#else
	spwd_cta_add((uint32_t *)gate, 1);
#endif
}

/* Returns whether the phase is complete; waits for it a while. */
SPWD bool spwd_gate_try(uint64_t *gate, uint64_t phase)
{
	uint32_t ok;

#if SPWD_HOPPER
	asm volatile("{\n .reg .pred p;\n mbarrier.try_wait.parity.shared.b64 p, [%1], %2;\n "
		     "selp.u32 %0, 1, 0, p;\n}"
		     : "=r"(ok)
		     : "r"(spwd_shared_addr(gate)), "r"((uint32_t)(phase & 1))
		     : "memory");
#else
	ok = (int32_t)(spwd_cta_load_acq32((const uint32_t *)gate) - (uint32_t)phase) > 0;
	if (!ok)
		asm volatile("nanosleep.u32 %0;" ::"n"(SPWD_NAP_NS));
#endif
	return ok != 0;
}

/* Barrier id over the first threads that name it; a multiple of 32. */
SPWD void spwd_bar_sync(uint32_t id, uint32_t threads)
{
	asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/* ---- from one kernel of a stream to the next ---- */

/* A kernel that was brought to the GPU early goes on when those before it have ended and their
 * writes are visible to it. Returns at once in one that was not: below sm_90 none may be. */
SPWD void spwd_grid_wait(void)
{
#if SPWD_HOPPER
	asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* The next kernel of the stream may be brought to the GPU, when every CTA has said so or ended. */
SPWD void spwd_grid_let_next(void)
{
#if SPWD_HOPPER
	asm volatile("griddepcontrol.launch_dependents;");
#endif
}

/* ---- clocks and lanes ---- */

/* ns, one clock for the whole device; its steps differ by GPU (32 ns on an H100). */
SPWD uint64_t spwd_now_ns(void)
{
	uint64_t v;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(v)::"memory");
	return v;
}

/* bar: a hardware barrier of the lanes' own; a single warp needs none. */
SPWD void spwd_lanes_sync(uint32_t cnt, uint32_t bar)
{
	if (cnt <= 32)
		__syncwarp();
	else
		spwd_bar_sync(bar, cnt);
}

/* The greatest of the values of a warp's lanes. */
SPWD uint32_t spwd_warp_max(uint32_t v)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
	return __reduce_max_sync(0xffffffffu, v);
#else
	for (uint32_t d = 16; d; d >>= 1) {
		uint32_t other = __shfl_xor_sync(0xffffffffu, v, d);

		v = other > v ? other : v;
	}
	return v;
#endif
}

/* Combines the values of a warp's lanes; op: 0 sum, 1 exclusive or. */
template <int OP> SPWD uint64_t spwd_warp_reduce(uint64_t v)
{
	for (uint32_t d = 16; d; d >>= 1) {
		uint64_t other = __shfl_xor_sync(0xffffffffu, v, d);

		v = OP ? v ^ other : v + other;
	}
	return v;
}

/* Combines the values of all lanes; scratch has a word for each of their warps, 31 at most. */
template <int OP>
SPWD uint64_t spwd_lanes_reduce(uint32_t idx, uint32_t cnt, uint32_t bar, uint64_t *scratch,
				uint64_t v)
{
	uint32_t lane = idx & 31;

	v = spwd_warp_reduce<OP>(v);
	if (cnt <= 32)
		return v;
	if (lane == 0)
		scratch[idx >> 5] = v;
	spwd_bar_sync(bar, cnt);
	v = spwd_warp_reduce<OP>(lane < cnt >> 5 ? scratch[lane] : 0);
	spwd_bar_sync(bar, cnt); /* scratch is free again */
	return v;
}

#endif
