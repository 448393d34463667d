/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What people read while it runs, and what programs read afterwards.
 */
#ifndef PERF_TABLE_H
#define PERF_TABLE_H

#include "args.h"
#include "result/judge.h"

struct perf_rows {
	struct perf_result *result; /* [cnt] */
	uint32_t cnt;
};

/* Purpose: what both machines are and which rails face each other. */
void perf_table_head(const struct perf_session *s);
/* Purpose: shows what is measured now, and how long all rows will take. */
void perf_table_progress(const struct perf_plan *plan, uint32_t idx);
/* Purpose: one row, under the heading of its table if it is the first; rows are printed in order.
 */
void perf_table_row(const struct perf_session *s, const struct perf_rows *rows, uint32_t idx);
/* Purpose: verdicts, and what to check. page: the HTML page; NULL: none. */
void perf_table_end(const struct perf_session *s, const struct perf_rows *rows, const char *page);
/* Purpose: each reason for a mark once, with the number of its rows. */
void perf_table_reasons(const struct perf_rows *rows, enum perf_valid valid);
/* brief.c: a line for each table, and what is odd. page: the HTML page; NULL: none. */
void perf_brief(const struct perf_session *s, const struct perf_rows *rows, const char *page);

/* report.c. Owner: the caller. NULL: no memory. */
json_t *perf_report(const struct perf_session *s, const struct perf_rows *rows);
/* Errors: -EIO with the path. */
int perf_csv(const struct perf_session *s, const struct perf_rows *rows, const char *path);

/* Returns: whether two rows belong to one table. */
bool perf_same_table(const struct perf_case *a, const struct perf_case *b);
/* The heading of a row's table: "write, rails 1+2, 1 queue pair each". */
void perf_title(const struct perf_case *what, char *out, size_t bytes);
/* "64 KiB" */
#define PERF_SIZE_BYTES 28
void perf_size_text(uint64_t bytes, char out[PERF_SIZE_BYTES]);

#endif
