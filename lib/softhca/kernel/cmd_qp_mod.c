/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Commands that modify and query queue pairs. The attributes are stored here; nic_qp_modified lets
 * the NIC act on the new state. Source: transitions and their attributes: InfiniBand Architecture
 * Specification 1.3, 10.3.1 and table 91; raw packet QPs: Linux drivers/infiniband/core/verbs.c
 * (qp_state_table).
 *
 *   RESET --> INIT --> RTR --> RTS <--> SQD         modify; SQD: the send queue drains
 *     ^         |       |      | ^       |
 *     |         |       |      v |       |
 *     |         |       |      SQE       |          the NIC: a send failed, RC excepted;
 *     |         v       v       v        v                   modify returns to RTS
 *     +-------- ERR <--+-------+--------+           modify, or the NIC: a fatal error
 *
 * Any state but RESET may go to ERR, and any state to RESET, which also forgets all attributes. The
 * state is written by these commands and by the NIC thread (nic/transport/sq.c, nic/run/obj.c),
 * each with the device lock held.
 */
#include <errno.h>
#include <linux/capability.h>
#include <string.h>

#include "softhca/kernel/cmd.h"
#include "softhca/kernel/ctl.h"
#include "softhca/nic/nic.h"

enum { COL_RC, COL_UC, COL_UD, COL_RAW, COL_CNT };

struct transition {
	uint8_t from, to;
	uint32_t required[COL_CNT];
	uint32_t optional[COL_CNT];
};

#define QKEY_PRIVILEGED 0x80000000u /* as the Q_Keys of management QPs */

#define PATHS  (QPA_ALT_PATH | QPA_PATH_MIG)
#define RUN_UC (QPA_CUR_STATE | QPA_ACCESS | PATHS)
#define RUN_RC (RUN_UC | QPA_MIN_RNR_TIMER)
#define RUN_UD (QPA_CUR_STATE | QPA_QKEY)
#define FLOW   (QPA_TIMEOUT | QPA_RETRY_CNT | QPA_RNR_RETRY | QPA_MAX_RD_ATOMIC)
#define INIT_C (QPA_PKEY | QPA_PORT | QPA_ACCESS)
#define INIT_D (QPA_PKEY | QPA_PORT | QPA_QKEY)
#define RTR_C  (QPA_AV | QPA_PATH_MTU | QPA_DEST_QPN | QPA_RQ_PSN)
#define RTR_O  (QPA_ALT_PATH | QPA_ACCESS | QPA_PKEY)
#define SQD_C  (QPA_AV | QPA_ALT_PATH | QPA_ACCESS | QPA_PKEY | QPA_PATH_MIG)

/* Each set: {RC, UC, UD, RAW_PACKET}. Any state but RESET may also go to RESET and to ERR, without
 * attributes; qp_modify_permitted has no rows for these. */
static const struct transition transitions[] = {
	{HCA_QPS_RESET, HCA_QPS_RESET, {0}, {0}},
	{HCA_QPS_RESET, HCA_QPS_INIT, {INIT_C, INIT_C, INIT_D, QPA_PORT}, {0}},
	{HCA_QPS_INIT, HCA_QPS_INIT, {0}, {INIT_C, INIT_C, INIT_D, 0}},
	{HCA_QPS_INIT,
	 HCA_QPS_RTR,
	 {RTR_C | QPA_MAX_DEST_RD_ATOMIC | QPA_MIN_RNR_TIMER, RTR_C, 0, 0},
	 {RTR_O, RTR_O, QPA_PKEY | QPA_QKEY, 0}},
	{HCA_QPS_RTR,
	 HCA_QPS_RTS,
	 {FLOW | QPA_SQ_PSN, QPA_SQ_PSN, QPA_SQ_PSN, 0},
	 {RUN_RC, RUN_UC, RUN_UD, QPA_RATE_LIMIT}},
	{HCA_QPS_RTS, HCA_QPS_RTS, {0}, {RUN_RC, RUN_UC, RUN_UD, QPA_RATE_LIMIT}},
	{HCA_QPS_RTS, HCA_QPS_SQD, {0}, {QPA_SQD_NOTIFY, QPA_SQD_NOTIFY, QPA_SQD_NOTIFY, 0}},
	{HCA_QPS_SQD, HCA_QPS_RTS, {0}, {RUN_RC, RUN_UC, RUN_UD, 0}},
	{HCA_QPS_SQD,
	 HCA_QPS_SQD,
	 {0},
	 {SQD_C | FLOW | QPA_PORT | QPA_MAX_DEST_RD_ATOMIC | QPA_MIN_RNR_TIMER, SQD_C,
	  QPA_PKEY | QPA_QKEY, 0}},
	{HCA_QPS_SQE, HCA_QPS_RTS, {0}, {0, QPA_CUR_STATE | QPA_ACCESS, RUN_UD, 0}},
};

