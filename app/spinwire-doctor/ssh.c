/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * spinwire-doctor on another host, over ssh: its stdin and stdout are two pipes here.
 */
#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "ssh.h"

static bool is_host(const char *peer)
{
	for (const char *c = peer; *c; c++)
		if (!isalnum((unsigned char)*c) && !strchr("@._:-", *c))
			return false;
	return isalnum((unsigned char)peer[0]);
}

static void child_run(const char *host, const char *const word[2], int in, int out)
{
	if (dup2(in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0)
		execlp("ssh", "ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", host,
		       "spinwire-doctor", word[0], word[1], (char *)NULL);
	_exit(127);
}

/* pipe2's close-on-exec: what the child does not dup2 is closed there. */
static int files_open(struct doctor_ssh *ssh, int fd[4])
{
	if (pipe2(&fd[0], O_CLOEXEC) || pipe2(&fd[2], O_CLOEXEC))
		return spw_err(errno, "pipe: %s", strerror(errno));
	ssh->to = fdopen(fd[1], "we");
	ssh->from = fdopen(fd[2], "re");
	return ssh->to && ssh->from ? 0 : spw_err(ENOMEM, "no memory for a pipe");
}

int doctor_ssh_start(const char *host, const char *const word[2], struct doctor_ssh *ssh)
{
	int fd[4] = {-1, -1, -1, -1}, rc;

	*ssh = (struct doctor_ssh){.pid = -1};
	if (!is_host(host))
		return spw_err(EINVAL, "--peer %s: neither a file nor the name of a host", host);
	signal(SIGPIPE, SIG_IGN); /* a host that goes shows as an error of the write */
	rc = files_open(ssh, fd);
	if (rc == 0 && (ssh->pid = fork()) == 0)
		child_run(host, word, fd[0], fd[3]);
	if (rc == 0 && ssh->pid < 0)
		rc = spw_err(EIO, "%s: ssh was not started: %s", host, strerror(errno));
	for (int i = 0; i < 4; i += 3)
		if (fd[i] >= 0)
			close(fd[i]);
	return rc;
}

int doctor_ssh_end(struct doctor_ssh *ssh)
{
	int status = -1;

	if (ssh->to)
		fclose(ssh->to);
	if (ssh->from)
		fclose(ssh->from);
	if (ssh->pid > 0 && waitpid(ssh->pid, &status, 0) != ssh->pid)
		status = -1;
	*ssh = (struct doctor_ssh){.pid = -1};
	return status >= 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
