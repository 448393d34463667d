/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The files of --json, --csv and their like (app_file.h). base/spw_file.h does the work; here
 * stdout ("-") is added, and the option's name in front of each error. Programs call app_file_try
 * or app_file_take for every output before they run.
 *
 * A report that goes to stdout has it alone: its descriptor is put aside before EAL starts, and
 * stderr takes its place. What EAL, a PMD, a plug-in or the program itself prints cannot get into
 * the report then.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app_file.h"
#include "app_print.h"
#include "base/spw_err.h"
#include "base/spw_file.h"

bool app_file_is_stdout(const char *path)
{
	return path && !strcmp(path, "-");
}

/* Leaves nothing behind, and reports with the option's name. */
int app_file_try(const char *option, const char *path)
{
	return spw_file_try(path) ? spw_err_ctx(-EIO, "%s", option) : 0;
}

static FILE *report; /* stdout, once an option has taken it */

/* In a plain file stdout is taken at its place, so what was printed before stays in front. */
int app_file_take(const char *option, const char *path)
{
	static const char *taker;
	int fd;

	if (!app_file_is_stdout(path))
		return app_file_try(option, path);
	if (taker)
		return spw_err(EINVAL, "%s - and %s -: stdout can take one of them", taker, option);
	fflush(stdout);
	fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	report = fd < 0 ? NULL : app_print_report(fd);
	if (!report || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
		return spw_err(EIO, "%s -: stdout: %s", option, strerror(errno));
	taker = option;
	return 0;
}

/* 0666 is what the umask then narrows, as for any file of the user's. */
static int app_file_put(const char *text, const char *path)
{
	struct spw_file file;
	int rc = spw_file_begin(path, 0666, &file);

	if (rc)
		return rc;
	fflush(stdout); /* which may be the same file */
	return spw_file_end(&file, spw_file_put(file.fd, text, strlen(text)) ? 0 : errno);
}

/* text is released on every path; NULL is the error of whoever made it. */
int app_file_write(const char *what, char *text, const char *path)
{
	int rc = 0;

	if (!text)
		return spw_err(ENOMEM, "%s: no memory", what);
	if (!app_file_is_stdout(path))
		rc = app_file_put(text, path);
	else if (fputs(text, report) == EOF || fflush(report))
		rc = spw_err(EIO, "stdout: cannot write: %s", strerror(errno));
	free(text);
	return rc ? spw_err_ctx(-EIO, "%s", what) : 0;
}
