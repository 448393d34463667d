/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * An HdrHistogram log of a run, with one interval a second, for the standard tools. The file is
 * created before the run, so that a name that cannot be written is refused at once. A disk that
 * fills up later ends the log with one warning, and does not disturb the run.
 */
#ifndef APP_HDR_H
#define APP_HDR_H

#include <stdio.h>

#include "hist/spw_hist.h"

#define APP_HDR_SERIES_MAX 16u

/* What is logged under one tag. total() adds all that was recorded so far, in ns. */
struct app_hdr_series {
	const char *tag;
	void (*total)(void *arg, struct spw_hist *total_out); /* total_out is empty */
	void *arg;
};

struct app_hdr {
	FILE *file; /* NULL: no log, or it ended */
	const char *path;
	/* From CLOCK_MONOTONIC to ns since 1970; measured once, so a step of the clock changes
	 * nothing. */
	uint64_t epoch_ns;
	uint64_t since_ns; /* of the open interval, CLOCK_MONOTONIC */
	uint64_t next_ns;
	uint32_t series_cnt;
	struct app_hdr_series series[APP_HDR_SERIES_MAX];
	/* [series_cnt] the totals when the interval began, and room for two more. */
	struct spw_hist *before;
};

/* Purpose: creates the file and begins the first interval. With path NULL there is no log, and all
 *   other calls do nothing.
 * Lifetime: path and tags remain the caller's, until app_hdr_close.
 * Thread: any, one at a time.
 * Errors: -EIO with the path; -ENOMEM.
 */
int app_hdr_open(struct app_hdr *hdr, const char *path, const struct app_hdr_series *series,
		 uint32_t series_cnt);

/* Purpose: writes an interval if a second has passed. To be called every few ms.
 */
void app_hdr_tick(struct app_hdr *hdr);

/* Purpose: writes the last interval, and closes.
 * Returns: 0, or -EIO if the log is incomplete (logged when it happened).
 */
int app_hdr_close(struct app_hdr *hdr);

#endif
