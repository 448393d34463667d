/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * How long the loss of a rail is felt: from the error of its QP, or of its link, until both sides
 * know, until it is settled, and until messages that had bytes on it have arrived over the other.
 * Prints medians; fails if the median of the last is above the limit. Arguments: the limit in ms.
 */
#include <stdio.h>
#include <time.h>

#include "xfer/connection.h"
#include "xfer/endpoint.h"
#include "xfer_kit.h"

#define RUNS    15u
#define MESSAGE (4u << 20)

struct times {
	double known[RUNS], settled[RUNS], done[RUNS];
};

static double limit_ms = 50;

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int by_size(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *ms)
{
	qsort(ms, RUNS, sizeof(*ms), by_size);
	return ms[RUNS / 2];
}

static void lose(const struct kit *k, const char *how)
{
	if (!strcmp(how, "link"))
		kit_control("mlx5_2", NULL, "link-down=50ms");
	else
		kit_control("mlx5_2", NULL, "qp-error=%u", k->ab->rail[1]->qp->qp_num);
}

/* A message is under way over both rails when one is lost. */
static void run(const char *how, uint32_t i, struct times *t)
{
	const struct spw_xfer_conf conf = {.chunk_bytes = 64u << 10};
	struct spw_xfer_req *send, *recv;
	struct spw_xfer_part part;
	bool done = false;
	double begin;
	struct kit k;

	kit_open(&k, "mlx5_0+mlx5_2", "mlx5_1+mlx5_3", &conf);
	kit_connect(&k);
	kit_memory(&k, MESSAGE);
	kit_wait_up(&k, 2);
	kit_fill(k.buf_a, MESSAGE, i);
	part = (struct spw_xfer_part){k.mem_b, k.buf_b, MESSAGE, 0};
	assert_int_equal(spw_xfer_recv(k.ba, &part, 1, &recv), 0);
	kit_turn_for(&k, 1);
	assert_int_equal(spw_xfer_send(k.ab, k.mem_a, k.buf_a, MESSAGE, 0, &send), 0);
	lose(&k, how);
	begin = now_ms();
	t->known[i] = t->settled[i] = t->done[i] = 0;
	while (!done || t->settled[i] <= 0) {
		if (!done)
			assert_int_equal(spw_xfer_test(recv, &done, NULL), 0);
		if (done && t->done[i] <= 0)
			t->done[i] = now_ms() - begin;
		kit_turn(&k);
		if (t->known[i] <= 0 && !(k.ab->up & 2u) && !(k.ba->up & 2u))
			t->known[i] = now_ms() - begin;
		if (t->settled[i] <= 0 && t->known[i] > 0 && !k.ab->waiting && !k.ba->waiting)
			t->settled[i] = now_ms() - begin;
	}
	kit_done(&k, send);
	kit_turn_for(&k, 60); /* the link is up again */
	kit_expect_bytes(k.buf_b, MESSAGE, i);
	kit_close(&k);
}

static void loss(const char *how)
{
	static struct times t;
	double ms;

	for (uint32_t i = 0; i < RUNS; i++)
		run(how, i, &t);
	ms = median(t.done);
	print_message("%s: both know after %.2f ms, settled after %.2f, the message is done after "
		      "%.2f (longest %.1f)\n",
		      how, median(t.known), median(t.settled), ms, t.done[RUNS - 1]);
	if (ms > limit_ms)
		fail_msg("%.1f ms, not %.0f", ms, limit_ms);
}

static void of_a_qp(void **state SPW_UNUSED)
{
	loss("qp");
}

static void of_a_link(void **state SPW_UNUSED)
{
	loss("link");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(of_a_qp), cmocka_unit_test(of_a_link)};

	if (argc == 2)
		limit_ms = atof(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
