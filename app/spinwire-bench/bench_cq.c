/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What polling a full completion queue costs per CQE: lib/port/mlx5 beside ibv_poll_cq and ibv_start_poll on the same
 * memory, one lap each in turn; then the whole pipe over it. The ring was filled by the NIC once (cq_ring.h); laying it
 * out again is not timed. Nobody waits for a NIC here, so this is the poller alone.
 *
 * The burst of lib/port/mlx5 does more than its neighbours: it finds the slot of each frame and fills a descriptor. Posting
 * receive buffers again is in none of them, but in the pipe's rows.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "bench.h"
#include "cq_count.h"
#include "cq_ring.h"
#include "gpu/spw_handler.h"
#include "pipe/spw_pipe.h"
#include "port/mlx5/mlx5_impl.h"
#include "time/spw_time.h"

#define ROUNDS     7u
#define LAPS       301u /* of each case in a round; the median counts */
#define CNT        1024u
#define STAMP_STEP 10u   /* ticks of a stamp between frames: 260 M frames/s at 2.6 GHz, so many share a bucket */
#define SLOT_BYTES 2048u

/* lib/port/mlx5 over the ring's memory; its receive WQEs lie in memory of their own, which no NIC reads. */
struct ours {
	struct spw_mlx5_queue q;
	struct spw_port_queue pq;
	struct spw_pool pool;
	uint8_t *wqe;
	spw_be32 db[2];
	uint32_t lap;
};

struct cq_bench {
	struct cq_ring plain, zip;
	struct spw_region region;
	struct ours stamped, compressed, piped;
	struct spw_tsc tsc;
	struct spw_clock_box nic_clock;
	uint32_t verbs_lap; /* of the plain ring, as libmlx5 counts */
	const struct spw_handler *handler;
	uint64_t sink;      /* what was read, so that it is read */
};

struct cq_opt {
	const char *rx, *tx, *only;
	bool count;
};

/* ---- one lap each: how long, in ticks ---------------------------------------------------------------- */

static __attribute__((noinline)) uint64_t lap_poll_cq(struct cq_ring *r, uint64_t *sink)
{
	struct ibv_wc wc[SPW_BURST_MAX];
	struct ibv_cq *cq = ibv_cq_ex_to_cq(r->rx.cq);
	uint64_t start = spw_tsc_now_ordered(), sum = 0;

	for (uint32_t n = 0; n < r->cnt;) {
		int got = ibv_poll_cq(cq, SPW_BURST_MAX, wc);

		if (got <= 0)
			return 0;
		for (int i = 0; i < got; i++)
			sum += wc[i].byte_len;
		n += (uint32_t)got;
	}
	*sink += sum;
	return spw_tsc_now_ordered() - start;
}

static __attribute__((noinline)) uint64_t lap_next_poll(struct cq_ring *r, uint64_t *sink)
{
	struct ibv_poll_cq_attr attr = {0};
	uint64_t start = spw_tsc_now_ordered(), sum = 0;
	uint32_t n = 0;

	while (n < r->cnt) {
		uint32_t burst = 0;
		int rc = ibv_start_poll(r->rx.cq, &attr);

		if (rc)
			return 0;
		do {
			sum += ibv_wc_read_byte_len(r->rx.cq) + ibv_wc_read_completion_ts(r->rx.cq);
		} while (++burst < SPW_BURST_MAX && !ibv_next_poll(r->rx.cq));
		ibv_end_poll(r->rx.cq);
		n += burst;
	}
	*sink += sum;
	return spw_tsc_now_ordered() - start;
}

SPW_INLINE uint64_t lap_ours(struct ours *o, uint32_t cnt, uint32_t *slot, uint64_t *sink)
{
	struct spw_desc desc[SPW_BURST_MAX];
	uint64_t start = spw_tsc_now_ordered(), sum = 0;

	for (uint32_t n = 0; n < cnt;) {
		uint16_t got = spw_port_rx_burst(&o->pq, desc, SPW_BURST_MAX);

		if (!got)
			return 0;
		for (uint16_t i = 0; i < got; i++) {
			sum += desc[i].len + desc[i].nic_stamp;
			slot[n + i] = desc[i].slot;
		}
		n += got;
	}
	*sink += sum;
	return spw_tsc_now_ordered() - start;
}

/* Two names, so that callgrind can tell them apart. */
static __attribute__((noinline)) uint64_t lap_ours_stamped(struct ours *o, uint32_t cnt, uint32_t *slot, uint64_t *sink)
{
	return lap_ours(o, cnt, slot, sink);
}

