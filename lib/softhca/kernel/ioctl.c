/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The ioctl() ABI: decodes the attributes and runs the methods that have no write command. All
 * other methods are refused with EPROTONOSUPPORT; rdma-core then uses the write command or does
 * without. INVOKE_WRITE
 * wraps a write command in attributes (uverbs.c). Source: <rdma/rdma_user_ioctl_cmds.h>, Linux
 * drivers/infiniband/core/uverbs_ioctl.c.
 *
 *   uv_ioctl   header --> method_find --> attributes copied --> attrs_check --> lock --> do_*
 *   attribute  id, length, flags, data          data: a number, a handle, or an address
 *
 * What to know before changing it: a method reads the copies only, and writes to where the caller's
 * attributes lie (user_attr). A new method is a row of `methods` with the ids that it knows; one
 * that makes an object destroys it again if its handle cannot be written.
 */
#include <errno.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <string.h>

#include "prm/spw_prm.h"
#include "softhca/kernel/attr.h"
#include "softhca/kernel/ctl.h"
#include "softhca/kernel/devx_methods.h"
#include "softhca/nic/nic.h"

/* ---- device ---- */

/* uv_dispatch takes the lock. */
static int do_invoke_write(struct uv_ioctl *io)
{
	return uv_ioctl_invoke_write(io->ctx, io->attr, io->cnt);
}

/* Odd entries are RoCE v2, even ones v1, as dev_derive_gids lays them (hca_dev.c). */
static void gid_entry(const struct hca_dev *dev, uint32_t i, struct ib_uverbs_gid_entry *e)
{
	memset(e, 0, sizeof(*e));
	memcpy(e->gid, dev->gid[i], sizeof(e->gid));
	e->gid_index = i;
	e->port_num = 1;
	e->gid_type = i & 1 ? IB_UVERBS_GID_TYPE_ROCE_V2 : IB_UVERBS_GID_TYPE_ROCE_V1;
	e->netdev_ifindex = hca_netdev_ifindex(dev);
}

/* There is one port, and no flag is known. */
static int do_query_gid_entry(struct uv_ioctl *io)
{
	struct ib_uverbs_gid_entry e;
	uint64_t port, idx, flags;
	int rc = uv_attr_num(io, UVERBS_ATTR_QUERY_GID_ENTRY_PORT, 1, &port);

	rc = rc ? rc
		: uv_attr_num(io, UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX, HCA_GID_CNT - 1, &idx);
	rc = rc ? rc : uv_attr_num(io, UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS, 0, &flags);
	if (rc || port != 1)
		return -EINVAL;
	gid_entry(io->ctx->dev, (uint32_t)idx, &e);
	return uv_attr_put(io, UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, &e, sizeof(e));
}

/* As many entries as fit; their number is an output of its own. */
static int do_query_gid_table(struct uv_ioctl *io)
{
	const struct ib_uverbs_attr *room =
		uv_attr(io->attr, io->cnt, UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES);
	struct ib_uverbs_gid_entry e[HCA_GID_CNT];
	uint64_t entry_bytes, cnt = HCA_GID_CNT, flags;
	int rc = uv_attr_num(io, UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE, UINT16_MAX, &entry_bytes);

	rc = rc ? rc : uv_attr_num(io, UVERBS_ATTR_QUERY_GID_TABLE_FLAGS, 0, &flags);
	if (rc || entry_bytes != sizeof(e[0]) || !room)
		return -EINVAL;
	cnt = SPW_MIN(cnt, room->len / sizeof(e[0]));
	for (uint32_t i = 0; i < cnt; i++)
		gid_entry(io->ctx->dev, i, &e[i]);
	rc = uv_attr_put(io, UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, e, cnt * sizeof(e[0]));
	return rc ? rc
		  : uv_attr_put(io, UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, &cnt,
				sizeof(cnt));
}

/* ---- memory regions ---- */

/* If the answer cannot be written the region is destroyed again: the application would not know its
 * handle. */
