/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Finds the scripts that belong to this program (app_tool.h). Links are resolved before anything is
 * judged, and what was judged is run, not the link.
 *
 *    installed   the folder of this program: spinwire-perf-report ...
 *    in a tree   BUILD/app/PROGRAM: ../../../tools/NAME
 *    else        by PATH, as the user's shell would
 */
#include "app_tool.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/spw_log.h"

/* Nobody else may change it: others may not write it, and its owner is trusted. Who owns or may
 * write this program's own file could do worse. */
static bool is_ours(const char *path, const struct stat *own)
{
	struct stat st;

	if (stat(path, &st) ||
	    (st.st_uid != 0 && st.st_uid != geteuid() && st.st_uid != own->st_uid))
		return false;
	return !(st.st_mode & S_IWOTH) &&
	       (!(st.st_mode & S_IWGRP) || (st.st_gid == own->st_gid && (own->st_mode & S_IWGRP)));
}

bool app_tool_is_trusted(const char *path, const char *own)
{
	char folder[PATH_MAX];
	struct stat st;
	char *slash;

	snprintf(folder, sizeof(folder), "%s", path);
	slash = strrchr(folder, '/');
	if (!slash || stat(own, &st))
		return false;
	slash[slash == folder] = '\0';
	return is_ours(path, &st) && is_ours(folder, &st);
}

/* Returns: whether path may be run; out is then where it really lies. */
static bool app_tool_take(const char *path, const char *own, char out[PATH_MAX])
{
	if (!realpath(path, out) || access(out, X_OK))
		return false;
	if (app_tool_is_trusted(out, own))
		return true;
	spw_warn("%s is not run: somebody else than the owner of %s may change it", out, own);
	return false;
}

char *app_tool_find(const char *installed, const char *in_tree)
{
	static char found[PATH_MAX];
	char own[PATH_MAX - 64], folder[PATH_MAX - 64], path[PATH_MAX];
	/* This program's own file, whatever name it was started by. */
	ssize_t len = readlink("/proc/self/exe", own, sizeof(own) - 1);

	own[len > 0 ? len : 0] = '\0';
	snprintf(folder, sizeof(folder), "%s", own);
	if (strrchr(folder, '/'))
		*strrchr(folder, '/') = '\0';
	snprintf(path, sizeof(path), "%s/%s", folder, installed);
	if (app_tool_take(path, own, found))
		return found;
	snprintf(path, sizeof(path), "%s/../../../tools/%s", folder, in_tree);
	if (!app_tool_take(path, own, found))
		snprintf(found, sizeof(found), "%s", installed);
	return found;
}
