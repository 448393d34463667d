/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What the machine takes from a core that only spins: a thread reads the clock as fast as it can. A
 * gap between two readings that is longer than a reading takes is time that interrupts, other
 * programs, the hypervisor or firmware had the core. No program on that core can have a better tail
 * than this one. The idea is jHiccup's (Gil Tene).
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/spw_err.h"
#include "bench.h"
#include "conf/spw_conf.h"
#include "hist/spw_hist.h"
#include "time/spw_time.h"

#define CORE_MAX     64u
#define SECONDS_DFLT 2.0
#define HELD_UP_NS   1000u /* shorter gaps are the loop itself */

struct probe {
	int core;
	pthread_t thread;
	bool running;
	uint64_t ticks; /* how long to spin */
	uint64_t took_tsc;
	uint64_t switches; /* involuntary ones of this thread */
	int err;
	struct spw_hist gap_tsc;
};

struct hiccup {
	double seconds;
	uint32_t core_cnt;
	int core[CORE_MAX];
};

static void spin(struct probe *p)
{
	uint64_t start = spw_tsc_now(), last = start;

	while (last - start < p->ticks) {
		uint64_t now = spw_tsc_now();

		spw_hist_record(&p->gap_tsc, now - last, 1);
		last = now;
	}
	p->took_tsc = last - start;
}

static void *probe_main(void *arg)
{
	struct rusage before, after;
	struct probe *p = arg;
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((unsigned)p->core, &set);
	p->err = pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
	if (p->err)
		return NULL;
	getrusage(RUSAGE_THREAD, &before);
	spin(p);
	getrusage(RUSAGE_THREAD, &after);
	p->switches = (uint64_t)(after.ru_nivcsw - before.ru_nivcsw);
	return NULL;
}

/* ---- rows ---- */

/* Gaps longer than limit, and their time: bucket middles, the longest one exactly. */
static uint64_t longer_than(const struct spw_hist *hist, uint64_t limit, double *sum_out)
{
	uint64_t cnt = hist->overflow;

	*sum_out = (double)hist->overflow * (double)hist->max_value;
	for (uint32_t b = spw_hist_bucket(limit) + 1; b < SPW_HIST_BUCKET_CNT; b++) {
		double low = (double)spw_hist_bucket_low(b), high = (double)spw_hist_bucket_high(b);

		cnt += hist->count[b];
		*sum_out +=
			(double)hist->count[b] * (low + SPW_MIN(high, (double)hist->max_value)) / 2;
	}
	return cnt;
}

/* By length: how often such a gap happens, and which share of frames, arriving at random, wait that
 * long for the core: those that arrive in the first g - limit of a gap of length g. */
static void add_limits(struct spw_bench_out *out, const char *name, const struct probe *p,
		       const struct spw_tsc *tsc)
{
	static const uint32_t step[] = {1, 2, 5};
	double seconds = (double)spw_tsc_to_ns(tsc, p->took_tsc) * 1e-9, sum;

	for (uint64_t ten = 100; ten <= 100000000; ten *= 10) {
		for (uint32_t i = 0; i < SPW_ARRAY_CNT(step); i++) {
			uint64_t limit_ns = ten * step[i];
			uint64_t limit = spw_tsc_from_ns(tsc, limit_ns),
				 cnt = longer_than(&p->gap_tsc, limit, &sum);
			char metric[40];

			snprintf(metric, sizeof(metric), "gaps over %lu ns",
				 (unsigned long)limit_ns);
			spw_bench_add1(out, name, metric, "1/s", (double)cnt / seconds);
			snprintf(metric, sizeof(metric), "waits over %lu ns",
				 (unsigned long)limit_ns);
			spw_bench_add1(out, name, metric, "ppm",
				       1e6 * SPW_MAX(sum - (double)cnt * (double)limit, 0.0) /
					       (double)p->took_tsc);
		}
	}
}

static void add_rows(struct spw_bench_out *out, const struct probe *p, const struct spw_tsc *tsc)
{
	double seconds = (double)spw_tsc_to_ns(tsc, p->took_tsc) * 1e-9, sum;
	char name[32];

	snprintf(name, sizeof(name), "core %d", p->core);
	add_limits(out, name, p, tsc);
	longer_than(&p->gap_tsc, spw_tsc_from_ns(tsc, HELD_UP_NS), &sum);
	spw_bench_add1(out, name, "longest gap", "us",
		       (double)spw_tsc_to_ns(tsc, p->gap_tsc.max_value) * 1e-3);
	spw_bench_add1(out, name, "taken by gaps over 1 us", "%", 100 * sum / (double)p->took_tsc);
	spw_bench_add1(out, name, "involuntary switches", "1/s", (double)p->switches / seconds);
	spw_bench_add1(out, name, "probed", "s", seconds);
}

