/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Commands that create and destroy queue pairs, and multicast groups. modify and query are in
 * cmd_qp_mod.c. Rings of a QP in the application's buffer, as libmlx5 lays them out:
 *
 *   RC, UC, UD:    buf_addr: [ receive queue | send queue ]
 *   RAW_PACKET:    buf_addr: [ receive queue ]    sq_buf_addr: [ send queue ]
 *   doorbell record: [0] receive, [1] send
 *
 * Source: rdma-core providers/mlx5/verbs.c (create_qp), Linux drivers/infiniband/hw/mlx5/qp.c.
 *
 *   create   object -> references or RSS table -> rings -> QP number -> register page -> NIC
 *   destroy  NIC first, so that it touches no ring any more; then the same in reverse
 *
 * References (qp_refs_add) are counted last, when nothing can fail any more: a PD, CQ, SRQ or table
 * that a QP names cannot be destroyed before it.
 */
#include <errno.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>

#include "softhca/kernel/cmd.h"
#include "softhca/kernel/ctl.h"
#include "softhca/nic/nic.h"

#define QPN_FIRST    0x40u
#define UIDX_MAX     0xffffffu
#define RQ_SHIFT_MIN 4u
#define RQ_SHIFT_MAX 10u
#define WQEBB_BYTES  64u
#define CREATE_FLAGS_RAW                                                         \
	(IB_UVERBS_QP_CREATE_SCATTER_FCS | IB_UVERBS_QP_CREATE_CVLAN_STRIPPING | \
	 IB_UVERBS_QP_CREATE_PCI_WRITE_END_PADDING)
#define DRV_FLAGS_KNOWN \
	(MLX5_QP_FLAG_SCATTER_CQE | MLX5_QP_FLAG_ALLOW_SCATTER_CQE | MLX5_QP_FLAG_UAR_PAGE_INDEX)
#define RSS_FLAGS_KNOWN (MLX5_QP_FLAG_TIR_ALLOW_SELF_LB_UC | MLX5_QP_FLAG_TIR_ALLOW_SELF_LB_MC)
#define RSS_IPV4        (MLX5_RX_HASH_SRC_IPV4 | MLX5_RX_HASH_DST_IPV4)
#define RSS_IPV6        (MLX5_RX_HASH_SRC_IPV6 | MLX5_RX_HASH_DST_IPV6)
#define RSS_TCP         (MLX5_RX_HASH_SRC_PORT_TCP | MLX5_RX_HASH_DST_PORT_TCP)
#define RSS_UDP         (MLX5_RX_HASH_SRC_PORT_UDP | MLX5_RX_HASH_DST_PORT_UDP)

/* ---- what a request refers to ---- */

/* Does the card lack what these flags ask for? */
static bool qp_raw_lacks(const struct hca_card *card, uint32_t flags)
{
	return (flags & IB_UVERBS_QP_CREATE_CVLAN_STRIPPING &&
		!(card->raw_caps & IB_UVERBS_RAW_PACKET_CAP_CVLAN_STRIPPING)) ||
	       (flags & IB_UVERBS_QP_CREATE_SCATTER_FCS &&
		!(card->raw_caps & IB_UVERBS_RAW_PACKET_CAP_SCATTER_FCS));
}

/* EOPNOTSUPP: types and flags that mlx5 has and the model has not; EINVAL: there is no such
 * type. */
static int qp_type_check(const struct hca_card *card, const struct ib_uverbs_ex_create_qp *req)
{
	switch (req->qp_type) {
	case IB_UVERBS_QPT_RC:
	case IB_UVERBS_QPT_UC:
	case IB_UVERBS_QPT_UD:
		return req->create_flags ? -EOPNOTSUPP : 0;
	case IB_UVERBS_QPT_RAW_PACKET:
		if (!hca_capable(CAP_NET_RAW))
			return -EPERM;
		return req->create_flags & ~(uint32_t)CREATE_FLAGS_RAW ||
				       qp_raw_lacks(card, req->create_flags)
			       ? -EOPNOTSUPP
			       : 0;
	case IB_UVERBS_QPT_XRC_INI:
	case IB_UVERBS_QPT_XRC_TGT:
	case IB_UVERBS_QPT_DRIVER: /* DC */
		return -EOPNOTSUPP;
	default:
		return -EINVAL;
	}
}

