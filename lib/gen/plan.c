/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Makes the tables of a plan (spw_gen_plan.h): gaps, sizes and, for a ramp, steps. All randomness
 * is spent here, before the run.
 *
 * A plan is three tables that are walked in circles, so that the run itself draws no random number
 * and divides nothing:
 *
 *   gap_fp[]   1 entry (constant), burst_cnt (burst), 65536 (Poisson), one per packet (capture)
 *   size[]     1 (fixed), 12 (IMIX), 4096 (range), one per packet (capture)
 *   step[]     a ramp: gap and end of each of 1024 rates
 *
 * Times are ns with GEN_FRAC_BITS of fraction; gaps of whole ns would drift away from the rate.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "gen/spw_gen_plan.h"

#define POISSON_CNT 65536u
#define RANGE_CNT   4096u
#define RAMP_STEPS  1024u

/* splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014). */
static uint64_t plan_rand_next(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15ull);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

/* Rounded to the nearest fraction. */
static uint64_t plan_gap_of_rate(double fps)
{
	return (uint64_t)llround(1e9 * (double)(1u << GEN_FRAC_BITS) / fps);
}

static int plan_gaps_alloc(struct gen_plan *plan, uint32_t cnt)
{
	plan->gap_cnt = cnt;
	plan->gap_fp = calloc(cnt, sizeof(*plan->gap_fp));
	return plan->gap_fp ? 0 : spw_err(ENOMEM, "no memory for %u gaps", cnt);
}

static int plan_sizes_alloc(struct gen_plan *plan, uint32_t cnt)
{
	plan->size_cnt = cnt;
	plan->size = calloc(cnt, sizeof(*plan->size));
	return plan->size ? 0 : spw_err(ENOMEM, "no memory for %u sizes", cnt);
}

/* One gap, walked in a circle of one. */
static int plan_gaps_constant(struct gen_plan *plan, double fps)
{
	int rc = plan_gaps_alloc(plan, 1);

	if (rc == 0)
		plan->gap_fp[0] = plan_gap_of_rate(fps);
	return rc;
}

/* Exponential gaps: one from the middle of each of 65,536 equal slices of the distribution,
 * shuffled. A whole round of the table has the exact shape and, after scaling, the exact mean; the
 * seed decides the order only. */
static int plan_gaps_poisson(struct gen_plan *plan, double fps, uint64_t seed)
{
	double sum = 0, mean_fp = 1e9 * (double)(1u << GEN_FRAC_BITS) / fps;
	int rc = plan_gaps_alloc(plan, POISSON_CNT);

	if (rc)
		return rc;
	for (uint32_t i = 0; i < POISSON_CNT; i++)
		sum -= log1p(-((double)i + 0.5) / POISSON_CNT);
	for (uint32_t i = 0; i < POISSON_CNT; i++) {
		double e = -log1p(-((double)i + 0.5) / POISSON_CNT);

		plan->gap_fp[i] = (uint64_t)llround(mean_fp * e * POISSON_CNT / sum);
	}
	for (uint32_t i = POISSON_CNT - 1; i > 0; i--) {
		uint32_t k = (uint32_t)(plan_rand_next(&seed) % (i + 1));
		uint64_t t = plan->gap_fp[i];

		plan->gap_fp[i] = plan->gap_fp[k];
		plan->gap_fp[k] = t;
	}
	return 0;
}

/* A burst is burst_cnt - 1 gaps of 0 and one that holds the whole period. */
static int plan_gaps_burst(struct gen_plan *plan, double fps, uint32_t burst_cnt)
{
	int rc;

	if (burst_cnt < 1 || burst_cnt > GEN_GAP_CNT_MAX)
		return spw_err(ERANGE, "burst of %u frames: 1 to %u are possible", burst_cnt,
			       GEN_GAP_CNT_MAX);
	rc = plan_gaps_alloc(plan, burst_cnt);
	if (rc == 0)
		plan->gap_fp[burst_cnt - 1] = plan_gap_of_rate(fps / burst_cnt);
	return rc;
}