/* A raw packet QP has no peer, so its column has the port and the rate only. */
static int state_column(uint8_t qp_type)
{
	switch (qp_type) {
	case IB_UVERBS_QPT_RC:
		return COL_RC;
	case IB_UVERBS_QPT_UC:
		return COL_UC;
	case IB_UVERBS_QPT_UD:
		return COL_UD;
	default:
		return COL_RAW;
	}
}

/* Three rules for each pair of states: it is in the table, no required attribute is missing, and
 * none is given that is neither required nor optional. A table keeps them comparable with the
 * specification's, line by line. */
int qp_modify_permitted(uint8_t qp_type, uint8_t from, uint8_t to, uint32_t mask)
{
	int col = state_column(qp_type);

	mask &= ~(uint32_t)QPA_STATE;
	if (from != HCA_QPS_RESET && (to == HCA_QPS_RESET || to == HCA_QPS_ERR))
		return mask & ~(uint32_t)QPA_CUR_STATE ? -EINVAL : 0;
	for (uint32_t i = 0; i < SPW_ARRAY_CNT(transitions); i++) {
		const struct transition *t = &transitions[i];

		if (t->from != from || t->to != to)
			continue;
		if ((mask & t->required[col]) != t->required[col])
			return -EINVAL;
		return mask & ~(t->required[col] | t->optional[col]) ? -EINVAL : 0;
	}
	return -EINVAL;
}

/* ---- modify ---- */

static bool qp_path_ok(const struct ib_uverbs_qp_dest *av)
{
	/* On Ethernet every path has a GRH. */
	return av->port_num == 1 && av->is_global && av->sgid_index < HCA_GID_CNT;
}

/* Ranges only; whether an attribute belongs to the transition is qp_modify_permitted's. The device
 * has one port, number 1. */
static int qp_values_check(const struct ib_uverbs_modify_qp *r)
{
	uint32_t m = r->attr_mask;

	if ((m & QPA_STATE && r->qp_state > HCA_QPS_ERR) ||
	    (m & QPA_CUR_STATE && r->cur_qp_state > HCA_QPS_ERR))
		return -EINVAL;
	if (m & QPA_PORT && r->port_num != 1)
		return -EINVAL;
	if (m & QPA_AV && !qp_path_ok(&r->dest))
		return -EINVAL;
	if (m & QPA_ALT_PATH && (!qp_path_ok(&r->alt_dest) || r->alt_port_num != 1 ||
				 r->alt_pkey_index >= CAP_PKEY_CNT))
		return -EINVAL;
	if (m & QPA_PKEY && r->pkey_index >= CAP_PKEY_CNT)
		return -EINVAL;
	if ((m & QPA_MAX_RD_ATOMIC && r->max_rd_atomic > CAP_RD_ATOMIC) ||
	    (m & QPA_MAX_DEST_RD_ATOMIC && r->max_dest_rd_atomic > CAP_RD_ATOMIC))
		return -EINVAL;
	if (m & QPA_PATH_MTU && (r->path_mtu < 1 || r->path_mtu > 5))
		return -EINVAL;
	if ((m & QPA_TIMEOUT && r->timeout > 31) ||
	    (m & QPA_MIN_RNR_TIMER && r->min_rnr_timer > 31))
		return -EINVAL;
	return (m & QPA_RETRY_CNT && r->retry_cnt > 7) || (m & QPA_RNR_RETRY && r->rnr_retry > 7)
		       ? -EINVAL
		       : 0;
}

