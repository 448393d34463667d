/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The states of an RC queue pair (IBTA 10.3.1). RoCE v2 always has a global route.
 *
 *   RESET -> INIT          peer_qp_init    before receives are posted
 *   INIT -> RTR            peer_qp_rtr     when the other side's parameters are known
 *   RTR -> RTS             peer_qp_rts     gives the other side its rights of access, too
 *   INIT -> RTR -> RTS     peer_qp_ready   both
 *   any -> ERR             peer_qp_error   flushes everything that is posted
 *   ERR -> RESET           peer_qp_reset   when the flush was taken
 *
 * peer_qp_rtr and with it peer_qp_ready wait for the kernel, which looks up the MAC of the other
 * side's GID: up to a second for a neighbour that does not answer (-ETIMEDOUT then). So they are
 * not for a thread that moves data.
 *
 * Thread of all: control; for lib/xfer the owner, and for peer_qp_rtr a thread that has the QP
 * alone. Errors of all: the device's, with a text.
 */
#ifndef SPW_PEER_QP_H
#define SPW_PEER_QP_H

#include <infiniband/verbs.h>

#include "base/spw_types.h"

/* What both ends of a QP agree on, and what this end wants. */
struct peer_qp_path {
	uint8_t port_num, gid_index; /* of this end */
	uint8_t tclass;              /* traffic class of the RoCE packets */
	uint8_t timeout;             /* ACK timeout of 4.096 us * 2^timeout */
	uint8_t retry, rnr_retry;    /* 0 .. 7 */
	uint8_t min_rnr_timer;       /* code of IBTA table 45 */
	uint8_t rd_atomic;           /* RDMA READs under way, in each direction; at least 1 */
	int access;                  /* set of IBV_ACCESS_REMOTE_* */
	uint16_t mtu;                /* path MTU in bytes, 256 .. 4096 */
	uint32_t dest_qpn, rq_psn;   /* of the other end */
	uint32_t sq_psn;             /* of this end */
	uint8_t dgid[16];            /* of the other end */
};

/* Thread: control, or the owner of lib/xfer. path->access: the rights from now on; 0: none yet. */
int peer_qp_init(struct ibv_qp *qp, const struct peer_qp_path *path);
/* Thread: control, or one that has the QP alone. Errors: -ETIMEDOUT no neighbour answers for the
 * GID; -ENETUNREACH no route; others of the device. */
int peer_qp_rtr(struct ibv_qp *qp, const struct peer_qp_path *path);
/* Thread: control, or the owner of lib/xfer. */
int peer_qp_rts(struct ibv_qp *qp, const struct peer_qp_path *path);
/* Thread: control. */
int peer_qp_ready(struct ibv_qp *qp, const struct peer_qp_path *path);
int peer_qp_error(struct ibv_qp *qp);
int peer_qp_reset(struct ibv_qp *qp);

#endif
