/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * How rails of enforced rates add up: equal ones, and ones of 2:1. The rates are low, so that two
 * cores carry them; each figure is a median of runs that were taken in turns. Arguments: the least
 * share of the sum of the rates that each case must reach, in percent, for 2, for 4 and for 2:1
 * rails; "" prints only.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "xfer_kit.h"

#define MESSAGE (1u << 20)
#define DEPTH   8u
#define RUNS    3u
#define RATE    0.05 /* Gb/s of a rail */

struct row {
	const char *name, *rails_a, *rails_b;
	double rate[4]; /* of devices mlx5_0, 2, 4, 6; Gb/s */
	uint32_t messages;
	uint32_t percent; /* at least, of the sum */
	double mb_s[RUNS];
};

#define A4 "mlx5_0+mlx5_2+mlx5_4+mlx5_6"
#define B4 "mlx5_1+mlx5_3+mlx5_5+mlx5_7"
static struct row row[] = {
	{"1 rail", "mlx5_0", "mlx5_1", {RATE}, 12, 0, {0}},
	{"2 rails", "mlx5_0+mlx5_2", "mlx5_1+mlx5_3", {RATE, RATE}, 24, 0, {0}},
	{"4 rails", A4, B4, {RATE, RATE, RATE, RATE}, 48, 0, {0}},
	{"2:1 rails", "mlx5_0+mlx5_2", "mlx5_1+mlx5_3", {2 * RATE, RATE}, 36, 0, {0}},
};

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void set_rates(const struct row *r)
{
	for (uint32_t i = 0; i < 4; i++) {
		char dev[16];

		snprintf(dev, sizeof(dev), "mlx5_%u", 2 * i);
		if (r->rate[i] > 0)
			kit_control(dev, NULL, "fault port-rate=%g", r->rate[i]);
		else
			kit_control(dev, NULL, "fault port-rate=none");
	}
}

/* A stream of messages, DEPTH under way. Returns: MB/s. */
static double stream(struct kit *k, uint32_t messages)
{
	struct spw_xfer_req *send[DEPTH], *recv[DEPTH];
	const double begin = now_s();

	for (uint32_t n = 0; n < messages + DEPTH; n++) {
		const uint32_t i = n % DEPTH;
		const struct spw_xfer_part part = {k->mem_b, k->buf_b + i * MESSAGE, MESSAGE, 0};

		if (n >= DEPTH) {
			kit_done(k, recv[i]);
			kit_done(k, send[i]);
		}
		if (n >= messages)
			continue;
		assert_int_equal(spw_xfer_recv(k->ba, &part, 1, &recv[i]), 0);
		assert_int_equal(spw_xfer_send(k->ab, k->mem_a, k->buf_a + i * MESSAGE, MESSAGE, 0,
					       &send[i]),
				 0);
	}
	return messages * (MESSAGE / 1e6) / (now_s() - begin);
}

static double run(const struct row *r)
{
	const struct spw_xfer_conf conf = {.timeout = 18};
	uint32_t rails = 0;
	struct kit k;
	double mb_s;

	for (uint32_t i = 0; i < 4; i++)
		rails += r->rate[i] > 0;
	kit_open(&k, r->rails_a, r->rails_b, &conf);
	kit_connect(&k);
	kit_memory(&k, DEPTH * MESSAGE);
	kit_wait_up(&k, rails);
	kit_fill(k.buf_a, DEPTH * MESSAGE, 5);
	set_rates(r);
	mb_s = stream(&k, r->messages);
	kit_expect_bytes(k.buf_b, SPW_MIN(r->messages, DEPTH) * MESSAGE, 5);
	kit_close(&k);
	return mb_s;
}

static int by_size(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(struct row *r)
{
	qsort(r->mb_s, RUNS, sizeof(double), by_size);
	return r->mb_s[RUNS / 2];
}

static double sum(const struct row *r)
{
	return r->rate[0] + r->rate[1] + r->rate[2] + r->rate[3];
}

static void rails_add_up(void **state SPW_UNUSED)
{
	double one;

	for (uint32_t i = 0; i < RUNS; i++)
		for (uint32_t j = 0; j < SPW_ARRAY_CNT(row); j++)
			row[j].mb_s[i] = run(&row[j]);
	one = median(&row[0]);
	for (uint32_t j = 0; j < SPW_ARRAY_CNT(row); j++) {
		struct row *r = &row[j];
		const double of_sum = median(r) / one / (sum(r) / RATE);

		print_message("%-10s %6.1f MB/s, %.2f x one rail, %.3f of the sum\n", r->name,
			      median(r), median(r) / one, of_sum);
		if (of_sum * 100 < r->percent)
			fail_msg("%s: %.3f of the sum of the rates, not %u %%", r->name, of_sum,
				 r->percent);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(rails_add_up)};

	for (int i = 1; i < argc && i < 4; i++)
		row[i].percent = (uint32_t)atoi(argv[i]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
