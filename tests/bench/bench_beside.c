/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What the resident kernel takes from other work on the same GPU, by its CTAs: watts where nothing
 * else runs, the speed of a GEMM beside it, and the round trip of a frame of 1500 bytes while that
 * GEMM runs. From the last the least setting that keeps an objective follows.
 *
 *   a slice   start kernel ── start GEMM ── settle ── measure ── watts ── stop GEMM ── stop kernel
 *
 * NVML's watts are a mean of about a second, so a slice lasts longer. All slices take turns within
 * a round.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/spw_err.h"
#include "bench.h"
#include "exec/spw_exec.h"
#include "exec/spw_handler.h"
#include "gemm.h"
#include "hist/spw_hist.h"
#include "plat/spw_plat.h"
#include "time/spw_time.h"

#define ROUNDS_MAX  9u
#define SETTLE_MS   300u
#define LIFE_MS     20000u /* no kernel of the benchmark outlives this */
#define PATIENCE_NS 2000000000ull
#define FRAME_BYTES 1500u
#define PLACES      256u /* frames that follow each other in memory */
#define STRIDE      1536u
#define STOP_MS     2000u

/* What runs in a slice. */
enum load { LOAD_POLLING, LOAD_GEMM, LOAD_BOTH, LOAD_CNT };

static const uint16_t ctas[] = {0, 1, 2, 4, 8, 16, 32}; /* 0: no resident kernel */
#define CTAS_CNT SPW_ARRAY_CNT(ctas)

enum point { MEDIAN, HUNDREDTH, THOUSANDTH, POINT_CNT };
static const struct {
	const char *name;
	uint32_t ppm;
} point[POINT_CNT] = {{"p50", 500000}, {"p99", 990000}, {"p99.9", 999000}};

struct cell {
	double tflops[ROUNDS_MAX], watts[ROUNDS_MAX], of_alone[ROUNDS_MAX];
	double us[POINT_CNT][ROUNDS_MAX];
};

struct beside {
	struct spw_tsc tsc;
	struct spw_region region;
	const struct spw_handler *handler;
	struct gemm gemm;
	struct spw_hist trips; /* ticks, of the running slice */
	uint64_t sum[PLACES];
	uint32_t rounds;
	uint64_t slice_ns, limit_ns;
	struct cell cell[CTAS_CNT][LOAD_CNT];
};

/* ---- one slice ---- */

/* -1: this GPU does not say. */
static double watts_now(void)
{
	const struct spw_plat_from from = {.skip_hwloc = true};
	struct spw_plat *plat;
	double watts = -1;

	if (spw_plat_read(&from, &plat))
		return -1;
	if (plat->gpu_cnt && plat->gpu[0].power_mw >= 0)
		watts = plat->gpu[0].power_mw / 1e3;
	spw_plat_free(plat);
	return watts;
}

/* One frame to the kernel and back; -EIO if it does not come, or not with the sum of its bytes. */
static int round_trip(struct beside *b, struct spw_exec *exec, uint32_t place, uint64_t *ticks_out)
{
	const uint64_t patience = spw_tsc_from_ns(&b->tsc, PATIENCE_NS);
	struct spw_gring *ring = spw_exec_ring(exec, 0);
	struct spw_gring_batch *batch = spw_gring_next(ring);
	uint64_t begin, sum;

	batch->cnt = 1;
	batch->desc[0] = (struct spw_desc){.offset = place * STRIDE, .len = FRAME_BYTES};
	begin = spw_tsc_now();
	spw_gring_push(ring, batch);
	while (!(batch = spw_gring_reap(ring)))
		if (spw_tsc_now() - begin > patience)
			return spw_err(EIO, "a batch does not return");
	*ticks_out = spw_tsc_now() - begin;
	sum = batch->digest & SPW_GRING_VALUE_MASK;
	spw_gring_retire(ring, batch);
	return sum == b->sum[place] ? 0 : spw_err(EIO, "the sum of the payload is wrong");
}

/* Runs the load for so long; trips are recorded only if asked for. */
static int run_for(struct beside *b, struct spw_exec *exec, uint32_t ms, bool trips)
{
	const uint64_t end = spw_tsc_now() + spw_tsc_from_ns(&b->tsc, ms * 1000000ull);
	const struct timespec nap = {.tv_nsec = 1000000};
	uint64_t ticks = 0;
	int rc = 0;

	for (uint32_t n = 0; !rc && spw_tsc_now() < end; n++) {
		if (exec)
			spw_exec_beat(exec, 0);
		if (!trips) {
			nanosleep(&nap, NULL);
			continue;
		}
		rc = round_trip(b, exec, n % PLACES, &ticks);
		if (!rc)
			spw_hist_record(&b->trips, ticks, 1);
	}
	return rc;
}

