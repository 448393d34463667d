/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * HdrHistogram's interval log, so that the standard tools read what spinwire measured: text lines, each with a histogram in
 * the V2 encoding (zig-zag LEB128 counts, zero runs as negative numbers), zlib-compressed, in base64.
 *
 * Buckets of struct spw_hist are those of an HdrHistogram with two significant digits, lowest value 1 and 2^40 - 1 as its
 * highest, so counts go over one by one. Values in overflow are counted in that histogram's last bucket.
 * Source: HdrHistogram, "V2 encoding" and HistogramLogWriter's line format, version 1.3.
 */
#ifndef SPW_HIST_LOG_H
#define SPW_HIST_LOG_H

#include <stdio.h>

#include "hist/spw_hist.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Purpose: the head of a log: version, start time, column names. Shape: start_ns since 1970. Errors: -EIO. Thread: setup. */
int spw_hist_log_open(FILE *file, uint64_t start_ns);

/* Purpose: one interval. Shape: start_ns since 1970, tag of up to 64 characters without comma, space or line break ("" none), value_scale: a
 *          value divided by it is what the line's maximum is printed in (1000000 for ns values shown in ms).
 * Errors:  -EINVAL tag, -ENOMEM, -EIO (a full disk; the text says so). Thread: any, on a histogram at rest. Cold. */
int spw_hist_log_write(FILE *file, const char *tag, uint64_t start_ns, uint64_t interval_ns, double value_scale,
		       const struct spw_hist *hist);

/* Purpose: the base64 text alone, NUL-terminated. Owner: the caller frees it. Returns: NULL out of memory. Thread: any. */
char *spw_hist_log_encode(const struct spw_hist *hist);

#ifdef __cplusplus
}
#endif
#endif
