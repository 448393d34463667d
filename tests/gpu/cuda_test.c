/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The executor suite on the three CUDA backends, and what only a resident kernel can get wrong:
 * leaving and coming back. Skips with status 77 where there is no GPU. */
#include "../unit/unit_test.h"

#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cuda_runtime_api.h>

#include "base/spw_err.h"
#include "exec_suite.h"
#include "exec/spw_pause.h"
#include "time/spw_time.h"

static struct suite suite;
static const char *self;

static void nap_ms(uint32_t ms)
{
	struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

	while (nanosleep(&t, &t))
		;
}

static uint64_t relaunched(struct rig *rig)
{
	struct spw_exec_stat stat;

	spw_exec_stat(rig->exec, &stat);
	return stat.relaunched;
}

static void push_some(struct rig *rig, uint16_t ring, uint32_t batches)
{
	for (uint32_t k = 0; k < batches; k++) {
		struct spw_gring_batch *b = spw_gring_next(spw_exec_ring(rig->exec, ring));

		assert_non_null(b);
		b->cnt = 1 + k % 64;
		for (uint32_t i = 0; i < b->cnt; i++)
			b->desc[i] = (struct spw_desc){
				.offset = i * 2048, .len = 64 + k, .region = rig->region.id};
		spw_gring_push(spw_exec_ring(rig->exec, ring), b);
	}
}

static void reap_some(struct rig *rig, uint16_t ring, uint32_t batches)
{
	for (uint32_t k = 0; k < batches; k++) {
		struct spw_gring_batch *b = rig_reap(rig, ring);

		assert_int_equal(b->cnt, 1 + k % 64);
		spw_gring_retire(spw_exec_ring(rig->exec, ring), b);
	}
}

/* The host falls silent with work pushed before, during and after. */
static void silence_is_survived(void **state)
{
	struct rig rig;
	uint64_t done = 0;

	(void)state;
	rig_open(&rig, &suite, "sum",
		 (struct spw_exec_conf){.beat_timeout_ms = 30, .ring_cnt = 2, .cta_per_ring = 4});
	for (uint32_t round = 0; round < 5; round++) {
		push_some(&rig, 0, 40);
		nap_ms(100);
		push_some(&rig, 0, 40);
		nap_ms(20 * round);
		push_some(&rig, 1, 10);
		reap_some(&rig, 0, 40);
		reap_some(&rig, 0, 40);
		reap_some(&rig, 1, 10);
		for (uint32_t k = 0; k < 40; k++)
			done += 2 * (1 + k % 64) + (k < 10 ? 1 + k % 64 : 0);
	}
	assert_int_equal(spw_gring_executed(spw_exec_ring(rig.exec, 0)) +
				 spw_gring_executed(spw_exec_ring(rig.exec, 1)),
			 done);
	assert_true(relaunched(&rig) >= 5);
	rig_close(&rig);
}

/* One flush a push where the region asks for it, none elsewhere. No NIC writes into GPU memory
 * here: that the driver takes the call while a kernel is resident is all that this shows. */
static void writes_of_a_nic_are_flushed(void **state)
{
	struct suite own = suite;
	struct spw_exec_stat stat;
	struct rig rig;

	(void)state;
	for (int flush = 0; flush < 2; flush++) {
		own.flush = flush;
		rig_open(&rig, &own, "sum", (struct spw_exec_conf){.batch_cnt = 64});
		push_some(&rig, 0, 40);
		reap_some(&rig, 0, 40);
		spw_exec_stat(rig.exec, &stat);
		assert_int_equal(stat.flushes, flush ? 40 : 0);
		if (spw_exec_service(rig.exec))
			fail_msg("%s", spw_err_text());
		rig_close(&rig);
	}
}

/* Expiry comes while batches flow: beats come so seldom that units leave at different times. */
static void units_that_leave_apart_come_back(void **state)
{
	struct rig rig;
	uint64_t hz, begin;
	struct spw_tsc tsc;
	uint32_t rounds = 0;

	(void)state;
	assert_int_equal(spw_tsc_calibrate(20, &tsc), 0);
	hz = tsc.hz;
	rig_open(&rig, &suite, "sum",
		 (struct spw_exec_conf){.beat_timeout_ms = 2, .cta_per_ring = 8, .batch_cnt = 64});
	begin = spw_tsc_now();
	while (spw_tsc_now() - begin < 3 * hz) {
		uint64_t until = spw_tsc_now() + hz / 1000 * (1 + rounds % 4);

		push_some(&rig, 0, 20);
		while (spw_tsc_now() < until) /* silent for 1 .. 4 ms */
			spw_cpu_relax();
		spw_exec_beat(rig.exec, 0);
		reap_some(&rig, 0, 20);
		rounds++;
	}
	printf("    %u rounds, %llu relaunches\n", rounds, (unsigned long long)relaunched(&rig));
	assert_true(relaunched(&rig) > 10);
	rig_close(&rig);
}

