/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What polling a full completion queue costs per CQE: lib/port/mlx5 beside ibv_poll_cq and
 * ibv_start_poll on the same memory, one lap each in turn (cq_lap.c); then the whole pipe over it.
 * The ring was filled by the NIC once (cq_ring.h); laying it out again is not timed. No poller ever
 * waits for a NIC, so this is the poller's own cost.
 *
 * The burst of lib/port/mlx5 does more than the verbs calls: it finds the slot of each frame and
 * fills a descriptor. Posting receive buffers again is in the pipe's rows only.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "bench.h"
#include "cq_count.h"
#include "cq_lap.h"

#define ROUNDS 7u
#define LAPS   301u /* of each case in a round; the median counts */
#define CNT    1024u

struct cq_opt {
	const char *rx, *tx, *only;
	bool count;
};

/* Who polls, and what it needs beside the rings: nothing, a port, or a pipe over a port. */
enum cq_kind {
	CQ_VERBS,
	CQ_PORT,
	CQ_PORT_COMPRESSED,
	CQ_PIPE,
	CQ_PIPE_REC,
	CQ_PIPE_NIC,
	CQ_PIPE_FRAMES,
	CQ_SUM, /* from here on with a handler that reads the frames */
	CQ_SUM_FRAMES,
	CQ_SUM_FLIGHT,
	CQ_SUM_RAW
};

struct cq_case {
	const char *name;
	double (*lap)(struct cq_bench *b);
	const char *function; /* what callgrind counts */
	enum cq_kind kind;
	double value[ROUNDS];
};

static int by_value(const void *x, const void *y)
{
	double a = *(const double *)x, b = *(const double *)y;

	return (a > b) - (a < b);
}

/* Median of LAPS laps, ticks per CQE; 0 when a lap failed. */
static double median_lap(struct cq_bench *b, const struct cq_case *c)
{
	double lap[LAPS];

	for (uint32_t i = 0; i < LAPS; i++)
		if ((lap[i] = c->lap(b)) <= 0)
			return 0;
	qsort(lap, LAPS, sizeof(lap[0]), by_value);
	return lap[LAPS / 2] / b->plain.cnt;
}

/* One lane over a port over the case's ring, started. Only a pipe posts receive WQEs within a lap.
 */
static int case_open(struct cq_bench *b, enum cq_kind kind)
{
	struct cq_ring *ring = kind == CQ_PORT_COMPRESSED ? &b->mini : &b->plain;
	bool frames = kind == CQ_PIPE_FRAMES || kind >= CQ_SUM_FRAMES;
	struct spw_topo_conf conf = {
		.tsc = b->tsc,
		.port[0] = {.open = &b->port.base, .queue_cnt = 1},
		.port_cnt = 1,
		.lane[0] = {.numa_node = -1},
		.lane_cnt = 1,
		.memory = {.kind = SPW_MEM_HOST, .slots = ring->cnt, .slot_bytes = CQ_SLOT_BYTES},
		.exec = {.backend[0].kind = SPW_EXEC_INLINE,
			 .backend_cnt = 1,
			 .handler = kind >= CQ_SUM ? b->sum : b->null},
		.pipe = {.burst = SPW_BURST_MAX,
			 .record = kind >= CQ_PIPE_REC && kind != CQ_SUM,
			 .nic_frames = frames,
			 .flight = kind >= CQ_SUM_FLIGHT ? &b->flight : NULL,
			 .flight_raw = kind == CQ_SUM_RAW},
	};
	int rc;

	cq_port_init(&b->port, ring, ring == &b->mini ? MLX5_F_COMPRESSED : MLX5_F_STAMP,
		     kind >= CQ_PIPE ? ring->cnt / 16 : ring->cnt,
		     kind >= CQ_PIPE_NIC ? b->tsc.hz : 0);
	b->lap = 0;
	rc = spw_topo_open(&b->topo, &conf);
	spw_log_sink_set(NULL, NULL); /* the memory of all cases is alike: reported once */
	if (rc == 0)
		rc = spw_topo_start(&b->topo);
	return rc;
}

