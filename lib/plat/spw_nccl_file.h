/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What a file of NCCL's library is, read and not loaded.
 */
#ifndef SPW_NCCL_FILE_H
#define SPW_NCCL_FILE_H

#include "base/spw_types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spw_nccl_file {
	char version[16];  /* "2.28.9" */
	char build_id[48]; /* hexadecimal; "" it has none */
	int32_t gcc;       /* major number of the oldest GCC that compiled a part; 0 unknown */
};

/* Purpose: reads a file without loading it.
 * Returns: false: it cannot be read, or is no library of NCCL.
 * Thread: any.
 */
bool spw_nccl_file_read(const char *path, struct spw_nccl_file *out);

/* Purpose: whether a line of /proc/PID/maps is of NCCL's library: "libnccl.so.2", not
 *   "libnccl-net.so".
 * Returns: its path, within the line; NULL: it is not.
 * Thread: any; pure.
 */
const char *spw_nccl_mapped(const char *line);

#ifdef __cplusplus
}
#endif
#endif
