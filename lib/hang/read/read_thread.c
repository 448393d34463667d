/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Threads of the processes under NCCL: what each does, and, of the one that makes NCCL's network
 * calls, who has its CPU while it waits for it. Source: proc(5), Documentation/scheduler/
 * sched-stats.rst.
 *
 * Which thread that is, the page says, or the name that NCCL gives it if NCCL_SET_THREAD_NAME is
 * set. The page has the ids of the process's own namespace: they are the last of NSpid.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hang/read/read_impl.h"

#define THREADS_MAX 1024 /* of a process */
#define PIDS_MAX    65536

/* The id of a thread in the innermost namespace that it is in. */
static int64_t read_thread_inner(const char *status, int64_t tid)
{
	const char *at = hang_ns_first(status);
	int64_t id;

	while (hang_ns_next(&at, &id))
		tid = id;
	return tid;
}

/* Rows of connections name the thread by the process's own id: they get this host's. */
static bool read_thread_on_page(struct hang_read *r, int64_t pid, int64_t inner, int64_t tid)
{
	bool is = false;

	for (uint32_t i = 0; i < r->snap->conn_cnt; i++) {
		struct spw_hang_conn_row *conn = &r->snap->conn[i];

		if (conn->pid.value != pid || !conn->tid.value || conn->tid.value != inner)
			continue;
		conn->tid.value = -tid; /* until all threads were looked at */
		is = true;
	}
	return is;
}

static void read_thread_ids_end(struct hang_read *r, int64_t pid)
{
	for (uint32_t i = 0; i < r->snap->conn_cnt; i++) {
		struct spw_hang_num *tid = &r->snap->conn[i].tid;

		if (r->snap->conn[i].pid.value != pid)
			continue;
		if (tid->value > 0) /* of a thread that has ended */
			*tid = (struct spw_hang_num){0};
		tid->value = -tid->value;
	}
}

static bool read_thread_stat(struct hang_read *r, struct spw_hang_thread_row *row, int64_t pid,
			     const char *tid)
{
	char text[2048], *end;

	if (hang_bytes(r, text, sizeof(text), "proc/%" PRId64 "/task/%s/stat", pid, tid) <= 0)
		return false;
	snprintf(row->state, sizeof(row->state), "%c", hang_stat_state(text));
	row->utime = hang_stat_number(text, 14);
	row->stime = hang_stat_number(text, 15);
	row->cpu = hang_stat_number(text, 39);
	if (hang_line(r, text, sizeof(text), "proc/%" PRId64 "/task/%s/schedstat", pid, tid) &&
	    isdigit((unsigned char)text[0])) {
		row->run_ns = spw_hang_num(strtoll(text, &end, 10));
		row->wait_ns = spw_hang_num(strtoll(end, NULL, 10));
	}
	hang_line(r, row->name, sizeof(row->name), "proc/%" PRId64 "/task/%s/comm", pid, tid);
	/* "0": it does not wait, or its stack must not be looked at. */
	if (hang_line(r, row->wchan, sizeof(row->wchan), "proc/%" PRId64 "/task/%s/wchan", pid,
		      tid) &&
	    !strcmp(row->wchan, "0"))
		row->wchan[0] = '\0';
	return true;
}

/* ---- who has the CPU ---- */

/* A thread that is running or could, with its priority. */
struct rival {
	int64_t pid, rank; /* rank: 2 + real-time priority; 1 of others; 0 none */
	char name[20];
};

static void read_thread_rival(struct hang_read *r, const char *pid, const char *tid, int64_t cpu,
			      struct rival *best)
{
	char text[2048], path[64];
	int64_t rank;

	snprintf(path, sizeof(path), "proc/%.10s/task/%.10s", pid, tid);
	if (hang_bytes(r, text, sizeof(text), "%s/stat", path) <= 0 ||
	    hang_stat_state(text) != 'R' || hang_stat_number(text, 39).value != cpu)
		return;
	rank = 1 + hang_stat_number(text, 40).value;
	if (rank <= best->rank)
		return;
	best->rank = rank;
	best->pid = atoll(pid);
	hang_line(r, best->name, sizeof(best->name), "%s/comm", path);
}

