/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Opens an output file without following what others have put in its place (spw_file.h). Programs
 * use it for every file that a user names: captures, reports, logs.
 */
#include "base/spw_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/spw_err.h"

#define FLAGS (O_WRONLY | O_CLOEXEC | O_NOFOLLOW)

static int refuse(const char *path, int err)
{
	if (err == ELOOP)
		return spw_err(err, "%s is a symbolic link; name the file itself", path);
	return spw_err(err, "%s: %s", path, strerror(err));
}

/* Accepts a file that existed before, and empties it. Checked first: it belongs to this user, under
 * one name, and nobody is writing it; a pipe or a device is left as it is. */
static int take_over(const char *path, int fd)
{
	struct stat st;

	if (fstat(fd, &st))
		return refuse(path, errno);
	if (!S_ISREG(st.st_mode))
		return 0;
	if (st.st_uid != geteuid() || st.st_nlink != 1)
		return spw_err(EPERM,
			       "%s belongs to another user or has several names; remove it or name "
			       "another file",
			       path);
	if (flock(fd, LOCK_EX | LOCK_NB))
		return spw_err(errno == EWOULDBLOCK ? EBUSY : errno,
			       "%s is being written already; name another file", path);
	return ftruncate(fd, 0) ? refuse(path, errno) : 0;
}

/* O_EXCL first: a file that did not exist is ours without further checks, mode 0600. Only if it
 * exists is it opened and examined (take_over). O_NOFOLLOW in both cases: a name in a shared
 * directory may be a link that somebody else has put there. */
int spw_file_create(const char *path, int *fd_out)
{
	int fd = open(path, FLAGS | O_CREAT | O_EXCL, 0600), rc;

	if (fd < 0 && errno == EEXIST)
		fd = open(path, FLAGS);
	if (fd < 0)
		return refuse(path, errno);
	rc = take_over(path, fd);
	if (rc) {
		close(fd);
		return rc;
	}
	*fd_out = fd;
	return 0;
}

bool spw_file_put(int fd, const void *at, size_t bytes)
{
	const char *from = at;

	while (bytes) {
		ssize_t n = write(fd, from, bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		from += n;
		bytes -= (size_t)n;
	}
	return true;
}
