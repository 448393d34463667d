/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The executor suite on the backends that need no GPU, on a machine whose wall clock is set back an
 * hour at every reading. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../../gpu/exec_suite.h"
#include "unit_exec.h"

/* In front of libc's: no deadline may depend on the wall clock. */
int clock_gettime(clockid_t clock, struct timespec *ts)
{
	static time_t back;
	int rc = (int)syscall(SYS_clock_gettime, clock, ts);

	if (clock == CLOCK_REALTIME)
		ts->tv_sec -= back += 3600;
	return rc;
}

int main(int argc, char **argv)
{
	struct suite suite = {.mem_bytes = SUITE_MEM_BYTES};
	int failed;

	if (argc < 2 || !unit_exec_kind(argv[1], &suite.kind)) {
		fprintf(stderr, "usage: exec_cpu_test inline|cpu [test name pattern]\n");
		return 1;
	}
	suite.kind = strcmp(argv[1], "cpu") ? SPW_EXEC_INLINE : SPW_EXEC_CPU;
	suite.mem = aligned_alloc(4096, SUITE_MEM_BYTES);
	if (!suite.mem)
		return 1;
	memset(suite.mem, 0, SUITE_MEM_BYTES);
	failed = suite_run(&suite, argc > 2 ? argv[2] : NULL);
	free(suite.mem);
	return failed != 0;
}