/* Finds, and does not count yet: a failure that follows needs no undo. */
static int qp_refs_find(struct hca_ctx *ctx, const struct ib_uverbs_ex_create_qp *req,
			struct hca_qp *qp)
{
	qp->pd = hca_obj_find(ctx, HCA_PD, req->pd_handle);
	qp->send_cq = hca_obj_find(ctx, HCA_CQ, req->send_cq_handle);
	qp->recv_cq = hca_obj_find(ctx, HCA_CQ, req->recv_cq_handle);
	if (req->is_srq)
		qp->srq = hca_obj_find(ctx, HCA_SRQ, req->srq_handle);
	if (!qp->pd || !qp->send_cq || !qp->recv_cq || (req->is_srq && !qp->srq))
		return -EINVAL;
	if (cq_stamps_check(qp->send_cq) || cq_stamps_check(qp->recv_cq))
		return -EOPNOTSUPP;
	/* Connected and datagram QPs may use an SRQ; a packet QP has its own receive queue. */
	return qp->srq && qp->qp_type == IB_UVERBS_QPT_RAW_PACKET ? -EINVAL : 0;
}

/* d is 1, or -1 as an unsigned number. */
static void qp_refs_add(struct hca_qp *qp, uint32_t d)
{
	qp->pd->o.use_cnt += d;
	if (qp->send_cq)
		qp->send_cq->o.use_cnt += d;
	if (qp->recv_cq)
		qp->recv_cq->o.use_cnt += d;
	if (qp->srq)
		qp->srq->o.use_cnt += d;
	hca_tir_refs(&qp->tir, d);
}

/* ---- rings ---- */

/* libmlx5 has chosen the sizes; a card refuses what is no power of 2, or smaller than what the
 * application asked for. */
static int qp_rings_check(const struct hca_qp *qp, const struct mlx5_ib_create_qp *drv)
{
	uint32_t rq = drv->rq_wqe_count;

	if (drv->sq_wqe_count > CAP_WQE_CNT ||
	    (drv->sq_wqe_count && !SPW_IS_POW2(drv->sq_wqe_count)))
		return -EINVAL;
	if (qp->cap.max_send_wr > drv->sq_wqe_count || qp->cap.max_send_wr > CAP_WQE_CNT)
		return -EINVAL;
	if (qp->srq || !rq)
		return qp->cap.max_recv_wr && !qp->srq ? -EINVAL : 0;
	if (rq > CAP_WQE_CNT || !SPW_IS_POW2(rq) || qp->cap.max_recv_wr > rq)
		return -EINVAL;
	return drv->rq_wqe_shift < RQ_SHIFT_MIN || drv->rq_wqe_shift > RQ_SHIFT_MAX ? -EINVAL : 0;
}

/* Addresses of the application, checked here for the NIC thread, which reads them later without a
 * system call. */
static int qp_rings_map(struct hca_qp *qp, const struct mlx5_ib_create_qp *drv)
{
	uint32_t rq_cnt = qp->srq ? 0 : drv->rq_wqe_count;
	uint64_t rq_bytes = rq_cnt ? (uint64_t)rq_cnt << drv->rq_wqe_shift : 0;
	uint64_t sq_bytes = (uint64_t)drv->sq_wqe_count * WQEBB_BYTES;
	bool raw = qp->qp_type == IB_UVERBS_QPT_RAW_PACKET;
	uint64_t sq_at = raw ? drv->sq_buf_addr : drv->buf_addr + rq_bytes;
	int rc;

	if (drv->db_addr & 7)
		return -EINVAL;
	if ((rq_bytes && hca_umem_check(drv->buf_addr, rq_bytes, true)) ||
	    (sq_bytes && hca_umem_check(sq_at, sq_bytes, true)) ||
	    hca_umem_check(drv->db_addr, 8, true))
		return -EFAULT;
	/* One buffer, or two for a packet QP. */
	rc = hca_obj_pin(&qp->o, drv->buf_addr, raw ? rq_bytes : rq_bytes + sq_bytes);
	rc = rc || !raw ? rc : hca_obj_pin(&qp->o, sq_at, sq_bytes);
	if (rc)
		return rc;
	qp->rq.buf = rq_cnt ? (uint8_t *)(uintptr_t)drv->buf_addr : NULL;
	qp->rq.dbrec = (spw_be32 *)(uintptr_t)drv->db_addr;
	qp->rq.wqe_cnt = rq_cnt;
	qp->rq.wqe_shift = rq_cnt ? drv->rq_wqe_shift : 0;
	qp->rq.max_sge = rq_cnt ? (1u << drv->rq_wqe_shift) / 16u : 0;
	qp->sq_buf = sq_bytes ? (uint8_t *)(uintptr_t)sq_at : NULL;
	qp->sq_wqebb_cnt = drv->sq_wqe_count;
	qp->sq_dbrec = (spw_be32 *)(uintptr_t)drv->db_addr + 1;
	return 0;
}

