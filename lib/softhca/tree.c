/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 */
#include "softhca/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "softhca/real.h"

#define PREFIX "spw-softhca-"
#define TRIES  8

static const char *base_dir(void)
{
	return access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)ftw;
	return type == FTW_DP ? rmdir(path) : unlink(path);
}

static void remove_all(const char *root)
{
	nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* Whose lock nobody holds, its process is gone. */
static void sweep_one(const char *base, const char *name)
{
	char root[300], lock[320];
	int fd;

	snprintf(root, sizeof(root), "%s/%s", base, name);
	snprintf(lock, sizeof(lock), "%s/.lock", root);
	fd = real_open(lock, O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0);
	if (fd < 0)
		return;
	if (flock(fd, LOCK_EX | LOCK_NB) == 0)
		remove_all(root);
	real_close(fd);
}

static void sweep(const char *base)
{
	DIR *d = opendir(base);
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (strncmp(e->d_name, PREFIX, strlen(PREFIX)) == 0)
			sweep_one(base, e->d_name);
	if (d)
		closedir(d);
}

static int make_locked(struct tree *t, const char *base)
{
	char lock[128];

	snprintf(t->root, sizeof(t->root), "%s/" PREFIX "XXXXXX", base);
	if (!mkdtemp(t->root))
		return -errno;
	snprintf(lock, sizeof(lock), "%s/.lock", t->root);
	t->lock_fd = real_open(lock, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (t->lock_fd < 0)
		return -errno;
	/* A sweeper may have come between the two; it then removes the folder and we take another. */
	if (flock(t->lock_fd, LOCK_EX | LOCK_NB) == 0 && access(lock, F_OK) == 0)
		return 0;
	real_close(t->lock_fd);
	return -EAGAIN;
}

int tree_make(struct tree *t)
{
	const char *base = base_dir();
	int rc = -EAGAIN;

	sweep(base);
	for (int i = 0; i < TRIES && rc == -EAGAIN; i++)
		rc = make_locked(t, base);
	if (!rc)
		return 0;
	t->root[0] = 0;
	return spw_err(-rc, "cannot make a folder in %s: %s", base, strerror(-rc));
}

void tree_remove(struct tree *t)
{
	if (!t->root[0])
		return;
	remove_all(t->root);
	real_close(t->lock_fd);
	t->root[0] = 0;
}

/* Makes what is missing of the folders above the last '/' of an absolute path. */
static int make_parents(char *abs, size_t from)
{
	for (char *p = abs + from; (p = strchr(p, '/')); p++) {
		*p = 0;
		if (mkdir(abs, 0755) && errno != EEXIST)
			return -errno;
		*p = '/';
	}
	return 0;
}

static int abs_path(const struct tree *t, const char *path, char *buf, size_t bytes)
{
	if ((size_t)snprintf(buf, bytes, "%s/%s", t->root, path) >= bytes)
		return -ENAMETOOLONG;
	return make_parents(buf, strlen(t->root) + 1);
}

int tree_file(const struct tree *t, const char *path, const char *fmt, ...)
{
	char abs[512], text[1024];
	va_list ap;
	int fd, n, rc = abs_path(t, path, abs, sizeof(abs));

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
	/* Written over in place, so that a reader never finds it empty. */
	if (real_write(fd, text, (size_t)n) != n || ftruncate(fd, n))
		rc = -EIO;
	real_close(fd);
	return rc;
}

int tree_link(const struct tree *t, const char *path, const char *target)
{
	char abs[512];
	int rc = abs_path(t, path, abs, sizeof(abs));

	if (!rc && symlink(target, abs))
		rc = -errno;
	return rc;
}

int tree_dir(const struct tree *t, const char *path)
{
	char abs[512];
	int rc = abs_path(t, path, abs, sizeof(abs));

	if (!rc && mkdir(abs, 0755) && errno != EEXIST)
		rc = -errno;
	return rc;
}
