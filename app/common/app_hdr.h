/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * An HdrHistogram log of a run, an interval a second, that the standard tools read. It is opened before the run, so that a
 * name that cannot be written is refused at once; a disk that fills up later ends the log, is said once, and costs the run
 * nothing.
 */
#ifndef APP_HDR_H
#define APP_HDR_H

#include <stdio.h>

#include "hist/spw_hist.h"

#define APP_HDR_SERIES_MAX 16u

/* What is logged under one tag. total adds up to all that was recorded so far, in ns. */
struct app_hdr_series {
	const char *tag;
	void (*total)(void *arg, struct spw_hist *total_out); /* total_out is empty */
	void *arg;
};

struct app_hdr {
	FILE *file;              /* NULL: no log, or it ended */
	const char *path;
	uint64_t since_ns;       /* of the open interval, since 1970 */
	uint64_t next_ns;
	uint32_t series_cnt;
	struct app_hdr_series series[APP_HDR_SERIES_MAX];
	struct spw_hist *before; /* [series_cnt] what was in total when the interval began; and room for two more */
};

/* Purpose: creates the file and begins the first interval. path NULL: no log; all other calls then do nothing. It and the
 *          tags stay the caller's. Errors: -EIO with the path, -ENOMEM. Thread: any one. */
int app_hdr_open(struct app_hdr *hdr, const char *path, const struct app_hdr_series *series, uint32_t series_cnt);

/* Purpose: writes an interval if a second has passed; call it often. */
void app_hdr_tick(struct app_hdr *hdr);

/* Purpose: writes what is left, and closes. Returns: 0, or -EIO if the log is not whole (said before). */
int app_hdr_close(struct app_hdr *hdr);

#endif
