/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A flood of log lines becomes a few of them and a count.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/spw_log.h"
#include "unit_test.h"

#define FLOOD 1000u

static unsigned long long lines, suppressed;

static void count(enum spw_log_level level, const char *text, void *arg)
{
	char *end;
	unsigned long long n = strtoull(text, &end, 10);

	(void)level;
	(void)arg;
	if (end > text && strstr(end, "suppressed"))
		suppressed += n;
	else
		lines++;
}

static void flood(struct spw_log_limit *limit)
{
	for (unsigned i = 0; i < FLOOD; i++)
		spw_log_limited(limit, SPW_LOG_INFO, "line %u", i);
}

/* A second may end inside a flood, also near its end: the next second then logs up to a burst. */
static void test_a_flood(void **state)
{
	const struct timespec second = {.tv_sec = 1};
	struct spw_log_limit limit = {0};

	(void)state;
	spw_log_sink_set(count, NULL);
	flood(&limit);
	assert_in_range(lines, SPW_LOG_BURST, 2 * SPW_LOG_BURST);
	nanosleep(&second, NULL);
	spw_log_limited(&limit, SPW_LOG_INFO, "later");
	assert_int_equal(lines + suppressed, FLOOD + 1);
	assert_true(suppressed > 0);
	spw_log_limit_end(&limit);
	assert_int_equal(lines + suppressed, FLOOD + 1); /* not reported twice */
}

/* The end reports what no later line has reported; another kind of line has its own limit. */
static void test_the_end(void **state)
{
	struct spw_log_limit limit = {0}, other = {0};

	(void)state;
	spw_log_sink_set(count, NULL);
	lines = suppressed = 0;
	flood(&limit);
	spw_log_limited(&other, SPW_LOG_INFO, "other");
	spw_log_limit_end(&limit);
	spw_log_limit_end(&other);
	assert_int_equal(lines + suppressed, FLOOD + 1);
	assert_true(lines <= 2 * SPW_LOG_BURST + 1);
	assert_int_equal(other.cnt, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_flood),
					   cmocka_unit_test(test_the_end)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
