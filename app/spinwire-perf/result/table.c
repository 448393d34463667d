/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Tables for people (table.h). Text of the other end was cleaned when it was parsed (perf_text).
 *
 * client.c prints each row when it is measured, so a table shows what is known so far; the
 * verdicts at the end need all rows. stdout has the tables, stderr the progress line and errors.
 * All figures come from judge.c.
 */
#include "base/spw_monotonic.h"
#include "result/table.h"

#include <stdio.h>
#include <string.h>

#include "app_life.h"
#include "measure/coll.h"

#define ROW_EXTRA_MS 250u /* of a row beside the time that is measured */

void perf_size_text(uint64_t bytes, char out[PERF_SIZE_BYTES])
{
	static const char *const unit[] = {"B", "KiB", "MiB", "GiB"};
	uint32_t i = 0;

	for (; i < 3 && bytes >= 1024 && bytes % 1024 == 0; i++)
		bytes /= 1024;
	snprintf(out, PERF_SIZE_BYTES, "%llu %s", (unsigned long long)bytes, unit[i]);
}

/* Of TCP rows the streams are the rows of one table; of all others the sizes are. */
bool perf_same_table(const struct perf_case *a, const struct perf_case *b)
{
	bool tcp = a->op == PERF_TCP || a->op == PERF_BOND;

	return a->op == b->op && a->latency == b->latency && a->both == b->both &&
	       a->gpu == b->gpu && a->coll == b->coll && a->net == b->net && a->rails == b->rails &&
	       (tcp || a->streams == b->streams);
}

/* The same text stands in the JSON report, where it names a row's table. */
void perf_title(const struct perf_case *what, char *out, size_t bytes)
{
	size_t used = 0;

	if (what->op == PERF_TCP || what->op == PERF_BOND) {
		snprintf(out, bytes, "%s%s", perf_op_name(what->op),
			 what->latency ? " ping-pong, half of a round trip" : "");
		return;
	}
	if (what->op == PERF_COLL) {
		snprintf(out, bytes, "%s, %s%s: bus bandwidth", perf_coll_name(what->coll),
			 what->net == PERF_NET_ONE_SHOT ? "" : "NCCL over ",
			 perf_net_name(what->net));
		return;
	}
	if (what->op == PERF_EGRESS) {
		snprintf(out, bytes, "egress, from due to the NIC's stamp, rail %d",
			 __builtin_ctz(what->rails) + 1);
		return;
	}
	used = (size_t)snprintf(out, bytes, "%s%s%s, rail", what->gpu ? "GPU to GPU, " : "",
				perf_op_name(what->op),
				what->latency && what->op == PERF_READ ? " latency"
				: what->latency ? " latency, half of a round trip"
				: what->both    ? " both ways"
						: "");
	for (uint32_t i = 0; i < PERF_RAIL_MAX && used < bytes; i++)
		if (what->rails >> i & 1)
			used += (size_t)snprintf(out + used, bytes - used, "%s%u",
						 out[used - 1] == 'l' ? " " : "+", i + 1);
	if (what->streams > 1 && used < bytes)
		snprintf(out + used, bytes - used, ", %u queue pairs each", what->streams);
}

/* ---- head ---- */

/* Role, host, make, cores, kernel: what a reader needs to compare two tables. */
static void end_print(const char *role, const struct perf_end *end)
{
	printf("%-6s %s: %s, %u cores, Linux %s%s%s%s\n", role, end->host,
	       end->machine[0] ? end->machine : "a machine", end->cores, end->kernel,
	       end->gpu[0] ? ", " : "", end->gpu, end->software ? ", software ConnectX" : "");
}

/* Named, so that nobody looks for them among the rails. */
static void others_print(const struct perf_end *end)
{
	char text[PERF_TEXT_BYTES];

	for (uint32_t i = 0; i < end->other_cnt; i++) {
		perf_other_text(&end->other[i], text, sizeof(text));
		printf("note   %s: %s\n", end->host, text);
	}
}

/* The limit of each rail stands here, that of a set in the headings. */
void perf_table_head(const struct perf_session *s)
{
	char by[64];

	end_print("here", &s->own);
	end_print("there", &s->peer);
	for (uint32_t i = 0; i < s->rails.cnt; i++) {
		const struct perf_rail *rail = &s->rails.rail[i];
		double limit =
			perf_limit_mbps(&s->rails, &s->own, &s->peer, 1u << i, by, sizeof(by));

		printf("rail %u %s (%s) - %s (%s)", i + 1, rail->own->rdma, rail->own->ip,
		       rail->peer->rdma, rail->peer->ip);
		if (limit > 0)
			printf(": at most %.4g Gb/s, by its %s", limit / 1000, by);
		printf("%s\n", rail->one_card ? "; INVALID: both are functions of one card" : "");
	}
	for (uint32_t i = 0; i < s->rails.fault_cnt; i++)
		fprintf(stderr, PERF_PROGRAM ": error: %s\n", s->rails.fault[i]);
	others_print(&s->own);
	others_print(&s->peer);
	if (s->own.software || s->peer.software)
		printf("note   software devices: the figures are those of these cores and this "
		       "memory, not of a network\n");
	fflush(stdout);
}

