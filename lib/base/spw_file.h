/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Output files in places that are not safe: a user may name a file in /tmp, where anybody can put
 * a link, or a file that another run is still writing.
 */
#ifndef SPW_BASE_FILE_H
#define SPW_BASE_FILE_H

#include "base/spw_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Purpose: opens path for writing, empty, mode 0600. A regular file stays locked (flock) until its
 *   descriptor is closed; a pipe or a device is opened as it is.
 * Owner: the caller, of the descriptor.
 * Thread: any.
 * Errors: -ELOOP: a symbolic link; -EPERM: a file of another user, or one with several names;
 *   -EBUSY: this or another process is writing it; else -errno of open(). All with a text.
 */
int spw_file_create(const char *path, int *fd_out);

/* Purpose: writes all bytes, however many calls that takes.
 * Returns: false if it could not; errno says why.
 * Thread: any.
 */
bool spw_file_put(int fd, const void *at, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
