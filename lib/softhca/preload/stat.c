/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The interposed stat family. Emulated device files are regular files, and their descriptors
 * memfds; stat reports them as the character devices that libibverbs checks for. Other emulated
 * paths are only mapped.
 *
 * glibc has three generations of each name: stat, stat64, and __xstat with a version, which older
 * programs were linked with. All of them are here, and all but statx end in one of two bodies: by
 * path, or by descriptor.
 *
 *   by path         vfs_cdev: is it a device file? vfs_map: where it is
 *   by descriptor   is it marked, and a device file?
 *
 * What to know before changing it: a program compares st_rdev with the text of the file `dev` in
 * sysfs (kernel/sysfs.c), so both use UVERBS_MINOR.
 */
#undef _FILE_OFFSET_BITS /* with it, stat would be another name of stat64; both are defined here \
			  */
#include <fcntl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "softhca/preload/preload.h"
#include "softhca/preload/proc.h"

/* What the file `dev` in sysfs says too. */
static dev_t cdev_number(int idx)
{
	if (idx == PROC_CMA)
		return makedev(RDMA_CM_MAJOR, RDMA_CM_MINOR);
	return makedev(UVERBS_MAJOR, UVERBS_MINOR(proc_cfg(), (uint32_t)idx));
}

/* Size and times stay those of the file that stands in for it. */
#define AS_CDEV(st, idx)                            \
	do {                                        \
		(st)->st_mode = S_IFCHR | 0666;     \
		(st)->st_rdev = cdev_number((idx)); \
	} while (0)

#define STAT_PATH(name, next, params, ...)             \
	EXPORT int name params                         \
	{                                              \
		char buf[VFS_PATH_BYTES];              \
		int idx = vfs_cdev(path);              \
		const char *real = vfs_map(path, buf); \
		int rc = NEXT(next)(__VA_ARGS__);      \
		if (rc == 0 && idx >= 0)               \
			AS_CDEV(st, idx);              \
		return rc;                             \
	}

#define STAT_FD(name, next, params)          \
	EXPORT int name params               \
	{                                    \
		int idx = proc_fd_dev(fd);   \
		int rc = NEXT(next)(fd, st); \
		if (rc == 0 && idx >= 0)     \
			AS_CDEV(st, idx);    \
		return rc;                   \
	}

STAT_PATH(stat, stat, (const char *restrict path, struct stat *restrict st), real, st);
STAT_PATH(lstat, lstat, (const char *restrict path, struct stat *restrict st), real, st);
STAT_FD(fstat, fstat, (int fd, struct stat *st));
STAT_PATH(fstatat, fstatat,
	  (int dirfd, const char *restrict path, struct stat *restrict st, int flags), dirfd, real,
	  st, flags);
STAT_PATH(stat64, stat64, (const char *restrict path, struct stat64 *restrict st), real, st);
STAT_PATH(lstat64, lstat64, (const char *restrict path, struct stat64 *restrict st), real, st);
STAT_FD(fstat64, fstat64, (int fd, struct stat64 *st));
STAT_PATH(fstatat64, fstatat64,
	  (int dirfd, const char *restrict path, struct stat64 *restrict st, int flags), dirfd,
	  real, st, flags);

/* Called by programs that were built before glibc 2.33, and by a sanitizer's stat, which therefore
 * must not be called from here. */
STAT_PATH(__xstat, stat, (int ver SPW_UNUSED, const char *path, struct stat *st), real, st);
STAT_PATH(__lxstat, lstat, (int ver SPW_UNUSED, const char *path, struct stat *st), real, st);
STAT_FD(__fxstat, fstat, (int ver SPW_UNUSED, int fd, struct stat *st));
STAT_PATH(__xstat64, stat64, (int ver SPW_UNUSED, const char *path, struct stat64 *st), real, st);
STAT_PATH(__lxstat64, lstat64, (int ver SPW_UNUSED, const char *path, struct stat64 *st), real, st);
STAT_FD(__fxstat64, fstat64, (int ver SPW_UNUSED, int fd, struct stat64 *st));

/* It has a structure of its own, with major and minor apart. */
EXPORT int statx(int dirfd, const char *restrict path, int flags, unsigned int mask,
		 struct statx *restrict st)
{
	char buf[VFS_PATH_BYTES];
	int idx = vfs_cdev(path);
	int rc = NEXT(statx)(dirfd, vfs_map(path, buf), flags, mask, st);

	if (rc == 0 && idx >= 0) {
		st->stx_mode = S_IFCHR | 0666;
		st->stx_rdev_major = major(cdev_number(idx));
		st->stx_rdev_minor = minor(cdev_number(idx));
	}
	return rc;
}
