/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Threads of this process, by their names: those that a library has started.
 */
#ifndef UNIT_THREAD_H
#define UNIT_THREAD_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "unit_test.h"

/* How many threads have that name. *tid_out: the last one's number, 0 if there is none; may be
 * NULL. */
static inline uint32_t unit_threads(const char *name, pid_t *tid_out)
{
	DIR *dir = opendir("/proc/self/task");
	struct dirent *task;
	uint32_t cnt = 0;
	pid_t tid = 0;

	assert_non_null(dir);
	while ((task = readdir(dir))) {
		char path[300], comm[32] = "";
		FILE *file;

		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", task->d_name);
		file = fopen(path, "re");
		if (!file) /* it has ended */
			continue;
		if (fgets(comm, sizeof(comm), file))
			comm[strcspn(comm, "\n")] = '\0';
		fclose(file);
		if (strcmp(comm, name) != 0)
			continue;
		tid = (pid_t)atoi(task->d_name);
		cnt++;
	}
	closedir(dir);
	if (tid_out)
		*tid_out = tid;
	return cnt;
}

#endif
