/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The objects of a run: descriptions of ports, receipts as JSON lines (--receipts), what the
 * summary says of them. Called by the files of app.h; lib/topo owns the streams.
 *
 *   conf.port[].objects ─load─► app->objects[] ─► topo_conf.port[].objects
 *   every ms      receipts of all lanes ─► a line each
 *   every 20 ms   consumers that ended
 */
#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "app.h"
#include "app_brief.h"
#include "app_json.h"
#include "app_text.h"
#include "base/spw_err.h"
#include "base/spw_file.h"
#include "objects_slow.h"

#define CONSUMER_TURNS 20u /* of the control loop, between two looks at consumers */

static const char *const fate_name[] = {
#define X(prefix, name, text) #name,
	SPW_OBJ_FATE_LIST(X, )
#undef X
};
static const struct spw_enum_word state_word[] = {SPW_ENUM_WORDS(SPW_OBJ_STATE)};
static const struct spw_enum_word cause_word[] = {SPW_ENUM_WORDS(SPW_OBJ_CAUSE)};

const char *app_objects_state_name(int state)
{
	return SPW_ENUM_NAME(state_word, state);
}

const char *app_objects_cause_name(int cause)
{
	return SPW_ENUM_NAME(cause_word, cause);
}

/* ---- descriptions ---- */

/* A path that the file of --config names is looked for beside that file, then here. */
static void objects_path(const struct spw_conf *conf, const char *named, char *out, size_t bytes)
{
	char file[sizeof(conf->file)];

	snprintf(file, sizeof(file), "%s", conf->file);
	snprintf(out, bytes, "%s/%s", dirname(file), named);
	if (named[0] == '/' || conf->ports_by_option || access(out, F_OK))
		snprintf(out, bytes, "%s", named);
}

/* Before any port is opened, so that a fault in a description costs no start. The absolute paths
 * are for telemetry: consumers, which run in other folders, find a stream by them (lib/tensor). */
int app_objects_load(struct app *app)
{
	int rc = 0;

	app->conf_file = app->conf.file[0] ? realpath(app->conf.file, NULL) : NULL;
	for (uint32_t p = 0; p < app->conf.port_cnt && rc == 0; p++) {
		const char *named = app->conf.port[p].objects;
		char path[2 * sizeof(app->conf.file)];

		if (!named[0])
			continue;
		objects_path(&app->conf, named, path, sizeof(path));
		app->objects[p] = malloc(sizeof(*app->objects[p]));
		if (!app->objects[p])
			return spw_err(ENOMEM, "--objects %s: no memory", named);
		rc = spw_obj_desc_load(path, app->objects[p]);
		app->object_files[p] = realpath(path, NULL);
	}
	return rc ? spw_err_ctx(rc, "--objects") : 0;
}

void app_objects_close(struct app *app)
{
	for (uint32_t p = 0; p < SPW_PORT_MAX; p++) {
		free(app->objects[p]);
		free(app->object_files[p]);
	}
	free(app->conf_file);
}

/* ---- receipts ---- */

/* Opened at the start, so that a path that cannot be written is reported before the run. */
int app_receipts_open(struct app *app)
{
	int fd, rc;

	if (!app->conf.run.receipts[0])
		return 0;
	rc = spw_file_create(app->conf.run.receipts, &fd);
	if (rc)
		return spw_err_ctx(-EIO, "--receipts");
	app->receipts = fdopen(fd, "w");
	if (app->receipts)
		return 0;
	close(fd);
	return spw_err(ENOMEM, "--receipts: no memory");
}

static json_t *receipt_ranges_json(const struct spw_obj_receipt *r)
{
	json_t *ranges = json_array();

	for (uint32_t i = 0; i < r->range_cnt; i++)
		json_array_append_new(ranges, json_pack("[I,I]", (json_int_t)r->range[i].from,
							(json_int_t)r->range[i].to));
	return ranges;
}