/* A QP without a register page could ring no doorbell: old libraries that do not send one are
 * refused. */
static int qp_rings_fill(struct uv_call *c, struct hca_qp *qp)
{
	const struct mlx5_ib_create_qp *drv = c->uhw_in;
	int rc;

	if (c->uhw_in_bytes < offsetof(struct mlx5_ib_create_qp, sq_buf_addr) ||
	    drv->uidx > UIDX_MAX)
		return -EINVAL;
	if (drv->flags & MLX5_QP_FLAG_SIGNATURE || drv->flags & ~(uint32_t)DRV_FLAGS_KNOWN)
		return -EINVAL;
	if (!(drv->flags & MLX5_QP_FLAG_UAR_PAGE_INDEX) || !hca_uar_find(c->ctx, drv->bfreg_index))
		return -EINVAL;
	qp->flags = drv->flags;
	qp->uidx = drv->uidx;
	rc = qp_rings_check(qp, drv);
	return rc ? rc : qp_rings_map(qp, drv);
}

/* ---- RSS ---- */

/* An RSS QP is a hash over a table of WQs: it has no rings, no states and no CQ of its own. */
static int qp_rss_fill(struct uv_call *c, const struct ib_uverbs_ex_create_qp *req,
		       struct hca_qp *qp)
{
	const struct mlx5_ib_create_qp_rss *drv = c->uhw_in;
	uint64_t f = drv->rx_hash_fields_mask;

	qp->pd = hca_obj_find(c->ctx, HCA_PD, req->pd_handle);
	qp->tir.tbl = hca_obj_find(c->ctx, HCA_RWQ_TBL, req->rwq_ind_tbl_handle);
	if (!qp->pd || !qp->tir.tbl || req->is_srq || req->max_recv_wr || req->max_recv_sge)
		return -EINVAL;
	if (req->qp_type != IB_UVERBS_QPT_RAW_PACKET || req->max_send_wr)
		return -EOPNOTSUPP;
	if (c->uhw_in_bytes < offsetof(struct mlx5_ib_create_qp_rss, flags))
		return -EINVAL;
	if (drv->comp_mask || drv->flags & ~(uint32_t)RSS_FLAGS_KNOWN || req->create_flags)
		return -EOPNOTSUPP;
	if (f & ~c->ctx->dev->cfg->card->rss_fields)
		return -EOPNOTSUPP;
	if ((f & RSS_IPV4 && f & RSS_IPV6) || (f & RSS_TCP && f & RSS_UDP))
		return -EINVAL;
	if (drv->rx_hash_function != MLX5_RX_HASH_FUNC_TOEPLITZ)
		return -EOPNOTSUPP;
	/* Without fields the QP only steers, so its table must have one entry. */
	if (drv->rx_key_len != CAP_RSS_KEY_BYTES || (!f && qp->tir.tbl->log2_cnt))
		return -EINVAL;
	qp->is_rss = true;
	qp->tir.fields = f;
	qp->tir.self_lb_mc = drv->flags & MLX5_QP_FLAG_TIR_ALLOW_SELF_LB_MC;
	memcpy(qp->tir.key, drv->rx_hash_key, CAP_RSS_KEY_BYTES);
	return 0;
}

/* ---- create ---- */

/* The upper byte of a QP number is the device's port on the cable, so that all QPs of one cable
 * differ. References are counted last, when nothing can fail any more. */
