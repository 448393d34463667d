/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Matchers, and the rules made of them: the ioctls of mlx5dv_create_flow() and, on the root table,
 * of mlx5dv_dr. A rule is the matcher's mask and a value, both fte_match_param, and ends where
 * verbs rules do (fte.h). Source: Linux drivers/infiniband/hw/mlx5/fs.c.
 *
 *   matcher   mask, criteria, priority, table       checked when a rule is made of it
 *   rule      matcher, value, then one of: QP, TIR, drop, miss; and a tag, a counter
 *
 * There is the root table of received frames alone, as on a card whose firmware has no table for
 * sent ones and which manages no switch: the others are EOPNOTSUPP, as are actions that change a
 * frame. So is the rest of mlx5dv_dr: without software steering it asks for no more than this.
 */
#include <linux/capability.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>
#include <string.h>

#include "softhca/kernel/attr.h"
#include "softhca/kernel/ctl.h"
#include "softhca/kernel/flow/fte.h"
#include "softhca/nic/nic.h"

#define CRITERIA_COMPARED 7u /* outer, misc, inner */
#define TAG_CNT           (1u << 24)

enum {
	FLAG_MISS = MLX5_IB_ATTR_CREATE_FLOW_FLAGS_DEFAULT_MISS,
	FLAG_DROP = MLX5_IB_ATTR_CREATE_FLOW_FLAGS_DROP,
	MATCHER_EGRESS = 4, /* IB_FLOW_ATTR_FLAGS_EGRESS */
};

/* A mask or value is as long as the caller's library has it. *beyond_out: it has bits beyond the
 * sections that the NIC compares. */
static int match_param_get(const struct uv_ioctl *io, uint16_t id, struct flow_fields *out,
			   bool *beyond_out)
{
	struct mlx5_ib_match_params p;
	const uint8_t *byte = (const uint8_t *)&p;
	int rc = uv_attr_bytes(io, id, &p, 1, sizeof(p));

	if (rc)
		return rc;
	memcpy(out->byte, byte, sizeof(out->byte));
	*beyond_out = false;
	for (size_t i = sizeof(out->byte); i < sizeof(p); i++)
		*beyond_out |= byte[i] != 0;
	return 0;
}

/* The type is in the attribute, its data is the priority. */
static int matcher_get_type(const struct uv_ioctl *io, struct hca_matcher *m)
{
	const struct ib_uverbs_attr *a = uv_ioctl_attr(io, MLX5_IB_ATTR_FLOW_MATCHER_FLOW_TYPE);

	if (!a || a->attr_data.enum_data.elem_id > FLOW_SNIFFER)
		return -EINVAL;
	m->type = a->attr_data.enum_data.elem_id;
	if (a->len != (m->type == FLOW_NORMAL ? sizeof(m->priority) : 0))
		return -EINVAL;
	memcpy(&m->priority, &a->data, a->len);
	return 0;
}

/* Old libraries name the table by a flag. */
static int matcher_get_table(const struct uv_ioctl *io, struct hca_matcher *m)
{
	const bool has_table = uv_ioctl_attr(io, MLX5_IB_ATTR_FLOW_MATCHER_FT_TYPE);
	const bool has_flags = uv_ioctl_attr(io, MLX5_IB_ATTR_FLOW_MATCHER_FLOW_FLAGS);
	uint64_t n = MLX5_IB_UAPI_FLOW_TABLE_TYPE_NIC_RX;
	int rc = 0;

	if (has_table && has_flags)
		return -EINVAL;
	if (has_table)
		rc = uv_attr_num(io, MLX5_IB_ATTR_FLOW_MATCHER_FT_TYPE,
				 MLX5_IB_UAPI_FLOW_TABLE_TYPE_RDMA_TX, &n);
	if (has_flags) {
		rc = uv_attr_num(io, MLX5_IB_ATTR_FLOW_MATCHER_FLOW_FLAGS, MATCHER_EGRESS, &n);
		if (n & ~(uint64_t)MATCHER_EGRESS)
			return -EINVAL;
		n = n ? MLX5_IB_UAPI_FLOW_TABLE_TYPE_NIC_TX : MLX5_IB_UAPI_FLOW_TABLE_TYPE_NIC_RX;
	}
	m->table = (uint8_t)n;
	return rc;
}

/* Nothing but its form is checked here: the driver does not ask the card yet. */
int do_matcher_create(struct uv_ioctl *io)
{
	struct hca_matcher want = {0}, *m;
	int rc = match_param_get(io, MLX5_IB_ATTR_FLOW_MATCHER_MATCH_MASK, &want.mask,
				 &want.mask_beyond);

	rc = rc ? rc : matcher_get_type(io, &want);
	rc = rc ? rc
		: uv_attr_bytes(io, MLX5_IB_ATTR_FLOW_MATCHER_MATCH_CRITERIA, &want.criteria, 1, 1);
	rc = rc ? rc : matcher_get_table(io, &want);
	if (rc)
		return rc;
	m = hca_obj_new(io->ctx, HCA_MATCHER, sizeof(*m), 0);
	if (!m)
		return -ENOMEM;
	want.o = m->o;
	*m = want;
	rc = uv_attr_put_handle(io, MLX5_IB_ATTR_FLOW_MATCHER_CREATE_HANDLE, m->o.handle);
	if (rc)
		hca_obj_free(&m->o);
	return rc;
}

