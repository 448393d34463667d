/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The cpu executor: one thread per ring polls the descriptors and writes completions, as a resident
 * kernel would. exec.c calls it through spw_exec_cpu_ops; the batch itself is spw_exec_run_one.
 *
 * Before changing the stop: the thread polls the ring once more after it has acquired the stop word
 * (C1), so that everything pushed before the stop is executed. A handler that does not return
 * cannot be ended; then stop returns -EBUSY and nothing may be freed.
 *
 * One turn of a thread, and what it learns from it:
 *
 *   ──now──[ poll: no batch ]──now──[ poll: batch ─ handler ─ completion ]──now──
 *          └ longer than SPW_PAUSE_NS between two polls: the thread lost its core; a pause
 *
 * The handler's run time is excluded by reading the clock again after it. A thread that is bound to
 * a core of its own spins; an unbound one yields after IDLE_SPINS empty polls.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/spw_err.h"
#include "base/spw_monotonic.h"
#include "exec/exec.h"

/* Empty polls after which a thread that is not bound to a core yields it: with few cores the owner
 * may need this one. */
#define IDLE_SPINS 1024u

enum cpu_stop { CPU_RUN, CPU_STOP_EMPTY, CPU_STOP_NOW };

struct cpu_thread {
	struct spw_exec *exec;
	pthread_t thread;
	uint32_t stop; /* enum cpu_stop */
	uint16_t ring;
	bool running;
	bool pinned;
} SPW_ALIGNED(2 * SPW_CACHE_LINE);

/* last is the moment at which the thread was certainly running for the last time. */
static void *cpu_main(void *arg)
{
	struct cpu_thread *t = arg;
	struct spw_gring *ring = &t->exec->ring[t->ring];
	struct spw_exec_cpu_unit *unit = &t->exec->unit[t->ring];
	uint64_t pause = spw_tsc_from_ns(&t->exec->tsc, SPW_PAUSE_NS), last = spw_tsc_now(), now;
	uint32_t idle = 0, stop;

	for (;; last = now) {
		/* [C1 acquire, pairs with cpu_stop: what was pushed before the stop is found by
		 * the poll below] */
		stop = spw_thr_load_acq(&t->stop);
		if (stop == CPU_STOP_NOW)
			break;
		now = spw_tsc_now();
		if (spw_unlikely(now - last > pause))
			spw_pause_add(ring->pauses, last, now);
		if (spw_exec_run_one(ring, unit, 0)) {
			now = spw_tsc_now(); /* a handler's run time is not a pause */
			idle = 0;
			continue;
		}
		if (stop == CPU_STOP_EMPTY)
			break;
		spw_cpu_relax();
		if (++idle > IDLE_SPINS && !t->pinned)
			sched_yield();
	}
	return NULL;
}

static int cpu_open(struct spw_exec *exec)
{
	struct cpu_thread *t;

	exec->unit_cnt = 1;
	exec->clock_hz = exec->tsc.hz;
	t = aligned_alloc(2 * SPW_CACHE_LINE, exec->conf.ring_cnt * sizeof(*t));
	if (!t)
		return spw_err(ENOMEM, "executor cpu: no memory for %u threads",
			       exec->conf.ring_cnt);
	memset(t, 0, exec->conf.ring_cnt * sizeof(*t));
	for (uint16_t r = 0; r < exec->conf.ring_cnt; r++) {
		t[r].exec = exec;
		t[r].ring = r;
		t[r].pinned = exec->conf.cpu && exec->conf.cpu[r] >= 0;
	}
	exec->backend = t;
	return 0;
}

/* Binds the thread to its core before it runs. */
static int cpu_pin(pthread_attr_t *attr, int cpu)
{
	cpu_set_t set;

	if (cpu >= CPU_SETSIZE)
		return EINVAL;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return pthread_attr_setaffinity_np(attr, sizeof(set), &set);
}

static int cpu_start_one(struct spw_exec *exec, struct cpu_thread *t)
{
	int cpu = t->pinned ? exec->conf.cpu[t->ring] : -1, rc;
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	rc = t->pinned ? cpu_pin(&attr, cpu) : 0;
	spw_thr_store_rel(&t->stop, CPU_RUN);
	if (!rc)
		rc = pthread_create(&t->thread, &attr, cpu_main, t);
	pthread_attr_destroy(&attr);
	if (rc)
		return spw_err(rc, "executor cpu: thread of ring %u on core %d: %s", t->ring, cpu,
			       strerror(rc));
	t->running = true;
	pthread_setname_np(t->thread, "spw-exec");
	return 0;
}

