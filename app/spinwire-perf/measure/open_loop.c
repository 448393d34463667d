/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Latency, from the intended time (open_loop.h), for echo.c and case_tcp.c: they give a method
 * that posts and polls, and this file owns the schedule and the histograms.
 *
 *    due    ●────●●───────●──        fixed by the seed, exponential gaps
 *    post   ●────●─●──────●──        the second of two waits; its time counts from when it was due
 *    back     ●────●─●──────●        in order, so due[back % PERF_AHEAD_MAX] is its due time
 *
 * What did not come back is lost, and counts in every percentile as longer than any other.
 */
#include "measure/open_loop.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"

#define STUCK_NS    10000000000ull
#define DRAIN_NS    200000000ull
#define GAP_MEDIANS 8u
#define GAP_MIN_NS  1000u
#define SEED        0x2545f4914f6cdd1dull

/* One loop, closed or open; due[] has as many places as messages may be under way. */
struct loop {
	const struct perf_method *method;
	const struct spw_tsc *tsc;
	struct spw_hist *hist;
	uint64_t due[PERF_AHEAD_MAX]; /* ticks, of what is under way */
	uint64_t posted, back, random;
};

/* Returns: messages that came back, or -errno. */
static int open_loop_take(struct loop *l)
{
	int cnt = l->method->poll(l->method->arg);
	uint64_t now = spw_tsc_now();

	for (int i = 0; i < cnt; i++, l->back++) {
		uint64_t ticks = now - l->due[l->back % PERF_AHEAD_MAX];

		spw_hist_record(l->hist, spw_tsc_to_ns(l->tsc, ticks) / l->method->halves, 1);
	}
	if (cnt == 0)
		l->method->idle(l->method->arg);
	return cnt;
}

static int open_loop_stuck(void)
{
	return spw_err(ETIMEDOUT, "no message came back for 10 s");
}

/* One message at a time; its median sets the gap of the open loop, so that this is about an eighth
 * loaded. */
static int open_loop_calibrate(struct loop *l, uint32_t ms)
{
	uint64_t start = spw_tsc_now(), end = start + spw_tsc_from_ns(l->tsc, ms * 1000000ull);
	uint64_t limit = spw_tsc_from_ns(l->tsc, STUCK_NS);
	int rc = 0;

	while (rc >= 0 && (spw_tsc_now() < end || l->back < 3)) {
		uint64_t now = spw_tsc_now();

		l->due[l->posted % PERF_AHEAD_MAX] = now;
		if ((rc = l->method->post(l->method->arg)) == -EAGAIN) {
			rc = open_loop_take(l);
			continue;
		}
		l->posted += rc == 0;
		while (rc >= 0 && l->back != l->posted) {
			rc = open_loop_take(l);
			if (rc == 0 && spw_tsc_now() - now > limit)
				rc = open_loop_stuck();
		}
	}
	return SPW_MIN(rc, 0);
}

/* xorshift64, then the inverse of the exponential distribution; + 1 keeps the logarithm finite. */
double perf_exponential(uint64_t *random)
{
	*random ^= *random << 13;
	*random ^= *random >> 7;
	*random ^= *random << 17;
	return -log((double)((*random >> 11) + 1) / 9007199254740993.0);
}

/* Messages that are due by the end of the time are intended, started or not. */
static int open_loop_run(struct loop *l, uint64_t interval_ns, uint32_t ms, uint64_t *intended_out)
{
	double gap = (double)spw_tsc_from_ns(l->tsc, interval_ns), at = 0;
	uint64_t start = spw_tsc_now(), span = spw_tsc_from_ns(l->tsc, ms * 1000000ull);
	uint64_t drain = span + spw_tsc_from_ns(l->tsc, DRAIN_NS), now = 0;
	int rc = 0;

	while (rc >= 0 && now < drain && (at < (double)span || l->back != l->posted)) {
		now = spw_tsc_now() - start;
		if (at < (double)span && (double)now >= at &&
		    l->posted - l->back < PERF_AHEAD_MAX) {
			l->due[l->posted % PERF_AHEAD_MAX] = start + (uint64_t)at;
			rc = l->method->post(l->method->arg);
			if (rc == 0) {
				l->posted++;
				at += gap * perf_exponential(&l->random);
			} else if (rc != -EAGAIN) {
				break;
			}
		}
		rc = open_loop_take(l);
	}
	*intended_out = l->posted;
	for (; at < (double)span; (*intended_out)++)
		at += gap * perf_exponential(&l->random);
	return SPW_MIN(rc, 0);
}

/* What is still under way after the time to drain is lost to the percentiles, but not to the lane:
 * it is waited for. */
static int open_loop_settle(struct loop *l)
{
	uint64_t start = spw_tsc_now(), limit = spw_tsc_from_ns(l->tsc, STUCK_NS);
	int rc = 0;

	while (rc >= 0 && l->back != l->posted) {
		rc = open_loop_take(l);
		if (rc == 0 && spw_tsc_now() - start > limit)
			rc = open_loop_stuck();
	}
	return SPW_MIN(rc, 0);
}

/* The open loop's gap comes from the closed one, so it is run in any case. */
int perf_latency(const struct perf_method *method, const struct spw_tsc *tsc, uint32_t closed_ms,
		 uint32_t open_ms, struct perf_lat *lat_out)
{
	struct spw_hist *hist = aligned_alloc(SPW_CACHE_LINE, 2 * sizeof(*hist));
	struct loop l = {.method = method, .tsc = tsc, .hist = hist, .random = SEED};
	uint64_t back;
	int rc;

	memset(lat_out, 0, sizeof(*lat_out));
	if (!hist)
		return spw_err(ENOMEM, "no memory for a histogram");
	memset(hist, 0, 2 * sizeof(*hist));
	rc = open_loop_calibrate(&l, closed_ms);
	spw_hist_summary(hist, 0, &lat_out->closed);
	/* From half a round trip to a whole one (halves), times GAP_MEDIANS. */
	lat_out->interval_ns =
		SPW_MAX(lat_out->closed.value[SPW_HIST_POINT_p50] * method->halves * GAP_MEDIANS,
			(uint64_t)GAP_MIN_NS);
	l = (struct loop){.method = method, .tsc = tsc, .hist = hist + 1, .random = SEED};
	if (rc == 0)
		rc = open_loop_run(&l, lat_out->interval_ns, open_ms, &lat_out->intended);
	back = l.back;
	lat_out->lost = lat_out->intended - back;
	spw_hist_summary(hist + 1, lat_out->lost, &lat_out->open);
	if (rc == 0)
		rc = open_loop_settle(&l);
	free(hist);
	return rc;
}
