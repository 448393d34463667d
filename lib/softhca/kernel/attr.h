/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The attributes of an ioctl, as its method reads and answers them. ioctl.c copies them before the
 * method runs and has checked that none is named twice; an answer goes to where the caller's
 * attributes lie. Errors are those of Linux drivers/infiniband/core/uverbs_ioctl.c.
 */
#ifndef SPW_SOFTHCA_ATTR_H
#define SPW_SOFTHCA_ATTR_H

#include "softhca/kernel/cmd.h"

#define UV_ATTRS_MAX 64u

struct uv_ioctl {
	struct hca_ctx *ctx;
	uint64_t user_attr; /* address of the attributes in the caller's memory */
	struct ib_uverbs_attr attr[UV_ATTRS_MAX];
	uint32_t cnt;
};

/* Returns: NULL: the caller did not send it. */
SPW_INLINE const struct ib_uverbs_attr *uv_ioctl_attr(const struct uv_ioctl *io, uint16_t id)
{
	return uv_attr(io->attr, io->cnt, id);
}

/* Purpose: a number of 4 or 8 bytes, which are in the attribute itself. Errors: -EINVAL: none, or
 * above max. */
int uv_attr_num(const struct uv_ioctl *io, uint16_t id, uint64_t max, uint64_t *out);
/* Purpose: a handle, which is in the attribute itself; it then has no length. */
int uv_attr_handle(const struct uv_ioctl *io, uint16_t id, uint32_t *out);
/* Purpose: copies an input of min .. max bytes; what it lacks to max reads 0. Errors: -EINVAL, or
 * -EFAULT. */
int uv_attr_bytes(const struct uv_ioctl *io, uint16_t id, void *out, size_t min, size_t max);
/* Purpose: answers an output attribute; one that the caller did not send is skipped. Errors:
 * -ENOSPC: it has less room. */
int uv_attr_put(const struct uv_ioctl *io, uint16_t id, const void *src, size_t bytes);
/* Purpose: writes a new handle into the attribute itself. */
int uv_attr_put_handle(const struct uv_ioctl *io, uint16_t id, uint64_t handle);

/* ---- methods (flow/match.c) ---- */

int do_matcher_create(struct uv_ioctl *io);
int do_matcher_destroy(struct uv_ioctl *io);
int do_rule_create(struct uv_ioctl *io);
int do_rule_destroy(struct uv_ioctl *io);
int do_action_create(struct uv_ioctl *io);

#endif
