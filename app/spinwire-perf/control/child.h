/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Programs that this one starts, and talks to over their stdin and stdout.
 *
 * Thread of all functions: the main thread.
 */
#ifndef PERF_CHILD_H
#define PERF_CHILD_H

#include <sys/types.h>

#include "perf.h"

struct perf_child {
	pid_t pid;   /* 0: none */
	int in, out; /* its stdin, its stdout */
};

/* Purpose: starts argv. It ends when its stdin does.
 * Errors: -EIO. */
int perf_child_start(char *const *argv, struct perf_child *child_out);

/* Purpose: the next line of its stdout, without the newline.
 * Errors: -ETIMEDOUT; -ECHILD it ended. Both without a text. */
int perf_child_line(const struct perf_child *child, int timeout_ms, char *line, size_t bytes);

/* Purpose: ends it. One that was not started is fine. */
void perf_child_end(struct perf_child *child);

#endif