/* Busy while it has rules. */
int do_matcher_destroy(struct uv_ioctl *io)
{
	struct hca_matcher *m;
	uint32_t handle;
	int rc = uv_attr_handle(io, MLX5_IB_ATTR_FLOW_MATCHER_DESTROY_HANDLE, &handle);

	rc = rc ? rc : hca_obj_find_destroy(io->ctx, HCA_MATCHER, handle, &m);
	if (rc)
		return rc;
	if (m->o.use_cnt)
		return -EBUSY;
	hca_obj_free(&m->o);
	return 0;
}

/* ---- rules ---- */

/* Its own ring, or RSS. */
static struct hca_tir *rule_tir_of_qp(const struct uv_ioctl *io)
{
	struct hca_qp *qp;
	uint32_t handle;

	if (uv_attr_handle(io, MLX5_IB_ATTR_CREATE_FLOW_DEST_QP, &handle))
		return NULL;
	qp = hca_obj_find(io->ctx, HCA_QP, handle);
	return qp && qp->qp_type == IB_UVERBS_QPT_RAW_PACKET ? &qp->tir : NULL;
}

/* A TIR, by the handle of the command that made it; there are no tables to go on with. */
static struct hca_tir *rule_tir_of_devx(const struct uv_ioctl *io)
{
	uint32_t handle;

	if (uv_attr_handle(io, MLX5_IB_ATTR_CREATE_FLOW_DEST_DEVX, &handle))
		return NULL;
	return hca_devx_find(io->ctx, HCA_TIR, handle);
}

/* Received frames need exactly one of QP, TIR, drop and miss. Sent ones are sent if nothing else is
 * named, and a switch would lead to tables alone; whether there are such tables is asked later. */
static bool rule_dest_fits(uint8_t table, uint32_t tirs, const struct hca_flow *f)
{
	if (f->drop && f->miss)
		return false;
	if (table == MLX5_IB_UAPI_FLOW_TABLE_TYPE_NIC_TX)
		return !tirs;
	if (table == MLX5_IB_UAPI_FLOW_TABLE_TYPE_FDB)
		return !tirs && f->drop;
	return tirs + f->drop + f->miss == 1;
}

/* All errors are EINVAL, as get_dests' are. */
static int rule_get_dest(const struct uv_ioctl *io, struct hca_flow *f)
{
	const bool qp = uv_ioctl_attr(io, MLX5_IB_ATTR_CREATE_FLOW_DEST_QP);
	const bool devx = uv_ioctl_attr(io, MLX5_IB_ATTR_CREATE_FLOW_DEST_DEVX);
	uint64_t flags = 0;

	if (uv_ioctl_attr(io, MLX5_IB_ATTR_CREATE_FLOW_FLAGS) &&
	    uv_attr_num(io, MLX5_IB_ATTR_CREATE_FLOW_FLAGS, FLAG_MISS | FLAG_DROP, &flags))
		return -EINVAL;
	f->drop = flags & FLAG_DROP;
	f->miss = flags & FLAG_MISS;
	if (!rule_dest_fits(f->matcher->table, qp + devx, f))
		return -EINVAL;
	f->tir = qp ? rule_tir_of_qp(io) : devx ? rule_tir_of_devx(io) : NULL;
	return f->tir || !(qp || devx) ? 0 : -EINVAL;
}

/* As long as a CQE has room for; 0 is a tag as well. */
static int rule_get_tag(const struct uv_ioctl *io, struct hca_flow *f)
{
	if (!uv_ioctl_attr(io, MLX5_IB_ATTR_CREATE_FLOW_TAG))
		return 0;
	f->has_tag = true;
	return uv_attr_bytes(io, MLX5_IB_ATTR_CREATE_FLOW_TAG, &f->tag, 4, 4) || f->tag >= TAG_CNT
		       ? -EINVAL
		       : 0;
}

