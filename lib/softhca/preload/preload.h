/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * How an interposed function is written: EXPORT makes it visible, NEXT is the next definition in
 * the search order (libc's, or another preloaded library's).
 *
 *   EXPORT int chdir(const char *path) { ... return NEXT(chdir)(mapped); }
 */
#ifndef SPW_SOFTHCA_PRELOAD_H
#define SPW_SOFTHCA_PRELOAD_H

#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/spw_order.h"

#define EXPORT __attribute__((visibility("default")))

/* Purpose: dlsym(RTLD_NEXT, name), cached in *slot. Thread: any. */
void *preload_next(void **slot, const char *name);

#define NEXT(name)                                                     \
	({                                                             \
		static void *slot_##name;                              \
		(__typeof__(name) *)preload_next(&slot_##name, #name); \
	})

struct iovec;
/* Purpose: send() on a socket of NETLINK_RDMA, from any of its names (sock.c). */
ssize_t netlink_write(int fd, const struct iovec *iov, size_t cnt);
/* Purpose: before a receive on any descriptor. */
void netlink_reading(int fd);

/* glibc's headers declare these for fortified programs, or no longer at all. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int dirfd, const char *path, int flags);
int __openat64_2(int dirfd, const char *path, int flags);
ssize_t __read_chk(int fd, void *buf, size_t len, size_t room);
char *__realpath_chk(const char *path, char *out, size_t bytes);
int __xstat(int ver, const char *path, struct stat *st);
int __lxstat(int ver, const char *path, struct stat *st);
int __fxstat(int ver, int fd, struct stat *st);
int __xstat64(int ver, const char *path, struct stat64 *st);
int __lxstat64(int ver, const char *path, struct stat64 *st);
int __fxstat64(int ver, int fd, struct stat64 *st);

#endif
