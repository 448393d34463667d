/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The HdrHistogram log of a run (app_hdr.h): each second, what was recorded since the last one, as
 * the difference of two totals. Called by the control thread only.
 *
 *    before[series_cnt]   totals when the interval began
 *    + 2                  the total now, and the difference of both, which is written
 *
 * Totals are collected by the callers' functions (struct app_hdr_series); recorders go on writing
 * meanwhile.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "app_hdr.h"
#include "base/spw_err.h"
#include "base/spw_file.h"
#include "base/spw_log.h"
#include "hist/spw_hist_log.h"

#define INTERVAL_NS 1000000000ull
#define NS_PER_MS   1e6

static uint64_t now_of(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Ends the log after an error; the run continues. */
static void app_hdr_fail(struct app_hdr *hdr)
{
	spw_warn("--hdr %s: %s; the log ends here, the run goes on", hdr->path, spw_err_text());
	fclose(hdr->file);
	hdr->file = NULL;
}

static void write_series(struct app_hdr *hdr, uint32_t s, uint64_t now_ns)
{
	struct spw_hist *before = &hdr->before[s], *now = &hdr->before[hdr->series_cnt],
			*interval = now + 1;

	spw_hist_clear(now);
	hdr->series[s].total(hdr->series[s].arg, now);
	spw_hist_difference(now, before, interval);
	*before = *now;
	if (hdr->file &&
	    spw_hist_log_write(hdr->file, hdr->series[s].tag, hdr->epoch_ns + hdr->since_ns,
			       now_ns - hdr->since_ns, NS_PER_MS, interval) < 0)
		app_hdr_fail(hdr);
}

/* All series have the same bounds: their intervals can be compared. */
static void write_interval(struct app_hdr *hdr)
{
	uint64_t now_ns = now_of(CLOCK_MONOTONIC);

	for (uint32_t s = 0; s < hdr->series_cnt; s++)
		write_series(hdr, s, now_ns);
	hdr->since_ns = now_ns;
	hdr->next_ns = now_ns + INTERVAL_NS;
}

/* The file exists from now on: a name that cannot be written is refused before the run. */
int app_hdr_open(struct app_hdr *hdr, const char *path, const struct app_hdr_series *series,
		 uint32_t series_cnt)
{
	int fd, rc;

	memset(hdr, 0, sizeof(*hdr));
	if (!path)
		return 0;
	hdr->path = path;
	hdr->since_ns = now_of(CLOCK_MONOTONIC);
	/* Added to the monotonic clock, this is wall time; a step of that is then no gap. */
	hdr->epoch_ns = now_of(CLOCK_REALTIME) - hdr->since_ns;
	hdr->next_ns = hdr->since_ns + INTERVAL_NS;
	hdr->series_cnt = series_cnt;
	memcpy(hdr->series, series, series_cnt * sizeof(*series));
	hdr->before =
		aligned_alloc(_Alignof(struct spw_hist), (series_cnt + 2) * sizeof(*hdr->before));
	if (!hdr->before)
		return spw_err(ENOMEM, "--hdr %s: no memory", path);
	memset(hdr->before, 0, (series_cnt + 2) * sizeof(*hdr->before));
	rc = spw_file_create(path, &fd);
	if (rc)
		return spw_err_ctx(-EIO, "--hdr");
	hdr->file = fdopen(fd, "w");
	if (!hdr->file)
		return spw_err(ENOMEM, "--hdr %s: no memory", path);
	if (spw_hist_log_open(hdr->file, hdr->epoch_ns + hdr->since_ns) < 0)
		app_hdr_fail(hdr);
	return 0;
}

/* Cheap while the second has not passed: one reading of the clock. */
void app_hdr_tick(struct app_hdr *hdr)
{
	if (hdr->file && now_of(CLOCK_MONOTONIC) >= hdr->next_ns)
		write_interval(hdr);
}

/* An interval shorter than a second is written too: no sample is missing in a log that is whole. */
int app_hdr_close(struct app_hdr *hdr)
{
	bool whole = !hdr->path || hdr->file;

	if (hdr->file)
		write_interval(hdr);
	whole &= !hdr->path || hdr->file;
	if (hdr->file && fclose(hdr->file)) {
		spw_warn("--hdr %s: %s", hdr->path, strerror(errno));
		whole = false;
	}
	free(hdr->before);
	memset(hdr, 0, sizeof(*hdr));
	return whole ? 0 : -EIO;
}