static int do_reg_dmabuf(struct uv_ioctl *io)
{
	struct hca_mr_req req;
	struct hca_mr *mr;
	uint64_t fd, access;
	int rc = -nic_fault_of(io->ctx->dev, "reg_dmabuf_mr");

	rc = rc ? rc : uv_attr_handle(io, UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE, &req.pd_handle);
	rc = rc ? rc : uv_attr_num(io, UVERBS_ATTR_REG_DMABUF_MR_OFFSET, UINT64_MAX, &req.start);
	rc = rc ? rc : uv_attr_num(io, UVERBS_ATTR_REG_DMABUF_MR_LENGTH, UINT64_MAX, &req.length);
	rc = rc ? rc : uv_attr_num(io, UVERBS_ATTR_REG_DMABUF_MR_IOVA, UINT64_MAX, &req.iova);
	rc = rc ? rc : uv_attr_num(io, UVERBS_ATTR_REG_DMABUF_MR_FD, UINT64_MAX, &fd);
	rc = rc ? rc : uv_attr_num(io, UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS, UINT32_MAX, &access);
	if (rc)
		return rc;
	if (fd > INT32_MAX)
		return -EBADF;
	req.access = (uint32_t)access;
	req.fd = (int)fd;
	if ((req.start & 0xfff) != (req.iova & 0xfff))
		return -EINVAL;
	rc = hca_mr_make(io->ctx, &req, &mr);
	if (rc)
		return rc;
	rc = uv_attr_put_handle(io, UVERBS_ATTR_REG_DMABUF_MR_HANDLE, mr->o.handle);
	rc = rc ? rc
		: uv_attr_put(io, UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, &mr->key, sizeof(mr->key));
	rc = rc ? rc
		: uv_attr_put(io, UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, &mr->key, sizeof(mr->key));
	if (rc)
		hca_mr_free(mr);
	return rc;
}

/* Each of the four answers is optional. */
static int do_query_mr(struct uv_ioctl *io)
{
	struct hca_mr *mr;
	uint32_t handle;
	int rc = uv_attr_handle(io, UVERBS_ATTR_QUERY_MR_HANDLE, &handle);

	if (rc)
		return rc;
	mr = hca_obj_find(io->ctx, HCA_MR, handle);
	if (!mr)
		return -ENOENT;
	rc = uv_attr_put(io, UVERBS_ATTR_QUERY_MR_RESP_LKEY, &mr->key, sizeof(mr->key));
	rc = rc ? rc : uv_attr_put(io, UVERBS_ATTR_QUERY_MR_RESP_RKEY, &mr->key, sizeof(mr->key));
	rc = rc ? rc
		: uv_attr_put(io, UVERBS_ATTR_QUERY_MR_RESP_LENGTH, &mr->length_bytes,
			      sizeof(mr->length_bytes));
	return rc ? rc
		  : uv_attr_put(io, UVERBS_ATTR_QUERY_MR_RESP_IOVA, &mr->iova, sizeof(mr->iova));
}

/* ---- register pages ---- */

/* The application maps the page by the offset that is returned (uar.c); BF pages need a card that
 * combines writes. */
static int do_uar_alloc(struct uv_ioctl *io)
{
	struct hca_uar *uar;
	uint64_t off, type;
	uint32_t bytes = 4096;
	int rc = uv_attr_num(io, MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE, MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC,
			     &type);

	if (rc)
		return rc;
	if (type == MLX5_IB_UAPI_UAR_ALLOC_TYPE_BF && !io->ctx->dev->cfg->card->write_combines)
		return -EOPNOTSUPP; /* hw/mlx5/main.c */
	rc = hca_uar_alloc(io->ctx, &uar, &off);
	if (rc)
		return rc;
	rc = uv_attr_put_handle(io, MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE, uar->o.handle);
	rc = rc ? rc : uv_attr_put(io, MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, &off, sizeof(off));
	rc = rc ? rc
		: uv_attr_put(io, MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, &bytes, sizeof(bytes));
	rc = rc ? rc
		: uv_attr_put(io, MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, &uar->index,
			      sizeof(uar->index));
	if (rc)
		hca_uar_free(uar);
	return rc;
}

/* Busy while a QP or a CQ names the page. */
static int do_uar_destroy(struct uv_ioctl *io)
{
	struct hca_uar *uar;
	uint32_t handle;
	int rc = uv_attr_handle(io, MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE, &handle);

	rc = rc ? rc : hca_obj_find_destroy(io->ctx, HCA_UAR, handle, &uar);
	if (rc)
		return rc;
	if (uar->o.use_cnt)
		return -EBUSY;
	hca_uar_free(uar);
	return 0;
}

/* ---- methods ---- */