/* Only what attr_mask names is stored: the rest of the request is undefined, and attributes of
 * earlier transitions stay. */
static void qp_store_path(struct hca_qp_attr *a, const struct ib_uverbs_modify_qp *r)
{
	uint32_t m = r->attr_mask;

	if (m & QPA_AV)
		a->av = r->dest;
	if (m & QPA_ALT_PATH) {
		a->alt_av = r->alt_dest;
		a->alt_port = r->alt_port_num;
		a->alt_timeout = r->alt_timeout;
		a->alt_pkey_index = r->alt_pkey_index;
	}
	if (m & QPA_PATH_MTU)
		a->path_mtu = r->path_mtu;
	if (m & QPA_PATH_MIG)
		a->path_mig_state = r->path_mig_state;
	if (m & QPA_DEST_QPN)
		a->dest_qpn = r->dest_qp_num & 0xffffffu;
	if (m & QPA_PKEY)
		a->pkey_index = r->pkey_index;
	if (m & QPA_PORT)
		a->port = r->port_num;
}

static void qp_store_rest(struct hca_qp_attr *a, const struct ib_uverbs_modify_qp *r)
{
	uint32_t m = r->attr_mask;

	if (m & QPA_QKEY)
		a->qkey = r->qkey;
	if (m & QPA_RQ_PSN)
		a->rq_psn = r->rq_psn & 0xffffffu;
	if (m & QPA_SQ_PSN)
		a->sq_psn = r->sq_psn & 0xffffffu;
	if (m & QPA_ACCESS)
		a->access = r->qp_access_flags;
	if (m & QPA_MAX_RD_ATOMIC)
		a->max_rd_atomic = r->max_rd_atomic;
	if (m & QPA_MAX_DEST_RD_ATOMIC)
		a->max_dest_rd_atomic = r->max_dest_rd_atomic;
	if (m & QPA_MIN_RNR_TIMER)
		a->min_rnr_timer = r->min_rnr_timer;
	if (m & QPA_TIMEOUT)
		a->timeout = r->timeout;
	if (m & QPA_RETRY_CNT)
		a->retry_cnt = r->retry_cnt;
	if (m & QPA_RNR_RETRY)
		a->rnr_retry = r->rnr_retry;
}

/* The kernel looks up the MAC of the other end in this command (Linux, drivers/infiniband/core/
 * verbs.c, ib_resolve_eth_dmac). Returns: -EAGAIN: it waits for the neighbour. */
static int qp_find_neighbour(struct hca_ctx *ctx, const struct hca_qp *qp,
			     const struct ib_uverbs_modify_qp *r)
{
	uint8_t mac[6];

	if (!(r->attr_mask & QPA_AV) || state_column(qp->qp_type) > COL_UC)
		return 0;
	return nic_resolve(ctx->dev, r->dest.sgid_index, r->dest.dgid, mac);
}

/* Checks first; from memset or qp_store_path on nothing fails. sq_draining is set here and cleared
 * by the NIC when the last send has completed. */
