/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What lib/xfer adds to a message, beside WRITEs by plain verbs as perftest posts them, in turn, on
 * the same two devices. One thread is both ends, so two cores are enough: the other is the NIC's.
 *
 *   start      until a put of 8 bytes is with the NIC, in ticks
 *   half trip  a put of 8 bytes until its flag is there, and one back: the median of each run, and
 *              the 10th percentile, which a busy machine moves less
 *   rate       8 messages under way, as NCCL has them: one way (a broadcast of two ranks), both
 * ways (all other collectives); puts out of 8 buffers in turn, and out of one
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "bench.h"
#include "mem/spw_mem.h"
#include "time/spw_time.h"
#include "xfer_pair.h"

#define RUNS    15u
#define TRIPS   501u
#define SMALL   8u
#define RATE_NS 60000000ull
#define LIMIT_S 10u

static struct pair_end end[2];
static struct spw_tsc tsc;
static uint64_t limit_ticks;

static int failed(const char *what)
{
	fprintf(stderr, "spinwire-bench xfer: %s: %s\n", what, spw_err_text());
	return 3;
}

/* ---- 8 bytes ---- */

enum how { JOINED, APART, HAND, HOW_CNT };
static const char *const how_name[HOW_CNT] = {"put 8 B and flag in one WRITE",
					      "put 8 B and flag apart", "WRITE 8 B by hand"};

struct small {
	double start[RUNS], trip[RUNS], low[RUNS];
};

static uint64_t *flag_of(const struct pair_end *e)
{
	return (uint64_t *)(void *)(e->bytes + 2 * PAIR_HALF + PAIR_LINE / 2);
}

/* The first bytes of the receive half, where the bytes of messages lie that are not joined. */
static uint64_t *word_of(const struct pair_end *e)
{
	return (uint64_t *)(void *)(e->bytes + PAIR_HALF);
}

static int small_start(struct pair_end *e, enum how how, uint64_t number, struct spw_xfer_req **req)
{
	const uint64_t flag_offset = PAIR_HALF + PAIR_LINE / 2;
	const struct spw_xfer_access a = {.window = e->there,
					  .offset = how == JOINED ? flag_offset - SMALL : 0,
					  .mem = e->mem,
					  .addr = e->bytes,
					  .bytes = SMALL,
					  .flag_offset = flag_offset,
					  .flag = number};

	if (how != HAND)
		return spw_xfer_put(e->conn, &a, req);
	memcpy(e->bytes, &number, sizeof(number));
	return pair_write(e, e->bytes, PAIR_HALF, SMALL) ? 0 : spw_err(EIO, "a WRITE by hand");
}

static bool small_came(const struct pair_end *e, enum how how, uint64_t number)
{
	return how == HAND ? spw_dma_load(word_of(e)) == number
			   : spw_xfer_flag_seen(flag_of(e), number);
}

/* Outside of what is timed: the completion of the message. */
static int small_end(struct pair_end *e, enum how how, struct spw_xfer_req *req)
{
	const uint64_t start = spw_tsc_now();
	bool done = false;
	int rc = 0;

	while (!done && !rc) {
		if (how == HAND)
			rc = (done = pair_written(e) == 1) ? 0 : rc;
		else
			rc = spw_xfer_test(req, &done, NULL);
		if (spw_tsc_now() - start > limit_ticks)
			rc = spw_err(ETIMEDOUT, "no completion in %u s", LIMIT_S);
	}
	return rc;
}

/* There, and back. */
static int one_trip(enum how how, double *start_out, double *trip_out)
{
	static uint64_t number;
	struct spw_xfer_req *req[2] = {0};
	uint64_t from = spw_tsc_now_ordered(), posted = 0;
	int rc = 0;

	number++;
	for (uint32_t i = 0; i < 2 && !rc; i++) {
		rc = small_start(&end[i], how, number, &req[i]);
		posted = posted ? posted : spw_tsc_now_ordered();
		while (!rc && !small_came(&end[!i], how, number))
			if (spw_tsc_now() - from > limit_ticks)
				rc = spw_err(ETIMEDOUT, "no message in %u s", LIMIT_S);
	}
	*trip_out = (double)spw_tsc_to_ns(&tsc, spw_tsc_now_ordered() - from) / 2;
	*start_out = (double)(posted - from);
	for (uint32_t i = 0; i < 2 && !rc; i++)
		rc = small_end(&end[i], how, req[i]);
	return rc;
}

static int by_value(const void *x, const void *y)
{
	double a = *(const double *)x, b = *(const double *)y;

	return (a > b) - (a < b);
}

static int run_small(struct small s[HOW_CNT], uint32_t run)
{
	double start[HOW_CNT][TRIPS], trip[HOW_CNT][TRIPS];
	int rc = 0;

	for (uint32_t i = 0; i < TRIPS; i++)
		for (uint32_t how = 0; how < HOW_CNT && !rc; how++)
			rc = one_trip((enum how)how, &start[how][i], &trip[how][i]);
	if (rc)
		return failed("8 bytes");
	for (uint32_t how = 0; how < HOW_CNT; how++) {
		qsort(start[how], TRIPS, sizeof(start[how][0]), by_value);
		qsort(trip[how], TRIPS, sizeof(trip[how][0]), by_value);
		s[how].start[run] = start[how][TRIPS / 2];
		s[how].trip[run] = trip[how][TRIPS / 2];
		s[how].low[run] = trip[how][TRIPS / 10];
	}
	return 0;
}

