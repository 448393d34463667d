/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Reads and adds up the counters of the port that show repeated RC traffic (spw_rdma_retransmit.h).
 * lib/port/rc_port.c calls it for mode=rc of both drivers: at start for the base, and for each
 * statistic, never from a burst, because each counter is a file of sysfs.
 *
 * The sum is known only if all three counters can be read: a part of it would look like a quieter
 * cable than there is.
 */
#include "rdma/spw_rdma_retransmit.h"

/* Counters are those of the whole port: other programs' QPs on the same device count, too. */
static bool rdma_retransmits_sum_read(const struct rdma_dev *dev, uint64_t *sum_out)
{
	static const char *const name[] = {"hw_counters/packet_seq_err",
					   "hw_counters/rnr_nak_retry_err",
					   "hw_counters/local_ack_timeout_err"};
	uint64_t count;

	*sum_out = 0;
	for (uint32_t i = 0; i < SPW_ARRAY_CNT(name); i++) {
		if (!rdma_dev_counter(dev, name[i], &count))
			return false;
		*sum_out += count;
	}
	return true;
}

void rdma_retransmits_start(const struct rdma_dev *dev, struct rdma_retransmits *start)
{
	start->known = rdma_retransmits_sum_read(dev, &start->base);
}

void rdma_retransmits_stat(const struct rdma_dev *dev, const struct rdma_retransmits *start,
			   struct spw_port_stat *stat)
{
	uint64_t now;

	stat->retransmits_known = start->known && rdma_retransmits_sum_read(dev, &now);
	stat->retransmits = stat->retransmits_known ? now - start->base : 0;
}
