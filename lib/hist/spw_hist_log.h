/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * HdrHistogram's interval log, so that the standard tools read what spinwire measured. It is lines
 * of text, each with a histogram in the V2 encoding (counts as zig-zag LEB128, runs of zeros as
 * negative numbers), compressed by zlib, in base64.
 *
 * The buckets of struct spw_hist are those of an HdrHistogram with two significant digits, lowest
 * value 1 and highest value 2^40 - 1, so counts are copied one by one. Values in overflow are
 * counted in the last bucket of the log's histogram.
 *
 * Source: HdrHistogram, "V2 encoding" and HistogramLogWriter's line format, version 1.3.
 */
#ifndef SPW_HIST_LOG_H
#define SPW_HIST_LOG_H

#include <stdio.h>

#include "hist/spw_hist.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Purpose: writes the head of a log: version, start time, column names.
 * Shape: start_ns since 1970.
 * Owner: the caller, of the file.
 * Thread: setup.
 * Errors: -EIO.
 */
int spw_hist_log_open(FILE *file, uint64_t start_ns);

/* Purpose: writes one interval.
 * Shape: start_ns since 1970; tag of up to 64 characters without comma, space or line break, "" for
 *   none; the line's maximum is printed as value / value_scale (1000000 shows ns in ms).
 * Thread: any, on a histogram that nobody writes to. Not for the data path.
 * Errors: -EINVAL (tag), -ENOMEM, -EIO (such as a full disk; the text has the reason).
 */
int spw_hist_log_write(FILE *file, const char *tag, uint64_t start_ns, uint64_t interval_ns,
		       double value_scale, const struct spw_hist *hist);

/* Purpose: the base64 text of one histogram.
 * Returns: a terminated string; NULL if memory ran out.
 * Owner: the caller frees it.
 * Thread: as spw_hist_log_write.
 */
char *spw_hist_log_encode(const struct spw_hist *hist);

#ifdef __cplusplus
}
#endif
#endif