static void bounded_life_is_relaunched(void **state)
{
	struct rig rig;

	(void)state;
	rig_open(&rig, &suite, "sum",
		 (struct spw_exec_conf){.life_ms = 5, .cta_per_ring = 8, .share_bytes = 128});
	for (uint32_t i = 0; i < 5000 && relaunched(&rig) < 8; i++)
		suite_laps(&rig, 0, 400, i);
	printf("    %llu relaunches\n", (unsigned long long)relaunched(&rig));
	assert_true(relaunched(&rig) >= 8);
	rig_close(&rig);
}

/* A process that is stopped for 5 s and goes on: residual 0, with batches that units share. */
static void sigstop_is_survived(void **state)
{
	struct rig rig;
	char pid[16];
	char *argv[] = {(char *)(uintptr_t)self, (char *)(uintptr_t) "--stop-and-cont", pid, NULL};
	pid_t child;
	uint64_t before, rounds = 0;
	struct timespec t0, t1;
	int status;

	(void)state;
	rig_open(&rig, &suite, "sum",
		 (struct spw_exec_conf){.beat_timeout_ms = 500, .share_bytes = 128});
	before = relaunched(&rig);
	snprintf(pid, sizeof(pid), "%d", getpid());
	clock_gettime(CLOCK_MONOTONIC, &t0);
	assert_int_equal(posix_spawn(&child, self, NULL, NULL, argv, environ), 0);
	do {
		suite_laps(&rig, 0, 500, rounds++);
		clock_gettime(CLOCK_MONOTONIC, &t1);
	} while (t1.tv_sec - t0.tv_sec < 8);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_true(relaunched(&rig) > before);
	rig_close(&rig);
}

/* Median of a small round trip, in ns. */
static uint64_t ping_ns(struct rig *rig)
{
	struct spw_tsc tsc;
	uint64_t best = ~0ull, begin;

	assert_int_equal(spw_tsc_calibrate(20, &tsc), 0);
	begin = spw_tsc_now();
	for (uint32_t i = 0; i < 2000; i++) {
		push_some(rig, 0, 1);
		reap_some(rig, 0, 1);
	}
	best = spw_tsc_now() - begin;
	return spw_tsc_to_ns(&tsc, best) / 2000;
}

/* A killed process leaves a free GPU: with its kernel still there, ours would be time-sliced at
 * milliseconds. */
static void killed_process_leaves_no_kernel(void **state)
{
	char *argv[] = {(char *)(uintptr_t)self, (char *)(uintptr_t) "--spin", NULL};
	struct rig rig;
	uint64_t ns = ~0ull;
	pid_t child;
	int status;

	(void)state;
	assert_int_equal(posix_spawn(&child, self, NULL, NULL, argv, environ), 0);
	nap_ms(6000);
	assert_int_equal(waitpid(child, &status, WNOHANG), 0); /* it runs */
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, &status, 0), child);
	for (uint32_t i = 0; i < 10 && ns > 200000; i++) {
		nap_ms(500);
		rig_open(&rig, &suite, "null", (struct spw_exec_conf){0});
		ns = ping_ns(&rig);
		rig_close(&rig);
	}
	printf("    a round trip takes %llu ns\n", (unsigned long long)ns);
	assert_true(ns < 200000);
}

/* Two processes share the GPU in time slices: the slow round trips are those in which the kernel
 * reports the pause. */
static void time_slices_are_named(void **state)
{
	char *argv[] = {(char *)(uintptr_t)self, (char *)(uintptr_t) "--spin", NULL};
	uint32_t slow = 0, named = 0;
	struct spw_tsc tsc;
	struct rig rig;
	pid_t child;
	int status;

	(void)state;
	assert_int_equal(spw_tsc_calibrate(20, &tsc), 0);
	rig_open(&rig, &suite, "null", (struct spw_exec_conf){.life_ms = 60000});
	assert_int_equal(posix_spawn(&child, self, NULL, NULL, argv, environ), 0);
	for (uint64_t begin = spw_tsc_now(); slow < 100 && spw_tsc_now() - begin < 20 * tsc.hz;) {
		struct spw_gring *ring = spw_exec_ring(rig.exec, 0);
		uint64_t from = ring->exec_now(ring), ns;
		struct spw_pause p;

		push_some(&rig, 0, 1);
		reap_some(&rig, 0, 1);
		ns = ring->exec_now(ring) - from;
		if (ns < 500000)
			continue;
		nap_ms(1); /* unit 0 may be let on a little later than the one that had the batch */
		slow++;
		named += spw_pause_find(ring, from, from + ns, &p) > ns / 2;
	}
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, &status, 0), child);
	printf("    %u of %u slow round trips lie in a pause of the kernel\n", named, slow);
	rig_close(&rig);
	assert_true(slow >= 20);
	assert_true(named * 10 >= slow * 9);
}

