/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The private folder of a process. Removal must be safe in two ways: against other users (in /tmp a
 * symbolic link could lead elsewhere), so it goes by descriptors and follows no link; and in a
 * signal handler that called exit(), so it uses neither malloc nor locks nor stdio.
 *
 *   BASE/spw-softhca-UID-PID-XXXXXX/          BASE: /dev/shm, or /tmp where that cannot be written
 *     .lock                                   locked while its process lives
 *     sys/... dev/...                         written by sysfs.c and sysfs_real.c
 *
 *   tree_make     sweep: remove what killed processes left --> folder --> lock
 *   tree_remove   files, folders, the lock, the folder
 *
 * preload/proc.c makes the tree on first use and removes it at exit. What to know before changing
 * it: another process may sweep at any moment, so nothing is done in a folder before its lock is
 * held.
 */
#include "softhca/kernel/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "base/spw_uid.h"
#include "softhca/hca_real.h"

#define PREFIX "spw-softhca-"
#define LOCK   ".lock"
#define TRIES  8

/* /dev/shm is memory: files in it cost no disk, and none survives a restart of the machine. */
static const char *tree_base_dir(void)
{
	return access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
}

/* O_NOFOLLOW: what has the name of our folder may be a link of somebody else. */
static int tree_open_dir(int at, const char *name)
{
	return real_openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
}

/* ---- removal ---- */

#define DEPTH_MAX 16u

/* A record of getdents64. */
struct entry {
	uint64_t ino;
	int64_t next;
	uint16_t bytes;
	uint8_t type;
	char name[];
};

/* Deletes the files of a folder but the lock. Returns: true: it contains a folder, name_out is its
 * name. */
static bool tree_remove_files(int fd, char name_out[NAME_MAX + 1])
{
	static char buf[4096] SPW_ALIGNED(8); /* static: a signal stack may be small */
	bool found = false;
	long n;

	lseek(fd, 0, SEEK_SET);
	while ((n = syscall(SYS_getdents64, fd, buf, sizeof(buf))) > 0) {
		for (const struct entry *e = (void *)buf; (char *)e < buf + n;
		     e = (void *)((char *)e + e->bytes)) {
			if (strcmp(e->name, ".") == 0 || strcmp(e->name, "..") == 0 ||
			    strcmp(e->name, LOCK) == 0)
				continue;
			if (unlinkat(fd, e->name, 0) && (errno == EISDIR || errno == EPERM) &&
			    !found) {
				strcpy(name_out, e->name);
				found = true;
			}
		}
	}
	return found;
}

/* Returns: whether nothing is left; without descriptors something is. */
static bool tree_empty_dir(int fd, uint32_t depth)
{
	char name[NAME_MAX + 1];

	while (tree_remove_files(fd, name)) {
		const int sub = tree_open_dir(fd, name);

		if (sub >= 0 && depth < DEPTH_MAX)
			(void)tree_empty_dir(sub, depth + 1);
		real_close(sub);
		if (unlinkat(fd, name, AT_REMOVEDIR))
			return false; /* or the loop would find it again, for ever */
	}
	return true;
}

/* The lock goes last: by it a sweep finds the folder if this process is killed meanwhile, or has
 * not the descriptors to empty it. */
static void tree_remove_root(int at, const char *name, int fd)
{
	if (!tree_empty_dir(fd, 0))
		return;
	unlinkat(fd, LOCK, 0);
	unlinkat(at, name, AT_REMOVEDIR);
}

/* The folder is private to this user: nobody else can have changed what is in it. */
static bool tree_is_own(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_uid == geteuid() && (st.st_mode & 07777) == 0700;
}

/* No process holds the lock of the folder: its owner is gone. A folder without one gets it here, so
 * whoever is just making it finds the lock taken, and makes another. */
