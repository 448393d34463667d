/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The methods of DEVX: which opcode is legal where, and the way of a mailbox through a command.
 *
 *   attribute IN  --> copied, at least as long as the command's structure --> opcodes[] --> fn
 *   attribute OUT <-- status, syndrome, answer                            <---------------- 0
 *
 *   method         object             opcodes                  the number in the mailbox
 *   DEVX_OTHER     none               queries of the device    -
 *   OBJ_CREATE     a new handle       CREATE_*, ALLOC_*        answered
 *   OBJ_MODIFY     handle             MODIFY_*                 must be the handle's
 *   OBJ_QUERY      handle             QUERY_*                  must be the handle's
 *   ASYNC_QUERY    handle, a file     QUERY_*                  must be the handle's
 *   OBJ_DESTROY    handle             the kernel makes it      -
 *
 * Three refusals, in this order, with different marks:
 *
 *   the kernel does not know the opcode, or the number is another's    EINVAL, no mailbox
 *   the firmware does not know it, or a mailbox is cut short           EREMOTEIO, BAD_OP, *_LEN
 *   the command's own checks                                           EREMOTEIO, its status
 *
 * Of an asynchronous query only the first one is its errno; its mailbox goes to a file
 * (devx_file.c).
 *
 * What to know before changing it: a DEVX object is the verbs object of the same kind (hca_obj.h)
 * with `devx` set, so that no verbs command finds its handle. It keeps what lies under it by
 * hca_obj_hold: umems, domains, counters. Everything the NIC does, it does to both alike.
 *
 * Source: Linux drivers/infiniband/hw/mlx5/devx.c (methods, lists of opcodes, errno values),
 * rdma-core v44 mlx5_devx_* (EREMOTEIO).
 */
#include "softhca/kernel/devx/devx.h"

#include <errno.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <stdlib.h>
#include <string.h>

#include "softhca/kernel/devx/devx_ev.h"
#include "softhca/nic/nic.h"

#define HEAD_BYTES 16u /* of every mailbox */

enum devx_method { OTHER, CREATE, MODIFY, QUERY };

/* in_bytes, out_bytes: of the structure, without lists. type: of the object that is worked on; its
 * number is in the mailbox too. */
static const struct devx_opcode {
	uint16_t opcode;
	uint8_t method;
	uint8_t type; /* enum hca_obj_type */
	uint16_t in_bytes, out_bytes;
	int (*fn)(struct devx_cmd *c);
} opcodes[] = {
	{0x100, OTHER, 0, 16, 4112, devx_query_hca_cap},
	{0x754, OTHER, 0, 16, 272, devx_query_nic_vport},
	{0x400, CREATE, HCA_CQ, 272, 16, devx_create_cq},
	{0x50b, QUERY, HCA_QP, 16, 272, devx_query_qp},
	{0x771, CREATE, HCA_Q_CNT, 16, 16, devx_alloc_q_cnt},
	{0x773, QUERY, HCA_Q_CNT, 32, 256, devx_query_q_cnt},
	{0x800, CREATE, HCA_PD, 16, 16, devx_alloc_pd},
	{0x816, CREATE, HCA_TD, 16, 16, devx_alloc_td},
	{0x900, CREATE, HCA_TIR, 272, 16, devx_create_tir},
	{0x904, CREATE, HCA_QP, 272, 16, devx_create_sq},
	{0x905, MODIFY, HCA_QP, 272, 16, devx_modify_sq},
	{0x908, CREATE, HCA_WQ, 272, 16, devx_create_rq},
	{0x909, MODIFY, HCA_WQ, 272, 16, devx_modify_rq},
	{0x90b, QUERY, HCA_WQ, 16, 272, devx_query_rq},
	{0x912, CREATE, HCA_TIS, 192, 16, devx_create_tis},
	{0x915, QUERY, HCA_TIS, 16, 176, devx_query_tis},
	{0x916, CREATE, HCA_RWQ_TBL, 272, 16, devx_create_rqt},
	{0x917, MODIFY, HCA_RWQ_TBL, 272, 16, devx_modify_rqt},
	{0x939, CREATE, HCA_FLOW_CNT, 16, 16, devx_alloc_flow_cnt},
	{0x93b, QUERY, HCA_FLOW_CNT, 32, 32, devx_query_flow_cnt},
};

/* Opcodes that the kernel passes on and the model's firmware does not know: BAD_OP. Others are
 * EINVAL. */
