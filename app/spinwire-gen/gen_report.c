/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "app_json.h"
#include "gen_report.h"

#define FLOW_ROWS_MAX 1024u /* of the JSON; more flows are summed only */

struct totals {
	uint64_t unsent, lost, duplicated, reordered, late;
	struct spw_hist_summary round_trip, schedule;
};

static uint64_t flow_sent(const struct gen_run *run, uint32_t flow)
{
	uint64_t seq = run->next_seq[flow];

	/* made but never taken by the port: the line's rest */
	for (uint32_t i = 0; i < run->line_cnt; i++)
		seq -= run->line_flow[run->line_first + i] == flow;
	return seq;
}

static void sum_up(const struct gen_run *run, const struct gen_report *what, struct totals *t)
{
	memset(t, 0, sizeof(*t));
	for (uint32_t f = 0; f < run->track.flow_cnt; f++) {
		t->duplicated += run->track.flow[f].duplicated;
		t->reordered += run->track.flow[f].reordered;
		t->late += run->track.flow[f].late;
	}
	t->unsent = run->intended_frames - run->count.sent_frames;
	t->lost = what->expect_echo ? run->count.sent_frames - run->count.echoed_frames : 0;
	spw_hist_summary(&run->round_trip_ns, what->expect_echo ? t->unsent + t->lost : 0, &t->round_trip);
	spw_hist_summary(&run->late_ns, t->unsent, &t->schedule);
}

/* ---- for people ------------------------------------------------------------------------------------ */

static void print_points(const char *name, const struct spw_hist_summary *sum)
{
	printf("  %-16s", name);
	for (int p = 0; p < SPW_HIST_POINT_CNT; p++) {
		if (sum->answer[p] == SPW_HIST_VALUE)
			printf(" %11.2f", (double)sum->value[p] / 1000.0);
		else
			printf(" %11s", sum->answer[p] == SPW_HIST_LOST ? "lost" : "-");
	}
	putchar('\n');
}

static void print_head(void)
{
	printf("\n  %-16s", "microseconds");
	for (int p = 0; p < SPW_HIST_POINT_CNT; p++)
		printf(" %11s", spw_hist_point_name((enum spw_hist_point)p));
	putchar('\n');
}

/* A path that does not carry the plan is said, not left to be found. */
static void print_shortfall(const struct gen_run *run, const struct totals *t)
{
	double seconds = (double)run->ran_ns * 1e-9;

	if (run->link_wait_ns && !run->link_seen)
		printf("  the link did not come up within %.1f s; the plan ran all the same\n", (double)run->link_wait_ns * 1e-9);
	if (t->unsent == 0)
		return;
	printf("  the path did not carry the plan: %.0f of %.0f frames/s were sent; refused by the port in %" PRIu64
	       " turns, no empty slot in %" PRIu64 "\n", (double)run->count.sent_frames / seconds,
	       (double)run->intended_frames / seconds, run->count.tx_refused, run->count.no_slot);
}

void gen_report_text(const struct gen_run *run, const struct gen_report *what)
{
	struct totals t;

	sum_up(run, what, &t);
	printf("\nsource %s: %s, seed %" PRIu64 ", %.3f s\n", what->port, what->schedule, what->seed,
	       (double)run->ran_ns * 1e-9);
	printf("  intended %" PRIu64 " = sent %" PRIu64 " + unsent %" PRIu64 "\n", run->intended_frames,
	       run->count.sent_frames, t.unsent);
	if (what->expect_echo)
		printf("  sent %" PRIu64 " = echoed %" PRIu64 " + lost %" PRIu64 "; duplicated %" PRIu64 ", reordered %" PRIu64
		       ", corrupted %" PRIu64 "\n", run->count.sent_frames, run->count.echoed_frames, t.lost,
		       t.duplicated, t.reordered, run->count.corrupted);
	if (run->count.foreign || run->count.old_run || run->count.bad_flow)
		printf("  not of this run: foreign %" PRIu64 ", older run %" PRIu64 ", unknown flow %" PRIu64 "\n",
		       run->count.foreign, run->count.old_run, run->count.bad_flow);
	print_shortfall(run, &t);
	print_head();
	if (what->expect_echo)
		print_points("round trip", &t.round_trip);
	print_points("schedule error", &t.schedule);
}

/* ---- for programs ---------------------------------------------------------------------------------- */

static json_t *number(uint64_t v)
{
	return json_integer((json_int_t)v);
}

static json_t *points_json(const struct spw_hist_summary *sum)
{
	json_t *out = json_pack("{s:I}", "count", (json_int_t)sum->count);

	for (int p = 0; p < SPW_HIST_POINT_CNT; p++) {
		char key[24];

		snprintf(key, sizeof(key), "%s_ns", spw_hist_point_name((enum spw_hist_point)p));
		if (sum->answer[p] == SPW_HIST_VALUE)
			json_object_set_new(out, key, number(sum->value[p]));
		else
			json_object_set_new(out, key, sum->answer[p] == SPW_HIST_LOST ? json_string("lost") : json_null());
	}
	return out;
}

static json_t *flows_json(const struct gen_run *run, const struct gen_report *what)
{
	json_t *rows = json_array();

	for (uint32_t f = 0; f < SPW_MIN(run->track.flow_cnt, FLOW_ROWS_MAX); f++) {
		const struct gen_flow *flow = &run->track.flow[f];
		uint64_t sent = flow_sent(run, f), echoed = flow->unique + flow->late;

		json_array_append_new(rows, json_pack("{s:i,s:I,s:I,s:I,s:I,s:I,s:I}", "flow", (int)f, "sent",
						      (json_int_t)sent, "echoed", (json_int_t)echoed, "lost",
						      (json_int_t)(what->expect_echo ? sent - echoed : 0), "duplicated",
						      (json_int_t)flow->duplicated, "reordered",
						      (json_int_t)flow->reordered, "corrupted",
						      (json_int_t)flow->corrupted));
	}
	return rows;
}

static json_t *summary(const struct gen_run *run, const struct gen_report *what, const struct totals *t)
{
	return json_pack("{s:s,s:s,s:s,s:f,s:i,s:{s:s,s:f,s:s,s:I},s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:o,s:o,s:o}",
			 "schema", "spinwire.gen/1", "version", SPW_VERSION, "port", what->port, "seconds",
			 (double)run->ran_ns * 1e-9, "run", (int)what->run, "schedule", "distribution",
			 what->distribution, "rate_fps", what->rate_fps, "text", what->schedule, "seed",
			 (json_int_t)what->seed, "intended", (json_int_t)run->intended_frames, "sent",
			 (json_int_t)run->count.sent_frames, "unsent", (json_int_t)t->unsent, "echoed",
			 (json_int_t)run->count.echoed_frames, "lost", (json_int_t)t->lost, "duplicated",
			 (json_int_t)t->duplicated, "reordered", (json_int_t)t->reordered, "corrupted",
			 (json_int_t)run->count.corrupted, "foreign", (json_int_t)run->count.foreign, "old_run",
			 (json_int_t)run->count.old_run, "sent_bytes", (json_int_t)run->count.sent_bytes, "round_trip",
			 points_json(&t->round_trip), "schedule_error", points_json(&t->schedule), "flows",
			 flows_json(run, what));
}

int gen_report_json(const struct gen_run *run, const struct gen_report *what, const char *path)
{
	struct totals t;

	sum_up(run, what, &t);
	return app_json_write(summary(run, what, &t), path);
}
