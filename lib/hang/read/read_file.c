/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Files below the root of a machine, running or recorded (read_impl.h). Reading is bounded, and
 * never blocks on what turns out to be a pipe.
 *
 * The collectors call it with paths that hold pids and names of files; a recorded root is a folder
 * that a test or a user named. What a file holds is not trusted, and neither is its length: /proc
 * may give more at the second read than at the first.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hang/read/read_impl.h"

/* Links of /proc, seals, NVML and netlink exist on a running machine only: callers ask before each.
 */
bool hang_is_live(const struct hang_read *r)
{
	return r->where->root[0] == '\0';
}

/* A path that does not fit is refused, never cut: a cut one could name another file. */
static bool read_file_path(const struct hang_read *r, char out[HANG_PATH_BYTES], const char *fmt,
			   va_list ap)
{
	int used = snprintf(out, HANG_PATH_BYTES, "%.300s/", r->where->root), n;

	n = vsnprintf(out + used, HANG_PATH_BYTES - (size_t)used, fmt, ap);
	return n >= 0 && (size_t)(used + n) < HANG_PATH_BYTES;
}

bool hang_path(const struct hang_read *r, char out[HANG_PATH_BYTES], const char *fmt, ...)
{
	va_list ap;
	bool fits;

	va_start(ap, fmt);
	fits = read_file_path(r, out, fmt, ap);
	va_end(ap);
	return fits;
}

/* O_NONBLOCK and O_NOCTTY: below /proc/PID/root and fd another user chooses what a name leads to,
 * such as a pipe that nobody writes or a terminal. */
static ssize_t read_file_bytes(const char *path, char *out, size_t bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	size_t used = 0;
	ssize_t n = 0;

	out[0] = '\0';
	if (fd < 0)
		return -errno;
	while (used < bytes - 1 && (n = read(fd, out + used, bytes - 1 - used)) > 0)
		used += (size_t)n;
	n = n < 0 ? -errno : (ssize_t)used;
	out[used] = '\0';
	close(fd);
	return n;
}

static ssize_t read_file_named(const struct hang_read *r, char *out, size_t bytes, const char *fmt,
			       va_list ap)
{
	char path[HANG_PATH_BYTES];

	out[0] = '\0';
	return read_file_path(r, path, fmt, ap) ? read_file_bytes(path, out, bytes) : -ENAMETOOLONG;
}

/* Zero bytes are kept (environ has them), so callers use the length, not strlen. */
ssize_t hang_bytes(const struct hang_read *r, char *out, size_t bytes, const char *fmt, ...)
{
	va_list ap;
	ssize_t n;

	va_start(ap, fmt);
	n = read_file_named(r, out, bytes, fmt, ap);
	va_end(ap);
	return n;
}

bool hang_line(const struct hang_read *r, char *out, size_t bytes, const char *fmt, ...)
{
	va_list ap;
	ssize_t n;

	va_start(ap, fmt);
	n = read_file_named(r, out, bytes, fmt, ap);
	va_end(ap);
	out[n < 0 ? 0 : strcspn(out, "\n")] = '\0';
	return n >= 0;
}

/* What follows the number is not looked at: a unit, the end of the line, another column. */
static struct spw_hang_num read_file_value(const char *text)
{
	char *end;
	long long value;

	errno = 0;
	value = strtoll(text, &end, 10);
	return end == text || errno ? (struct spw_hang_num){0} : spw_hang_num(value);
}

/* A file that is missing is an empty text, and so not known; most counters are optional. */
struct spw_hang_num hang_number(const struct hang_read *r, const char *fmt, ...)
{
	char text[64];
	va_list ap;

	va_start(ap, fmt);
	read_file_named(r, text, sizeof(text), fmt, ap);
	va_end(ap);
	return read_file_value(text);
}

/* At the start of a line only: a label may be the end of another one. */
struct spw_hang_num hang_labelled(const char *text, const char *label)
{
	const size_t n = strlen(label);

	for (; *text; text += strcspn(text, "\n"), text += *text == '\n')
		if (!strncmp(text, label, n))
			return read_file_value(text + n);
	return (struct spw_hang_num){0};
}

/* One that is longer is cut; nothing that is compared with it is as long. */
bool hang_link(const struct hang_read *r, char *out, size_t bytes, const char *fmt, ...)
{
	char path[HANG_PATH_BYTES];
	ssize_t n = -1;
	va_list ap;

	va_start(ap, fmt);
	if (read_file_path(r, path, fmt, ap))
		n = readlink(path, out, bytes - 1);
	va_end(ap);
	out[n < 0 ? 0 : n] = '\0';
	return n > 0;
}

static int read_file_is_shown(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

/* versionsort: fd/9 comes before fd/10. Where memory ends, the names up to there are returned, as
 * the list may not have gaps. */
int hang_names(const struct hang_read *r, char ***names_out, int max, const char *fmt, ...)
{
	char path[HANG_PATH_BYTES], **names;
	struct dirent **entry;
	int cnt = -1;
	va_list ap;

	*names_out = NULL;
	va_start(ap, fmt);
	errno = ENAMETOOLONG;
	if (read_file_path(r, path, fmt, ap))
		cnt = scandir(path, &entry, read_file_is_shown, versionsort);
	va_end(ap);
	if (cnt < 0)
		return -errno;
	names = calloc((size_t)cnt + 1, sizeof(*names));
	for (int i = 0; i < cnt; i++) {
		if (names && i < max)
			names[i] = strdup(entry[i]->d_name);
		free(entry[i]);
	}
	free(entry);
	*names_out = names;
	cnt = names ? SPW_MIN(cnt, max) : -ENOMEM;
	while (cnt > 0 && !names[cnt - 1])
		cnt--;
	return cnt;
}

void hang_names_free(char **names, int cnt)
{
	for (int i = 0; i < cnt; i++)
		free(names[i]);
	free(names);
}
