/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * ALL memory ordering of spinwire. Nothing outside this file uses volatile, __atomic, barriers or
 * fences (tools/check/tokens enforces it; device code has its own list in exec/spwd_order.cuh).
 *
 * Four scopes are kept apart: they are different instructions on aarch64, and each call names the
 * kind of partner that its line communicates with.
 *
 *   spw_thr_*   two CPU threads                    aarch64: ldar/stlr        x86: plain moves
 *   spw_dma_*   CPU and a device that writes or
 *               reads host memory by DMA           aarch64: dmb osh{ld,st}   x86: compiler only
 *   spw_mmio_*  CPU stores to a device's doorbell  aarch64: dmb osh/dsb st   x86: sfence for WC
 *   spw_gpu_*   CPU and a running GPU kernel over
 *               host memory, "system" scope of
 *               CUDA's memory model                aarch64: ldar/stlr        x86: plain moves
 *
 * Each use carries a label and names its partner, as ring/spw_ring.h does with R1 to R4;
 * docs/040-ordering.md lists all labels. Write for aarch64: x86 hides missing orderings.
 *
 * Sources: C17 7.17.3; Arm ARM B2.3 (DMB: outer-shareable for devices); rdma-core
 * util/udma_barrier.h (names of the DMA cases); CUDA C++ Programming Guide, "Memory Consistency
 * Model" (a C11 atomic of the host and a cuda::thread_scope_system atomic are one domain).
 *
 * ThreadSanitizer does not see stand-alone fences (gcc refuses them there): in its builds a fence
 * between threads is, and a dma or mmio barrier is also, a read-modify-write of one shared word.
 */
#ifndef SPW_BASE_ORDER_H
#define SPW_BASE_ORDER_H

#ifdef __ARM_FEATURE_LS64
#include <arm_acle.h>
#endif

#include "base/spw_types.h"

#if defined(__SANITIZE_THREAD__)
#define SPW_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SPW_TSAN 1
#endif
#endif

/* An edge orders all threads that pass one, and so hides races between them: a build whose devices
 * are not instrumented defines SPW_TSAN_NO_EDGE. */
#if defined(SPW_TSAN) && !defined(SPW_TSAN_NO_EDGE)
extern uint32_t spw_tsan_word;
#define SPW_TSAN_EDGE() ((void)__atomic_fetch_add(&spw_tsan_word, 1u, __ATOMIC_SEQ_CST))
#else
#define SPW_TSAN_EDGE() ((void)0)
#endif

/* ---- two CPU threads ----
 *
 * Thread: any; each call orders the calling thread alone, against the partner that its label
 * names. None of them waits. */

/* Naturally aligned objects of 1, 2, 4 or 8 bytes. */
#define spw_thr_load_acq(p)     __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define spw_thr_store_rel(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
/* No order. The access is not torn and not removed by the compiler: for counters that another
 * thread samples, and for words that only their own thread writes. */
#define spw_thr_load_rlx(p)     __atomic_load_n((p), __ATOMIC_RELAXED)
#define spw_thr_store_rlx(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)
/* For words with several writers, on cold paths only. fetch_add and exchange return the old value;
 * cas returns whether it wrote, and else puts the value it found into *expected_p. */
#define spw_thr_fetch_add(p, v) __atomic_fetch_add((p), (v), __ATOMIC_ACQ_REL)
#define spw_thr_exchange(p, v)  __atomic_exchange_n((p), (v), __ATOMIC_ACQ_REL)
#define spw_thr_cas(p, expected_p, desired)                                                \
	__atomic_compare_exchange_n((p), (expected_p), (desired), false, __ATOMIC_ACQ_REL, \
				    __ATOMIC_ACQUIRE)

/* Single-writer counter: the owner adds, others may sample it with spw_thr_load_rlx. Not a
 * read-modify-write instruction. */
#define spw_thr_count(p, v) spw_thr_store_rlx((p), *(p) + (v))