/* Times are ns since the CPU's counter began, as the NIC stamps that were translated. */
static json_t *receipt_json(const struct app *app, const struct spw_topo_lane *lane,
			    const struct spw_pipe_receipt *one)
{
	const struct spw_obj_receipt *r = &one->receipt;
	const struct spw_tsc *tsc = &app->tsc;

	return json_pack(
		"{s:s,s:o,s:I,s:I,s:s,s:s,s:{s:I,s:I,s:I,s:I,s:I},s:{s:I,s:I,s:I,s:I},s:o,s:I,s:o,"
		"s:o,s:I,s:I,s:I,s:o,s:o}",
		"schema", "spinwire.object/1", "stream", app_json_text(lane->stream.page->name),
		"id", (json_int_t)r->id, "generation", (json_int_t)r->generation, "state",
		SPW_ENUM_NAME(state_word, r->state), "cause", SPW_ENUM_NAME(cause_word, r->cause),
		"packets", "present", (json_int_t)r->packets_present, "duplicate",
		(json_int_t)r->packets_duplicate, "late", (json_int_t)r->packets_late, "shed",
		(json_int_t)r->packets_shed, "bad", (json_int_t)r->packets_bad, "bytes", "due",
		(json_int_t)r->bytes_due, "present", (json_int_t)r->bytes_present, "duplicate",
		(json_int_t)r->bytes_duplicate, "overlap", (json_int_t)r->bytes_overlap, "missing",
		receipt_ranges_json(r), "missing_more", (json_int_t)r->range_more, "first_nic_ns",
		app_json_known(r->first_nic, r->first_nic), "last_nic_ns",
		app_json_known(r->last_nic, r->last_nic), "nic_uncertainty_ns",
		(json_int_t)r->nic_unc_ns, "open_ns", (json_int_t)spw_tsc_to_ns(tsc, r->open_tsc),
		"close_ns", (json_int_t)spw_tsc_to_ns(tsc, r->close_tsc), "publish_ns",
		app_json_known(r->publish_tsc, spw_tsc_to_ns(tsc, r->publish_tsc)), "way",
		app_object_way_json(app, one));
}

/* The consumer writes its stamp; one that ended while it held the object left none. */
static json_t *receipt_release_json(const struct app *app, const struct spw_topo_lane *lane,
				    const struct spw_pipe_receipt *one)
{
	const struct spw_obj_receipt *r = &one->receipt;

	return json_pack(
		"{s:s,s:o,s:I,s:I,s:I,s:o}", "schema", "spinwire.release/1", "stream",
		app_json_text(lane->stream.page->name), "id", (json_int_t)r->id, "generation",
		(json_int_t)r->generation, "publish_ns",
		(json_int_t)spw_tsc_to_ns(&app->tsc, r->publish_tsc), "release_ns",
		app_json_known(one->release_tsc, spw_tsc_to_ns(&app->tsc, one->release_tsc)));
}

/* A full disk does not stop the data path: the failure is noted and reported once, at the end. */
static void receipt_write(struct app *app, const struct spw_topo_lane *lane,
			  const struct spw_pipe_receipt *r)
{
	json_t *row = r->released ? receipt_release_json(app, lane, r) : receipt_json(app, lane, r);

	if (app->receipts && (!row || json_dumpf(row, app->receipts, JSON_COMPACT) ||
			      fputc('\n', app->receipts) == EOF))
		app->receipts_failed = true;
	json_decref(row);
}

/* The control thread's part of every ms. An lcore passes receipts through a ring and never waits:
 * what finds the ring full is counted as lost, so all that is there is taken in each turn. */
void app_objects_turn(struct app *app, uint64_t turn)
{
	struct spw_pipe_receipt receipt;

	for (uint32_t i = 0; app->receipts && i < app->topo.lane_cnt; i++)
		while (spw_pipe_receipt(&app->topo.lane[i]->pipe, &receipt))
			receipt_write(app, app->topo.lane[i], &receipt);
	if (turn % CONSUMER_TURNS == 0)
		spw_topo_consumers(&app->topo);
}

/* After the stop: what is left, and whether all of it is there. */
int app_receipts_end(struct app *app)
{
	uint64_t lost = 0;
	int rc = 0;

	if (!app->receipts)
		return 0;
	app_objects_turn(app, 0);
	for (uint32_t i = 0; i < app->topo.lane_cnt; i++) {
		struct spw_pipe_summary pipe;

		spw_pipe_summary(&app->topo.lane[i]->pipe, &pipe);
		lost += pipe.receipts_lost;
	}
	if (fclose(app->receipts) || app->receipts_failed)
		rc = spw_err(EIO, "--receipts %s could not be written whole",
			     app->conf.run.receipts);
	else if (lost)
		rc = spw_err(ENOSPC,
			     "--receipts %s: %" PRIu64 " receipts are not there: objects ended "
			     "faster than they could be written",
			     app->conf.run.receipts, lost);
	app->receipts = NULL;
	return rc;
}

/* ---- the summary ---- */

static uint64_t objects_sum(const struct spw_obj_count *count)
{
	uint64_t sum = 0;

	for (int s = 0; s < SPW_OBJ_STATE_CNT; s++)
		sum += count->objects[s];
	return sum;
}

