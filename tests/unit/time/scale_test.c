/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Conversions between tick rates, against exact arithmetic.
 */
#include <errno.h>

#include "time/time_impl.h"
#include "unit_test.h"

#define NS_PER_S 1000000000ull

/* from * to_hz / from_hz without loss, in two steps so that 128 bits are enough */
static uint64_t exact(uint64_t from, uint64_t from_hz, uint64_t to_hz)
{
	spw_u128 whole = (spw_u128)(from / from_hz) * to_hz;

	return (uint64_t)(whole + (spw_u128)(from % from_hz) * to_hz / from_hz);
}

static void scale_is_exact_over_all_rates(void **state)
{
	uint64_t seed = 1;

	(void)state;
	for (int i = 0; i < 200000; i++) {
		uint64_t from_hz = 1000 + unit_random_log(&seed, 39) % 999999999000ull;
		uint64_t to_hz = 1000 + unit_random_log(&seed, 39) % 999999999000ull;
		uint64_t from = unit_random_log(&seed, 62), want, got;
		struct spw_time_scale scale;

		if ((long double)from * to_hz / from_hz > 9e18L)
			continue;
		assert_int_equal(spw_time_scale_make(from_hz, to_hz, &scale), 0);
		assert_true(scale.mult >> 61 != 0 && scale.mult <= 1ull << 63);
		want = exact(from, from_hz, to_hz);
		got = spw_time_scale_apply(scale, from);
		assert_in_range(got - want + 1 + (want >> 60), 0, 2 + 2 * (want >> 60));
	}
}

static void scale_holds_for_five_centuries(void **state)
{
	const uint64_t years_s = 500ull * 365 * 86400;
	struct spw_time_scale to_ns, from_ns;

	(void)state;
	assert_int_equal(spw_time_scale_make(1000000000, NS_PER_S, &to_ns), 0);
	assert_int_equal(spw_time_scale_apply(to_ns, years_s * NS_PER_S), years_s * NS_PER_S);
	/* 2^64 ticks of 31.25 MHz are 18,700 years; the nanoseconds overflow first, after 584
	 * years. */
	assert_int_equal(spw_time_scale_make(31250000, NS_PER_S, &to_ns), 0);
	assert_int_equal(spw_time_scale_apply(to_ns, years_s * 31250000), years_s * NS_PER_S);
	assert_int_equal(spw_time_scale_make(NS_PER_S, 31250000, &from_ns), 0);
	assert_int_equal(spw_time_scale_apply(from_ns, years_s * NS_PER_S), years_s * 31250000);
}

static void scale_refuses_rates_out_of_range(void **state)
{
	const uint64_t bad[] = {0, 1, 999, 1000000000001ull, UINT64_MAX};
	struct spw_time_scale scale;

	(void)state;
	for (size_t i = 0; i < SPW_ARRAY_CNT(bad); i++) {
		assert_int_equal(spw_time_scale_make(bad[i], 1000, &scale), -ERANGE);
		assert_int_equal(spw_time_scale_make(1000, bad[i], &scale), -ERANGE);
		assert_non_null(strstr(spw_err_text(), "1 kHz .. 1 THz"));
	}
	assert_int_equal(spw_time_scale_make(1000, 1000000000000ull, &scale), 0);
	assert_int_equal(spw_time_scale_apply(scale, 7), 7000000000ull);
	assert_int_equal(spw_time_scale_make(1000000000000ull, 1000, &scale), 0);
	assert_in_range(spw_time_scale_apply(scale, 7000000000ull), 6, 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(scale_is_exact_over_all_rates),
		cmocka_unit_test(scale_holds_for_five_centuries),
		cmocka_unit_test(scale_refuses_rates_out_of_range),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