/* One pass over all threads of the machine, for a thread that waits for its CPU. */
static void read_thread_rival_find(struct hang_read *r, struct spw_hang_thread_row *row)
{
	struct rival best = {0};
	char **pid, **tid;
	int cnt = hang_names(r, &pid, PIDS_MAX, "proc");

	for (int i = 0; i < cnt; i++) {
		int tasks = isdigit((unsigned char)pid[i][0])
				    ? hang_names(r, &tid, THREADS_MAX, "proc/%s/task", pid[i])
				    : 0;

		for (int k = 0; k < tasks; k++)
			if (atoll(tid[k]) != row->tid.value)
				read_thread_rival(r, pid[i], tid[k], row->cpu.value, &best);
		if (tasks > 0)
			hang_names_free(tid, tasks);
	}
	if (cnt >= 0)
		hang_names_free(pid, cnt);
	if (best.rank)
		snprintf(row->rival, sizeof(row->rival), "%s (pid %" PRId64 ")", best.name,
			 best.pid);
}

/* Whether it waited for a CPU more than half of the time since the snapshot before. */
static bool read_thread_starves(const struct hang_read *r, const struct spw_hang_thread_row *row)
{
	const struct spw_hang_snap *before = r->where->before;
	const int64_t half_ns = before ? (r->snap->at_ns - before->at_ns) / 2 : 0;

	for (uint32_t i = 0; before && i < before->thread_cnt; i++) {
		const struct spw_hang_thread_row *old = &before->thread[i];

		if (old->pid.value == row->pid.value && old->tid.value == row->tid.value)
			return row->wait_ns.known && old->wait_ns.known &&
			       row->wait_ns.value - old->wait_ns.value > half_ns;
	}
	return false;
}

/* ---- processes ---- */

/* The page knows all threads that make network calls; without one, names do if NCCL gives any. */
static void read_thread_proxy_set(struct hang_read *r, const struct spw_hang_proc_row *proc,
				  uint32_t first, bool named)
{
	for (uint32_t i = first; i < r->snap->thread_cnt; i++) {
		struct spw_hang_thread_row *row = &r->snap->thread[i];

		if (!row->proxy.known && (proc->page.value || named))
			row->proxy = spw_hang_num(!strncmp(row->name, "NCCL Progress", 13));
		if (row->proxy.value && row->state[0] == 'R' && read_thread_starves(r, row))
			read_thread_rival_find(r, row);
	}
}

static void read_threads_of(struct hang_read *r, const struct spw_hang_proc_row *proc)
{
	const int64_t pid = proc->pid.value;
	const uint32_t first = r->snap->thread_cnt;
	char **tid, status[4096];
	int cnt = hang_names(r, &tid, THREADS_MAX, "proc/%" PRId64 "/task", pid);
	bool named = false;

	for (int i = 0; i < cnt; i++) {
		struct spw_hang_thread_row found = {.pid = spw_hang_num(pid)}, *row;

		found.tid = spw_hang_num(atoll(tid[i]));
		if (!read_thread_stat(r, &found, pid, tid[i]) ||
		    !(row = spw_hang_row_add(r->snap, SPW_HANG_TABLE_thread)))
			continue;
		*row = found;
		named = named || !strncmp(row->name, "NCCL ", 5);
		if (proc->page.value &&
		    hang_bytes(r, status, sizeof(status), "proc/%" PRId64 "/task/%s/status", pid,
			       tid[i]) > 0 &&
		    read_thread_on_page(r, pid, read_thread_inner(status, row->tid.value),
					row->tid.value))
			row->proxy = spw_hang_num(1);
	}
	if (cnt >= 0)
		hang_names_free(tid, cnt);
	read_thread_ids_end(r, pid);
	read_thread_proxy_set(r, proc, first, named);
}

void hang_threads_read(struct hang_read *r)
{
	for (uint32_t i = 0; i < r->snap->proc_cnt; i++)
		if (!r->snap->proc[i].gone.value)
			read_threads_of(r, &r->snap->proc[i]);
}
