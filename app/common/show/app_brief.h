/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Lines of the short result that several programs print; --full prints tables in its place. Each
 * line begins with a word of at most ten letters, so that results read alike.
 */
#ifndef APP_BRIEF_H
#define APP_BRIEF_H

#include "hist/spw_hist.h"

#define APP_BRIEF_LEAD       "%-10s "
#define APP_BRIEF_TIME_BYTES 32u

/* Purpose: a time with its unit, three digits or more: "2.46 us", "10.25 ms", "1.04 s".
 * Returns: out.
 * Thread: any.
 */
const char *app_brief_time(uint64_t ns, char out[APP_BRIEF_TIME_BYTES]);

/* Purpose: prints p50, p99, p99.9 and the longest of a distribution.
 * Shape: value_ns and answer have SPW_HIST_POINT_CNT entries; what says from where to where.
 * Thread: main.
 */
void app_brief_points(const char *lead, const uint64_t *value_ns,
		      const enum spw_hist_answer *answer, const char *what);

/* Frames of one cause. Owner: the caller. */
struct app_brief_cause {
	const char *name, *text;
	uint64_t frames;
};

/* Purpose: prints how many of all frames were above the threshold, and their three most frequent
 *   causes.
 * Shape: cause is sorted by this call, the most frequent first.
 * Returns: the frames above the threshold.
 * Thread: main.
 */
uint64_t app_brief_slow(uint64_t threshold_ns, uint64_t all, struct app_brief_cause *cause,
			uint32_t cnt);

/* Purpose: prints what on this machine costs latency, as codes of the doctor, if anything does; and
 *   then what else to try.
 * Thread: main, when nothing is being opened.
 */
void app_brief_end(const char *next);

#endif
