/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The uverbs character device: its write() ABI and its ioctl() both end in one dispatcher. Whatever a
 * caller sends is an errno at worst; these are the entry points for fuzzing, no preload is needed.
 *
 * Sources: <rdma/ib_user_verbs.h>, <rdma/rdma_user_ioctl_cmds.h>; errno values as in Linux
 * drivers/infiniband/core/uverbs_main.c and uverbs_ioctl.c.
 */
#ifndef SPW_SOFTHCA_UVERBS_H
#define SPW_SOFTHCA_UVERBS_H

#include "softhca/hca_obj.h"

/* One command with its four buffers, all in the library's own memory and 8-byte aligned.
 * `in` and `uhw_in` are followed by zeros: a handler may read its whole structure whatever was sent. */
struct uv_call {
	struct hca_ctx *ctx;
	const void *in;
	void *out;
	const void *uhw_in;
	void *uhw_out;
	uint32_t in_bytes, out_bytes, uhw_in_bytes, uhw_out_bytes; /* as the caller sent or has room for */
};

#define UV_PAD_BYTES 512u /* zeros behind in and uhw_in; no fixed structure is longer */

/* Purpose: executes one command; `cmd` is IB_USER_VERBS_CMD_*, with IB_USER_VERBS_CMD_FLAG_EXTENDED for
 *          those. Answers go to call->out and call->uhw_out. Returns: 0 or -errno.
 * Thread:  any; takes the device lock. */
int uv_dispatch(uint32_t cmd, struct uv_call *call);

/* Purpose: what write(fd, buf, len) does. Returns: len or -errno. */
int64_t uv_write(struct hca_ctx *ctx, const void *buf, size_t len);

/* Purpose: what ioctl(fd, RDMA_VERBS_IOCTL, hdr) does; hdr points to a struct ib_uverbs_ioctl_hdr. */
int uv_ioctl(struct hca_ctx *ctx, void *hdr);

/* The part of the driver's answer that the caller has room for. */
void uv_uhw_reply(struct uv_call *c, const void *resp, size_t bytes);

#endif
