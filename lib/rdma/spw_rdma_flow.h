/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Which frames of raw Ethernet a port receives, and how they spread over its work queues. Plain
 * verbs; used by port/mlx5/eth and port/verbs/eth.
 *
 *   frame -> flow rule (one kind of packet) -> RSS QP of that kind -> indirection table -> WQ
 *
 * A frame that no rule matches stays with the kernel's interface.
 */
#ifndef SPW_RDMA_FLOW_H
#define SPW_RDMA_FLOW_H

#include "rdma/spw_rdma.h"

/* The keys, for spw_port_spec_check_keys. */
extern const struct spw_port_keys rdma_flow_keys;

/* Ports in udp= and tcp= together; each is up to two rules, IPv4 and IPv6, or one of each group. */
#define RDMA_FLOW_PORT_MAX  16u
#define RDMA_FLOW_RULE_MAX  (2u * RDMA_FLOW_PORT_MAX)
#define RDMA_FLOW_GROUP_MAX 16u /* a socket of Linux joins 20, unless a sysctl says otherwise */

/* What a rule matches of IP and of what IP carries; ANY: whatever it is, or nothing. */
enum rdma_l3 { RDMA_L3_IPV4, RDMA_L3_IPV6, RDMA_L3_ANY };
enum rdma_l4 { RDMA_L4_UDP, RDMA_L4_TCP, RDMA_L4_ANY };

/* An IPv4 multicast group; all zero: none. */
struct rdma_group {
	uint32_t addr_be;
	uint32_t source_be; /* of its only sender; 0: any */
};

/* One rule of the device. It matches exactly one kind of packet, because a QP hashes one kind. */
struct rdma_rule {
	enum rdma_l3 l3;
	enum rdma_l4 l4; /* ANY where l3 is ANY */
	uint16_t port;   /* destination; 0: any */
	struct rdma_group group;
};

/* The keys, parsed: conditions that all hold, and the rules as alternatives. */
struct rdma_flow_conf {
	bool has_mac, has_vlan, has_ipv4, has_ipv6;
	uint8_t mac[6];
	uint16_t vlan;
	uint8_t ipv4[4], ipv6[16]; /* in network byte order */
	struct rdma_group group[RDMA_FLOW_GROUP_MAX];
	uint32_t group_cnt;
	struct rdma_rule rule[RDMA_FLOW_RULE_MAX];
	uint32_t rule_cnt;
	bool by_default; /* all frames because there was no key */
};

/* Purpose: parses mac=, vlan=, ipv4=, ipv6=, group=, udp=, tcp= (the last three may be repeated)
 * and flow=all. All keys that are given must match; several groups or ports are alternatives.
 * Without keys: all frames. Thread: any. Errors: -EINVAL with the key. */
int rdma_flow_parse(const struct spw_port_spec *spec, struct rdma_flow_conf *conf_out);

/* One RSS QP per kind of packet that a rule names; the last kind, without IP, goes to queue 0. */
#define RDMA_KIND_CNT 7u

/* The objects that steer frames; all zero: none. A queue that recovers takes them down and up
 * again, under rdma_dev.lock. */
struct rdma_steer {
	struct ibv_rwq_ind_table *table, *table_one;
	struct ibv_qp *qp[RDMA_KIND_CNT];
	struct ibv_flow *flow[RDMA_FLOW_RULE_MAX];
};

/* Purpose: puts into words why an object of raw Ethernet was not created; EPERM has a remedy.
 * Shape: errno is that of the creation. what: "a send queue". Returns: -errno, with a text.
 * Thread: any. */
int rdma_raw_denied(const char *what);

/* Purpose: creates RSS over wq[0 .. cnt-1] and then the rules, in the order of conf. All of it, or
 * nothing if a part fails. Idempotent.
 * Shape: steer is zeroed, or as rdma_steer_down left it, or up.
 * Owner: the objects are steer's, until rdma_steer_down.
 * Thread: setup, or one owner at a time (rdma_dev.lock).
 * Errors: -EPERM: CAP_NET_RAW is missing; errno of the device with the rule that it refused. */
int rdma_steer_up(struct rdma_dev *dev, const struct rdma_flow_conf *conf, struct ibv_wq *const *wq,
		  uint32_t cnt, struct rdma_steer *steer);
/* Purpose: destroys the rules and RSS. Idempotent; a zeroed struct is fine.
 * Thread: as rdma_steer_up. */
void rdma_steer_down(struct rdma_steer *steer);

#endif
