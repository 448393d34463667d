/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Stacks of threads, only where they are asked for: who unwinds a process stops it for as long.
 *
 *   kernel    proc/PID/task/TID/stack, which root may read
 *   user      eu-stack, else gdb: in the last snapshot, after all other facts; each process for
 *             TOOL_MS at most and ALL_MS in all. One that is stopped or frozen is left alone: the
 *             tool would wait for it
 *
 * A recorded host has what the tool printed in proc/PID/stacks. The tool gets no debuginfod, which
 * would ask the network, and gdb none of the user's commands. What it prints are names of another
 * process's symbols, of any bytes: whoever prints them shows them.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/spw_monotonic.h"
#include "hang/read/read_impl.h"

#define TOOL_MS    10000u /* gdb reads the symbols of all libraries */
#define ALL_MS     SPW_HANG_STACKS_MS
#define TEXT_BYTES (1u << 20) /* of a tool; the rest is not read */

/* ---- rows ---- */

/* Appends " < NAME", while there is room. */
static void stack_add(char *out, size_t bytes, const char *name, size_t len)
{
	const size_t used = strlen(out);

	if (len && used + len + 4 < bytes)
		snprintf(out + used, bytes - used, "%s%.*s", used ? " < " : "", (int)len, name);
}

/* "[<0>] mlx5_cmd_exec+0x1a/0x90 [mlx5_core]". Without the right to read it the file is empty. */
static void stack_kernel(struct hang_read *r, struct spw_hang_thread_row *row)
{
	char text[4096], *line, *rest = text;

	if (hang_bytes(r, text, sizeof(text), "proc/%" PRId64 "/task/%" PRId64 "/stack",
		       row->pid.value, row->tid.value) <= 0)
		return;
	while ((line = strsep(&rest, "\n")))
		if (!strncmp(line, "[<0>] ", 6))
			stack_add(row->kernel, sizeof(row->kernel), line + 6,
				  strcspn(line + 6, "+ "));
}

/* The function in "#1  0x00007f00 - 1 main", "#1  0x00007f00 in main () at a.c:1" or "#0  main
 * ()"; NULL: it is no such line. */
static const char *stack_function(const char *line, size_t *len_out)
{
	const char *at = line;

	if (*at++ != '#')
		return NULL;
	at += strspn(at, "0123456789");
	at += strspn(at, " ");
	if (!strncmp(at, "0x", 2)) {
		at += strcspn(at, " ");
		at += strspn(at, " ");
		at += !strncmp(at, "- 1 ", 4) ? 4 : 0;
		at += !strncmp(at, "in ", 3) ? 3 : 0;
	}
	*len_out = strcspn(at, " (@");
	return at;
}

/* The first that belongs to NCCL's pool of operations wins; "-": none of NCCL. */
static void stack_frame(struct spw_hang_thread_row *row, const char *name, size_t len)
{
	if (memmem(name, len, "ncclLocalOpAppend", 17))
		snprintf(row->frame, sizeof(row->frame), "ncclLocalOpAppend");
	else if (memmem(name, len, "nccl", 4) && strcmp(row->frame, "ncclLocalOpAppend")) {
		if (!strcmp(row->frame, "-"))
			row->frame[0] = '\0';
		stack_add(row->frame, sizeof(row->frame), name, len);
	}
}

/* The row of "4711:" or "(LWP 4711)"; NULL: that thread came later. */
static struct spw_hang_thread_row *stack_thread(struct hang_read *r, int64_t pid, const char *at)
{
	const int64_t tid = strtoll(at + (*at == '(' ? 5 : 0), NULL, 10);

	for (uint32_t i = 0; i < r->snap->thread_cnt; i++)
		if (r->snap->thread[i].pid.value == pid && r->snap->thread[i].tid.value == tid)
			return &r->snap->thread[i];
	return NULL;
}

void hang_stack_rows(struct hang_read *r, int64_t pid, char *text)
{
	struct spw_hang_thread_row *row = NULL;
	char *line, *rest = text;

	while ((line = strsep(&rest, "\n"))) {
		const char *name, *begun = NULL;
		size_t len;

		if (!strncmp(line, "TID ", 4))
			begun = line + 4;
		else if (!strncmp(line, "Thread ", 7))
			begun = strstr(line, "(LWP ");
		name = stack_function(line, &len);
		if (begun) {
			row = stack_thread(r, pid, begun);
			if (row && !row->frame[0])
				snprintf(row->frame, sizeof(row->frame), "-");
		} else if (name && row) {
			stack_add(row->stack, sizeof(row->stack), name, len);
			stack_frame(row, name, len);
		}
	}
}

/* ---- the tool ---- */

