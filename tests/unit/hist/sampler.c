/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Draws samples of one shape, records them in a histogram, and writes three views of them for
 * test_reader.py to compare: the raw samples, the histogram's log, and the percentiles that
 * spinwire prints. Usage: hist_sampler SHAPE COUNT LOST FOLDER
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "hist/spw_hist_log.h"
#include "unit_test.h"

struct shape {
	const char *name;
	double (*draw)(uint64_t *seed); /* ns */
};

/* (0, 1) */
static double uniform(uint64_t *seed)
{
	return ((double)(unit_random(seed) >> 11) + 0.5) / 9007199254740992.0;
}

static double draw_constant(uint64_t *seed)
{
	(void)seed;
	return 12345;
}

static double draw_few(uint64_t *seed)
{
	return floor(uniform(seed) * 200);
}

static double draw_even(uint64_t *seed)
{
	return uniform(seed) * 50000;
}

/* A path without disturbance. */
static double draw_lognormal(uint64_t *seed)
{
	double normal = sqrt(-2 * log(uniform(seed))) * cos(6.283185307179586 * uniform(seed));

	return exp(8.5 + 0.4 * normal);
}

/* One in a thousand is delayed by a timer tick, one in 50,000 by another program. */
static double draw_stalls(uint64_t *seed)
{
	double luck = uniform(seed);

	return draw_lognormal(seed) + (luck < 0.00002 ? 4e6 : luck < 0.001 ? 30000 : 0);
}

/* A heavy tail, which reaches the last buckets. */
static double draw_pareto(uint64_t *seed)
{
	return 1000 * pow(uniform(seed), -1.5);
}

static const struct shape shape[] = {
	{"constant", draw_constant},   {"few", draw_few},       {"even", draw_even},
	{"lognormal", draw_lognormal}, {"stalls", draw_stalls}, {"pareto", draw_pareto},
};

static struct spw_hist hist;

static FILE *create(const char *folder, const char *name)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return fopen(path, "w");
}

static int sample(const struct shape *s, uint64_t cnt, FILE *raw)
{
	uint64_t seed = 29;

	for (uint64_t i = 0; i < cnt; i++) {
		uint64_t value = (uint64_t)fmin(s->draw(&seed), (double)SPW_HIST_VALUE_MAX);

		spw_hist_record(&hist, value, 1);
		if (fprintf(raw, "%" PRIu64 "\n", value) < 0)
			return 2;
	}
	return 0;
}

static void print_points(uint64_t lost_cnt)
{
	struct spw_hist_step step[SPW_HIST_SPECTRUM_MAX];
	struct spw_hist_summary sum;
	uint32_t cnt = spw_hist_spectrum(&hist, lost_cnt, step);

	spw_hist_summary(&hist, lost_cnt, &sum);
	for (int p = 0; p < SPW_HIST_POINT_CNT; p++)
		if (sum.answer[p] == SPW_HIST_VALUE)
			printf("%s %" PRIu64 "\n", spw_hist_point_name((enum spw_hist_point)p),
			       sum.value[p]);
		else
			printf("%s %s\n", spw_hist_point_name((enum spw_hist_point)p),
			       sum.answer[p] == SPW_HIST_LOST ? "lost" : "-");
	for (uint32_t i = 0; i < cnt; i++)
		printf("%.4f %" PRIu64 "\n", step[i].percentile, step[i].value);
}

int main(int argc, char **argv)
{
	FILE *raw, *log;
	int rc = 1;

	if (argc != 5 || !(raw = create(argv[4], "raw")))
		return 1;
	for (size_t i = 0; i < SPW_ARRAY_CNT(shape); i++)
		if (!strcmp(argv[1], shape[i].name))
			rc = sample(&shape[i], strtoull(argv[2], NULL, 10), raw);
	if (fclose(raw) || rc || !(log = create(argv[4], "log")))
		return 1;
	rc = spw_hist_log_open(log, 1700000000000000000ull) ||
	     spw_hist_log_write(log, "round_trip", 1700000000000000000ull, 1000000000, 1e6, &hist);
	print_points(strtoull(argv[3], NULL, 10));
	return fclose(log) || rc;
}
