/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Did this thread lose its core, and for how long? Called by rec.c and slow.c, on the owner.
 *
 * Linux answers the first question without a system call: each thread shares a small struct with
 * the kernel for restartable sequences (rseq(2), registered by glibc 2.35 and later). A thread that
 * is inside such a sequence names it in rseq_cs; when the kernel switches the thread out, or
 * delivers a signal, and finds it outside of the sequence named there, it clears the word. So a
 * word that names a sequence which is never executed is a trap: cleared means that the thread was
 * switched out. An interrupt alone does not clear it, nor does a hypervisor that takes the virtual
 * CPU.
 *
 * Only when the trap was sprung is the kernel asked for the thread's CPU time: what wall time has
 * more since the last question was spent off the core.
 *
 * Source: linux/rseq.h, on rseq_cs: "Can be set to NULL by the kernel ... when [it] detects that it
 * is preempting or delivering a signal outside of the range targeted by the rseq_cs"; its abort
 * address must follow RSEQ_SIG.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "rec/rec_impl.h"

/* ---- the trap ---- */

#if __has_include(<sys/rseq.h>)
#include <sys/rseq.h>

/* The range is one byte of data: no thread ever executes there, so its abort address is never
 * jumped to. */
static const uint32_t signature[2] = {RSEQ_SIG, 0};
static const struct rseq_cs trap = {
	.start_ip = (uintptr_t)&trap,
	.post_commit_offset = 1,
	.abort_ip = (uintptr_t)&signature[1],
};

/* The address of rseq_cs in this thread's struct; NULL if glibc did not register it. */
static uint64_t *trap_word(void)
{
	char *self = (char *)__builtin_thread_pointer() + __rseq_offset;

	return __rseq_size ? (uint64_t *)(self + offsetof(struct rseq, rseq_cs)) : NULL;
}

static uint64_t trap_value(void)
{
	return (uint64_t)(uintptr_t)&trap;
}
#else
static uint64_t *trap_word(void)
{
	return NULL;
}

static uint64_t trap_value(void)
{
	return 0;
}
#endif

/* ---- time off the core ---- */

static uint64_t clock_ns(clockid_t id)
{
	struct timespec ts = {0};

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Ticks since the base in which wall time passed but the thread's CPU time did not; moves the base
 * to now. */
static uint64_t off_core(struct spw_rec_preempt *preempt, uint64_t now)
{
	uint64_t cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID), wall = clock_ns(CLOCK_MONOTONIC_RAW);
	uint64_t wall_ns = wall - preempt->base_wall_ns, cpu_ns = cpu - preempt->base_cpu_ns;
	uint64_t ticks = now - preempt->base_tsc, off_ns = wall_ns > cpu_ns ? wall_ns - cpu_ns : 0;

	preempt->base_tsc = now;
	preempt->base_wall_ns = wall;
	preempt->base_cpu_ns = cpu;
	return wall_ns ? (uint64_t)((double)ticks * (double)off_ns / (double)wall_ns) : 0;
}

/* Takes the base from which time off the core counts, then sets the trap. */
void rec_preempt_begin(struct spw_rec_preempt *preempt)
{
	uint64_t *word = trap_word();

	off_core(preempt, spw_tsc_now());
	if (word)
		spw_thr_store_rel(word, trap_value());
	spw_thr_store_rlx(&preempt->word, word); /* sampled by a reader */
}

void rec_preempt_end(struct spw_rec_preempt *preempt)
{
	if (preempt->word)
		spw_thr_store_rlx(preempt->word, 0);
}

/* Rearms the trap first, then asks for the CPU time: a loss between the two is found by the next
 * check. Without rseq every call pays the two system calls; the caller calls only after a gap. */
bool rec_preempt_check(struct spw_rec_preempt *preempt, uint64_t now, uint64_t *ticks_out)
{
	if (preempt->word) {
		if (spw_thr_load_rlx(preempt->word) == trap_value())
			return false;
		spw_thr_store_rlx(preempt->word, trap_value());
		spw_thr_count(&preempt->cnt, 1);
	}
	*ticks_out = off_core(preempt, now);
	return true;
}

/* The kernel counts a period before it lets the threads go on (Linux kernel/sched/fair.c,
 * do_sched_cfs_period_timer), so a thread that was stopped finds itself counted. */
bool rec_preempt_throttled(struct spw_rec_preempt *preempt)
{
	const uint64_t before = preempt->throttled;
	char text[512];
	ssize_t n = preempt->quota_fd == 0 ? 0
					   : pread(preempt->quota_fd, text, sizeof(text) - 1, 0);
	const char *at;

	text[SPW_MAX(n, 0)] = '\0';
	at = strstr(text, "nr_throttled ");
	if (at)
		preempt->throttled = strtoull(at + strlen("nr_throttled "), NULL, 10);
	return preempt->throttled > before;
}
