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
 *   by descriptor   is it marked, and has it a context?
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

/* The context must not go while it is read: it is taken and put back. */
static uint32_t ctx_dev_idx(int fd, bool *ours_out)
{
	struct hca_ctx *ctx = proc_fd_marked(fd) ? proc_ctx_get(fd) : NULL;
	uint32_t idx = 0;

	*ours_out = ctx;
	if (ctx) {
		idx = ctx->dev->idx;
		proc_ctx_put(ctx);
	}
	return idx;
}

/* Size and times stay those of the file that stands in for it. */
#define AS_CDEV(st, idx)                                                                          \
	do {                                                                                      \
		(st)->st_mode = S_IFCHR | 0666;                                                   \
		(st)->st_rdev = makedev(UVERBS_MAJOR, UVERBS_MINOR(proc_cfg(), (uint32_t)(idx))); \
	} while (0)

#define PATH_BODY(name, call_args, ...)                   \
	char buf[VFS_PATH_BYTES];                         \
	int idx = vfs_cdev(path);                         \
	const char *real = vfs_map(path, buf);            \
	int rc = NEXT(name, int, call_args)(__VA_ARGS__); \
	if (rc == 0 && idx >= 0)                          \
		AS_CDEV(st, idx);                         \
	return rc

#define FD_BODY(name, type)                              \
	bool ours;                                       \
	uint32_t idx = ctx_dev_idx(fd, &ours);           \
	int rc = NEXT(name, int, (int, type *))(fd, st); \
	if (rc == 0 && ours)                             \
		AS_CDEV(st, idx);                        \
	return rc

EXPORT int stat(const char *restrict path, struct stat *restrict st)
{
	PATH_BODY(stat, (const char *, struct stat *), real, st);
}

EXPORT int lstat(const char *restrict path, struct stat *restrict st)
{
	PATH_BODY(lstat, (const char *, struct stat *), real, st);
}

EXPORT int fstat(int fd, struct stat *st)
{
	FD_BODY(fstat, struct stat);
}

EXPORT int fstatat(int dirfd, const char *restrict path, struct stat *restrict st, int flags)
{
	PATH_BODY(fstatat, (int, const char *, struct stat *, int), dirfd, real, st, flags);
}

EXPORT int stat64(const char *restrict path, struct stat64 *restrict st)
{
	PATH_BODY(stat64, (const char *, struct stat64 *), real, st);
}

EXPORT int lstat64(const char *restrict path, struct stat64 *restrict st)
{
	PATH_BODY(lstat64, (const char *, struct stat64 *), real, st);
}

EXPORT int fstat64(int fd, struct stat64 *st)
{
	FD_BODY(fstat64, struct stat64);
}

EXPORT int fstatat64(int dirfd, const char *restrict path, struct stat64 *restrict st, int flags)
{
	PATH_BODY(fstatat64, (int, const char *, struct stat64 *, int), dirfd, real, st, flags);
}

/* It has a structure of its own, with major and minor apart. */
EXPORT int statx(int dirfd, const char *restrict path, int flags, unsigned int mask,
		 struct statx *restrict st)
{
	char buf[VFS_PATH_BYTES];
	int idx = vfs_cdev(path);
	int rc = NEXT(statx, int, (int, const char *, int, unsigned int, struct statx *))(
		dirfd, vfs_map(path, buf), flags, mask, st);

	if (rc == 0 && idx >= 0) {
		st->stx_mode = S_IFCHR | 0666;
		st->stx_rdev_major = UVERBS_MAJOR;
		st->stx_rdev_minor = UVERBS_MINOR(proc_cfg(), (uint32_t)idx);
	}
	return rc;
}

/* Called by programs that were built before glibc 2.33, and by a sanitizer's stat, which therefore
 * must not be called from here. */
EXPORT int __xstat(int ver SPW_UNUSED, const char *path, struct stat *st)
{
	PATH_BODY(stat, (const char *, struct stat *), real, st);
}

EXPORT int __lxstat(int ver SPW_UNUSED, const char *path, struct stat *st)
{
	PATH_BODY(lstat, (const char *, struct stat *), real, st);
}

EXPORT int __fxstat(int ver SPW_UNUSED, int fd, struct stat *st)
{
	FD_BODY(fstat, struct stat);
}

EXPORT int __xstat64(int ver SPW_UNUSED, const char *path, struct stat64 *st)
{
	PATH_BODY(stat64, (const char *, struct stat64 *), real, st);
}

EXPORT int __lxstat64(int ver SPW_UNUSED, const char *path, struct stat64 *st)
{
	PATH_BODY(lstat64, (const char *, struct stat64 *), real, st);
}

EXPORT int __fxstat64(int ver SPW_UNUSED, int fd, struct stat64 *st)
{
	FD_BODY(fstat64, struct stat64);
}
