/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A thread for each ring stands where the GPU would: it spins on the descriptors and writes completions. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/spw_err.h"
#include "gpu/exec_impl.h"

#define IDLE_SPINS 1024u /* an unpinned thread then lets others run: with few cores the owner may need this one */

enum cpu_stop { CPU_RUN, CPU_STOP_EMPTY, CPU_STOP_NOW };

struct cpu_thread {
	struct spw_exec *exec;
	pthread_t thread;
	uint32_t stop; /* enum cpu_stop */
	uint16_t ring;
	bool running;
	bool pinned;
} SPW_ALIGNED(2 * SPW_CACHE_LINE);

static void *cpu_main(void *arg)
{
	struct cpu_thread *t = arg;
	struct spw_gring *ring = &t->exec->ring[t->ring];
	struct spw_exec_cpu_unit *unit = &t->exec->unit[t->ring];
	uint64_t pause = spw_tsc_from_ns(&t->exec->tsc, SPW_PAUSE_NS), last = spw_tsc_now(), now;
	uint32_t idle = 0, stop;

	for (;; last = now) {
		/* [C1 acquire, pairs with cpu_stop: what was pushed before the stop is seen by the look below] */
		stop = spw_thr_load_acq(&t->stop);
		if (stop == CPU_STOP_NOW)
			break;
		now = spw_tsc_now();
		if (spw_unlikely(now - last > pause))
			spw_pause_add(ring->pauses, last, now);
		if (spw_exec_run_one(t->exec, ring, unit, 0)) {
			now = spw_tsc_now(); /* what a handler takes is no pause */
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
		return spw_err(ENOMEM, "executor cpu: no memory for %u threads", exec->conf.ring_cnt);
	memset(t, 0, exec->conf.ring_cnt * sizeof(*t));
	for (uint16_t r = 0; r < exec->conf.ring_cnt; r++) {
		t[r].exec = exec;
		t[r].ring = r;
		t[r].pinned = exec->conf.cpu && exec->conf.cpu[r] >= 0;
	}
	exec->backend = t;
	return 0;
}

/* Sets where the thread will run before it runs. */
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
		return spw_err(rc, "executor cpu: thread of ring %u on core %d: %s", t->ring, cpu, strerror(rc));
	t->running = true;
	pthread_setname_np(t->thread, "spw-exec");
	return 0;
}

static int cpu_join(struct cpu_thread *t, uint32_t timeout_ms)
{
	struct timespec until;

	if (!t->running)
		return 0;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += timeout_ms / 1000;
	until.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	if (pthread_timedjoin_np(t->thread, NULL, &until))
		return -ETIME;
	t->running = false;
	return 0;
}

static int cpu_stop(struct spw_exec *exec, uint32_t timeout_ms)
{
	struct cpu_thread *t = exec->backend;
	int rc = 0;

	for (uint16_t r = 0; r < exec->conf.ring_cnt; r++)
		spw_thr_store_rel(&t[r].stop, CPU_STOP_EMPTY); /* [C1 release] */
	for (uint16_t r = 0; r < exec->conf.ring_cnt; r++) {
		if (!cpu_join(&t[r], timeout_ms))
			continue;
		spw_thr_store_rel(&t[r].stop, CPU_STOP_NOW);
		rc = -ETIME;
	}
	for (uint16_t r = 0; rc && r < exec->conf.ring_cnt; r++)
		if (cpu_join(&t[r], 1000))
			return spw_err(ETIME, "executor cpu: the handler of ring %u does not return", r);
	return rc ? spw_err(ETIME, "executor cpu: stopped with batches undone") : 0;
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
	cpu_stop(exec, 1000);
	free(exec->backend);
}

void spw_exec_cpu_stat(struct spw_exec *exec, struct spw_exec_stat *stat)
{
	for (uint16_t r = 0; r < exec->conf.ring_cnt; r++) {
		stat->frames += spw_thr_load_rlx(&exec->unit[r].frames);
		stat->batches += spw_thr_load_rlx(&exec->unit[r].batches);
	}
}

int spw_exec_cpu_pair_clock(struct spw_exec *exec, uint64_t *exec_ticks_out, uint64_t *tsc_out, uint64_t *unc_ns_out)
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
