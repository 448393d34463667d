/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The lines of a short result, and the advice that it names in place of the log.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app_brief.h"
#include "app_program.h"
#include "base/spw_log.h"
#include "unit_test.h"

/* What a print writes to a stream, "" before it; the caller frees it. */
#define CAUGHT(stream, print)                             \
	({                                                \
		FILE *kept = stream;                      \
		char *caught = NULL;                      \
		size_t bytes;                             \
		stream = open_memstream(&caught, &bytes); \
		print;                                    \
		fclose(stream);                           \
		stream = kept;                            \
		caught;                                   \
	})

static void a_time_has_the_unit_that_fits(void **state SPW_UNUSED)
{
	char out[APP_BRIEF_TIME_BYTES];

	assert_string_equal(app_brief_time(0, out), "0.00 us");
	assert_string_equal(app_brief_time(2460, out), "2.46 us");
	assert_string_equal(app_brief_time(10254930, out), "10.25 ms");
	assert_string_equal(app_brief_time(1036179300, out), "1.04 s");
	assert_string_equal(app_brief_time(UINT64_MAX, out), "18446744073.71 s");
}

static void what_has_no_number_is_said(void **state SPW_UNUSED)
{
	uint64_t value[SPW_HIST_POINT_CNT] = {[SPW_HIST_POINT_p50] = 2460};
	enum spw_hist_answer answer[SPW_HIST_POINT_CNT] = {[SPW_HIST_POINT_p99] = SPW_HIST_TOO_FEW,
							   [SPW_HIST_POINT_p999] = SPW_HIST_LOST,
							   [SPW_HIST_POINT_max] =
								   SPW_HIST_OVERFLOW};
	char *text =
		CAUGHT(stdout, app_brief_points("round trip", value, answer, "there and back"));

	assert_string_equal(
		text, "round trip p50 2.46 us, p99 -, p99.9 lost, longest over: there and back\n");
	free(text);
}

static void three_causes_at_most(void **state SPW_UNUSED)
{
	struct app_brief_cause cause[] = {{"one", "", 10},
					  {"none", "", 0},
					  {"four", "", 40},
					  {"two", "", 20},
					  {"three", "", 30}};
	struct app_brief_cause quiet[] = {{"one", "", 0}};
	uint64_t above = 0;
	char *text = CAUGHT(stdout, above = app_brief_slow(100000, 400, cause, 5));

	assert_int_equal(above, 100);
	assert_string_equal(cause[0].name, "four");
	assert_string_equal(text, "slow       100 of 400 frames took more than 100.00 us: four "
				  "40.0 %, three 30.0 %, two 20.0 %\n");
	free(text);
	text = CAUGHT(stdout, above = app_brief_slow(100000, 400, quiet, 1));
	assert_int_equal(above, 0);
	assert_string_equal(text, "slow       0 of 400 frames took more than 100.00 us\n");
	free(text);
}

/* Printed as it comes; once held, only its codes are named, each once. */
static void advice_is_held(void **state SPW_UNUSED)
{
	char *text;

	app_program_start("program");
	text = CAUGHT(stderr, spw_advise("cores-shared: core 1 is not isolated"));
	assert_string_equal(text, "program: advice: cores-shared: core 1 is not isolated\n");
	free(text);
	app_advice_hold();
	text = CAUGHT(stderr, (spw_advise("hugepages-none: none is free: echo 8"),
			       spw_advise("cores-shared: core 2"), spw_warn("something else")));
	assert_string_equal(text, "program: warning: something else\n");
	free(text);
	assert_string_equal(app_advice_codes(), "cores-shared, hugepages-none");
	text = CAUGHT(stdout, app_brief_end("--full"));
	assert_string_equal(text,
			    "machine    latency here suffers from cores-shared, "
			    "hugepages-none: see spinwire-doctor --full\nnext       --full\n");
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_time_has_the_unit_that_fits),
		cmocka_unit_test(what_has_no_number_is_said),
		cmocka_unit_test(three_causes_at_most),
		cmocka_unit_test(advice_is_held),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
