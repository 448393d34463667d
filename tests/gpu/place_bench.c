/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * How fast a resident kernel puts frames into objects, beside a plain copy of the same bytes:
 * frames lie in host memory that the GPU maps, objects in its own; the copy is cudaMemcpy's of one
 * piece. The ring is kept full. Prints a line for each size; skipped (77) without a GPU. */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "exec/spw_exec.h"
#include "exec/spw_place.h"
#include "frame/spw_move.h"
#include "time/spw_time.h"

#define SLOT    8192u
#define BATCHES 64u
#define FRAMES  (BATCHES * SPW_GRING_FRAME_MAX)
#define HEADER  42u /* frames begin there: sources are never aligned with destinations */
#define RUN_S   1.0
#define COPIES  32u

static struct spw_tsc tsc;
static struct spw_region region[3]; /* frames, moves, objects */

static int failed(const char *what)
{
	printf("place_bench: %s: %s, %s\n", what, spw_err_text(),
	       cudaGetErrorString(cudaGetLastError()));
	return 1;
}

static int memory_open(void)
{
	static const size_t bytes[] = {(size_t)FRAMES * SLOT, FRAMES * sizeof(struct spw_move),
				       (size_t)FRAMES * SLOT};

	for (uint16_t i = 0; i < SPW_ARRAY_CNT(region); i++) {
		void *host = NULL, *dev;

		if (i < 2 ? cudaHostAlloc(&host, bytes[i], cudaHostAllocMapped) ||
				    cudaHostGetDevicePointer(&dev, host, 0)
			  : cudaMalloc(&dev, bytes[i]))
			return failed("memory");
		region[i] = (struct spw_region){.host_va = host,
						.dev_va = (uint64_t)(uintptr_t)dev,
						.bytes = bytes[i],
						.id = i};
	}
	return 0;
}

/* GB/s of cudaMemcpy, as many bytes as a ring of batches has; several wait, so that the copy engine
 * never does. */
static double copy_speed(size_t bytes)
{
	void *to = (void *)(uintptr_t)region[2].dev_va;
	uint64_t begin = spw_tsc_now();
	uint32_t rounds = 0;

	while (spw_tsc_to_ns(&tsc, spw_tsc_now() - begin) < RUN_S * 1e9) {
		for (uint32_t i = 0; i < COPIES; i++)
			cudaMemcpyAsync(to, region[0].host_va, bytes, cudaMemcpyHostToDevice, 0);
		cudaDeviceSynchronize();
		rounds += COPIES;
	}
	return (double)rounds * (double)bytes / (double)spw_tsc_to_ns(&tsc, spw_tsc_now() - begin);
}

static void batch_fill(struct spw_gring_batch *b, uint64_t seq, uint32_t op, uint32_t len)
{
	struct spw_move *table = (struct spw_move *)(void *)region[1].host_va;

	b->cnt = SPW_GRING_FRAME_MAX;
	for (uint32_t i = 0; i < b->cnt; i++) {
		const uint32_t at = (uint32_t)(seq % BATCHES) * SPW_GRING_FRAME_MAX + i;

		table[at] = spw_move_make(op, 2, at * spw_move_written(op, len), HEADER, len, 0);
		b->desc[i] = (struct spw_desc){
			.offset = at * SLOT, .len = HEADER + len, .meta = spw_move_meta(at, 1)};
	}
}

/* GB/s read by the mover; how often, of 1, this side found the ring full: it is not the limit if
 * that is often. */
static int mover_speed(struct spw_exec *exec, uint32_t op, uint32_t len, double *speed_out,
		       double *full_out)
{
	struct spw_gring *ring = spw_exec_ring(exec, 0);
	uint64_t begin = spw_tsc_now(), done = 0, full = 0, turns = 0;

	while (spw_tsc_to_ns(&tsc, spw_tsc_now() - begin) < RUN_S * 1e9) {
		struct spw_gring_batch *b = spw_gring_next(ring);

		turns++;
		full += !b;
		if (b) {
			batch_fill(b, ring->head_seq, op, len);
			spw_gring_push(ring, b);
		}
		while ((b = spw_gring_reap(ring))) {
			done += b->cnt;
			spw_gring_retire(ring, b);
		}
		spw_exec_beat(exec, 0);
	}
	*speed_out = (double)(done * len) / (double)spw_tsc_to_ns(&tsc, spw_tsc_now() - begin);
	*full_out = (double)full / (double)turns;
	while (ring->retired_seq != ring->head_seq) {
		struct spw_gring_batch *b = spw_gring_reap(ring);

		if (b)
			spw_gring_retire(ring, b);
		if (spw_exec_service(exec) < 0)
			return failed("executor");
	}
	return 0;
}

static int row(uint16_t ctas, const char *what, uint32_t op, uint32_t len)
{
	struct spw_place_state state = {.region = 1};
	struct spw_handler handler = spw_place_handler;
	struct spw_exec_conf conf = {.kind = SPW_EXEC_CUDA_PERSISTENT,
				     .handler = &handler,
				     .ring_cnt = 1,
				     .batch_cnt = BATCHES,
				     .region = region,
				     .region_cnt = SPW_ARRAY_CNT(region),
				     .cta_per_ring = ctas,
				     .share_bytes = 1u << 31,
				     .life_ms = 20000,
				     .numa_node = -1};
	const double copied = copy_speed((size_t)FRAMES * len);
	double moved = 0, full = 0;
	struct spw_exec *exec;
	int rc;

	handler.initial = &state;
	if (spw_exec_open(&conf, &exec) || spw_exec_start(exec))
		return failed("executor");
	rc = mover_speed(exec, op, len, &moved, &full);
	spw_exec_stop(exec, 5000);
	spw_exec_close(exec);
	printf("%-24s %4u B, %2u CTAs: mover %6.2f GB/s, copy %6.2f GB/s, ratio %.3f; ring "
	       "full in %2.0f %% of turns\n",
	       what, len, ctas, moved, copied, copied > 0 ? moved / copied : 0, 100 * full);
	return rc;
}

int main(void)
{
	static const uint16_t ctas[] = {1, 4, 8, 16, 32, 64};
	int cnt = 0, rc = 0;

	setenv("CUDA_MODULE_LOADING", "EAGER", 0);
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (cudaGetDeviceCount(&cnt) || !cnt) {
		printf("skipped: no GPU here\n");
		return 77;
	}
	if (spw_tsc_calibrate(50, &tsc) || memory_open())
		return 1;
	for (uint32_t i = 0; i < SPW_ARRAY_CNT(ctas) && rc == 0; i++) {
		rc = row(ctas[i], "copy", SPW_MOVE_OP_copy, 8000);
		rc = rc ? rc : row(ctas[i], "int8 to float16", SPW_MOVE_OP_i8_f16, 1176);
	}
	return rc;
}
