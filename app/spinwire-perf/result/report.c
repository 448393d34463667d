/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A run as JSON ("spinwire.perf/1", share/schema/perf.json) and as CSV.
 *
 * client.c writes both after the run; the HTML page is made from the JSON (local.c). Keys are a
 * promise to those who read them: they are added, not renamed. Text of either end passes
 * app_json_text, as it may hold bytes that are no UTF-8.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "app_file.h"
#include "app_text.h"
#include "base/spw_err.h"
#include "measure/coll.h"
#include "result/table.h"

/* The limit of each rail alone; that of a set stands with its rows. */
static json_t *rails_json(const struct perf_session *s)
{
	json_t *list = json_array();
	char by[64];

	for (uint32_t i = 0; i < s->rails.cnt; i++) {
		const struct perf_rail *rail = &s->rails.rail[i];
		double limit =
			perf_limit_mbps(&s->rails, &s->own, &s->peer, 1u << i, by, sizeof(by));

		json_array_append_new(
			list, json_pack("{s:s,s:s,s:s,s:s,s:f,s:o,s:b}", "own", rail->own->rdma,
					"own_address", rail->own->ip, "peer", rail->peer->rdma,
					"peer_address", rail->peer->ip, "limit_gbps", limit / 1000,
					"limit_by", app_json_text(by), "one_card", rail->one_card));
	}
	return list;
}

/* Functions that are no rail, with what to do: as on stderr. */
static json_t *faults_json(const struct perf_session *s)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < s->rails.fault_cnt; i++)
		json_array_append_new(list, app_json_text(s->rails.fault[i]));
	return list;
}

/* Percentiles without an answer are null; those among the lost are "lost". */
static json_t *summary_json(const struct spw_hist_summary *sum)
{
	json_t *out = json_pack("{s:I}", "count", (json_int_t)sum->count);
	char name[24];

	for (uint32_t i = 0; i < SPW_HIST_POINT_CNT; i++) {
		snprintf(name, sizeof(name), "%s_ns", spw_hist_point_name((enum spw_hist_point)i));
		json_object_set_new(out, name,
				    sum->answer[i] == SPW_HIST_VALUE
					    ? json_integer((json_int_t)sum->value[i])
				    : sum->answer[i] == SPW_HIST_LOST ? json_string("lost")
								      : json_null());
	}
	return out;
}

/* Both loops: the closed one is what other tools print. */
static json_t *report_latency_json(const struct perf_lat *lat)
{
	return json_pack("{s:I,s:I,s:I,s:o,s:o}", "interval_ns", (json_int_t)lat->interval_ns,
			 "intended", (json_int_t)lat->intended, "lost", (json_int_t)lat->lost,
			 "open", summary_json(&lat->open), "closed", summary_json(&lat->closed));
}

/* Rails in their order; empty for rows without lib/xfer. */
static json_t *carried_json(const struct perf_result *r)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < r->carried_cnt; i++)
		json_array_append_new(list,
				      json_pack("{s:o,s:I,s:I,s:I}", "device",
						app_json_text(r->carried[i].device), "bytes",
						(json_int_t)r->carried[i].bytes, "resent_chunks",
						(json_int_t)r->carried[i].resent_chunks, "outages",
						(json_int_t)r->carried[i].outages));
	return list;
}

/* Raw counts (own, peer) and derived figures (judge.h) both, so that a reader can check the second
 * by the first. */
static json_t *row_json(const struct perf_session *s, const struct perf_result *r)
{
	struct perf_verdict v;
	char title[128];
	json_t *row;

	perf_judge(s, r, &v);
	perf_title(&r->what, title, sizeof(title));
	row = json_pack("{s:s,s:o,s:s,s:o,s:o,s:o,s:f,s:f,s:f,s:f,s:f,s:f,s:o,s:o,s:o,s:o}",
			"table", title, "case", perf_case_json(&r->what), "valid",
			perf_valid_name(r->valid), "why", app_json_text(r->why), "own",
			perf_flow_json(&r->own), "peer", perf_flow_json(&r->peer), "gbps", v.gbps,
			"messages_per_s", v.per_second, "cpu_ns_per_message", v.cpu_ns,
			"cpu_ms_per_gb", v.cpu_ms_gb, "limit_gbps", v.limit_gbps, "efficiency",
			v.efficiency, "limit_by", app_json_text(v.by), "owners",
			app_json_text(v.reference), "method", app_json_text(r->path), "carried",
			carried_json(r));
	if (row && r->what.latency)
		json_object_set_new(row, "latency", report_latency_json(&r->lat));
	return row;
}