/* Purpose: orders earlier reads and writes before every later store: for a mark that must be
 *   visible before the stores that it announces (the writer of a seqlock). A release store or an
 *   exchange does not do that: later stores may overtake it.
 * Order: release; the partner reads the announced words, then the mark again.
 * Thread: any. aarch64: dmb ish; x86: compiler only.
 */
SPW_INLINE void spw_thr_release_fence(void)
{
#ifdef SPW_TSAN
	SPW_TSAN_EDGE();
#else
	__atomic_thread_fence(__ATOMIC_RELEASE);
#endif
}

/* ---- CPU and a DMA device ----
 *
 *   receive   NIC: payload, CQE, owner bit last     CPU: spw_dma_load(owner), from_device, the rest
 *   send      CPU: payload, WQE, to_device, record  NIC: reads the record, then the WQE
 *
 * The device is the partner: PCIe and the SoC's fabric keep its posted writes in order.
 * Thread: any; in practice the owner of the queue. */

/* Read an ownership or index word that a device writes. No order by itself. */
#define spw_dma_load(p) __atomic_load_n((p), __ATOMIC_RELAXED)
/* Write a word that a device reads (descriptor, doorbell record). No order by itself. */
#define spw_dma_store(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)

/* Purpose: stands between the load of an ownership word that names the CPU and the loads of what
 *   the device wrote before that word.
 * Order: later loads stay behind the earlier spw_dma_load (M1); the device writes the word last.
 * Thread: any (the owner of the queue).
 */
SPW_INLINE void spw_dma_from_device(void)
{
#if defined(__aarch64__)
	__asm__ __volatile__("dmb oshld" ::: "memory");
#else
	__atomic_signal_fence(__ATOMIC_ACQUIRE); /* x86: loads are not reordered with loads */
#endif
	SPW_TSAN_EDGE();
}

/* Purpose: stands between the stores of descriptors and payload and the store of the doorbell
 *   record: a device that reads the new record also reads the descriptors behind it.
 * Order: earlier stores come before later ones (M2, M3); loads are not ordered. The device reads
 *   the record first.
 * Thread: any (the owner of the queue).
 */
SPW_INLINE void spw_dma_to_device(void)
{
#if defined(__aarch64__)
	__asm__ __volatile__("dmb oshst" ::: "memory");
#else
	__atomic_signal_fence(__ATOMIC_RELEASE); /* x86: stores are not reordered with stores */
#endif
	SPW_TSAN_EDGE();
}

/* ---- CPU stores to a device register ----
 *
 *   doorbell record ─► spw_mmio_wc_start ─► spw_mmio_write64_be ─► spw_mmio_wc_flush
 *
 * A register page is mapped write-combining: stores to it wait in a buffer of the core, in no
 * order with ordinary memory, until they are flushed. The pair start and flush fences them (M4).
 * Thread: any; two threads that share a register need a lock. */

/* Purpose: comes before the first store of a burst to a write-combining page: memory written
 *   earlier is visible to the device before anything that is stored there.
 * Order: M4; the device reads the register, then the record.
 * Thread: any (the owner of the queue).
 */
SPW_INLINE void spw_mmio_wc_start(void)
{
#if defined(__aarch64__)
	__asm__ __volatile__("dmb oshst" ::: "memory");
#elif defined(__x86_64__)
	__asm__ __volatile__("sfence" ::: "memory");
#else
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
	SPW_TSAN_EDGE();
}

/* Purpose: comes after the last store of a burst: the combining buffer drains now, ahead of the
 *   next burst.
 * Order: M4. aarch64: dsb st completes the stores; x86: sfence.
 * Thread: any (the owner of the queue).
 */
