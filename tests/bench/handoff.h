/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What the files of the handoff benchmark share.
 */
#ifndef SPW_BENCH_HANDOFF_H
#define SPW_BENCH_HANDOFF_H

#include <cuda_runtime_api.h>

#include "base/spw_err.h"
#include "bench.h"
#include "exec/spw_exec.h"
#include "exec/spw_handler.h"
#include "handoff_dev.h"
#include "time/spw_time.h"

#define HANDOFF_CASES        7u
#define HANDOFF_RINGS        4u                  /* ways through the executor ring */
#define HANDOFF_WAYS         (HANDOFF_RINGS + 1) /* and copy + launch + sync */
#define HANDOFF_RUNS         3u
#define HANDOFF_POINTS       5u
#define HANDOFF_SLICE_MS     500u    /* one way, one payload, one run */
#define HANDOFF_SAMPLES      200000u /* at most, of a slice */
#define HANDOFF_REGION_BYTES (1ull << 30)
#define HANDOFF_COPY_BYTES   (1ull << 20)
#define HANDOFF_PLACES       256u   /* payloads that follow each other in memory */
#define HANDOFF_LIFE_MS      20000u /* no kernel of the benchmark outlives this */

struct handoff_case {
	const char *name;
	uint32_t frames, bytes;
};
extern const struct handoff_case handoff_case[HANDOFF_CASES];

struct handoff_way {
	const char *name;
	enum spw_exec_kind kind;
	uint32_t share_bytes;
};
extern const struct handoff_way handoff_way[HANDOFF_RINGS];

#define HANDOFF_CTAS 7u
extern const uint16_t handoff_ctas[HANDOFF_CTAS]; /* 1500 B by units of the ring */

struct handoff_samples {
	uint32_t *ticks;
	uint32_t cnt;
	double us_per_tick;
	double us[HANDOFF_POINTS][HANDOFF_RUNS];
	uint32_t runs[HANDOFF_POINTS];
};

struct handoff_words {
	struct handoff_ping ping;
	uint64_t ns SPW_ALIGNED(128);
	uint64_t sum SPW_ALIGNED(128);
};

struct handoff {
	struct spw_tsc tsc;
	struct spw_region region;
	uint8_t *dev_copy;
	uint64_t *dev_scratch;
	cudaStream_t stream;
	struct handoff_words *words, *dev_words;
	char device[128];
	uint32_t sms;
	struct handoff_samples ping, way[HANDOFF_WAYS][HANDOFF_CASES], by_ctas[HANDOFF_CTAS];
	double read_us[2][HANDOFF_CASES][HANDOFF_RUNS];
};

int handoff_fail(const char *what, int rc);
/* Ends a slice: takes its percentiles. */
void handoff_samples_end(struct handoff_samples *s);
int handoff_latency(struct handoff *h);
int handoff_throughput(struct handoff *h, struct spw_bench_out *out);

/* Frames of a batch at fixed places: bytes apart rounded up to 64. */
SPW_INLINE uint32_t handoff_stride(uint32_t bytes)
{
	return SPW_ALIGN_UP(SPW_MAX(bytes, 64u), 64u);
}

#endif
