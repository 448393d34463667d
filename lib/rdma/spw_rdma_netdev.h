/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What only the network interface of an RDMA port knows: what its physical port counts (packets on
 * the cable, frames discarded before any queue), and the MTU. Read by ioctl and sysfs, as ethtool
 * and ip do. Multicast groups are joined on it.
 */
#ifndef SPW_RDMA_NETDEV_H
#define SPW_RDMA_NETDEV_H

#include <net/if.h>

#include "plat/spw_ethtool.h"
#include "rdma/spw_rdma.h"
#include "rdma/spw_rdma_flow.h"

/* What the physical port of a device counted before the start (plat/spw_ethtool.h). */
struct rdma_phy {
	char netdev[IF_NAMESIZE]; /* "": none is known */
	struct spw_phy_count base[SPW_PHY_CNT];
};

/* Purpose: records the counters' present values as the base. Thread: setup. */
void rdma_phy_start(const struct rdma_dev *dev, struct rdma_phy *phy_out);
/* Purpose: sets the phy_* and port_discards of stat to what was counted since start; unknown where
 * the interface has no such counters. Thread: any, outside the bursts. */
void rdma_phy_stat(const struct rdma_phy *phy, struct spw_port_stat *stat);

/* Purpose: sets stat->missed_frames to the frames that arrived and found no WQE.
 * Shape: counted: the device's counter since start, valid if known; by_cqe: what the queues' CQEs
 * report, 0 if they report none.
 * Thread: any. */
void rdma_missed_stat(bool known, uint64_t counted, uint64_t by_cqe, struct spw_port_stat *stat);

/* Returns: bytes of the longest IP packet that slots must hold: asked; if that is 0 the interface's
 * MTU; if that is unknown 1500. Warns if the interface accepts longer packets than asked.
 * Thread: setup. */
uint32_t rdma_eth_mtu(const struct rdma_dev *dev, uint64_t asked);
/* Returns: bytes of the longest IP packet that the device sends: slot_mtu (of rdma_eth_mtu), or the
 * interface's MTU if that is less. A longer frame ends the send queue with a length error.
 * Thread: setup. */
uint32_t rdma_eth_mtu_sent(const struct rdma_dev *dev, uint32_t slot_mtu);

/* Purpose: refuses to take every frame of an interface that the kernel uses, unless flow=all says
 * so.
 * Thread: setup.
 * Errors: -EBUSY with what it is used for, and the keys. */
int rdma_eth_check_use(const struct rdma_dev *dev, const struct rdma_flow_conf *flow);

/* Memberships of multicast groups; zeroed: none. */
struct rdma_join {
	bool open;
	int fd; /* a socket that receives nothing: the kernel keeps what it joined until it closes
		 */
};

/* Purpose: makes the kernel a member of flow's groups on the device's interface: it reports them by
 * IGMP, answers queries, and lets their MAC addresses into the NIC.
 * Shape: join is zeroed. Without groups, or on a software ConnectX without an interface (its cable
 * brings every frame), nothing is joined.
 * Owner: the caller, until rdma_join_end, also after an error.
 * Thread: setup.
 * Errors: -ENODEV: no interface; -ENOBUFS: the kernel's limit; others of the kernel with the group.
 */
int rdma_join_groups(const struct rdma_dev *dev, const struct rdma_flow_conf *flow,
		     struct rdma_join *join);
/* Purpose: leaves all groups. Zeroed is fine. Thread: setup. */
void rdma_join_end(struct rdma_join *join);

/* Purpose: the Ethernet address of the device's interface; all 0 if it is unknown.
 * Thread: setup. */
void rdma_eth_mac(const struct rdma_dev *dev, uint8_t mac_out[6]);

#endif
