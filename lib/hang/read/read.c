/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * One snapshot of this host: every collector in turn, gentle first, so that what a later one
 * disturbs does not change what an earlier one has read.
 *
 *   reads      processes ─ pages ─ threads ─ ports ─ queue pairs ─ GPUs ─ TCP, addresses
 *   asks       flight recorder (a thread of the job answers), in the last snapshot only
 *   stops      stacks, for milliseconds to seconds, in the last one and only on request
 *
 * The wall clock is read for one thing: PyTorch dates its entries by it (read_recorder.c). All else
 * that lasts is measured by counters that nobody can set.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "base/spw_monotonic.h"
#include "hang/read/read_impl.h"
#include "time/spw_time.h"

static int64_t read_real_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Of a recorded machine the moment that it recorded; without one no age is known. */
static void read_now(struct hang_read *r)
{
	unsigned long long tsc = 0;
	long long real = 0;
	char text[64];

	if (hang_is_live(r)) {
		tsc = spw_tsc_now();
		real = read_real_ns();
	} else if (hang_line(r, text, sizeof(text), "now")) {
		sscanf(text, "%llu %lld", &tsc, &real);
	}
	r->now_tsc = tsc;
	r->now_real_ns = real;
}

int spw_hang_read(const struct spw_hang_where *where, struct spw_hang_snap *snap_out)
{
	struct hang_read r = {.where = where, .snap = snap_out};
	struct stat st;
	int rc;

	if (where->root[0] && (stat(where->root, &st) < 0 || !S_ISDIR(st.st_mode)))
		return spw_err(EINVAL, "%s: is no folder with a recorded host", where->root);
	snap_out->at_ns = (int64_t)spw_monotonic_ns();
	rc = hang_procs_read(&r);
	if (rc < 0)
		return spw_err(-rc, "no memory for the facts of this host");
	read_now(&r);
	hang_pages_read(&r);
	hang_threads_read(&r);
	hang_ports_read(&r);
	hang_qps_read(&r);
	hang_gpus_read(&r);
	hang_tcp_read(&r);
	hang_recorder_read(&r);
	hang_stacks_read(&r);
	snap_out->taken = true;
	return 0;
}

/* Each snapshot names the one before, so that a process that ends meanwhile is not just missing. */
int spw_hang_host_read(const struct spw_hang_where *where, spw_hang_nap *nap, void *arg,
		       struct spw_hang_case *c)
{
	static const uint32_t at_ms[SPW_HANG_SNAP_CNT] = SPW_HANG_SNAP_MS;
	struct spw_hang_host *host = &c->host[c->host_cnt++];
	const uint64_t start = spw_monotonic_ns();
	int rc = 0;

	gethostname(host->name, sizeof(host->name) - 1);
	for (uint32_t s = 0; s < SPW_HANG_SNAP_CNT && rc == 0; s++) {
		struct spw_hang_where now = *where;

		now.last = where->last && s + 1 == SPW_HANG_SNAP_CNT;
		now.before = s ? &host->snap[s - 1] : NULL;
		if (!nap(start + at_ms[s] * 1000000ull, arg))
			return -ECANCELED;
		rc = spw_hang_read(&now, &host->snap[s]);
	}
	return rc;
}