static __attribute__((noinline)) uint64_t lap_ours_zip(struct ours *o, uint32_t cnt, uint32_t *slot, uint64_t *sink)
{
	return lap_ours(o, cnt, slot, sink);
}

static __attribute__((noinline)) uint64_t lap_pipe(struct spw_pipe *pipe, uint32_t cnt)
{
	uint64_t until = pipe->ledger.reaped_frames + cnt, start = spw_tsc_now_ordered();

	for (uint32_t turns = 0; pipe->ledger.reaped_frames < until; turns++)
		if (!spw_pipe_run_once(pipe) && turns > cnt)
			return 0;
	return spw_tsc_now_ordered() - start;
}

/* ---- set-up -------------------------------------------------------------------------------------------- */

static int ours_open(struct cq_bench *b, struct ours *o, struct cq_ring *r, uint32_t at, unsigned flags, uint32_t refill_min)
{
	struct spw_mlx5_queue_conf conf = {
		.cq = {r->mem.buf, NULL, r->cnt, 64},
		.rq = {.dbrec = &o->db[0], .cnt = r->cnt, .stride = 16},
		.pool = &o->pool, .flags = flags, .refill_min = refill_min,
	};
	int rc = spw_pool_init(&o->pool, &b->region, (size_t)at * r->cnt * SLOT_BYTES, SLOT_BYTES, r->cnt);

	o->wqe = aligned_alloc(4096, (size_t)r->cnt * 16);
	conf.rq.buf = o->wqe;
	if (!rc && !o->wqe)
		rc = spw_err(ENOMEM, "no memory for receive entries");
	if (!rc)
		rc = spw_mlx5_queue_init(&o->q, &conf);
	if (rc)
		return rc;
	spw_mlx5_queue_calls(&o->q, &o->pq);
	spw_mlx5_queue_arm(&o->q);
	return 0;
}

static int bench_open(struct cq_bench *b, const char *rx, const char *tx, uint32_t cnt)
{
	struct spw_mem_req req = {.kind = SPW_MEM_HOST, .bytes = (size_t)3 * cnt * SLOT_BYTES, .numa_node = -1};
	int status = cq_ring_open(&b->plain, rx, tx, cnt, false), rc;

	if (!status)
		status = cq_ring_open(&b->zip, rx, tx, cnt, true);
	if (status)
		return status;
	cq_ring_stamps(&b->plain, STAMP_STEP);
	rc = spw_tsc_calibrate(50, &b->tsc);
	if (!rc)
		rc = spw_region_alloc(&req, &b->region);
	if (!rc)
		rc = ours_open(b, &b->stamped, &b->plain, 0, MLX5_F_STAMP, cnt);
	if (!rc)
		rc = ours_open(b, &b->compressed, &b->zip, 1, MLX5_F_ZIP, cnt);
	if (!rc)
		rc = ours_open(b, &b->piped, &b->plain, 2, MLX5_F_STAMP, cnt / 16);
	if (!rc)
		rc = spw_handler_open("null", &b->handler);
	if (rc)
		fprintf(stderr, "spinwire-bench cq: %s\n", spw_err_text());
	return rc ? 2 : 0;
}

/* ---- laps ------------------------------------------------------------------------------------------------ */

typedef uint64_t ours_fn(struct ours *o, uint32_t cnt, uint32_t *slot, uint64_t *sink);

static double ours_lap(struct cq_bench *b, struct ours *o, struct cq_ring *r, ours_fn *lap)
{
	struct spw_desc none[SPW_BURST_MAX];
	uint32_t *slot = calloc(r->cnt, sizeof(*slot));
	uint64_t ticks;

	if (!slot)
		return 0;
	cq_ring_lay(r, o->lap++);
	ticks = lap(o, r->cnt, slot, &b->sink);
	for (uint32_t i = 0; ticks && i < r->cnt; i += SPW_BURST_MAX)
		spw_port_release_burst(&o->pq, slot + i, SPW_BURST_MAX);
	spw_port_rx_burst(&o->pq, none, SPW_BURST_MAX); /* finds nothing, and posts what came home */
	free(slot);
	return (double)ticks;
}

static double lap_stamped(struct cq_bench *b, struct spw_pipe *pipe SPW_UNUSED)
{
	return ours_lap(b, &b->stamped, &b->plain, lap_ours_stamped);
}

static double lap_compressed(struct cq_bench *b, struct spw_pipe *pipe SPW_UNUSED)
{
	return ours_lap(b, &b->compressed, &b->zip, lap_ours_zip);
}

static double lap_verbs(struct cq_bench *b, struct spw_pipe *pipe SPW_UNUSED)
{
	cq_ring_lay(&b->plain, b->verbs_lap++);
	return (double)lap_poll_cq(&b->plain, &b->sink);
}

