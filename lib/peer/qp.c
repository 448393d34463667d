/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The states of an RC queue pair (IBTA 10.3.1), called by turn.c and link.c. RoCE v2 always has a
 * global route.
 *
 *   RESET -> INIT          peer_qp_init    before the owner posts receives
 *   INIT -> RTR -> RTS     peer_qp_ready   when the other side's parameters are known
 *   any -> ERR             peer_qp_error   flushes everything that is posted
 *   ERR -> RESET           peer_qp_reset   when the owner has taken the flush
 */
#include <errno.h>
#include <string.h>

#include "base/spw_err.h"
#include "peer/conn.h"

#define HOP_LIMIT 64u

static int modify(struct peer_link *link, struct ibv_qp_attr *attr, int mask, const char *what)
{
	int error = ibv_modify_qp(link->peer->qp, attr, mask | IBV_QP_STATE);

	if (error &&
	    attr->qp_state ==
		    IBV_QPS_RTR) /* the kernel resolves the address of the peer's GID here */
		return spw_err(error, "no RoCE path to its GID (%s): does ping reach it?",
			       strerror(error));
	return error ? spw_err(error, "its QP does not go to %s: %s", what, strerror(error)) : 0;
}

int peer_qp_init(struct peer_link *link)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = link->conn->dev.rdma->port_num,
		.qp_access_flags = link->peer->op == SPW_PEER_OP_WRITE ? IBV_ACCESS_REMOTE_WRITE
								       : 0,
	};

	return modify(link, &attr, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, "INIT");
}

static enum ibv_mtu mtu_code(uint32_t bytes)
{
	return (enum ibv_mtu)(IBV_MTU_256 + (spw_log2_floor64(bytes) - 8));
}

static int to_rtr(struct peer_link *link, const struct peer_params *theirs)
{
	const struct spw_peer_conf *conf = &link->conn->conf;
	const struct spw_peer_dev *dev = &link->conn->dev;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = mtu_code(theirs->mtu),
		.dest_qp_num = theirs->qpn,
		.rq_psn = theirs->psn,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = conf->min_rnr_timer,
		.ah_attr =
			{
				.is_global = 1,
				.grh = {.sgid_index = dev->gid.index,
					.hop_limit = HOP_LIMIT,
					.traffic_class = conf->tclass},
				.port_num = dev->rdma->port_num,
			},
	};

	memcpy(attr.ah_attr.grh.dgid.raw, theirs->gid, sizeof(theirs->gid));
	return modify(link, &attr,
		      IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
		      "RTR");
}

static int to_rts(struct peer_link *link)
{
	const struct spw_peer_conf *conf = &link->conn->conf;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.timeout = conf->timeout,
		.retry_cnt = conf->retry,
		.rnr_retry = conf->rnr_retry,
		.sq_psn = link->ours.psn,
		.max_rd_atomic = 1,
	};

	return modify(link, &attr,
		      IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
			      IBV_QP_MAX_QP_RD_ATOMIC,
		      "RTS");
}

int peer_qp_ready(struct peer_link *link, const struct peer_params *theirs)
{
	int rc = to_rtr(link, theirs);

	return rc ? rc : to_rts(link);
}

int peer_qp_error(struct peer_link *link)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	return modify(link, &attr, 0, "ERR");
}

int peer_qp_reset(struct peer_link *link)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};

	return modify(link, &attr, 0, "RESET");
}