static void take(struct beside *b, struct cell *c, uint32_t round)
{
	uint64_t ticks = 0;

	for (uint32_t p = 0; p < POINT_CNT; p++)
		if (spw_hist_percentile(&b->trips, point[p].ppm, 0, &ticks) == SPW_HIST_VALUE)
			c->us[p][round] = (double)spw_tsc_to_ns(&b->tsc, ticks) / 1e3;
}

static int measure(struct beside *b, struct spw_exec *exec, enum load load, struct cell *c,
		   uint32_t round)
{
	const bool trips = load == LOAD_BOTH;
	uint64_t begin, done;
	int rc = run_for(b, exec, SETTLE_MS, trips);

	memset(&b->trips, 0, sizeof(b->trips));
	begin = spw_tsc_now();
	done = gemm_done(&b->gemm);
	rc = rc ? rc : run_for(b, exec, (uint32_t)(b->slice_ns / 1000000), trips);
	c->tflops[round] = (double)(gemm_done(&b->gemm) - done) * gemm_tflop() * 1e9 /
			   (double)spw_tsc_to_ns(&b->tsc, spw_tsc_now() - begin);
	c->watts[round] = watts_now();
	take(b, c, round);
	return rc;
}

static int kernel_start(struct beside *b, uint16_t cta_cnt, struct spw_exec **exec_out)
{
	const struct spw_exec_conf conf = {.kind = SPW_EXEC_CUDA_PERSISTENT,
					   .handler = b->handler,
					   .ring_cnt = 1,
					   .region = &b->region,
					   .region_cnt = 1,
					   .numa_node = -1,
					   .cta_per_ring = cta_cnt,
					   .life_ms = LIFE_MS};
	int rc;

	*exec_out = NULL;
	if (!cta_cnt)
		return 0;
	rc = spw_exec_open(&conf, exec_out);
	if (rc)
		return rc;
	rc = spw_exec_start(*exec_out);
	if (rc)
		spw_exec_close(*exec_out);
	return rc;
}

static int kernel_stop(struct spw_exec *exec)
{
	int rc;

	if (!exec)
		return 0;
	rc = spw_exec_service(exec);
	rc = spw_exec_stop(exec, STOP_MS) ? -EIO : rc;
	spw_exec_close(exec);
	return rc;
}

static int slice(struct beside *b, uint32_t k, enum load load, uint32_t round)
{
	struct spw_exec *exec;
	int rc = kernel_start(b, ctas[k], &exec), end;

	if (rc)
		return rc;
	if (load != LOAD_POLLING)
		rc = gemm_start(&b->gemm);
	if (!rc) {
		rc = measure(b, exec, load, &b->cell[k][load], round);
		end = load == LOAD_POLLING ? 0 : gemm_stop(&b->gemm);
		rc = rc ? rc : end;
	}
	end = kernel_stop(exec);
	return rc ? rc : end;
}

static int run_round(struct beside *b, uint32_t round)
{
	int rc = 0;

	for (uint32_t k = 0; !rc && k < CTAS_CNT; k++) {
		for (uint32_t load = 0; !rc && load < LOAD_CNT; load++)
			if (ctas[k] || load != LOAD_BOTH)
				rc = slice(b, k, (enum load)load, round);
		for (uint32_t load = LOAD_GEMM; load < LOAD_CNT; load++)
			b->cell[k][load].of_alone[round] = b->cell[k][load].tflops[round] /
							   b->cell[0][LOAD_GEMM].tflops[round];
	}
	return rc;
}

/* ---- rows ---- */

static void add(struct beside *b, struct spw_bench_out *out, uint32_t k, enum load load)
{
	static const char *const what[LOAD_CNT] = {"polling", "polling, GEMM", "frames, GEMM"};
	struct cell *c = &b->cell[k][load];
	char name[72];

	if (ctas[k])
		snprintf(name, sizeof(name), "%u CTAs, %s", ctas[k], what[load]);
	else
		snprintf(name, sizeof(name), load == LOAD_GEMM ? "GEMM alone" : "nothing");
	if (load != LOAD_POLLING)
		spw_bench_add(out, name, "GEMM", "Tflop/s", c->tflops, b->rounds);
	if (load != LOAD_POLLING && ctas[k])
		spw_bench_add(out, name, "of alone", "", c->of_alone, b->rounds);
	if (c->watts[0] >= 0)
		spw_bench_add(out, name, "power", "W", c->watts, b->rounds);
	for (uint32_t p = 0; load == LOAD_BOTH && p < POINT_CNT; p++)
		spw_bench_add(out, name, point[p].name, "us", c->us[p], b->rounds);
}

