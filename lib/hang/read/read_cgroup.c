/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Whether the control group of a process is frozen, and for how long its CPU quota has stopped it.
 *
 *   proc/PID/cgroup             "0::/a/b" version 2; "5:freezer:/a/b", "2:cpu,cpuacct:/a" version 1
 *   cgroup.events               "frozen 1": this group or one above it is frozen
 *   freezer.state               "FROZEN", "FREEZING", "THAWED": the same
 *   cpu.stat                    throttled_usec, or throttled_time in ns, of each group on the way
 * up
 *
 * A container names its groups as the host does, below a mount that begins at its own: folders that
 * are not there are passed over. Source: Linux Documentation/admin-guide/cgroup-v2.rst,
 * cgroup-v1/freezer-subsystem.rst, scheduler/sched-bwc.rst.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "hang/read/read_impl.h"

#define MOUNT "sys/fs/cgroup"

/* The folder of a controller and the group of the process in it: "sys/fs/cgroup/freezer", "/a/b".
 */
struct group {
	char top[96], path[256];
	bool v2;
};

static bool read_cgroup_has(const char *list, size_t bytes, const char *controller)
{
	const size_t n = strlen(controller);

	for (size_t i = 0; i + n <= bytes; i += strcspn(list + i, ",") + 1)
		if (!strncmp(list + i, controller, n) && (i + n == bytes || list[i + n] == ','))
			return true;
	return false;
}

/* Version 1 wins: a controller that it has is not in version 2. */
static bool read_cgroup_find(const char *text, const char *controller, struct group *out)
{
	bool found = false;

	for (; *text; text += strcspn(text, "\n"), text += *text == '\n') {
		const char *list = strchr(text, ':');
		size_t n = list ? strcspn(++list, ":\n") : 0;
		const bool v2 = list && n == 0;

		if (!list || list[n] != ':' || (v2 ? found : !read_cgroup_has(list, n, controller)))
			continue;
		found = true;
		out->v2 = v2;
		snprintf(out->top, sizeof(out->top), v2 ? MOUNT : MOUNT "/%.*s", (int)n, list);
		snprintf(out->path, sizeof(out->path), "%.*s",
			 (int)SPW_MIN(strcspn(list + n + 1, "\n"), sizeof(out->path) - 1),
			 list + n + 1);
		if (!v2)
			return true;
	}
	return found;
}

/* One group up. Returns: false: it was the top. */
static bool read_cgroup_up(char *path)
{
	char *slash = strrchr(path, '/');

	if (!slash || !path[1])
		return false;
	slash[slash == path] = '\0';
	return true;
}

/* The top group of the machine has no such file, and cannot be frozen. */
static struct spw_hang_num read_cgroup_frozen(struct hang_read *r, const char *text)
{
	struct group g;
	bool is_top;
	char state[256];

	if (!read_cgroup_find(text, "freezer", &g))
		return (struct spw_hang_num){0};
	is_top = !strcmp(g.path, "/");
	do {
		if (hang_bytes(r, state, sizeof(state), "%s%s/%s", g.top, g.path,
			       g.v2 ? "cgroup.events" : "freezer.state") < 0)
			continue;
		if (g.v2)
			return hang_labelled(state, "frozen ");
		return spw_hang_num(!strncmp(state, "FR", 2));
	} while (read_cgroup_up(g.path));
	return is_top ? spw_hang_num(0) : (struct spw_hang_num){0};
}

/* A group without a quota, or without the controller, has no such line: nothing stops it. */
static struct spw_hang_num read_cgroup_throttled(struct hang_read *r, const char *text)
{
	struct spw_hang_num sum = {0}, one;
	struct group g;
	char stat[1024];

	if (!read_cgroup_find(text, "cpu", &g))
		return sum;
	do {
		if (hang_bytes(r, stat, sizeof(stat), "%s%s/cpu.stat", g.top, g.path) < 0)
			continue;
		one = hang_labelled(stat, g.v2 ? "throttled_usec " : "throttled_time ");
		sum = spw_hang_num(sum.value + (one.known ? one.value / (g.v2 ? 1 : 1000) : 0));
	} while (read_cgroup_up(g.path));
	return sum;
}

void hang_cgroup_read(struct hang_read *r, struct spw_hang_proc_row *row)
{
	char text[4096];

	if (hang_bytes(r, text, sizeof(text), "proc/%" PRId64 "/cgroup", row->pid.value) < 0)
		return;
	row->frozen = read_cgroup_frozen(r, text);
	row->throttled_us = read_cgroup_throttled(r, text);
}
