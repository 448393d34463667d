/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What a program that was interrupted prints, and its status; and that nothing is printed of what
 * is over soon, where stderr is no terminal. e2e_signal_* has the line on a terminal.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app_life.h"
#include "unit_test.h"

/* What a child writes to stderr. Returns: its wait status. */
static int caught(void (*body)(void), char *out, size_t bytes)
{
	int fd[2], status;
	size_t used = 0;
	ssize_t n;
	pid_t child;

	assert_int_equal(pipe2(fd, O_CLOEXEC), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		dup2(fd[1], STDERR_FILENO);
		body();
		_exit(7);
	}
	close(fd[1]);
	while ((n = read(fd[0], out + used, bytes - 1 - used)) > 0)
		used += (size_t)n;
	close(fd[0]);
	out[used] = '\0';
	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

static void of_eight(void)
{
	_exit(app_life_interrupted("program", SIGINT, 2149999999, 8000000000));
}

static void of_half(void)
{
	_exit(app_life_interrupted("program", SIGTERM, 0, 500000000));
}

static void of_unknown(void)
{
	_exit(app_life_interrupted("program", SIGINT, 61000000000, 0));
}

static void of_too_few(void)
{
	_exit(app_life_interrupted("program", SIGINT, 9200000000, 8000000000));
}

static void the_line_has_how_far_it_was(void **state SPW_UNUSED)
{
	char out[256];

	assert_int_equal(WEXITSTATUS(caught(of_eight, out, sizeof(out))), 130);
	assert_string_equal(out, "program: interrupted after 2.1 s of 8\n");
	assert_int_equal(WEXITSTATUS(caught(of_half, out, sizeof(out))), 143);
	assert_string_equal(out, "program: interrupted after 0.0 s of 0.5\n");
	assert_int_equal(WEXITSTATUS(caught(of_unknown, out, sizeof(out))), 130);
	assert_string_equal(out, "program: interrupted after 61.0 s\n");
	assert_int_equal(WEXITSTATUS(caught(of_too_few, out, sizeof(out))), 130);
	assert_string_equal(out, "program: interrupted after 9.2 s\n");
}

static void killed_in_a_phase(void)
{
	app_life_ends("program");
	app_life_start("program");
	app_life_phase(0, "packing");
	app_life_phase(8000000000, "writing\033[31m %s", "it");
	raise(SIGINT);
}

static void an_interrupt_names_the_phase(void **state SPW_UNUSED)
{
	char out[256];

	assert_int_equal(WEXITSTATUS(caught(killed_in_a_phase, out, sizeof(out))), 130);
	assert_string_equal(out, "program: interrupted after 0.0 s of 8: writing\\u001b[31m it\n");
}

static void killed_a_step_on(void)
{
	app_life_ends("program");
	app_life_phase(0, "reading");
	usleep(100000);
	app_life_step(3000000000, "row 2");
	raise(SIGTERM);
}

static void a_step_keeps_the_clock(void **state SPW_UNUSED)
{
	char out[256], after;
	float took_s;

	assert_int_equal(WEXITSTATUS(caught(killed_a_step_on, out, sizeof(out))), 143);
	assert_int_equal(
		sscanf(out, "program: interrupted after %f s of 3: row %c", &took_s, &after), 2);
	assert_true(took_s >= 0.1f && after == '2');
}

static void quick(void)
{
	app_life_start("program");
	app_life_phase(0, "packing");
	usleep(400000);
	app_life_clear();
	app_life_phase(0, "%s", "");
}

static void what_is_over_soon_has_no_line(void **state SPW_UNUSED)
{
	char out[256];

	assert_int_equal(WEXITSTATUS(caught(quick, out, sizeof(out))), 7);
	assert_string_equal(out, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_line_has_how_far_it_was),
		cmocka_unit_test(an_interrupt_names_the_phase),
		cmocka_unit_test(a_step_keeps_the_clock),
		cmocka_unit_test(what_is_over_soon_has_no_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
