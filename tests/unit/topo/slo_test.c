/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The policy of spw_slo.h against models of executors: what a setting costs, how much it carries,
 * and how noisy its measurements are.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/spw_slo.h"
#include "unit_test.h"

#define INTERVAL_NS 100000000ull

/* An executor: a percentile of base_ns and ns_per_frame for each frame of a burst, up to a rate. */
struct model {
	double base_ns, frame_ns, pps_max;
};

static const struct model three[] = {
	{2000, 300, 1.5e6}, /* inline: quick, and soon full */
	{4000, 40, 4e6},    /* a thread of its own */
	{9000, 10, 50e6},   /* a GPU */
};
static const struct model five[] = {
	{2000, 300, 1.5e6}, {4000, 40, 4e6}, {12000, 40, 3e6}, /* a graph of the GPU */
	{9500, 30, 8e6},                                       /* a resident CTA */
	{9000, 10, 50e6},                                      /* sixteen of them */
};

static const struct model *model = three;
static uint32_t model_cnt = SPW_ARRAY_CNT(three);
static double noise = 0.05;

static struct spw_slo_sample measure(struct spw_slo_setting s, double pps)
{
	const struct model *m = &model[s.backend];
	const double batch = SPW_MIN((double)s.burst, 1 + pps * m->base_ns * 1e-9);
	const double carried = m->pps_max * s.burst / (s.burst + 4.0);
	const double jitter = 1 + noise * (2 * drand48() - 1);
	struct spw_slo_sample sample = {.took_ns = INTERVAL_NS};

	sample.frames = (uint64_t)(pps * INTERVAL_NS * 1e-9);
	if (pps > carried)
		sample.lost = (uint64_t)((pps - carried) * INTERVAL_NS * 1e-9);
	sample.value_ns = (uint64_t)((m->base_ns + batch * m->frame_ns) * jitter);
	return sample;
}

static double value(struct spw_slo_setting s, double pps)
{
	const double was = noise;
	double ns;

	noise = 0;
	ns = measure(s, pps).lost ? 1e12 : (double)measure(s, pps).value_ns;
	noise = was;
	return ns;
}

static double best(double pps)
{
	double ns = 1e12;

	for (uint32_t w = 0; w < model_cnt; w++)
		for (uint16_t b = 64; b >= 4; b /= 4)
			ns = SPW_MIN(ns, value((struct spw_slo_setting){w, b}, pps));
	return ns;
}

static void slo_open(struct spw_slo *slo, uint64_t limit_ns)
{
	srand48(1);
	assert_int_equal(spw_slo_init(slo, &(struct spw_slo_conf){limit_ns, 999000, model_cnt, 64}),
			 0);
}

static int use_three(void **state SPW_UNUSED)
{
	model = three;
	model_cnt = SPW_ARRAY_CNT(three);
	return 0;
}

static int use_five(void **state SPW_UNUSED)
{
	model = five;
	model_cnt = SPW_ARRAY_CNT(five);
	return 0;
}

/* Those of the GPU, as where the CPU cannot read the frames. */
static int use_gpu(void **state SPW_UNUSED)
{
	model = &five[2];
	model_cnt = 3;
	return 0;
}

/* Returns: changes made in so many measurements. */
static uint32_t run(struct spw_slo *slo, double pps, uint32_t intervals)
{
	uint32_t changes = 0;

	for (uint32_t i = 0; i < intervals; i++) {
		struct spw_slo_sample sample = measure(spw_slo_now(slo), pps);

		changes += spw_slo_next(slo, &sample).why != SPW_SLO_STAY;
	}
	return changes;
}

/* At each step of a ramp it ends within 1.25 times the best fixed setting, and stays there. */
static void follows_a_ramp(void **state SPW_UNUSED)
{
	struct spw_slo slo;

	slo_open(&slo, 20000);
	for (double pps = 1e4; pps < 6e6; pps *= 1.5) {
		run(&slo, pps, 25);
		assert_true(value(spw_slo_now(&slo), pps) <= 1.25 * 1.05 * best(pps));
		assert_int_equal(run(&slo, pps, 100), 0);
	}
	for (double pps = 6e6; pps > 1e4; pps /= 1.5) { /* and down again */
		run(&slo, pps, 25);
		assert_true(value(spw_slo_now(&slo), pps) <= 1.25 * 1.05 * best(pps));
	}
}

