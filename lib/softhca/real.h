/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * libc's own versions of what preload.c interposes. Everything in this library calls these, never the
 * interposed names; without preload.c (unit tests, fuzz targets) they are the plain calls.
 */
#ifndef SPW_SOFTHCA_REAL_H
#define SPW_SOFTHCA_REAL_H

#include <sys/types.h>

#include "base/spw_types.h"

/* Made as system calls, so that no interposer, ours or a sanitizer's, stands in between. */
int real_open(const char *path, int flags, mode_t mode);
int real_close(int fd);
bool real_exists(const char *path);
ssize_t real_write(int fd, const void *buf, size_t len);

#endif
