/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Writing a JSON summary so that a reader never finds half of it.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app_json.h"
#include "base/spw_err.h"

/* ---- files ---- */

static int cannot(const char *path, int error)
{
	return spw_err(EIO, "--json %s: cannot write: %s", path, strerror(error));
}

/* A pipe, a device or /dev/stdout must be written in place: a rename would replace it. */
static bool in_place(const char *path)
{
	bool of_process = !strncmp(path, "/dev/", 5) || !strncmp(path, "/proc/", 6);
	struct stat link, file;

	if (lstat(path, &link) || stat(path, &file))
		return false;
	return !S_ISREG(file.st_mode) || (of_process && S_ISLNK(link.st_mode));
}

/* A new file in the same folder, since a rename does not cross file systems. */
static FILE *open_beside(const char *path, char temp_out[PATH_MAX])
{
	int fd;

	if (snprintf(temp_out, PATH_MAX, "%s.%d.tmp", path, (int)getpid()) >= PATH_MAX) {
		errno = ENAMETOOLONG;
		return NULL;
	}
	unlink(temp_out); /* of an earlier process with this number */
	fd = open(temp_out, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	return fd < 0 ? NULL : fdopen(fd, "w");
}

/* Returns: 0 or an errno. */
static int put(const json_t *top, FILE *file)
{
	errno = 0;
	return json_dumpf(top, file, JSON_INDENT(1)) || putc('\n', file) == EOF || fflush(file)
		       ? (errno ? errno : EIO)
		       : 0;
}

static int put_and_close(const json_t *top, FILE *file)
{
	int error = file ? put(top, file) : errno;

	return file && fclose(file) && !error ? errno : error;
}

static int replace(const json_t *top, const char *path)
{
	char temp[PATH_MAX];
	FILE *file = open_beside(path, temp);
	bool made = file;
	int error = put_and_close(top, file);

	if (!error && rename(temp, path))
		error = errno;
	if (error && made)
		unlink(temp);
	return error;
}

json_t *app_json_number(uint64_t v)
{
	return json_integer((json_int_t)v);
}

json_t *app_json_known(bool known, uint64_t v)
{
	return known ? app_json_number(v) : json_null();
}

int app_json_try(const char *path)
{
	char temp[PATH_MAX];
	struct stat st;
	FILE *file;

	if (!path || !path[0] || !strcmp(path, "-"))
		return 0;
	if (in_place(path)) {
		if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
			return cannot(path, EISDIR);
		return access(path, W_OK) ? cannot(path, errno) : 0;
	}
	file = open_beside(path, temp);
	if (!file)
		return cannot(path, errno);
	fclose(file);
	unlink(temp);
	return 0;
}

int app_json_write(json_t *top, const char *path)
{
	int error;

	if (!top)
		return spw_err(ENOMEM, "no memory for the JSON summary");
	if (!strcmp(path, "-"))
		error = put(top, stdout);
	else if (in_place(path))
		error = put_and_close(top, fopen(path, "w"));
	else
		error = replace(top, path);
	json_decref(top);
	return error ? cannot(path, error) : 0;
}
