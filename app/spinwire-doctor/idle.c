/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * "spinwire-doctor idle": what the machine takes from cores that only spin. On each core a thread
 * reads the clock as fast as it can. A gap between two readings that is longer than a reading takes
 * is time that interrupts, other programs, the hypervisor or firmware had the core. No program on
 * that core can have a better tail than this thread. The idea is jHiccup's (Gil Tene).
 *
 * main.c calls doctor_idle; tools/lib reads its JSON rows. All cores are probed at the same time,
 * as the lcores of a run would use them. Each thread writes its own probe only, and is joined
 * before anything is read. Who else had the cores meanwhile, busy.c finds.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "app_file.h"
#include "app_json.h"
#include "app_life.h"
#include "base/spw_err.h"
#include "doctor.h"
#include "hist/spw_hist.h"
#include "time/spw_time.h"

#define IDLE_GAP_NS    1000u /* shorter gaps are the loop itself */
#define IDLE_TAKEN_LOW 5.0   /* %, below which a core's rivals need no name */
#define IDLE_NAMED_S   0.5

/* One core's probe: its thread writes it, and main reads it after the join. */
struct idle_probe {
	uint32_t core;
	int err;
	pthread_t thread;
	uint64_t ticks; /* how long to spin */
	uint64_t took_tsc;
	uint64_t switches; /* involuntary ones of this thread */
	double taken;      /* by gaps, in %; set by idle_report */
	struct spw_hist gap_tsc;
};

/* The histogram's update is part of the loop, so its cost is in every gap alike. */
static void idle_spin(struct idle_probe *p)
{
	uint64_t start = spw_tsc_now(), last = start;

	while (last - start < p->ticks) {
		uint64_t now = spw_tsc_now();

		spw_hist_record(&p->gap_tsc, now - last, 1);
		last = now;
	}
	p->took_tsc = last - start;
}

/* The affinity is set by the thread itself; a core that cannot be used ends it before it spins. */
static void *idle_main(void *arg)
{
	struct rusage before, after;
	struct idle_probe *p = arg;
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(p->core, &set);
	p->err = pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
	if (p->err)
		return NULL;
	getrusage(RUSAGE_THREAD, &before);
	idle_spin(p);
	getrusage(RUSAGE_THREAD, &after);
	p->switches = (uint64_t)(after.ru_nivcsw - before.ru_nivcsw);
	return NULL;
}

/* Gaps longer than limit, and their time: bucket middles, the longest one exactly. */
static uint64_t idle_longer(const struct spw_hist *hist, uint64_t limit, double *sum_out)
{
	uint64_t cnt = hist->overflow;

	/* Gaps beyond the histogram are counted with the longest one: too much rather than too
	 * little. */
	*sum_out = (double)hist->overflow * (double)hist->max_value;
	for (uint32_t b = spw_hist_bucket(limit) + 1; b < SPW_HIST_BUCKET_CNT; b++) {
		double low = (double)spw_hist_bucket_low(b), high = (double)spw_hist_bucket_high(b);

		cnt += hist->count[b];
		*sum_out +=
			(double)hist->count[b] * (low + SPW_MIN(high, (double)hist->max_value)) / 2;
	}
	return cnt;
}

/* Case, metric, unit, median: what tools/lib reads. */
static void idle_row(json_t *rows, uint32_t core, const char *metric, const char *unit,
		     double value)
{
	char name[32];

	snprintf(name, sizeof(name), "core %u", core);
	json_array_append_new(rows, json_pack("{s:s,s:s,s:s,s:f}", "case", name, "metric", metric,
					      "unit", unit, "median", value));
}

/* How often a gap is longer than limit_ns, and which share of frames, arriving at random, wait that
 * long for the core: those that arrive in the first g - limit of a gap of length g. */
static void idle_limit(json_t *rows, const struct idle_probe *p, const struct spw_tsc *tsc,
		       uint64_t limit_ns)
{
	double seconds = (double)spw_tsc_to_ns(tsc, p->took_tsc) * 1e-9, sum;
	uint64_t limit = spw_tsc_from_ns(tsc, limit_ns);
	double cnt = (double)idle_longer(&p->gap_tsc, limit, &sum);
	double waited = SPW_MAX(sum - cnt * (double)limit, 0.0) / (double)p->took_tsc;
	char metric[40];

	snprintf(metric, sizeof(metric), "gaps over %lu ns", (unsigned long)limit_ns);
	idle_row(rows, p->core, metric, "1/s", cnt / seconds);
	snprintf(metric, sizeof(metric), "waits over %lu ns", (unsigned long)limit_ns);
	idle_row(rows, p->core, metric, "ppm", 1e6 * waited);
}

