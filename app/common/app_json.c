/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Writing a JSON summary so that a reader never finds half of it: it is made in memory, and
 * app_file.c writes it whole. A top of NULL (no memory) is refused here, so that callers need not.
 */
#include <stdio.h>
#include <stdlib.h>

#include "app_file.h"
#include "app_json.h"

json_t *app_json_number(uint64_t v)
{
	return json_integer((json_int_t)v);
}

json_t *app_json_known(bool known, uint64_t v)
{
	return known ? app_json_number(v) : json_null();
}

int app_json_write(json_t *top, const char *path)
{
	char *text = NULL;
	size_t bytes;
	FILE *file = top ? open_memstream(&text, &bytes) : NULL;
	bool whole = file && json_dumpf(top, file, JSON_INDENT(1)) == 0 && putc('\n', file) != EOF;

	json_decref(top);
	if (file && fclose(file))
		whole = false;
	if (!whole) {
		free(text);
		text = NULL;
	}
	return app_file_write("JSON summary", text, path);
}
