/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "app_json.h"
#include "base/spw_err.h"

int app_json_write(json_t *top, const char *path)
{
	int rc;

	if (!top)
		return spw_err(ENOMEM, "no memory for the JSON summary");
	if (!strcmp(path, "-"))
		rc = json_dumpf(top, stdout, JSON_INDENT(1)) || putchar('\n') == EOF;
	else
		rc = json_dump_file(top, path, JSON_INDENT(1));
	json_decref(top);
	return rc ? spw_err(EIO, "--json %s: cannot write: %s", path, strerror(errno)) : 0;
}