static const struct devx_range {
	uint8_t method;
	uint16_t first, last;
} kernel_knows[] = {
	{OTHER, 0x101, 0x101},  {OTHER, 0x10d, 0x10d},  {OTHER, 0x750, 0x750},
	{OTHER, 0x752, 0x752},  {OTHER, 0x75d, 0x75d},  {OTHER, 0x760, 0x762},
	{OTHER, 0x770, 0x770},  {OTHER, 0x822, 0x827},  {OTHER, 0x842, 0x842},
	{OTHER, 0xb00, 0xcff},  {CREATE, 0x200, 0x200}, {CREATE, 0x500, 0x500},
	{CREATE, 0x600, 0x600}, {CREATE, 0x700, 0x700}, {CREATE, 0x705, 0x705},
	{CREATE, 0x710, 0x710}, {CREATE, 0x717, 0x717}, {CREATE, 0x782, 0x782},
	{CREATE, 0x806, 0x806}, {CREATE, 0x80e, 0x80e}, {CREATE, 0x827, 0x829},
	{CREATE, 0x90c, 0x90c}, {CREATE, 0x930, 0x930}, {CREATE, 0x933, 0x933},
	{CREATE, 0x936, 0x936}, {CREATE, 0x93d, 0x93d}, {CREATE, 0x940, 0x940},
	{CREATE, 0xa00, 0xa00}, {MODIFY, 0x403, 0x403}, {MODIFY, 0x502, 0x508},
	{MODIFY, 0x50a, 0x50a}, {MODIFY, 0x50e, 0x50e}, {MODIFY, 0x703, 0x703},
	{MODIFY, 0x708, 0x708}, {MODIFY, 0x712, 0x712}, {MODIFY, 0x71a, 0x71a},
	{MODIFY, 0x785, 0x785}, {MODIFY, 0x829, 0x829}, {MODIFY, 0x901, 0x901},
	{MODIFY, 0x90d, 0x90d}, {MODIFY, 0x913, 0x913}, {MODIFY, 0x93c, 0x93c},
	{MODIFY, 0xa01, 0xa01}, {QUERY, 0x201, 0x201},  {QUERY, 0x402, 0x402},
	{QUERY, 0x702, 0x702},  {QUERY, 0x707, 0x707},  {QUERY, 0x713, 0x713},
	{QUERY, 0x719, 0x719},  {QUERY, 0x903, 0x903},  {QUERY, 0x907, 0x907},
	{QUERY, 0x90f, 0x90f},  {QUERY, 0x784, 0x784},  {QUERY, 0x919, 0x919},
	{QUERY, 0x932, 0x932},  {QUERY, 0x935, 0x935},  {QUERY, 0x937, 0x937},
	{QUERY, 0xa02, 0xa02},
};

/* A dozen rows: a search costs less than a table by opcode would in memory. */
static const struct devx_opcode *opcode_find(enum devx_method method, uint16_t opcode)
{
	for (uint32_t i = 0; i < SPW_ARRAY_CNT(opcodes); i++)
		if (opcodes[i].opcode == opcode && opcodes[i].method == method)
			return &opcodes[i];
	return NULL;
}

/* What the firmware of the model knows is part of what the kernel knows. */
static bool opcode_passes(enum devx_method method, uint16_t opcode)
{
	for (uint32_t i = 0; i < SPW_ARRAY_CNT(kernel_knows); i++)
		if (kernel_knows[i].method == method && opcode >= kernel_knows[i].first &&
		    opcode <= kernel_knows[i].last)
			return true;
	return opcode_find(method, opcode) != NULL;
}

/* ---- numbers ---- */

void *devx_number(struct hca_ctx *ctx, enum hca_obj_type type, uint64_t number)
{
	struct hca_obj *o = number <= UINT32_MAX ? hca_tbl_get(&ctx->objs, (uint32_t)number) : NULL;

	return o && o->type == type ? o : NULL;
}

struct hca_cq *devx_cq_number(struct hca_ctx *ctx, uint64_t cqn)
{
	struct hca_cq *cq = hca_tbl_get(&ctx->dev->cqs, (uint32_t)cqn);

	return cq && cq->o.ctx == ctx ? cq : NULL;
}

struct hca_wq *devx_wq_number(struct hca_ctx *ctx, uint64_t rqn)
{
	struct hca_wq *wq = hca_tbl_get(&ctx->dev->wqs, (uint32_t)rqn);

	return wq && wq->o.ctx == ctx ? wq : NULL;
}

/* What a mailbox names the object by. Numbers that the NIC looks up, or that stand in doorbells and
 * CQEs, are the device's; the others are handles, which no other context can hit upon. */
