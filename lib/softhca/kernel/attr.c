/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Reads and answers the attributes of an ioctl (attr.h). The methods of ioctl.c, of devx/ and of
 * flow/ call this. Source: <rdma/rdma_user_ioctl_cmds.h>.
 *
 *   input    number, handle   in `data` of the attribute
 *            bytes            up to 8 in `data`, more at the address in it (uv_attr_src)
 *   output   bytes            at the address in `data`; then the flag VALID_OUTPUT is set
 *            new handle       in `data` of the caller's attribute
 *
 * Numbers and handles are read from the copies in struct uv_ioctl, bytes are copied once, so no
 * thread of the caller changes what a method has checked. Output goes to the caller's memory,
 * through hca_umem_*, which answers -EFAULT where there is none.
 */
#include "softhca/kernel/attr.h"

#include <string.h>

#include "softhca/kernel/ctl.h"

/* A value of 4 bytes is in the low half of `data`: hosts are little-endian. */
int uv_attr_num(const struct uv_ioctl *io, uint16_t id, uint64_t max, uint64_t *out)
{
	const struct ib_uverbs_attr *a = uv_ioctl_attr(io, id);

	*out = 0;
	if (!a || (a->len != 4 && a->len != 8))
		return -EINVAL;
	memcpy(out, &a->data, a->len);
	return *out > max ? -EINVAL : 0;
}

/* The kernel's handles are 32 bits wide; the attribute has 64, so what exceeds them is refused. */
int uv_attr_handle(const struct uv_ioctl *io, uint16_t id, uint32_t *out)
{
	const struct ib_uverbs_attr *a = uv_ioctl_attr(io, id);

	if (!a || a->len || a->data > UINT32_MAX)
		return -EINVAL;
	*out = (uint32_t)a->data;
	return 0;
}

/* A longer struct than max comes from a newer rdma-core, and may ask for what is not known here. */
int uv_attr_bytes(const struct uv_ioctl *io, uint16_t id, void *out, size_t min, size_t max)
{
	const struct ib_uverbs_attr *a = uv_ioctl_attr(io, id);

	if (!a || a->len < min || a->len > max)
		return -EINVAL;
	memset(out, 0, max);
	return hca_umem_read(out, uv_attr_src(a), a->len);
}

/* Where the caller has the attribute of which `a` is the copy. */
static uint64_t attr_user_addr(const struct uv_ioctl *io, const struct ib_uverbs_attr *a)
{
	return io->user_attr + (uint64_t)(a - io->attr) * sizeof(*a);
}

/* rdma-core looks at this flag to learn whether the kernel wrote the attribute. */
static int attr_mark_written(const struct uv_ioctl *io, const struct ib_uverbs_attr *a)
{
	uint16_t flags = a->flags | UVERBS_ATTR_F_VALID_OUTPUT;

	return hca_umem_write(attr_user_addr(io, a) + offsetof(struct ib_uverbs_attr, flags),
			      &flags, sizeof(flags));
}

/* A caller need not ask for all that can be answered, so absence is no error. */
int uv_attr_put(const struct uv_ioctl *io, uint16_t id, const void *src, size_t bytes)
{
	const struct ib_uverbs_attr *a = uv_ioctl_attr(io, id);
	int rc;

	if (!a)
		return 0;
	if (a->len < bytes)
		return -ENOSPC;
	rc = hca_umem_write(a->data, src, bytes);
	return rc ? rc : attr_mark_written(io, a);
}

/* Here absence is an error: an object whose handle nobody knows could never be destroyed. */
int uv_attr_put_handle(const struct uv_ioctl *io, uint16_t id, uint64_t handle)
{
	const struct ib_uverbs_attr *a = uv_ioctl_attr(io, id);

	if (!a)
		return -EINVAL;
	return hca_umem_write(attr_user_addr(io, a) + offsetof(struct ib_uverbs_attr, data),
			      &handle, sizeof(handle));
}
