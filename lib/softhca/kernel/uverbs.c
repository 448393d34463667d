/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The dispatcher of uverbs commands, and the two encodings of the write() ABI. A command's path:
 *
 *   uv_write, uv_ioctl   decode the header             in the caller's memory
 *   uv_call_user            copy in; copy out at the end  only with 0 as the result
 *   uv_dispatch          sizes, device lock, faults on purpose (fail=), memory guard
 *   cmd_*                the command
 *
 * The two encodings. Legacy: command structures begin with the address of the response. Extended: a
 * second header names it, and core and provider (mlx5) parts have lengths of their own:
 *
 *   legacy     hdr | core in, response address first | provider in      counts in 4-byte words
 *   extended   hdr | ex hdr: response, provider words | core in | provider in      8-byte words
 *
 * Nothing of the caller's memory is used in place: a second thread could change it between check
 * and use.
 */
#include "softhca/kernel/uverbs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/spw_monotonic.h"
#include "softhca/kernel/cmd.h"
#include "softhca/kernel/ctl.h"
#include "softhca/nic/nic.h"

#define NEIGHBOUR_MS 1000u

struct cmd_desc {
	int (*fn)(struct uv_call *call);
	uint16_t in_bytes,
		out_bytes; /* core structures, with the response pointer of the old ABI */
	bool unlocked;     /* takes the lock itself */
	const char *name;  /* of --fault fail=NAME; NULL: cannot be made to fail */
};

