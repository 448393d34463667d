/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Which scripts beside a program are run: those that nobody else can have put there, or can change.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app_tool.h"
#include "unit_test.h"

#define STRANGER 65533u

static char base[64], own[96], tools[96], script[128];

static void make_file(const char *path, mode_t mode)
{
	const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(chmod(path, mode), 0);
}

static int setup(void **state SPW_UNUSED)
{
	strcpy(base, "/tmp/spw-tool-XXXXXX");
	assert_non_null(mkdtemp(base));
	snprintf(own, sizeof(own), "%s/program", base);
	snprintf(tools, sizeof(tools), "%s/tools", base);
	snprintf(script, sizeof(script), "%s/script", tools);
	assert_int_equal(mkdir(tools, 0755), 0);
	make_file(own, 0755);
	make_file(script, 0755);
	return 0;
}

static int teardown(void **state SPW_UNUSED)
{
	return unlink(script) | rmdir(tools) | unlink(own) | rmdir(base);
}

static void of_this_user(void **state SPW_UNUSED)
{
	assert_true(app_tool_is_trusted(script, own));
	assert_false(app_tool_is_trusted("/nonexistent/script", own));
	assert_false(app_tool_is_trusted(script, "/nonexistent/program"));
}

static void that_others_may_write(void **state SPW_UNUSED)
{
	assert_int_equal(chmod(script, 0757), 0);
	assert_false(app_tool_is_trusted(script, own));
	assert_int_equal(chmod(script, 0775), 0);
	assert_false(app_tool_is_trusted(script, own));
	assert_int_equal(chmod(own, 0775), 0); /* the same group may write the program, too */
	assert_true(app_tool_is_trusted(script, own));
	assert_int_equal(chmod(script, 0755), 0);
	assert_int_equal(chmod(tools, 01777), 0);
	assert_false(app_tool_is_trusted(script, own));
}

/* Root runs its own program, which lies in a shared folder. */
static void of_another_user(void **state SPW_UNUSED)
{
	if (geteuid() != 0)
		skip();
	assert_int_equal(chown(script, STRANGER, STRANGER), 0);
	assert_false(app_tool_is_trusted(script, own));
	assert_int_equal(chown(script, 0, 0), 0);
	assert_int_equal(chown(tools, STRANGER, STRANGER), 0);
	assert_false(app_tool_is_trusted(script, own));
	assert_int_equal(chown(script, STRANGER, STRANGER), 0);
	assert_int_equal(chown(own, STRANGER, STRANGER), 0); /* sudo in a user's own tree */
	assert_true(app_tool_is_trusted(script, own));
}

static void of_this_tree(void **state SPW_UNUSED)
{
	const char *found = app_tool_find("no-such-program-of-spinwire", "no-such-tool");

	assert_string_equal(found, "no-such-program-of-spinwire");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(of_this_user, setup, teardown),
		cmocka_unit_test_setup_teardown(that_others_may_write, setup, teardown),
		cmocka_unit_test_setup_teardown(of_another_user, setup, teardown),
		cmocka_unit_test(of_this_tree),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
