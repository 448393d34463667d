/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A reliable connection by plain verbs (hand_qp.h).
 */
#include "hand_qp.h"

#include <errno.h>
#include <string.h>

#include "base/spw_err.h"

static int make_qp(struct hand_qp *h, const struct ibv_qp_cap *cap)
{
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC, .cap = *cap};

	attr.recv_cq = h->rx_cq = ibv_create_cq(h->dev.ctx, (int)cap->max_recv_wr, NULL, NULL, 0);
	attr.send_cq = h->tx_cq = ibv_create_cq(h->dev.ctx, (int)cap->max_send_wr, NULL, NULL, 0);
	if (h->rx_cq && h->tx_cq)
		h->qp = ibv_create_qp(h->dev.pd, &attr);
	return h->qp ? 0 : spw_err(errno, "a queue pair by hand: %s", strerror(errno));
}

int hand_qp_open(struct hand_qp *h, const char *device, void *bytes, size_t len,
		 const struct ibv_qp_cap *cap)
{
	int rc = rdma_dev_open(device, 1, &h->dev);

	rc = rc ? rc
		: rdma_mr_reg_bytes(&h->dev, h->dev.pd, bytes, len,
				    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, &h->mr);
	return rc ? rc : make_qp(h, cap);
}

static int to_rtr(struct hand_qp *h, const struct hand_qp *other, const struct rdma_gid *mine,
		  const struct rdma_gid *theirs)
{
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT,
				   .port_num = 1,
				   .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = h->dev.port.active_mtu,
		.dest_qp_num = other->qp->qp_num,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = theirs->gid,
				    .sgid_index = mine->index,
				    .hop_limit = 64}},
	};
	int rc = ibv_modify_qp(
		h->qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);

	return rc ? rc
		  : ibv_modify_qp(h->qp, &rtr,
				  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					  IBV_QP_MIN_RNR_TIMER);
}

int hand_qp_join(struct hand_qp *h, const struct hand_qp *other)
{
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS,
				  .timeout = 14,
				  .retry_cnt = 7,
				  .rnr_retry = 7,
				  .max_rd_atomic = 1};
	struct rdma_gid mine, theirs;
	int rc = rdma_dev_gid(&h->dev, NULL, &mine);

	rc = rc ? rc : rdma_dev_gid(&other->dev, NULL, &theirs);
	if (rc)
		return rc;
	h->there = (uintptr_t)other->mr->addr;
	h->there_rkey = other->mr->rkey;
	rc = to_rtr(h, other, &mine, &theirs);
	rc = rc ? rc
		: ibv_modify_qp(h->qp, &rts,
				IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
	return rc ? spw_err(rc, "connecting a queue pair by hand: %s", strerror(rc)) : 0;
}

void hand_qp_close(struct hand_qp *h)
{
	if (h->qp)
		ibv_destroy_qp(h->qp);
	if (h->rx_cq)
		ibv_destroy_cq(h->rx_cq);
	if (h->tx_cq)
		ibv_destroy_cq(h->tx_cq);
	if (h->mr)
		ibv_dereg_mr(h->mr);
	if (h->dev.ctx)
		rdma_dev_close(&h->dev);
}
