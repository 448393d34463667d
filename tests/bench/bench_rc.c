/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What messages over reliable connections cost: the mlx5 driver beside the verbs driver and beside
 * a loop of ibv_poll_cq and ibv_post_recv written by hand (rc_hand.c), in turn, on the same two
 * devices.
 *
 *   receive    drains a full queue by 64: completions, slots returned, receives posted again,
 *              credits reported; ticks per message. All messages have arrived before the clock
 *              starts. By hand there are no credits.
 *   rate       one thread sends as much as it may, another receives
 *   half trip  one message, and its echo by another thread, as ib_send_lat and ib_write_lat do it
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "app_loop.h"
#include "base/spw_err.h"
#include "base/spw_order.h"
#include "bench.h"
#include "rc_end.h"
#include "time/spw_time.h"

#define ROUNDS 101u

/* Messages of a round: so many credits are free even if the last of them are not reported yet. */
#define CNT 768u

#define RUNS   7u
#define RUN_NS 200000000ull
#define TRIPS  501u
#define WAIT_S 10u

struct rc_case {
	const char *name, *driver, *profile;
	bool write;
	struct rc_end a, b;
	double cost[ROUNDS], rate[RUNS], trip[RUNS];
};

static struct rc_case rc_cases[] = {
	{.name = "SEND, by hand"},
	{.name = "SEND, verbs driver", .driver = "verbs", .profile = "latency"},
	{.name = "SEND, mlx5 driver, latency profile", .driver = "mlx5", .profile = "latency"},
	{.name = "SEND, mlx5 driver, throughput profile",
	 .driver = "mlx5",
	 .profile = "throughput"},
	{.name = "WRITE, by hand", .write = true},
	{.name = "WRITE, verbs driver", .driver = "verbs", .profile = "latency", .write = true},
	{.name = "WRITE, mlx5 driver, latency profile",
	 .driver = "mlx5",
	 .profile = "latency",
	 .write = true},
	{.name = "WRITE, mlx5 driver, throughput profile",
	 .driver = "mlx5",
	 .profile = "throughput",
	 .write = true},
};

#define PER_OP (SPW_ARRAY_CNT(rc_cases) / 2)

static uint64_t limit_ticks; /* WAIT_S */
static struct spw_tsc tsc;

static int late(const struct rc_case *c, const char *what)
{
	fprintf(stderr, "spinwire-bench rc: %s: %s within %u s\n", c->name, what, WAIT_S);
	return 3;
}

/* Waits until both ends are idle: everything sent was received, and every reported credit has
 * arrived. */
static int settle(struct rc_case *c)
{
	const struct timespec nap = {.tv_nsec = 50000};
	uint64_t start = spw_tsc_now();
	uint32_t still = 0;

	while (still < 8) {
		bool moved = c->b.calls->take(&c->b) + c->a.calls->take(&c->a);

		still = c->a.calls->is_quiet(&c->a) && c->b.calls->is_quiet(&c->b) && !moved
				? still + 1
				: 0;
		nanosleep(&nap, NULL);
		if (spw_tsc_now() - start > limit_ticks)
			return late(c, "not all messages arrived");
	}
	return 0;
}

/* ---- what receiving costs ---- */

static int fill(struct rc_case *c)
{
	uint64_t start = spw_tsc_now();
	uint32_t sent = 0;

	while (sent < CNT || !c->a.calls->is_quiet(&c->a)) {
		sent += c->a.calls->send(&c->a, SPW_MIN(CNT - sent, (uint32_t)SPW_BURST_MAX));
		c->a.calls->take(&c->a);
		if (spw_tsc_now() - start > limit_ticks)
			return late(c, "messages could not be sent");
	}
	usleep(500); /* acknowledged, and the last completion is in the ring */
	return 0;
}

static int drain(struct rc_case *c, double *ticks_out)
{
	uint64_t start = spw_tsc_now_ordered();
	uint32_t got = 0;

	while (got < CNT) {
		got += c->b.calls->take(&c->b);
		if (spw_tsc_now() - start > limit_ticks)
			return late(c, "not all messages were received");
	}
	c->b.calls->take(&c->b); /* finds nothing, and posts the last returned slots again */
	*ticks_out = (double)(spw_tsc_now_ordered() - start) / CNT;
	return 0;
}