static void add_small(struct spw_bench_out *out, struct small s[HOW_CNT])
{
	double more[RUNS];

	for (uint32_t how = 0; how < HAND; how++) {
		for (uint32_t i = 0; i < RUNS; i++)
			more[i] = s[how].low[i] - s[HAND].low[i];
		spw_bench_add(out, how == JOINED ? "one WRITE - by hand" : "apart - by hand",
			      "half trip p10", "ns", more, RUNS);
	}
	for (uint32_t how = 0; how < HOW_CNT; how++) {
		spw_bench_add(out, how_name[how], "start", "ticks", s[how].start, RUNS);
		spw_bench_add(out, how_name[how], "half trip", "ns", s[how].trip, RUNS);
		spw_bench_add(out, how_name[how], "half trip p10", "ns", s[how].low, RUNS);
	}
}

/* ---- rates ---- */

enum what { SEND, PUT, WRITE };

struct rate_case {
	const char *name;
	enum what what;
	uint32_t bytes, buffers;
	bool both;
	double rate[RUNS];
};

static struct rate_case rate_cases[] = {
	{.name = "send 1 KiB, one way", .bytes = 1024, .buffers = 8},
	{.name = "send 1 KiB, both ways", .bytes = 1024, .buffers = 8, .both = true},
	{.name = "send 128 KiB, one way", .bytes = 128u << 10, .buffers = 8},
	{.name = "send 128 KiB, both ways", .bytes = 128u << 10, .buffers = 8, .both = true},
	{.name = "send 512 KiB, one way", .bytes = 512u << 10, .buffers = 8},
	{.name = "send 512 KiB, both ways", .bytes = 512u << 10, .buffers = 8, .both = true},
	{.name = "put 1 MiB, one buffer", .what = PUT, .bytes = 1u << 20, .buffers = 1},
	{.name = "put 1 MiB, 8 buffers", .what = PUT, .bytes = 1u << 20, .buffers = 8},
	{.name = "WRITE 1 MiB by hand, one buffer", .what = WRITE, .bytes = 1u << 20, .buffers = 1},
	{.name = "WRITE 1 MiB by hand, 8 buffers", .what = WRITE, .bytes = 1u << 20, .buffers = 8},
};

/* One direction. */
struct flow {
	const struct rate_case *c;
	struct pair_end *from, *to;
	struct spw_xfer_req *tx[PAIR_DEPTH], *rx[PAIR_DEPTH];
	uint64_t tx_pi, tx_ci, rx_pi, rx_ci;
};

static size_t place(const struct flow *f, uint64_t number)
{
	return number % f->c->buffers * f->c->bytes;
}

/* Starts one more message. Returns: 0; -EAGAIN: not now. */
static int start_one(struct flow *f)
{
	const size_t at = place(f, f->tx_pi);
	struct spw_xfer_req **req = &f->tx[f->tx_pi % PAIR_DEPTH];
	const struct spw_xfer_access a = {.window = f->from->there,
					  .offset = at,
					  .mem = f->from->mem,
					  .addr = f->from->bytes + at,
					  .bytes = f->c->bytes,
					  .flag_offset = SPW_XFER_NO_FLAG};

	switch (f->c->what) {
	case SEND:
		return spw_xfer_send(f->from->conn, f->from->mem, f->from->bytes + at, f->c->bytes,
				     0, req);
	case PUT:
		return spw_xfer_put(f->from->conn, &a, req);
	default:
		return pair_write(f->from, f->from->bytes + at, PAIR_HALF + at, f->c->bytes)
			       ? 0
			       : -EAGAIN;
	}
}

static int fill(struct flow *f, bool more)
{
	int rc = 0;

	while (more && !rc && f->c->what == SEND && f->rx_pi - f->rx_ci < PAIR_DEPTH) {
		const struct spw_xfer_part part = {.mem = f->to->mem,
						   .addr = f->to->bytes + PAIR_HALF +
							   place(f, f->rx_pi),
						   .bytes = f->c->bytes};

		rc = spw_xfer_recv(f->to->conn, &part, 1, &f->rx[f->rx_pi % PAIR_DEPTH]);
		f->rx_pi += !rc;
	}
	rc = rc == -EAGAIN ? 0 : rc;
	/* Every receive gets its message, so that none is left when the time is over. */
	while (!rc && f->tx_pi - f->tx_ci < PAIR_DEPTH &&
	       (f->c->what == SEND ? f->tx_pi < f->rx_pi : more)) {
		rc = start_one(f);
		f->tx_pi += !rc;
	}
	return rc == -EAGAIN ? 0 : rc;
}