static bool tree_is_dead(int fd, int *lock_out)
{
	*lock_out = real_openat(fd, LOCK, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	return *lock_out >= 0 && flock(*lock_out, LOCK_EX | LOCK_NB) == 0;
}

/* Whatever cannot be shown to be ours and dead is left alone. */
static void tree_sweep_one(int base_fd, const char *name)
{
	const int fd = tree_open_dir(base_fd, name);
	int lock = -1;

	if (fd >= 0 && tree_is_own(fd) && tree_is_dead(fd, &lock))
		tree_remove_root(base_fd, name, fd);
	real_close(lock);
	real_close(fd);
}

/* With the user in the name a sweep does not even open the folders of others. */
void tree_prefix(char *buf, size_t bytes)
{
	snprintf(buf, bytes, PREFIX "%u-", spw_uid_outer());
}

void tree_sweep(const char *base)
{
	DIR *d = opendir(base);
	struct dirent *e;
	char prefix[32];

	tree_prefix(prefix, sizeof(prefix));
	while (d && (e = readdir(d)))
		if (strncmp(e->d_name, prefix, strlen(prefix)) == 0)
			tree_sweep_one(dirfd(d), e->d_name);
	if (d)
		closedir(d);
}

static int tree_make_locked(struct tree *t, const char *base)
{
	char lock[128], prefix[32];
	int rc;

	tree_prefix(prefix, sizeof(prefix));
	snprintf(t->root, sizeof(t->root), "%s/%s%d-XXXXXX", base, prefix, (int)getpid());
	if (!mkdtemp(t->root))
		return -errno;
	snprintf(lock, sizeof(lock), "%s/" LOCK, t->root);
	t->lock_fd = real_open(lock, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (t->lock_fd < 0) {
		rc = errno == EEXIST || errno == ENOENT ? -EAGAIN
							: -errno; /* a sweep's, as below */
		rmdir(t->root);
		return rc;
	}
	/* Another process's sweep between the two calls deletes the folder; then take another. */
	if (flock(t->lock_fd, LOCK_EX | LOCK_NB) == 0 && access(lock, F_OK) == 0)
		return 0;
	real_close(t->lock_fd);
	return -EAGAIN;
}

/* Each try takes another name: a sweep may have removed the folder before it was locked. */
int tree_make(struct tree *t)
{
	const char *base = tree_base_dir();
	int rc = -EAGAIN;

	tree_sweep(base);
	for (int i = 0; i < TRIES && rc == -EAGAIN; i++)
		rc = tree_make_locked(t, base);
	if (!rc)
		return 0;
	t->root[0] = 0;
	return spw_err(-rc, "cannot make a folder in %s: %s", base, strerror(-rc));
}

/* Our own folder is checked as those of a sweep are: another may have taken its name. */
void tree_remove(struct tree *t)
{
	int fd;

	if (!t->root[0])
		return;
	fd = tree_open_dir(AT_FDCWD, t->root);
	if (fd >= 0 && tree_is_own(fd))
		tree_remove_root(AT_FDCWD, t->root, fd);
	real_close(fd);
	real_close(t->lock_fd);
	t->root[0] = 0;
}

/* Creates the missing folders above the last '/' of an absolute path. */
static int tree_make_parents(char *abs, size_t from)
{
	for (char *p = abs + from; (p = strchr(p, '/')); p++) {
		*p = 0;
		if (mkdir(abs, 0755) && errno != EEXIST)
			return -errno;
		*p = '/';
	}
	return 0;
}

static int tree_abs_path(const struct tree *t, const char *path, char *buf, size_t bytes)
{
	if ((size_t)snprintf(buf, bytes, "%s/%s", t->root, path) >= bytes)
		return -ENAMETOOLONG;
	return tree_make_parents(buf, strlen(t->root) + 1);
}

/* The text is cut at its buffer, and gets a newline, as files of sysfs have one. */
int tree_file(const struct tree *t, const char *path, const char *fmt, ...)
{
	char abs[512], text[1024];
	va_list ap;
	int fd, n, rc = tree_abs_path(t, path, abs, sizeof(abs));
	ssize_t wrote;

	if (rc)
		return rc;
	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text) - 1, fmt, ap);
	va_end(ap);
	n = SPW_MIN(SPW_MAX(n, 0), (int)sizeof(text) - 2);
	text[n++] = '\n';
	fd = real_open(abs, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0)
		return -errno;
	/* Overwritten in place: a reader never finds it empty. */
	wrote = real_write(fd, text, (size_t)n);
	if (wrote != n || ftruncate(fd, n)) /* a short write: the file system has no room */
		rc = wrote >= 0 && wrote < n ? -ENOSPC : -errno;
	real_close(fd);
	return rc;
}

int tree_link(const struct tree *t, const char *path, const char *target)
{
	char abs[512];
	int rc = tree_abs_path(t, path, abs, sizeof(abs));

	if (!rc && symlink(target, abs))
		rc = -errno;
	return rc;
}

int tree_dir(const struct tree *t, const char *path)
{
	char abs[512];
	int rc = tree_abs_path(t, path, abs, sizeof(abs));

	if (!rc && mkdir(abs, 0755) && errno != EEXIST)
		rc = -errno;
	return rc;
}

void tree_unlink(const struct tree *t, const char *path)
{
	char abs[512];

	if ((size_t)snprintf(abs, sizeof(abs), "%s/%s", t->root, path) < sizeof(abs))
		unlink(abs);
}