/* What lost frames at one load is not tried at a higher one. */
static void does_not_repeat_losses(void **state SPW_UNUSED)
{
	struct spw_slo slo;

	slo_open(&slo, 20000);
	run(&slo, 2e6, 30);
	for (uint32_t i = 0; i < 30; i++) {
		struct spw_slo_sample sample = measure(spw_slo_now(&slo), 8e6);

		spw_slo_next(&slo, &sample);
		assert_int_not_equal(spw_slo_now(&slo).backend, 0);
	}
}

/* One bad measurement changes nothing, nor does one with losses; two do. */
static void hysteresis(void **state SPW_UNUSED)
{
	struct spw_slo_setting settled;
	struct spw_slo_sample bad;
	struct spw_slo slo;

	slo_open(&slo, 20000);
	run(&slo, 1e5, 30);
	settled = spw_slo_now(&slo);
	bad = measure(settled, 1e5);
	bad.value_ns *= 20;
	assert_int_equal(spw_slo_next(&slo, &bad).why, SPW_SLO_STAY);
	assert_int_equal(spw_slo_next(&slo, &bad).why, SPW_SLO_BETTER);
	assert_false(spw_slo_now(&slo).backend == settled.backend &&
		     spw_slo_now(&slo).burst == settled.burst);
	bad = measure(spw_slo_now(&slo), 1e5);
	bad.lost = bad.frames / 10;
	assert_int_equal(spw_slo_next(&slo, &bad).why, SPW_SLO_STAY); /* a stall, perhaps */
	assert_int_equal(spw_slo_next(&slo, &bad).why, SPW_SLO_LOSES);
}

/* Of settings that differ little the cheapest is used, as long as it keeps the objective. */
static void cheapest_that_keeps_it(void **state SPW_UNUSED)
{
	struct spw_slo_step step;
	struct spw_slo_sample sample;
	struct spw_slo slo;

	slo_open(&slo, 2800);
	run(&slo, 1e4, 30);
	assert_int_equal(spw_slo_now(&slo).backend, 0);
	sample = measure(spw_slo_now(&slo), 1e4);
	step = spw_slo_next(&slo, &sample);
	assert_true(step.kept);
	slo_open(&slo, 100); /* nobody can */
	run(&slo, 1e4, 30);
	sample = measure(spw_slo_now(&slo), 1e4);
	step = spw_slo_next(&slo, &sample);
	assert_false(step.kept);
	assert_int_equal(step.why, SPW_SLO_STAY);
	assert_true(value(spw_slo_now(&slo), 1e4) <= 1.25 * best(1e4));
}

/* One CTA where it does as well as sixteen, sixteen where only they carry the load, and one again
 * when the load falls. */
static void as_few_ctas_as_keep_it(void **state SPW_UNUSED)
{
	const uint32_t one = 1, sixteen = 2;
	struct spw_slo slo;

	slo_open(&slo, 20000);
	run(&slo, 1e5, 20);
	assert_int_equal(spw_slo_now(&slo).backend, one);
	run(&slo, 2e7, 20);
	assert_int_equal(spw_slo_now(&slo).backend, sixteen);
	assert_int_equal(run(&slo, 1e5, 1), 0); /* not at once */
	run(&slo, 1e5, 1);
	assert_int_equal(spw_slo_now(&slo).backend, one);
	assert_int_equal(run(&slo, 1e5, 100), 0);
}

/* Loads in turn, one measurement each: it stays with what carries both. */
static void loads_in_turn(void **state SPW_UNUSED)
{
	uint32_t changes = 0;
	struct spw_slo slo;

	slo_open(&slo, 20000);
	run(&slo, 1e5, 20);
	run(&slo, 2e7, 20);
	for (uint32_t i = 0; i < 100; i++)
		changes += run(&slo, i & 1 ? 2e7 : 1e5, 1);
	assert_int_equal(changes, 0);
}

static void backends_are_named(const struct spw_slo_machine *machine, const char *want)
{
	struct spw_topo_exec backend[SPW_PIPE_BACKEND_MAX];
	const uint32_t cnt = spw_slo_backends(machine, backend);
	char got[160] = "";

	for (uint32_t w = 0; w < cnt; w++)
		snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s %u, ",
			 spw_exec_kind_name(backend[w].kind), backend[w].ctas);
	assert_string_equal(got, want);
}