static int reap(struct spw_xfer_req **req, uint64_t pi, uint64_t *ci)
{
	bool done = true;
	int rc = 0;

	while (done && !rc && *ci < pi) {
		rc = spw_xfer_test(req[*ci % PAIR_DEPTH], &done, NULL);
		*ci += done;
	}
	return rc;
}

static int turn(struct flow *f, bool more)
{
	int rc = fill(f, more);

	if (!rc && f->c->what == WRITE) {
		const int n = pair_written(f->from);

		f->tx_ci += n > 0 ? (uint32_t)n : 0;
		return n < 0 ? spw_err(EIO, "a WRITE by hand failed") : 0;
	}
	rc = rc ? rc : reap(f->rx, f->rx_pi, &f->rx_ci);
	return rc ? rc : reap(f->tx, f->tx_pi, &f->tx_ci);
}

static bool is_idle(const struct flow *f)
{
	return f->tx_ci == f->tx_pi && f->rx_ci == f->rx_pi;
}

static int run_rate(struct rate_case *c, uint32_t run)
{
	struct flow f[2] = {{.c = c, .from = &end[0], .to = &end[1]},
			    {.c = c, .from = &end[1], .to = &end[0]}};
	const uint32_t flows = c->both ? 2 : 1;
	const uint64_t start = spw_tsc_now();
	uint64_t ns = 0;
	int rc = 0;

	while (!rc && (ns < RATE_NS || !is_idle(&f[0]) || !is_idle(&f[1]))) {
		for (uint32_t i = 0; i < flows && !rc; i++)
			rc = turn(&f[i], ns < RATE_NS);
		ns = spw_tsc_to_ns(&tsc, spw_tsc_now() - start);
		if (!rc && ns > LIMIT_S * 1000000000ull)
			rc = spw_err(ETIMEDOUT, "messages were not done in %u s", LIMIT_S);
	}
	c->rate[run] = (double)((f[0].tx_ci + f[1].tx_ci) * c->bytes) / (double)ns;
	return rc ? failed(c->name) : 0;
}

/* One way and both ways share the NIC's thread here, so their sums are what is compared. */
static void add_ratio(struct spw_bench_out *out, size_t over, size_t under)
{
	double ratio[RUNS];
	char name[72];

	for (uint32_t i = 0; i < RUNS; i++)
		ratio[i] = rate_cases[over].rate[i] / rate_cases[under].rate[i];
	snprintf(name, sizeof(name), "%s / %s", rate_cases[over].name,
		 strchr(rate_cases[under].name, ',') && rate_cases[over].what == SEND
			 ? strchr(rate_cases[under].name, ',') + 2
			 : rate_cases[under].name);
	spw_bench_add(out, name, "rate", "ratio", ratio, RUNS);
}

static void add_rates(struct spw_bench_out *out)
{
	for (size_t i = 0; i < 6; i += 2)
		add_ratio(out, i, i + 1);
	add_ratio(out, 6, 8);
	add_ratio(out, 7, 9);
	for (size_t i = 0; i < SPW_ARRAY_CNT(rate_cases); i++)
		spw_bench_add(out, rate_cases[i].name, "rate", "GB/s", rate_cases[i].rate, RUNS);
}

/* ---- all of it ---- */

static int bench_open(const char *const device[2], struct spw_region *region)
{
	const struct spw_mem_req req = {
		.kind = SPW_MEM_HOST, .bytes = 2 * PAIR_BYTES, .numa_node = -1};
	int rc = spw_tsc_calibrate(50, &tsc);

	limit_ticks = spw_tsc_from_ns(&tsc, LIMIT_S * 1000000000ull);
	rc = rc ? rc : spw_region_alloc(&req, region);
	if (!rc) {
		memset(region->host_va, 0, req.bytes);
		end[0].bytes = region->host_va;
		end[1].bytes = region->host_va + PAIR_BYTES;
		rc = pair_open(end, device);
	}
	if (rc)
		fprintf(stderr, "spinwire-bench xfer: %s\n", spw_err_text());
	return rc ? 2 : 0;
}

int spw_bench_xfer(int argc, char **argv, struct spw_bench_out *out)
{
	const char *const device[2] = {argc == 3 ? argv[1] : "mlx5_0",
				       argc == 3 ? argv[2] : "mlx5_1"};
	static struct small small[HOW_CNT];
	struct spw_region region = {0};
	int status;

	if ((argc != 1 && argc != 3) || (argc == 3 && argv[1][0] == '-')) {
		fprintf(stderr,
			"usage: tools/with-softhca --devices 2 spinwire-bench xfer [FROM TO]\n"
			"  FROM TO         two mlx5 ports on one cable (mlx5_0 mlx5_1)\n");
		return 1;
	}
	status = bench_open(device, &region);
	for (uint32_t run = 0; run < RUNS && !status; run++) {
		status = run_small(small, run);
		for (size_t i = 0; i < SPW_ARRAY_CNT(rate_cases) && !status; i++)
			status = run_rate(&rate_cases[i], run);
	}
	if (!status) {
		add_small(out, small);
		add_rates(out);
	}
	pair_close(end);
	spw_region_free(&region);
	return status;
}