static const struct method {
	uint16_t object, method;
	bool unlocked;        /* takes the lock itself, and is legal before GET_CONTEXT */
	uint16_t first, last; /* attribute ids that are known */
	uint16_t first2, last2;
	int (*fn)(struct uv_ioctl *io);
} methods[] = {
	{UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE, true, UVERBS_ATTR_CORE_IN,
	 UVERBS_ATTR_WRITE_CMD, UVERBS_ATTR_UHW_IN, UVERBS_ATTR_UHW_OUT, do_invoke_write},
	{UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_ENTRY, false,
	 UVERBS_ATTR_QUERY_GID_ENTRY_PORT, UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, 1, 0,
	 do_query_gid_entry},
	{UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_TABLE, false,
	 UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE, UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, 1, 0,
	 do_query_gid_table},
	{UVERBS_OBJECT_MR, UVERBS_METHOD_REG_DMABUF_MR, false, UVERBS_ATTR_REG_DMABUF_MR_HANDLE,
	 UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, 1, 0, do_reg_dmabuf},
	{UVERBS_OBJECT_MR, UVERBS_METHOD_QUERY_MR, false, UVERBS_ATTR_QUERY_MR_HANDLE,
	 UVERBS_ATTR_QUERY_MR_RESP_IOVA, 1, 0, do_query_mr},
	{MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_ALLOC, false, MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE,
	 MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, 1, 0, do_uar_alloc},
	{MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_DESTROY, false,
	 MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE, MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE, 1, 0,
	 do_uar_destroy},
	{MLX5_IB_OBJECT_FLOW_MATCHER, MLX5_IB_METHOD_FLOW_MATCHER_CREATE, false,
	 MLX5_IB_ATTR_FLOW_MATCHER_CREATE_HANDLE, MLX5_IB_ATTR_FLOW_MATCHER_FT_TYPE, 1, 0,
	 do_matcher_create},
	{MLX5_IB_OBJECT_FLOW_MATCHER, MLX5_IB_METHOD_FLOW_MATCHER_DESTROY, false,
	 MLX5_IB_ATTR_FLOW_MATCHER_DESTROY_HANDLE, MLX5_IB_ATTR_FLOW_MATCHER_DESTROY_HANDLE, 1, 0,
	 do_matcher_destroy},
	{UVERBS_OBJECT_FLOW, MLX5_IB_METHOD_CREATE_FLOW, false, MLX5_IB_ATTR_CREATE_FLOW_HANDLE,
	 MLX5_IB_ATTR_CREATE_FLOW_FLAGS, 1, 0, do_rule_create},
	{UVERBS_OBJECT_FLOW, MLX5_IB_METHOD_DESTROY_FLOW, false, MLX5_IB_ATTR_CREATE_FLOW_HANDLE,
	 MLX5_IB_ATTR_CREATE_FLOW_HANDLE, 1, 0, do_rule_destroy},
	{UVERBS_OBJECT_FLOW_ACTION, MLX5_IB_METHOD_FLOW_ACTION_CREATE_MODIFY_HEADER, false,
	 MLX5_IB_ATTR_CREATE_MODIFY_HEADER_HANDLE, MLX5_IB_ATTR_CREATE_MODIFY_HEADER_FT_TYPE, 1, 0,
	 do_action_create},
	{UVERBS_OBJECT_FLOW_ACTION, MLX5_IB_METHOD_FLOW_ACTION_CREATE_PACKET_REFORMAT, false,
	 MLX5_IB_ATTR_CREATE_PACKET_REFORMAT_HANDLE, MLX5_IB_ATTR_CREATE_PACKET_REFORMAT_DATA_BUF,
	 1, 0, do_action_create},
	{MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_OTHER, false, MLX5_IB_ATTR_DEVX_OTHER_CMD_IN,
	 MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT, 1, 0, do_devx_other},
	{MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_QUERY_UAR, false,
	 MLX5_IB_ATTR_DEVX_QUERY_UAR_USER_IDX, MLX5_IB_ATTR_DEVX_QUERY_UAR_DEV_IDX, 1, 0,
	 do_devx_query_uar},
	{MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_QUERY_EQN, false,
	 MLX5_IB_ATTR_DEVX_QUERY_EQN_USER_VEC, MLX5_IB_ATTR_DEVX_QUERY_EQN_DEV_EQN, 1, 0,
	 do_devx_query_eqn},
	{MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_CREATE, false,
	 MLX5_IB_ATTR_DEVX_OBJ_CREATE_HANDLE, MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT, 1, 0,
	 do_devx_obj_create},
	{MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_DESTROY, false,
	 MLX5_IB_ATTR_DEVX_OBJ_DESTROY_HANDLE, MLX5_IB_ATTR_DEVX_OBJ_DESTROY_HANDLE, 1, 0,
	 do_devx_obj_destroy},
	{MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_MODIFY, false,
	 MLX5_IB_ATTR_DEVX_OBJ_MODIFY_HANDLE, MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_OUT, 1, 0,
	 do_devx_obj_modify},
	{MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_QUERY, false,
	 MLX5_IB_ATTR_DEVX_OBJ_QUERY_HANDLE, MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_OUT, 1, 0,
	 do_devx_obj_query},
	{MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_ASYNC_QUERY, false,
	 MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_HANDLE, MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_OUT_LEN, 1, 0,
	 do_devx_obj_async_query},
	{MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_SUBSCRIBE_EVENT, false,
	 MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_FD_HANDLE, MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_COOKIE, 1,
	 0, do_devx_subscribe},
	{MLX5_IB_OBJECT_DEVX_ASYNC_CMD_FD, MLX5_IB_METHOD_DEVX_ASYNC_CMD_FD_ALLOC, false,
	 MLX5_IB_ATTR_DEVX_ASYNC_CMD_FD_ALLOC_HANDLE, MLX5_IB_ATTR_DEVX_ASYNC_CMD_FD_ALLOC_HANDLE,
	 1, 0, do_devx_cmd_fd},
	{MLX5_IB_OBJECT_DEVX_ASYNC_EVENT_FD, MLX5_IB_METHOD_DEVX_ASYNC_EVENT_FD_ALLOC, false,
	 MLX5_IB_ATTR_DEVX_ASYNC_EVENT_FD_ALLOC_HANDLE,
	 MLX5_IB_ATTR_DEVX_ASYNC_EVENT_FD_ALLOC_FLAGS, 1, 0, do_devx_event_fd},
	{MLX5_IB_OBJECT_DEVX_UMEM, MLX5_IB_METHOD_DEVX_UMEM_REG, false,
	 MLX5_IB_ATTR_DEVX_UMEM_REG_HANDLE, MLX5_IB_ATTR_DEVX_UMEM_REG_PGSZ_BITMAP, 1, 0,
	 do_devx_umem_reg},
	{MLX5_IB_OBJECT_DEVX_UMEM, MLX5_IB_METHOD_DEVX_UMEM_DEREG, false,
	 MLX5_IB_ATTR_DEVX_UMEM_DEREG_HANDLE, MLX5_IB_ATTR_DEVX_UMEM_DEREG_HANDLE, 1, 0,
	 do_devx_umem_dereg},
};