/* ---- two threads ---- */

struct other {
	pthread_t thread;
	struct rc_end *end;
	bool echo;
	uint64_t got;
	uint32_t stop;
};

static void *other_run(void *arg)
{
	struct other *o = arg;
	uint64_t got = 0;

	for (uint32_t turn = 0; !spw_thr_load_rlx(&o->stop); turn++) {
		got += o->echo ? o->end->calls->echo(o->end) : o->end->calls->take(o->end);
		spw_thr_store_rlx(&o->got, got);
		if (turn % 64 == 0)
			o->end->calls->attend(o->end);
	}
	return NULL;
}

static int other_start(struct other *o, struct rc_end *end, bool echo)
{
	*o = (struct other){.end = end, .echo = echo};
	if (pthread_create(&o->thread, NULL, other_run, o)) {
		fprintf(stderr, "spinwire-bench rc: no thread\n");
		return 2;
	}
	return 0;
}

static void other_stop(struct other *o)
{
	spw_thr_store_rlx(&o->stop, 1u);
	pthread_join(o->thread, NULL);
}

static int run_rate(struct rc_case *c, double *mmsg_out)
{
	uint64_t start, ns = 0, first = 0;
	struct other o;

	if (other_start(&o, &c->b, false))
		return 2;
	start = spw_tsc_now();
	for (uint32_t turn = 0; ns < RUN_NS; turn++) {
		c->a.calls->send(&c->a, SPW_BURST_MAX);
		c->a.calls->take(&c->a);
		c->a.calls->attend(&c->a);
		if (!first && (first = spw_thr_load_rlx(&o.got)))
			start = spw_tsc_now();
		ns = spw_tsc_to_ns(&tsc, spw_tsc_now() - start);
	}
	*mmsg_out = (double)(spw_thr_load_rlx(&o.got) - first) * 1e3 / (double)ns;
	other_stop(&o);
	return settle(c);
}

static int by_value(const void *x, const void *y)
{
	double a = *(const double *)x, b = *(const double *)y;

	return (a > b) - (a < b);
}

static int one_trip(struct rc_case *c, double *us_out)
{
	uint64_t start = spw_tsc_now_ordered();

	while (!c->a.calls->send(&c->a, 1))
		if (spw_tsc_now() - start > limit_ticks)
			return late(c, "a message could not be sent");
	while (!c->a.calls->take(&c->a))
		if (spw_tsc_now() - start > limit_ticks)
			return late(c, "no echo came");
	*us_out = (double)spw_tsc_to_ns(&tsc, spw_tsc_now_ordered() - start) / 2e3;
	c->a.calls->attend(&c->a);
	return 0;
}

/* Half of the median, of one run. */
static int run_trips(struct rc_case *c, double *us_out)
{
	double us[TRIPS];
	struct other o;
	int status = 0;

	if (other_start(&o, &c->b, true))
		return 2;
	for (uint32_t i = 0; i < TRIPS && !status; i++)
		status = one_trip(c, &us[i]);
	other_stop(&o);
	if (status)
		return status;
	qsort(us, TRIPS, sizeof(us[0]), by_value);
	*us_out = us[TRIPS / 2];
	return settle(c);
}

/* ---- all of it ---- */

static int run_rounds(void)
{
	int status = 0;

	for (uint32_t round = 0; round < ROUNDS; round++)
		for (size_t i = 0; i < SPW_ARRAY_CNT(rc_cases) && !status; i++) {
			struct rc_case *c = &rc_cases[(round + i) % SPW_ARRAY_CNT(rc_cases)];

			status = fill(c);
			status = status ? status : drain(c, &c->cost[round]);
		}
	for (size_t i = 0; i < SPW_ARRAY_CNT(rc_cases) && !status; i++)
		status = settle(&rc_cases[i]);
	for (uint32_t run = 0; run < RUNS; run++)
		for (size_t i = 0; i < SPW_ARRAY_CNT(rc_cases) && !status; i++) {
			struct rc_case *c = &rc_cases[(run + i) % SPW_ARRAY_CNT(rc_cases)];

			status = run_rate(c, &c->rate[run]);
			status = status ? status : run_trips(c, &c->trip[run]);
		}
	return status;
}