static double run_case(struct cq_bench *b, const struct cq_case *c)
{
	struct spw_topo_end end;
	double ticks = 0;

	if (c->kind == CQ_VERBS)
		return median_lap(b, c);
	if (case_open(b, c->kind) == 0) {
		spw_pipe_begin(&b->topo.lane[0]->pipe);
		ticks = median_lap(b, c);
		spw_pipe_end(&b->topo.lane[0]->pipe);
		spw_topo_stop(&b->topo, 1000, &end);
	} else {
		fprintf(stderr, "spinwire-bench cq: %s\n", spw_err_text());
	}
	spw_topo_close(&b->topo);
	return ticks;
}

static struct cq_case cq_cases[] = {
	{"ibv_poll_cq", cq_lap_verbs, "lap_poll_cq", CQ_VERBS, {0}},
	{"ibv_start_poll, ibv_next_poll", cq_lap_verbs_ex, "lap_next_poll", CQ_VERBS, {0}},
	{"spinwire, latency profile, stamps", cq_lap_stamped, "lap_ours_stamped", CQ_PORT, {0}},
	{"spinwire, compressed", cq_lap_compressed, "lap_ours_compressed", CQ_PORT_COMPRESSED, {0}},
	{"pipe, inline null handler, recorder off", cq_lap_piped, "lap_pipe", CQ_PIPE, {0}},
	{"pipe, inline null handler, recorder on", cq_lap_piped, "lap_pipe", CQ_PIPE_REC, {0}},
	{"the same, from the oldest frame's NIC stamp", cq_lap_piped, "lap_pipe", CQ_PIPE_NIC, {0}},
	{"the same, and stages for every NIC stamp", cq_lap_piped, "lap_pipe", CQ_PIPE_FRAMES, {0}},
	{"pipe, inline sum handler, recorder off", cq_lap_piped, "lap_pipe", CQ_SUM, {0}},
	{"sum, stages for every NIC stamp", cq_lap_piped, "lap_pipe", CQ_SUM_FRAMES, {0}},
	{"sum, and a flight recorder without CQEs", cq_lap_piped, "lap_pipe", CQ_SUM_FLIGHT, {0}},
	{"sum, and a flight recorder", cq_lap_piped, "lap_pipe", CQ_SUM_RAW, {0}},
};

static int run_rounds(struct cq_bench *b)
{
	for (uint32_t round = 0; round < ROUNDS; round++)
		for (size_t i = 0; i < SPW_ARRAY_CNT(cq_cases); i++) {
			struct cq_case *c = &cq_cases[i];

			c->value[round] = run_case(b, c);
			if (c->value[round] <= 0) {
				fprintf(stderr, "spinwire-bench cq: %s: the ring was not drained\n",
					c->name);
				return 3;
			}
		}
	return 0;
}

static void add_rows(struct cq_bench *b, struct spw_bench_out *out)
{
	double verbs[ROUNDS], compressed[ROUNDS], rate[ROUNDS], flight[ROUNDS];

	for (uint32_t i = 0; i < ROUNDS; i++) {
		verbs[i] = cq_cases[2].value[i] / cq_cases[0].value[i];
		compressed[i] = cq_cases[3].value[i] / cq_cases[0].value[i];
		rate[i] = (double)b->tsc.hz * 1e-6 / cq_cases[5].value[i];
		flight[i] = cq_cases[11].value[i] / cq_cases[9].value[i];
	}
	spw_bench_add(out, "spinwire / ibv_poll_cq", "ratio", "", verbs, ROUNDS);
	spw_bench_add(out, "spinwire compressed / ibv_poll_cq", "ratio", "", compressed, ROUNDS);
	spw_bench_add(out, "sum, with and without a flight recorder", "ratio", "", flight, ROUNDS);
	spw_bench_add(out, "pipe, inline null handler, recorder on", "throughput", "Mframes/s",
		      rate, ROUNDS);
	for (size_t i = 0; i < SPW_ARRAY_CNT(cq_cases); i++)
		spw_bench_add(out, cq_cases[i].name, "cost", "ticks/CQE", cq_cases[i].value,
			      ROUNDS);
	spw_bench_add1(out, "spinwire, compressed", "block", "CQEs",
		       (double)b->mini.cnt / b->mini.sessions);
}

