/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The handoff benchmark's throughput: many batches in flight, one host thread per ring that pushes
 * and reaps as fast as it can.
 *
 *   feeder 0 --> ring 0 --> CTAs --+
 *   feeder 1 --> ring 1 --> CTAs --+--> region of 1 GiB     each ring begins elsewhere in it
 *   ...                            |
 *   upper bounds: one kernel that reads the region, cudaMemcpy of the region
 *
 * Descriptors are filled once, before the feeders start: the loop measures the handoff, not the
 * filling. Shapes (rings x CTAs) and bounds take turns within a run; the ratios compare the best
 * shape with the best read of one kernel.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "handoff.h"

#define SLICE_MS 300u

struct feeder {
	struct handoff *h;
	struct spw_exec *exec;
	pthread_t thread;
	uint16_t ring;
	uint32_t bytes;
	uint64_t frames, ticks;
	bool stuck;
} SPW_ALIGNED(128);

/* The frames of a ring's batches lie one after the other in the region and wrap at its end. */
static void ring_fill(struct feeder *f)
{
	struct spw_gring *ring = spw_exec_ring(f->exec, f->ring);
	uint32_t stride = handoff_stride(f->bytes);
	uint64_t room = f->h->region.bytes / stride, at = (uint64_t)f->ring * room / 16;

	for (uint32_t i = 0; i <= ring->batch_mask; i++) {
		ring->batch[i].cnt = SPW_GRING_FRAME_MAX;
		for (uint32_t k = 0; k < SPW_GRING_FRAME_MAX; k++, at = (at + 1) % room)
			ring->batch[i].desc[k] = (struct spw_desc){
				.offset = (uint32_t)(at * stride), .len = f->bytes};
	}
}

/* At most 4 pushes and 4 reaps in turn: neither side can starve the other, and the heartbeat stays
 * regular. After the slice the ring is drained, and ticks include that. A ring that reaps nothing
 * for 2 s is stuck. */
static void *feed(void *arg)
{
	struct feeder *f = arg;
	struct spw_gring *ring = spw_exec_ring(f->exec, f->ring);
	uint64_t begin = spw_tsc_now(), now = begin, last = begin,
		 slice = spw_tsc_from_ns(&f->h->tsc, SLICE_MS * 1000000ull);
	uint64_t patience = spw_tsc_from_ns(&f->h->tsc, 2000000000ull);
	struct spw_gring_batch *b;

	while (now - begin < slice || ring->in_exec_frames) {
		for (uint32_t i = 0; i < 4 && now - begin < slice && (b = spw_gring_next(ring));
		     i++)
			spw_gring_push(ring, b);
		for (uint32_t i = 0; i < 4 && (b = spw_gring_reap(ring)); i++) {
			f->frames += b->cnt;
			spw_gring_retire(ring, b);
			last = now;
		}
		spw_exec_beat(f->exec, f->ring);
		now = spw_tsc_now();
		f->stuck = now - last > patience;
		if (f->stuck)
			break;
	}
	f->ticks = now - begin;
	return NULL;
}

/* Rates are per thread, over its own time, and add up. Threads that started are joined even if one
 * could not start. */
static int feed_all(struct handoff *h, struct spw_exec *exec, uint16_t rings, uint32_t bytes,
		    double *frames_per_s_out)
{
	struct feeder f[16] = {0};
	double sum = 0;
	bool stuck = false;
	uint16_t started = 0;

	for (uint16_t r = 0; r < rings; r++) {
		f[r] = (struct feeder){.h = h, .exec = exec, .ring = r, .bytes = bytes};
		ring_fill(&f[r]);
	}
	for (; started < rings; started++)
		if (pthread_create(&f[started].thread, NULL, feed, &f[started]))
			break;
	for (uint16_t r = 0; r < started; r++) {
		pthread_join(f[r].thread, NULL);
		sum += (double)f[r].frames * (double)h->tsc.hz / (double)f[r].ticks;
		stuck |= f[r].stuck;
	}
	*frames_per_s_out = sum;
	if (stuck || started < rings)
		return handoff_fail(stuck ? "a ring does not move" : "threads",
				    cudaErrorLaunchTimeout);
	return 0;
}

/* A resident kernel per measurement, opened and closed here; life_ms bounds it. */
static int exec_throughput(struct handoff *h, const char *handler, uint16_t rings, uint16_t ctas,
			   uint32_t bytes, double *frames_per_s_out)
{
	struct spw_exec_conf conf = {.kind = SPW_EXEC_CUDA_PERSISTENT,
				     .ring_cnt = rings,
				     .region = &h->region,
				     .region_cnt = 1,
				     .numa_node = -1,
				     .cta_per_ring = ctas,
				     .share_bytes = 1u << 31, /* records are filled once */
				     .life_ms = HANDOFF_LIFE_MS,
				     .batch_cnt = 512};
	struct spw_exec *exec;
	int rc;

	if (spw_handler_open(handler, &conf.handler) || spw_exec_open(&conf, &exec))
		return handoff_fail("cuda-persistent", 0);
	rc = spw_exec_start(exec) ? handoff_fail("start", 0)
				  : feed_all(h, exec, rings, bytes, frames_per_s_out);
	if (!rc && spw_exec_service(exec))
		rc = handoff_fail("service", 0);
	if (spw_exec_stop(exec, 2000) && !rc)
		rc = handoff_fail("stop", 0);
	spw_exec_close(exec);
	return rc;
}

