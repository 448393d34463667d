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

/* Rules that stand differ in their tags mod this, and none is 0 mod it: who counts frames needs as
 * many places. */
#define RDMA_FLOW_TAGS 64u

/* A place for a rule. Another rule in it gets another tag, so their frames differ in the ring. */
struct rdma_rule_place {
	struct rdma_rule rule;
	uint32_t tag; /* flow tag, 24 bits; 0: removed while frames came, or never used */
};

/* The keys, parsed: conditions that all hold, and the rules as alternatives. */
struct rdma_flow_conf {
	bool has_mac, has_vlan, has_ipv4, has_ipv6;
	uint8_t mac[6];
	uint16_t vlan;
	uint8_t ipv4[4], ipv6[16]; /* in network byte order */
	struct rdma_group group[RDMA_FLOW_GROUP_MAX];
	uint32_t group_cnt;
	struct rdma_rule_place rule[RDMA_FLOW_RULE_MAX];
	uint32_t rule_cnt; /* places ever used */
	uint32_t tag_last; /* flow tag that was given last */
	bool by_default;   /* all frames because there was no key */
	bool tags;         /* the driver's: it reads flow tags, so the device reports them */
};

/* Purpose: parses mac=, vlan=, ipv4=, ipv6=, group=, udp=, tcp= (the last three may be repeated)
 * and flow=all. All keys that are given must match; several groups or ports are alternatives.
 * Without keys: all frames. Thread: any. Errors: -EINVAL with the key. */
int rdma_flow_parse(const struct spw_port_spec *spec, struct rdma_flow_conf *conf_out);

/* Purpose: the rules that one more udp=PORT or tcp=PORT means beside the other keys of conf.
 * Shape:   text: "udp=9". rules_out: no other fields are filled in.
 * Thread:  any
 * Errors:  -EINVAL with the text; -ENOTSUP another key: it is part of every rule of the port. */
int rdma_flow_parse_rule(const struct rdma_flow_conf *conf, const char *text,
			 struct rdma_flow_conf *rules_out);
/* Purpose: the next flow tag, for a rule beside those that stand. Thread: as the conf's owner. */
uint32_t rdma_flow_tag_next(struct rdma_flow_conf *conf);
/* Purpose: a rule in words. Thread: any. */
void rdma_flow_rule_text(const struct rdma_flow_conf *conf, const struct rdma_rule *rule,
			 char *text, size_t bytes);

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
/* Purpose: adds rules of rdma_flow_parse_rule while frames come, or removes them: all or none.
 *          While the rules are down, the next rdma_steer_up does it.
 * Thread:  any, under rdma_dev.lock
 * Errors:  -EEXIST, -ENOSPC, -ENOENT with a text; those of rdma_steer_up. */
int rdma_steer_add(struct rdma_dev *dev, struct rdma_flow_conf *conf, struct rdma_steer *steer,
		   const struct rdma_flow_conf *rules);
int rdma_steer_remove(struct rdma_flow_conf *conf, struct rdma_steer *steer,
		      const struct rdma_flow_conf *rules);
/* Purpose: destroys the rules and RSS. Idempotent; a zeroed struct is fine.
 * Thread: as rdma_steer_up. */
void rdma_steer_down(struct rdma_steer *steer);

#endif