static const struct method *method_find(const struct ib_uverbs_ioctl_hdr *h)
{
	for (uint32_t i = 0; i < SPW_ARRAY_CNT(methods); i++)
		if (methods[i].object == h->object_id && methods[i].method == h->method_id)
			return &methods[i];
	return NULL;
}

/* An unknown attribute is an error only if the caller marked it as mandatory. */
static int attrs_check(const struct method *m, const struct uv_ioctl *io)
{
	for (uint32_t i = 0; i < io->cnt; i++) {
		const struct ib_uverbs_attr *a = &io->attr[i];
		bool known = (a->attr_id >= m->first && a->attr_id <= m->last) ||
			     (a->attr_id >= m->first2 && a->attr_id <= m->last2);

		if (!known && a->flags & UVERBS_ATTR_F_MANDATORY)
			return -EPROTONOSUPPORT;
		if (uv_attr(io->attr, i, a->attr_id)) /* named twice */
			return -EINVAL;
	}
	return 0;
}

/* rdma-core decides by the errno whether to try the write command, so the order of checks
 * counts. */
int uv_ioctl(struct hca_ctx *ctx, void *hdr)
{
	struct uv_ioctl io = {.ctx = ctx,
			      .user_attr = (uint64_t)(uintptr_t)hdr +
					   sizeof(struct ib_uverbs_ioctl_hdr)};
	struct ib_uverbs_ioctl_hdr h;
	const struct method *m;
	int rc = hca_umem_read(&h, (uint64_t)(uintptr_t)hdr, sizeof(h));

	if (rc)
		return rc;
	if (h.length != sizeof(h) + h.num_attrs * sizeof(io.attr[0]) || h.num_attrs > UV_ATTRS_MAX)
		return -EINVAL;
	if (h.reserved1 || h.reserved2)
		return -EPROTONOSUPPORT;
	m = method_find(&h);
	if (!m)
		return -EPROTONOSUPPORT;
	if (h.driver_id != RDMA_DRIVER_MLX5)
		return -EINVAL;
	io.cnt = h.num_attrs;
	rc = hca_umem_read(io.attr, io.user_attr, io.cnt * sizeof(io.attr[0]));
	rc = rc ? rc : attrs_check(m, &io);
	if (rc)
		return rc;
	if (m->unlocked)
		return m->fn(&io);
	if (!ctx->ready)
		return -EINVAL;
	hca_lock(ctx->dev);
	rc = m->fn(&io);
	hca_unlock(ctx->dev);
	return rc;
}