/* ---- progress ---- */

/* What rows [from, to) take, in ms, beside what they wait for: set-up, warm-up, checks. */
static double rows_ms(const struct perf_plan *plan, uint32_t from, uint32_t to)
{
	double ms = 0;

	for (uint32_t i = from; i < to; i++)
		ms += plan->what[i].ms + ROW_EXTRA_MS;
	return ms;
}

/* The rest will take as much longer than planned as the rows that are done. Whole seconds: it is an
 * estimate. */
void perf_table_progress(const struct perf_plan *plan, uint32_t idx)
{
	static uint64_t begin_ns;
	double took_s, left_s = rows_ms(plan, idx, plan->cnt) * 1e-3;
	char title[128], size[PERF_SIZE_BYTES];

	if (idx == 0)
		begin_ns = spw_monotonic_ns();
	took_s = (double)(spw_monotonic_ns() - begin_ns) * 1e-9;
	if (idx)
		left_s *= took_s / (rows_ms(plan, 0, idx) * 1e-3);
	perf_title(&plan->what[idx], title, sizeof(title));
	perf_size_text(plan->what[idx].bytes, size);
	(idx ? app_life_step : app_life_phase)((uint64_t)(took_s + left_s + 1) * 1000000000u,
					       "row %u of %u: %s, %s", idx + 1, plan->cnt, title,
					       size);
}

/* ---- rows ---- */

/* The limit belongs to the rails, so it stands in the heading and not in each row. */
static void table_heading(const struct perf_session *s, const struct perf_result *r)
{
	struct perf_verdict v;
	char title[128];

	perf_judge(s, r, &v);
	perf_title(&r->what, title, sizeof(title));
	printf("\n%s", title);
	if (!r->what.latency && v.limit_gbps > 0)
		printf("; limit %.4g Gb/s: %s", v.limit_gbps, v.by);
	printf("%s%s\n", r->path[0] ? ", " : "", r->path);
	if (r->what.latency)
		printf("%10s %9s | %9s %9s %9s %9s %9s %9s %7s %9s  %s\n", "us", "closed p50",
		       "due every", "p50", "p90", "p99", "p99.9", "max", "lost", "CPU/msg",
		       "owners");
	else
		printf("%10s %10s %9s %12s %6s %11s %10s  %s\n",
		       r->what.op == PERF_TCP || r->what.op == PERF_BOND ? "streams" : "size",
		       "Gb/s", "GB/s", r->what.op == PERF_COLL ? "us each" : "messages/s", "limit",
		       "CPU ns/msg", "CPU ms/GB", "owners");
}

/* Microseconds; "-" where the samples are too few. */
static void point_print(const struct spw_hist_summary *sum, enum spw_hist_point point)
{
	if (sum->answer[point] == SPW_HIST_VALUE)
		printf(" %9.2f", (double)sum->value[point] / 1e3);
	else
		printf(" %9s", sum->answer[point] == SPW_HIST_LOST ? "lost" : "-");
}

/* The closed loop's median first, for those who know it from other tools. */
static void latency_print(const struct perf_result *r, const struct perf_verdict *v)
{
	static const enum spw_hist_point point[] = {SPW_HIST_POINT_p50, SPW_HIST_POINT_p90,
						    SPW_HIST_POINT_p99, SPW_HIST_POINT_p999,
						    SPW_HIST_POINT_max};

	point_print(&r->lat.closed, SPW_HIST_POINT_p50);
	printf("  | %9.1f", (double)r->lat.interval_ns / 1e3);
	for (size_t i = 0; i < SPW_ARRAY_CNT(point); i++)
		point_print(&r->lat.open, point[i]);
	printf(" %7llu %9.2f  %s", (unsigned long long)r->lat.lost, v->cpu_ns / 1e3, v->reference);
}

/* Of collectives the time of a call in place of calls a second. */
static void bandwidth_print(const struct perf_result *r, const struct perf_verdict *v)
{
	if (r->what.op == PERF_COLL && v->per_second > 0)
		printf(" %10.3f %9.3f %12.2f", v->gbps, v->gbps / 8, 1e6 / v->per_second);
	else
		printf(" %10.3f %9.3f %12.0f", v->gbps, v->gbps / 8, v->per_second);
	if (v->efficiency > 0)
		printf(" %4.0f %%", 100 * v->efficiency);
	else
		printf(" %6s", "-");
	printf(" %11.0f %10.1f  %s", v->cpu_ns, v->cpu_ms_gb, v->reference);
}

/* Whether an earlier row has this one's mark and reason. */
static bool is_repeated(const struct perf_rows *rows, uint32_t idx)
{
	const struct perf_result *r = &rows->result[idx];

	for (uint32_t i = 0; i < idx; i++)
		if (rows->result[i].valid == r->valid && !strcmp(rows->result[i].why, r->why))
			return true;
	return false;
}

