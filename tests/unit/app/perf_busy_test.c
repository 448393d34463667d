/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * spinwire-perf: what it says of machines that are too busy for its figures.
 */
#include <stdio.h>

#include "result/busy.h"
#include "unit_test.h"

/* Of two readings only cores of the mask count, idle is idle and waiting for I/O, and guests are
 * not counted twice. */
static void load_of_the_cores(void **state)
{
	static const char before[] =
		"cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 10 0 10 100 0 0 0 0 5 0\n"
		"cpu1 0 0 0 50 50 0 0 0 0 0\ncpu10 0 0 0 0 0 0 0 0 0 0\nintr 1\n",
			  after[] =
				  "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 15 0 10 103 0 0 0 2 9 0\n"
				  "cpu1 0 0 0 55 55 0 0 0 0 0\ncpu10 7 0 0 0 0 0 0 0 0 0\nintr 1\n";
	cpu_set_t cores;

	(void)state;
	CPU_ZERO(&cores);
	CPU_SET(0, &cores);
	CPU_SET(1, &cores);
	CPU_SET(2, &cores);
	assert_int_equal(perf_busy_between(before, after, &cores), 70);
	CPU_SET(10, &cores);
	assert_int_equal(perf_busy_between(before, after, &cores), 170);
	assert_int_equal(perf_busy_between(after, before, &cores), 0);
	assert_int_equal(perf_busy_between(before, "", &cores), 0);
}

/* Only what takes a core from a thread of this run; of both ends, or of the one machine that both
 * are on. */
static void what_makes_figures_worse(void **state)
{
	static struct perf_session s;
	char text[512];

	(void)state;
	snprintf(s.own.host, sizeof(s.own.host), "spark");
	snprintf(s.peer.host, sizeof(s.peer.host), "peer");
	s.own.cores = s.peer.cores = 2;
	s.own.busy_percent = 90;
	perf_busy_text(&s, false, text, sizeof(text));
	assert_string_equal(text, "");
	s.own.busy_percent = 130;
	perf_busy_text(&s, false, text, sizeof(text));
	assert_string_equal(text, "spark: other programs took 1.3 of 2 cores");
	s.own.software = s.peer.software = true;
	s.rails.cnt = 1;
	snprintf(s.peer.finding[s.peer.finding_cnt++].code, 32, "cores-governor");
	s.own.busy_percent = 0;
	perf_busy_text(&s, false, text, sizeof(text));
	assert_string_equal(text, "peer: its frequency governor saves power");
	perf_busy_text(&s, true, text, sizeof(text));
	assert_string_equal(text, "spark: 4 threads poll on 2 cores");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(load_of_the_cores),
		cmocka_unit_test(what_makes_figures_worse),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
