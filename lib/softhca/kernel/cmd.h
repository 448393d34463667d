/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The uverbs commands, one function each, and access to the attributes of the ioctl ABI.
 *
 * A command reads call->in and call->uhw_in (libmlx5's part), checks everything, builds or changes
 * objects, calls the NIC, and writes call->out and call->uhw_out. uv_dispatch calls it with the
 * device lock held (cmd_get_context takes the lock itself). Returns: 0 or -errno, the value that
 * Linux returns for the same mistake; -EAGAIN: nothing was changed, and a neighbour has been asked
 * for its MAC: it is called again until it answers (uverbs.c).
 */
#ifndef SPW_SOFTHCA_CMD_H
#define SPW_SOFTHCA_CMD_H

#include <errno.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>

#include "softhca/kernel/uverbs.h"

/* The limits of the model that no card has narrower; what cards differ in is in hca_card.h. Query
 * commands report them, create commands enforce them. */
#define CAP_QP_LOG2       16u
#define CAP_CQ_LOG2       16u
#define CAP_SRQ_LOG2      16u
#define CAP_WQ_LOG2       16u
#define CAP_MR_LOG2       20u
#define CAP_WQE_CNT       32768u
#define CAP_CQE_CNT       (1u << 22)
#define CAP_SGE_CNT       30u
#define CAP_RD_ATOMIC     16u
#define CAP_MSG_BYTES     0x40000000u
#define CAP_PKEY_CNT      1u
#define CAP_SQ_DESC_BYTES 1024u
#define CAP_MINI_CQE_CNT  64u

#define CAP_PD_CNT        (1u << 19)
#define CAP_RWQ_TBL_CNT   (1u << 12)
#define CAP_MCAST_GRP_CNT 8192u
#define CAP_MCAST_QP_CNT  240u /* of one group */
#define CAP_VECTOR_CNT    8u   /* completion vectors */
#define CAP_RSS_KEY_BYTES 40u

/* The bits of attr_mask in modify_qp and query_qp (enum ib_qp_attr_mask). */
enum {
	QPA_STATE = 1 << 0,
	QPA_CUR_STATE = 1 << 1,
	QPA_SQD_NOTIFY = 1 << 2,
	QPA_ACCESS = 1 << 3,
	QPA_PKEY = 1 << 4,
	QPA_PORT = 1 << 5,
	QPA_QKEY = 1 << 6,
	QPA_AV = 1 << 7,
	QPA_PATH_MTU = 1 << 8,
	QPA_TIMEOUT = 1 << 9,
	QPA_RETRY_CNT = 1 << 10,
	QPA_RNR_RETRY = 1 << 11,
	QPA_RQ_PSN = 1 << 12,
	QPA_MAX_RD_ATOMIC = 1 << 13,
	QPA_ALT_PATH = 1 << 14,
	QPA_MIN_RNR_TIMER = 1 << 15,
	QPA_SQ_PSN = 1 << 16,
	QPA_MAX_DEST_RD_ATOMIC = 1 << 17,
	QPA_PATH_MIG = 1 << 18,
	QPA_CAP = 1 << 19,
	QPA_DEST_QPN = 1 << 20,
	QPA_RATE_LIMIT = 1 << 25,
};

int cmd_get_context(struct uv_call *c);
int cmd_query_device(struct uv_call *c);
int cmd_ex_query_device(struct uv_call *c);
int cmd_query_port(struct uv_call *c);
int cmd_alloc_pd(struct uv_call *c);
int cmd_dealloc_pd(struct uv_call *c);
int cmd_create_ah(struct uv_call *c);
int cmd_destroy_ah(struct uv_call *c);
int cmd_reg_mr(struct uv_call *c);
int cmd_rereg_mr(struct uv_call *c);
int cmd_dereg_mr(struct uv_call *c);
int cmd_create_comp_channel(struct uv_call *c);
int cmd_create_cq(struct uv_call *c);
int cmd_ex_create_cq(struct uv_call *c);
int cmd_ex_modify_cq(struct uv_call *c);
int cmd_resize_cq(struct uv_call *c);
int cmd_destroy_cq(struct uv_call *c);
int cmd_create_srq(struct uv_call *c);
int cmd_create_xsrq(struct uv_call *c);
int cmd_modify_srq(struct uv_call *c);
int cmd_query_srq(struct uv_call *c);
int cmd_destroy_srq(struct uv_call *c);
int cmd_create_qp(struct uv_call *c);
int cmd_ex_create_qp(struct uv_call *c);
int cmd_modify_qp(struct uv_call *c);
int cmd_ex_modify_qp(struct uv_call *c);
int cmd_query_qp(struct uv_call *c);
int cmd_destroy_qp(struct uv_call *c);
int cmd_attach_mcast(struct uv_call *c);
int cmd_detach_mcast(struct uv_call *c);
int cmd_ex_create_wq(struct uv_call *c);
int cmd_ex_modify_wq(struct uv_call *c);
int cmd_ex_destroy_wq(struct uv_call *c);
int cmd_ex_create_rwq_tbl(struct uv_call *c);
int cmd_ex_destroy_rwq_tbl(struct uv_call *c);
int cmd_ex_create_flow(struct uv_call *c);
int cmd_ex_destroy_flow(struct uv_call *c);

/* Returns: the most QPs of a device: the card's, or the model's if that is less. */
SPW_INLINE uint32_t cap_max_qp(const struct hca_dev *dev)
{
	return 1u << SPW_MIN((uint32_t)dev->cfg->card->qp_log2, CAP_QP_LOG2 - 1);
}

/* Purpose: is this transition legal for the QP type, with these attributes (QPA_*)? Pure.
 * Returns: 0 or -EINVAL. */
int qp_modify_permitted(uint8_t qp_type, uint8_t from, uint8_t to, uint32_t mask);
/* Purpose: the largest IB MTU whose packets fit into an IP packet of mtu_bytes.
 * Returns: 1..5, which stands for 256 << (n - 1) bytes of payload. */
uint8_t port_ib_mtu(uint32_t mtu_bytes);

/* Can queues that complete to this CQ have the stamps that it asks for? (hw/mlx5/qp.c,
 * get_ts_format) Returns: 0 or -EOPNOTSUPP. */
SPW_INLINE int cq_stamps_check(const struct hca_cq *cq)
{
	const enum hca_stamps has = cq->o.ctx->dev->cfg->card->stamps;

	return cq->asks_stamps && has != HCA_STAMPS_FREE_RUNNING && has != HCA_STAMPS_BOTH
		       ? -EOPNOTSUPP
		       : 0;
}

/* ---- ioctl attributes ---- */

/* Returns: NULL: the caller did not send that attribute. */
SPW_INLINE const struct ib_uverbs_attr *uv_attr(const struct ib_uverbs_attr *attr, uint32_t cnt,
						uint16_t id)
{
	for (uint32_t i = 0; i < cnt; i++)
		if (attr[i].attr_id == id)
			return &attr[i];
	return NULL;
}

/* Address of an input attribute's bytes: up to 8 of them are in the attribute itself. */
SPW_INLINE uint64_t uv_attr_src(const struct ib_uverbs_attr *a)
{
	return a->len <= sizeof(a->data) ? (uint64_t)(uintptr_t)&a->data : a->data;
}

/* Purpose: a write command that comes as ioctl attributes (UVERBS_METHOD_INVOKE_WRITE). */
int uv_ioctl_invoke_write(struct hca_ctx *ctx, const struct ib_uverbs_attr *attr, uint32_t cnt);

#endif
