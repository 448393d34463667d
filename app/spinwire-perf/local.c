/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The other end, started here or over ssh, and the maker of the HTML page.
 * The other end gets a secret made for this run on its stdin, which stays open while this process
 * lives, and prints its port.
 *
 *    --ssh HOST   this process (client)  ── stdin, stdout of ssh ──  spinwire-perf serve --once
 *    no address   fork: with-softhca ... serve --once                 its stdin: held by the client
 *                 exec: with-softhca ... HOST:PORT (this process becomes the client)
 *
 * Both software devices are joined by one cable, which is named after this process.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app_life.h"
#include "app_tool.h"
#include "args.h"
#include "base/spw_err.h"
#include "base/spw_monotonic.h"
#include "control/child.h"

#define START_MS   60000
#define SECRET_HEX (2 * SPW_OOB_NONCE_BYTES + 2)
#define WORD_MAX   64u

/* execvp() takes words that it does not change as char *. */
static char *local_word(const char *text)
{
	return (char *)(uintptr_t)text;
}

/* Hex, because it passes through a shell's stdin as a line; the text is used as the secret as it
 * is. */
static int secret_make(char text[SECRET_HEX], struct spw_oob_secret *secret_out)
{
	uint8_t random[SPW_OOB_NONCE_BYTES];
	int rc = spw_oob_nonce(random);

	for (size_t i = 0; i < sizeof(random); i++)
		snprintf(text + 2 * i, 3, "%02x", random[i]);
	secret_out->len = SECRET_HEX - 2;
	memcpy(secret_out->byte, text, secret_out->len);
	strcat(text, "\n");
	return rc;
}

/* Reads "spinwire-perf: serves on port N" from the other end. A shell that starts over there may
 * print lines of its own before it. */
static int port_read(const struct perf_child *child, const char *where, uint16_t *port_out)
{
	const uint64_t end = spw_monotonic_ns() + START_MS * 1000000ull;
	unsigned int port = 0;
	char line[160];

	while (spw_monotonic_ns() < end &&
	       perf_child_line(child, START_MS, line, sizeof(line)) == 0)
		if (sscanf(line, PERF_PROGRAM ": serves on port %u", &port) == 1)
			break;
	if (!spw_in_range(port, 1, UINT16_MAX))
		return spw_err(EIO,
			       "%s: the other end did not start: is spinwire-perf of this version "
			       "installed there, and in its PATH?",
			       where);
	*port_out = (uint16_t)port;
	return 0;
}

/* Its stdin stays open until this process ends. */
static int local_other_start(char *const *argv, const char *where, const char *secret, int *in_out,
			     uint16_t *port_out)
{
	ssize_t len = (ssize_t)strlen(secret);
	struct perf_child child;
	int rc = perf_child_start(argv, &child);
	void (*on_pipe)(int);
	bool sent;

	if (rc < 0)
		return rc;
	*in_out = child.in;
	on_pipe = signal(SIGPIPE, SIG_IGN); /* of an end that has ended, which port_read reports */
	sent = write(child.in, secret, (size_t)len) == len || errno == EPIPE;
	signal(SIGPIPE, on_pipe);
	if (!sent)
		return spw_err(EIO, "%s: %s", argv[0], strerror(errno));
	rc = port_read(&child, where, port_out);
	close(child.out);
	return rc;
}

/* ---- ssh ---- */

/* The word becomes an argument of ssh: none may begin with a dash or hold what a shell acts on. */
static bool local_is_host(const char *host)
{
	for (const char *c = host; *c; c++)
		if (!isalnum((unsigned char)*c) && !strchr("@._:-", *c))
			return false;
	return isalnum((unsigned char)host[0]);
}

