/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * System calls past everything that interposes on libc (hca_real.h says why and where).
 *
 * Each goes through syscall(2), which nobody interposes on. It sets errno as libc's function does,
 * takes no lock and is no cancellation point, so signal handlers may use it.
 */
#include "softhca/hca_real.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

int real_open(const char *path, int flags, mode_t mode)
{
	return real_openat(AT_FDCWD, path, flags, mode);
}

int real_openat(int at, const char *path, int flags, mode_t mode)
{
	return (int)syscall(SYS_openat, at, path, flags, mode);
}

int real_close(int fd)
{
	return (int)syscall(SYS_close, fd);
}

bool real_exists(const char *path)
{
	return syscall(SYS_faccessat, AT_FDCWD, path, F_OK) == 0;
}

ssize_t real_write(int fd, const void *buf, size_t len)
{
	return syscall(SYS_write, fd, buf, len);
}
