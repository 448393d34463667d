/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Machines that are too busy for what is measured (busy.h). Each end reads its own load with its
 * facts; client.c prints the line.
 *
 *   before the rows   /proc/stat twice, 0.1 s apart   ─► busy_percent ─ greeting ─► one line for
 *                     finding cores-governor, threads    both ends (perf_busy_begin)
 *   after the rows    how long this thread waited for a core ─► a line if that line did not come
 *
 * Loops that poll need a core each. With fewer, the kernel's scheduler decides the figures, and a
 * reader has to know that before believing them; they are printed all the same.
 */
#include "result/busy.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "app_brief.h"
#include "base/spw_monotonic.h"

#define READ_NS     100000000 /* 10 of its ticks */
#define STAT_BYTES  65536     /* of /proc/stat: its cores come first */
#define FIELD_CNT   8         /* user to steal; guest time is in user's */
#define WAITED_MANY 2u        /* %: of tools/run's brief.py too */
#define LINE_BYTES  320

/* Ticks of one line "cpu3 ..."; idle is the fourth and fifth of them. */
static void stat_core(const char *text, uint32_t core, uint64_t *idle_out, uint64_t *all_out)
{
	char name[16];
	const char *at;
	unsigned long long value;
	int used;

	*idle_out = *all_out = 0;
	snprintf(name, sizeof(name), "\ncpu%u ", core);
	at = strstr(text, name);
	at = at ? at + strlen(name) : "";
	for (int i = 0; i < FIELD_CNT && sscanf(at, "%llu%n", &value, &used) == 1; i++) {
		*all_out += value;
		*idle_out += i == 3 || i == 4 ? value : 0;
		at += used;
	}
}

/* Idle time may step back a tick, and a core may come or go: such a core counts as idle. The sum is
 * in percent of one core, so two busy cores are 200. */
uint32_t perf_busy_between(const char *before, const char *after, const cpu_set_t *cores)
{
	uint32_t percent = 0;

	for (uint32_t core = 0; core < CPU_SETSIZE; core++) {
		uint64_t idle[2], all[2];

		if (!CPU_ISSET(core, cores))
			continue;
		stat_core(before, core, &idle[0], &all[0]);
		stat_core(after, core, &idle[1], &all[1]);
		if (all[1] > all[0] && idle[1] >= idle[0] && idle[1] - idle[0] <= all[1] - all[0])
			percent += (uint32_t)(100 - 100 * (idle[1] - idle[0]) / (all[1] - all[0]));
	}
	return percent;
}

/* A file that cannot be read is an empty text, in which no core is found. */
static void stat_read(char *text)
{
	FILE *file = fopen("/proc/stat", "re");
	size_t got = file ? fread(text, 1, STAT_BYTES - 1, file) : 0;

	if (file)
		fclose(file);
	text[got] = '\0';
}

/* Only the cores that this process may use: load on others takes nothing from it. The texts are too
 * large for a stack, so one thread at a time may call it. */
uint32_t perf_busy_read(void)
{
	static char before[STAT_BYTES], after[STAT_BYTES];
	const struct timespec nap = {.tv_nsec = READ_NS};
	cpu_set_t cores;

	if (sched_getaffinity(0, sizeof(cores), &cores))
		return 0;
	stat_read(before);
	nanosleep(&nap, NULL);
	stat_read(after);
	return perf_busy_between(before, after, &cores);
}

/* ---- in words ---- */

static bool has_governor(const struct perf_end *end)
{
	for (uint32_t i = 0; i < end->finding_cnt; i++)
		if (!strcmp(end->finding[i].code, "cores-governor"))
			return true;
	return false;
}

/* The thread that measures, and the NIC threads of software devices. */
static uint32_t threads_of(const struct perf_session *s, const struct perf_end *end)
{
	return 1 + (end->software ? s->rails.cnt : 0);
}

static void busy_append(char *out, size_t bytes, const char *lead, const char *fmt, ...)
	SPW_PRINTF(4, 5);
static void busy_append(char *out, size_t bytes, const char *lead, const char *fmt, ...)
{
	size_t used = strlen(out);
	va_list args;

	used += (size_t)snprintf(out + used, bytes - used, "%s", out[0] ? lead : "");
	if (used >= bytes)
		return;
	va_start(args, fmt);
	vsnprintf(out + used, bytes - used, fmt, args);
	va_end(args);
}

/* Load that leaves each thread a core is no fault. */
static void busy_end(const struct perf_end *end, uint32_t threads, char *out, size_t bytes)
{
	char why[LINE_BYTES] = "";

	if (threads > end->cores)
		busy_append(why, sizeof(why), "", "%u threads poll on %u core%s", threads,
			    end->cores, end->cores == 1 ? "" : "s");
	if (end->busy_percent >= 10 && 100 * threads + end->busy_percent > 100 * end->cores)
		busy_append(why, sizeof(why), ", ", "other programs took %.1f of %u core%s",
			    end->busy_percent / 100.0, end->cores, end->cores == 1 ? "" : "s");
	if (has_governor(end))
		busy_append(why, sizeof(why), ", ", "its frequency governor saves power");
	if (why[0])
		busy_append(out, bytes, "; ", "%s: %s", end->host, why);
}

void perf_busy_text(const struct perf_session *s, bool one_host, char *out, size_t bytes)
{
	const uint32_t here = threads_of(s, &s->own), there = threads_of(s, &s->peer);

	out[0] = '\0';
	busy_end(&s->own, one_host ? here + there : here, out, bytes);
	if (!one_host)
		busy_end(&s->peer, there, out, bytes);
}

void perf_busy_begin(struct perf_session *s, bool quiet)
{
	char text[2 * LINE_BYTES];

	perf_busy_text(s, !strcmp(s->ctl.local, s->ctl.far), text, sizeof(text));
	s->busy.said = text[0];
	if (text[0] && !quiet)
		printf("busy   %s; the figures suffer\n", text);
	fflush(stdout);
	spw_who_begin(&s->busy.who, 0);
	s->busy.waited_ns = spw_who_waited_ns(&s->busy.who);
	s->busy.begin_ns = spw_monotonic_ns();
}

void perf_busy_rows(const struct perf_session *s)
{
	const uint64_t took_ns = spw_monotonic_ns() - s->busy.begin_ns,
		       waited_ns = spw_who_waited_ns(&s->busy.who) - s->busy.waited_ns,
		       percent = 100 * waited_ns / SPW_MAX(took_ns, 1u);

	if (percent >= WAITED_MANY && !s->busy.said)
		printf(APP_BRIEF_LEAD "this end's thread waited for a core for %llu %% of the "
				      "time: quiet machines measure more\n",
		       "busy", (unsigned long long)percent);
}
