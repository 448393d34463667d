/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The short result: a line for each table of table.c, which --full prints in its place. Called by
 * client.c after the last row; figures come from judge.c.
 *
 *   latency    p50 2.46 us, p99 3.10 us, ...: TITLE, 8 B      of each latency table
 *   bandwidth  98.123 Gb/s, 98 % of its limit, WORD: TITLE, 1 MiB   of each bandwidth table
 *              rows that are not verified, not valid or failed, with the reason
 *   machine    CODES (HOST); CODES (HOST): see spinwire-doctor --full
 *   next       --full: every row
 *
 * An invalid or failed row gives no figure, however good it looks.
 */
#include <stdio.h>
#include <string.h>

#include "app_brief.h"
#include "result/table.h"

/* Of a latency table, the smallest message: its first row. */
static void brief_latency(const struct perf_result *r)
{
	char title[128], size[PERF_SIZE_BYTES];

	if (r->valid >= PERF_INVALID)
		return;
	perf_title(&r->what, title, sizeof(title));
	perf_size_text(r->what.bytes, size);
	snprintf(title + strlen(title), sizeof(title) - strlen(title), ", %s", size);
	app_brief_points("latency", r->lat.open.value, r->lat.open.answer, title);
}

/* Of a bandwidth table, the row that carried the most. */
static void brief_bandwidth(const struct perf_session *s, const struct perf_result *r)
{
	struct perf_verdict v;
	char title[128], size[PERF_SIZE_BYTES];

	perf_judge(s, r, &v);
	perf_title(&r->what, title, sizeof(title));
	perf_size_text(r->what.bytes, size);
	printf(APP_BRIEF_LEAD "%.3f Gb/s", "bandwidth", v.gbps);
	if (v.efficiency > 0)
		printf(", %.0f %% of its limit, %s", 100 * v.efficiency, perf_word(v.efficiency));
	printf(": %s, %s\n", title, size);
}

/* The rows of one table follow each other. Returns: the first of the next. */
static uint32_t brief_table(const struct perf_session *s, const struct perf_rows *rows, uint32_t i)
{
	const struct perf_result *first = &rows->result[i], *best = NULL;
	struct perf_verdict v;
	double most = 0;

	for (; i < rows->cnt && perf_same_table(&first->what, &rows->result[i].what); i++) {
		perf_judge(s, &rows->result[i], &v);
		if (rows->result[i].valid < PERF_INVALID && v.gbps > most) {
			most = v.gbps;
			best = &rows->result[i];
		}
	}
	if (first->what.latency)
		brief_latency(first);
	else if (best)
		brief_bandwidth(s, best);
	return i;
}

/* Codes of the doctor, which has read both machines. */
static void brief_findings(const struct perf_end *end)
{
	for (uint32_t i = 0; i < end->finding_cnt; i++)
		printf("%s%s", i ? ", " : "", end->finding[i].code);
	if (end->finding_cnt)
		printf(" (%s)", end->host);
}

/* page: the --html report that was written; NULL: none. */
void perf_brief(const struct perf_session *s, const struct perf_rows *rows, const char *page)
{
	for (uint32_t i = 0; i < rows->cnt;)
		i = brief_table(s, rows, i);
	for (int valid = PERF_UNVERIFIED; valid <= PERF_FAILED; valid++)
		perf_table_reasons(rows, (enum perf_valid)valid);
	if (s->own.finding_cnt + s->peer.finding_cnt) {
		printf(APP_BRIEF_LEAD, "machine");
		brief_findings(&s->own);
		printf(s->own.finding_cnt && s->peer.finding_cnt ? "; " : "");
		brief_findings(&s->peer);
		printf(": see spinwire-doctor --full\n");
	}
	if (page)
		printf(APP_BRIEF_LEAD "%s\n", "report", page);
	printf(APP_BRIEF_LEAD "--full: every row%s\n", "next", page ? "" : "; --html FILE: curves");
}