/* ---- command line ---- */

static int usage(FILE *file, int status)
{
	fprintf(file,
		"usage: spinwire-bench hiccup [--seconds N] [--cores 1,2,...]\n"
		"  --seconds N     how long, 0.01 to 3600 (default %.0f)\n"
		"  --cores LIST    one probe each, all at once (default: the core it happens to "
		"run on)\n",
		SECONDS_DFLT);
	return status;
}

static int read_seconds(struct hiccup *h, const char *text)
{
	uint64_t ns;
	int rc = spw_opt_quantity(text, SPW_OPT_UNIT_NS, 1000000000, &ns);

	if (rc == 0 && (ns < 10000000 || ns > 3600 * 1000000000ull))
		rc = spw_err(ERANGE, "%s is out of range; 0.01 to 3600", text);
	h->seconds = (double)ns * 1e-9;
	return rc ? spw_err_ctx(rc, "--seconds") : 0;
}

static int read_cores(struct hiccup *h, const char *text)
{
	char *end;

	for (h->core_cnt = 0; h->core_cnt < CORE_MAX; text = end + 1) {
		unsigned long core = strtoul(text, &end, 10);

		if (end == text || core >= CPU_SETSIZE || (*end && *end != ','))
			break;
		h->core[h->core_cnt++] = (int)core;
		if (!*end)
			return 0;
	}
	return spw_err(EINVAL, "--cores: '%s' is no list of at most %u cores, as in 1,2", text,
		       CORE_MAX);
}

static int read_args(struct hiccup *h, int argc, char **argv)
{
	int rc = 0;

	h->seconds = SECONDS_DFLT;
	h->core[0] = sched_getcpu();
	h->core_cnt = 1;
	for (int i = 1; rc == 0 && i < argc; i += 2) {
		if (i + 1 < argc && !strcmp(argv[i], "--seconds"))
			rc = read_seconds(h, argv[i + 1]);
		else if (i + 1 < argc && !strcmp(argv[i], "--cores"))
			rc = read_cores(h, argv[i + 1]);
		else
			rc = spw_err(EINVAL, "'%s' is no option of hiccup, or lacks its value",
				     argv[i]);
	}
	return rc;
}

static int complain(int status)
{
	fprintf(stderr, "spinwire-bench hiccup: %s\n", spw_err_text());
	return status;
}

static int run(const struct hiccup *h, const struct spw_tsc *tsc, struct probe *probe,
	       struct spw_bench_out *out)
{
	int rc = 0;

	for (uint32_t i = 0; i < h->core_cnt; i++) {
		probe[i].core = h->core[i];
		probe[i].ticks = spw_tsc_from_ns(tsc, (uint64_t)(h->seconds * 1e9));
		probe[i].running = pthread_create(&probe[i].thread, NULL, probe_main, &probe[i]) ==
				   0;
		if (!probe[i].running)
			rc = spw_err(EAGAIN, "a thread for core %d cannot be started", h->core[i]);
	}
	for (uint32_t i = 0; i < h->core_cnt; i++) {
		if (probe[i].running)
			pthread_join(probe[i].thread, NULL);
		if (probe[i].err)
			rc = spw_err(probe[i].err, "core %d: %s", probe[i].core,
				     strerror(probe[i].err));
		else if (probe[i].running)
			add_rows(out, &probe[i], tsc);
	}
	return rc;
}

int spw_bench_hiccup(int argc, char **argv, struct spw_bench_out *out)
{
	struct hiccup h;
	struct spw_tsc tsc;
	struct probe *probe;
	int rc;

	if (argc > 1 && !strcmp(argv[1], "--help"))
		return usage(stdout, 0);
	if (read_args(&h, argc, argv) < 0)
		return complain(1);
	probe = aligned_alloc(_Alignof(struct probe), h.core_cnt * sizeof(*probe));
	if (!probe || spw_tsc_calibrate(50, &tsc) < 0) {
		free(probe);
		return complain(2);
	}
	memset(probe, 0, h.core_cnt * sizeof(*probe));
	rc = run(&h, &tsc, probe, out);
	free(probe);
	return rc ? complain(2) : 0;
}
