/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Slow objects in summary and receipts: how many of each cause, the longest with their ways, and
 * how long all took from first frame to publication. Called by objects.c.
 *
 * lib/pipe has judged each object by the time its receipt is here (struct spw_pipe_receipt); this
 * file only writes. Ticks become nanoseconds here and nowhere before, so parts sum to the whole up
 * to their rounding. Fields are those of share/schema; add one there, too.
 */
#include <inttypes.h>
#include <stdio.h>

#include "app_brief.h"
#include "app_json.h"
#include "objects_slow.h"

static const struct spw_enum_word part_word[] = {SPW_ENUM_WORDS(SPW_OBJ_PART)};

/* JSON's integers are signed; ticks of a run are far below their limit. */
static json_int_t way_ns(const struct app *app, uint64_t ticks)
{
	return (json_int_t)spw_tsc_to_ns(&app->tsc, ticks);
}

/* Causes that took no time are left out, so that the ones that did are easily found. */
static json_t *way_blame_json(const struct app *app, const uint64_t *ticks)
{
	json_t *blame = json_object();

	for (int c = 0; c < SPW_OBJ_SLOW_CNT; c++)
		if (ticks[c])
			json_object_set_new(blame, spw_obj_slow_name((enum spw_obj_slow)c),
					    json_integer(way_ns(app, ticks[c])));
	return blame;
}

/* The parts of its way that took time, in order; they sum to the whole. */
static json_t *way_parts_json(const struct app *app, const struct spw_obj_facts *facts)
{
	json_t *parts = json_array();

	for (int p = 0; p < SPW_OBJ_PART_CNT; p++) {
		uint64_t ticks[SPW_OBJ_SLOW_CNT] = {0};

		if (facts->edge[p] == facts->edge[p + 1])
			continue;
		spw_obj_slow_split_part(facts, (enum spw_obj_part)p, ticks);
		json_array_append_new(parts,
				      json_pack("{s:s,s:I,s:o}", "part", part_word[p].name, "ns",
						way_ns(app, facts->edge[p + 1] - facts->edge[p]),
						"blame_ns", way_blame_json(app, ticks)));
	}
	return parts;
}

/* Null rather than zeros: of an object that was not judged nothing is known beside its receipt. */
json_t *app_object_way_json(const struct app *app, const struct spw_pipe_receipt *r)
{
	if (!r->judged)
		return json_null();
	return json_pack("{s:b,s:s,s:I,s:I,s:o,s:o}", "slow", r->slow, "cause",
			 spw_obj_slow_name(r->why), "first_ns", way_ns(app, r->facts.edge[0]),
			 "whole_ns", way_ns(app, spw_pipe_receipt_whole(r)), "blame_ns",
			 way_blame_json(app, r->ticks), "parts", way_parts_json(app, &r->facts));
}

/* Each has one cause, so their sum is their number. */
static uint64_t way_objects(const struct spw_pipe_objects_slow *s)
{
	uint64_t sum = 0;

	for (int c = 0; c < SPW_OBJ_SLOW_CNT; c++)
		sum += s->objects[c];
	return sum;
}

/* A cause without an object may have time: of objects whose largest part was another's. */
json_t *app_objects_slow_json(const struct app *app, const struct spw_topo_lane *lane)
{
	const struct spw_pipe_objects_slow *s = spw_pipe_objects_slow(&lane->pipe);
	json_t *by = json_array(), *worst = json_array();

	for (int c = 0; c < SPW_OBJ_SLOW_CNT; c++)
		if (s->objects[c] || s->ticks[c])
			json_array_append_new(by,
					      json_pack("{s:s,s:I,s:I,s:I}", "cause",
							spw_obj_slow_name((enum spw_obj_slow)c),
							"objects", (json_int_t)s->objects[c], "ns",
							way_ns(app, s->ticks[c]), "max_ns",
							way_ns(app, s->worst_tsc[c])));
	for (uint32_t i = 0; i < s->worst_cnt; i++)
		json_array_append_new(
			worst,
			json_pack("{s:I,s:I,s:s,s:s,s:o}", "id", (json_int_t)s->worst[i].receipt.id,
				  "generation", (json_int_t)s->worst[i].receipt.generation, "state",
				  app_objects_state_name((int)s->worst[i].receipt.state), "cause",
				  app_objects_cause_name((int)s->worst[i].receipt.cause), "way",
				  app_object_way_json(app, &s->worst[i])));
	return json_pack("{s:I,s:I,s:o,s:o}", "threshold_ns", way_ns(app, s->limit_tsc), "objects",
			 (json_int_t)way_objects(s), "by", by, "worst", worst);
}

/* Points and curve of the time from first frame to publication. */
json_t *app_objects_latency_json(const struct app *app, const struct spw_topo_lane *lane)
{
	const struct spw_hist *hist = &spw_pipe_objects_slow(&lane->pipe)->latency;
	struct spw_hist_step step[SPW_HIST_SPECTRUM_MAX];
	const uint32_t step_cnt = spw_hist_spectrum(hist, 0, step);
	json_t *out = json_object(), *steps = json_array();
	struct spw_hist_summary sum;

	spw_hist_summary(hist, 0, &sum);
	json_object_set_new(out, "count", app_json_number(sum.count));
	for (int p = 0; p < SPW_HIST_POINT_CNT; p++) {
		char key[24];

		snprintf(key, sizeof(key), "%s_ns", spw_hist_point_name((enum spw_hist_point)p));
		json_object_set_new(out, key,
				    app_json_known(sum.answer[p] == SPW_HIST_VALUE,
						   spw_tsc_to_ns(&app->tsc, sum.value[p])));
	}
	for (uint32_t i = 0; i < step_cnt; i++)
		json_array_append_new(
			steps, json_pack("[f,I]", step[i].percentile, way_ns(app, step[i].value)));
	json_object_set_new(out, "spectrum", steps);
	return out;
}

/* Brief: only slow ones. */
void app_objects_slow_print(const struct app *app, const struct spw_topo_lane *lane, bool brief)
{
	const struct spw_pipe_objects_slow *s = spw_pipe_objects_slow(&lane->pipe);
	char limit[APP_BRIEF_TIME_BYTES];
	struct spw_hist_summary sum;
	const char *comma = "";

	spw_hist_summary(&s->latency, 0, &sum);
	for (int p = 0; p < SPW_HIST_POINT_CNT; p++)
		sum.value[p] = spw_tsc_to_ns(&app->tsc, sum.value[p]);
	if (!brief && sum.count)
		app_brief_points("", sum.value, sum.answer,
				 "of an object, first frame to publication");
	if (!way_objects(s))
		return;
	printf("  slow      %" PRIu64 " shed or longer than %s: ", way_objects(s),
	       app_brief_time(spw_tsc_to_ns(&app->tsc, s->limit_tsc), limit));
	for (int c = 0; c < SPW_OBJ_SLOW_CNT; c++) {
		if (!s->objects[c])
			continue;
		printf("%s%s %" PRIu64, comma, spw_obj_slow_name((enum spw_obj_slow)c),
		       s->objects[c]);
		comma = ", ";
	}
	printf("\n");
}