uint32_t devx_obj_number(const struct hca_obj *o)
{
	switch ((enum hca_obj_type)o->type) {
	case HCA_CQ:
		return ((const struct hca_cq *)o)->cqn;
	case HCA_WQ:
		return ((const struct hca_wq *)o)->wqn;
	case HCA_QP:
		return ((const struct hca_qp *)o)->qpn;
	case HCA_Q_CNT:
		return ((const struct hca_q_cnt *)o)->id;
	default:
		return o->handle;
	}
}

/* The default is whatever the clock of the card is set to. Both kinds at once would need a stamp
 * per queue, so only the kind that the clock has is legal by its name. */
bool devx_ts_ok(const struct hca_card *card, uint64_t ts_format)
{
	switch (ts_format) {
	case 0:
		return card->stamps != HCA_STAMPS_REAL_TIME;
	case 1:
		return true;
	default:
		return ts_format == 2 && card->stamps == HCA_STAMPS_REAL_TIME;
	}
}

/* ---- a mailbox ---- */

/* Everybody may ask what a card with DEVX can do (devx_get_uid). */
static bool devx_may(const struct hca_ctx *ctx, uint16_t opcode)
{
	return ctx->devx || (opcode == 0x100 && ctx->dev->cfg->card->devx);
}

static int run_fn(void *arg)
{
	void **a = arg;
	const struct devx_opcode *op = a[0];

	return op->fn(a[1]);
}

/* Lengths are the firmware's to check. Under the memory guard: commands touch rings. */
static int cmd_run(struct devx_cmd *c, const struct devx_opcode *op, uint32_t out_bytes)
{
	const int fault = nic_fault_devx(c->ctx->dev, c->opcode);

	if (fault)
		return fault < 0 ? fault : devx_refuse(c, (enum devx_status)fault, c->opcode);
	if (!op)
		return devx_refuse(c, DEVX_BAD_OP, c->opcode);
	if (c->in_bytes < op->in_bytes)
		return devx_refuse(c, DEVX_BAD_INP_LEN, op->in_bytes);
	if (out_bytes < SPW_MIN((uint32_t)op->out_bytes, 4112u))
		return devx_refuse(c, DEVX_BAD_OUTP_LEN, op->out_bytes);
	return nic_guarded(c->ctx->dev, run_fn, (void *[]){(void *)(uintptr_t)op, c});
}

/* A call's two mailboxes. Nothing of the caller's memory is used in place: a second thread could
 * change it between check and use. Both lie in one allocation; the answer is copied out for success
 * and for EREMOTEIO. */
struct devx_box {
	struct devx_cmd c;
	uint8_t *mem;
	uint32_t out_bytes;
	uint16_t out_id;
};

static int box_open(struct uv_ioctl *io, struct devx_box *b, uint16_t in_id, uint32_t out_bytes)
{
	const struct ib_uverbs_attr *in = uv_ioctl_attr(io, in_id);
	int rc;

	if (!in || in->len < HEAD_BYTES)
		return -EINVAL;
	*b = (struct devx_box){.c = {.ctx = io->ctx, .in_bytes = in->len}, .out_bytes = out_bytes};
	b->mem = calloc(1, in->len + SPW_MAX((size_t)out_bytes, HEAD_BYTES));
	if (!b->mem)
		return -ENOMEM;
	rc = hca_umem_read(b->mem, uv_attr_src(in), in->len);
	if (rc) {
		free(b->mem);
		return rc;
	}
	b->c.in = b->mem;
	b->c.out = b->mem + in->len;
	b->c.opcode = (uint16_t)devx_get(b->c.in, DEVX_IN_OPCODE);
	b->c.op_mod = (uint16_t)devx_get(b->c.in, DEVX_IN_OP_MOD);
	return 0;
}

/* With the answer in an attribute. */
static int box_open_attr(struct uv_ioctl *io, struct devx_box *b, uint16_t in_id, uint16_t out_id)
{
	const struct ib_uverbs_attr *out = uv_ioctl_attr(io, out_id);
	int rc = !out || out->len < HEAD_BYTES ? -EINVAL : box_open(io, b, in_id, out->len);

	if (!rc)
		b->out_id = out_id;
	return rc;
}

/* rc: of the command, its status. */
static void box_answer(struct devx_box *b, int rc)
{
	devx_put(b->c.out, DEVX_OUT_STATUS, (uint64_t)rc);
	if (rc)
		devx_put(b->c.out, DEVX_OUT_SYNDROME, b->c.syndrome);
}