/* One, made by DEVX. The offset is that of a counter in a bulk, of which there are none. */
static int rule_get_cnt(const struct uv_ioctl *io, struct hca_flow *f)
{
	uint32_t handle, offset = 0;
	int rc;

	if (!uv_ioctl_attr(io, MLX5_IB_ATTR_CREATE_FLOW_ARR_COUNTERS_DEVX))
		return 0;
	rc = uv_attr_bytes(io, MLX5_IB_ATTR_CREATE_FLOW_ARR_COUNTERS_DEVX, &handle, 4, 4);
	if (!rc && uv_ioctl_attr(io, MLX5_IB_ATTR_CREATE_FLOW_ARR_COUNTERS_DEVX_OFFSET))
		rc = uv_attr_bytes(io, MLX5_IB_ATTR_CREATE_FLOW_ARR_COUNTERS_DEVX_OFFSET, &offset,
				   4, 4);
	if (rc)
		return rc;
	if (!hca_tbl_get(&io->ctx->objs, handle))
		return -ENOENT;
	f->cnt = hca_devx_find(io->ctx, HCA_FLOW_CNT, handle);
	return f->cnt && !offset ? 0 : -EINVAL;
}

/* What is not compared may not be asked for. A matcher without criteria has no mask. */
static int rule_get_match(const struct uv_ioctl *io, const struct hca_matcher *m,
			  struct flow_match *out)
{
	bool beyond;
	int rc = match_param_get(io, MLX5_IB_ATTR_CREATE_FLOW_MATCH_VALUE, &out->val, &beyond);

	out->mask = m->mask;
	if (rc || beyond || m->mask_beyond || m->criteria & ~CRITERIA_COMPARED)
		return -EINVAL;
	for (uint32_t i = 0; i < sizeof(out->mask.byte); i++)
		if (out->mask.byte[i] && !(m->criteria >> i / FLOW_SECTION_BYTES & 1))
			return -EINVAL;
	return fte_match_check(out);
}

/* A quirk that programs meet: of an IPv4 address the mask must begin with 1110 as well. */
static bool rule_is_multicast(const struct flow_match *m)
{
	const uint8_t *v = m->val.outer, *w = m->mask.outer;

	return v[FLOW_DMAC] & w[FLOW_DMAC] & 1 ||
	       ((v[FLOW_DST_IP + 12] & 0xf0) == 0xe0 && (w[FLOW_DST_IP + 12] & 0xf0) == 0xe0);
}

/* If the answer cannot be written the rule is destroyed again: nobody would know its handle. */
static int rule_make(struct uv_ioctl *io, struct hca_matcher *m, struct hca_flow *want)
{
	struct flow_match match;
	struct hca_flow *f;
	int rc;

	if (m->type != FLOW_NORMAL)
		return -EOPNOTSUPP;
	if (m->priority >= FLOW_PRIORITY_CNT)
		return -ENOMEM;
	if (m->table != MLX5_IB_UAPI_FLOW_TABLE_TYPE_NIC_RX)
		return -EOPNOTSUPP;
	rc = rule_get_match(io, m, &match);
	if (rc)
		return rc;
	want->level = rule_is_multicast(&match) ? FLOW_LEVEL_MULTICAST
						: FLOW_LEVEL(m->priority, false);
	rc = hca_flow_make(io->ctx, want, &match, &f);
	if (rc)
		return rc;
	rc = uv_attr_put_handle(io, MLX5_IB_ATTR_CREATE_FLOW_HANDLE, f->o.handle);
	if (rc)
		hca_flow_free(&f->o);
	return rc;
}

/* The order of checks is that of the driver. */
int do_rule_create(struct uv_ioctl *io)
{
	struct hca_flow want = {.type = FLOW_NORMAL};
	uint32_t handle;
	int rc;

	if (!hca_capable(CAP_NET_RAW))
		return -EPERM;
	rc = -nic_fault_of(io->ctx->dev, "create_flow"); /* as the verbs command */
	rc = rc ? rc : uv_attr_handle(io, MLX5_IB_ATTR_CREATE_FLOW_MATCHER, &handle);
	if (rc)
		return rc;
	want.matcher = hca_obj_find(io->ctx, HCA_MATCHER, handle);
	if (!want.matcher)
		return -ENOENT;
	rc = rule_get_dest(io, &want);
	rc = rc ? rc : rule_get_cnt(io, &want);
	rc = rc ? rc : rule_get_tag(io, &want);
	if (rc)
		return rc;
	if (uv_ioctl_attr(io, MLX5_IB_ATTR_CREATE_FLOW_ARR_FLOW_ACTIONS))
		return -EOPNOTSUPP;
	return rule_make(io, want.matcher, &want);
}

/* rdma-core destroys rules by the verbs command; both find the same object. */
int do_rule_destroy(struct uv_ioctl *io)
{
	struct hca_obj *f;
	uint32_t handle;
	int rc = uv_attr_handle(io, MLX5_IB_ATTR_CREATE_FLOW_HANDLE, &handle);

	rc = rc ? rc : hca_obj_find_destroy(io->ctx, HCA_FLOW, handle, &f);
	if (!rc)
		hca_flow_free(f);
	return rc;
}

/* What would change a frame: a card without these capabilities refuses it whatever it is. */
int do_action_create(struct uv_ioctl *io)
{
	(void)io;
	return -EOPNOTSUPP;
}
