/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The processes under NCCL: those that have its library mapped, or a live page of their own.
 *
 *   first snapshot    each process whose maps and descriptors the kernel shows to this user
 *   later ones        those of the snapshot before: is it the same process, does it still run?
 *
 * maps is read once, as reading it waits for a process that changes its memory. A child that was
 * forked (a worker that loads data) has its parent's library, rank and descriptors: it is left out.
 * Source: proc(5), pid_namespaces(7).
 *
 * A rank is judged by what this file finds, so a process that is missed is worse than one too many:
 * whatever cannot be read is counted, and why[] says how many. Names, environments and maps are the
 * processes' own and may hold anything; MAPS_BYTES of each are read at most.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_proc.h"
#include "hang/read/read_impl.h"
#include "plat/spw_nccl_file.h"

#define MAPS_BYTES (4u << 20)
#define PIDS_MAX   65536
#define FDS_MAX    4096

/* ---- who a process is ---- */

struct spw_hang_num hang_stat_number(const char *stat, uint32_t number)
{
	const char *at = spw_proc_stat_field(stat, number);

	return at ? spw_hang_num(strtoll(at, NULL, 10)) : (struct spw_hang_num){0};
}

char hang_stat_state(const char *stat)
{
	const char *at = spw_proc_stat_field(stat, 3);

	return at && isalpha((unsigned char)*at) ? *at : '\0';
}

/* The first variable of a list that is set to a number. The list is in the order of trust:
 * torchrun's RANK is exact, Slurm's is inherited by every child. */
static struct spw_hang_num read_proc_variable(const char *environ, size_t bytes,
					      const char *const *name)
{
	for (; *name; name++) {
		const char *value = spw_proc_variable(environ, bytes, *name);

		if (value && isdigit((unsigned char)*value))
			return spw_hang_num(strtoll(value, NULL, 10));
	}
	return (struct spw_hang_num){0};
}

static void read_proc_environ(struct hang_read *r, struct spw_hang_proc_row *row, char *room)
{
	static const char *const rank[] = {"RANK",     "OMPI_COMM_WORLD_RANK", "PMIX_RANK",
					   "PMI_RANK", "SLURM_PROCID",         NULL};
	static const char *const world[] = {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
					    "SLURM_NTASKS", NULL};
	const ssize_t n =
		hang_bytes(r, room, MAPS_BYTES, "proc/%" PRId64 "/environ", row->pid.value);

	if (n > 0) {
		row->rank = read_proc_variable(room, (size_t)n, rank);
		row->world = read_proc_variable(room, (size_t)n, world);
	}
}

/* Libraries, by the last part of a line of maps. Returns: false: maps cannot be read. */
static bool read_proc_maps(struct hang_read *r, struct spw_hang_proc_row *row, char *room)
{
	char *line, *rest = room;

	if (hang_bytes(r, room, MAPS_BYTES, "proc/%" PRId64 "/maps", row->pid.value) < 0)
		return false;
	row->cuda = spw_hang_num(0);
	while ((line = strsep(&rest, "\n"))) {
		const char *name = strrchr(line, '/'), *nccl = spw_nccl_mapped(line);

		if (!row->nccl[0] && nccl)
			snprintf(row->nccl, sizeof(row->nccl), "%s", nccl);
		if (name && !strncmp(name, "/libcuda.so", 11))
			row->cuda = spw_hang_num(1);
	}
	return true;
}

/* Through /proc/PID/root: the path is the process's own, in a container that of its image. */
static void read_proc_build(struct hang_read *r, struct spw_hang_proc_row *row)
{
	struct spw_nccl_file file;
	char path[HANG_PATH_BYTES];

	if (row->nccl[0] &&
	    hang_path(r, path, "proc/%" PRId64 "/root%s", row->pid.value, row->nccl) &&
	    spw_nccl_file_read(path, &file))
		snprintf(row->build, sizeof(row->build), "%.43s", file.build_id);
}

/* Returns: whether the process has descriptors of a page, its own or its parent's. */
static bool read_proc_page(struct hang_read *r, struct spw_hang_proc_row *row, bool *foreign_out)
{
	char **fd, link[HANG_PATH_BYTES];
	int cnt = hang_names(r, &fd, FDS_MAX, "proc/%" PRId64 "/fd", row->pid.value);

	*foreign_out = false;
	if (cnt >= 0)
		row->page = spw_hang_num(0);
	for (int i = 0; i < cnt && !row->page.value; i++) {
		if (hang_is_live(r) && (!hang_link(r, link, sizeof(link), "proc/%" PRId64 "/fd/%s",
						   row->pid.value, fd[i]) ||
					!hang_is_page_link(link)))
			continue;
		if (hang_page_is_of(r, row->pid.value, fd[i]))
			row->page = spw_hang_num(1);
		else
			*foreign_out = hang_is_live(r);
	}
	hang_names_free(fd, SPW_MAX(cnt, 0));
	return row->page.value;
}

/* ---- the first snapshot ---- */

/* Pids ascend, so a parent is mostly there before its child. Where they have wrapped it is not, and
 * the child is looked at like any process. */
static struct spw_hang_proc_row *read_proc_row(struct hang_read *r, int64_t pid)
{
	for (uint32_t i = 0; i < r->snap->proc_cnt; i++)
		if (r->snap->proc[i].pid.value == pid)
			return &r->snap->proc[i];
	return NULL;
}

