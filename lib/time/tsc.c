/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Calibration of the CPU's constant-rate counter against CLOCK_MONOTONIC_RAW, and what reading it
 * costs. Programs call it once, before they start a data path.
 *
 *   pair 0 ---- half the window ---- pair 1 ---- half the window ---- pair 2
 *   |<------------------- rate of the counter -------------------------->|
 *
 * The two halves must agree, else the counter's rate is not constant.
 *
 * On aarch64 the architecture states the rate (cntfrq_el0). It is taken if the measurement agrees
 * to 0.1 %, because firmware is known to program it wrongly; elsewhere the measured rate is used,
 * with its error bound.
 */
#include <errno.h>
#include <inttypes.h>
#include <time.h>

#include "base/spw_err.h"
#include "time/time_impl.h"

#define PAIR_TRIES 32u
#define NS_PER_S   1000000000ull
/* The halves of a window may differ by 0.1 %, beyond their uncertainty. */
#define STEADY_PPB 1000000ull

/* nanosleep may return early (a signal) or late; the raw clock decides. A clock that cannot be read
 * ends the wait, and the pair that follows reports the error. */
static void tsc_sleep_until(uint64_t start_ns, uint64_t ns)
{
	struct timespec left = {.tv_sec = (time_t)(ns / NS_PER_S),
				.tv_nsec = (long)(ns % NS_PER_S)};
	clockid_t raw = CLOCK_MONOTONIC_RAW;
	uint64_t now = start_ns;

	while (now - start_ns < ns) {
		nanosleep(&left, NULL);
		left = (struct timespec){.tv_nsec = 100000};
		if (spw_clock_read_posix(&raw, &now))
			return;
	}
}

/* The rate in Hz between two pairs (other in ns, ref in ticks), and its uncertainty in 1e-9. 0: the
 * counter did not advance. */
static uint64_t tsc_rate_between(const struct spw_clock_pair *a, const struct spw_clock_pair *b,
				 uint64_t *err_ppb_out)
{
	uint64_t ticks = b->ref - a->ref, ns = b->other - a->other;
	spw_u128 slack;

	*err_ppb_out = UINT64_MAX;
	if (ns == 0 || (int64_t)ticks <= 0)
		return 0;
	slack = (spw_u128)(a->unc + b->unc) * NS_PER_S / ticks + (spw_u128)NS_PER_S / ns + 1;
	*err_ppb_out = (uint64_t)slack;
	return (uint64_t)(((spw_u128)ticks * NS_PER_S + ns / 2) / ns);
}

static uint64_t tsc_difference_ppb(uint64_t a, uint64_t b)
{
	uint64_t diff = a > b ? a - b : b - a;

	return (uint64_t)((spw_u128)diff * NS_PER_S / SPW_MAX(b, 1ull));
}

/* Virtual machines without a constant-rate counter, and hosts that scale the TSC, show up here as
 * two halves of different rate. */
static int tsc_check_steady(const struct spw_clock_pair pair[3])
{
	uint64_t err[2], first, second;

	first = tsc_rate_between(&pair[0], &pair[1], &err[0]);
	second = tsc_rate_between(&pair[1], &pair[2], &err[1]);
	if (first == 0 || second == 0)
		return spw_err(
			ENOTSUP,
			"the CPU's counter stands still; use a machine with a constant-rate TSC");
	if (tsc_difference_ppb(first, second) > STEADY_PPB + err[0] + err[1])
		return spw_err(ENOTSUP,
			       "the CPU's counter ran at %" PRIu64 " and then at %" PRIu64
			       " Hz; use a machine with a constant-rate TSC",
			       first, second);
	return 0;
}

static int tsc_scales_make(uint64_t hz, struct spw_tsc *tsc_out)
{
	int rc = spw_time_scale_make(hz, NS_PER_S, &tsc_out->to_ns);

	tsc_out->hz = hz;
	return rc ? rc : spw_time_scale_make(NS_PER_S, hz, &tsc_out->from_ns);
}

/* Apart from spw_tsc_calibrate so that tests can feed it invented pairs. */
int tsc_from_pairs(const struct spw_clock_pair pair[3], uint64_t arch_hz, struct spw_tsc *tsc_out)
{
	uint64_t err_ppb, hz;
	int rc = tsc_check_steady(pair);

	if (rc)
		return rc;
	hz = tsc_rate_between(&pair[0], &pair[2], &err_ppb);
	tsc_out->source = "measured";
	tsc_out->err_ppb = (uint32_t)SPW_MIN(err_ppb, (uint64_t)UINT32_MAX);
	if (arch_hz && tsc_difference_ppb(arch_hz, hz) <= STEADY_PPB + err_ppb) {
		hz = arch_hz;
		tsc_out->source = "cntfrq_el0";
	}
	return tsc_scales_make(hz, tsc_out);
}

int spw_tsc_from_hz(uint64_t hz, struct spw_tsc *tsc_out)
{
	tsc_out->source = "given";
	tsc_out->err_ppb = 0;
	return tsc_scales_make(hz, tsc_out);
}

int spw_tsc_calibrate(uint32_t window_ms, struct spw_tsc *tsc_out)
{
	clockid_t raw = CLOCK_MONOTONIC_RAW;
	struct spw_clock_pair pair[3];
	uint64_t half_ns = (uint64_t)window_ms * 500000;
	int rc;

	if (window_ms < 1 || window_ms > 10000)
		return spw_err(EINVAL, "calibration window of %u ms: 1 .. 10000", window_ms);
	for (int i = 0; i < 3; i++) {
		if (i)
			tsc_sleep_until(pair[i - 1].other, half_ns);
		rc = spw_clock_pair_take(spw_clock_read_posix, &raw, PAIR_TRIES, &pair[i]);
		if (rc)
			return spw_err_ctx(rc, "calibrating the CPU's counter");
	}
	return tsc_from_pairs(pair, spw_cpu_counter_hz(), tsc_out);
}
