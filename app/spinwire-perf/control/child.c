/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Programs that this one starts (child.h): the other end of a run (local.c) and NCCL's ranks
 * (case_nccl.c). A child lives no longer than this process: its stdin is a pipe whose write end is
 * only here, and children leave when it ends. stderr stays that of this process, so that a child's
 * own messages reach the user.
 */
#include "control/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "base/spw_monotonic.h"

/* How long a child may take to leave after its stdin has ended: END_TURNS naps of END_NS. */
#define END_TURNS 50
#define END_NS    20000000

/* Of a pipe that was not made both ends are -1. */
static void close_pipe(const int end[2])
{
	for (int i = 0; i < 2 && end[i] >= 0; i++)
		close(end[i]);
}

/* Both pipes are close-on-exec; dup2 clears that for the child's two ends alone. */
int perf_child_start(char *const *argv, struct perf_child *child_out)
{
	int in[2] = {-1, -1}, out[2] = {-1, -1};
	pid_t pid = -1;

	if (!pipe2(in, O_CLOEXEC) && !pipe2(out, O_CLOEXEC))
		pid = fork();
	if (pid < 0) {
		int rc = spw_err(EIO, "%s: %s", argv[0], strerror(errno));

		close_pipe(in);
		close_pipe(out);
		return rc;
	}
	if (pid == 0) {
		if (dup2(in[0], STDIN_FILENO) >= 0 && dup2(out[1], STDOUT_FILENO) >= 0)
			execvp(argv[0], argv);
		fprintf(stderr, PERF_PROGRAM ": error: %s: %s\n", argv[0], strerror(errno));
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	*child_out = (struct perf_child){.pid = pid, .in = in[1], .out = out[0]};
	return 0;
}

/* Reads byte by byte: what follows the line stays in the pipe for the next call. A longer line is
 * cut. */
int perf_child_line(const struct perf_child *child, int timeout_ms, char *line, size_t bytes)
{
	struct pollfd wait = {.fd = child->out, .events = POLLIN};
	uint64_t end = spw_monotonic_ns() + (uint64_t)timeout_ms * 1000000;
	size_t len = 0;

	for (;;) {
		int left = (int)((int64_t)(end - spw_monotonic_ns()) / 1000000);

		if (poll(&wait, 1, SPW_MAX(left, 0)) != 1)
			return -ETIMEDOUT;
		if (read(child->out, line + len, 1) != 1)
			return -ECHILD;
		if (line[len] == '\n')
			break;
		len += len < bytes - 1;
	}
	line[len] = '\0';
	return 0;
}

/* Closing stdin asks it to leave; after a second (END_TURNS naps) it is killed. */
void perf_child_end(struct perf_child *child)
{
	const struct timespec nap = {.tv_nsec = END_NS};
	int turns = 0;

	if (child->pid <= 0)
		return;
	close(child->in);
	close(child->out);
	while (waitpid(child->pid, NULL, WNOHANG) == 0) {
		if (turns++ == END_TURNS)
			kill(child->pid, SIGKILL);
		nanosleep(&nap, NULL);
	}
	*child = (struct perf_child){0};
}
