/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What polling host memory costs a GPU: the time of one turn of a polling warp, by how many warps
 * poll, what a turn reads, and how. The way the executor's resident kernel polls follows from these
 * rows.
 */
#include <stdio.h>

#include <cuda_runtime_api.h>

#include "base/spw_err.h"
#include "bench.h"
#include "exec/spw_exec.h"
#include "exec/spw_handler.h"
#include "poll_dev.h"
#include "time/spw_time.h"

#define LIFE_NS   5000000ull
#define RUNS      3u
#define MEM_BYTES (1u << 20)

static const struct poll_way way[] = {
	/* ctas pollers warps lanes stride acquire timer */
	{1, 1, 1, 1, 1024, 1, 0},    {1, 2, 2, 1, 1024, 1, 0},   {16, 1, 1, 1, 1024, 1, 0},
	{16, 1, 1, 1, 1024, 0, 0},   {16, 2, 2, 1, 1024, 1, 0},  {16, 2, 2, 2, 1024, 1, 0},
	{16, 2, 2, 2, 1024, 0, 0},   {16, 2, 2, 2, 1024, 1, 1},  {16, 2, 2, 8, 1024, 1, 1},
	{16, 2, 2, 31, 1024, 1, 1},  {16, 2, 32, 2, 1024, 1, 0}, {16, 2, 32, 2, 1024, 1, 1},
	{16, 2, 32, 2, 1024, 0, 1},  {16, 2, 2, 2, 4096, 1, 0},  {16, 2, 2, 2, 0, 1, 0},
	{8, 2, 32, 2, 1024, 1, 1},   {12, 2, 32, 2, 1024, 1, 1}, {32, 2, 32, 2, 1024, 1, 1},
	{64, 1, 1, 1, 1024, 1, 0},   {64, 2, 32, 2, 1024, 1, 1}, {128, 1, 1, 1, 1024, 1, 0},
	{128, 2, 32, 2, 1024, 1, 1}, {128, 2, 2, 2, 1024, 0, 0}, {16, 2, 2, 0, 1024, 0, 1},
	{128, 2, 2, 0, 1024, 0, 1},
};

static int poll_one(uint32_t i, uint8_t *mem, uint64_t *ps, cudaStream_t stream, double *ns_out)
{
	uint32_t n = way[i].ctas * way[i].pollers;
	double sum = 0;
	int rc = poll_launch(mem, way[i], LIFE_NS, ps, stream);

	if (!rc)
		rc = (int)cudaStreamSynchronize(stream);
	for (uint32_t k = 0; k < n; k++)
		sum += (double)ps[k];
	*ns_out = sum / n / 1e3;
	return rc;
}

int spw_bench_poll(int argc, char **argv, struct spw_bench_out *out)
{
	cudaStream_t stream;
	uint64_t *ps;
	uint8_t *mem;
	char name[72];
	int rc;

	(void)argv;
	if (argc > 1) {
		fprintf(stderr, "usage: spinwire-bench [--json FILE] poll\n");
		return 1;
	}
	if ((rc = (int)cudaHostAlloc((void **)&mem, MEM_BYTES, cudaHostAllocMapped)) ||
	    (rc = (int)cudaHostAlloc((void **)&ps, 4096, cudaHostAllocMapped)) ||
	    (rc = (int)cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)))
		goto out;
	for (uint32_t i = 0; !rc && i < SPW_ARRAY_CNT(way); i++) {
		double ns[RUNS];

		for (uint32_t run = 0; !rc && run < RUNS; run++)
			rc = poll_one(i, mem, ps, stream, &ns[run]);
		snprintf(name, sizeof(name), "%u x %u of %u warps, %u lanes, %u B apart%s%s",
			 way[i].ctas, way[i].pollers, way[i].warps, way[i].lanes, way[i].stride,
			 way[i].acquire ? ", acquire" : ", relaxed", way[i].timer ? ", timer" : "");
		spw_bench_add(out, name, "turn", "ns", ns, RUNS);
	}
	cudaFreeHost(mem);
	cudaFreeHost(ps);
	cudaStreamDestroy(stream);
out:
	if (rc)
		fprintf(stderr, "spinwire-bench: poll: %s\n", cudaGetErrorString((cudaError_t)rc));
	return rc ? 2 : 0;
}
