/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * How long a batch takes to the GPU and back, by payload, for each CUDA executor. The rows beside
 * them bound it: a bare doorbell ping-pong, the payload's own read time, and copy + launch + sync.
 * Then frames per second with many batches in flight, beside what one kernel reads of the same
 * memory and what cudaMemcpy moves. All in one run, in turn. handoff_latency.c and
 * handoff_throughput.c hold the two halves.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

#if !SPW_HAVE_CUDA
int spw_bench_handoff(int argc, char **argv, struct spw_bench_out *out)
{
	(void)argc;
	(void)argv;
	(void)out;
	fprintf(stderr, "spinwire-bench: handoff needs the CUDA backends, which this build leaves "
			"out (no nvcc)\n");
	return 2;
}
#else

#include <cuda_runtime_api.h>

#include "handoff.h"

const struct handoff_case handoff_case[HANDOFF_CASES] = {
	{"0 B", 1, 0},
	{"64 B", 1, 64},
	{"1500 B", 1, 1500},
	{"9000 B", 1, 9000},
	{"65536 B", 1, 65536},
	{"64 x 1500 B", 64, 1500},
	{"64 x 9000 B", 64, 9000},
};

const struct handoff_way handoff_way[HANDOFF_RINGS] = {
	{"persistent", SPW_EXEC_CUDA_PERSISTENT, 0},
	{"persistent, never shared", SPW_EXEC_CUDA_PERSISTENT, 1u << 31},
	{"graph", SPW_EXEC_CUDA_GRAPH, 0},
	{"launch", SPW_EXEC_CUDA_LAUNCH, 0},
};

const uint16_t handoff_ctas[HANDOFF_CTAS] = {1, 2, 4, 8, 16, 32, 64};

int handoff_fail(const char *what, int rc)
{
	fprintf(stderr, "spinwire-bench: handoff: %s: %s\n", what,
		rc ? cudaGetErrorString((cudaError_t)rc) : spw_err_text());
	return 2;
}

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static const struct {
	const char *name;
	double share;
} point[HANDOFF_POINTS] = {
	{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}, {"p99.99", 0.9999}};

void handoff_samples_end(struct handoff_samples *s)
{
	qsort(s->ticks, s->cnt, sizeof(*s->ticks), by_value);
	for (uint32_t i = 0; i < HANDOFF_POINTS; i++) {
		/* finer than the samples allow: ten of them must lie beyond */
		if ((1 - point[i].share) * s->cnt < 10)
			continue;
		s->us[i][s->runs[i]++] =
			s->ticks[(uint64_t)(point[i].share * s->cnt)] * s->us_per_tick;
	}
}

static void samples_report(struct spw_bench_out *out, const char *name, struct handoff_samples *s)
{
	for (uint32_t i = 0; i < HANDOFF_POINTS; i++)
		if (s->runs[i])
			spw_bench_add(out, name, point[i].name, "us", s->us[i], s->runs[i]);
}

static void latency_report(struct handoff *h, struct spw_bench_out *out)
{
	double ping, one, best;
	char name[72];

	samples_report(out, "bare ping-pong", &h->ping);
	ping = out->row[0].median; /* its p50 comes first */
	for (uint32_t k = 0; k < HANDOFF_CTAS; k++) {
		snprintf(name, sizeof(name), "persistent, 1500 B, %u CTAs", handoff_ctas[k]);
		samples_report(out, name, &h->by_ctas[k]);
	}
	for (uint32_t c = 0; c < HANDOFF_CASES; c++) {
		double p50[HANDOFF_WAYS] = {0};

		for (uint32_t w = 0; w < HANDOFF_WAYS; w++) {
			size_t at = out->row_cnt;

			snprintf(name, sizeof(name), "%s, %s",
				 w < HANDOFF_RINGS ? handoff_way[w].name : "copy+launch+sync",
				 handoff_case[c].name);
			samples_report(out, name, &h->way[w][c]);
			p50[w] = out->row_cnt > at ? out->row[at].median : 0;
		}
		snprintf(name, sizeof(name), "own read, 1 CTA, %s", handoff_case[c].name);
		spw_bench_add(out, name, "mean", "us", h->read_us[0][c], HANDOFF_RUNS);
		one = out->row[out->row_cnt - 1].median;
		snprintf(name, sizeof(name), "own read, 8 CTAs, %s", handoff_case[c].name);
		spw_bench_add(out, name, "mean", "us", h->read_us[1][c], HANDOFF_RUNS);
		best = SPW_MIN(one, out->row[out->row_cnt - 1].median);
		snprintf(name, sizeof(name), "persistent / (ping-pong + read 1 CTA), %s",
			 handoff_case[c].name);
		spw_bench_add1(out, name, "p50 ratio", "", p50[0] / (ping + one));
		snprintf(name, sizeof(name), "persistent / (ping-pong + best read), %s",
			 handoff_case[c].name);
		spw_bench_add1(out, name, "p50 ratio", "", p50[0] / (ping + best));
		snprintf(name, sizeof(name), "persistent / copy+launch+sync, %s",
			 handoff_case[c].name);
		spw_bench_add1(out, name, "p50 ratio", "", p50[0] / p50[HANDOFF_RINGS]);
	}
}

