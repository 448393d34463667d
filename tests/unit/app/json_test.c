/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Summaries that are there whole or not at all.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit_test.h"

#include "app_file.h"
#include "app_json.h"

#define OLD "the last good summary\n"

static char folder[64], path[96];

static int setup(void **state)
{
	(void)state;
	snprintf(folder, sizeof(folder), "/tmp/spinwire-unit-XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/summary.json", folder);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(folder); /* fails if anything else was left there */
}

static void old_summary(void)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_true(fputs(OLD, file) >= 0 && fclose(file) == 0);
}

static void assert_content(const char *want)
{
	char got[64] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_true(read(fd, got, sizeof(got) - 1) >= 0);
	close(fd);
	assert_string_equal(got, want);
}

static json_t *small(void)
{
	return json_pack("{s:i}", "a", 1);
}

static json_t *large(void)
{
	json_t *rows = json_array();

	for (int i = 0; i < 10000; i++)
		json_array_append_new(rows, json_integer(i));
	return rows;
}

static void test_replaces(void **state)
{
	(void)state;
	old_summary();
	assert_int_equal(app_file_take("--json", path), 0);
	assert_content(OLD);
	assert_int_equal(app_json_write("--json", small(), path), 0);
	assert_content("{\n \"a\": 1\n}\n");
}

static void test_no_room(void **state)
{
	struct rlimit was, limit;

	(void)state;
	old_summary();
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
	limit = (struct rlimit){.rlim_cur = 4096, .rlim_max = was.rlim_max};
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_int_equal(app_json_write("--json", large(), path), -EIO);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
	assert_non_null(strstr(spw_err_text(), path));
	assert_content(OLD);
}

static void test_unwritable(void **state)
{
	static const char *const wrong[] = {"/nonexistent/x.json", "/tmp"};

	(void)state;
	for (size_t i = 0; i < SPW_ARRAY_CNT(wrong); i++) {
		assert_int_equal(app_file_take("--json", wrong[i]), -EIO);
		assert_non_null(strstr(spw_err_text(), wrong[i]));
	}
}

static void test_nothing_wanted(void **state)
{
	(void)state;
	assert_int_equal(app_file_take("--json", NULL), 0);
	assert_int_equal(app_file_take("--json", ""), 0);
}

/* A link that someone laid is replaced, not followed. */
static void test_link(void **state)
{
	char target[128];
	struct stat st;

	(void)state;
	snprintf(target, sizeof(target), "%s/target", folder);
	assert_int_equal(symlink(target, path), 0);
	assert_int_equal(app_json_write("--json", small(), path), 0);
	assert_int_equal(lstat(path, &st), 0);
	assert_true(S_ISREG(st.st_mode));
	assert_int_equal(access(target, F_OK), -1);
}

static void test_device(void **state)
{
	struct stat st;

	(void)state;
	assert_int_equal(app_file_take("--json", "/dev/null"), 0);
	assert_int_equal(app_json_write("--json", small(), "/dev/null"), 0);
	assert_int_equal(stat("/dev/null", &st), 0);
	assert_true(S_ISCHR(st.st_mode));
	assert_int_equal(app_json_write("--receipt", small(), "/dev/full"), -EIO);
	assert_memory_equal(spw_err_text(), "--receipt: /dev/full: ", 22);
	assert_int_equal(app_json_write("--json", NULL, path), -ENOMEM);
}

/* Standard output into a file is written in place: it is not renamed over. */
static void test_stdout(void **state)
{
	int was = dup(STDOUT_FILENO), fd;
	struct stat st;

	(void)state;
	old_summary();
	fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	assert_true(was >= 0 && fd >= 0);
	fflush(stdout);
	dup2(fd, STDOUT_FILENO);
	assert_int_equal(app_file_take("--json", "/proc/self/fd/1"), 0);
	assert_int_equal(app_json_write("--json", small(), "/proc/self/fd/1"), 0);
	dup2(was, STDOUT_FILENO);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_nlink, 1);
	close(fd);
	close(was);
}

static void test_csv(void **state)
{
	json_t *rows = json_pack("[{s:s,s:i,s:n},{s:s,s:f,s:b}]", "a", "say \"x, y\"", "n", 1, "no",
				 "a", "two\nlines", "n", 0.5, "no", 1);

	(void)state;
	assert_int_equal(app_json_csv(rows, path), 0);
	assert_content("a,n,no\n\"say \"\"x, y\"\"\",1,\n\"two\nlines\",0.5,true\n");
	assert_int_equal(app_json_csv(json_array(), path), 0);
	assert_content("");
	assert_int_equal(app_json_csv(NULL, path), -ENOMEM);
}

/* What is printed after "-" was taken goes to stderr, and a second report is refused. */
static void test_dash(void **state)
{
	int was = dup(STDOUT_FILENO), err = dup(STDERR_FILENO), fd;

	(void)state;
	old_summary();
	fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	assert_true(was >= 0 && err >= 0 && fd >= 0);
	fflush(stdout);
	dup2(fd, STDOUT_FILENO);
	dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO);
	assert_int_equal(app_file_take("--json", "-"), 0);
	printf("a line of a plug-in\n");
	fflush(stdout);
	assert_int_equal(app_json_write("--json", small(), "-"), 0);
	assert_int_equal(app_file_take("--csv", "-"), -EINVAL);
	dup2(was, STDOUT_FILENO);
	dup2(err, STDERR_FILENO);
	assert_non_null(strstr(spw_err_text(), "--json - and --csv -"));
	assert_content("{\n \"a\": 1\n}\n");
	close(fd);
	close(was);
	close(err);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_replaces, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_room, setup, teardown),
		cmocka_unit_test_setup_teardown(test_link, setup, teardown),
		cmocka_unit_test_setup_teardown(test_stdout, setup, teardown),
		cmocka_unit_test_setup_teardown(test_csv, setup, teardown),
		cmocka_unit_test_setup_teardown(test_dash, setup, teardown),
		cmocka_unit_test(test_unwritable),
		cmocka_unit_test(test_nothing_wanted),
		cmocka_unit_test_setup_teardown(test_device, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
