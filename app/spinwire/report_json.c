/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The summary for programs: one JSON object, "schema": "spinwire.summary/1". A value that is
 * unknown, or a percentile finer than the samples allow, is null. share/schema/summary.json
 * describes every key.
 *
 * Everything is packed from struct app_result, so no number is computed here. Unsigned counters are
 * stored as JSON integers of 63 bits; names that may hold any byte pass app_json_text.
 *
 * A new field is one of struct app_result (app.h), filled by result.c, packed here and described by
 * the schema; the tables of report_text.c and telemetry.c print the same result. Ledger:
 * report_ledger.c; causes, worst frames, held up: report_slow.c; ports: app_port.c; host:
 * app_host.c. replay.c packs a summary of its own from the same parts.
 */
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "app.h"
#include "app_json.h"
#include "app_port.h"
#include "app_text.h"
#include "report_slow.h"

/* Index by index: ports of the topology and their counters are in the same order. */
static json_t *summary_ports_json(const struct app *app, const struct app_result *res)
{
	json_t *ports = json_array();

	for (uint32_t p = 0; p < app->topo.port_cnt; p++)
		json_array_append_new(ports, app_port_json(app->topo.port[p], &res->topo.port[p]));
	return ports;
}

/* "cuda-persistent" is kind cuda, mode persistent; inline has mode lcore, cpu has mode thread. */
static json_t *summary_executor_json(const struct app *app, const struct app_result *res)
{
	const struct spw_topo_backend *backend = &app->topo.backend[0];
	const char *name = spw_exec_kind_name(backend->kind), *dash = strchr(name, '-');
	const char *mode = dash ? dash + 1 : backend->kind == SPW_EXEC_INLINE ? "lcore" : "thread";
	char names[256];

	return json_pack(
		"{s:s#,s:s,s:o,s:o,s:o,s:o,s:I,s:I}", "kind", name,
		dash ? (int)(dash - name) : (int)strlen(name), "mode", mode, "why",
		app_json_text(app->exec_why), "ctas", app_json_known(backend->ctas, backend->ctas),
		"device", app_json_text(res->topo.exec.device), "handler",
		app_json_text(app_handlers_names(app, names, sizeof(names))), "batches",
		(json_int_t)res->topo.exec.batches, "frames", (json_int_t)res->topo.exec.frames);
}

/* The percentile curve of a stage, for tools/lib/spwreport. */
static json_t *summary_spectrum_json(const struct app *app, const struct app_result *res, int stage)
{
	json_t *steps = json_array();

	for (uint32_t i = 0; i < res->spectrum_cnt[stage]; i++) {
		const struct spw_hist_step *step = &res->spectrum[stage][i];

		json_array_append_new(steps,
				      json_pack("[f,I]", step->percentile,
						(json_int_t)spw_tsc_to_ns(&app->tsc, step->value)));
	}
	return steps;
}

/* Stages without a frame are left out. */
static json_t *summary_latency_json(const struct app *app, const struct app_result *res)
{
	json_t *rows = json_array();

	for (int s = 0; s < SPW_STAGE_CNT; s++) {
		const struct spw_rec_row *row = &res->latency[s];
		json_t *out;

		if (!row->count)
			continue;
		out = json_pack("{s:s,s:I}", "stage", row->stage, "count", (json_int_t)row->count);
		for (int p = 0; p < SPW_HIST_POINT_CNT; p++) {
			char key[24];

			snprintf(key, sizeof(key), "%s_ns",
				 spw_hist_point_name((enum spw_hist_point)p));
			json_object_set_new(out, key,
					    row->answer[p] == SPW_HIST_VALUE
						    ? app_json_number(row->value_ns[p])
						    : json_null());
		}
		json_object_set_new(out, "uncertainty_ns", app_json_number(row->uncertainty_ns));
		json_object_set_new(out, "defects", app_json_number(row->defects));
		json_object_set_new(out, "spectrum", summary_spectrum_json(app, res, s));
		json_array_append_new(rows, out);
	}
	return rows;
}

static json_t *summary_regimes_json(const struct app_result *res)
{
	json_t *regimes = json_object();

	for (int r = 0; r < SPW_REGIME_CNT; r++)
		json_object_set_new(regimes, spw_regime_name((enum spw_regime)r),
				    json_real(res->regime_share[r]));
	return regimes;
}

/* One call of json_pack: a part without memory makes the whole NULL, and app_json_write reports
 * it. */
static json_t *summary_whole_json(const struct app *app, const struct app_result *res)
{
	return json_pack(
		"{s:s,s:s,s:o,s:f,s:o,s:o,s:o,s:{s:I,s:I,s:I},s:{s:s,s:o,s:I,s:I,s:I},s:o,s:o,s:f,"
		"s:I,s:o,s:o,s:o,s:o,s:o,s:o,s:o}",
		"schema", "spinwire.summary/1", "version", SPW_VERSION, "host",
		app_json_host(app->tsc.hz), "seconds", res->seconds, "ports",
		summary_ports_json(app, res), "executor", summary_executor_json(app, res), "ledger",
		app_ledger_json(res), "pool", "slots", (json_int_t)res->topo.ledger.pool_slots,
		"free", (json_int_t)res->topo.ledger.pool_free, "leaked",
		(json_int_t)res->topo.sum.leaked, "memory", "kind",
		spw_mem_kind_name(app->topo.region[0].kind), "why",
		app_json_text(app->topo.region[0].why), "h2d_copies",
		(json_int_t)res->topo.exec.h2d_copies, "port_copies",
		(json_int_t)res->topo.port_copies, "flushes", (json_int_t)res->topo.exec.flushes,
		"latency", summary_latency_json(app, res), "regimes", summary_regimes_json(res),
		"cycles_per_frame", res->cycles_per_frame, "tsc_hz", (json_int_t)app->tsc.hz,
		"causes", app_causes_json(app, res), "worst", app_worst_json(app, res), "held",
		app_held_json(app, res), "who", app_who_json(app), "litmus", app_litmus_json(app),
		"slo", app_slo_json(app), "handlers", app_handlers_json(app));
}

/* Only where a capture was asked for: its key is absent otherwise. */
static json_t *summary_capture_json(const struct app *app)
{
	struct spw_capture_stat stat;

	spw_capture_stat(app->capture, &stat);
	return json_pack("{s:o,s:I,s:I,s:{s:I,s:I,s:I}}", "file",
			 app_json_text(app->conf.run.capture), "bytes", (json_int_t)stat.bytes,
			 "frames", (json_int_t)stat.frames, "not_captured", "ring_full",
			 (json_int_t)stat.ring_full, "limit", (json_int_t)stat.limited, "disk",
			 (json_int_t)stat.disk);
}

/* One object, written whole (app_json_write). */
int app_report_json(const struct app *app, const struct app_result *result, const char *path)
{
	json_t *top = summary_whole_json(app, result);

	if (top && app->capture)
		json_object_set_new(top, "capture", summary_capture_json(app));
	if (top && result->topo.ledger.fate.cnt)
		json_object_set_new(top, "objects", app_objects_json(app));
	return app_json_write("--json", top, path);
}
