/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Programs that this one starts: the other end, here or over ssh, and the maker of the HTML page.
 * The other end gets a secret made for this run on its stdin, which stays open while this process
 * lives, and prints its port.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "args.h"
#include "base/spw_err.h"

#define START_MS   60000
#define SECRET_HEX (2 * PEER_NONCE_BYTES + 2)
#define WORD_MAX   64u

/* execvp() takes words that it does not change as char *. */
static char *word(const char *text)
{
	return (char *)(uintptr_t)text;
}

/* A program of spinwire: beside this one where it is installed, in tools/ of a source tree, else by
 * PATH. */
static void find(const char *installed, const char *in_tree, char out[PATH_MAX])
{
	char exe[PATH_MAX - 64];
	ssize_t len = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	exe[len > 0 ? len : 0] = '\0';
	if (strrchr(exe, '/'))
		*strrchr(exe, '/') = '\0';
	snprintf(out, PATH_MAX, "%s/%s", exe, installed);
	if (access(out, X_OK))
		snprintf(out, PATH_MAX, "%s/../../../tools/%s", exe, in_tree);
	if (access(out, X_OK))
		snprintf(out, PATH_MAX, "%s", installed);
}

static int secret_make(char text[SECRET_HEX], struct peer_secret *secret_out)
{
	uint8_t random[PEER_NONCE_BYTES];
	int rc = peer_nonce(random);

	for (size_t i = 0; i < sizeof(random); i++)
		snprintf(text + 2 * i, 3, "%02x", random[i]);
	secret_out->len = SECRET_HEX - 2;
	memcpy(secret_out->byte, text, secret_out->len);
	strcat(text, "\n");
	return rc;
}

/* Starts argv with a pipe each to its stdin and from its stdout. */
static pid_t start(char *const *argv, int *in_out, int *out_out)
{
	int in[2], out[2];
	pid_t child;

	if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC))
		return -1;
	child = fork();
	if (child == 0) {
		if (dup2(in[0], STDIN_FILENO) >= 0 && dup2(out[1], STDOUT_FILENO) >= 0)
			execvp(argv[0], argv);
		fprintf(stderr, PERF_PROGRAM ": error: %s: %s\n", argv[0], strerror(errno));
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	*in_out = in[1];
	*out_out = out[0];
	return child;
}

/* Reads "... port N" from the other end. */
static int port_read(int fd, const char *where, uint16_t *port_out)
{
	char line[160];
	size_t len = 0;
	unsigned int port;
	struct pollfd wait = {.fd = fd, .events = POLLIN};

	while (len < sizeof(line) - 1 && poll(&wait, 1, START_MS) == 1 &&
	       read(fd, line + len, 1) == 1 && line[len] != '\n')
		len++;
	line[len] = '\0';
	if (!strstr(line, "serves on port ") ||
	    sscanf(strstr(line, "port "), "port %u", &port) != 1 || port > UINT16_MAX)
		return spw_err(EIO,
			       "%s: the other end did not start: is spinwire-perf of this version "
			       "installed there, and in its PATH?",
			       where);
	*port_out = (uint16_t)port;
	return 0;
}

static int other_start(char *const *argv, const char *where, const char *secret, int *in_out,
		       uint16_t *port_out)
{
	int out = -1;
	pid_t child = start(argv, in_out, &out);
	ssize_t len = (ssize_t)strlen(secret);
	int rc;

	if (child < 0 || write(*in_out, secret, (size_t)len) != len)
		return spw_err(EIO, "%s: %s", argv[0], strerror(errno));
	rc = port_read(out, where, port_out);
	close(out);
	return rc;
}

/* ---- ssh ---- */

static bool is_host(const char *host)
{
	for (const char *c = host; *c; c++)
		if (!isalnum((unsigned char)*c) && !strchr("@._:-", *c))
			return false;
	return isalnum((unsigned char)host[0]);
}

