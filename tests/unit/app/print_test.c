/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Everything that a program prints passes the filter, wherever the buffer of the stream ends.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "app_print.h"
#include "unit_test.h"

#define PARTS 5000u

static int kept[2], pipe_fd[2];

static void catch (int fd)
{
	assert_int_equal(pipe(pipe_fd), 0);
	kept[fd - 1] = dup(fd);
	assert_int_equal(dup2(pipe_fd[1], fd), fd);
	close(pipe_fd[1]);
}

static size_t caught(int fd, char *out, size_t bytes)
{
	size_t used = 0;
	ssize_t n;

	dup2(kept[fd - 1], fd);
	close(kept[fd - 1]);
	while ((n = read(pipe_fd[0], out + used, bytes - used)) > 0)
		used += (size_t)n;
	close(pipe_fd[0]);
	return used;
}

/* Characters of 3 bytes do not fit a buffer of 2^n evenly, and each comes out whole. */
static void test_whole_characters(void **state)
{
	static char out[4 * PARTS];
	size_t bytes;

	(void)state;
	catch (STDOUT_FILENO);
	app_print_start();
	for (uint32_t i = 0; i < PARTS; i++)
		fputs("\xe2\x82\xac", stdout);
	assert_int_equal(fflush(stdout), 0);
	bytes = caught(STDOUT_FILENO, out, sizeof(out));
	assert_int_equal(bytes, 3 * PARTS);
	for (size_t i = 0; i < bytes; i += 3)
		assert_memory_equal(out + i, "\xe2\x82\xac", 3);
}

static void test_controls(void **state)
{
	static const char want[] = "a\tb\nt \\u001b]0;x\\u0007\\xe2\n\xc2\xb5 \\u009b\\xff|\n";
	char out[128];

	(void)state;
	catch (STDERR_FILENO);
	app_print_start();
	fprintf(stderr, "a\tb\n%s %s\n", "t", "\x1b]0;x\x07\xe2");
	fputs("\xc2", stderr);
	fprintf(stderr, "\xb5 \xc2\x9b\xff|\n");
	assert_int_equal(caught(STDERR_FILENO, out, sizeof(out)), sizeof(want) - 1);
	assert_memory_equal(out, want, sizeof(want) - 1);
}

/* A disk that is full shows as an error of the stream, as with every other. */
static void test_full(void **state)
{
	int fd = dup(STDOUT_FILENO);
	FILE *full = fopen("/dev/full", "w");

	(void)state;
	assert_non_null(full);
	dup2(fileno(full), STDOUT_FILENO);
	app_print_start();
	printf("lost\n");
	assert_int_equal(fflush(stdout), EOF);
	assert_true(ferror(stdout));
	dup2(fd, STDOUT_FILENO);
	close(fd);
	fclose(full);
	app_print_start();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole_characters),
		cmocka_unit_test(test_controls),
		cmocka_unit_test(test_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
