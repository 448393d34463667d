/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Which threads used a core between two readings of /proc/PID/task/TID/stat (proc_pid_stat(5)).
 * idle.c reads before and after it measures, and prints what was found below its table.
 *
 * The kernel names only the last core of a thread: time that one spent on several cores counts for
 * that. Its ticks are 10 ms.
 */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/spw_proc.h"
#include "doctor.h"

#define BUSY_SHOWN 3u

struct doctor_thread {
	int pid, tid;
	uint32_t core; /* its last */
	uint64_t ticks;
	char name[17];
};

/* "TID (NAME) S ..."; the name may hold parentheses. utime, stime and processor are fields 14, 15
 * and 39. */
static bool busy_parse(const char *path, struct doctor_thread *t)
{
	char text[1024];
	const char *open, *ticks, *core;
	FILE *file = fopen(path, "r");
	size_t got = file ? fread(text, 1, sizeof(text) - 1, file) : 0;
	unsigned long user, system;

	if (file)
		fclose(file);
	text[got] = '\0';
	open = strchr(text, '(');
	ticks = spw_proc_stat_field(text, 14);
	core = spw_proc_stat_field(text, 39);
	if (!open || !ticks || !core || sscanf(path, "/proc/%d/task/%d/", &t->pid, &t->tid) != 2 ||
	    sscanf(ticks, "%lu %lu", &user, &system) != 2 || sscanf(core, "%u", &t->core) != 1)
		return false;
	snprintf(t->name, sizeof(t->name), "%.*s", (int)(strrchr(text, ')') - open - 1), open + 1);
	t->ticks = user + system;
	return true;
}

void doctor_busy_read(struct doctor_busy *busy)
{
	glob_t found;

	*busy = (struct doctor_busy){0};
	if (glob("/proc/[0-9]*/task/[0-9]*/stat", GLOB_NOSORT, NULL, &found))
		return;
	busy->thread = calloc(found.gl_pathc, sizeof(*busy->thread));
	for (size_t i = 0; busy->thread && i < found.gl_pathc; i++)
		busy->cnt += busy_parse(found.gl_pathv[i], &busy->thread[busy->cnt]);
	globfree(&found);
}

/* Ticks since then. Not before: the thread has begun since. */
static uint64_t busy_since(const struct doctor_busy *before, const struct doctor_thread *t)
{
	for (size_t i = 0; i < before->cnt; i++)
		if (before->thread[i].tid == t->tid && before->thread[i].ticks <= t->ticks)
			return t->ticks - before->thread[i].ticks;
	return t->ticks;
}

static int busy_compare(const void *a, const void *b)
{
	uint64_t x = ((const struct doctor_thread *)a)->ticks;
	uint64_t y = ((const struct doctor_thread *)b)->ticks;

	return (x < y) - (x > y);
}

void doctor_busy_since(const struct doctor_busy *before, struct doctor_busy *after)
{
	size_t cnt = 0;

	for (size_t i = 0; i < after->cnt; i++) {
		struct doctor_thread t = after->thread[i];

		t.ticks = busy_since(before, &t);
		if (t.ticks && t.pid != getpid())
			after->thread[cnt++] = t;
	}
	after->cnt = cnt;
	if (cnt)
		qsort(after->thread, cnt, sizeof(*after->thread), busy_compare);
}

uint32_t doctor_busy_print(const struct doctor_busy *busy, uint32_t core, double seconds)
{
	uint32_t cnt = 0;
	char line[96];

	for (size_t i = 0; i < busy->cnt && cnt < BUSY_SHOWN; i++) {
		const struct doctor_thread *t = &busy->thread[i];

		if (t->core != core)
			continue;
		snprintf(line, sizeof(line), "core %u: %s (PID %d", core, t->name, t->pid);
		doctor_put(line);
		if (t->tid != t->pid)
			printf(", thread %d", t->tid);
		printf(") had %.0f %%\n",
		       100 * (double)t->ticks / (double)sysconf(_SC_CLK_TCK) / seconds);
		cnt++;
	}
	return cnt;
}
