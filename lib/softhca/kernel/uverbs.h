/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The uverbs character device. Both of its ABIs, write() and ioctl(), end in one dispatcher. The
 * preload library calls uv_write and uv_ioctl for descriptors that are ours; fuzz targets call them
 * without it. No input may do worse than return an errno.
 *
 * Sources: <rdma/ib_user_verbs.h>, <rdma/rdma_user_ioctl_cmds.h>; errno values as in Linux
 * drivers/infiniband/core/uverbs_main.c and uverbs_ioctl.c.
 */
#ifndef SPW_SOFTHCA_UVERBS_H
#define SPW_SOFTHCA_UVERBS_H

#include "softhca/hca_obj.h"

/* One command with its four buffers, all in the library's own memory and 8-byte aligned. `in` and
 * `uhw_in` are followed by UV_PAD_BYTES of zeros, so a command may read its whole structure however
 * little was sent. uhw_*: the driver's (libmlx5's) part. */
struct uv_call {
	struct hca_ctx *ctx;
	const void *in;
	void *out;
	const void *uhw_in;
	void *uhw_out;
	uint32_t in_bytes, out_bytes; /* sent by the caller; its room for the answer */
	uint32_t uhw_in_bytes, uhw_out_bytes;
};

#define UV_PAD_BYTES 512u /* no fixed structure is longer */

/* Purpose: executes one command. cmd: IB_USER_VERBS_CMD_*; extended commands with
 *          IB_USER_VERBS_CMD_FLAG_EXTENDED.
 * Errors:  -EINVAL (no such command, or before GET_CONTEXT), -EOPNOTSUPP (not modelled), -ENOSPC
 *          (a buffer is too short), else the command's.
 * Thread:  any; takes the device lock. */
int uv_dispatch(uint32_t cmd, struct uv_call *call);

/* Purpose: write(fd, buf, len) on the device file. Returns: len or -errno. Thread: any. */
int64_t uv_write(struct hca_ctx *ctx, const void *buf, size_t len);

/* Purpose: ioctl(fd, RDMA_VERBS_IOCTL, hdr); hdr points to a struct ib_uverbs_ioctl_hdr in the
 *          application's memory. Returns: 0 or -errno. Thread: any. */
int uv_ioctl(struct hca_ctx *ctx, void *hdr);

/* Purpose: copies as much of the driver's answer as the caller has room for. */
void uv_uhw_reply(struct uv_call *c, const void *resp, size_t bytes);

#endif