/* The secret passes over ssh's stdin: the command line of a process can be read by others. */
int perf_ssh(struct perf_args *args, struct spw_oob_secret *secret_out)
{
	static char host[256];
	const char *at = strrchr(args->ssh, '@');
	char port[8], secret[SECRET_HEX], to[256];
	char *argv[] = {local_word("ssh"),
			local_word("-oBatchMode=yes"),
			local_word("-oConnectTimeout=5"),
			to,
			local_word("spinwire-perf"),
			local_word("serve"),
			local_word("--once"),
			local_word("--port"),
			port,
			local_word("--secret"),
			local_word("-"),
			local_word("--memory"),
			local_word(spw_mem_kind_name(args->memory)),
			NULL};
	int in, rc;

	if (!local_is_host(args->ssh))
		return spw_err(EINVAL, "--ssh %s: is no name of a host", args->ssh);
	snprintf(to, sizeof(to), "%s", args->ssh);
	snprintf(host, sizeof(host), "%s", at ? at + 1 : args->ssh);
	snprintf(port, sizeof(port), "%u", args->port);
	app_life_phase(0, "starting the other end at %s", host);
	rc = secret_make(secret, secret_out);
	if (rc == 0) /* its stdin stays open until this process ends */
		rc = local_other_start(argv, args->ssh, secret, &in, &args->port);
	args->host = host;
	return rc;
}

/* ---- two software devices ---- */

/* Locked memory is limited for a user; in a namespace of its own a process has the right. */
static uint32_t local_wrap(char **words, char *tool, char *cable)
{
	uint32_t cnt = 0;

	if (geteuid() != 0) {
		words[cnt++] = local_word("unshare");
		words[cnt++] = local_word("-r");
	}
	words[cnt++] = tool;
	words[cnt++] = local_word("--cable");
	words[cnt++] = cable;
	return cnt;
}

/* Asked before an end starts, which could only break off. */
static int local_rights(void)
{
	if (geteuid() == 0 || system("unshare -r true 2>/dev/null") == 0)
		return 0;
	return spw_err(EPERM, "unshare -r makes no user namespace, which software devices need "
			      "unless you are root; on Ubuntu 24.04: sudo sysctl "
			      "kernel.apparmor_restrict_unprivileged_userns=0");
}

/* argv's own words follow, so every option of the user holds for the client. */
static int second_half(char **words, uint32_t cnt, char *host, const char *secret, char **argv)
{
	int pipe_fd[2];
	ssize_t len = (ssize_t)strlen(secret);

	words[cnt++] = host;
	words[cnt++] = local_word("--secret");
	words[cnt++] = local_word("-");
	for (uint32_t i = 1; argv[i] && cnt < WORD_MAX - 1; i++)
		words[cnt++] = argv[i];
	words[cnt] = NULL;
	if (pipe(pipe_fd) || write(pipe_fd[1], secret, (size_t)len) != len ||
	    dup2(pipe_fd[0], STDIN_FILENO) < 0)
		return spw_err(EIO, "pipe: %s", strerror(errno));
	app_life_phase(0, "%s", "");
	execvp(words[0], words);
	return spw_err(EIO, "%s: %s", words[0], strerror(errno));
}

int perf_local(const struct perf_args *args, char **argv)
{
	char *tool = app_tool_find("with-softhca", "with-softhca");
	char self[PATH_MAX], cable[48], host[32], secret[SECRET_HEX];
	char *words[WORD_MAX];
	struct spw_oob_secret unused;
	uint32_t cnt;
	uint16_t port = 0;
	int in, rc = local_rights();
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);

	app_life_phase(0, "starting the other end");
	rc = rc < 0 ? rc : secret_make(secret, &unused);
	if (rc < 0 || len <= 0)
		return rc ? rc : spw_err(EIO, "/proc/self/exe: %s", strerror(errno));
	self[len] = '\0';
	snprintf(cable, sizeof(cable), "shm:" PERF_PROGRAM "-%d", (int)getpid());
	cnt = local_wrap(words, tool, cable);
	words[cnt++] = self;
	memcpy(words + cnt,
	       (char *[]){local_word("serve"), local_word("--once"), local_word("--port"),
			  local_word("0"), local_word("--secret"), local_word("-"),
			  local_word("--memory"), local_word(spw_mem_kind_name(args->memory)),
			  NULL},
	       9 * sizeof(char *));
	rc = local_other_start(words, "this machine", secret, &in, &port);
	if (rc < 0)
		return rc;
	fcntl(in, F_SETFD, 0); /* lives on in what this process becomes */
	snprintf(host, sizeof(host), "127.0.0.1:%u", port);
	return second_half(words, cnt, host, secret, argv);
}

/* ---- HTML ---- */

/* The maker is a program of its own, in Python; the report is handed over as a file. */
int perf_html(const char *json, const char *html)
{
	char *tool = app_tool_find("spinwire-perf-report", "perf-report");
	int status;
	pid_t child;

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