/* rc: of the command. Frees the box. */
static int box_close(struct uv_ioctl *io, struct devx_box *b, int rc)
{
	int put;

	if (rc < 0) {
		free(b->mem);
		return rc;
	}
	box_answer(b, rc);
	put = uv_attr_put(io, b->out_id, b->c.out, b->out_bytes);
	free(b->mem);
	return put ? put : rc ? -EREMOTEIO : 0;
}

/* What the kernel checks before the firmware sees a command. */
static int box_check(const struct devx_box *b, enum devx_method method)
{
	if (!devx_may(b->c.ctx, b->c.opcode))
		return b->c.opcode == 0x100 || b->c.opcode == 0x752 || b->c.opcode == 0x762
			       ? -EOPNOTSUPP
			       : -EINVAL;
	return opcode_passes(method, b->c.opcode) ? 0 : -EINVAL;
}

/* ---- methods ---- */

/* Commands without an object: questions about the device. */
int do_devx_other(struct uv_ioctl *io)
{
	struct devx_box b;
	int rc = box_open_attr(io, &b, MLX5_IB_ATTR_DEVX_OTHER_CMD_IN,
			       MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT);

	if (rc)
		return rc;
	rc = box_check(&b, OTHER);
	rc = rc ? rc : cmd_run(&b.c, opcode_find(OTHER, b.c.opcode), b.out_bytes);
	return box_close(io, &b, rc);
}

/* The handle is written first, so that nothing is left that nobody can name. */
int do_devx_obj_create(struct uv_ioctl *io)
{
	struct devx_box b;
	int rc = box_open_attr(io, &b, MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN,
			       MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT);

	if (rc)
		return rc;
	rc = box_check(&b, CREATE);
	if (!rc && !uv_ioctl_attr(io, MLX5_IB_ATTR_DEVX_OBJ_CREATE_HANDLE))
		rc = -EINVAL;
	rc = rc ? rc : cmd_run(&b.c, opcode_find(CREATE, b.c.opcode), b.out_bytes);
	if (!rc) {
		b.c.obj->devx = true;
		rc = uv_attr_put_handle(io, MLX5_IB_ATTR_DEVX_OBJ_CREATE_HANDLE, b.c.obj->handle);
	}
	rc = box_close(io, &b, rc);
	if (rc && b.c.obj)
		hca_obj_destroy(b.c.obj);
	return rc;
}

/* EBUSY: another object needs it; on a card the firmware says so. */
int do_devx_obj_destroy(struct uv_ioctl *io)
{
	struct hca_obj *o;
	uint32_t handle;
	int rc = uv_attr_handle(io, MLX5_IB_ATTR_DEVX_OBJ_DESTROY_HANDLE, &handle);

	if (rc)
		return rc;
	o = hca_tbl_get(&io->ctx->objs, handle);
	if (!o)
		return -ENOENT;
	if (!o->devx || o->type == HCA_UMEM)
		return -EINVAL;
	if (o->use_cnt || (o->type == HCA_QP && ((struct hca_qp *)o)->tir.o.use_cnt))
		return -EBUSY;
	hca_obj_destroy(o);
	return 0;
}

/* What the mailbox names the object by; counters have a place of their own for it. */
static uint32_t box_number(const struct devx_box *b, enum hca_obj_type type)
{
	if (type != HCA_Q_CNT && type != HCA_FLOW_CNT)
		return (uint32_t)devx_get(b->c.in, DEVX_IN_NUMBER);
	if (b->c.in_bytes < 32)
		return 0;
	return (uint32_t)devx_get(b->c.in,
				  type == HCA_Q_CNT ? DEVX_QUERY_Q_CNT_ID : DEVX_QUERY_FLOW_CNT_ID);
}

/* A packet QP of verbs stands for its TIS as well, by the number that create_qp returned. */
static bool box_fits(const struct devx_box *b, enum hca_obj_type type)
{
	const struct hca_obj *o = b->c.obj;
	const struct hca_qp *qp = o->type == HCA_QP ? (const struct hca_qp *)o : NULL;
	const bool has_tis = qp && !o->devx && qp->qp_type == IB_UVERBS_QPT_RAW_PACKET &&
			     qp->sq_wqebb_cnt;

	return (o->type == type || (type == HCA_TIS && has_tis)) &&
	       devx_obj_number(o) == box_number(b, type);
}

/* The number in the mailbox must be the handle's. A verbs object is legal here too. */
static int obj_check(struct devx_box *b, enum devx_method method, uint32_t handle)
{
	const struct devx_opcode *op = opcode_find(method, b->c.opcode);
	int rc = box_check(b, method);

	b->c.obj = hca_tbl_get(&b->c.ctx->objs, handle);
	if (rc || !b->c.obj)
		return rc ? rc : -ENOENT;
	return !op || box_fits(b, (enum hca_obj_type)op->type) ? 0 : -EINVAL;
}