int perf_ssh(struct perf_args *args, struct peer_secret *secret_out)
{
	static char host[256];
	const char *at = strrchr(args->ssh, '@');
	char port[8], secret[SECRET_HEX], to[256];
	char *argv[] = {word("ssh"),
			word("-oBatchMode=yes"),
			word("-oConnectTimeout=5"),
			to,
			word("spinwire-perf"),
			word("serve"),
			word("--once"),
			word("--port"),
			port,
			word("--secret"),
			word("-"),
			word("--memory"),
			word(spw_mem_kind_name(args->memory)),
			NULL};
	int in, rc;

	if (!is_host(args->ssh))
		return spw_err(EINVAL, "--ssh %s: is no name of a host", args->ssh);
	snprintf(to, sizeof(to), "%s", args->ssh);
	snprintf(host, sizeof(host), "%s", at ? at + 1 : args->ssh);
	snprintf(port, sizeof(port), "%u", args->port);
	rc = secret_make(secret, secret_out);
	if (rc == 0) /* its stdin stays open until this process ends */
		rc = other_start(argv, args->ssh, secret, &in, &args->port);
	args->host = host;
	return rc;
}

/* ---- two software devices ---- */

/* Locked memory is limited for a user; in a namespace of its own a process has the right. */
static uint32_t wrap(char **words, char *tool, char *cable)
{
	uint32_t cnt = 0;

	if (geteuid() != 0) {
		words[cnt++] = word("unshare");
		words[cnt++] = word("-r");
	}
	words[cnt++] = tool;
	words[cnt++] = word("--cable");
	words[cnt++] = cable;
	return cnt;
}

static int second_half(char **words, uint32_t cnt, char *host, const char *secret, char **argv)
{
	int pipe_fd[2];
	ssize_t len = (ssize_t)strlen(secret);

	words[cnt++] = host;
	words[cnt++] = word("--secret");
	words[cnt++] = word("-");
	for (uint32_t i = 1; argv[i] && cnt < WORD_MAX - 1; i++)
		words[cnt++] = argv[i];
	words[cnt] = NULL;
	if (pipe(pipe_fd) || write(pipe_fd[1], secret, (size_t)len) != len ||
	    dup2(pipe_fd[0], STDIN_FILENO) < 0)
		return spw_err(EIO, "pipe: %s", strerror(errno));
	execvp(words[0], words);
	return spw_err(EIO, "%s: %s", words[0], strerror(errno));
}

int perf_local(const struct perf_args *args, char **argv)
{
	char tool[PATH_MAX], self[PATH_MAX], cable[48], host[32], secret[SECRET_HEX];
	char *words[WORD_MAX];
	struct peer_secret unused;
	uint32_t cnt;
	uint16_t port = 0;
	int in, rc = secret_make(secret, &unused);
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (rc < 0 || len <= 0)
		return rc ? rc : spw_err(EIO, "/proc/self/exe: %s", strerror(errno));
	self[len] = '\0';
	find("with-softhca", "with-softhca", tool);
	snprintf(cable, sizeof(cable), "shm:" PERF_PROGRAM "-%d", (int)getpid());
	cnt = wrap(words, tool, cable);
	words[cnt++] = self;
	memcpy(words + cnt,
	       (char *[]){word("serve"), word("--once"), word("--port"), word("0"),
			  word("--secret"), word("-"), word("--memory"),
			  word(spw_mem_kind_name(args->memory)), NULL},
	       9 * sizeof(char *));
	rc = other_start(words, "this machine", secret, &in, &port);
	if (rc < 0)
		return rc;
	fcntl(in, F_SETFD, 0); /* lives on in what this process becomes */
	snprintf(host, sizeof(host), "127.0.0.1:%u", port);
	return second_half(words, cnt, host, secret, argv);
}

/* ---- HTML ---- */

int perf_html(const char *json, const char *html)
{
	char tool[PATH_MAX];
	int status;
	pid_t child;

	find("spinwire-perf-report", "perf-report", tool);
	child = fork();
	if (child == 0) {
		execlp(tool, tool, json, html, (char *)NULL);
		fprintf(stderr, PERF_PROGRAM ": error: %s: %s\n", tool, strerror(errno));
		_exit(127);
	}
	if (child < 0 || waitpid(child, &status, 0) != child || status)
		return spw_err(EIO,
			       "--html %s: not written; it is made by spinwire-perf-report, which "
			       "needs python3",
			       html);
	return 0;
}