/* A ramp is 1024 steps of constant rate, each at the rate of its middle. */
static int plan_gaps_ramp(struct gen_plan *plan, const struct gen_plan_conf *conf)
{
	int rc = plan_gaps_alloc(plan, 1);

	if (rc)
		return rc;
	plan->step = calloc(RAMP_STEPS + 1, sizeof(*plan->step));
	if (!plan->step)
		return spw_err(ENOMEM, "no memory for a ramp");
	plan->step_cnt = RAMP_STEPS + 1;
	for (uint32_t i = 0; i < RAMP_STEPS; i++) {
		double at = ((double)i + 0.5) / RAMP_STEPS;

		plan->step[i].gap_fp = plan_gap_of_rate(conf->rate_fps +
							at * (conf->rate_end_fps - conf->rate_fps));
		plan->step[i].until_fp =
			(uint64_t)((double)(i + 1) / RAMP_STEPS * (double)conf->ramp_ns *
				   (double)(1u << GEN_FRAC_BITS));
	}
	plan->step[RAMP_STEPS].gap_fp = plan_gap_of_rate(conf->rate_end_fps);
	plan->step[RAMP_STEPS].until_fp = UINT64_MAX;
	return 0;
}

/* A circle of one. */
static int plan_sizes_fixed(struct gen_plan *plan, uint16_t bytes)
{
	int rc = plan_sizes_alloc(plan, 1);

	if (rc == 0)
		plan->size[0] = bytes;
	return rc;
}

/* Uniform; drawn once, then repeated. */
static int plan_sizes_range(struct gen_plan *plan, uint16_t min, uint16_t max, uint64_t seed)
{
	int rc;

	if (min > max)
		return spw_err(ERANGE, "sizes %u to %u: the first must not be the larger", min,
			       max);
	rc = plan_sizes_alloc(plan, RANGE_CNT);
	for (uint32_t i = 0; rc == 0 && i < RANGE_CNT; i++)
		plan->size[i] = (uint16_t)(min + plan_rand_next(&seed) % (uint32_t)(max - min + 1));
	return rc;
}

/* The "simple IMIX" of RFC 6985's appendix, FCS not counted: 7 x 60, 4 x 590, 1 x 1514; the
 * shortest that holds our header is 64. */
static int plan_sizes_imix(struct gen_plan *plan)
{
	static const uint16_t mix[12] = {64, 590, 64, 590, 64, 64, 1514, 64, 590, 64, 590, 64};
	int rc = plan_sizes_alloc(plan, SPW_ARRAY_CNT(mix));

	if (rc == 0)
		memcpy(plan->size, mix, sizeof(mix));
	return rc;
}

/* Every limit names what is possible. */
int gen_plan_check(const struct gen_plan_conf *conf)
{
	if (conf->gaps != GEN_CAPTURE && !(conf->rate_fps >= 0.01 && conf->rate_fps <= 1e9))
		return spw_err(ERANGE, "--rate: %g frames/s is out of range; 0.01 to 1e9",
			       conf->rate_fps);
	if (conf->gaps == GEN_RAMP && !(conf->rate_end_fps >= 0.01 && conf->rate_end_fps <= 1e9))
		return spw_err(ERANGE, "ramp to %g frames/s: 0.01 to 1e9 are possible",
			       conf->rate_end_fps);
	if (conf->gaps == GEN_RAMP &&
	    (conf->ramp_ns < 1000 || conf->ramp_ns > UINT64_MAX >> (GEN_FRAC_BITS + 1)))
		return spw_err(ERANGE, "ramp over %llu ns: 1 us to 39 hours are possible",
			       (unsigned long long)conf->ramp_ns);
	if (conf->flow_cnt < 1)
		return spw_err(ERANGE, "0 flows: at least one is needed");
	if (conf->sizes != GEN_SIZE_IMIX && conf->sizes != GEN_SIZE_CAPTURE &&
	    (conf->size_min < GEN_SIZE_MIN || conf->size_min > GEN_SIZE_MAX ||
	     conf->size_max > GEN_SIZE_MAX))
		return spw_err(ERANGE,
			       "frames of %u bytes: %u to %u are possible (FCS not counted)",
			       conf->size_min, GEN_SIZE_MIN, GEN_SIZE_MAX);
	if ((conf->gaps == GEN_CAPTURE || conf->sizes == GEN_SIZE_CAPTURE) && !conf->capture)
		return spw_err(
			EINVAL,
			"--schedule capture and --size capture: name the file with --capture FILE");
	if (conf->capture && access(conf->capture, R_OK))
		return spw_err(errno, "--capture %s: %s", conf->capture, strerror(errno));
	return 0;
}

