/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The control group of this process: which cores it may use. A file is looked for from the
 * process's own group up to the top of what is mounted: the group may not have the controller. A
 * container often sees its group's path as the host names it, below a mount that begins at that
 * group: folders that are not there are passed over.
 *
 *   proc/self/cgroup     4:memory:/a/b              version 1, a hierarchy for each controller
 *                        0::/a/b                    version 2, one for all
 *   sys/fs/cgroup/memory/a/b, .../a, ...            the folders of /a/b, version 1
 *   sys/fs/cgroup/a/b, sys/fs/cgroup/a, ...         version 2
 *
 * Source: Linux Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/cpusets.rst,
 * cgroup-v1/memory.rst, scheduler/sched-bwc.rst; cgroups(7).
 *
 * A limit holds for everything below it, so the tightest of all folders on the way up counts.
 * plat.c calls this for the facts; spw_plat_memory_left and spw_plat_quota_read are for a running
 * program, which asks again.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plat/plat_impl.h"

#define MOUNT    "sys/fs/cgroup"
#define NO_LIMIT (INT64_MAX / 2) /* of memory, in version 1 */

/* A way from a group to the top of its hierarchy. */
struct climb {
	char folder[PLAT_TREE_PATH_MAX];
	size_t top_bytes; /* the mount's part of folder; 0: there is no such hierarchy */
	bool v2;
};

/* Whether a comma-separated list has the word. */
static bool cgroup_list_has(const char *list, size_t bytes, const char *word)
{
	size_t n = strlen(word);

	for (size_t i = 0; i + n <= bytes; i += strcspn(list + i, ",") + 1)
		if (!strncmp(list + i, word, n) && (i + n == bytes || list[i + n] == ','))
			return true;
	return false;
}

/* The folder of the process's group for a controller: "cpu", "cpuset", "memory". Version 1 wins,
 * because a controller that it has is not in version 2. */
static void cgroup_climb_begin(struct plat_read *r, const char *controller, struct climb *c)
{
	const char *line;

	*c = (struct climb){0};
	if (plat_tree_read(r->tree, "proc/self/cgroup", &line))
		return;
	while (*line) {
		const char *list = line + strcspn(line, ":\n"), *path = list;
		size_t bytes = strcspn(line, "\n");

		list += *list == ':';
		path = list + strcspn(list, ":\n");
		path += *path == ':';
		if (cgroup_list_has(list, strcspn(list, ":\n"), controller) ||
		    (!c->top_bytes && !strncmp(line, "0::", 3))) {
			c->v2 = !strncmp(line, "0::", 3);
			c->top_bytes = (size_t)snprintf(c->folder, sizeof(c->folder), MOUNT "%s%s",
							c->v2 ? "" : "/", c->v2 ? "" : controller);
			snprintf(c->folder + c->top_bytes, sizeof(c->folder) - c->top_bytes, "%.*s",
				 (int)SPW_MIN(line + bytes - path, 256), path);
			if (!strcmp(c->folder + c->top_bytes, "/"))
				c->folder[c->top_bytes] = '\0';
		}
		line += bytes + (line[bytes] == '\n');
	}
}

/* Goes to the folder above. Returns: false if that is not in the hierarchy. */
static bool cgroup_climb_up(struct climb *c)
{
	char *slash = strrchr(c->folder, '/');

	if (!c->top_bytes || strlen(c->folder) <= c->top_bytes)
		return false;
	*(slash >= c->folder + c->top_bytes ? slash : c->folder + c->top_bytes) = '\0';
	return true;
}

/* The text of a file in the climb's folder. Returns: false if it cannot be read. */
static bool cgroup_climb_text(struct plat_read *r, const struct climb *c, const char *file,
			      const char **text_out)
{
	char path[PLAT_TREE_PATH_MAX + 64];

	snprintf(path, sizeof(path), "%s/%s", c->folder, file);
	return c->top_bytes && plat_tree_read(r->tree, path, text_out) == 0;
}

/* Version 2 says what the group's cores are after all limits above it; in version 1 a group's list
 * is part of its parent's. */
bool plat_cgroup_cores(struct plat_read *r, bool *set)
{
	char path[PLAT_TREE_PATH_MAX + 64];
	const char *text;
	struct climb c;

	cgroup_climb_begin(r, "cpuset", &c);
	do {
		const char *file = c.v2 ? "cpuset.cpus.effective" : "cpuset.effective_cpus";

		if (!cgroup_climb_text(r, &c, file, &text))
			continue;
		snprintf(path, sizeof(path), "/%s/%s", c.folder, file);
		plat_note(r, "cores_cgroup", text, path, NULL);
		return spw_plat_list_parse(text, set, SPW_PLAT_CORE_MAX) > 0;
	} while (cgroup_climb_up(&c));
	plat_note(r, "cores_cgroup", "", "/" MOUNT, "absent");
	return false;
}

/* A number in one of the climb's files, version 1's or version 2's. Returns: -1 for "max", for the
 * -1 that is version 1's "max", and for a file that is not there. */
static int64_t cgroup_climb_number(struct plat_read *r, const struct climb *c, const char *v1,
				   const char *v2)
{
	const char *text;

	if (!cgroup_climb_text(r, c, c->v2 ? v2 : v1, &text) || text[0] < '0' || text[0] > '9')
		return -1;
	return strtoll(text, NULL, 10);
}

/* Version 2: "200000 100000", quota and period in one file. */
static int64_t cgroup_period_us(struct plat_read *r, const struct climb *c)
{
	const char *text;

	if (!c->v2)
		return cgroup_climb_number(r, c, "cpu.cfs_period_us", "");
	if (!cgroup_climb_text(r, c, "cpu.max", &text) || !(text = strchr(text, ' ')))
		return -1;
	return strtoll(text, NULL, 10);
}