#define CMD(id, f, req, resp) \
	[id] = {f, sizeof(struct ib_uverbs_##req), sizeof(struct ib_uverbs_##resp), false, #req}
#define CMD0(id, f, req) [id] = {f, sizeof(struct ib_uverbs_##req), 0, false, #req}

static const struct cmd_desc cmds[] = {
	[IB_USER_VERBS_CMD_GET_CONTEXT] = {cmd_get_context, sizeof(struct ib_uverbs_get_context),
					   sizeof(struct ib_uverbs_get_context_resp), true, NULL},
	CMD(IB_USER_VERBS_CMD_QUERY_DEVICE, cmd_query_device, query_device, query_device_resp),
	CMD(IB_USER_VERBS_CMD_QUERY_PORT, cmd_query_port, query_port, query_port_resp),
	CMD(IB_USER_VERBS_CMD_ALLOC_PD, cmd_alloc_pd, alloc_pd, alloc_pd_resp),
	CMD0(IB_USER_VERBS_CMD_DEALLOC_PD, cmd_dealloc_pd, dealloc_pd),
	CMD(IB_USER_VERBS_CMD_CREATE_AH, cmd_create_ah, create_ah, create_ah_resp),
	CMD0(IB_USER_VERBS_CMD_DESTROY_AH, cmd_destroy_ah, destroy_ah),
	CMD(IB_USER_VERBS_CMD_REG_MR, cmd_reg_mr, reg_mr, reg_mr_resp),
	CMD(IB_USER_VERBS_CMD_REREG_MR, cmd_rereg_mr, rereg_mr, rereg_mr_resp),
	CMD0(IB_USER_VERBS_CMD_DEREG_MR, cmd_dereg_mr, dereg_mr),
	CMD(IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, cmd_create_comp_channel, create_comp_channel,
	    create_comp_channel_resp),
	CMD(IB_USER_VERBS_CMD_CREATE_CQ, cmd_create_cq, create_cq, create_cq_resp),
	CMD(IB_USER_VERBS_CMD_RESIZE_CQ, cmd_resize_cq, resize_cq, resize_cq_resp),
	CMD(IB_USER_VERBS_CMD_DESTROY_CQ, cmd_destroy_cq, destroy_cq, destroy_cq_resp),
	CMD(IB_USER_VERBS_CMD_CREATE_QP, cmd_create_qp, create_qp, create_qp_resp),
	CMD(IB_USER_VERBS_CMD_QUERY_QP, cmd_query_qp, query_qp, query_qp_resp),
	CMD0(IB_USER_VERBS_CMD_MODIFY_QP, cmd_modify_qp, modify_qp),
	CMD(IB_USER_VERBS_CMD_DESTROY_QP, cmd_destroy_qp, destroy_qp, destroy_qp_resp),
	CMD0(IB_USER_VERBS_CMD_ATTACH_MCAST, cmd_attach_mcast, attach_mcast),
	CMD0(IB_USER_VERBS_CMD_DETACH_MCAST, cmd_detach_mcast, detach_mcast),
	CMD(IB_USER_VERBS_CMD_CREATE_SRQ, cmd_create_srq, create_srq, create_srq_resp),
	CMD(IB_USER_VERBS_CMD_CREATE_XSRQ, cmd_create_xsrq, create_xsrq, create_srq_resp),
	CMD0(IB_USER_VERBS_CMD_MODIFY_SRQ, cmd_modify_srq, modify_srq),
	CMD(IB_USER_VERBS_CMD_QUERY_SRQ, cmd_query_srq, query_srq, query_srq_resp),
	CMD(IB_USER_VERBS_CMD_DESTROY_SRQ, cmd_destroy_srq, destroy_srq, destroy_srq_resp),
};

/* in_bytes: the least that a caller must send; the rest of the structure reads as 0. */
static const struct cmd_desc ex_cmds[] = {
	[IB_USER_VERBS_EX_CMD_QUERY_DEVICE] = {cmd_ex_query_device,
					       sizeof(struct ib_uverbs_ex_query_device), 180, false,
					       "query_device"},
	[IB_USER_VERBS_EX_CMD_CREATE_CQ] = {cmd_ex_create_cq, 28, 12, false, "create_cq"},
	[IB_USER_VERBS_EX_CMD_CREATE_QP] = {cmd_ex_create_qp, 52, 36, false, "create_qp"},
	[IB_USER_VERBS_EX_CMD_MODIFY_QP] = {cmd_ex_modify_qp, sizeof(struct ib_uverbs_modify_qp), 0,
					    false, "modify_qp"},
	[IB_USER_VERBS_EX_CMD_CREATE_FLOW] = {cmd_ex_create_flow,
					      sizeof(struct ib_uverbs_create_flow),
					      sizeof(struct ib_uverbs_create_flow_resp), false,
					      "create_flow"},
	[IB_USER_VERBS_EX_CMD_DESTROY_FLOW] = {cmd_ex_destroy_flow,
					       sizeof(struct ib_uverbs_destroy_flow), 0, false,
					       "destroy_flow"},
	[IB_USER_VERBS_EX_CMD_CREATE_WQ] = {cmd_ex_create_wq, 36, 24, false, "create_wq"},
	[IB_USER_VERBS_EX_CMD_MODIFY_WQ] = {cmd_ex_modify_wq, 16, 0, false, "modify_wq"},
	[IB_USER_VERBS_EX_CMD_DESTROY_WQ] = {cmd_ex_destroy_wq,
					     sizeof(struct ib_uverbs_ex_destroy_wq), 12, false,
					     "destroy_wq"},
	[IB_USER_VERBS_EX_CMD_CREATE_RWQ_IND_TBL] = {cmd_ex_create_rwq_tbl, 8, 16, false,
						     "create_rwq_ind_table"},
	[IB_USER_VERBS_EX_CMD_DESTROY_RWQ_IND_TBL] =
		{cmd_ex_destroy_rwq_tbl, sizeof(struct ib_uverbs_ex_destroy_rwq_ind_table), 0,
		 false, "destroy_rwq_ind_table"},
	[IB_USER_VERBS_EX_CMD_MODIFY_CQ] = {cmd_ex_modify_cq, 12, 0, false, "modify_cq"},
};

/* Errors: -EINVAL: no such command; -EOPNOTSUPP: a command that is not modelled. */
static int uv_find_cmd(uint32_t cmd, const struct cmd_desc **desc_out)
{
	bool ex = cmd & IB_USER_VERBS_CMD_FLAG_EXTENDED;
	uint32_t id = cmd & ~IB_USER_VERBS_CMD_FLAG_EXTENDED;
	const struct cmd_desc *d = ex ? ex_cmds : cmds;
	uint32_t cnt = ex ? SPW_ARRAY_CNT(ex_cmds) : SPW_ARRAY_CNT(cmds);

	if (id & ~(uint32_t)IB_USER_VERBS_CMD_COMMAND_MASK)
		return -EINVAL;
	if (id >= cnt || !d[id].fn)
		return -EOPNOTSUPP;
	*desc_out = &d[id];
	return 0;
}

/* A command and its call, as the one argument that nic_guarded passes on. */
struct run {
	int (*fn)(struct uv_call *call);
	struct uv_call *call;
};

static int uv_run_cmd(void *arg)
{
	const struct run *r = arg;

	return r->fn(r->call);
}

/* A command that needs a neighbour's MAC returns -EAGAIN before it has changed anything, and runs
 * again until an answer has come. The kernel waits as long: drivers/infiniband/core/addr.c,
 * rdma_addr_find_l2_eth_by_grh. Other commands and the NIC go on meanwhile. */
static int uv_run_waiting(struct hca_dev *dev, struct run *run)
{
	const struct timespec nap = {.tv_nsec = 1000000};
	const uint64_t until_ms = spw_monotonic_ms() + NEIGHBOUR_MS;
	int rc;

	while ((rc = nic_guarded(dev, uv_run_cmd, run)) == -EAGAIN) {
		if (spw_monotonic_ms() >= until_ms)
			return -ETIMEDOUT;
		hca_unlock(dev);
		nanosleep(&nap, NULL);
		hca_lock(dev);
	}
	return rc;
}

/* get_context comes first on every file: without it no other command is valid, as in Linux. */
int uv_dispatch(uint32_t cmd, struct uv_call *call)
{
	const struct cmd_desc *d;
	struct hca_dev *dev = call->ctx->dev;
	int rc = uv_find_cmd(cmd, &d);

	if (rc)
		return rc;
	if (call->in_bytes < d->in_bytes || call->out_bytes < d->out_bytes)
		return -ENOSPC;
	if (d->fn != cmd_get_context && !call->ctx->ready)
		return -EINVAL;
	if (d->unlocked)
		return d->fn(call);
	hca_lock(dev);
	rc = -nic_fault_of(dev, d->name);
	if (!rc)
		rc = uv_run_waiting(dev, &(struct run){d->fn, call});
	hca_unlock(dev);
	return rc;
}

/* An older library has less room, and reads the beginning. */
void uv_uhw_reply(struct uv_call *c, const void *resp, size_t bytes)
{
	memcpy(c->uhw_out, resp, SPW_MIN(bytes, (size_t)c->uhw_out_bytes));
}

/* ---- buffers ---- */

#define BYTES_MAX (512u * 1024u) /* the most that 16-bit counts of 8-byte words express */

/* Room for all four buffers, zeroed, each 8-byte aligned; freed by the caller. */
static void *uv_call_alloc(struct uv_call *c)
{
	size_t in = SPW_ALIGN_UP((size_t)c->in_bytes, 8u) + UV_PAD_BYTES;
	size_t uhw_in = SPW_ALIGN_UP((size_t)c->uhw_in_bytes, 8u) + UV_PAD_BYTES;
	size_t out = SPW_ALIGN_UP((size_t)c->out_bytes, 8u) + UV_PAD_BYTES;
	size_t uhw_out = SPW_ALIGN_UP((size_t)c->uhw_out_bytes, 8u) + UV_PAD_BYTES;
	uint8_t *mem = calloc(1, in + uhw_in + out + uhw_out);

	if (mem) {
		c->in = mem;
		c->uhw_in = mem + in;
		c->out = mem + in + uhw_in;
		c->uhw_out = mem + in + uhw_in + out;
	}
	return mem;
}

/* Addresses of a call's four buffers in the caller's memory. */
struct user_bufs {
	uint64_t in, out, uhw_in, uhw_out;
};

/* Copies in, runs, copies out. What the command did stays done if the copy out fails, as in Linux.
 */
static int uv_call_user(uint32_t cmd, struct uv_call *c, const struct user_bufs *u)
{
	void *mem = uv_call_alloc(c);
	int rc;

	if (!mem)
		return -ENOMEM;
	rc = hca_umem_read((void *)(uintptr_t)c->in, u->in, c->in_bytes);
	if (!rc)
		rc = hca_umem_read((void *)(uintptr_t)c->uhw_in, u->uhw_in, c->uhw_in_bytes);
	if (!rc)
		rc = uv_dispatch(cmd, c);
	if (!rc)
		rc = hca_umem_write(u->out, c->out, c->out_bytes);
	if (!rc)
		rc = hca_umem_write(u->uhw_out, c->uhw_out, c->uhw_out_bytes);
	free(mem);
	return rc;
}

/* ---- write() ---- */

/* Lengths are checked as the kernel checks them, with the same errno. */
static int64_t uv_write_legacy(struct hca_ctx *ctx, const struct ib_uverbs_cmd_hdr *h, uint64_t buf,
			       size_t len)
{
	struct uv_call c = {.ctx = ctx};
	struct user_bufs u = {.in = buf + sizeof(*h)};
	const struct cmd_desc *d;
	uint32_t in = (uint32_t)(len - sizeof(*h)), out = h->out_words * 4u;
	int rc = uv_find_cmd(h->command, &d);

	if (rc)
		return rc;
	if (h->in_words * 4u != len)
		return -EINVAL;
	if (in < d->in_bytes || out < d->out_bytes)
		return -ENOSPC;
	c.in_bytes = d->in_bytes;
	c.uhw_in_bytes = in - d->in_bytes;
	u.uhw_in = u.in + c.in_bytes;
	if (d->out_bytes) {
		/* The response address is the first word of the core part. */
		rc = hca_umem_read(&u.out, u.in, sizeof(u.out));
		c.out_bytes = d->out_bytes;
		c.uhw_out_bytes = out - d->out_bytes;
		u.uhw_out = u.out + c.out_bytes;
	}
	rc = rc ? rc : uv_call_user(h->command, &c, &u);
	return rc ? rc : (int64_t)len;
}

/* A response address without room for one, or the reverse, is refused. */
static int64_t uv_write_ex(struct hca_ctx *ctx, const struct ib_uverbs_cmd_hdr *h, uint64_t buf,
			   size_t len)
{
	struct ib_uverbs_ex_cmd_hdr ex;
	struct uv_call c = {.ctx = ctx};
	struct user_bufs u;
	int rc;

	if (len < sizeof(*h) + sizeof(ex))
		return -EINVAL;
	rc = hca_umem_read(&ex, buf + sizeof(*h), sizeof(ex));
	if (rc)
		return rc;
	c.in_bytes = h->in_words * 8u;
	c.uhw_in_bytes = ex.provider_in_words * 8u;
	c.out_bytes = h->out_words * 8u;
	c.uhw_out_bytes = ex.provider_out_words * 8u;
	if (sizeof(*h) + sizeof(ex) + c.in_bytes + c.uhw_in_bytes != len || ex.cmd_hdr_reserved)
		return -EINVAL;
	if (!ex.response != !(c.out_bytes + c.uhw_out_bytes))
		return -EINVAL;
	u.in = buf + sizeof(*h) + sizeof(ex);
	u.uhw_in = u.in + c.in_bytes;
	u.out = ex.response;
	u.uhw_out = u.out + c.out_bytes;
	rc = uv_call_user(h->command, &c, &u);
	return rc ? rc : (int64_t)len;
}

/* The return value is that of write(2): the whole length, or -errno. */
int64_t uv_write(struct hca_ctx *ctx, const void *buf, size_t len)
{
	uint64_t at = (uint64_t)(uintptr_t)buf;
	struct ib_uverbs_cmd_hdr h;
	int rc;

	if (len < sizeof(h) || len > BYTES_MAX)
		return -EINVAL;
	rc = hca_umem_read(&h, at, sizeof(h));
	if (rc)
		return rc;
	if (h.command & IB_USER_VERBS_CMD_FLAG_EXTENDED)
		return uv_write_ex(ctx, &h, at, len);
	return uv_write_legacy(ctx, &h, at, len);
}

/* ---- ioctl(INVOKE_WRITE) ---- */

/* The third encoding: each buffer is an attribute, and one that is missing is empty. */
int uv_ioctl_invoke_write(struct hca_ctx *ctx, const struct ib_uverbs_attr *attr, uint32_t cnt)
{
	const struct ib_uverbs_attr *in = uv_attr(attr, cnt, UVERBS_ATTR_CORE_IN);
	const struct ib_uverbs_attr *out = uv_attr(attr, cnt, UVERBS_ATTR_CORE_OUT);
	const struct ib_uverbs_attr *cmd = uv_attr(attr, cnt, UVERBS_ATTR_WRITE_CMD);
	const struct ib_uverbs_attr *uhw_in = uv_attr(attr, cnt, UVERBS_ATTR_UHW_IN);
	const struct ib_uverbs_attr *uhw_out = uv_attr(attr, cnt, UVERBS_ATTR_UHW_OUT);
	struct uv_call c = {.ctx = ctx};
	struct user_bufs u = {0};

	if (!cmd)
		return -EINVAL;
	if (in) {
		c.in_bytes = in->len;
		u.in = uv_attr_src(in);
	}
	if (uhw_in) {
		c.uhw_in_bytes = uhw_in->len;
		u.uhw_in = uv_attr_src(uhw_in);
	}
	if (out) {
		c.out_bytes = out->len;
		u.out = out->data;
	}
	if (uhw_out) {
		c.uhw_out_bytes = uhw_out->len;
		u.uhw_out = uhw_out->data;
	}
	return uv_call_user((uint32_t)cmd->data, &c, &u);
}
