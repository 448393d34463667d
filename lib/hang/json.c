/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A case as JSON and back (spinwire.hangcase/1), and the answer (spinwire.hang/1).
 *
 *   {"schema": ..., "hosts": [{"name": "spark1", "silent": "", "snaps": [
 *       {"at_ns": 1, "why": {"qp": "..."}, "conn": [{"pid": 7, "pair": "..."}, ...],
 * ...}]}]}
 *
 * A column that is not there is not known. What is read comes from anywhere: every type, range and
 * length is checked, and texts are shown as one line (base/spw_text.h).
 *
 * spinwire-doctor writes a case (--save), reads it (--replay, and over ssh), and writes the answer
 * (--json). share/schema has both documents. A column that is renamed breaks recorded cases; one
 * that is added at a list's end does not.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/spw_err.h"
#include "base/spw_text.h"
#include "hang/spw_hang.h"

#define CASE_SCHEMA   "spinwire.hangcase/1"
#define ANSWER_SCHEMA "spinwire.hang/1"

/* ---- columns ---- */

/* A row is described by the same list that its struct is made of, so a column that is added to the
 * list is in the document, too. */
struct column {
	const char *name;
	size_t offset;
	size_t bytes; /* of a text, its end included; 0: a number */
};

#define COLUMN_NUM(name, ...)         {#name, offsetof(__typeof__(*row), name), 0},
#define COLUMN_TEXT(name, bytes, ...) {#name, offsetof(__typeof__(*row), name), bytes},
#define COLUMNS(P, table, list)                                                               \
	case SPW_HANG_TABLE_##table: {                                                        \
		const struct spw_hang_##table##_row *row SPW_UNUSED;                          \
		static const struct column column[] = {list##_LIST(COLUMN_NUM, COLUMN_TEXT)}; \
		*cnt_out = SPW_ARRAY_CNT(column);                                             \
		return column;                                                                \
	}

static const struct column *table_columns(enum spw_hang_table table, size_t *cnt_out)
{
	switch (table) {
		SPW_HANG_TABLE_LIST(COLUMNS, )
	default:
		*cnt_out = 0;
		return NULL;
	}
}

