/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Output files: the one way by which every file that a user names is opened. The place may not be
 * safe: a user may name a file in /tmp, where anybody can put a link, or a file that another run is
 * still writing.
 *
 *   spw_file_try      before a run: could it be written?
 *   spw_file_create   written as the run goes on: captures, logs
 *   spw_file_begin, spw_file_end
 *                     a report: written beside its place and renamed, so that it appears whole or
 *                     what was there stays
 *
 * A pipe or a device is opened as it is. /dev/stdout, /dev/stderr, /dev/fd/N and /proc/self/fd/N
 * are the descriptors that the process has. "-" is refused: whoever can write to stdout takes it
 * before.
 */
#ifndef SPW_BASE_FILE_H
#define SPW_BASE_FILE_H

#include <limits.h>

#include "base/spw_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Purpose: opens path for writing, empty, mode 0600. A regular file stays locked (flock) until its
 *   descriptor is closed.
 * Owner: the caller, of the descriptor.
 * Thread: any.
 * Errors: -ELOOP: a symbolic link; -EPERM: a file of another user, or one with several names;
 *   -EBUSY: this or another process is writing it; -EINVAL: "-"; else -errno of open(). All with a
 *   text.
 */
int spw_file_create(const char *path, int *fd_out);

/* A file that is being written beside its place. */
struct spw_file {
	int fd;
	char path[PATH_MAX];
	char beside[PATH_MAX]; /* "": written in place */
};

/* Purpose: begins a file that appears whole, at spw_file_end, or not at all. A link that is there
 * is replaced, not followed. Shape: mode as of open(): 0600, or 0666 less the umask for what
 * anybody may read. Owner: the caller, until spw_file_end; it writes to file_out->fd. Thread: any.
 * Errors: -EISDIR: a folder; -EPERM: in a sticky folder, and another user's; -EINVAL: "-";
 *   -ENAMETOOLONG; else -errno of open(). All with a text.
 */
int spw_file_begin(const char *path, uint32_t mode, struct spw_file *file_out);

/* Purpose: puts the file in its place, or, if not all of it could be written, removes it.
 * Shape: error: 0, or the errno of what failed.
 * Thread: any.
 * Errors: -errno of what failed, or of close() and rename(), with a text that has the path.
 */
int spw_file_end(struct spw_file *file, int error);

/* Purpose: whether spw_file_create and spw_file_begin will be able to write to path. Leaves what is
 *   there as it is, and nothing that was not. NULL and "" are good: there is no file.
 * Thread: any.
 * Errors: as spw_file_begin.
 */
int spw_file_try(const char *path);

/* Purpose: writes all bytes, however many calls that takes.
 * Returns: false if it could not; errno says why.
 * Thread: any.
 */
bool spw_file_put(int fd, const void *at, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
