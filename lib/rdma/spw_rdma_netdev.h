/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What only the network interface of an RDMA port knows: frames that the physical port discarded
 * before any queue, and the MTU. Read by ioctl and sysfs, as ethtool and ip do.
 */
#ifndef SPW_RDMA_NETDEV_H
#define SPW_RDMA_NETDEV_H

#include <net/if.h>

#include "rdma/spw_rdma.h"

/* Purpose: one ETHTOOL_* command of a network interface; cmd as SIOCETHTOOL takes it.
 * Returns: 0 or -1. */
typedef int rdma_ethtool_fn(void *arg, const char *netdev, void *cmd);

/* Purpose: reads the statistic `name` as "ethtool -S" prints it, through call(arg, ...).
 * Returns: false if there is none, or it cannot be read.
 * Thread: any, outside the bursts.
 * Source: linux/ethtool.h. */
bool rdma_ethtool_stat(rdma_ethtool_fn *call, void *arg, const char *netdev, const char *name,
		       uint64_t *value_out);

/* Frames that a physical port discarded since start, because of congestion in the NIC or on its
 * bus. All functions of a port report the same number, whichever of them the frames were for;
 * therefore it is shown, and is not part of the ledger. */
struct rdma_discards {
	char netdev[IF_NAMESIZE];
	uint64_t base;
	bool known;
};

/* Purpose: records the counter's present value as the base. Thread: setup. */
void rdma_discards_start(const struct rdma_dev *dev, struct rdma_discards *discards_out);
/* Purpose: sets stat->port_discards to the discards since start; unknown where the interface has no
 * such counter. Thread: any, outside the bursts. */
void rdma_discards_stat(const struct rdma_discards *discards, struct spw_port_stat *stat);

/* Purpose: sets stat->missed_frames to the frames that arrived and found no WQE.
 * Shape: counted: the device's counter since start, valid if known; by_cqe: what the queues' CQEs
 * report, 0 if they report none.
 * Thread: any. */
void rdma_missed_stat(bool known, uint64_t counted, uint64_t by_cqe, struct spw_port_stat *stat);

/* Returns: bytes of the longest IP packet that slots must hold: asked; if that is 0 the interface's
 * MTU; if that is unknown 1500. Warns if the interface accepts longer packets than asked.
 * Thread: setup. */
uint32_t rdma_eth_mtu(const struct rdma_dev *dev, uint64_t asked);

#endif
