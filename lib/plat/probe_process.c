/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Facts of this process that no file has, put into a live tree under names of their own (tree.h).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "plat/plat_impl.h"

/* Variables that change what NCCL and UCX do on this machine, or say where it runs. No others are
 * recorded: an environment may hold secrets. */
static const char *const variable[] = {"NCCL_IB_GID_INDEX", "UCX_IB_GID_INDEX",
				       "KUBERNETES_SERVICE_HOST"};

static void put_number(struct plat_tree *tree, const char *path, long number)
{
	char text[32];

	snprintf(text, sizeof(text), "%ld", number);
	plat_tree_put(tree, path, text);
}

void plat_probe_process(struct plat_tree *tree)
{
	struct utsname uts;
	char path[64];

	if (uname(&uts) == 0)
		plat_tree_put(tree, "sysconf/arch", uts.machine);
	put_number(tree, "sysconf/pagesize", sysconf(_SC_PAGESIZE));
	put_number(tree, "sysconf/uid", (long)geteuid());
	for (size_t i = 0; i < SPW_ARRAY_CNT(variable); i++) {
		const char *value = getenv(variable[i]);

		snprintf(path, sizeof(path), "env/%s", variable[i]);
		if (value)
			plat_tree_put(tree, path, value);
	}
}

/* The path is a file of the machine; the answer is of this process, so it has a place of its own
 * below access/. */
void plat_probe_access(struct plat_tree *tree, const char *path)
{
	char full[PLAT_TREE_PATH_MAX];

	snprintf(full, sizeof(full), "/%s", path);
	if (access(full, R_OK | W_OK)) {
		int error = errno;

		snprintf(full, sizeof(full), "access/%s", path);
		plat_tree_put_error(tree, full, error);
	} else {
		snprintf(full, sizeof(full), "access/%s", path);
		plat_tree_put(tree, full, "rw");
	}
}
