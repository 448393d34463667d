/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What a port of an RDMA device with raw Ethernet (mode=eth) is without its queues: shared by mlx5/
 * and verbs/. The driver owns the device and the queues; the control thread, flow rules, the
 * litmus's loop and the device's counters are here. Private to lib/port.
 */
#ifndef SPW_PORT_ETH_PORT_H
#define SPW_PORT_ETH_PORT_H

#include "port/port.h"
#include "rdma/spw_rdma_ctl.h"
#include "rdma/spw_rdma_flow.h"
#include "rdma/spw_rdma_loop.h"
#include "rdma/spw_rdma_netdev.h"

#define PORT_ETH_MTU_MAX 9978u

/* A row of a driver's own keys. */
#define PORT_ETH_KEY_MTU                                                                       \
	{                                                                                      \
		"mtu", "BYTES",                                                                \
			"The longest IP packet that slots must hold. A longer frame is "       \
			"counted too_long, and a start with less than the interface's MTU "    \
			"warns. A source sends no longer packet.",                             \
			"the MTU of the port's network interface, 1500 where it has none", 68, \
			PORT_ETH_MTU_MAX                                                       \
	}

struct port_eth;

/* What start and stop ask of the driver, for each queue. Thread: setup. */
struct port_eth_ops {
	/* It can take frames. After a failure queue_stop undoes what was started. */
	int (*queue_start)(struct port_eth *pe, uint16_t queue);
	/* Nothing is steered to it any more. What is sent completes, its slots return. */
	int (*queue_stop)(struct port_eth *pe, uint16_t queue);
	/* What the litmus counted belongs to no run. */
	void (*stat_reset)(struct port_eth *pe, uint16_t queue);
	/* Frames of the rule with this flow tag; NULL: completions carry no tags. Thread: any. */
	uint64_t (*tag_frames)(struct port_eth *pe, uint32_t tag);
};

/* Stands first in the driver's own struct. */
struct port_eth {
	struct spw_port base;
	const struct port_eth_ops *ops; /* the driver's, set before port_eth_open */
	struct rdma_dev *dev;           /* the driver's, from port_eth_open on */
	struct rdma_flow_conf flow;     /* filled in by the driver before port_eth_open */
	struct rdma_steer steer;
	struct rdma_join join; /* of flow's groups, from open to close */
	struct rdma_loop loop; /* the litmus's */
	struct rdma_ctl *ctl;
	struct ibv_wq *wq[SPW_PORT_QUEUE_MAX]; /* by queue, for the indirection table */
	struct rdma_phy phy;
	uint64_t drops_base; /* the device's out_of_buffer counter at start */
	bool drops_known;    /* it can be read */
	bool started;        /* the queues take frames, and must be stopped; also after a failure */
};

/* Purpose: checks link and rules of an open device, joins multicast groups, opens its control
 *          thread, and fills in what such a port can do.
 * Shape:   mtu: as rdma_eth_mtu asks.
 * Owner:   the caller, until port_eth_close; dev is borrowed until then.
 * Thread:  setup
 * Errors:  those of rdma_dev_check_link, rdma_eth_check_use, rdma_join_groups and rdma_ctl_open. */
int port_eth_open(struct rdma_dev *dev, uint64_t mtu, struct port_eth *pe);
/* Zeroed is fine. Thread: setup. */
void port_eth_close(struct port_eth *pe);

/* Purpose: spw_port_driver.region_attach and .pair_clock. Thread: as there. */
int port_eth_region_attach(struct spw_port *port, const struct spw_region *region);
int port_eth_pair_clock(struct spw_port *port, uint64_t *nic_ticks_out, uint64_t *tsc_out,
			uint64_t *uncertainty_ns_out);

/* Purpose: spw_port_driver.loop, .loop_end, .start and .stop. Thread: setup. */
int port_eth_loop(struct spw_port *port, uint16_t queue, uint8_t *head_out);
void port_eth_loop_end(struct spw_port *port);
int port_eth_start(struct spw_port *port);
int port_eth_stop(struct spw_port *port);

/* Purpose: creates the rules of all queues; again in a recovery, after rdma_steer_down.
 * Thread:  setup; owner during recovery, who holds dev->lock. */
int port_eth_steer(struct port_eth *pe);

/* Purpose: takes a WQ to a state: after RESET the NIC touches neither ring nor slots; a send queue
 *          from RESET to ready to send, or to RESET.
 * Thread:  setup, or owner in events
 * Errors:  the device's, with a text. */
int port_eth_wq_state(struct ibv_wq *wq, enum ibv_wq_state state);
int port_eth_sq_ready(const struct rdma_dev *dev, struct ibv_qp *qp);
int port_eth_sq_reset(struct ibv_qp *qp);

_Static_assert(RDMA_FLOW_RULE_MAX <= SPW_PORT_RULE_MAX, "spw_port_rules has room for all");

/* Purpose: spw_port_driver.rule and .rules. Thread: any. */
int port_eth_rule(struct spw_port *port, const char *text, bool add);
uint32_t port_eth_rules(struct spw_port *port, struct spw_port_rule *rule_out);

/* Purpose: adds what the device counts to the sums of the queues. by_cqe: frames without a WQE that
 *          CQEs reported; the device's own counter is preferred, since CQEs report them only with
 *          the next frame.
 * Thread:  any */
void port_eth_stat(struct port_eth *pe, uint64_t by_cqe, struct spw_port_stat *stat);

#endif
