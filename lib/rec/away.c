/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Was this thread's core taken? Linux tells without a system call: each thread shares a small struct with the kernel for
 * restartable sequences (rseq(2), registered by glibc 2.35 and later). A thread that is inside such a sequence names it
 * in rseq_cs; when the kernel switches the thread out, or delivers a signal, and finds it outside of the sequence named
 * there, it clears the word. So a word that names a sequence which is never executed is a trap: cleared means "you were
 * switched out". An interrupt alone does not clear it, nor does a hypervisor that takes the virtual CPU.
 *
 * Source: linux/rseq.h, on rseq_cs: "Can be set to NULL by the kernel ... when [it] detects that it is preempting or
 * delivering a signal outside of the range targeted by the rseq_cs"; its abort address must follow RSEQ_SIG.
 */
#include "rec/rec_impl.h"

#if __has_include(<sys/rseq.h>)
#include <sys/rseq.h>

/* The range is one byte of data: no thread ever executes there, so its abort address is never jumped to. */
static const uint32_t signature[2] = {RSEQ_SIG, 0};
static const struct rseq_cs trap = {
        .start_ip = (uintptr_t)&trap,
        .post_commit_offset = 1,
        .abort_ip = (uintptr_t)&signature[1],
};

static uint64_t trap_value(void)
{
	return (uint64_t)(uintptr_t)&trap;
}

uint64_t *rec_away_set(void)
{
	struct rseq *self = (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
	uint64_t *word = (uint64_t *)((char *)self + offsetof(struct rseq, rseq_cs));

	if (__rseq_size == 0)
		return NULL;
	spw_thr_store_rel(word, trap_value());
	return word;
}

bool rec_away_look(uint64_t *word)
{
	if (spw_likely(spw_thr_load_rlx(word) == trap_value()))
		return false;
	spw_thr_store_rlx(word, trap_value());
	return true;
}

void rec_away_clear(uint64_t *word)
{
	if (word)
		spw_thr_store_rlx(word, 0);
}
#else
uint64_t *rec_away_set(void)
{
	return NULL;
}

bool rec_away_look(uint64_t *word)
{
	(void)word;
	return false;
}

void rec_away_clear(uint64_t *word)
{
	(void)word;
}
#endif