static double lap_verbs_ex(struct cq_bench *b, struct spw_pipe *pipe SPW_UNUSED)
{
	cq_ring_lay(&b->plain, b->verbs_lap++);
	return (double)lap_next_poll(&b->plain, &b->sink);
}

/* The last frame was stamped just now; stamps count ticks. */
static double lap_piped(struct cq_bench *b, struct spw_pipe *pipe)
{
	struct spw_clock_map map;

	cq_ring_lay(&b->plain, b->piped.lap++);
	spw_clock_map_identity(&map);
	map.other_base = (uint64_t)b->plain.cnt * STAMP_STEP;
	map.ref_base = spw_tsc_now();
	spw_clock_box_put(&b->nic_clock, &map);
	spw_rec_clocks(&pipe->rec, NULL, &b->nic_clock);
	return (double)lap_pipe(pipe, b->plain.cnt);
}

struct cq_case {
	const char *name;
	double (*lap)(struct cq_bench *b, struct spw_pipe *pipe);
	const char *function; /* what callgrind counts */
	bool pipe, record, nic_stamps, nic_frames;
	double value[ROUNDS];
};

static int by_value(const void *x, const void *y)
{
	double a = *(const double *)x, b = *(const double *)y;

	return (a > b) - (a < b);
}

/* Median of LAPS laps, ticks per CQE; 0 when a lap went wrong. */
static double median_lap(struct cq_bench *b, const struct cq_case *c, struct spw_pipe *pipe)
{
	double lap[LAPS];

	for (uint32_t i = 0; i < LAPS; i++)
		if ((lap[i] = c->lap(b, pipe)) <= 0)
			return 0;
	qsort(lap, LAPS, sizeof(lap[0]), by_value);
	return lap[LAPS / 2] / b->plain.cnt;
}

/* The same with a pipe and an inline executor made for it. */
static double piped_case(struct cq_bench *b, const struct cq_case *c)
{
	struct spw_exec_conf ec = {.kind = SPW_EXEC_INLINE, .handler = b->handler, .ring_cnt = 1, .region = &b->region,
				   .region_cnt = 1, .numa_node = -1};
	struct spw_pipe_conf pc = {.queue = &b->piped.pq, .pool = &b->piped.pool, .burst = SPW_BURST_MAX, .record = c->record,
				   .nic_stamps = c->nic_stamps, .nic_frames = c->nic_frames, .drain_tsc = 1u << 30};
	struct spw_pipe *pipe = aligned_alloc(128, SPW_ALIGN_UP(sizeof(*pipe), (size_t)128));
	double ticks = 0;

	if (pipe && spw_exec_open(&ec, &pc.exec) == 0) {
		pc.ring = spw_exec_ring(pc.exec, 0);
		if (spw_pipe_init(pipe, &pc) == 0 && spw_exec_start(pc.exec) == 0) {
			spw_rec_begin(&pipe->rec);
			ticks = median_lap(b, c, pipe);
			spw_exec_stop(pc.exec, 1000);
		}
		spw_exec_close(pc.exec);
	}
	free(pipe);
	return ticks;
}

static struct cq_case cq_cases[] = {
	{"ibv_poll_cq", lap_verbs, "lap_poll_cq", false, false, false, false, {0}},
	{"ibv_start_poll, ibv_next_poll", lap_verbs_ex, "lap_next_poll", false, false, false, false, {0}},
	{"spinwire, latency profile, stamps", lap_stamped, "lap_ours_stamped", false, false, false, false, {0}},
	{"spinwire, compressed", lap_compressed, "lap_ours_zip", false, false, false, false, {0}},
	{"pipe, inline null handler, recorder off", lap_piped, "lap_pipe", true, false, false, false, {0}},
	{"pipe, inline null handler, recorder on", lap_piped, "lap_pipe", true, true, false, false, {0}},
	{"the same, from the oldest frame's NIC stamp", lap_piped, "lap_pipe", true, true, true, false, {0}},
	{"the same, and stages for every NIC stamp", lap_piped, "lap_pipe", true, true, true, true, {0}},
};

static int run_rounds(struct cq_bench *b)
{
	for (uint32_t round = 0; round < ROUNDS; round++)
		for (size_t i = 0; i < SPW_ARRAY_CNT(cq_cases); i++) {
			struct cq_case *c = &cq_cases[i];

			c->value[round] = c->pipe ? piped_case(b, c) : median_lap(b, c, NULL);
			if (c->value[round] <= 0) {
				fprintf(stderr, "spinwire-bench cq: %s: the ring was not drained\n", c->name);
				return 3;
			}
		}
	return 0;
}