/* The reason of a failure is printed once; the end says how many rows it cost. */
static bool is_hidden(const struct perf_rows *rows, uint32_t idx)
{
	return rows->result[idx].valid == PERF_FAILED && is_repeated(rows, idx);
}

/* A row whose failure is hidden prints nothing, so the heading waits for the first one that does.
 */
static bool begins_table(const struct perf_rows *rows, uint32_t idx)
{
	const struct perf_case *what = &rows->result[idx].what;

	while (idx-- > 0 && perf_same_table(&rows->result[idx].what, what))
		if (!is_hidden(rows, idx))
			return false;
	return true;
}

/* The progress line is taken away first: both may go to one terminal. */
void perf_table_row(const struct perf_session *s, const struct perf_rows *rows, uint32_t idx)
{
	const struct perf_result *r = &rows->result[idx];
	struct perf_verdict v;
	char size[PERF_SIZE_BYTES];

	app_life_clear();
	if (is_hidden(rows, idx))
		return;
	if (begins_table(rows, idx))
		table_heading(s, r);
	perf_judge(s, r, &v);
	if ((r->what.op == PERF_TCP || r->what.op == PERF_BOND) && !r->what.latency)
		snprintf(size, sizeof(size), "%u", r->what.streams);
	else
		perf_size_text(r->what.bytes, size);
	printf("%10s", size);
	if (r->valid == PERF_FAILED)
		printf("  FAILED: %s", r->why);
	else if (r->what.latency)
		latency_print(r, &v);
	else
		bandwidth_print(r, &v);
	if (r->valid == PERF_INVALID)
		printf("  INVALID: %s", r->why);
	printf("\n");
	fflush(stdout);
}

/* ---- end ---- */

/* The best row of each bandwidth table, in a word. */
static bool table_verdicts(const struct perf_session *s, const struct perf_rows *rows)
{
	bool below = false;

	for (uint32_t i = 0; i < rows->cnt;) {
		const struct perf_case *what = &rows->result[i].what;
		double best = 0;
		char title[128];

		for (; i < rows->cnt && perf_same_table(what, &rows->result[i].what); i++) {
			struct perf_verdict v;

			perf_judge(s, &rows->result[i], &v);
			if (rows->result[i].valid < PERF_INVALID)
				best = SPW_MAX(best, v.efficiency);
		}
		if (best <= 0)
			continue;
		perf_title(what, title, sizeof(title));
		printf("verdict %s: %.0f %% of its limit: %s\n", title, 100 * best,
		       perf_word(best));
		below |= best < 0.8 && what->op != PERF_TCP && what->op != PERF_BOND;
	}
	return below;
}

/* Of one end; the remedy on a line of its own, to be copied. */
static void table_findings(const struct perf_end *end)
{
	for (uint32_t i = 0; i < end->finding_cnt; i++) {
		printf("check  %s: %s: %s\n", end->host, end->finding[i].code,
		       end->finding[i].what);
		if (end->finding[i].todo[0])
			printf("       remedy: %s\n", end->finding[i].todo);
	}
}

/* Each reason for a mark once, with the number of its rows. */
void perf_table_reasons(const struct perf_rows *rows, enum perf_valid valid)
{
	for (uint32_t i = 0; i < rows->cnt; i++) {
		const struct perf_result *r = &rows->result[i];
		uint32_t cnt = 0;

		if (r->valid != valid || is_repeated(rows, i))
			continue;
		for (uint32_t k = i; k < rows->cnt; k++)
			cnt += rows->result[k].valid == valid &&
			       !strcmp(rows->result[k].why, r->why);
		printf("%s: %u of %u rows: %s\n", perf_valid_name(valid), cnt, rows->cnt, r->why);
	}
}

/* What kind of memory and pages the rows used: small pages explain a slow row. */
static void table_memory(const struct perf_session *s)
{
	const struct spw_region *region = &s->lane.region;

	if (region->bytes)
		printf("memory %s, %llu MiB in pages of %llu KiB\n",
		       spw_mem_kind_name(region->kind), (unsigned long long)(region->bytes >> 20),
		       (unsigned long long)(region->page_bytes >> 10));
}

/* The doctor's findings are printed only where a table is below its limit: they are where to look.
 */
void perf_table_end(const struct perf_session *s, const struct perf_rows *rows, const char *page)
{
	bool below;

	printf("\n");
	table_memory(s);
	below = table_verdicts(s, rows);
	if (below && (s->own.software || s->peer.software)) {
		printf("check  software devices: do these cores carry the enforced rate?\n");
	} else if (below) {
		table_findings(&s->own);
		table_findings(&s->peer);
		if (s->own.finding_cnt + s->peer.finding_cnt == 0)
			printf("check  the doctor finds nothing on either machine: look at cable "
			       "and switch, and at what else uses them\n");
	}
	perf_table_reasons(rows, PERF_UNVERIFIED);
	perf_table_reasons(rows, PERF_FAILED);
	if (page)
		printf("report %s\n", page);
}