/* A plug-in brings its own CUDA runtime; its kernels run on our rings. SPW_TEST_PLUGIN names
 * examples/handler's. */
static void plugin_runs_on_the_gpu(void **state)
{
	static const enum spw_exec_kind kind[] = {SPW_EXEC_CUDA_LAUNCH, SPW_EXEC_CUDA_GRAPH,
						  SPW_EXEC_CUDA_PERSISTENT};
	const char *path = getenv("SPW_TEST_PLUGIN");

	(void)state;
	if (!path)
		skip();
	for (uint32_t k = 0; k < SPW_ARRAY_CNT(kind); k++) {
		struct spw_gring_batch *b;
		struct rig rig;
		uint64_t want = 0;

		suite.kind = kind[k];
		rig_open(&rig, &suite, path, (struct spw_exec_conf){0});
		b = rig_next(&rig, 0);
		for (uint32_t i = 0; i < 64; i++) {
			uint8_t *p = rig_add(&rig, b, i * 2048, 64, 0);

			p[12] = 8;
			p[13] = i == 63;
			p[22] = (uint8_t)(i * 3);
			want += i < 63 ? p[22] : 0;
		}
		b = rig_do(&rig, b);
		assert_int_equal(b->digest, want);
		assert_int_equal(b->verdict[1], 1ull << 63);
		assert_int_equal(b->bad[SPW_BAD_not_ipv4], 1);
		rig_done(&rig, b);
		rig_close(&rig);
	}
	suite.kind = SPW_EXEC_CUDA_PERSISTENT;
}

/* ---- helper processes ---- */

static int stop_and_cont(pid_t pid)
{
	nap_ms(1000);
	if (kill(pid, SIGSTOP))
		return 1;
	nap_ms(5000);
	return kill(pid, SIGCONT) ? 1 : 0;
}

static int suite_memory(void)
{
	int cnt = 0;
	void *dev;

	setenv("CUDA_MODULE_LOADING", "EAGER", 0);
	if (cudaGetDeviceCount(&cnt) || !cnt)
		return 77;
	suite.mem_bytes = SUITE_MEM_BYTES;
	if (cudaHostAlloc((void **)&suite.mem, SUITE_MEM_BYTES,
			  cudaHostAllocMapped | cudaHostAllocPortable) ||
	    cudaHostGetDevicePointer(&dev, suite.mem, 0))
		return 1;
	suite.mem_dev = (uint64_t)(uintptr_t)dev;
	return 0;
}

static int spin_for_ever(void)
{
	struct timespec now;
	struct rig rig;
	time_t until;

	if (suite_memory())
		return 1;
	suite.kind = SPW_EXEC_CUDA_PERSISTENT;
	rig_open(&rig, &suite, "null",
		 (struct spw_exec_conf){.life_ms = 60000, .cta_per_ring = 64});
	clock_gettime(CLOCK_MONOTONIC, &now);
	for (until = now.tv_sec + 60; now.tv_sec < until; clock_gettime(CLOCK_MONOTONIC, &now))
		rig_turn(&rig);
	return 0;
}

static int run_persistent_only(const char *filter)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plugin_runs_on_the_gpu),
		cmocka_unit_test(writes_of_a_nic_are_flushed),
		cmocka_unit_test(silence_is_survived),
		cmocka_unit_test(units_that_leave_apart_come_back),
		cmocka_unit_test(bounded_life_is_relaunched),
		cmocka_unit_test(sigstop_is_survived),
		cmocka_unit_test(time_slices_are_named),
		cmocka_unit_test(killed_process_leaves_no_kernel),
	};

	suite.kind = SPW_EXEC_CUDA_PERSISTENT;
	if (filter)
		cmocka_set_test_filter(filter);
	return cmocka_run_group_tests_name("resident kernel", tests, NULL, NULL);
}

int main(int argc, char **argv)
{
	static const enum spw_exec_kind kind[] = {SPW_EXEC_CUDA_LAUNCH, SPW_EXEC_CUDA_GRAPH,
						  SPW_EXEC_CUDA_PERSISTENT};
	const char *filter = NULL;
	int failed = 0, rc;

	self = argv[0];
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 3 && !strcmp(argv[1], "--stop-and-cont"))
		return stop_and_cont((pid_t)atoi(argv[2]));
	if (argc == 2 && !strcmp(argv[1], "--spin"))
		return spin_for_ever();
	if (argc > 1)
		filter = argv[1];
	rc = suite_memory();
	if (rc) {
		printf("skipped: %s\n",
		       rc == 77 ? "no GPU here" : "the GPU gives no mapped host memory");
		return rc;
	}
	for (uint32_t i = 0; i < SPW_ARRAY_CNT(kind); i++) {
		suite.kind = kind[i];
		failed += suite_run(&suite, filter);
	}
	failed += run_persistent_only(filter);
	printf("%d failed\n", failed);
	return failed != 0;
}