/* "complete 12, partial 3, ..."; those that are 0 are left out, but for the first. */
static void objects_print_words(const struct spw_enum_word *word, const uint64_t *cnt, int words)
{
	const char *comma = "";

	for (int i = 0; i < words; i++) {
		if (!cnt[i] && i)
			continue;
		printf("%s%s %" PRIu64, comma, word[i].name, cnt[i]);
		comma = ", ";
	}
}

/* The states add up to the number of objects. The causes exceed it by those taken back: they were
 * published with one cause, and get a second one when the owner takes them from the queue. */
static void objects_print_stream(const struct spw_topo_lane *lane)
{
	struct spw_obj_count count;

	spw_obj_stat(lane->stream.obj, &count);
	printf(APP_BRIEF_LEAD "%s: %" PRIu64 " = ", "objects", lane->stream.page->name,
	       objects_sum(&count));
	objects_print_words(state_word, count.objects, SPW_OBJ_STATE_CNT);
	printf("; because of ");
	objects_print_words(cause_word, count.causes, SPW_OBJ_CAUSE_CNT);
	if (count.taken_back || count.unseen)
		printf("; taken back %" PRIu64 ", unseen %" PRIu64, count.taken_back, count.unseen);
	printf("\n");
}

/* Brief: only if some were not placed. A stream that no frame is of has a wrong description. */
static void objects_print_frames(const struct spw_topo_lane *lane, bool brief)
{
	struct spw_obj_count count;
	uint64_t others = 0;

	spw_obj_stat(lane->stream.obj, &count);
	for (int f = SPW_OBJ_FATE_placed + 1; f < SPW_OBJ_FATE_CNT; f++)
		others += count.frames[f];
	if (brief && !others)
		return;
	printf("  frames   ");
	for (int f = 0; f < SPW_OBJ_FATE_CNT; f++)
		if (count.frames[f] || !f)
			printf(" %s %" PRIu64, fate_name[f], count.frames[f]);
	printf("; bytes present %" PRIu64 ", missing %" PRIu64 "\n", count.bytes_present,
	       count.bytes_missing);
}

void app_objects_print(const struct app *app, bool brief)
{
	for (uint32_t i = 0; i < app->topo.lane_cnt; i++) {
		if (!app->topo.lane[i]->stream.obj)
			continue;
		objects_print_stream(app->topo.lane[i]);
		objects_print_frames(app->topo.lane[i], brief);
		app_objects_slow_print(app, app->topo.lane[i], brief);
	}
}

static json_t *objects_words_json(const struct spw_enum_word *word, const uint64_t *cnt, int words)
{
	json_t *all = json_object();

	for (int i = 0; i < words; i++)
		json_object_set_new(all, word[i].name, app_json_number(cnt[i]));
	return all;
}

/* Unlike the text, JSON has every word, also where its count is 0: a script finds the same keys in
 * every run. */
static json_t *objects_stream_json(const struct app *app, const struct spw_topo_lane *lane)
{
	json_t *frames = json_object();
	struct spw_obj_count count;

	spw_obj_stat(lane->stream.obj, &count);
	for (int f = 0; f < SPW_OBJ_FATE_CNT; f++)
		json_object_set_new(frames, fate_name[f], app_json_number(count.frames[f]));
	return json_pack("{s:o,s:o,s:o,s:o,s:o,s:I,s:I,s:I,s:I,s:I,s:o,s:o}", "stream",
			 app_json_text(lane->stream.page->name), "port",
			 app_json_text(lane->port->name), "states",
			 objects_words_json(state_word, count.objects, SPW_OBJ_STATE_CNT), "causes",
			 objects_words_json(cause_word, count.causes, SPW_OBJ_CAUSE_CNT), "frames",
			 frames, "taken_back", (json_int_t)count.taken_back, "unseen",
			 (json_int_t)count.unseen, "restarts", (json_int_t)count.restarts,
			 "bytes_present", (json_int_t)count.bytes_present, "bytes_missing",
			 (json_int_t)count.bytes_missing, "slow", app_objects_slow_json(app, lane),
			 "latency", app_objects_latency_json(app, lane));
}

json_t *app_objects_json(const struct app *app)
{
	json_t *streams = json_array();

	for (uint32_t i = 0; i < app->topo.lane_cnt; i++)
		if (app->topo.lane[i]->stream.obj)
			json_array_append_new(streams, objects_stream_json(app, app->topo.lane[i]));
	return streams;
}
