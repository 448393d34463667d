/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Umems: ranges of application memory in which DEVX objects have their rings and records. A range
 * that is unmapped later is the NIC's to survive (nic/host/guard.c), as with verbs rings.
 * Source: Linux drivers/infiniband/hw/mlx5/devx.c (devx_umem_get).
 *
 *   UMEM_REG: checked, counted as locked memory --> number --> CREATE_*: number and offset
 *
 * A mailbox names memory by a umem and an offset only, never by an address, so it cannot reach what
 * its application has not registered. A umem in use stays: deregistering it is EBUSY, as the
 * firmware answers.
 */
#include <errno.h>
#include <rdma/mlx5_user_ioctl_cmds.h>

#include "softhca/kernel/devx/devx.h"

#define ACCESS_KNOWN                                                    \
	(IB_UVERBS_ACCESS_LOCAL_WRITE | IB_UVERBS_ACCESS_REMOTE_WRITE | \
	 IB_UVERBS_ACCESS_REMOTE_READ)

/* ib_check_mr_access: a peer that may write needs a writable range. */
static int umem_access_check(uint32_t access)
{
	if (access & ~(uint32_t)ACCESS_KNOWN)
		return -EINVAL;
	return access & IB_UVERBS_ACCESS_REMOTE_WRITE && !(access & IB_UVERBS_ACCESS_LOCAL_WRITE)
		       ? -EINVAL
		       : 0;
}

static int umem_make(struct hca_ctx *ctx, uint64_t addr, uint64_t bytes, uint32_t access,
		     struct hca_umem **umem_out)
{
	struct hca_umem *u;
	int rc;

	if (!bytes || addr + bytes < addr)
		return -EINVAL;
	if (hca_umem_check(addr, bytes, access & IB_UVERBS_ACCESS_LOCAL_WRITE))
		return -EFAULT;
	u = hca_obj_new(ctx, HCA_UMEM, sizeof(*u), 0);
	if (!u)
		return -ENOMEM;
	u->o.devx = true;
	u->addr = addr;
	u->bytes = bytes;
	u->writable = access & IB_UVERBS_ACCESS_LOCAL_WRITE;
	rc = hca_obj_pin(&u->o, addr, bytes);
	if (rc)
		hca_obj_free(&u->o);
	else
		*umem_out = u;
	return rc;
}

/* A dma-buf as a umem is newer than this kernel. */
int do_devx_umem_reg(struct uv_ioctl *io)
{
	struct hca_umem *u;
	uint64_t addr, bytes, access;
	int rc = uv_attr_num(io, MLX5_IB_ATTR_DEVX_UMEM_REG_ADDR, UINT64_MAX, &addr);

	rc = rc ? rc : uv_attr_num(io, MLX5_IB_ATTR_DEVX_UMEM_REG_LEN, UINT64_MAX, &bytes);
	rc = rc ? rc : uv_attr_num(io, MLX5_IB_ATTR_DEVX_UMEM_REG_ACCESS, UINT32_MAX, &access);
	rc = rc ? rc : io->ctx->devx ? umem_access_check((uint32_t)access) : -EINVAL;
	rc = rc ? rc : umem_make(io->ctx, addr, bytes, (uint32_t)access, &u);
	if (rc)
		return rc;
	rc = uv_attr_put_handle(io, MLX5_IB_ATTR_DEVX_UMEM_REG_HANDLE, u->o.handle);
	rc = rc ? rc
		: uv_attr_put(io, MLX5_IB_ATTR_DEVX_UMEM_REG_OUT_ID, &u->o.handle,
			      sizeof(u->o.handle));
	if (rc)
		hca_obj_free(&u->o);
	return rc;
}

int do_devx_umem_dereg(struct uv_ioctl *io)
{
	struct hca_obj *o;
	uint32_t handle;
	int rc = uv_attr_handle(io, MLX5_IB_ATTR_DEVX_UMEM_DEREG_HANDLE, &handle);

	if (rc)
		return rc;
	o = hca_tbl_get(&io->ctx->objs, handle);
	if (!o || o->type != HCA_UMEM)
		return o ? -EINVAL : -ENOENT;
	if (o->use_cnt)
		return -EBUSY;
	hca_obj_free(o);
	return 0;
}

uint8_t *devx_umem_at(struct hca_ctx *ctx, uint64_t umem, uint64_t offset, uint64_t bytes,
		      uint64_t align, struct hca_obj **umem_out)
{
	struct hca_umem *u = devx_number(ctx, HCA_UMEM, umem);
	uint8_t *at;

	if (!u || offset > u->bytes || bytes > u->bytes - offset)
		return NULL;
	at = (uint8_t *)(uintptr_t)(u->addr + offset);
	*umem_out = &u->o;
	return (uintptr_t)at % align || hca_umem_check((uintptr_t)at, bytes, true) ? NULL : at;
}