static int handoff_open(struct handoff *h)
{
	struct cudaDeviceProp prop;
	struct spw_region *r = &h->region;
	void *dev;
	int cnt = 0, rc;

	setenv("CUDA_MODULE_LOADING", "EAGER", 0);
	rc = (int)cudaGetDeviceCount(&cnt);
	if (rc || !cnt)
		return handoff_fail("no GPU", rc);
	if ((rc = (int)cudaGetDeviceProperties(&prop, 0)) ||
	    (rc = (int)cudaSetDeviceFlags(cudaDeviceMapHost | cudaDeviceScheduleSpin)))
		return handoff_fail("device", rc);
	snprintf(h->device, sizeof(h->device), "%.120s", prop.name);
	h->sms = (uint32_t)prop.multiProcessorCount;
	r->bytes = HANDOFF_REGION_BYTES;
	if ((rc = (int)cudaHostAlloc((void **)&r->host_va, r->bytes,
				     cudaHostAllocMapped | cudaHostAllocPortable)) ||
	    (rc = (int)cudaHostGetDevicePointer(&dev, r->host_va, 0)) ||
	    (rc = (int)cudaMalloc((void **)&h->dev_copy, HANDOFF_COPY_BYTES)) ||
	    (rc = (int)cudaMalloc((void **)&h->dev_scratch, 64)) ||
	    (rc = (int)cudaMemset(h->dev_scratch, 0, 64)) ||
	    (rc = (int)cudaStreamCreateWithFlags(&h->stream, cudaStreamNonBlocking)) ||
	    (rc = (int)cudaHostAlloc((void **)&h->words, sizeof(*h->words), cudaHostAllocMapped)) ||
	    (rc = (int)cudaHostGetDevicePointer((void **)&h->dev_words, h->words, 0)))
		return handoff_fail("memory", rc);
	memset(h->words, 0, sizeof(*h->words));
	r->dev_va = (uint64_t)(uintptr_t)dev;
	for (size_t i = 0; i < r->bytes; i += 8)
		*(uint64_t *)(void *)(r->host_va + i) = i * 0x9e3779b97f4a7c15ull;
	if (spw_tsc_calibrate(50, &h->tsc))
		return handoff_fail("clock", 0);
	return 0;
}

static void handoff_close(struct handoff *h)
{
	cudaFreeHost(h->region.host_va);
	cudaFreeHost(h->words);
	cudaFree(h->dev_copy);
	cudaFree(h->dev_scratch);
	cudaStreamDestroy(h->stream);
	for (uint32_t w = 0; w < HANDOFF_WAYS; w++)
		for (uint32_t c = 0; c < HANDOFF_CASES; c++)
			free(h->way[w][c].ticks);
	for (uint32_t k = 0; k < HANDOFF_CTAS; k++)
		free(h->by_ctas[k].ticks);
	free(h->ping.ticks);
	free(h);
}

struct handoff_args {
	bool latency, throughput;
};

static const struct spw_opt handoff_opt[] = {
	{.name = "latency",
	 SPW_BENCH_FIELD(struct handoff_args, latency),
	 .kind = SPW_OPT_FLAG,
	 .help = "only by payload"},
	{.name = "throughput",
	 SPW_BENCH_FIELD(struct handoff_args, throughput),
	 .kind = SPW_OPT_FLAG,
	 .help = "only by frame size"},
};

int spw_bench_handoff(int argc, char **argv, struct spw_bench_out *out)
{
	struct handoff_args args = {0};
	const struct spw_opt_take take = {.base = &args};
	bool latency, throughput;
	struct handoff *h;
	int rc = spw_bench_args(out, handoff_opt, SPW_ARRAY_CNT(handoff_opt), argc, argv, &take);

	if (rc != SPW_BENCH_RUN)
		return rc;
	latency = args.latency || !args.throughput;
	throughput = args.throughput || !args.latency;
	h = calloc(1, sizeof(*h));
	if (!h)
		return handoff_fail("memory", 2);
	rc = handoff_open(h);
	if (!rc) {
		strncat(out->machine, "; ", sizeof(out->machine) - strlen(out->machine) - 1);
		strncat(out->machine, h->device, sizeof(out->machine) - strlen(out->machine) - 1);
	}
	if (!rc && latency)
		rc = handoff_latency(h);
	if (!rc && latency)
		latency_report(h, out);
	if (!rc && throughput)
		rc = handoff_throughput(h, out);
	handoff_close(h);
	return rc;
}
#endif
