/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A struct that travels between both ends as a JSON object: one table of its fields sends it and
 * reads it, so that neither knows a field that the other does not.
 */
#ifndef PERF_FIELDS_H
#define PERF_FIELDS_H

#include <stddef.h>

#include "perf.h"

enum perf_field_kind {
	PERF_FIELD_IS_TEXT,
	PERF_FIELD_IS_NUMBER,
	PERF_FIELD_IS_BOOL,
	PERF_FIELD_IS_LIST
};

/* A table of them ends with {0}. */
struct perf_field {
	const char *name;
	const struct perf_field *item; /* LIST: the fields of each */
	uint64_t max;                  /* NUMBER: the largest; LIST: items that there is room for */
	uint32_t offset;
	uint32_t bytes;      /* of the field; LIST: of an item. NUMBER: 4 or 8 */
	uint32_t cnt_offset; /* LIST: of its uint32_t count */
	enum perf_field_kind kind;
};

#define PERF_FIELD_OF(type, field) \
	.offset = offsetof(type, field), .bytes = sizeof(((type *)0)->field)
#define PERF_FIELD_TEXT(json, type, field)                                           \
	{                                                                            \
		.name = json, .kind = PERF_FIELD_IS_TEXT, PERF_FIELD_OF(type, field) \
	}
#define PERF_FIELD_NUMBER(json, type, field, largest)                       \
	{                                                                   \
		.name = json, .kind = PERF_FIELD_IS_NUMBER, .max = largest, \
		PERF_FIELD_OF(type, field)                                  \
	}
#define PERF_FIELD_BOOL(json, type, field)                                           \
	{                                                                            \
		.name = json, .kind = PERF_FIELD_IS_BOOL, PERF_FIELD_OF(type, field) \
	}
/* The array `field`, whose count is field_cnt. */
#define PERF_FIELD_LIST(json, type, field, fields)                                                \
	{                                                                                         \
		.name = json, .kind = PERF_FIELD_IS_LIST, .item = fields,                         \
		.max = SPW_ARRAY_CNT(((type *)0)->field), .offset = offsetof(type, field),        \
		.bytes = sizeof(((type *)0)->field[0]), .cnt_offset = offsetof(type, field##_cnt) \
	}

/* Purpose: the object of a struct. Owner: the caller. Thread: any. */
json_t *perf_fields_json(const struct perf_field *field, const void *base);
/* Purpose: reads an object of the other end into a struct of zeros. A text or a list that is absent
 *   is empty, texts are cut (perf_text), and of a list is taken what there is room for.
 * Thread: any. Errors: -EPROTO a number is missing or out of range. */
int perf_fields_parse(const struct perf_field *field, const json_t *json, void *base);

#endif
