/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Output files in a folder where somebody else has put something.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/spw_file.h"
#include "unit_test.h"

#define NOBODY 65534

static char folder[64], path[96], other[96];

static int setup(void **state)
{
	(void)state;
	snprintf(folder, sizeof(folder), "/tmp/spinwire-unit-XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/out", folder);
	snprintf(other, sizeof(other), "%s/other", folder);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	unlink(path);
	unlink(other);
	return rmdir(folder); /* fails if anything else was left there */
}

static void content_set(const char *at, const char *text)
{
	FILE *file = fopen(at, "w");

	assert_true(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

static void content_is(const char *at, const char *want)
{
	char got[64] = "";
	FILE *file = fopen(at, "r");

	assert_non_null(file);
	assert_true(fread(got, 1, sizeof(got) - 1, file) < sizeof(got));
	fclose(file);
	assert_string_equal(got, want);
}

static int write_whole(const char *to, const char *text, int error)
{
	struct spw_file file;
	int rc = spw_file_begin(to, 0600, &file);

	if (rc)
		return rc;
	assert_true(spw_file_put(file.fd, text, strlen(text)));
	return spw_file_end(&file, error);
}

static void test_a_link_is_not_followed(void **state)
{
	int fd;

	(void)state;
	content_set(other, "mine");
	assert_int_equal(symlink(other, path), 0);
	assert_int_equal(spw_file_create(path, &fd), -ELOOP);
	content_is(other, "mine");
	assert_int_equal(spw_file_try(path), 0);
	assert_int_equal(write_whole(path, "new", 0), 0);
	content_is(other, "mine");
	content_is(path, "new");
}

/* Below /dev, but anybody can put a link there. */
static void test_dev_shm(void **state)
{
	char link[96];
	int fd;

	(void)state;
	snprintf(link, sizeof(link), "/dev/shm/spinwire-unit-%d", (int)getpid());
	content_set(other, "mine");
	if (symlink(other, link))
		skip();
	assert_int_equal(spw_file_create(link, &fd), -ELOOP);
	assert_int_equal(write_whole(link, "new", 0), 0);
	content_is(other, "mine");
	unlink(link);
}

static void test_whole_or_not_at_all(void **state)
{
	(void)state;
	content_set(path, "old");
	assert_int_equal(spw_file_try(path), 0);
	content_is(path, "old");
	assert_int_equal(write_whole(path, "half", ENOSPC), -ENOSPC);
	assert_non_null(strstr(spw_err_text(), path));
	content_is(path, "old");
	assert_int_equal(write_whole(path, "new", 0), 0);
	content_is(path, "new");
	unlink(path);
	assert_int_equal(spw_file_try(path), 0);
	assert_int_equal(access(path, F_OK), -1);
}

static void test_devices_and_own_files(void **state)
{
	char name[32];
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(write_whole("/dev/null", "x", 0), 0);
	assert_int_equal(spw_file_try("/dev/full"), 0);
	snprintf(name, sizeof(name), "/dev/fd/%d", fd);
	assert_int_equal(spw_file_try(name), 0);
	assert_int_equal(write_whole(name, "one ", 0), 0);
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	assert_int_equal(write_whole(name, "two", 0), 0);
	close(fd);
	content_is(path, "one two");
	assert_int_equal(spw_file_create("/dev/fd/9999", &fd), -EBADF);
}

static void test_refused(void **state)
{
	static const char *const wrong[] = {"-", "/nonexistent/x", "/tmp"};
	int fd;

	(void)state;
	for (size_t i = 0; i < SPW_ARRAY_CNT(wrong); i++) {
		assert_true(spw_file_try(wrong[i]) < 0);
		assert_non_null(strstr(spw_err_text(), wrong[i]));
		assert_true(spw_file_create(wrong[i], &fd) < 0);
		assert_true(write_whole(wrong[i], "x", 0) < 0);
	}
	assert_int_equal(spw_file_try(NULL), 0);
	assert_int_equal(spw_file_try(""), 0);
	content_set(other, "mine");
	assert_int_equal(link(other, path), 0); /* a second name of one file */
	assert_int_equal(spw_file_create(path, &fd), -EPERM);
	content_is(other, "mine");
}

/* rename() cannot replace another user's file in a folder like /tmp: found before a run. */
static void test_sticky(void **state)
{
	int status;
	pid_t child;

	(void)state;
	if (geteuid())
		skip();
	content_set(path, "root's");
	assert_int_equal(chmod(folder, 01777), 0);
	child = fork();
	if (child == 0)
		_exit(setuid(NOBODY) || spw_file_try(path) != -EPERM || spw_file_try(other));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_a_link_is_not_followed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_dev_shm, setup, teardown),
		cmocka_unit_test_setup_teardown(test_whole_or_not_at_all, setup, teardown),
		cmocka_unit_test_setup_teardown(test_devices_and_own_files, setup, teardown),
		cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(test_sticky, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
