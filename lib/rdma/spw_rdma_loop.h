/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A receive work queue that gets the frames which its own port sends to itself: what the litmus
 * needs of an Ethernet port (port/spw_port.h, spw_port_loop).
 */
#ifndef SPW_RDMA_LOOP_H
#define SPW_RDMA_LOOP_H

#include "rdma/spw_rdma.h"

/* What lets a queue receive its own frames; all zero: nothing does. */
struct rdma_loop {
	struct ibv_rwq_ind_table *table;
	struct ibv_qp *qp;
	struct ibv_flow *flow;
};

/* Purpose: lets wq receive frames of this type to the port's own MAC address, and no others. A loop
 *          that was there ends first.
 * Shape:   wq of dev, ready; type: an EtherType; head_out: 14 bytes, the Ethernet header that each
 *          frame must begin with.
 * Owner:   the caller, until rdma_loop_end.
 * Thread:  setup
 * Errors:  -ENOTSUP, in one clause; nothing is left. */
int rdma_loop_make(const struct rdma_dev *dev, struct ibv_wq *wq, uint16_t type,
		   struct rdma_loop *loop, uint8_t *head_out);
/* Idempotent. Thread: setup. */
void rdma_loop_end(struct rdma_loop *loop);

#endif
