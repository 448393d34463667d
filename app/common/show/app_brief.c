/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The lines that short results share (app_brief.h). They print what they are given: figures come
 * from where the tables and the JSON summary have them too.
 *
 *   latency    p50 2.46 us, p99 10.25 us, p99.9 -, longest 1.04 ms: WHAT       app_brief_points
 *   slow       12 of 500000 frames took more than 50.00 us: CAUSE 75.0 %, ...  app_brief_slow
 *   machine    latency here suffers from CODES: see spinwire-doctor --full     app_brief_end
 *   next       WHAT ELSE TO TRY
 *
 * Called by the reports of spinwire and spinwire-gen, and the points by that of spinwire-perf. The
 * whole short result is meant to fit ten lines, so what is added here replaces something.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "app_brief.h"
#include "app_program.h"

#define CAUSES_SHOWN 3u /* what one line has room for */

const char *app_brief_time(uint64_t ns, char out[APP_BRIEF_TIME_BYTES])
{
	const double us = (double)ns / 1e3;

	if (us < 1e3)
		snprintf(out, APP_BRIEF_TIME_BYTES, "%.2f us", us);
	else if (us < 1e6)
		snprintf(out, APP_BRIEF_TIME_BYTES, "%.2f ms", us / 1e3);
	else
		snprintf(out, APP_BRIEF_TIME_BYTES, "%.2f s", us / 1e6);
	return out;
}

/* "-": too few samples for that percentile; "lost": its rank lies among frames that never returned;
 * "over": above what the histogram can hold. None of them is a number, so none is printed as 0. */
void app_brief_points(const char *lead, const uint64_t *value_ns,
		      const enum spw_hist_answer *answer, const char *what)
{
	static const struct {
		enum spw_hist_point point;
		const char *name;
	} shown[] = {{SPW_HIST_POINT_p50, "p50"},
		     {SPW_HIST_POINT_p99, "p99"},
		     {SPW_HIST_POINT_p999, "p99.9"},
		     {SPW_HIST_POINT_max, "longest"}};

	char time[APP_BRIEF_TIME_BYTES];

	printf(APP_BRIEF_LEAD, lead);
	for (size_t i = 0; i < SPW_ARRAY_CNT(shown); i++) {
		printf("%s%s ", i ? ", " : "", shown[i].name);
		if (answer[shown[i].point] == SPW_HIST_VALUE)
			printf("%s", app_brief_time(value_ns[shown[i].point], time));
		else
			printf("%s", answer[shown[i].point] == SPW_HIST_LOST      ? "lost"
				     : answer[shown[i].point] == SPW_HIST_TOO_FEW ? "-"
										  : "over");
	}
	printf(": %s\n", what);
}

/* The most frequent first. */
static int cause_compare(const void *a, const void *b)
{
	const uint64_t x = ((const struct app_brief_cause *)a)->frames,
		       y = ((const struct app_brief_cause *)b)->frames;

	return (x < y) - (x > y);
}

uint64_t app_brief_slow(uint64_t threshold_ns, uint64_t all, struct app_brief_cause *cause,
			uint32_t cnt)
{
	char time[APP_BRIEF_TIME_BYTES];
	uint64_t above = 0;

	for (uint32_t i = 0; i < cnt; i++)
		above += cause[i].frames;
	qsort(cause, cnt, sizeof(*cause), cause_compare);
	printf(APP_BRIEF_LEAD "%" PRIu64 " of %" PRIu64 " frames took more than %s", "slow", above,
	       all, app_brief_time(threshold_ns, time));
	/* A cause with frames is part of `above`, so that is not 0 where it divides. */
	for (uint32_t i = 0; i < SPW_MIN(cnt, CAUSES_SHOWN) && cause[i].frames; i++)
		printf("%s%s %.1f %%", i ? ", " : ": ", cause[i].name,
		       100 * (double)cause[i].frames / (double)above);
	putchar('\n');
	return above;
}

void app_brief_end(const char *next)
{
	if (app_advice_codes()[0])
		printf(APP_BRIEF_LEAD "latency here suffers from %s: see spinwire-doctor --full\n",
		       "machine", app_advice_codes());
	printf(APP_BRIEF_LEAD "%s\n", "next", next);
}