/* Adds one core to the JSON rows, and prints its line of the table if asked for. */
static void idle_report(json_t *rows, struct idle_probe *p, const struct spw_tsc *tsc, bool table)
{
	double seconds = (double)spw_tsc_to_ns(tsc, p->took_tsc) * 1e-9, sum;
	double longest_us = (double)spw_tsc_to_ns(tsc, p->gap_tsc.max_value) * 1e-3, cnt;

	for (uint64_t ten = 100; ten <= 100000000; ten *= 10)
		for (uint64_t step = 1; step <= 5; step += step == 1 ? 1 : 3) /* 1, 2, 5 */
			idle_limit(rows, p, tsc, ten * step);
	cnt = (double)idle_longer(&p->gap_tsc, spw_tsc_from_ns(tsc, IDLE_GAP_NS), &sum);
	p->taken = 100 * sum / (double)p->took_tsc;
	idle_row(rows, p->core, "longest gap", "us", longest_us);
	idle_row(rows, p->core, "taken by gaps over 1 us", "%", p->taken);
	idle_row(rows, p->core, "involuntary switches", "1/s", (double)p->switches / seconds);
	idle_row(rows, p->core, "probed", "s", seconds);
	if (table)
		printf("%6u %16.1f %16.4f %16.1f %16.1f\n", p->core, longest_us, p->taken,
		       cnt / seconds, (double)p->switches / seconds);
}

/* The kernel's own work and a hypervisor's have no process. CPU time of processes is counted in
 * ticks of 10 ms: over less than IDLE_NAMED_S it says nothing. */
static void idle_rivals(const struct idle_probe *p, const struct spw_tsc *tsc,
			const struct doctor_busy *busy)
{
	double seconds = (double)spw_tsc_to_ns(tsc, p->took_tsc) * 1e-9;

	if (p->taken >= IDLE_TAKEN_LOW && seconds >= IDLE_NAMED_S &&
	    !doctor_busy_print(busy, p->core, seconds))
		printf("core %u: no process that is visible here had it: interrupts, the "
		       "hypervisor, or a process outside this container\n",
		       p->core);
}

/* Runs every probe at once. */
static int idle_run(struct idle_probe *probe, uint32_t cnt)
{
	uint32_t started = 0;
	int rc = 0;

	while (started < cnt && rc == 0) {
		struct idle_probe *p = &probe[started];

		if (pthread_create(&p->thread, NULL, idle_main, p))
			rc = spw_err(EAGAIN, "a thread for core %u cannot be started", p->core);
		else
			started++;
	}
	for (uint32_t i = 0; i < started; i++) {
		pthread_join(probe[i].thread, NULL);
		if (probe[i].err)
			rc = spw_err(probe[i].err, "--cores: core %u: %s", probe[i].core,
				     probe[i].err == EINVAL ? "this process may not use it"
							    : strerror(probe[i].err));
	}
	return rc;
}

/* Rows are always made, since the table is printed while they are. */
static int idle_show(const struct doctor_args *args, struct idle_probe *probe,
		     const struct spw_tsc *tsc, const struct doctor_busy *busy)
{
	bool table = !doctor_is_quiet(args);
	json_t *rows = json_array();
	int rc = 0;

	if (table)
		printf("%6s %16s %16s %16s %16s\n", "core", "longest gap, us", "taken, %",
		       "gaps > 1 us, /s", "preempted, /s");
	for (uint32_t i = 0; i < args->idle_cnt; i++)
		idle_report(rows, &probe[i], tsc, table);
	for (uint32_t i = 0; table && i < args->idle_cnt; i++)
		idle_rivals(&probe[i], tsc, busy);
	if (args->json)
		rc = app_json_write("--json",
				    json_pack("{s:s,s:s,s:O}", "schema", "spinwire.idle/1",
					      "version", SPW_VERSION, "rows", rows),
				    args->json);
	if (args->csv)
		rc = app_json_csv(json_incref(rows), args->csv) ? -EIO : rc;
	json_decref(rows);
	return rc;
}

/* Histograms are aligned to cache lines, so the probes are too. */
int doctor_idle(const struct doctor_args *args)
{
	struct doctor_busy before, after;
	struct idle_probe *probe;
	struct spw_tsc tsc;
	int rc = app_file_take("--json", args->json);

	rc = rc ? rc : app_file_take("--csv", args->csv);
	if (rc == 0)
		rc = spw_tsc_calibrate(50, &tsc);
	if (rc < 0)
		return rc;
	probe = aligned_alloc(_Alignof(struct idle_probe), args->idle_cnt * sizeof(*probe));
	if (!probe)
		return spw_err(ENOMEM, "no memory for %u probes", args->idle_cnt);
	memset(probe, 0, args->idle_cnt * sizeof(*probe));
	for (uint32_t i = 0; i < args->idle_cnt; i++) {
		probe[i].core = args->idle_core[i];
		probe[i].ticks = spw_tsc_from_ns(&tsc, args->idle_ns);
	}
	/* Not shown, only named by Ctrl-C: a thread that shows it would take time from the cores.
	 */
	app_life_phase(args->idle_ns, "watching %u core%s", args->idle_cnt,
		       args->idle_cnt == 1 ? "" : "s");
	doctor_busy_read(&before);
	rc = idle_run(probe, args->idle_cnt);
	doctor_busy_read(&after);
	app_life_phase(0, "%s", "");
	doctor_busy_since(&before, &after);
	if (rc == 0)
		rc = idle_show(args, probe, &tsc, &after);
	free(before.thread);
	free(after.thread);
	free(probe);
	return rc;
}
