/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Programs that spinwire-perf starts: their lines, and no descriptor left open when one cannot be
 * started.
 */
#include <dirent.h>
#include <errno.h>
#include <sys/resource.h>
#include <unistd.h>

#include "control/child.h"
#include "unit_test.h"

static char *cat[] = {"cat", NULL};
static bool no_fork;

pid_t __real_fork(void);
pid_t __wrap_fork(void); /* of the linker's --wrap=fork */

pid_t __wrap_fork(void)
{
	if (!no_fork)
		return __real_fork();
	errno = EAGAIN;
	return -1;
}

/* With three more, each time: ".", ".." and the folder itself. */
static uint32_t open_cnt(void)
{
	DIR *fds = opendir("/proc/self/fd");
	uint32_t n = 0;

	assert_non_null(fds);
	while (readdir(fds))
		n++;
	closedir(fds);
	return n;
}

static void a_child_answers_and_ends(void **state SPW_UNUSED)
{
	const uint32_t before = open_cnt();
	struct perf_child child;
	char line[16];

	assert_int_equal(perf_child_start(cat, &child), 0);
	assert_int_equal(write(child.in, "a line\n", 7), 7);
	assert_int_equal(perf_child_line(&child, 20000, line, sizeof(line)), 0);
	assert_string_equal(line, "a line");
	perf_child_end(&child);
	assert_int_equal(open_cnt(), before);
}

static void no_process_is_left_for_it(void **state SPW_UNUSED)
{
	const uint32_t before = open_cnt();
	struct perf_child child;

	no_fork = true;
	assert_int_equal(perf_child_start(cat, &child), -EIO);
	no_fork = false;
	assert_string_equal(spw_err_text(), "cat: Resource temporarily unavailable");
	assert_int_equal(open_cnt(), before);
}

/* There is room for 0 to 3 of the four descriptors that it needs. */
static void no_descriptor_is_left_for_it(void **state SPW_UNUSED)
{
	const uint32_t before = open_cnt();
	const rlim_t free_fd = (rlim_t)dup(STDERR_FILENO);
	struct rlimit all, few;

	close((int)free_fd);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &all), 0);
	for (uint32_t room = 0; room < 4; room++) {
		struct perf_child child;
		int rc;

		few = (struct rlimit){free_fd + room, all.rlim_max};
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
		rc = perf_child_start(cat, &child);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &all), 0);
		assert_int_equal(rc, -EIO);
		assert_string_equal(spw_err_text(), "cat: Too many open files");
		assert_int_equal(open_cnt(), before);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_child_answers_and_ends),
		cmocka_unit_test(no_process_is_left_for_it),
		cmocka_unit_test(no_descriptor_is_left_for_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