/* A capture may give the gaps, the sizes, or both; what is not used is freed. */
static int plan_init_capture(struct gen_plan *plan, const struct gen_plan_conf *conf)
{
	struct gen_capture read;
	int rc = gen_capture_read(conf->capture, &read);

	if (rc)
		return rc;
	plan->note = read.note;
	if (conf->gaps == GEN_CAPTURE) {
		plan->gap_fp = read.gap_fp;
		plan->gap_cnt = read.cnt;
	} else {
		free(read.gap_fp);
	}
	if (conf->sizes == GEN_SIZE_CAPTURE) {
		plan->size = read.size;
		plan->size_cnt = read.cnt;
	} else {
		free(read.size);
		plan->note.longer_cnt = plan->note.shorter_cnt = 0;
	}
	return 0;
}

/* The gaps of a capture were read with it (plan_init_capture). */
static int plan_init_gaps(struct gen_plan *plan, const struct gen_plan_conf *conf)
{
	switch (conf->gaps) {
	case GEN_CONSTANT:
		return plan_gaps_constant(plan, conf->rate_fps);
	case GEN_POISSON:
		return plan_gaps_poisson(plan, conf->rate_fps, conf->seed);
	case GEN_BURST:
		return plan_gaps_burst(plan, conf->rate_fps, conf->burst_cnt);
	case GEN_RAMP:
		return plan_gaps_ramp(plan, conf);
	case GEN_CAPTURE:
		return 0; /* done by plan_init_capture */
	}
	return spw_err(EINVAL, "no such distribution");
}

static int plan_init_sizes(struct gen_plan *plan, const struct gen_plan_conf *conf)
{
	switch (conf->sizes) {
	case GEN_SIZE_FIXED:
		return plan_sizes_fixed(plan, conf->size_min);
	case GEN_SIZE_RANGE:
		return plan_sizes_range(plan, conf->size_min, conf->size_max, conf->seed + 1);
	case GEN_SIZE_IMIX:
		return plan_sizes_imix(plan);
	case GEN_SIZE_CAPTURE:
		return 0;
	}
	return spw_err(EINVAL, "no such size distribution");
}

/* For the report. A ramp is named by its last rate. */
static double plan_mean_fps(const struct gen_plan *plan)
{
	double sum = 0;

	if (plan->step)
		return 1e9 * (double)(1u << GEN_FRAC_BITS) /
		       (double)plan->step[plan->step_cnt - 1].gap_fp;
	for (uint32_t i = 0; i < plan->gap_cnt; i++)
		sum += (double)plan->gap_fp[i];
	return sum > 0 ? (double)plan->gap_cnt * 1e9 * (double)(1u << GEN_FRAC_BITS) / sum : 0;
}

/* Everything that can fail or takes time is done here; gen_plan_advance is then a few adds. */
int gen_plan_init(struct gen_plan *plan, const struct gen_plan_conf *conf)
{
	int rc = gen_plan_check(conf);

	memset(plan, 0, sizeof(*plan));
	if (rc == 0 && (conf->gaps == GEN_CAPTURE || conf->sizes == GEN_SIZE_CAPTURE))
		rc = plan_init_capture(plan, conf);
	if (rc == 0)
		rc = plan_init_gaps(plan, conf);
	if (rc == 0)
		rc = plan_init_sizes(plan, conf);
	if (rc) {
		gen_plan_fini(plan);
		return rc;
	}
	plan->flow_cnt = conf->flow_cnt;
	plan->mean_fps = plan_mean_fps(plan);
	plan->next.bytes = plan->size[0];
	return 0;
}

/* Frees also what a failed gen_plan_init has left. */
void gen_plan_fini(struct gen_plan *plan)
{
	free(plan->gap_fp);
	free(plan->size);
	free(plan->step);
	memset(plan, 0, sizeof(*plan));
}

/* Frames of the plan from here to until_ns: whole circles by division, the rest one by one. Used at
 * the end, for what was due and not sent. */
uint64_t gen_plan_count(const struct gen_plan *plan, uint64_t until_ns)
{
	struct gen_plan look = *plan;
	uint64_t cnt = 0, circle_fp = 0, until_fp = until_ns << GEN_FRAC_BITS;

	for (uint32_t i = 0; i < look.gap_cnt; i++)
		circle_fp += look.gap_fp[i];
	if (!look.step && look.next.due_fp < until_fp && circle_fp) {
		uint64_t circles = (until_fp - look.next.due_fp) / circle_fp;

		look.next.due_fp += circles * circle_fp;
		cnt = circles * look.gap_cnt;
	}
	for (; look.next.due_fp < until_fp; cnt++)
		gen_plan_advance(&look);
	return cnt;
}