static void add_rows(struct cq_bench *b, struct spw_bench_out *out)
{
	double verbs[ROUNDS], zip[ROUNDS], rate[ROUNDS];

	for (uint32_t i = 0; i < ROUNDS; i++) {
		verbs[i] = cq_cases[2].value[i] / cq_cases[0].value[i];
		zip[i] = cq_cases[3].value[i] / cq_cases[0].value[i];
		rate[i] = (double)b->tsc.hz * 1e-6 / cq_cases[5].value[i];
	}
	spw_bench_add(out, "spinwire / ibv_poll_cq", "ratio", "", verbs, ROUNDS);
	spw_bench_add(out, "spinwire compressed / ibv_poll_cq", "ratio", "", zip, ROUNDS);
	spw_bench_add(out, "pipe, inline null handler, recorder on", "throughput", "Mframes/s", rate, ROUNDS);
	for (size_t i = 0; i < SPW_ARRAY_CNT(cq_cases); i++)
		spw_bench_add(out, cq_cases[i].name, "cost", "ticks/CQE", cq_cases[i].value, ROUNDS);
	spw_bench_add1(out, "spinwire, compressed", "block", "CQEs", (double)b->zip.cnt / b->zip.sessions);
}

/* Runs one case alone, for callgrind to watch. */
static int run_one(struct cq_bench *b, const char *function)
{
	for (size_t i = 0; i < SPW_ARRAY_CNT(cq_cases); i++) {
		const struct cq_case *c = &cq_cases[i];

		if (!strcmp(c->function, function))
			return (c->pipe ? piped_case(b, c) : median_lap(b, c, NULL)) > 0 ? 0 : 3;
	}
	return 1;
}

/* The pipe's rows share a function, and the first of them is counted: the pipe without recorder. */
static int add_counts(const struct cq_opt *opt, struct spw_bench_out *out)
{
	for (size_t i = 0; i < SPW_ARRAY_CNT(cq_cases) && !cq_cases[i].record; i++) {
		char *argv[] = {(char *)(uintptr_t)"cq", (char *)(uintptr_t)opt->rx, (char *)(uintptr_t)opt->tx,
				(char *)(uintptr_t)"--only", (char *)(uintptr_t)cq_cases[i].function, NULL};
		uint64_t total;

		if (cq_count(cq_cases[i].function, argv, &total))
			return 2;
		spw_bench_add1(out, cq_cases[i].name, "instructions", "per CQE", (double)total / LAPS / CNT);
	}
	return 0;
}

static void bench_close(struct cq_bench *b)
{
	for (struct ours *o = &b->stamped; o <= &b->piped; o++) {
		spw_mlx5_queue_disarm(&o->q);
		spw_mlx5_queue_fini(&o->q);
		spw_pool_fini(&o->pool);
		free(o->wqe);
	}
	cq_ring_close(&b->plain);
	cq_ring_close(&b->zip);
	spw_region_free(&b->region);
	free(b);
}

static int parse(int argc, char **argv, struct cq_opt *opt)
{
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--instructions"))
			opt->count = true;
		else if (!strcmp(argv[i], "--only") && i + 1 < argc) /* cq_count's own call */
			opt->only = argv[++i];
		else if (argv[i][0] != '-' && !opt->rx)
			opt->rx = argv[i];
		else if (argv[i][0] != '-' && !opt->tx)
			opt->tx = argv[i];
		else
			return -1;
	}
	if (!opt->rx != !opt->tx)
		return -1;
	if (!opt->rx) {
		opt->rx = "mlx5_0";
		opt->tx = "mlx5_1";
	}
	return 0;
}

int spw_bench_cq(int argc, char **argv, struct spw_bench_out *out)
{
	struct cq_opt opt = {0};
	struct cq_bench *b;
	int status;

	if (parse(argc, argv, &opt)) {
		fprintf(stderr, "usage: tools/with-softhca --devices 2 spinwire-bench cq [RX TX] [--instructions]\n"
				"  RX TX           two mlx5 ports on one cable (mlx5_0 mlx5_1)\n"
				"  --instructions  counts them as well, by callgrind (valgrind must be there)\n");
		return 1;
	}
	b = aligned_alloc(128, SPW_ALIGN_UP(sizeof(*b), (size_t)128));
	if (!b)
		return 2;
	memset(b, 0, sizeof(*b));
	status = bench_open(b, opt.rx, opt.tx, CNT);
	if (!status)
		status = opt.only ? run_one(b, opt.only) : run_rounds(b);
	if (!status && !opt.only)
		add_rows(b, out);
	bench_close(b);
	return status || !opt.count ? status : add_counts(&opt, out);
}