/* Polls for the thread's end: pthread_timedjoin_np(3) uses the wall clock, which may be set
 * meanwhile, and ThreadSanitizer does not know pthread_clockjoin_np(3). */
static void cpu_join(struct cpu_thread *t, uint64_t until_ms)
{
	const struct timespec nap = {.tv_nsec = 100000};

	while (t->running && pthread_tryjoin_np(t->thread, NULL)) {
		if (spw_monotonic_ms() >= until_ms)
			return;
		nanosleep(&nap, NULL);
	}
	t->running = false;
}

/* Makes all threads end in that way and waits for them. Returns the number that still run. */
static uint32_t cpu_end(struct spw_exec *exec, enum cpu_stop how, uint32_t timeout_ms)
{
	const uint64_t until_ms = spw_monotonic_ms() + timeout_ms;
	struct cpu_thread *t = exec->backend;
	uint32_t left = 0;

	for (uint16_t r = 0; r < exec->conf.ring_cnt; r++)
		spw_thr_store_rel(&t[r].stop, (uint32_t)how); /* [C1 release] */
	for (uint16_t r = 0; r < exec->conf.ring_cnt; r++) {
		cpu_join(&t[r], until_ms);
		left += t[r].running;
	}
	return left;
}

/* First "leave when the ring is empty"; what does not end in time is asked to leave after its
 * present batch. A handler that never returns holds the memory: -EBUSY. */
static int cpu_stop(struct spw_exec *exec, uint32_t timeout_ms)
{
	const struct cpu_thread *t = exec->backend;

	if (!cpu_end(exec, CPU_STOP_EMPTY, timeout_ms))
		return 0;
	if (!cpu_end(exec, CPU_STOP_NOW, SPW_MIN(timeout_ms, 1000u)))
		return spw_err(ETIME, "executor cpu: stopped with batches undone");
	while (!t->running)
		t++;
	return spw_err(EBUSY, "executor cpu: handler %s does not return",
		       spw_exec_handler(exec, t->ring)->name);
}

static int cpu_start(struct spw_exec *exec)
{
	struct cpu_thread *t = exec->backend;

	for (uint16_t r = 0; r < exec->conf.ring_cnt; r++) {
		int rc = cpu_start_one(exec, &t[r]);

		if (rc) {
			cpu_stop(exec, 1000);
			return rc;
		}
	}
	return 0;
}

static void cpu_beat(struct spw_exec *exec, uint16_t ring)
{
	(void)exec;
	(void)ring;
}

static int cpu_service(struct spw_exec *exec)
{
	(void)exec;
	return 0;
}

static void cpu_close(struct spw_exec *exec)
{
	free(exec->backend);
}

void spw_exec_cpu_stat(struct spw_exec *exec, struct spw_exec_stat *stat)
{
	for (uint16_t r = 0; r < exec->conf.ring_cnt; r++) {
		stat->frames += spw_thr_load_rlx(&exec->unit[r].frames);
		stat->batches += spw_thr_load_rlx(&exec->unit[r].next_seq);
	}
}

int spw_exec_cpu_pair_clock(struct spw_exec *exec, uint64_t *exec_ticks_out, uint64_t *tsc_out,
			    uint64_t *unc_ns_out)
{
	(void)exec;
	*exec_ticks_out = *tsc_out = spw_tsc_now();
	*unc_ns_out = 0;
	return 0;
}

const struct spw_exec_ops spw_exec_cpu_ops = {
	.device = "CPU thread",
	.batch_cnt = 64,
	.open = cpu_open,
	.alloc = spw_exec_host_alloc,
	.free = spw_exec_host_free,
	.start = cpu_start,
	.beat = cpu_beat,
	.service = cpu_service,
	.stop = cpu_stop,
	.stat = spw_exec_cpu_stat,
	.pair_clock = spw_exec_cpu_pair_clock,
	.close = cpu_close,
};