int hca_qp_attach(struct hca_qp *qp, struct hca_uar *uar)
{
	struct hca_dev *dev = qp->o.ctx->dev;
	uint32_t slot;
	int rc;

	qp->tir.o.ctx = qp->o.ctx;
	qp->tir.qp = qp;
	rc = dev->qps.used < cap_max_qp(dev)
		     ? hca_tbl_add(&dev->qps, qp, QPN_FIRST, CAP_QP_LOG2, &slot)
		     : -ENOMEM;

	if (rc)
		return rc;
	qp->qpn = (dev->cable_port & 0xffu) << 16 | slot;
	if (uar)
		hca_uar_bind_qp(uar, qp);
	rc = nic_qp_create(qp);
	if (!rc && qp->qp_type == IB_UVERBS_QPT_RAW_PACKET && (rc = nic_tir_create(&qp->tir)))
		nic_qp_destroy(qp);
	if (rc) {
		if (uar)
			hca_uar_unbind_qp(qp);
		hca_tbl_del(&dev->qps, slot);
		return rc;
	}
	qp_refs_add(qp, 1);
	return 0;
}

static void qp_reply(struct uv_call *c, const struct hca_qp *qp,
		     struct ib_uverbs_create_qp_resp *resp)
{
	struct mlx5_ib_create_qp_resp uhw = {0};

	/* For DEVX alone (hw/mlx5/qp.c, create_raw_packet_qp). A card has a number for each of the
	 * objects behind a packet QP; here all are the QPN. */
	if (qp->qp_type == IB_UVERBS_QPT_RAW_PACKET && c->ctx->devx) {
		uhw.comp_mask = MLX5_IB_CREATE_QP_RESP_MASK_TIRN;
		uhw.tirn = qp->qpn;
		if (!qp->is_rss) {
			uhw.comp_mask |= MLX5_IB_CREATE_QP_RESP_MASK_TISN |
					 MLX5_IB_CREATE_QP_RESP_MASK_RQN |
					 MLX5_IB_CREATE_QP_RESP_MASK_SQN;
			uhw.tisn = uhw.rqn = uhw.sqn = qp->qpn;
		}
	}
	/* The caps go back as they were asked for: libmlx5 chose the rings, and knows their
	 * sizes. */
	*resp = (struct ib_uverbs_create_qp_resp){
		.qp_handle = qp->o.handle,
		.qpn = qp->qpn,
		.max_send_wr = qp->cap.max_send_wr,
		.max_recv_wr = qp->cap.max_recv_wr,
		.max_send_sge = qp->cap.max_send_sge,
		.max_recv_sge = qp->cap.max_recv_sge,
		.max_inline_data = qp->cap.max_inline_data,
	};
	uv_uhw_reply(c, &uhw, sizeof(uhw));
}

/* drv is libmlx5's part for a QP with rings; for RSS the same bytes are another structure, which
 * qp_rss_fill reads. */
static int qp_object_make(struct uv_call *c, const struct ib_uverbs_ex_create_qp *req,
			  struct ib_uverbs_create_qp_resp *resp)
{
	const struct mlx5_ib_create_qp *drv = c->uhw_in;
	bool rss = req->comp_mask & IB_UVERBS_CREATE_QP_MASK_IND_TABLE;
	struct hca_qp *qp;
	int rc = qp_type_check(c->ctx->dev->cfg->card, req);

	if (rc)
		return rc;
	qp = hca_obj_new(c->ctx, HCA_QP, sizeof(*qp), req->user_handle);
	if (!qp)
		return -ENOMEM;
	qp->qp_type = req->qp_type;
	qp->sig_all = req->sq_sig_all;
	qp->create_flags = req->create_flags;
	qp->cap = (struct ib_uverbs_qp_cap){req->max_send_wr, req->max_recv_wr, req->max_send_sge,
					    req->max_recv_sge, req->max_inline_data};
	rc = rss ? qp_rss_fill(c, req, qp) : qp_refs_find(c->ctx, req, qp);
	if (!rc && !rss)
		rc = qp_rings_fill(c, qp);
	if (!rc)
		rc = hca_qp_attach(qp, rss ? NULL : hca_uar_find(c->ctx, drv->bfreg_index));
	if (rc) {
		hca_obj_free(&qp->o);
		return rc;
	}
	qp_reply(c, qp, resp);
	return 0;
}

int cmd_create_qp(struct uv_call *c)
{
	const struct ib_uverbs_create_qp *in = c->in;
	struct ib_uverbs_ex_create_qp req = {.user_handle = in->user_handle};

	/* After its response pointer the old structure equals the beginning of the new one. */
	memcpy(&req, &in->user_handle,
	       sizeof(*in) - offsetof(struct ib_uverbs_create_qp, user_handle));
	return qp_object_make(c, &req, c->out);
}

