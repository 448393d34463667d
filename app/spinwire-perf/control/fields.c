/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Structs as JSON objects, by a table of their fields (fields.h): the facts of an end
 * (result/facts.c), and what it sent in a row (measure/case.c).
 *
 *   struct ─ perf_fields_json ─► object ─ the other end ─► perf_fields_parse ─► struct of zeros
 *
 * What is parsed comes from another machine. A number is checked against its max, a text is cut and
 * cleaned (perf_text), a list ends where the array does; lists nest as deep as the tables, however
 * deep the JSON is. An absent number refuses the whole, because 0 would pass for a measured value;
 * an absent bool is false.
 */

#include "app_json.h"
#include "app_text.h"
#include "control/fields.h"

static uint64_t field_number(const struct perf_field *field, const void *at)
{
	return field->bytes == sizeof(uint64_t) ? *(const uint64_t *)at : *(const uint32_t *)at;
}

/* `at` is the array's first item, and bytes the distance between two. */
static json_t *field_list_json(const struct perf_field *field, const char *at, uint32_t cnt)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < cnt; i++)
		json_array_append_new(list,
				      perf_fields_json(field->item, at + (size_t)i * field->bytes));
	return list;
}

/* Texts pass app_json_text: a driver may report any bytes. */
json_t *perf_fields_json(const struct perf_field *field, const void *base)
{
	json_t *out = json_object();

	for (; field->name; field++) {
		const char *at = (const char *)base + field->offset;
		const void *cnt = (const char *)base + field->cnt_offset;
		json_t *value;

		if (field->kind == PERF_FIELD_IS_TEXT)
			value = app_json_text(at);
		else if (field->kind == PERF_FIELD_IS_NUMBER)
			value = app_json_number(field_number(field, at));
		else if (field->kind == PERF_FIELD_IS_BOOL)
			value = json_boolean(*(const bool *)at);
		else
			value = field_list_json(field, at, *(const uint32_t *)cnt);
		json_object_set_new(out, field->name, value);
	}
	return out;
}

static int field_number_parse(const struct perf_field *field, const json_t *json, void *at)
{
	uint64_t value;
	int rc = perf_number(json, field->name, field->max, &value);

	if (rc == 0 && field->bytes == sizeof(uint64_t))
		*(uint64_t *)at = value;
	else if (rc == 0)
		*(uint32_t *)at = (uint32_t)value;
	return rc;
}

/* The count grows item by item: it is the struct's own, never a number of the message. */
static int field_list_parse(const struct perf_field *field, const json_t *list, char *at,
			    uint32_t *cnt)
{
	int rc = 0;

	for (size_t i = 0; i < json_array_size(list) && i < field->max && rc == 0; i++)
		rc = perf_fields_parse(field->item, json_array_get(list, i),
				       at + (size_t)(*cnt)++ * field->bytes);
	return rc;
}

/* Ends at the first fault and leaves the rest at 0: the caller drops the struct. */
int perf_fields_parse(const struct perf_field *field, const json_t *json, void *base)
{
	int rc = 0;

	for (; field->name && rc == 0; field++) {
		const json_t *value = json_object_get(json, field->name);
		char *at = (char *)base + field->offset;
		void *cnt = (char *)base + field->cnt_offset;

		if (field->kind == PERF_FIELD_IS_TEXT)
			perf_text(json, field->name, at, field->bytes);
		else if (field->kind == PERF_FIELD_IS_NUMBER)
			rc = field_number_parse(field, json, at);
		else if (field->kind == PERF_FIELD_IS_BOOL)
			*(bool *)at = json_is_true(value);
		else
			rc = field_list_parse(field, value, at, cnt);
	}
	return rc;
}
