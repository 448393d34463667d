/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Private to lib/port: which frames of raw Ethernet are ours, and how they spread over work queues. Plain verbs.
 */
#ifndef SPW_PORT_RDMA_FLOW_H
#define SPW_PORT_RDMA_FLOW_H

#include "port/rdma/rdma_dev.h"

/* For port_spec_check_keys. */
#define RDMA_FLOW_KEYS  "flow", "mac", "vlan", "ipv4", "ipv6", "udp", "tcp"
#define RDMA_FLOW_USAGE "flow=all or mac=, vlan=, ipv4=, ipv6=, udp=, tcp= (ports may come more than once)"

#define RDMA_FLOW_PORT_MAX 16u
#define RDMA_FLOW_RULE_MAX (2u * RDMA_FLOW_PORT_MAX)

enum rdma_l3 { RDMA_L3_IPV4, RDMA_L3_IPV6, RDMA_L3_ANY };
enum rdma_l4 { RDMA_L4_UDP, RDMA_L4_TCP, RDMA_L4_ANY };

/* One rule of the device: exactly one kind of packet, because a device hashes one kind with one QP. */
struct rdma_rule {
	enum rdma_l3 l3;
	enum rdma_l4 l4;           /* ANY where l3 is ANY */
	uint16_t port;             /* destination; 0: any */
};

struct rdma_flow_conf {
	bool has_mac, has_vlan, has_ipv4, has_ipv6;
	uint8_t mac[6];
	uint16_t vlan;
	uint8_t ipv4[4], ipv6[16]; /* in the order of the wire */
	struct rdma_rule rule[RDMA_FLOW_RULE_MAX];
	uint32_t rule_cnt;
};

/* Purpose: the rules that mac=, vlan=, ipv4=, ipv6=, udp=, tcp= (the last two more than once) and flow=all ask for. What is
 *          named must all hold; several ports are alternatives. Nothing named: all frames.
 * Errors:  -EINVAL with the key. Thread: any. */
int rdma_flow_parse(const struct spw_port_spec *spec, struct rdma_flow_conf *conf_out);

/* One RSS QP per kind of packet that a rule names; the last kind, without IP, goes to queue 0. */
#define RDMA_KIND_CNT 7u

/* All zero: down. A port's queues that are mended take it down and up, one at a time (rdma_dev.lock). */
struct rdma_steer {
	struct ibv_rwq_ind_table *table, *table_one;
	struct ibv_qp *qp[RDMA_KIND_CNT];
	struct ibv_flow *flow[RDMA_FLOW_RULE_MAX];
};

/* Purpose: RSS over wq[0 .. cnt-1], then the rules, in the order of their words. Undone whole when a part fails; again: nothing.
 * Shape:   steer is zeroed, or as rdma_steer_down left it, or up.
 * Errors: -EPERM CAP_NET_RAW is missing; what the device says of a rule that it refuses, with the rule. Thread: setup, or one
 *         owner at a time. */
int rdma_steer_up(struct rdma_dev *dev, const struct rdma_flow_conf *conf, struct ibv_wq *const *wq, uint32_t cnt,
		  struct rdma_steer *steer);
/* A zeroed struct is fine; again: nothing. */
void rdma_steer_down(struct rdma_steer *steer);

#endif