static int obj_command(struct uv_ioctl *io, enum devx_method method, const uint16_t id[3])
{
	struct devx_box b;
	uint32_t handle;
	int rc = uv_attr_handle(io, id[0], &handle);

	rc = rc ? rc : box_open_attr(io, &b, id[1], id[2]);
	if (rc)
		return rc;
	rc = obj_check(&b, method, handle);
	rc = rc ? rc : cmd_run(&b.c, opcode_find(method, b.c.opcode), b.out_bytes);
	return box_close(io, &b, rc);
}

/* Attributes of the two methods below differ in their ids only. */
int do_devx_obj_modify(struct uv_ioctl *io)
{
	static const uint16_t id[] = {MLX5_IB_ATTR_DEVX_OBJ_MODIFY_HANDLE,
				      MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_IN,
				      MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_OUT};

	return obj_command(io, MODIFY, id);
}

int do_devx_obj_query(struct uv_ioctl *io)
{
	static const uint16_t id[] = {MLX5_IB_ATTR_DEVX_OBJ_QUERY_HANDLE,
				      MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_IN,
				      MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_OUT};

	return obj_command(io, QUERY, id);
}

/* The result is there before the call returns, which a card may do as well. */
static int async_run(struct devx_box *b, uint32_t handle, struct devx_file *f, uint64_t wr_id)
{
	struct devx_event *e;
	int rc = obj_check(b, QUERY, handle);

	rc = rc ? rc : devx_file_room(f, b->out_bytes);
	if (rc)
		return rc;
	e = devx_event_new(wr_id, b->out_bytes);
	if (!e)
		return -ENOMEM;
	rc = cmd_run(&b->c, opcode_find(QUERY, b->c.opcode), b->out_bytes);
	if (rc < 0) {
		free(e);
		return rc;
	}
	box_answer(b, rc);
	memcpy(&e->data[1], b->c.out, b->out_bytes);
	devx_file_post(f, e);
	return 0;
}

/* The answer has as many bytes as the caller says, be it less than a head. */
int do_devx_obj_async_query(struct uv_ioctl *io)
{
	struct devx_file *f = devx_file_named(io, MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_FD, true);
	uint64_t wr_id, out_bytes;
	struct devx_box b;
	uint32_t handle;
	int rc = uv_attr_handle(io, MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_HANDLE, &handle);

	rc = rc ? rc : uv_attr_num(io, MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_WR_ID, UINT64_MAX, &wr_id);
	rc = rc ? rc
		: uv_attr_num(io, MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_OUT_LEN, UINT16_MAX,
			      &out_bytes);
	if (rc)
		return rc;
	if (!f)
		return -EBADF;
	rc = box_open(io, &b, MLX5_IB_ATTR_DEVX_OBJ_QUERY_ASYNC_CMD_IN, (uint32_t)out_bytes);
	if (rc)
		return rc;
	rc = async_run(&b, handle, f, wr_id);
	free(b.mem);
	return rc;
}

/* Pages are the application's by their index already (do_uar_alloc). */
int do_devx_query_uar(struct uv_ioctl *io)
{
	uint64_t index;
	uint32_t page;
	int rc = uv_attr_num(io, MLX5_IB_ATTR_DEVX_QUERY_UAR_USER_IDX, UINT32_MAX, &index);

	if (rc)
		return rc;
	if (!io->ctx->devx || !hca_uar_find(io->ctx, (uint32_t)index))
		return -EINVAL;
	page = (uint32_t)index;
	return uv_attr_put(io, MLX5_IB_ATTR_DEVX_QUERY_UAR_DEV_IDX, &page, sizeof(page));
}

/* All vectors lead to the one NIC thread; the number is what CREATE_CQ names. */
int do_devx_query_eqn(struct uv_ioctl *io)
{
	uint64_t vector;
	uint32_t eqn;
	int rc = uv_attr_num(io, MLX5_IB_ATTR_DEVX_QUERY_EQN_USER_VEC, UINT32_MAX, &vector);

	if (rc)
		return rc;
	if (!io->ctx->devx || vector >= CAP_VECTOR_CNT)
		return -EINVAL;
	eqn = (uint32_t)vector + DEVX_EQN_FIRST;
	return uv_attr_put(io, MLX5_IB_ATTR_DEVX_QUERY_EQN_DEV_EQN, &eqn, sizeof(eqn));
}