/* null: no row needed any. */
static json_t *memory_json(const struct perf_session *s)
{
	const struct spw_region *region = &s->lane.region;

	if (!region->bytes)
		return json_null();
	return json_pack("{s:s,s:o,s:I,s:I}", "kind", spw_mem_kind_name(region->kind), "why",
			 app_json_text(region->why), "bytes", (json_int_t)region->bytes,
			 "page_bytes", (json_int_t)region->page_bytes);
}

/* Owner: the caller. Facts of both ends are in it, so that a figure can be judged elsewhere. */
json_t *perf_report(const struct perf_session *s, const struct perf_rows *rows)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < rows->cnt; i++)
		json_array_append_new(list, row_json(s, &rows->result[i]));
	return json_pack("{s:s,s:s,s:o,s:o,s:o,s:o,s:o,s:o}", "schema", "spinwire.perf/1",
			 "version", SPW_VERSION, "here", perf_facts_json(&s->own), "there",
			 perf_facts_json(&s->peer), "rails", rails_json(s), "faults",
			 faults_json(s), "memory", memory_json(s), "rows", list);
}

/* ---- CSV ---- */

static void csv_point(FILE *file, const struct perf_result *r, enum spw_hist_point point)
{
	if (r->what.latency && r->lat.open.answer[point] == SPW_HIST_VALUE)
		fprintf(file, ",%llu", (unsigned long long)r->lat.open.value[point]);
	else
		fputc(',', file);
}

/* One line a row: the case's keys, then the row's; an unknown percentile is empty. */
static void csv_row(FILE *file, const struct perf_session *s, const struct perf_result *r)
{
	struct perf_verdict v;

	perf_judge(s, r, &v);
	fprintf(file, "%s,%d,%d,%d,%s,%s,%llu,%u,%u,%s,%.4f,%.1f,%.1f,%.2f,%.4f",
		perf_op_name(r->what.op), r->what.latency, r->what.both, r->what.gpu,
		perf_coll_name(r->what.coll), perf_net_name(r->what.net),
		(unsigned long long)r->what.bytes, r->what.rails, r->what.streams,
		perf_valid_name(r->valid), v.gbps, v.per_second, v.cpu_ns, v.cpu_ms_gb,
		v.efficiency);
	csv_point(file, r, SPW_HIST_POINT_p50);
	csv_point(file, r, SPW_HIST_POINT_p90);
	csv_point(file, r, SPW_HIST_POINT_p99);
	csv_point(file, r, SPW_HIST_POINT_p999);
	csv_point(file, r, SPW_HIST_POINT_max);
	fprintf(file, ",%llu\n", (unsigned long long)r->lat.lost);
}

/* The header line names every column, as the JSON does. */
int perf_csv(const struct perf_session *s, const struct perf_rows *rows, const char *path)
{
	char *text = NULL;
	size_t bytes;
	FILE *file = open_memstream(&text, &bytes);

	if (!file)
		return spw_err(ENOMEM, "--csv: no memory");
	fprintf(file, "op,latency,both,gpu,coll,net,bytes,rails_mask,streams,valid,gbps,"
		      "messages_per_s,cpu_ns_per_message,cpu_ms_per_gb,efficiency,p50_ns,p90_ns,"
		      "p99_ns,p999_ns,max_ns,lost\n");
	for (uint32_t i = 0; i < rows->cnt; i++)
		csv_row(file, s, &rows->result[i]);
	if (fclose(file)) {
		free(text);
		text = NULL;
	}
	return app_file_write("--csv", text, path);
}