/* GB/s that one kernel reads of the whole region. */
static int read_all(struct handoff *h, uint32_t ctas, double *gbps_out)
{
	const struct handoff_read read = {
		.dev_src = h->region.dev_va, .bytes = h->region.bytes, .places = 1, .rounds = 1};
	cudaEvent_t a, b;
	float ms = 0;
	int rc;

	if ((rc = (int)cudaEventCreate(&a)) || (rc = (int)cudaEventCreate(&b)) ||
	    (rc = (int)cudaEventRecord(a, h->stream)) ||
	    (rc = handoff_read_launch(&read, ctas, &h->dev_words->ns, h->stream)) ||
	    (rc = (int)cudaEventRecord(b, h->stream)) || (rc = (int)cudaEventSynchronize(b)) ||
	    (rc = (int)cudaEventElapsedTime(&ms, a, b)))
		return handoff_fail("reading 1 GiB", rc);
	cudaEventDestroy(a);
	cudaEventDestroy(b);
	*gbps_out = (double)h->region.bytes / ms / 1e6;
	return 0;
}

/* From pinned host memory to device memory, timed by the host. */
static int copy_all(struct handoff *h, double *gbps_out)
{
	uint64_t t;
	void *dev;
	int rc = (int)cudaMalloc(&dev, h->region.bytes);

	if (rc)
		return handoff_fail("1 GiB of device memory", rc);
	t = spw_tsc_now();
	rc = (int)cudaMemcpyAsync(dev, h->region.host_va, h->region.bytes, cudaMemcpyHostToDevice,
				  h->stream);
	if (!rc)
		rc = (int)cudaStreamSynchronize(h->stream);
	*gbps_out = (double)h->region.bytes / (double)spw_tsc_to_ns(&h->tsc, spw_tsc_now() - t);
	cudaFree(dev);
	return rc ? handoff_fail("cudaMemcpy", rc) : 0;
}

static const struct {
	uint16_t rings, ctas;
} shape[] = {{1, 16}, {1, 32}, {1, 64}, {1, 128}, {2, 64}, {4, 8}, {4, 16}, {4, 32}};
static const uint32_t size[] = {64, 256, 1500, 4096, 9000};
static const uint32_t read_ctas[] = {4, 8, 16, 32, 64, 132};

#define SHAPES SPW_ARRAY_CNT(shape)
#define SIZES  SPW_ARRAY_CNT(size)
#define READS  SPW_ARRAY_CNT(read_ctas)

struct result {
	double frames[SIZES][SHAPES][HANDOFF_RUNS];
	double null_frames[SHAPES][HANDOFF_RUNS];
	double read[READS][HANDOFF_RUNS], copy[HANDOFF_RUNS];
};

/* The bounds come first, then each shape with "null" (the handoff alone) and with "sum" (every byte
 * is read), by size. */
static int one_run(struct handoff *h, struct result *r, uint32_t run)
{
	int rc = copy_all(h, &r->copy[run]);

	for (uint32_t i = 0; !rc && i < READS; i++)
		rc = read_all(h, SPW_MIN(read_ctas[i], h->sms), &r->read[i][run]);
	for (uint32_t s = 0; !rc && s < SHAPES; s++) {
		rc = exec_throughput(h, "null", shape[s].rings, shape[s].ctas, 64,
				     &r->null_frames[s][run]);
		for (uint32_t k = 0; !rc && k < SIZES; k++)
			rc = exec_throughput(h, "sum", shape[s].rings, shape[s].ctas, size[k],
					     &r->frames[k][s][run]);
	}
	return rc;
}

static void report(struct result *r, struct spw_bench_out *out)
{
	double best_read = 0, best, gbps[HANDOFF_RUNS];
	char name[72];

	spw_bench_add(out, "cudaMemcpy H2D, 1 GiB", "throughput", "GB/s", r->copy, HANDOFF_RUNS);
	for (uint32_t i = 0; i < READS; i++) {
		snprintf(name, sizeof(name), "one kernel reads 1 GiB, %u CTAs", read_ctas[i]);
		spw_bench_add(out, name, "throughput", "GB/s", r->read[i], HANDOFF_RUNS);
		best_read = SPW_MAX(best_read, out->row[out->row_cnt - 1].median);
	}
	for (uint32_t s = 0; s < SHAPES; s++) {
		snprintf(name, sizeof(name), "null, %u ring(s) x %u CTAs", shape[s].rings,
			 shape[s].ctas);
		for (uint32_t i = 0; i < HANDOFF_RUNS; i++)
			r->null_frames[s][i] /= 1e6;
		spw_bench_add(out, name, "frames", "M/s", r->null_frames[s], HANDOFF_RUNS);
	}
	for (uint32_t k = 0; k < SIZES; k++) {
		best = 0;
		for (uint32_t s = 0; s < SHAPES; s++) {
			snprintf(name, sizeof(name), "sum %u B, %u ring(s) x %u CTAs", size[k],
				 shape[s].rings, shape[s].ctas);
			for (uint32_t i = 0; i < HANDOFF_RUNS; i++) {
				gbps[i] = r->frames[k][s][i] * size[k] / 1e9;
				r->frames[k][s][i] /= 1e6;
			}
			spw_bench_add(out, name, "frames", "M/s", r->frames[k][s], HANDOFF_RUNS);
			spw_bench_add(out, name, "payload", "GB/s", gbps, HANDOFF_RUNS);
			best = SPW_MAX(best, out->row[out->row_cnt - 1].median);
		}
		snprintf(name, sizeof(name), "best of sum %u B / one kernel's read", size[k]);
		spw_bench_add1(out, name, "ratio", "", best / best_read);
	}
}

int handoff_throughput(struct handoff *h, struct spw_bench_out *out)
{
	struct result *r = calloc(1, sizeof(*r));
	int rc = r ? 0 : handoff_fail("memory", 2);

	for (uint32_t run = 0; !rc && run < HANDOFF_RUNS; run++)
		rc = one_run(h, r, run);
	if (!rc)
		report(r, out);
	free(r);
	return rc;
}