#define TABLE_ROW(P, table, list)                                                              \
	{#table, sizeof(struct spw_hang_##table##_row), offsetof(struct spw_hang_snap, table), \
	 offsetof(struct spw_hang_snap, table##_cnt)},

static const struct {
	const char *name;
	size_t row_bytes, rows_offset, cnt_offset;
} table[] = {SPW_HANG_TABLE_LIST(TABLE_ROW, )};

static const struct spw_enum_word source_word[] = {SPW_ENUM_WORDS(SPW_HANG_SOURCE)};
static const struct spw_enum_word layer_word[] = {SPW_ENUM_WORDS(SPW_HANG_LAYER)};
static const struct spw_enum_word outcome_word[] = {SPW_ENUM_WORDS(SPW_HANG_OUTCOME)};

const char *spw_hang_layer_name(enum spw_hang_layer layer)
{
	return SPW_ENUM_NAME(layer_word, layer);
}

const char *spw_hang_layer_text(enum spw_hang_layer layer)
{
	return SPW_ENUM_TEXT(layer_word, layer);
}

const char *spw_hang_outcome_name(enum spw_hang_outcome outcome)
{
	return SPW_ENUM_NAME(outcome_word, outcome);
}

/* ---- a case ---- */

static json_t *text_json(const char *text)
{
	char shown[512];

	spw_text_show(text, shown, sizeof(shown));
	return json_string(shown);
}

/* Only what is known: a number of a row that is not known has no value to show. */
static json_t *snap_row_json(const struct column *column, size_t cnt, const char *row)
{
	json_t *out = json_object();

	for (size_t i = 0; i < cnt; i++) {
		const struct spw_hang_num *num = (const void *)(row + column[i].offset);
		const char *text = row + column[i].offset;

		if (column[i].bytes && text[0])
			json_object_set_new(out, column[i].name, text_json(text));
		else if (!column[i].bytes && num->known)
			json_object_set_new(out, column[i].name, json_integer(num->value));
	}
	return out;
}

/* Tables without rows are left out; a source that gave nothing has its reason in "why". */
static json_t *snap_json(const struct spw_hang_snap *snap)
{
	json_t *why = json_object(), *out = json_pack("{s:I}", "at_ns", (json_int_t)snap->at_ns);

	for (size_t i = 0; i < SPW_HANG_SOURCE_CNT; i++)
		if (snap->why[i][0])
			json_object_set_new(why, source_word[i].name, text_json(snap->why[i]));
	json_object_set_new(out, "why", why);
	for (size_t t = 0; t < SPW_ARRAY_CNT(table); t++) {
		const char *rows =
			*(char *const *)(const void *)((const char *)snap + table[t].rows_offset);
		const uint32_t cnt =
			*(const uint32_t *)(const void *)((const char *)snap + table[t].cnt_offset);
		json_t *list = cnt ? json_array() : NULL;
		size_t column_cnt;
		const struct column *column = table_columns((enum spw_hang_table)t, &column_cnt);

		for (uint32_t i = 0; i < cnt; i++)
			json_array_append_new(list, snap_row_json(column, column_cnt,
								  rows + i * table[t].row_bytes));
		if (cnt)
			json_object_set_new(out, table[t].name, list);
	}
	return out;
}

json_t *spw_hang_case_json(const struct spw_hang_case *c)
{
	json_t *hosts = json_array();

	for (uint32_t h = 0; h < c->host_cnt; h++) {
		const struct spw_hang_host *host = &c->host[h];
		json_t *snaps = json_array();

		for (uint32_t s = 0; s < SPW_HANG_SNAP_CNT && host->snap[s].taken; s++)
			json_array_append_new(snaps, snap_json(&host->snap[s]));
		json_array_append_new(hosts,
				      json_pack("{s:o,s:o,s:o}", "name", text_json(host->name),
						"silent", text_json(host->silent), "snaps", snaps));
	}
	return json_pack("{s:s,s:s,s:o}", "schema", CASE_SCHEMA, "version", SPW_VERSION, "hosts",
			 hosts);
}

/* ---- back ---- */

/* A text of a document: one line, cut to its column. */
static void text_take(const json_t *from, char *out, size_t bytes)
{
	const char *text = json_string_value(from);

	if (text)
		spw_text_show(text, out, bytes);
}

/* A number of another type, or out of range, stays unknown, as does a text that is none. */
static void row_take(const struct column *column, size_t cnt, const json_t *from, char *row)
{
	for (size_t i = 0; i < cnt; i++) {
		const json_t *value = json_object_get(from, column[i].name);

		if (column[i].bytes)
			text_take(value, row + column[i].offset, column[i].bytes);
		else if (json_is_integer(value))
			*(struct spw_hang_num *)(void *)(row + column[i].offset) =
				spw_hang_num(json_integer_value(value));
	}
}

/* What was added before an error is freed with the case. */
static int snap_take(const json_t *from, struct spw_hang_snap *snap)
{
	const json_t *why = json_object_get(from, "why");

	snap->taken = true;
	snap->at_ns = json_integer_value(json_object_get(from, "at_ns"));
	if (!spw_hang_num(snap->at_ns).known)
		snap->at_ns = 0;
	for (size_t i = 0; i < SPW_HANG_SOURCE_CNT; i++)
		text_take(json_object_get(why, source_word[i].name), snap->why[i],
			  sizeof(snap->why[i]));
	for (size_t t = 0; t < SPW_ARRAY_CNT(table); t++) {
		const json_t *rows = json_object_get(from, table[t].name);
		size_t column_cnt;
		const struct column *column = table_columns((enum spw_hang_table)t, &column_cnt);

		for (size_t i = 0; i < json_array_size(rows); i++) {
			char *row = spw_hang_row_add(snap, (enum spw_hang_table)t);

			if (!row)
				return spw_err(ENOMEM, "%s: no memory, or more than %u rows",
					       table[t].name, SPW_HANG_ROW_MAX);
			row_take(column, column_cnt, json_array_get(rows, i), row);
		}
	}
	return 0;
}

/* jansson's getters take NULL and any type, and answer NULL or 0: so only what they cannot know is
 * checked, counts and ranges. */
int spw_hang_case_read(const json_t *doc, struct spw_hang_case *c)
{
	const char *schema = json_string_value(json_object_get(doc, "schema"));
	const json_t *hosts = json_object_get(doc, "hosts");

	if (!schema || strcmp(schema, CASE_SCHEMA) || !json_is_array(hosts))
		return spw_err(EPROTO, "no recorded case: its schema is not " CASE_SCHEMA
				       "; spinwire-doctor hang --save FILE writes one");
	for (size_t h = 0; h < json_array_size(hosts); h++) {
		const json_t *from = json_array_get(hosts, h);
		const json_t *snaps = json_object_get(from, "snaps");
		struct spw_hang_host *host = &c->host[c->host_cnt];
		int rc = 0;

		if (c->host_cnt == SPW_HANG_HOST_MAX)
			return spw_err(E2BIG, "a recorded case has at most %u hosts",
				       SPW_HANG_HOST_MAX);
		c->host_cnt++;
		text_take(json_object_get(from, "name"), host->name, sizeof(host->name));
		text_take(json_object_get(from, "silent"), host->silent, sizeof(host->silent));
		for (size_t s = 0; s < SPW_MIN(json_array_size(snaps), SPW_HANG_SNAP_CNT); s++)
			rc = rc ? rc : snap_take(json_array_get(snaps, s), &host->snap[s]);
		if (rc)
			return rc;
	}
	return 0;
}

void spw_hang_case_free(struct spw_hang_case *c)
{
	for (uint32_t h = 0; h < SPW_HANG_HOST_MAX; h++)
		for (uint32_t s = 0; s < SPW_HANG_SNAP_CNT; s++)
			spw_hang_snap_free(&c->host[h].snap[s]);
	memset(c, 0, sizeof(*c));
}

/* ---- the answer ---- */

/* null: not known. */
static json_t *known_json(bool known, int64_t value)
{
	return known ? json_integer(value) : json_null();
}

/* Of a verdict that no rule explains, rule and layer are null, and its texts are empty. */
static json_t *verdict_json(const struct spw_hang_verdict *v)
{
	return json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:s,s:s}", "rule",
			 v->explained ? json_string(v->rule) : json_null(), "layer",
			 v->explained ? json_string(spw_hang_layer_name(v->layer)) : json_null(),
			 "rank", known_json(v->rank >= 0, v->rank), "host", text_json(v->host),
			 "pid", known_json(v->pid >= 0, v->pid), "program", text_json(v->program),
			 "since_ns", known_json(v->since.known, v->since.value), "what",
			 text_json(v->what), "evidence", text_json(v->evidence), "sure", v->sure,
			 "do", v->todo);
}

json_t *spw_hang_answer_json(const struct spw_hang_answer *answer)
{
	json_t *verdicts = json_array();

	for (uint32_t i = 0; i < answer->verdict_cnt; i++)
		json_array_append_new(verdicts, verdict_json(&answer->verdict[i]));
	return json_pack("{s:s,s:s,s:s,s:b,s:i,s:i,s:o,s:o}", "schema", ANSWER_SCHEMA, "version",
			 SPW_VERSION, "outcome", spw_hang_outcome_name(answer->outcome), "moves",
			 answer->moves, "ranks", (int)answer->rank_cnt, "waiting",
			 (int)answer->wait_cnt, "verdicts", verdicts, "missing",
			 text_json(answer->missing));
}