/* Until its end, the limit of bytes, or the time. Returns: bytes. */
static size_t tool_text(int fd, char *text, uint64_t until_ms)
{
	size_t used = 0;

	for (;;) {
		struct pollfd wait = {.fd = fd, .events = POLLIN};
		const uint64_t now = spw_monotonic_ms();
		ssize_t n;

		if (now >= until_ms || poll(&wait, 1, (int)(until_ms - now)) != 1)
			break;
		n = read(fd, text + used, TEXT_BYTES - 1 - used);
		if (n <= 0)
			break;
		used += (size_t)n;
	}
	text[used] = '\0';
	return used;
}

static int tool_spawn(char *const argv[], int out, pid_t *pid_out)
{
	static char path[] = "PATH=/usr/bin:/bin:/usr/local/bin", locale[] = "LC_ALL=C";
	char *const env[] = {path, locale, NULL};
	posix_spawn_file_actions_t files;
	int rc = posix_spawn_file_actions_init(&files);

	if (rc)
		return -rc;
	posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
	posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	rc = posix_spawnp(pid_out, argv[0], &files, NULL, argv, env);
	posix_spawn_file_actions_destroy(&files);
	return -rc;
}

/* One that does not end is killed: the kernel then detaches it from the process. Returns: bytes;
 * -ENOENT: it is not installed; -errno. */
static ssize_t tool_run(char *const argv[], char *text, uint64_t until_ms)
{
	int fd[2], rc;
	size_t used = 0;
	pid_t pid;

	if (pipe2(fd, O_CLOEXEC))
		return -errno;
	rc = tool_spawn(argv, fd[1], &pid);
	close(fd[1]);
	if (!rc)
		used = tool_text(fd[0], text, until_ms);
	close(fd[0]);
	if (rc)
		return rc;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return (ssize_t)used;
}

static ssize_t stack_tool(int64_t pid, char *text, uint64_t until_ms)
{
	char number[24], eu_stack[] = "eu-stack", gdb[] = "gdb", p[] = "-p", nx[] = "-nx",
			 batch[] = "-batch", iex[] = "-iex", off[] = "set auto-load off",
			 ex[] = "-ex", bt[] = "thread apply all bt 40";
	char *const first[] = {eu_stack, p, number, NULL};
	char *const second[] = {gdb, nx, batch, iex, off, p, number, ex, bt, NULL};
	ssize_t n;

	snprintf(number, sizeof(number), "%" PRId64, pid);
	n = tool_run(first, text, until_ms);
	return n == -ENOENT ? tool_run(second, text, until_ms) : n;
}

/* ---- processes ---- */

static bool stack_is_stopped(const struct hang_read *r, const struct spw_hang_proc_row *proc)
{
	for (uint32_t i = 0; i < r->snap->thread_cnt; i++)
		if (r->snap->thread[i].pid.value == proc->pid.value &&
		    strchr("Tt", r->snap->thread[i].state[0]))
			return true;
	return proc->frozen.value;
}

/* Returns: why there is none; NULL: there is one. */
static const char *stack_user(struct hang_read *r, const struct spw_hang_proc_row *proc, char *text,
			      uint64_t until_ms)
{
	ssize_t n;

	if (stack_is_stopped(r, proc))
		return "a process that is stopped is not unwound";
	if (hang_is_live(r))
		n = stack_tool(proc->pid.value, text,
			       SPW_MIN(until_ms, spw_monotonic_ms() + TOOL_MS));
	else
		n = hang_bytes(r, text, TEXT_BYTES, "proc/%" PRId64 "/stacks", proc->pid.value);
	if (n > 0)
		hang_stack_rows(r, proc->pid.value, text);
	return n == -ENOENT ? "neither eu-stack (elfutils) nor gdb is installed"
	       : n <= 0     ? "eu-stack or gdb gave nothing: ptrace is forbidden, or too slow"
			    : NULL;
}

void hang_stacks_read(struct hang_read *r)
{
	char *text = r->where->stacks && r->where->last ? malloc(TEXT_BYTES) : NULL;
	const uint64_t until_ms = spw_monotonic_ms() + ALL_MS;
	const char *why = r->where->stacks ? "" : "not asked for (--stacks)";

	for (uint32_t i = 0; i < r->snap->thread_cnt && text; i++)
		stack_kernel(r, &r->snap->thread[i]);
	for (uint32_t i = 0; i < r->snap->proc_cnt && text; i++) {
		const char *none = r->snap->proc[i].gone.value
					   ? NULL
					   : stack_user(r, &r->snap->proc[i], text, until_ms);

		why = none ? none : why;
	}
	free(text);
	snprintf(r->snap->why[SPW_HANG_SOURCE_stacks], sizeof(r->snap->why[0]), "%s", why);
}
