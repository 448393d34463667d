/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Processes that have loaded NCCL, from what probe/nccl.c put into the tree. Facts are of "nccl 0",
 * "nccl 1", in the order of their process ids, so that those of two machines can be compared.
 * plat.c calls plat_nccl_read once; findings/nccl.c judges the structs.
 *
 *   nccl/PID/...  one folder for each process ─► struct spw_plat_nccl + facts
 *
 * Only the tree is read here, so a recorded machine gives the same facts as the live one. Texts are
 * not copied: they are the tree's, which lives as long as struct spw_plat. A process of which a
 * file is missing is kept: each fact is unknown on its own.
 */
#include <stdio.h>
#include <string.h>

#include "plat/plat_impl.h"

/* NULL: it is not there. */
static const char *nccl_file(struct plat_read *r, const char *id, const char *name, bool is_fact)
{
	char path[64];
	const char *text;
	int error;

	snprintf(path, sizeof(path), "nccl/%.15s/%s", id, name);
	error = plat_tree_read(r->tree, path, &text);
	if (is_fact)
		plat_note(r, name, text, path, error ? "absent" : NULL);
	return error ? NULL : text;
}

/* Without a fact of its own; 0: unknown. */
static int64_t nccl_number(struct plat_read *r, const char *id, const char *name)
{
	return plat_number(r, "", 0, "nccl/%.15s/%s", id, name);
}

/* "NAME=VALUE" a line, each a fact of its own. */
static void nccl_variables_note(struct plat_read *r, const char *text, const char *source)
{
	for (; text && *text; text += strcspn(text, "\n"), text += *text == '\n') {
		const size_t line = strcspn(text, "\n"), n = strcspn(text, "=");
		char name[SPW_PLAT_NAME_MAX], value[160];

		if (n >= line)
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)n, text);
		snprintf(value, sizeof(value), "%.*s", (int)(line - n - 1), text + n + 1);
		plat_note(r, name, value, source, NULL);
	}
}

/* Returns false once the array is full, which ends the walk. An id that has no room is no process
 * id (a recorded tree may hold any names), and is passed over. */
static bool nccl_process_read(const char *id, void *arg)
{
	struct plat_read *r = arg;
	struct spw_plat *plat = r->plat;
	struct spw_plat_nccl *nccl = &plat->nccl[plat->nccl_cnt];

	if (strlen(id) >= sizeof(nccl->id))
		return true;
	plat_of(r, "nccl %u", plat->nccl_cnt);
	*nccl = (struct spw_plat_nccl){
		.parent = nccl_number(r, id, "parent"),
		.library_cnt = nccl_number(r, id, "libraries"),
		.gcc = nccl_number(r, id, "gcc"),
		.path = nccl_file(r, id, "path", true),
		.version = nccl_file(r, id, "version", true),
		.build_id = nccl_file(r, id, "build_id", true),
		.conf = nccl_file(r, id, "conf", true),
		.env = nccl_file(r, id, "env", false),
		.set = nccl_file(r, id, "set", false),
	};
	plat_copy(nccl->id, sizeof(nccl->id), id);
	nccl_variables_note(r, nccl->env, "environ");
	nccl_variables_note(r, nccl->set, nccl->conf ? nccl->conf : "nccl.conf");
	return ++plat->nccl_cnt < SPW_PLAT_NCCL_MAX;
}

void plat_nccl_read(struct plat_read *r)
{
	plat_tree_each(r->tree, "nccl", nccl_process_read, r);
}