int cmd_ex_create_qp(struct uv_call *c)
{
	const struct ib_uverbs_ex_create_qp *req = c->in;
	struct ib_uverbs_ex_create_qp_resp *resp = c->out;
	int rc;

	if (req->comp_mask & ~(uint32_t)IB_UVERBS_CREATE_QP_SUP_COMP_MASK || req->reserved)
		return -EINVAL;
	if (req->source_qpn)
		return -EOPNOTSUPP;
	rc = qp_object_make(c, req, &resp->base);
	resp->response_length = SPW_MIN(c->out_bytes, (uint32_t)sizeof(*resp));
	return rc;
}

/* ---- destroy ---- */

/* gid NULL: all groups of the QP. */
static void mcast_leave(struct hca_qp *qp, const uint8_t *gid, bool *found_out)
{
	struct hca_mcast **at = &qp->o.ctx->dev->mcast;

	while (*at) {
		struct hca_mcast *m = *at;

		if (m->qp == qp && (!gid || memcmp(m->gid, gid, sizeof(m->gid)) == 0)) {
			*at = m->next;
			free(m);
			*found_out = true;
		} else {
			at = &m->next;
		}
	}
}

/* Also for a context that is closed, whose flow rules went before its QPs (hca_ctx.c). */
void hca_qp_free(struct hca_qp *qp)
{
	bool found;

	nic_tir_destroy(&qp->tir);
	nic_qp_destroy(qp);
	mcast_leave(qp, NULL, &found);
	if (qp->uar)
		hca_uar_unbind_qp(qp);
	hca_tbl_del(&qp->o.ctx->dev->qps, HCA_QPN_SLOT(qp->qpn));
	hca_event_purge_async(&qp->o);
	qp_refs_add(qp, -1u);
	hca_obj_free(&qp->o);
}

int cmd_destroy_qp(struct uv_call *c)
{
	const struct ib_uverbs_destroy_qp *req = c->in;
	struct ib_uverbs_destroy_qp_resp *resp = c->out;
	struct hca_qp *qp;
	int rc = hca_obj_find_destroy(c->ctx, HCA_QP, req->qp_handle, &qp);

	if (rc)
		return rc;
	/* A QP that a flow rule or a multicast group refers to is busy. */
	for (struct hca_mcast *m = c->ctx->dev->mcast; m; m = m->next)
		if (m->qp == qp)
			return -EBUSY;
	if (qp->tir.o.use_cnt)
		return -EBUSY;
	hca_event_purge_async(&qp->o);
	resp->events_reported = qp->o.async_sent;
	hca_qp_free(qp);
	return 0;
}

/* ---- multicast ---- */

/* Joining a group again is no error and adds no member. */
int cmd_attach_mcast(struct uv_call *c)
{
	const struct ib_uverbs_attach_mcast *req = c->in;
	struct hca_dev *dev = c->ctx->dev;
	struct hca_qp *qp = hca_obj_find(c->ctx, HCA_QP, req->qp_handle);
	struct hca_mcast *m;

	if (!qp || qp->qp_type != IB_UVERBS_QPT_UD ||
	    (req->gid[0] != 0xff && !hca_gid_is_ip4_group(req->gid)))
		return -EINVAL;
	for (m = dev->mcast; m; m = m->next)
		if (m->qp == qp && memcmp(m->gid, req->gid, sizeof(m->gid)) == 0)
			return 0;
	if (hca_mcast_room(dev, req->gid))
		return -ENOMEM;
	m = calloc(1, sizeof(*m));
	if (!m)
		return -ENOMEM;
	m->qp = qp;
	memcpy(m->gid, req->gid, sizeof(m->gid));
	m->next = dev->mcast;
	dev->mcast = m;
	return 0;
}

/* EINVAL: the QP was no member. */
int cmd_detach_mcast(struct uv_call *c)
{
	const struct ib_uverbs_detach_mcast *req = c->in;
	struct hca_qp *qp = hca_obj_find(c->ctx, HCA_QP, req->qp_handle);
	bool found = false;

	if (qp)
		mcast_leave(qp, req->gid, &found);
	return found ? 0 : -EINVAL;
}
