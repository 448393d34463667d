/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Runs this program again under callgrind and reads one function's inclusive count from its output
 * (cq_count.h). Called by bench_cq.c for --instructions.
 */
#include "cq_count.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* "summary: N" or "totals: N" in what callgrind wrote. */
static int read_total(const char *path, uint64_t *total_out)
{
	char line[256];
	FILE *f = fopen(path, "r");
	int found = 0;

	while (f && !found && fgets(line, sizeof(line), f))
		found = sscanf(line, "totals: %" SCNu64, total_out) == 1 ||
			sscanf(line, "summary: %" SCNu64, total_out) == 1;
	if (f)
		fclose(f);
	return found ? 0 : -1;
}

static void exec_valgrind(const char *function, const char *file, char *const *argv)
{
	char toggle[96], out[64], self[4096], *args[16] = {0};
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
	const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	static char name[] = "valgrind", tool[] = "--tool=callgrind", fair[] = "--fair-sched=yes",
		    quiet[] = "-q";
	int n = 0;

	if (len <= 0 || null < 0 || dup2(null, STDOUT_FILENO) < 0)
		_exit(127);
	self[len] = '\0';
	snprintf(toggle, sizeof(toggle), "--toggle-collect=%s", function);
	snprintf(out, sizeof(out), "--callgrind-out-file=%s", file);
	args[n++] = name;
	args[n++] = tool;
	args[n++] = fair; /* else the NIC's thread may never get its turn */
	args[n++] = quiet;
	args[n++] = toggle;
	args[n++] = out;
	args[n++] = self;
	for (int i = 0; argv[i] && n < 15; i++)
		args[n++] = argv[i];
	execvp(name, args);
	_exit(127);
}

int cq_count(const char *function, char *const *argv, uint64_t *total_out)
{
	char file[] = "/tmp/spinwire-callgrind.XXXXXX";
	int fd = mkstemp(file), status = 0, rc = -1;
	pid_t child = fd < 0 ? -1 : fork();

	if (child == 0)
		exec_valgrind(function, file, argv);
	if (child > 0 && waitpid(child, &status, 0) == child && status == 0)
		rc = read_total(file, total_out);
	if (rc)
		fprintf(stderr, "spinwire-bench: no instruction counts%s\n",
			WIFEXITED(status) && WEXITSTATUS(status) == 127
				? ": valgrind is not installed"
				: "");
	if (fd >= 0) {
		close(fd);
		unlink(file);
	}
	return rc;
}
