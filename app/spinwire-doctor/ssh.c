/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * spinwire-doctor on another host, over ssh: its stdin and stdout are two pipes here. The other
 * host may send anything, or nothing more: every wait has an end.
 *
 * source.c reads a receipt over it, hang.c a case, measure_peer.c holds a dialogue. ssh asks for
 * nothing (BatchMode) and gives up a host that does not answer. Errors of reading come without a
 * text: the callers know what they were waiting for.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "base/spw_monotonic.h"
#include "ssh.h"

#define END_MS 1000u /* for ssh to end after its files are closed */

/* The word becomes an argument of ssh: one that begins with a dash would be an option. A receipt
 * that is not there is no host. */
static bool ssh_is_host(const char *peer)
{
	const char *end = strrchr(peer, '.');

	for (const char *c = peer; *c; c++)
		if (!isalnum((unsigned char)*c) && !strchr("@._:-", *c))
			return false;
	return isalnum((unsigned char)peer[0]) && (!end || strcmp(end, ".json"));
}

/* Never returns: a failed exec ends the child as a shell would report it. */
static void ssh_child_run(const char *host, const char *const *word, int in, int out)
{
	const char *argv[7 + DOCTOR_SSH_WORD_MAX + 1] = {
		"ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", host, "spinwire-doctor"};

	for (uint32_t i = 0; i < DOCTOR_SSH_WORD_MAX && word[i]; i++)
		argv[7 + i] = word[i];
	if (dup2(in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0)
		execvp("ssh", (char *const *)(uintptr_t)argv);
	_exit(127);
}

/* After an error too the caller calls doctor_ssh_end, which closes what was opened. */
int doctor_ssh_start(const char *option, const char *host, const char *const *word,
		     struct doctor_ssh *ssh)
{
	int fd[4] = {-1, -1, -1, -1}, rc = 0;

	*ssh = (struct doctor_ssh){.pid = -1, .to = -1, .from = -1};
	if (!ssh_is_host(host))
		return spw_err(EINVAL, "%s: '%s' is neither a file nor the name of a host", option,
			       host);
	signal(SIGPIPE, SIG_IGN); /* a host that goes shows as an error of the write */
	/* close-on-exec: what the child does not dup2 is closed there. */
	if (pipe2(&fd[0], O_CLOEXEC) || pipe2(&fd[2], O_CLOEXEC))
		rc = spw_err(errno, "pipe: %s", strerror(errno));
	ssh->to = fd[1];
	ssh->from = fd[2];
	if (rc == 0 && (ssh->pid = fork()) == 0)
		ssh_child_run(host, word, fd[0], fd[3]);
	if (rc == 0 && ssh->pid < 0)
		rc = spw_err(EIO, "%s: ssh was not started: %s", host, strerror(errno));
	for (int i = 0; i < 4; i += 3)
		if (fd[i] >= 0)
			close(fd[i]);
	return rc;
}

uint64_t doctor_ssh_until(uint32_t ms)
{
	return spw_monotonic_ms() + ms;
}

/* Never waits beyond until; 0 is the end of what the other side sends. */
ssize_t doctor_ssh_read(const struct doctor_ssh *ssh, uint64_t until, void *out, size_t bytes)
{
	struct pollfd wait = {.fd = ssh->from, .events = POLLIN};
	uint64_t now = spw_monotonic_ms();
	ssize_t n;

	if (now >= until || poll(&wait, 1, (int)(until - now)) != 1)
		return -ETIMEDOUT;
	n = read(ssh->from, out, bytes);
	return n < 0 ? -errno : n;
}

/* Byte by byte, so that nothing of the next line is taken: lines are short and few. */
int doctor_ssh_line(const struct doctor_ssh *ssh, uint64_t until, char *line, size_t room)
{
	for (size_t used = 0; used < room; used++) {
		ssize_t n = doctor_ssh_read(ssh, until, line + used, 1);

		if (n != 1)
			return n < 0 ? (int)n : -ECONNRESET;
		if (line[used] == '\n') {
			line[used] = '\0';
			return 0;
		}
	}
	return -EMSGSIZE;
}

/* ssh waits for a program over there that goes on after its stdin has ended. */
int doctor_ssh_end(struct doctor_ssh *ssh)
{
	const struct timespec nap = {.tv_nsec = 5000000};
	uint64_t until = doctor_ssh_until(END_MS);
	int status = -1;
	pid_t got = 0;

	if (ssh->to >= 0)
		close(ssh->to);
	if (ssh->from >= 0)
		close(ssh->from);
	while (ssh->pid > 0 && (got = waitpid(ssh->pid, &status, WNOHANG)) == 0) {
		if (spw_monotonic_ms() >= until)
			kill(ssh->pid, SIGKILL);
		nanosleep(&nap, NULL);
	}
	status = got == ssh->pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	*ssh = (struct doctor_ssh){.pid = -1, .to = -1, .from = -1};
	return status;
}
