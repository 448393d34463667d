/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The user outside: of this process, of one in a namespace, and of one in a namespace within.
 */
#include "../unit_test.h"
#include "../unit_userns.h"

#include "base/spw_uid.h"

static int is_outer(unsigned uid)
{
	return spw_uid_outer() != uid;
}

static int is_nobody(unsigned uid SPW_UNUSED)
{
	return spw_uid_outer() != 65534;
}

static void as_it_is(void **state SPW_UNUSED)
{
	assert_int_equal(spw_uid_outer(), geteuid());
}

static void expect(int depth, int (*body)(unsigned uid))
{
	const int rc = unit_userns_run(depth, body);

	if (rc == UNIT_USERNS_NONE)
		skip();
	assert_int_equal(rc, 0);
}

static void in_a_namespace(void **state SPW_UNUSED)
{
	expect(1, is_outer);
}

static void in_a_namespace_within(void **state SPW_UNUSED)
{
	expect(2, is_nobody);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(as_it_is),
					   cmocka_unit_test(in_a_namespace),
					   cmocka_unit_test(in_a_namespace_within)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
