/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <pcap/pcap.h>

#include "base/spw_err.h"
#include "gen/spw_gen_plan.h"

#define NS(fp) ((double)(fp) / 65536.0)

static struct gen_plan_conf base_conf(void)
{
	return (struct gen_plan_conf){.gaps = GEN_CONSTANT,
				      .rate_fps = 1e6,
				      .sizes = GEN_SIZE_FIXED,
				      .size_min = 64,
				      .size_max = 64,
				      .flow_cnt = 1,
				      .seed = 7};
}

static void constant_keeps_its_rate(void **state)
{
	struct gen_plan_conf conf = base_conf();
	struct gen_plan plan;

	(void)state;
	conf.rate_fps = 3333333.0;
	conf.flow_cnt = 3;
	assert_int_equal(gen_plan_init(&plan, &conf), 0);
	for (uint32_t i = 0; i < 3333333; i++) {
		assert_int_equal(gen_plan_peek(&plan)->flow, i % 3);
		gen_plan_advance(&plan);
	}
	/* a second of frames ends within 50 us of a second: 1/65536 ns of rounding a frame */
	assert_true(fabs(NS(gen_plan_peek(&plan)->due_fp) - 1e9) < 5e4);
	gen_plan_fini(&plan);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Kolmogorov-Smirnov distance of the gaps from the exponential distribution. */
static void poisson_is_exponential(void **state)
{
	enum { N = 65536 };
	struct gen_plan_conf conf = base_conf();
	struct gen_plan plan;
	double *gap = malloc(N * sizeof(*gap)), d = 0, last = 0, serial = 0;

	(void)state;
	conf.gaps = GEN_POISSON;
	assert_int_equal(gen_plan_init(&plan, &conf), 0);
	for (uint32_t i = 0; i < N; i++) {
		gen_plan_advance(&plan);
		gap[i] = NS(gen_plan_peek(&plan)->due_fp) - last;
		last += gap[i];
	}
	assert_true(fabs(last / N - 1000.0) < 0.01);
	for (uint32_t i = 1; i < N; i++)
		serial += (gap[i] - 1000) * (gap[i - 1] - 1000) / 1e6 / N;
	assert_true(fabs(serial) < 0.02); /* five sigma of independent gaps */
	qsort(gap, N, sizeof(*gap), by_value);
	for (uint32_t i = 0; i < N; i++)
		d = fmax(d, fabs(1 - exp(-gap[i] / 1000.0) - (i + 0.5) / N));
	assert_true(d < 0.001);
	free(gap);
	gen_plan_fini(&plan);
}

static void same_seed_is_the_same_plan(void **state)
{
	struct gen_plan_conf conf = base_conf();
	struct gen_plan a, b, c;
	uint32_t differ = 0;

	(void)state;
	conf.gaps = GEN_POISSON;
	conf.sizes = GEN_SIZE_RANGE;
	conf.size_max = 1514;
	assert_int_equal(gen_plan_init(&a, &conf), 0);
	assert_int_equal(gen_plan_init(&b, &conf), 0);
	conf.seed++;
	assert_int_equal(gen_plan_init(&c, &conf), 0);
	for (uint32_t i = 0; i < 10000; i++) {
		assert_int_equal(gen_plan_peek(&a)->due_fp, gen_plan_peek(&b)->due_fp);
		assert_int_equal(gen_plan_peek(&a)->bytes, gen_plan_peek(&b)->bytes);
		assert_in_range(gen_plan_peek(&a)->bytes, 64, 1514);
		differ += gen_plan_peek(&a)->due_fp != gen_plan_peek(&c)->due_fp;
		gen_plan_advance(&a), gen_plan_advance(&b), gen_plan_advance(&c);
	}
	assert_true(differ > 9000);
	gen_plan_fini(&a), gen_plan_fini(&b), gen_plan_fini(&c);
}

static void burst_is_due_at_one_instant(void **state)
{
	struct gen_plan_conf conf = base_conf();
	struct gen_plan plan;

	(void)state;
	conf.gaps = GEN_BURST;
	conf.burst_cnt = 32;
	assert_int_equal(gen_plan_init(&plan, &conf), 0);
	for (uint32_t i = 0; i < 3200; i++) {
		assert_int_equal(gen_plan_peek(&plan)->due_fp >> 16, i / 32 * 32000);
		gen_plan_advance(&plan);
	}
	gen_plan_fini(&plan);
}

static void ramp_sends_the_area_under_it(void **state)
{
	struct gen_plan_conf conf = base_conf();
	struct gen_plan plan;
	uint32_t in_ramp = 0, after = 0;

	(void)state;
	conf.gaps = GEN_RAMP;
	conf.rate_fps = 100e3;
	conf.rate_end_fps = 900e3;
	conf.ramp_ns = 1000000000;
	assert_int_equal(gen_plan_init(&plan, &conf), 0);
	while (NS(gen_plan_peek(&plan)->due_fp) < 2e9) {
		if (NS(gen_plan_peek(&plan)->due_fp) < 1e9)
			in_ramp++;
		else
			after++;
		gen_plan_advance(&plan);
	}
	assert_in_range(in_ramp, 499000, 501000);
	assert_in_range(after, 899900, 900100);
	gen_plan_fini(&plan);
}

/* Counting ahead agrees with going there, from any place in the circle. */
static void counting_ahead_agrees(void **state)
{
	static const enum gen_gaps kinds[] = {GEN_CONSTANT, GEN_POISSON, GEN_BURST, GEN_RAMP};

	(void)state;
	for (uint32_t k = 0; k < 4; k++) {
		struct gen_plan_conf conf = base_conf();
		struct gen_plan plan;
		uint64_t planned, cnt = 0;

		conf.gaps = kinds[k];
		conf.burst_cnt = 7;
		conf.rate_end_fps = 2e6;
		conf.ramp_ns = 50000000;
		assert_int_equal(gen_plan_init(&plan, &conf), 0);
		for (uint32_t i = 0; i < 12345; i++)
			gen_plan_advance(&plan);
		planned = gen_plan_count(&plan, 200000000);
		for (; NS(gen_plan_peek(&plan)->due_fp) < 2e8; cnt++)
			gen_plan_advance(&plan);
		assert_int_equal(planned, cnt);
		assert_true(cnt > 100000);
		gen_plan_fini(&plan);
	}
}

static void imix_has_its_shares(void **state)
{
	struct gen_plan_conf conf = base_conf();
	struct gen_plan plan;
	uint32_t small = 0, mid = 0, large = 0;

	(void)state;
	conf.sizes = GEN_SIZE_IMIX;
	assert_int_equal(gen_plan_init(&plan, &conf), 0);
	for (uint32_t i = 0; i < 1200; i++) {
		uint16_t bytes = gen_plan_peek(&plan)->bytes;

		small += bytes == 64, mid += bytes == 590, large += bytes == 1514;
		gen_plan_advance(&plan);
	}
	assert_int_equal(small, 700);
	assert_int_equal(mid, 400);
	assert_int_equal(large, 100);
	gen_plan_fini(&plan);
}

static void write_capture(char *path, int linktype, const uint32_t *us, const uint32_t *bytes,
			  uint32_t cnt)
{
	static const unsigned char zero[2048];
	pcap_t *dead = pcap_open_dead(linktype, 65535);
	pcap_dumper_t *dump;

	close(mkstemp(path));
	dump = pcap_dump_open(dead, path);
	for (uint32_t i = 0; i < cnt; i++) {
		struct pcap_pkthdr h = {
			.ts = {.tv_sec = 1000 + us[i] / 1000000, .tv_usec = us[i] % 1000000},
			.caplen = bytes[i],
			.len = bytes[i]};

		pcap_dump((unsigned char *)dump, &h, zero);
	}
	pcap_dump_close(dump);
	pcap_close(dead);
}

static void capture_gives_its_own_timing(void **state)
{
	static const uint32_t us[] = {0, 10, 15, 1000000}, bytes[] = {60, 200, 1514, 64};
	static const double due_us[] = {0, 10, 15, 1000000, 1333333.333, 1333343.333};
	static const uint16_t want[] = {64, 200, 1514, 64, 64, 200};
	char path[] = "/tmp/spw_plan_XXXXXX";
	struct gen_plan_conf conf = base_conf();
	struct gen_plan plan;

	(void)state;
	write_capture(path, DLT_EN10MB, us, bytes, 4);
	conf.gaps = GEN_CAPTURE;
	conf.sizes = GEN_SIZE_CAPTURE;
	conf.capture = path;
	assert_int_equal(gen_plan_init(&plan, &conf), 0);
	for (uint32_t i = 0; i < 6; i++) {
		assert_true(fabs(NS(gen_plan_peek(&plan)->due_fp) / 1000.0 - due_us[i]) < 0.01);
		assert_int_equal(gen_plan_peek(&plan)->bytes, want[i]);
		gen_plan_advance(&plan);
	}
	gen_plan_fini(&plan);
	unlink(path);
}

static void expect_refused(struct gen_plan_conf conf, int code, const char *says)
{
	struct gen_plan plan;

	assert_int_equal(gen_plan_init(&plan, &conf), -code);
	assert_non_null(strstr(spw_err_text(), says));
}

static void bad_captures_are_refused(void **state)
{
	static const uint32_t us[] = {0, 10, 5}, bytes[] = {100, 100, 100};
	char path[] = "/tmp/spw_plan_XXXXXX", other[] = "/tmp/spw_plan_XXXXXX";
	struct gen_plan_conf conf = base_conf();

	(void)state;
	conf.gaps = GEN_CAPTURE;
	expect_refused(conf, EINVAL, "--capture FILE");
	conf.capture = "/nonexistent.pcap";
	expect_refused(conf, ENOENT, "/nonexistent.pcap");
	conf.capture = path;
	write_capture(path, DLT_EN10MB, us, bytes, 3);
	expect_refused(conf, EPROTO, "packet 3");
	assert_int_equal(truncate(path, 24 + 2 * 116 - 20), 0);
	expect_refused(conf, EPROTO, "1 packets and one that is cut");
	assert_int_equal(truncate(path, 24 + 116), 0);
	expect_refused(conf, EPROTO, "needs two");
	write_capture(other, DLT_RAW, us, bytes, 2);
	conf.capture = other;
	expect_refused(conf, EPROTO, "Ethernet is needed");
	unlink(path);
	unlink(other);
}

static void wrong_values_are_refused(void **state)
{
	struct gen_plan_conf conf = base_conf();

	(void)state;
	conf.rate_fps = 0;
	expect_refused(conf, ERANGE, "rate");
	conf = base_conf();
	conf.rate_fps = NAN;
	expect_refused(conf, ERANGE, "rate");
	conf = base_conf();
	conf.size_min = 63;
	expect_refused(conf, ERANGE, "63");
	conf = base_conf();
	conf.sizes = GEN_SIZE_RANGE;
	conf.size_min = 100;
	conf.size_max = 99;
	expect_refused(conf, ERANGE, "larger");
	conf = base_conf();
	conf.flow_cnt = 0;
	expect_refused(conf, ERANGE, "flows");
	conf = base_conf();
	conf.gaps = GEN_BURST;
	expect_refused(conf, ERANGE, "burst");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(constant_keeps_its_rate),
		cmocka_unit_test(poisson_is_exponential),
		cmocka_unit_test(same_seed_is_the_same_plan),
		cmocka_unit_test(burst_is_due_at_one_instant),
		cmocka_unit_test(ramp_sends_the_area_under_it),
		cmocka_unit_test(counting_ahead_agrees),
		cmocka_unit_test(imix_has_its_shares),
		cmocka_unit_test(capture_gives_its_own_timing),
		cmocka_unit_test(bad_captures_are_refused),
		cmocka_unit_test(wrong_values_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
