/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Opens an output file without following what others have put in its place (spw_file.h). Programs
 * use it for every file that a user names: captures, reports, logs.
 *
 *   "-"? refuse │ /dev/stdout, /dev/fd/N? dup │ a link? refuse │ a pipe, a device? open
 *   create: O_EXCL, else take over what is there     begin: O_EXCL beside it ... end: rename
 */
#include "base/spw_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/spw_err.h"

#define FLAGS (O_WRONLY | O_CLOEXEC | O_NOFOLLOW)

static int file_refuse(const char *path, int err)
{
	if (err == ELOOP)
		return spw_err(err, "%s is a symbolic link; name the file itself", path);
	return spw_err(err, "%s: cannot write: %s", path, strerror(err));
}

/* Only outputs that can go to stdout accept "-", and their programs take it before they come here.
 */
static int file_refuse_dash(void)
{
	return spw_err(EINVAL,
		       "-: this output does not go to stdout; name a file (./- is one called -)");
}

/* The descriptor that path stands for, -1 if none. Such names are links too, but nobody else can
 * put them there: below /dev/shm anybody can. */
static int file_own_fd(const char *path)
{
	static const char *const folder[] = {"/dev/fd/", "/proc/self/fd/"};
	int fd = -1, end = 0;

	if (!strcmp(path, "/dev/stdout"))
		return STDOUT_FILENO;
	if (!strcmp(path, "/dev/stderr"))
		return STDERR_FILENO;
	for (size_t i = 0; i < SPW_ARRAY_CNT(folder); i++)
		if (!strncmp(path, folder[i], strlen(folder[i])) &&
		    sscanf(path + strlen(folder[i]), "%d%n", &fd, &end) == 1 &&
		    !path[strlen(folder[i]) + (size_t)end])
			return fd;
	return -1;
}

/* Accepts a file that existed before, and empties it. Checked first: it belongs to this user, under
 * one name, and nobody is writing it; a pipe or a device is left as it is. */
static int file_take_over(const char *path, int fd)
{
	struct stat st;

	if (fstat(fd, &st))
		return file_refuse(path, errno);
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
	return ftruncate(fd, 0) ? file_refuse(path, errno) : 0;
}

/* O_EXCL first: a file that did not exist is ours without further checks, mode 0600. Only if it
 * exists is it opened and examined (file_take_over). O_NOFOLLOW in both cases: a name in a shared
 * directory may be a link that somebody else has put there. */
int spw_file_create(const char *path, int *fd_out)
{
	const int own = file_own_fd(path);
	int fd, rc;

	if (!strcmp(path, "-"))
		return file_refuse_dash();
	fd = own >= 0 ? fcntl(own, F_DUPFD_CLOEXEC, 0) : open(path, FLAGS | O_CREAT | O_EXCL, 0600);
	if (fd < 0 && errno == EEXIST)
		fd = open(path, FLAGS);
	if (fd < 0)
		return file_refuse(path, errno);
	rc = own >= 0 ? 0 : file_take_over(path, fd);
	if (rc) {
		close(fd);
		return rc;
	}
	*fd_out = fd;
	return 0;
}

/* ---- whole or not at all ---- */

/* Whether rename() could not replace what another user has put there: its folder is sticky. */
static bool file_is_pinned(const char *path, const struct stat *st)
{
	const char *slash = strrchr(path, '/');
	char folder[PATH_MAX];
	struct stat of;

	snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - path) + 1 : 1,
		 slash ? path : ".");
	return geteuid() && st->st_uid != geteuid() && stat(folder, &of) == 0 &&
	       (of.st_mode & S_ISVTX) && of.st_uid != geteuid();
}

/* Whether the file must be written where it is: what is no regular file cannot be renamed over. A
 * link is replaced, not followed. */
static int file_in_place(const char *path, bool *in_place_out)
{
	struct stat st;

	*in_place_out = file_own_fd(path) >= 0;
	if (!strcmp(path, "-"))
		return file_refuse_dash();
	if (*in_place_out || lstat(path, &st))
		return 0;
	if (S_ISDIR(st.st_mode))
		return file_refuse(path, EISDIR);
	if (file_is_pinned(path, &st))
		return file_refuse(path, EPERM);
	*in_place_out = !S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode);
	return 0;
}

int spw_file_begin(const char *path, uint32_t mode, struct spw_file *file_out)
{
	bool here;
	int rc = file_in_place(path, &here);

	file_out->beside[0] = '\0';
	if (rc)
		return rc;
	if (snprintf(file_out->path, PATH_MAX, "%s", path) >= PATH_MAX)
		return file_refuse(path, ENAMETOOLONG);
	if (here)
		return spw_file_create(path, &file_out->fd);
	/* In the same folder, since a rename does not cross file systems. */
	if (snprintf(file_out->beside, PATH_MAX, "%s.%d.tmp", path, (int)getpid()) >= PATH_MAX)
		return file_refuse(path, ENAMETOOLONG);
	unlink(file_out->beside); /* of an earlier process with this number */
	file_out->fd = open(file_out->beside, FLAGS | O_CREAT | O_EXCL, mode);
	return file_out->fd < 0 ? file_refuse(path, errno) : 0;
}

/* The rename is the last step, so a reader finds the old file or the whole new one. */
int spw_file_end(struct spw_file *file, int error)
{
	if (close(file->fd) && !error)
		error = errno;
	if (file->beside[0] && !error && rename(file->beside, file->path))
		error = errno;
	if (file->beside[0] && error)
		unlink(file->beside);
	return error ? file_refuse(file->path, error) : 0;
}

/* Creates the file beside the output as a run does, and removes it: this finds missing rights to
 * the folder as well. */
int spw_file_try(const char *path)
{
	struct spw_file file;
	bool here;
	int rc;

	if (!path || !path[0])
		return 0;
	rc = file_in_place(path, &here);
	if (rc || file_own_fd(path) >= 0)
		return rc;
	if (here)
		return access(path, W_OK) ? file_refuse(path, errno) : 0;
	rc = spw_file_begin(path, 0600, &file);
	if (rc)
		return rc;
	close(file.fd);
	unlink(file.beside);
	return 0;
}

/* A short write is continued. After false a part of the bytes may stand in the file. */
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
