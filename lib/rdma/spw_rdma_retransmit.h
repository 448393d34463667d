/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * How often a device repeated what its RC QPs had sent: a cable that loses frames shows nowhere
 * else, since RC hides it. Read from sysfs; the kernel asks the device at most once in 10 ms.
 *
 *   packet_seq_err         NAKs: the peer missed a packet before one that came
 *   rnr_nak_retry_err      RNR NAKs: the peer had no receive posted
 *   local_ack_timeout_err  timeouts: no acknowledgement came
 *
 * Source: NVIDIA, "Understanding mlx5 Linux Counters and Status Parameters"; Linux
 * drivers/infiniband/hw/mlx5/counters.c. Other drivers have other names: theirs are unknown.
 */
#ifndef SPW_RDMA_RETRANSMIT_H
#define SPW_RDMA_RETRANSMIT_H

#include "rdma/spw_rdma.h"

/* The counters of a device's port before the start. */
struct rdma_retransmits {
	uint64_t base;
	bool known;
};

/* Purpose: records the counters' present values as the base. Thread: setup. */
void rdma_retransmits_start(const struct rdma_dev *dev, struct rdma_retransmits *start_out);
/* Purpose: sets the retransmits of stat to what was counted since start; unknown where one of the
 * counters cannot be read. Thread: any, outside the bursts. */
void rdma_retransmits_stat(const struct rdma_dev *dev, const struct rdma_retransmits *start,
			   struct spw_port_stat *stat);

#endif
