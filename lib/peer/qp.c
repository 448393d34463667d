/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Moves an RC queue pair between its states (spw_peer_qp.h). Called by turn.c and link.c, and by
 * lib/xfer.
 *
 * Each function sets exactly the attributes that its transition requires of an RC QP
 * (ibv_modify_qp(3) lists them); ERR and RESET need the state only. A failed transition leaves the
 * QP in the state that it had: the caller moves it to ERR or RESET.
 */
#include <string.h>

#include "base/spw_err.h"
#include "peer/spw_peer_qp.h"

#define HOP_LIMIT 64u

/* The text is a clause: its caller has named the peer that "its" refers to. */
static int peer_qp_modify(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, const char *what)
{
	int error = ibv_modify_qp(qp, attr, mask | IBV_QP_STATE);

	if (error &&
	    attr->qp_state ==
		    IBV_QPS_RTR) /* the kernel resolves the address of the peer's GID here */
		return spw_err(error, "no RoCE path to its GID (%s): does ping reach it?",
			       strerror(error));
	return error ? spw_err(error, "its QP does not go to %s: %s", what, strerror(error)) : 0;
}

int peer_qp_init(struct ibv_qp *qp, const struct peer_qp_path *path)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = path->port_num,
		.qp_access_flags = (unsigned int)path->access,
	};

	return peer_qp_modify(qp, &attr, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
			      "INIT");
}

/* enum ibv_mtu counts from IBV_MTU_256 in powers of two. */
static enum ibv_mtu peer_qp_mtu(uint32_t bytes)
{
	return (enum ibv_mtu)(IBV_MTU_256 + (spw_log2_floor64(bytes) - 8));
}

/* From here on the QP receives. There is no MAC address in ah_attr: the kernel resolves
 * it from the GID's route while it serves this call. */
int peer_qp_rtr(struct ibv_qp *qp, const struct peer_qp_path *path)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = peer_qp_mtu(path->mtu),
		.dest_qp_num = path->dest_qpn,
		.rq_psn = path->rq_psn,
		.max_dest_rd_atomic = path->rd_atomic,
		.min_rnr_timer = path->min_rnr_timer,
		.ah_attr =
			{
				.is_global = 1,
				.grh = {.sgid_index = path->gid_index,
					.hop_limit = HOP_LIMIT,
					.traffic_class = path->tclass},
				.port_num = path->port_num,
			},
	};

	memcpy(attr.ah_attr.grh.dgid.raw, path->dgid, sizeof(path->dgid));
	return peer_qp_modify(qp, &attr,
			      IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
			      "RTR");
}

/* From here on the QP sends. The rights may have been given with INIT before. */
int peer_qp_rts(struct ibv_qp *qp, const struct peer_qp_path *path)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.qp_access_flags = (unsigned int)path->access,
		.timeout = path->timeout,
		.retry_cnt = path->retry,
		.rnr_retry = path->rnr_retry,
		.sq_psn = path->sq_psn,
		.max_rd_atomic = path->rd_atomic,
	};

	return peer_qp_modify(qp, &attr,
			      IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				      IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_ACCESS_FLAGS,
			      "RTS");
}

/* Two transitions in one call, because both sides know everything after the exchange: no message is
 * awaited between RTR and RTS. */
int peer_qp_ready(struct ibv_qp *qp, const struct peer_qp_path *path)
{
	int rc = peer_qp_rtr(qp, path);

	return rc ? rc : peer_qp_rts(qp, path);
}

int peer_qp_error(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	return peer_qp_modify(qp, &attr, 0, "ERR");
}

int peer_qp_reset(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};

	return peer_qp_modify(qp, &attr, 0, "RESET");
}
