/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A recorded machine of config/platforms, with some of its files changed.
 */
#ifndef UNIT_MACHINE_H
#define UNIT_MACHINE_H

#include <stdlib.h>

#include <jansson.h>

#include "plat/spw_plat.h"
#include "unit_test.h"

static const char *platforms; /* the folder; main sets it */

/* "'a': '1', 'b': null," as a document of lib/plat/tree.h: {"a": "1", "b": null}. */
static SPW_UNUSED json_t *unit_json(const char *members)
{
	size_t bytes = strlen(members);
	char *text = malloc(bytes + 3);
	json_error_t error;
	json_t *json;

	assert_non_null(text);
	snprintf(text, bytes + 3, "{%.*s}", (int)(bytes - (bytes && members[bytes - 1] == ',')),
		 members);
	for (char *at = text; (at = strchr(at, '\''));)
		*at = '"';
	json = json_loads(text, JSON_REJECT_DUPLICATES, &error);
	if (!json)
		fail_msg("%d: %s: %s", error.line, error.text, text);
	free(text);
	return json;
}

/* members: as of unit_json. libs.cuda_lib and libs.nvml_lib are taken. */
static SPW_UNUSED int unit_machine(const char *name, const char *members, struct spw_plat_from libs,
				   struct spw_plat **plat_out)
{
	char path[512];
	json_t *machine, *more = unit_json(members);
	int rc;

	snprintf(path, sizeof(path), "%s/%s.json", platforms, name);
	machine = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
	if (!machine)
		fail_msg("%s cannot be read", path);
	libs.record[0] = machine;
	libs.name[0] = name;
	libs.record[1] = more;
	libs.name[1] = "changes";
	rc = spw_plat_read(&libs, plat_out);
	json_decref(machine);
	json_decref(more);
	return rc;
}

#endif
