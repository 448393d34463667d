/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Child processes for bench_softhca.c (softhca_proc.h). Each leads a process group, so that
 * stopping it also stops what it started.
 */
#include "softhca_proc.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STOP_S 3

double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void nap_ms(long ms)
{
	nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

int child_start(struct child *c, char *const argv[])
{
	int pipe_fd[2];

	memset(c, 0, sizeof(*c));
	if (pipe2(pipe_fd, O_CLOEXEC | O_NONBLOCK))
		return -errno;
	c->fd = pipe_fd[0];
	c->pid = fork();
	if (c->pid == 0) {
		setpgid(0, 0);
		dup2(pipe_fd[1], 1);
		dup2(pipe_fd[1], 2);
		execvp(argv[0], argv);
		_exit(127);
	}
	close(pipe_fd[1]);
	return c->pid > 0 ? 0 : -errno;
}

static void drain(struct child *c)
{
	ssize_t n;

	while (c->len + 1 < sizeof(c->out) &&
	       (n = read(c->fd, c->out + c->len, sizeof(c->out) - 1 - c->len)) > 0)
		c->len += (size_t)n;
	c->out[c->len] = '\0';
}

bool child_ended(struct child *c, double deadline)
{
	int status = 0;

	while (waitpid(c->pid, &status, WNOHANG) == 0) {
		drain(c);
		if (now_s() > deadline)
			return false;
		nap_ms(5);
	}
	drain(c);
	close(c->fd);
	c->pid = 0;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool child_prints(struct child *c, const char *text, double deadline)
{
	siginfo_t gone = {0};

	while (drain(c), !strstr(c->out, text)) {
		waitid(P_PID, (id_t)c->pid, &gone, WEXITED | WNOHANG | WNOWAIT);
		if (now_s() > deadline || gone.si_pid)
			return false;
		nap_ms(5);
	}
	return true;
}

void child_read(struct child *c, double until)
{
	while (drain(c), now_s() < until)
		nap_ms(5);
}

void child_stop(struct child *c)
{
	const pid_t group = c->pid;

	if (group <= 0)
		return;
	kill(-group, SIGTERM);
	child_ended(c, now_s() + STOP_S);
	kill(-group, SIGKILL); /* who did not listen, and who is left of the group */
	if (c->pid)
		child_ended(c, now_s() + STOP_S);
}

bool port_listens(unsigned int port, double deadline)
{
	char line[256], want[16];

	snprintf(want, sizeof(want), ":%04X ", port);
	while (now_s() < deadline) {
		for (int v6 = 0; v6 < 2; v6++) {
			FILE *f = fopen(v6 ? "/proc/net/tcp6" : "/proc/net/tcp", "r");
			bool found = false;

			while (f && fgets(line, sizeof(line), f)) {
				const char *at = strstr(line, want);

				found |= at && strstr(at, " 0A ");
			}
			if (f)
				fclose(f);
			if (found)
				return true;
		}
		nap_ms(5);
	}
	return false;
}