SPW_INLINE void spw_mmio_wc_flush(void)
{
#if defined(__aarch64__)
	__asm__ __volatile__("dsb st" ::: "memory");
#elif defined(__x86_64__)
	__asm__ __volatile__("sfence" ::: "memory");
#else
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

/* Purpose: one 8-byte store to a register, not torn.
 * Shape: reg is 8-byte aligned and mapped from the device; v is in the device's byte order.
 * Order: none by itself: between spw_mmio_wc_start and spw_mmio_wc_flush.
 * Thread: any (the owner of the queue).
 */
SPW_INLINE void spw_mmio_write64_be(void *reg, spw_be64 v)
{
	__atomic_store_n((uint64_t *)reg, (SPW_FORCE uint64_t)v, __ATOMIC_RELAXED);
}

/* Purpose: copies 64 bytes to a write-combining register so that they can leave as one write: all
 *   loads first, then nothing but stores in ascending order. A load between the stores makes most
 *   aarch64 cores flush the combining buffer, and the bytes then leave as several writes. aarch64:
 *   ST64B where the compiler may assume it, else four 16-byte stores.
 * Shape: reg is 64-byte aligned and mapped from the device; src is 8-byte aligned.
 * Order: none by itself: between spw_mmio_wc_start and spw_mmio_wc_flush.
 * Thread: any (the owner of the queue).
 * Source: Linux commit "arm64/io: Provide a WC friendly __iowriteXX_copy()"; rdma-core util/mmio.h.
 */
SPW_INLINE void spw_mmio_wc_copy64(void *reg, const void *src)
{
	/* By words, as they were stored: a wider load would have to wait for the store buffer. */
#define SPW_W(i) __atomic_load_n((const uint64_t *)src + (i), __ATOMIC_RELAXED)
	const uint64_t a = SPW_W(0), b = SPW_W(1), c = SPW_W(2), d = SPW_W(3);
	const uint64_t e = SPW_W(4), f = SPW_W(5), g = SPW_W(6), h = SPW_W(7);
#undef SPW_W

#if defined(SPW_TSAN) || !(defined(__aarch64__) || defined(__x86_64__))
	const uint64_t w[] = {a, b, c, d, e, f, g, h};

	for (unsigned int i = 0; i < 8; i++)
		__atomic_store_n((uint64_t *)reg + i, w[i], __ATOMIC_RELAXED);
#elif defined(__ARM_FEATURE_LS64)
	__arm_st64b(reg, (data512_t){{a, b, c, d, e, f, g, h}});
#elif defined(__aarch64__)
	__asm__ __volatile__("stp %1, %2, [%0]\n\tstp %3, %4, [%0, #16]\n\t"
			     "stp %5, %6, [%0, #32]\n\tstp %7, %8, [%0, #48]" ::"r"(reg),
			     "r"(a), "r"(b), "r"(c), "r"(d), "r"(e), "r"(f), "r"(g), "r"(h)
			     : "memory");
#else
	__asm__ __volatile__("movq %1, (%0)\n\tmovq %2, 8(%0)\n\tmovq %3, 16(%0)\n\t"
			     "movq %4, 24(%0)\n\tmovq %5, 32(%0)\n\tmovq %6, 40(%0)\n\t"
			     "movq %7, 48(%0)\n\tmovq %8, 56(%0)" ::"r"(reg),
			     "r"(a), "r"(b), "r"(c), "r"(d), "r"(e), "r"(f), "r"(g), "r"(h)
			     : "memory");
#endif
}

/* ---- CPU and a running GPU kernel ----
 *
 * Host side of words shared with a kernel at system scope; 8-byte aligned host memory that the GPU
 * maps. acq and rel pair with an ld.acquire.sys or st.release.sys of device code, which each use
 * names; rlx orders nothing, and is for words whose tag proves by itself that they are new.
 * Thread: any; the ring's owner, or the CPU executor that stands in for the kernel. */

SPW_INLINE uint64_t spw_gpu_load_acq64(const uint64_t *p)
{
	return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

SPW_INLINE uint64_t spw_gpu_load_rlx64(const uint64_t *p)
{
	return __atomic_load_n(p, __ATOMIC_RELAXED);
}

SPW_INLINE void spw_gpu_store_rel64(uint64_t *p, uint64_t v)
{
	__atomic_store_n(p, v, __ATOMIC_RELEASE);
}

SPW_INLINE void spw_gpu_store_rlx64(uint64_t *p, uint64_t v)
{
	__atomic_store_n(p, v, __ATOMIC_RELAXED);
}

/* ---- the constant-rate counter ---- */

/* Purpose: TSC or cntvct_el0. Not serialising: the CPU may read it some tens of instructions early
 *   or late.
 * Thread: any.
 */
SPW_INLINE uint64_t spw_cpu_counter(void)
{
#if defined(__aarch64__)
	uint64_t v;

	__asm__ __volatile__("mrs %0, cntvct_el0" : "=r"(v));
	return v;
#elif defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#else
#error "no constant-rate counter known for this CPU"
#endif
}

/* Purpose: the same, not before the loads that decided that it is read: the stamp of an event that
 *   a load has shown. An earlier reading would be off by as much as the load's cache miss or page
 *   walk took.
 * Order: a branch must lie between load and call: on Arm the ISB waits for that branch.
 * Thread: any.
 */
SPW_INLINE uint64_t spw_cpu_counter_after(void)
{
#if defined(__aarch64__)
	__asm__ __volatile__("isb" ::: "memory");
#else
	__builtin_ia32_lfence();
#endif
	return spw_cpu_counter();
}

/* Purpose: the same, read after all earlier loads of this thread have completed and before any
 *   later one.
 * Thread: any.
 */
SPW_INLINE uint64_t spw_cpu_counter_ordered(void)
{
#if defined(__aarch64__)
	uint64_t v;

	/* An ISB alone does not wait for a load that no branch depends on. */
	__asm__ __volatile__("dsb ld\n\tisb\n\tmrs %0, cntvct_el0\n\tisb" : "=r"(v)::"memory");
	return v;
#else
	uint64_t v;

	__builtin_ia32_lfence();
	v = __builtin_ia32_rdtsc();
	__builtin_ia32_lfence();
	return v;
#endif
}

/* Purpose: its rate in Hz where the architecture defines it (aarch64), else 0.
 * Thread: any.
 */
SPW_INLINE uint64_t spw_cpu_counter_hz(void)
{
#if defined(__aarch64__)
	uint64_t v;

	__asm__ __volatile__("mrs %0, cntfrq_el0" : "=r"(v));
	return v;
#else
	return 0;
#endif
}

/* ---- waiting ---- */

/* Purpose: to be called once in each turn of a spin loop: saves power and the sibling thread's
 *   cycles.
 * Thread: any.
 */
SPW_INLINE void spw_cpu_relax(void)
{
#if defined(__aarch64__)
	__asm__ __volatile__("isb" ::: "memory"); /* yield is a no-op on Neoverse and Cortex-X */
#elif defined(__x86_64__)
	__builtin_ia32_pause();
#else
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
#endif
}

/* Purpose: a load of its own, which the compiler does not join with others to a longer one; it may
 * still leave it out. Orders nothing.
 * Thread: owner.
 */
SPW_INLINE uint64_t spw_load_alone64(const uint64_t *p)
{
	uint64_t v = *p;

	__asm__("" : "+r"(v));
	return v;
}

/* Purpose: brings a line into this core's cache, for reading or for writing.
 * Shape: any address; one that is not mapped has no effect.
 * Thread: any.
 */
SPW_INLINE void spw_prefetch_read(const void *p)
{
	__builtin_prefetch(p, 0, 3);
}
/* Thread: any. As spw_prefetch_read, for a line that will be written. */
SPW_INLINE void spw_prefetch_write(const void *p)
{
	__builtin_prefetch(p, 1, 3);
}

#endif