static int qp_modify(struct hca_ctx *ctx, const struct ib_uverbs_modify_qp *r, uint32_t rate_limit)
{
	struct hca_qp *qp = hca_obj_find(ctx, HCA_QP, r->qp_handle);
	uint8_t from, to;
	int rc = qp_values_check(r);

	if (!qp)
		return -EINVAL;
	if (r->attr_mask & QPA_QKEY && r->qkey & QKEY_PRIVILEGED && !hca_capable(CAP_NET_RAW))
		return -EPERM; /* core/uverbs_cmd.c, modify_qp */
	if (qp->is_rss)        /* has no state */
		return -ENOSYS;
	from = qp->state;
	if (!rc && r->attr_mask & QPA_CUR_STATE && r->cur_qp_state != from)
		rc = -EINVAL;
	to = r->attr_mask & QPA_STATE ? r->qp_state : from;
	if (!rc)
		rc = qp_modify_permitted(qp->qp_type, from, to, r->attr_mask);
	rc = rc ? rc : qp_find_neighbour(ctx, qp, r);
	if (rc)
		return rc;
	if (to == HCA_QPS_RESET) {
		memset(&qp->attr, 0, sizeof(qp->attr));
	} else {
		qp_store_path(&qp->attr, r);
		qp_store_rest(&qp->attr, r);
	}
	if (r->attr_mask & QPA_RATE_LIMIT)
		qp->attr.rate_limit = rate_limit;
	qp->attr.sqd_notify = r->attr_mask & QPA_SQD_NOTIFY && r->en_sqd_async_notify;
	qp->sq_draining = from == HCA_QPS_RTS && to == HCA_QPS_SQD;
	qp->state = to;
	nic_qp_modified(qp, from, r->attr_mask);
	return 0;
}

/* The old command knows attributes up to IB_QP_DEST_QPN; the newer ones came with the extended
 * command below. */
int cmd_modify_qp(struct uv_call *c)
{
	const struct ib_uverbs_modify_qp *req = c->in;

	return req->attr_mask >= QPA_DEST_QPN << 1 ? -EOPNOTSUPP : qp_modify(c->ctx, req, 0);
}

int cmd_ex_modify_qp(struct uv_call *c)
{
	const struct ib_uverbs_ex_modify_qp *req = c->in;
	uint32_t known = (QPA_DEST_QPN << 1) - 1;
	int rc;

	if (req->base.attr_mask & ~(known | QPA_RATE_LIMIT))
		return -EOPNOTSUPP;
	rc = qp_modify(c->ctx, &req->base, req->rate_limit);
	if (!rc && c->out_bytes >= sizeof(struct ib_uverbs_ex_modify_qp_resp))
		((struct ib_uverbs_ex_modify_qp_resp *)c->out)->response_length =
			sizeof(struct ib_uverbs_ex_modify_qp_resp);
	return rc;
}

/* ---- query ---- */

int cmd_query_qp(struct uv_call *c)
{
	const struct ib_uverbs_query_qp *req = c->in;
	const struct hca_qp *qp = hca_obj_find(c->ctx, HCA_QP, req->qp_handle);
	const struct hca_qp_attr *a;
	struct ib_uverbs_query_qp_resp *r = c->out;

	if (!qp)
		return -EINVAL;
	if (qp->is_rss)
		return -ENOSYS;
	a = &qp->attr;
	*r = (struct ib_uverbs_query_qp_resp){
		.dest = a->av,
		.alt_dest = a->alt_av,
		.max_send_wr = qp->cap.max_send_wr,
		.max_recv_wr = qp->cap.max_recv_wr,
		.max_send_sge = qp->cap.max_send_sge,
		.max_recv_sge = qp->cap.max_recv_sge,
		.max_inline_data = qp->cap.max_inline_data,
		.qkey = a->qkey,
		.rq_psn = a->rq_psn,
		.sq_psn = a->sq_psn,
		.dest_qp_num = a->dest_qpn,
		.qp_access_flags = a->access,
		.pkey_index = a->pkey_index,
		.alt_pkey_index = a->alt_pkey_index,
		.qp_state = qp->state,
		.cur_qp_state = qp->state,
		.path_mtu = a->path_mtu,
		.path_mig_state = a->path_mig_state,
		.sq_draining = qp->sq_draining,
		.max_rd_atomic = a->max_rd_atomic,
		.max_dest_rd_atomic = a->max_dest_rd_atomic,
		.min_rnr_timer = a->min_rnr_timer,
		.port_num = a->port,
		.timeout = a->timeout,
		.retry_cnt = a->retry_cnt,
		.rnr_retry = a->rnr_retry,
		.alt_port_num = a->alt_port,
		.alt_timeout = a->alt_timeout,
		.sq_sig_all = qp->sig_all,
	};
	return 0;
}