/* The least CTAs whose p99 beside the GEMM keeps the limit; values are sorted by now. */
static void add_least(struct beside *b, struct spw_bench_out *out)
{
	char name[72];

	for (uint32_t k = 1; k < CTAS_CNT; k++) {
		if (b->cell[k][LOAD_BOTH].us[HUNDREDTH][b->rounds / 2] > (double)b->limit_ns / 1000)
			continue;
		snprintf(name, sizeof(name), "least that keep p99 at %g us",
			 (double)b->limit_ns / 1000);
		spw_bench_add1(out, name, "CTAs", "", ctas[k]);
		return;
	}
	fprintf(stderr, "spinwire-bench: beside: no setting keeps p99 at %g us\n",
		(double)b->limit_ns / 1000);
}

static void report(struct beside *b, struct spw_bench_out *out)
{
	for (uint32_t k = 0; k < CTAS_CNT; k++)
		for (uint32_t load = 0; load < LOAD_CNT; load++)
			if (ctas[k] || load != LOAD_BOTH)
				add(b, out, k, (enum load)load);
	add_least(b, out);
}

/* ---- the bench ---- */

static int open_all(struct beside *b)
{
	struct spw_region *r = &b->region;
	void *dev;
	int cnt = 0;

	setenv("CUDA_MODULE_LOADING", "EAGER", 0);
	if (cudaGetDeviceCount(&cnt) || !cnt)
		return spw_err(ENOTSUP, "no GPU that CUDA can use");
	r->bytes = PLACES * STRIDE;
	if (cudaSetDeviceFlags(cudaDeviceMapHost) ||
	    cudaHostAlloc((void **)&r->host_va, r->bytes, cudaHostAllocMapped) ||
	    cudaHostGetDevicePointer(&dev, r->host_va, 0))
		return spw_err(ENOMEM, "memory that CPU and GPU share");
	r->dev_va = (uint64_t)(uintptr_t)dev;
	for (uint32_t i = 0; i < PLACES; i++)
		for (uint32_t at = 0; at < FRAME_BYTES; at++)
			b->sum[i] += r->host_va[i * STRIDE + at] = (uint8_t)(i * 31 + at * 7);
	if (spw_tsc_calibrate(50, &b->tsc))
		return spw_err(EIO, "clock");
	return spw_handler_open("sum", &b->handler);
}

static int run(struct beside *b, struct spw_bench_out *out)
{
	int rc = open_all(b);

	rc = rc ? rc : gemm_open(&b->gemm);
	for (uint32_t round = 0; !rc && round < b->rounds; round++)
		rc = run_round(b, round);
	if (rc)
		fprintf(stderr, "spinwire-bench: beside: %s\n", spw_err_text());
	else
		report(b, out);
	gemm_close(&b->gemm);
	spw_handler_close(b->handler);
	cudaFreeHost(b->region.host_va);
	return rc ? 2 : 0;
}

static const struct spw_opt beside_opt[] = {
	{.name = "rounds",
	 SPW_BENCH_FIELD(struct beside, rounds),
	 .kind = SPW_OPT_NUMBER,
	 .min = 1,
	 .max = ROUNDS_MAX,
	 .dflt = "3",
	 .help = "of each case"},
	{.name = "slice",
	 SPW_BENCH_FIELD(struct beside, slice_ns),
	 .kind = SPW_OPT_TIME,
	 .min = 100000000,
	 .max = LIFE_MS / 2 * 1000000ull,
	 .dflt = "1500ms",
	 .help = "a measurement; watts are means of about a second"},
	{.name = "limit",
	 SPW_BENCH_FIELD(struct beside, limit_ns),
	 .kind = SPW_OPT_TIME,
	 .min = 1000,
	 .max = 1000000000,
	 .dflt = "20us",
	 .help = "p99 of a frame's round trip beside the GEMM that the least CTAs keep"},
};

int spw_bench_beside(int argc, char **argv, struct spw_bench_out *out)
{
	static struct beside bench;
	const struct spw_opt_take take = {.base = &bench};
	const int status =
		spw_bench_args(out, beside_opt, SPW_ARRAY_CNT(beside_opt), argc, argv, &take);

	return status == SPW_BENCH_RUN ? run(&bench, out) : status;
}
