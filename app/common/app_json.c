/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Writing a JSON summary, or rows of one as CSV, so that a reader never finds half of it: it is
 * made in memory, and app_file.c writes it whole. NULL (no memory) is refused here, so that callers
 * need not.
 *
 *   json ─ json_put_document ─┐
 *                             ├─► text in memory ─ app_file_write ─► file, pipe or stdout
 *   rows ─ json_put_rows ─────┘
 *
 * Both calls take over the reference that they are given, whether they write it or not. Integers
 * are signed in jansson: counters of 64 bits stay below 2^63 in any run.
 */
#include <stdio.h>
#include <stdlib.h>

#include "app_file.h"
#include "app_json.h"

json_t *app_json_number(uint64_t v)
{
	return json_integer((json_int_t)v);
}

/* null, not 0: a reader must not add up what was not counted. */
json_t *app_json_known(bool known, uint64_t v)
{
	return known ? app_json_number(v) : json_null();
}

/* Makes the text by put, and writes it whole; releases json. */
static int json_put(const char *option, json_t *json, bool (*put)(const json_t *json, FILE *file),
		    const char *path)
{
	char *text = NULL;
	size_t bytes;
	FILE *file = json ? open_memstream(&text, &bytes) : NULL;
	bool whole = file && put(json, file);

	json_decref(json);
	/* Only fclose makes the last bytes part of text, and may fail for lack of memory. */
	if (file && fclose(file))
		whole = false;
	if (!whole) {
		free(text);
		text = NULL;
	}
	return app_file_write(option, text, path);
}

static bool json_put_document(const json_t *top, FILE *file)
{
	return json_dumpf(top, file, JSON_INDENT(1)) == 0 && putc('\n', file) != EOF;
}

int app_json_write(const char *option, json_t *top, const char *path)
{
	return json_put(option, top, json_put_document, path);
}

/* RFC 4180: texts in quotes, a quote in them doubled; null is empty, so that a spreadsheet does not
 * take it for a word. Nine digits of a real are more than anything here is measured to. */
static bool json_put_cell(const json_t *cell, FILE *file)
{
	if (json_is_null(cell))
		return true;
	if (!json_is_string(cell))
		return json_dumpf(cell, file, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9)) == 0;
	putc('"', file);
	for (const char *c = json_string_value(cell); *c; c++) {
		if (*c == '"')
			putc('"', file);
		putc(*c, file);
	}
	return putc('"', file) != EOF;
}

/* The columns are the keys of the first row. Every row has the same keys in the same order: jansson
 * keeps that in which they were set, and the rows of a table are made by one function. */
static bool json_put_rows(const json_t *rows, FILE *file)
{
	bool good = true;

	for (size_t i = 0; good && i < json_array_size(rows); i++) {
		json_t *row = json_array_get(rows, i), *cell;
		const char *key, *sep = "";

		if (i == 0) {
			json_object_foreach (row, key, cell) {
				fprintf(file, "%s%s", sep, key);
				sep = ",";
			}
			putc('\n', file);
			sep = "";
		}
		json_object_foreach (row, key, cell) {
			fputs(sep, file);
			good = good && json_put_cell(cell, file);
			sep = ",";
		}
		putc('\n', file);
	}
	return good && !ferror(file);
}

int app_json_csv(json_t *rows, const char *path)
{
	return json_put("--csv", rows, json_put_rows, path);
}
