/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * System calls under their own names, past everything that interposes on libc: preload.c's
 * functions, or a sanitizer's. Code of this library opens, closes and writes files with these where
 * the interposed function would take its descriptor or path for the application's. Async-signal-
 * safe. Thread: any. Errors: as libc's, -1 and errno.
 */
#ifndef SPW_SOFTHCA_HCA_REAL_H
#define SPW_SOFTHCA_HCA_REAL_H

#include <sys/types.h>

#include "base/spw_types.h"

int real_open(const char *path, int flags, mode_t mode);
int real_openat(int at, const char *path, int flags, mode_t mode);
int real_close(int fd); /* fd -1: no-op, EBADF */
bool real_exists(const char *path);
ssize_t real_write(int fd, const void *buf, size_t len);

#endif