/* Runs one case alone, under callgrind. */
static int run_one(struct cq_bench *b, const char *name)
{
	for (size_t i = 0; i < SPW_ARRAY_CNT(cq_cases); i++) {
		const struct cq_case *c = &cq_cases[i];

		if (!strcmp(c->name, name))
			return run_case(b, c) > 0 ? 0 : 3;
	}
	return 1;
}

static int add_counts(const struct cq_opt *opt, struct spw_bench_out *out)
{
	for (size_t i = 0; i < SPW_ARRAY_CNT(cq_cases); i++) {
		char *argv[] = {(char *)(uintptr_t) "cq",
				(char *)(uintptr_t)opt->rx,
				(char *)(uintptr_t)opt->tx,
				(char *)(uintptr_t) "--only",
				(char *)(uintptr_t)cq_cases[i].name,
				NULL};
		uint64_t total;

		if (cq_count(cq_cases[i].function, argv, &total))
			return 2;
		spw_bench_add1(out, cq_cases[i].name, "instructions", "per CQE",
			       (double)total / LAPS / CNT);
	}
	return 0;
}

/* The two ports. */
static int port_word(void *base, const char *word)
{
	struct cq_opt *opt = base;
	const char **port = opt->rx ? &opt->tx : &opt->rx;

	if (*port)
		return spw_err(EINVAL, "%s: there are two ports, RX and TX", word);
	*port = word;
	return 0;
}

static const struct spw_opt cq_opts[] = {
	{.name = "instructions",
	 SPW_BENCH_FIELD(struct cq_opt, count),
	 .kind = SPW_OPT_FLAG,
	 .help = "count them as well, by callgrind (needs valgrind)"},
	{.name = "only",
	 SPW_BENCH_FIELD(struct cq_opt, only),
	 .kind = SPW_OPT_STRING,
	 .value = "CASE",
	 .help = "one case, and no rows: what callgrind runs"},
};

int spw_bench_cq(int argc, char **argv, struct spw_bench_out *out)
{
	struct cq_opt opt = {0};
	const struct spw_opt_take take = {.base = &opt, .word = port_word};
	struct cq_bench *b;
	int status = spw_bench_args(out, cq_opts, SPW_ARRAY_CNT(cq_opts), argc, argv, &take);

	if (status != SPW_BENCH_RUN)
		return status;
	if (opt.rx && !opt.tx) {
		fprintf(stderr, "usage: tools/with-softhca --devices 2 spinwire-bench cq [RX TX]\n"
				"  RX TX  two mlx5 ports on one cable (mlx5_0 mlx5_1)\n");
		return 1;
	}
	opt.rx = opt.rx ? opt.rx : "mlx5_0";
	opt.tx = opt.tx ? opt.tx : "mlx5_1";
	b = aligned_alloc(128, SPW_ALIGN_UP(sizeof(*b), (size_t)128));
	if (!b)
		return 2;
	memset(b, 0, sizeof(*b));
	status = cq_lap_open(b, opt.rx, opt.tx, CNT);
	if (!status)
		status = opt.only ? run_one(b, opt.only) : run_rounds(b);
	if (!status && !opt.only)
		add_rows(b, out);
	cq_lap_close(b);
	return status || !opt.count ? status : add_counts(&opt, out);
}