/* Whether it is a fork of a process that is in the table: with its rank, or its page. */
static bool read_proc_is_fork(struct hang_read *r, const struct spw_hang_proc_row *row,
			      int64_t parent, bool has_foreign_page)
{
	const struct spw_hang_proc_row *up = read_proc_row(r, parent);

	return (has_foreign_page && !row->page.value) ||
	       (up && up->rank.known && row->rank.known && up->rank.value == row->rank.value &&
		!row->page.value);
}

/* What changes from snapshot to snapshot. Returns: false: it is not there, or another one. */
static bool read_proc_state(struct hang_read *r, struct spw_hang_proc_row *row, int64_t *parent_out)
{
	char text[4096];
	struct spw_hang_num start;

	if (hang_bytes(r, text, sizeof(text), "proc/%" PRId64 "/stat", row->pid.value) <= 0)
		return false;
	start = hang_stat_number(text, 22);
	if (!start.known || (row->start.known && row->start.value != start.value) ||
	    strchr("ZXx", hang_stat_state(text)))
		return false;
	row->start = start;
	*parent_out = hang_stat_number(text, 4).value;
	if (hang_bytes(r, text, sizeof(text), "proc/%" PRId64 "/status", row->pid.value) > 0)
		row->tracer = hang_labelled(text, "TracerPid:");
	hang_cgroup_read(r, row);
	return true;
}

/* Returns: 0; -EACCES: it may run under NCCL, and cannot be looked at; -ENOMEM. */
static int read_proc_new(struct hang_read *r, int64_t pid, char *room)
{
	struct spw_hang_proc_row row = {.pid = spw_hang_num(pid)}, *added;
	bool seen = read_proc_maps(r, &row, room), has_foreign_page;
	int64_t parent;

	read_proc_page(r, &row, &has_foreign_page);
	if ((!row.nccl[0] && !row.page.value) || !read_proc_state(r, &row, &parent))
		return seen ? 0 : -EACCES;
	read_proc_environ(r, &row, room);
	if (read_proc_is_fork(r, &row, parent, has_foreign_page))
		return 0;
	hang_line(r, row.name, sizeof(row.name), "proc/%" PRId64 "/comm", pid);
	read_proc_build(r, &row);
	row.gone = spw_hang_num(0);
	added = spw_hang_row_add(r->snap, SPW_HANG_TABLE_proc);
	if (!added)
		return -ENOMEM;
	*added = row;
	return 0;
}

/* What several processes of one job inherited says nothing about each: Slurm's variables, below a
 * launcher that starts several ranks. */
static void read_proc_ranks_check(struct hang_read *r)
{
	struct spw_hang_proc_row *row = r->snap->proc;

	for (uint32_t i = 0; i < r->snap->proc_cnt; i++) {
		bool twice = false;

		for (uint32_t k = i + 1; k < r->snap->proc_cnt; k++)
			if (row[i].rank.known && row[k].rank.known &&
			    row[i].rank.value == row[k].rank.value && row[i].world.known &&
			    row[i].world.value == row[k].world.value) {
				twice = true;
				row[k].rank.known = false;
			}
		if (twice)
			row[i].rank.known = false;
	}
}

/* Hidden processes matter only where no rank is found: beside ranks of this user they are those of
 * root and of services, which every machine has. */
static int read_procs_first(struct hang_read *r)
{
	char **pid, *room = malloc(MAPS_BYTES), *why = r->snap->why[SPW_HANG_SOURCE_proc];
	int cnt = room ? hang_names(r, &pid, PIDS_MAX, "proc") : -ENOMEM, rc = 0;
	uint32_t hidden = 0;

	for (int i = 0; i < cnt && rc != -ENOMEM && r->snap->proc_cnt < SPW_HANG_PROC_MAX; i++) {
		if (!isdigit((unsigned char)pid[i][0]) ||
		    (r->where->pid && (uint32_t)atoi(pid[i]) != r->where->pid))
			continue;
		rc = read_proc_new(r, atoi(pid[i]), room);
		hidden += rc == -EACCES;
	}
	if (cnt >= 0)
		hang_names_free(pid, cnt);
	else
		snprintf(why, sizeof(r->snap->why[0]), "no /proc: %s", strerror(-cnt));
	if (!r->snap->proc_cnt && hidden)
		snprintf(why, sizeof(r->snap->why[0]),
			 "%u processes of other users cannot be looked at", hidden);
	free(room);
	read_proc_ranks_check(r);
	return rc == -ENOMEM ? rc : 0;
}

/* ---- later snapshots ---- */

/* New processes are not looked for: one that begins while it is watched holds nobody up yet.
 * Identity is pid and start time, since a number may have passed to another process. */
static int read_procs_again(struct hang_read *r)
{
	const struct spw_hang_snap *before = r->where->before;

	for (uint32_t i = 0; i < before->proc_cnt; i++) {
		struct spw_hang_proc_row *row = spw_hang_row_add(r->snap, SPW_HANG_TABLE_proc);
		int64_t parent;

		if (!row)
			return -ENOMEM;
		*row = before->proc[i];
		row->frozen = row->throttled_us = row->tracer = (struct spw_hang_num){0};
		if (row->gone.value || !read_proc_state(r, row, &parent))
			row->gone = spw_hang_num(1);
	}
	memcpy(r->snap->why[SPW_HANG_SOURCE_proc], before->why[SPW_HANG_SOURCE_proc],
	       sizeof(before->why[0]));
	return 0;
}

int hang_procs_read(struct hang_read *r)
{
	return r->where->before ? read_procs_again(r) : read_procs_first(r);
}
