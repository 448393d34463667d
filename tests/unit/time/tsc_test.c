/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Calibration from made-up pairs and on this machine, and pairs of clocks that fail or that
 * somebody else refreshes.
 */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "time/time_impl.h"
#include "unit_test.h"

#define NS_PER_S 1000000000ull

/* A pair taken at ns, when the counter really showed hz * ns; the bracket lies anywhere around it.
 */
static struct spw_clock_pair pair_made(uint64_t *seed, uint64_t hz, uint64_t ns)
{
	uint64_t truth = (uint64_t)((spw_u128)ns * hz / NS_PER_S) + (1ull << 40);
	uint64_t unc = 1 + unit_random(seed) % 300;

	return (struct spw_clock_pair){ns, truth + unit_random(seed) % (2 * unc + 1) - unc, unc};
}

static void stated_error_holds(void **state)
{
	uint64_t seed = 3;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		uint64_t hz = 20000000 + unit_random(&seed) % 6000000000ull,
			 half = 500000 + unit_random(&seed) % 50000000;
		uint64_t off, start = unit_random(&seed) % (1ull << 50);
		struct spw_clock_pair pair[3];
		struct spw_tsc tsc;

		for (uint64_t k = 0; k < 3; k++)
			pair[k] = pair_made(&seed, hz, start + k * half);
		assert_int_equal(tsc_from_pairs(pair, 0, &tsc), 0);
		off = tsc.hz > hz ? tsc.hz - hz : hz - tsc.hz;
		assert_true((long double)off / hz * 1e9L <= tsc.err_ppb + 1e9L / hz);
		assert_string_equal(tsc.source, "measured");
	}
}

static void architecture_is_believed_only_if_it_agrees(void **state)
{
	uint64_t seed = 4;
	struct spw_clock_pair pair[3];
	struct spw_tsc tsc;

	(void)state;
	for (uint64_t k = 0; k < 3; k++)
		pair[k] = pair_made(&seed, 1000000000, k * 20000000);
	assert_int_equal(tsc_from_pairs(pair, 1000000000, &tsc), 0);
	assert_int_equal(tsc.hz, 1000000000);
	assert_string_equal(tsc.source, "cntfrq_el0");
	assert_int_equal(tsc_from_pairs(pair, 62500000, &tsc), 0);
	assert_string_equal(tsc.source, "measured");
	assert_in_range(tsc.hz, 999900000, 1000100000);
}

static void unsteady_counter_is_refused(void **state)
{
	struct spw_clock_pair pair[3] = {
		{0, 1000, 10}, {10000000, 26001000, 10}, {20000000, 40001000, 10}};
	struct spw_tsc tsc;

	(void)state;
	assert_int_equal(tsc_from_pairs(pair, 0, &tsc), -ENOTSUP);
	assert_non_null(strstr(spw_err_text(), "constant-rate"));
	pair[1].ref = pair[2].ref = 1000;
	assert_int_equal(tsc_from_pairs(pair, 0, &tsc), -ENOTSUP);
	assert_non_null(strstr(spw_err_text(), "stands still"));
}

static void this_machine_calibrates(void **state)
{
	clockid_t raw = CLOCK_MONOTONIC_RAW;
	struct timespec nap = {.tv_nsec = 30000000};
	struct spw_clock_pair a, b;
	struct spw_tsc tsc;
	uint64_t ns, want, slack;

	(void)state;
	if (getenv("MESON_EXE_WRAPPER"))
		skip(); /* an emulator's clocks do not agree with each other */
	assert_int_equal(spw_tsc_calibrate(0, &tsc), -EINVAL);
	assert_int_equal(spw_tsc_calibrate(10001, &tsc), -EINVAL);
	assert_int_equal(spw_tsc_calibrate(20, &tsc), 0);
	assert_int_equal(spw_clock_pair_take(spw_clock_read_posix, &raw, 100, &a), 0);
	nanosleep(&nap, NULL);
	assert_int_equal(spw_clock_pair_take(spw_clock_read_posix, &raw, 100, &b), 0);
	ns = spw_tsc_to_ns(&tsc, b.ref - a.ref);
	want = b.other - a.other;
	slack = spw_tsc_to_ns(&tsc, a.unc + b.unc) + want / 1000 * tsc.err_ppb / 1000000 + 3;
	assert_in_range(ns, want - slack, want + slack);
	assert_in_range(spw_tsc_from_ns(&tsc, ns), b.ref - a.ref - 10, b.ref - a.ref + 10);
}

static int never(void *arg, uint64_t *value_out)
{
	(void)value_out;
	*(int *)arg += 1;
	return -EIO;
}

static int third_time(void *arg, uint64_t *value_out)
{
	*value_out = 77;
	return ++*(int *)arg == 3 ? 0 : -EAGAIN;
}

static void pair_reports_a_clock_that_fails(void **state)
{
	clockid_t none = 9999;
	struct spw_clock_pair pair;
	int calls = 0;

	(void)state;
	assert_int_equal(spw_clock_pair_take(never, &calls, 5, &pair), -EIO);
	assert_int_equal(calls, 5);
	calls = 0;
	assert_int_equal(spw_clock_pair_take(third_time, &calls, 5, &pair), 0);
	assert_int_equal(pair.other, 77);
	assert_true(pair.unc > 0);
	assert_int_equal(spw_clock_pair_take(never, &calls, 0, &pair), -EINVAL);
	assert_int_equal(spw_clock_pair_take(spw_clock_read_posix, &none, 1, &pair), -EINVAL);
}

/* A clock that somebody else refreshes: what it shows was true when it appeared, never when it is
 * read. */
struct stepped {
	uint64_t shown, next; /* our counter, as of the last refresh; when it is due again */
	uint64_t every, reads;
	bool stands, stands_soon; /* soon: after one more step */
};

static int read_stepped(void *arg, uint64_t *value_out)
{
	struct stepped *s = arg;
	uint64_t now = spw_tsc_now_ordered();

	if (!s->stands && now >= s->next) {
		s->stands = s->stands_soon && s->shown;
		s->shown = now;
		s->next = now + s->every;
	}
	s->reads++;
	*value_out = s->shown;
	return 0;
}

static void stepped_clock_is_bracketed(void **state)
{
	struct stepped s = {.every = 100000};
	struct spw_clock_pair pair;

	(void)state;
	for (int i = 0; i < 200; i++) {
		assert_int_equal(spw_clock_pair_step(read_stepped, &s, 3, 1000000, &pair), 0);
		assert_in_range(pair.other, pair.ref - pair.unc, pair.ref + pair.unc);
	}
	assert_int_equal(spw_clock_pair_step(read_stepped, &s, 0, 10, &pair), -EINVAL);
	assert_int_equal(spw_clock_pair_step(read_stepped, &s, 1, 1, &pair), -EINVAL);
	s.stands = true;
	assert_int_equal(spw_clock_pair_step(read_stepped, &s, 1, 100, &pair), -ETIME);
	/* one new value is found, and no other is waited for */
	s = (struct stepped){.every = 1000, .stands_soon = true};
	assert_int_equal(spw_clock_pair_step(read_stepped, &s, 10, 1000000, &pair), 0);
	assert_in_range(pair.other, pair.ref - pair.unc, pair.ref + pair.unc);
	assert_true(s.reads < 10000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stated_error_holds),
		cmocka_unit_test(architecture_is_believed_only_if_it_agrees),
		cmocka_unit_test(unsteady_counter_is_refused),
		cmocka_unit_test(this_machine_calibrates),
		cmocka_unit_test(pair_reports_a_clock_that_fails),
		cmocka_unit_test(stepped_clock_is_bracketed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
