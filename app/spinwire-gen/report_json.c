/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The summary for programs: "schema": "spinwire.gen/1", described by share/schema/gen.json. main.c
 * calls it after the text. Keys are added, never renamed. Counters are integers of 63 bits; a
 * percentile beyond the samples is null, one among the lost frames "lost", as in the text.
 */
#include <stdio.h>

#include "app_json.h"
#include "app_loop.h"
#include "app_port.h"
#include "app_text.h"
#include "report.h"

#define FLOW_ROWS_MAX 1024u /* more flows are summed only */

/* The spectrum is the whole curve, for plots; the named points are what people compare. */
static json_t *points_json(const struct spw_hist_summary *sum, const struct spw_hist *hist,
			   uint64_t lost_cnt)
{
	struct spw_hist_step step[SPW_HIST_SPECTRUM_MAX];
	uint32_t step_cnt = spw_hist_spectrum(hist, lost_cnt, step);
	json_t *out = json_pack("{s:I}", "count", (json_int_t)sum->count), *steps = json_array();

	for (int p = 0; p < SPW_HIST_POINT_CNT; p++) {
		char key[24];

		snprintf(key, sizeof(key), "%s_ns", spw_hist_point_name((enum spw_hist_point)p));
		if (sum->answer[p] == SPW_HIST_VALUE)
			json_object_set_new(out, key, app_json_number(sum->value[p]));
		else
			json_object_set_new(out, key,
					    sum->answer[p] == SPW_HIST_LOST ? json_string("lost")
									    : json_null());
	}
	for (uint32_t i = 0; i < step_cnt; i++)
		json_array_append_new(
			steps, json_pack("[f,I]", step[i].percentile, (json_int_t)step[i].value));
	json_object_set_new(out, "spectrum", steps);
	return out;
}

/* Each flow by number, up to FLOW_ROWS_MAX of them. */
static json_t *flows_json(const struct gen_sum *sum)
{
	json_t *rows = json_array();

	for (uint32_t f = 0; f < SPW_MIN(sum->flow_cnt, FLOW_ROWS_MAX); f++) {
		const struct gen_flow_sum *flow = &sum->flow[f];

		json_array_append_new(rows, json_pack("{s:i,s:I,s:I,s:I,s:I,s:I,s:I}", "flow",
						      (int)f, "sent", (json_int_t)flow->sent,
						      "echoed", (json_int_t)flow->echoed, "lost",
						      (json_int_t)flow->lost, "duplicated",
						      (json_int_t)flow->duplicated, "reordered",
						      (json_int_t)flow->reordered, "corrupted",
						      (json_int_t)flow->corrupted));
	}
	return rows;
}

/* The distribution, and by what the loop did how often it took longer than a step does. */
static json_t *gap_json(const struct spw_hist_summary *sum, const struct gen_gap *gap)
{
	json_t *out = points_json(sum, &gap->by_time_ns, 0), *rows = json_object();

	for (int d = 0; d < GEN_DOING_CNT; d++)
		json_object_set_new(rows, gen_doing_name((enum gen_doing)d),
				    json_pack("{s:I,s:I}", "count", (json_int_t)gap->longer[d].cnt,
					      "max_ns", (json_int_t)gap->longer[d].worst_ns));
	json_object_set_new(out, "above_1us", rows);
	return out;
}

/* Which frames were lost: [[flow, first, last], ...], and whether that is all of them. */
static json_t *missing_json(const struct gen_sum *sum)
{
	json_t *ranges = json_array();

	for (uint32_t i = 0; i < sum->missing_cnt; i++)
		json_array_append_new(ranges, json_pack("[I,I,I]", (json_int_t)sum->missing[i].flow,
							(json_int_t)sum->missing[i].first,
							(json_int_t)sum->missing[i].last));
	return json_pack("{s:b,s:o}", "whole", sum->missing_whole, "ranges", ranges);
}

/* Lost and unsent frames have a cause and no time. */
static json_t *causes_json(const struct gen_slow *slow)
{
	json_t *by = json_array();

	for (int c = 0; c < GEN_CAUSE_CNT; c++)
		if (slow->by[c].frames)
			json_array_append_new(
				by, json_pack("{s:s,s:I,s:o}", "cause",
					      gen_cause_name((enum gen_cause)c), "frames",
					      (json_int_t)slow->by[c].frames, "max_ns",
					      slow->by[c].worst_ns
						      ? app_json_number(slow->by[c].worst_ns)
						      : json_null()));
	return json_pack("{s:I,s:I,s:o}", "threshold_ns", (json_int_t)slow->threshold_ns,
			 "frames_above", (json_int_t)gen_slow_above(slow), "by", by);
}

