/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Devices for lib/xfer that complete what the fuzzer's input wants, when it wants.
 */
#ifndef FUZZ_XFER_NIC_H
#define FUZZ_XFER_NIC_H

#include "xfer/connection.h"
#include "xfer/endpoint.h"

#define NIC_DONE_MAX 64u

struct nic {
	struct ibv_qp qp;
	bool made;
	uint32_t pi, ci; /* send WQEs posted, and acknowledged */
	uint32_t receives;
	struct xfer_done done[NIC_DONE_MAX]; /* not polled */
	uint32_t done_cnt;
};
extern struct nic nic[SPW_XFER_RAIL_MAX]; /* by device */
extern uint64_t nic_now_ms;

/* The fuzzer's: whether these bytes may be sent. */
bool nic_may_read(uint64_t addr, uint32_t bytes, uint32_t lkey, bool in_wqe);

/* Acknowledges up to so many WQEs; status: of the last one. */
void nic_ack(struct nic *n, uint32_t cnt, uint32_t status);
/* A WRITE with an immediate arrived. */
void nic_receive(struct nic *n, uint32_t imm, uint32_t bytes);

#endif