static void add_ratio(const struct rc_case *c, const struct rc_case *hand,
		      struct spw_bench_out *out)
{
	double ratio[ROUNDS];
	char name[72];

	for (uint32_t i = 0; i < ROUNDS; i++)
		ratio[i] = c->cost[i] / hand->cost[i];
	snprintf(name, sizeof(name), "%s / by hand", c->name);
	spw_bench_add(out, name, "receive", "ratio", ratio, ROUNDS);
}

static void add_rows(struct spw_bench_out *out)
{
	for (size_t i = 0; i < SPW_ARRAY_CNT(rc_cases); i++)
		if (rc_cases[i].driver)
			add_ratio(&rc_cases[i], &rc_cases[i / PER_OP * PER_OP], out);
	for (size_t i = 0; i < SPW_ARRAY_CNT(rc_cases); i++)
		spw_bench_add(out, rc_cases[i].name, "receive", "ticks/message", rc_cases[i].cost,
			      ROUNDS);
	for (size_t i = 0; i < SPW_ARRAY_CNT(rc_cases); i++)
		spw_bench_add(out, rc_cases[i].name, "rate", "Mmessages/s", rc_cases[i].rate, RUNS);
	for (size_t i = 0; i < SPW_ARRAY_CNT(rc_cases); i++)
		spw_bench_add(out, rc_cases[i].name, "half trip", "us", rc_cases[i].trip, RUNS);
}

/* Once, by the first port that counted: all cases use the same two devices. */
static void say_loop(void)
{
	for (size_t i = 0; i < SPW_ARRAY_CNT(rc_cases); i++) {
		struct spw_port_stat stat;

		if (!rc_cases[i].a.port)
			continue;
		spw_port_stat(rc_cases[i].a.port, &stat);
		app_loop_print(stderr, "spinwire-bench rc: ", &stat);
		return;
	}
}

static int bench_open(const char *const device[2], struct spw_region *region)
{
	struct spw_mem_req req = {.kind = SPW_MEM_HOST,
				  .bytes = SPW_ARRAY_CNT(rc_cases) * 2 * RC_END_BYTES,
				  .numa_node = -1};
	struct rc_ends_conf conf = {.device = {device[0], device[1]}, .region = region};
	int rc = spw_tsc_calibrate(50, &tsc);

	limit_ticks = spw_tsc_from_ns(&tsc, WAIT_S * 1000000000ull);
	rc = rc ? rc : spw_region_alloc(&req, region);
	for (size_t i = 0; i < SPW_ARRAY_CNT(rc_cases) && !rc; i++) {
		struct rc_case *c = &rc_cases[i];

		conf.driver = c->driver;
		conf.profile = c->profile;
		conf.write = c->write;
		rc = rc_ends_open(&c->a, &c->b, &conf);
		conf.at += 2 * RC_END_BYTES;
	}
	if (rc)
		fprintf(stderr, "spinwire-bench rc: %s\n", spw_err_text());
	return rc ? 2 : 0;
}

int spw_bench_rc(int argc, char **argv, struct spw_bench_out *out)
{
	const char *const device[2] = {argc == 3 ? argv[1] : "mlx5_0",
				       argc == 3 ? argv[2] : "mlx5_1"};
	struct spw_region region = {0};
	int status;

	if ((argc != 1 && argc != 3) || (argc == 3 && argv[1][0] == '-')) {
		fprintf(stderr,
			"usage: tools/with-softhca --devices 2 spinwire-bench rc [FROM TO]\n"
			"  FROM TO         two mlx5 ports on one cable (mlx5_0 mlx5_1)\n");
		return 1;
	}
	status = bench_open(device, &region);
	status = status ? status : run_rounds();
	if (!status) {
		add_rows(out);
		say_loop();
	}
	for (size_t i = 0; i < SPW_ARRAY_CNT(rc_cases); i++)
		rc_ends_close(&rc_cases[i].a, &rc_cases[i].b);
	spw_region_free(&region);
	return status;
}