static void cheapest_first(void **state SPW_UNUSED)
{
	struct spw_slo_machine machine = {.cpu_reads = true};

	backends_are_named(&machine, "inline 0, ");
	machine.cpu_spare = true;
	backends_are_named(&machine, "inline 0, cpu 0, ");
	machine.gpu = true;
	backends_are_named(&machine, "inline 0, cpu 0, cuda-graph 0, cuda-persistent 1, "
				     "cuda-persistent 0, ");
	machine.kind = SPW_EXEC_CUDA_PERSISTENT;
	backends_are_named(&machine, "cuda-persistent 1, cuda-persistent 0, ");
	machine.kind = SPW_EXEC_AUTO;
	machine.ctas = 8; /* as asked for, and no other */
	backends_are_named(&machine, "inline 0, cpu 0, cuda-graph 8, cuda-persistent 8, ");
	machine.cpu_reads = false;
	backends_are_named(&machine, "cuda-graph 8, cuda-persistent 8, ");
	machine.gpu = false;
	backends_are_named(&machine, "");
}

/* A measurement in which the lanes had no core for a while does not count, unless all are so. */
static void without_a_core(void **state SPW_UNUSED)
{
	struct spw_slo_setting settled;
	struct spw_slo_sample away;
	struct spw_slo slo;

	slo_open(&slo, 20000);
	run(&slo, 1e5, 30);
	settled = spw_slo_now(&slo);
	away = measure(settled, 1e5);
	away.value_ns *= 20;
	away.preempted_ns = INTERVAL_NS / 100;
	for (uint32_t i = 0; i < 17; i++) {
		assert_int_equal(spw_slo_next(&slo, &away).why, SPW_SLO_STAY);
		assert_int_equal(spw_slo_now(&slo).burst, settled.burst);
	}
	assert_int_equal(spw_slo_next(&slo, &away).why,
			 SPW_SLO_BETTER); /* the second that counts */
}

/* 1 M frames/s for 0.2 s; 3 ms without a core explain what came in twice that, and no more. */
static void losses_are_divided(void **state SPW_UNUSED)
{
	struct spw_slo_sample sample = {
		.took_ns = 200000000, .frames = 200000, .preempted_ns = 3000000};

	spw_slo_lost(&sample, 6000);
	assert_int_equal(sample.lost, 0);
	assert_int_equal(sample.lost_preempted, 6000);
	spw_slo_lost(&sample, 100000);
	assert_int_equal(sample.lost, 94000);
	assert_int_equal(sample.lost_preempted, 6000);
	sample.preempted_ns = 0;
	spw_slo_lost(&sample, 1);
	assert_int_equal(sample.lost, 1);
	assert_int_equal(sample.lost_preempted, 0);
}

static void reads_back(void **state SPW_UNUSED)
{
	struct spw_slo_setting setting;
	struct spw_slo_known known;
	struct spw_slo_sample none = {.took_ns = 1};
	struct spw_slo slo;
	uint32_t cnt = 0;

	slo_open(&slo, 20000);
	assert_int_equal(spw_slo_next(&slo, &none).why, SPW_SLO_STAY);
	run(&slo, 1e6, 30);
	while (spw_slo_known(&slo, cnt, &setting, &known))
		cnt++;
	assert_int_equal(cnt, SPW_SLO_BURST_CNT * model_cnt);
	assert_in_range(spw_slo_load(&slo), 650000, 1250000);
	assert_true(spw_slo_known(&slo, 0, &setting, &known));
	assert_int_equal(setting.burst, 64);
	assert_true(known.value_ns > 0);
}

static void refuses(void **state SPW_UNUSED)
{
	static const struct spw_slo_conf bad[] = {
		{0, 999000, 1, 64}, {1, 0, 1, 64},      {1, 1000000, 1, 64},
		{1, 999000, 0, 64}, {1, 999000, 9, 64}, {1, 999000, 1, 0},
	};
	struct spw_slo slo;

	for (size_t i = 0; i < SPW_ARRAY_CNT(bad); i++)
		assert_int_equal(spw_slo_init(&slo, &bad[i]), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(follows_a_ramp, use_three),
		cmocka_unit_test_setup(follows_a_ramp, use_five),
		cmocka_unit_test_setup(follows_a_ramp, use_gpu),
		cmocka_unit_test_setup(does_not_repeat_losses, use_three),
		cmocka_unit_test_setup(hysteresis, use_three),
		cmocka_unit_test_setup(cheapest_that_keeps_it, use_three),
		cmocka_unit_test_setup(as_few_ctas_as_keep_it, use_gpu),
		cmocka_unit_test_setup(loads_in_turn, use_gpu),
		cmocka_unit_test_setup(without_a_core, use_three),
		cmocka_unit_test(losses_are_divided),
		cmocka_unit_test_setup(reads_back, use_three),
		cmocka_unit_test_setup(reads_back, use_five),
		cmocka_unit_test(cheapest_first),
		cmocka_unit_test(refuses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
