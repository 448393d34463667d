/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A reliable connection by plain verbs (hand_qp.h).
 */
#include "hand_qp.h"

#include <errno.h>
#include <string.h>

#include "base/spw_err.h"
#include "peer/spw_peer_qp.h"

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

int hand_qp_join(struct hand_qp *h, const struct hand_qp *other)
{
	struct peer_qp_path path = {.port_num = 1,
				    .timeout = 14,
				    .retry = 7,
				    .rnr_retry = 7,
				    .min_rnr_timer = 12,
				    .rd_atomic = 1,
				    .access = IBV_ACCESS_REMOTE_WRITE,
				    .mtu = (uint16_t)rdma_dev_mtu_bytes(&h->dev),
				    .dest_qpn = other->qp->qp_num};
	struct rdma_gid mine, theirs;
	int rc = rdma_dev_gid(&h->dev, NULL, &mine);

	rc = rc ? rc : rdma_dev_gid(&other->dev, NULL, &theirs);
	if (rc)
		return rc;
	path.gid_index = (uint8_t)mine.index;
	memcpy(path.dgid, theirs.gid.raw, sizeof(path.dgid));
	h->there = (uintptr_t)other->mr->addr;
	h->there_rkey = other->mr->rkey;
	rc = peer_qp_init(h->qp, &path);
	rc = rc ? rc : peer_qp_ready(h->qp, &path);
	return rc ? spw_err(-rc, "connecting a queue pair by hand: %s", spw_err_text()) : 0;
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