static void cgroup_quota_read(struct plat_read *r)
{
	struct spw_plat *plat = r->plat;
	struct climb c;
	char text[64] = "none";

	cgroup_climb_begin(r, "cpu", &c);
	do {
		int64_t quota = cgroup_climb_number(r, &c, "cpu.cfs_quota_us", "cpu.max");
		int64_t period = cgroup_period_us(r, &c);

		if (!spw_in_range(quota, 1, UINT32_MAX) || !spw_in_range(period, 1, UINT32_MAX) ||
		    (plat->quota_us && (uint64_t)quota * plat->period_us >=
					       (uint64_t)plat->quota_us * (uint64_t)period))
			continue;
		plat->quota_us = (uint32_t)quota;
		plat->period_us = (uint32_t)period;
		snprintf(plat->quota_stat, sizeof(plat->quota_stat), "/%.200s/cpu.stat", c.folder);
		snprintf(text, sizeof(text), "%u us of each %u us", plat->quota_us,
			 plat->period_us);
	} while (cgroup_climb_up(&c));
	plat_note(r, "cpu_quota", text,
		  plat->quota_us ? plat->quota_stat : "/" MOUNT " cpu.max, cpu.cfs_quota_us", NULL);
	if (!plat->quota_us)
		return;
	plat->quota_period_cnt =
		(uint64_t)plat_labelled(r, "cpu_periods", 0, plat->quota_stat + 1, "nr_periods");
	plat->quota_throttled_cnt = (uint64_t)plat_labelled(r, "cpu_throttled", 0,
							    plat->quota_stat + 1, "nr_throttled");
}

/* A line of memory.stat; 0 if there is none. */
static uint64_t cgroup_memory_stat(struct plat_read *r, const struct climb *c, const char *label)
{
	char path[PLAT_TREE_PATH_MAX + 64], line[64];

	snprintf(path, sizeof(path), "%s/memory.stat", c->folder);
	snprintf(line, sizeof(line), "%s%s ", c->v2 ? "" : "total_", label);
	return (uint64_t)plat_labelled(r, "", 0, path, line);
}

/* The limit less what is used; the kernel drops cached files before it kills anybody. */
static uint64_t cgroup_memory_left(struct plat_read *r, const struct climb *c, uint64_t limit)
{
	int64_t used = cgroup_climb_number(r, c, "memory.usage_in_bytes", "memory.current");
	uint64_t cached =
		cgroup_memory_stat(r, c, "inactive_file") + cgroup_memory_stat(r, c, "active_file");
	uint64_t held = used > 0 && (uint64_t)used > cached ? (uint64_t)used - cached : 0;

	return limit > held ? limit - held : 0;
}

/* The tightest limit, and what the group leaves that leaves least. Version 1 writes "no limit" as a
 * number near 2^63. */
static void cgroup_memory_read(struct plat_read *r)
{
	struct spw_plat *plat = r->plat;
	char text[64] = "none", source[224] = "/" MOUNT " memory.max, memory.limit_in_bytes";
	struct climb c;

	plat->mem_limit_bytes = plat->mem_left_bytes = UINT64_MAX;
	cgroup_climb_begin(r, "memory", &c);
	do {
		int64_t limit = cgroup_climb_number(r, &c, "memory.limit_in_bytes", "memory.max");

		if (limit < 0 || limit >= NO_LIMIT)
			continue;
		plat->mem_left_bytes =
			SPW_MIN(plat->mem_left_bytes, cgroup_memory_left(r, &c, (uint64_t)limit));
		if ((uint64_t)limit >= plat->mem_limit_bytes)
			continue;
		plat->mem_limit_bytes = (uint64_t)limit;
		snprintf(text, sizeof(text), "%" PRId64, limit);
		snprintf(source, sizeof(source), "/%.180s/%s", c.folder,
			 c.v2 ? "memory.max" : "memory.limit_in_bytes");
	} while (cgroup_climb_up(&c));
	plat_note(r, "memory_limit", text, source, NULL);
}

void plat_cgroup_read(struct plat_read *r)
{
	plat_of(r, "host");
	cgroup_quota_read(r);
	cgroup_memory_read(r);
}

uint64_t spw_plat_memory_left(uint64_t *limit_out)
{
	struct plat_read r = {.plat = calloc(1, sizeof(*r.plat))};
	uint64_t left = UINT64_MAX;

	*limit_out = UINT64_MAX;
	if (r.plat && plat_tree_new(true, &r.tree) == 0) {
		r.plat->tree = r.tree;
		cgroup_memory_read(&r);
		left = r.plat->mem_left_bytes;
		*limit_out = r.plat->mem_limit_bytes;
	}
	spw_plat_free(r.plat);
	return left;
}

/* The number after a name of cpu.stat; 0 if it is not there. */
static uint64_t cgroup_stat_number(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

bool spw_plat_quota_read(const char *stat, struct spw_plat_quota *quota_out)
{
	char text[1024];
	FILE *file = stat[0] ? fopen(stat, "re") : NULL;
	size_t n = file ? fread(text, 1, sizeof(text) - 1, file) : 0;

	if (file)
		fclose(file);
	text[n] = '\0';
	*quota_out = (struct spw_plat_quota){
		.periods = cgroup_stat_number(text, "nr_periods "),
		.throttled = cgroup_stat_number(text, "nr_throttled "),
		.stopped_ns = cgroup_stat_number(text, "throttled_usec ") * 1000 +
			      cgroup_stat_number(text, "throttled_time "),
	};
	return n > 0;
}
