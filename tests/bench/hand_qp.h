/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A reliable connection by plain verbs, as perftest has it: what the ports and lib/xfer are
 * measured against (rc_hand.c, xfer_pair.c).
 */
#ifndef SPW_BENCH_HAND_QP_H
#define SPW_BENCH_HAND_QP_H

#include "rdma/spw_rdma.h"

struct hand_qp {
	struct rdma_dev dev;
	struct ibv_mr *mr;
	struct ibv_cq *rx_cq, *tx_cq;
	struct ibv_qp *qp;
	uint64_t there; /* the other end's memory */
	uint32_t there_rkey;
};

/* Purpose: opens the device, registers len bytes for local and remote writes, and makes a queue
 *          pair of this size with a CQ for each direction. The struct is zero before.
 * Errors:  -errno with a text.
 * Owner:   hand_qp_close, also after an error; the bytes outlive it.
 * Thread:  setup. */
int hand_qp_open(struct hand_qp *h, const char *device, void *bytes, size_t len,
		 const struct ibv_qp_cap *cap);
/* Purpose: connects it to the other end, which is open; each end joins the other.
 * Errors:  -errno with a text. */
int hand_qp_join(struct hand_qp *h, const struct hand_qp *other);
/* Purpose: frees what is there. A zeroed one is fine. */
void hand_qp_close(struct hand_qp *h);

#endif
