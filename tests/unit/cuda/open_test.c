/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Which CUDA module is opened, which is refused and with what words, and that its errors and log
 * lines are the program's. The modules are fake ones; neither nvcc nor a GPU is needed. The test
 * calls itself: "open" prints what spw_cuda_open makes of the environment. */
#include "../unit_test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda/spw_cuda.h"
#include "fake.h"

#define NOBODY 65534

static const char *fitting, *other;

static int open_and_print(void)
{
	const struct spw_cuda_module *module;
	int rc = spw_cuda_open(&module);

	printf("%s%s", getauxval(AT_SECURE) ? "with rights: " : "", rc ? spw_err_text() : "opened");
	return 0;
}

/* What "PROGRAM open" prints in a process of its own, for a module is opened once. */
static void run_open(const char *program, const char *module, uid_t as, char text[1024])
{
	int fd[2], status;
	ssize_t n;
	pid_t child;

	assert_int_equal(pipe(fd), 0);
	child = fork();
	if (child == 0) {
		dup2(fd[1], 1);
		if (module)
			setenv("SPW_CUDA_MODULE", module, 1);
		if (as && setresuid(as, as, as))
			_exit(1);
		execl(program, program, "open", (char *)NULL);
		_exit(1);
	}
	close(fd[1]);
	n = read(fd[0], text, 1023);
	text[n > 0 ? n : 0] = '\0';
	close(fd[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void says(const char *module, const char *const word[4])
{
	char text[1024];

	run_open("/proc/self/exe", module, 0, text);
	for (int i = 0; i < 4 && word[i]; i++)
		if (!strstr(text, word[i]))
			fail_msg("\"%s\" is not in: %s", word[i], text);
}

static void refused(void **state SPW_UNUSED)
{
	says(fitting, (const char *[4]){"opened"});
	says("/nowhere/libspinwire-cuda.so",
	     (const char *[4]){"/nowhere/libspinwire-cuda.so", "is not there", "spinwire-cuda",
			       "ninja -C build"});
	says(other, (const char *[4]){other, "of another build (0.0.9 0123456789abcdef)",
				      "than this program (" SPW_VERSION " ", "ninja -C build"});
	says("/dev/null", (const char *[4]){"cannot be loaded", "/dev/null"});
	/* a bare name would be searched for in LD_LIBRARY_PATH */
	says("libspinwire-cuda.so", (const char *[4]){"is not there"});
}

static void copy(const char *from, const char *to, mode_t mode)
{
	char command[2048];

	snprintf(command, sizeof(command), "cp '%s' '%s'", from, to);
	assert_int_equal(system(command), 0);
	assert_int_equal(chmod(to, mode), 0);
}

/* A program takes the module that lies beside it, unless it has rights that its caller lacks. */
static void beside_the_program(void **state SPW_UNUSED)
{
	char folder[] = "/tmp/spw_cuda_XXXXXX", program[64], module[64], text[1024], self[512];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	assert_true(n > 0);
	self[n] = '\0';
	assert_non_null(mkdtemp(folder));
	assert_int_equal(chmod(folder, 0755), 0);
	snprintf(program, sizeof(program), "%s/program", folder);
	snprintf(module, sizeof(module), "%s/libspinwire-cuda.so", folder);
	copy(self, program, 0755);
	copy(fitting, module, 0755);
	run_open(program, NULL, 0, text);
	assert_string_equal(text, "opened");
	if (geteuid() == 0) {
		assert_int_equal(chmod(program, 04755), 0);
		run_open(program, NULL, NOBODY, text);
		if (strncmp(text, "with rights: ", 13)) /* mounted nosuid */
			print_message("a setuid program gets no rights in /tmp: %s\n", text);
		else
			assert_non_null(strstr(text, "libspinwire-cuda.so, which holds the CUDA "
						     "executors, is not there"));
		run_open(program, module, NOBODY, text);
		if (!strncmp(text, "with rights: ", 13))
			assert_non_null(strstr(text, "is not there"));
	}
	unlink(module);
	unlink(program);
	rmdir(folder);
}

static void sink(enum spw_log_level level, const char *text, void *arg)
{
	snprintf(arg, 128, "%s%s", level == SPW_LOG_WARN ? "warning: " : "", text);
}

static void texts_are_the_programs(void **state SPW_UNUSED)
{
	const struct spw_cuda_module *module, *again;
	char line[128] = "";

	setenv("SPW_CUDA_MODULE", fitting, 1);
	assert_int_equal(spw_cuda_open(&module), 0);
	assert_int_equal(spw_cuda_open(&again), 0);
	assert_ptr_equal(again, module);
	assert_int_equal(module->exec->refuse(EIO), -EIO);
	assert_string_equal(spw_err_text(), "of the module: error 5 of a device");
	spw_log_sink_set(sink, line);
	module->exec->warn();
	spw_log_sink_set(NULL, NULL);
	assert_string_equal(
		line, "warning: a line of the module, after: of the module: error 5 of a device");
	assert_null(module->coll);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refused),
		cmocka_unit_test(beside_the_program),
		cmocka_unit_test(texts_are_the_programs),
	};

	if (argc == 2 && !strcmp(argv[1], "open"))
		return open_and_print();
	fitting = argv[1];
	other = argv[2];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
