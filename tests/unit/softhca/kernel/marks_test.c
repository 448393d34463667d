/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The marks of descriptors are exact for every number: a wrong mark would cost a program with many
 * open files a lock for each call, and a deadlock at its exit.
 */
#include "kit.h"

#include <limits.h>

#include "softhca/kernel/events.h"

static const int fds[] = {0, 3, 65535, 65536, 70000, 1 << 20, INT_MAX};

static void nothing_is_marked(void)
{
	for (unsigned i = 0; i < SPW_ARRAY_CNT(fds); i++)
		assert_false(hca_mark_get(fds[i]));
	assert_false(hca_mark_get(-1));
}

static void each_alone(void **state)
{
	(void)state;
	nothing_is_marked();
	for (unsigned i = 0; i < SPW_ARRAY_CNT(fds); i++) {
		assert_int_equal(hca_mark_set(fds[i], HCA_MARK_FILE), 0);
		for (unsigned k = 0; k < SPW_ARRAY_CNT(fds); k++)
			assert_int_equal(hca_mark_get(fds[k]), k == i);
		hca_mark_clear(fds[i]);
	}
	nothing_is_marked();
}

static void all_go_at_once(void **state)
{
	(void)state;
	for (unsigned i = 0; i < SPW_ARRAY_CNT(fds); i++)
		assert_int_equal(hca_mark_set(fds[i], HCA_MARK_FILE), 0);
	hca_marks_clear();
	nothing_is_marked();
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(each_alone),
					   cmocka_unit_test(all_go_at_once)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