/* Stamps are ticks, so that they compare with those of a spinwire on the same machine. */
static json_t *worst_json(const struct gen_slow *slow)
{
	json_t *rows = json_array();

	for (uint32_t i = 0; i < slow->worst_cnt; i++) {
		const struct gen_worst *w = &slow->worst[i];

		json_array_append_new(
			rows,
			json_pack("{s:I,s:I,s:I,s:I,s:o,s:I,s:I,s:s,s:I}", "flow",
				  (json_int_t)w->flow, "seq", (json_int_t)w->seq, "whole_ns",
				  (json_int_t)w->whole_ns, "due_tsc", (json_int_t)w->intended_tsc,
				  "taken_tsc", app_json_known(w->sent_tsc, w->sent_tsc), "echo_tsc",
				  (json_int_t)w->echo_tsc, "drained_tsc",
				  (json_int_t)w->drained_tsc, "cause", gen_cause_name(w->cause),
				  "like", (json_int_t)w->like));
	}
	return rows;
}

/* Names and values side by side, so that a counter is added in one line. */
static void report_counts_set(json_t *top, const struct gen_sum *sum, const struct gen_report *what)
{
	const struct {
		const char *name;
		uint64_t value;
	} row[] = {
		{"intended", sum->intended},
		{"sent", sum->count.sent_frames},
		{"tx_flushed", gen_report_flushed(sum, what)},
		{"unsent", sum->unsent},
		{"echoed", sum->count.echoed_frames},
		{"lost", sum->lost},
		{"duplicated", sum->duplicated},
		{"reordered", sum->reordered},
		{"corrupted", sum->count.corrupted},
		{"foreign", sum->count.foreign},
		{"old_run", sum->count.old_run},
		{"bad_flow", sum->count.bad_flow},
		{"sent_bytes", sum->count.sent_bytes},
		{"link_downs", sum->count.link_downs},
	};

	for (size_t i = 0; i < SPW_ARRAY_CNT(row); i++)
		json_object_set_new(top, row[i].name, app_json_number(row[i].value));
}

/* Percentiles count lost and unsent frames as infinitely late: they were intended, and did not
 * come. */
static json_t *gen_summary_json(const struct gen_sum *sum, const struct gen_report *what)
{
	json_t *top = json_pack(
		"{s:s,s:s,s:o,s:I,s:o,s:f,s:f,s:i,s:i,s:{s:s,s:f,s:o,s:I}}", "schema",
		"spinwire.gen/1", "version", SPW_VERSION, "host", app_json_host(what->tsc_hz),
		"tsc_hz", (json_int_t)what->tsc_hz, "port", app_json_text(what->port), "seconds",
		(double)sum->ran_ns * 1e-9, "warm_up_seconds", (double)what->warm_up_ns * 1e-9,
		"run", (int)what->run, "senders", (int)what->sender_cnt, "schedule", "distribution",
		what->distribution, "rate_fps", what->rate_fps, "text",
		app_json_text(what->schedule), "seed", (json_int_t)what->seed);

	if (!top)
		return NULL;
	report_counts_set(top, sum, what);
	json_object_set_new(top, "round_trip",
			    points_json(&sum->round_trip, &sum->round_trip_ns,
					sum->expect_echo ? sum->unsent + sum->lost : 0));
	json_object_set_new(top, "schedule_error",
			    points_json(&sum->schedule, &sum->late_ns, sum->unsent));
	json_object_set_new(top, "loop_gap", gap_json(&sum->loop_gap, &sum->gap));
	json_object_set_new(top, "core_alone", gap_json(&sum->core_alone, &sum->alone));
	json_object_set_new(top, "causes", causes_json(&sum->slow));
	json_object_set_new(top, "worst", worst_json(&sum->slow));
	json_object_set_new(top, "missing", missing_json(sum));
	json_object_set_new(top, "flows", flows_json(sum));
	json_object_set_new(top, "ports",
			    json_pack("[o]", app_port_json(what->opened, &what->stat)));
	return top;
}

/* Released by app_json_write, also after an error. */
int gen_report_json(const struct gen_sum *sum, const struct gen_report *what, const char *path)
{
	return app_json_write("--json", gen_summary_json(sum, what), path);
}
