/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Flow rules and the RSS QPs behind them (spw_rdma_flow.h): creates the objects of the rules that
 * flow_keys.c made of a port's keys.
 *
 *   rule (conf)      l3, l4, port ──► kind: 6 = {IPv4, IPv6} x {UDP, TCP, other}, and "no IP"
 *   RSS QP, by kind  hashes addresses (and ports) ──► table of WQs, round robin
 *   verbs flow       specs Ethernet, IP, L4 as masks ──► RSS QP of its kind
 *
 *   priority         0  L3 and L4 named        1  one of them any        2  both any
 *
 * A more specific rule has a higher priority, so that "IPv4" does not take the packets that "UDP
 * over IPv4" spreads by ports. What no rule matches stays with the kernel.
 *
 * eth_port.c creates the objects at start and after a work queue was re-created, and destroys them
 * at stop; a work queue that is replaced takes them down first. dev->lock orders the owners of
 * queues. The order of creation matters: tables, then the QP of a kind, then its rules, so that no
 * frame arrives at a queue that is not there; destruction goes backwards.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/spw_err.h"
#include "rdma/spw_rdma_flow.h"

#define VLAN_ID_MASK 0x0fffu
#define KIND_NO_IP   6u
#define TABLE_FAIR                                                                           \
	8u /* entries per queue where their number is no power of 2: the shares differ by an \
	      eighth at most */

/* The key of Microsoft's "Verifying the RSS Hash Calculation", so that anybody can check a hash;
 * docs/070 names it. */
static uint8_t rss_key[40] = {
	0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3,
	0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3,
	0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
};

/* ---- RSS ---- */

/* Packets of different kinds need different QPs, as a QP hashes one set of fields. */
static uint32_t rdma_flow_kind_of(const struct rdma_rule *rule)
{
	return rule->l3 == RDMA_L3_ANY ? KIND_NO_IP : (uint32_t)rule->l3 * 3 + (uint32_t)rule->l4;
}

static uint64_t rdma_flow_hash_fields(uint32_t kind)
{
	static const uint64_t ip[] = {IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4,
				      IBV_RX_HASH_SRC_IPV6 | IBV_RX_HASH_DST_IPV6};
	static const uint64_t ports[] = {IBV_RX_HASH_SRC_PORT_UDP | IBV_RX_HASH_DST_PORT_UDP,
					 IBV_RX_HASH_SRC_PORT_TCP | IBV_RX_HASH_DST_PORT_TCP, 0};

	return kind == KIND_NO_IP ? 0 : ip[kind / 3] | ports[kind % 3];
}

/* A power of 2 uses each queue equally. Any other number gets at least eight entries per queue, so
 * that shares differ little. */
static int rdma_flow_table_make(struct rdma_dev *dev, struct ibv_wq *const *wq, uint32_t cnt,
				struct ibv_rwq_ind_table **table_out)
{
	uint32_t max = SPW_MAX(dev->attr.rss_caps.max_rwq_indirection_table_size, 1u);
	uint32_t size = SPW_IS_POW2(cnt) ? cnt : spw_pow2_ceil32(cnt * TABLE_FAIR);
	struct ibv_wq *entry[SPW_PORT_QUEUE_MAX * TABLE_FAIR * 2];
	struct ibv_rwq_ind_table_init_attr attr = {.ind_tbl = entry};

	while (size > max && size / 2 >= cnt)
		size /= 2;
	for (uint32_t i = 0; i < size; i++)
		entry[i] = wq[i % cnt];
	attr.log_ind_tbl_size = spw_log2_floor64(size);
	*table_out = ibv_create_rwq_ind_table(dev->ctx, &attr);
	return *table_out
		       ? 0
		       : spw_err(errno,
				 "an RSS table of %u entries over %u queues: %s; use fewer queues",
				 size, cnt, strerror(errno));
}

int rdma_raw_denied(const char *what)
{
	if (errno == EPERM)
		return spw_err(EPERM, "raw Ethernet needs CAP_NET_RAW: run as root, or setcap "
				      "cap_net_raw+ep on the program");
	return spw_err(errno, "%s: %s", what, strerror(errno));
}

/* Created with the first rule of its kind. Frames without IP cannot be spread: they go to queue 0.
 */
static int rdma_flow_qp_make(struct rdma_dev *dev, struct rdma_steer *steer, uint32_t kind)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RAW_PACKET,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE |
			     IBV_QP_INIT_ATTR_RX_HASH,
		.pd = dev->pd,
		.rwq_ind_tbl = kind == KIND_NO_IP ? steer->table_one : steer->table,
		.rx_hash_conf = {.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
				 .rx_hash_key_len = sizeof(rss_key),
				 .rx_hash_key = rss_key,
				 .rx_hash_fields_mask = rdma_flow_hash_fields(kind)},
	};

	if (steer->qp[kind])
		return 0;
	steer->qp[kind] = ibv_create_qp_ex(dev->ctx, &attr);
	return steer->qp[kind] ? 0 : rdma_raw_denied("an RSS queue pair");
}

/* ---- rules ---- */

struct flow_request {
	struct ibv_flow_attr attr; /* its specs follow it without a gap */
	uint8_t spec[sizeof(struct ibv_flow_spec_eth) + sizeof(struct ibv_flow_spec_ipv6) +
		     sizeof(struct ibv_flow_spec_tcp_udp) +
		     sizeof(struct ibv_flow_spec_action_tag)];
};
_Static_assert(offsetof(struct flow_request, spec) == sizeof(struct ibv_flow_attr),
	       "verbs reads the specs behind the attr");

/* verbs reads specs from the memory directly behind the attr, without a gap. */
static void rdma_flow_spec_add(struct flow_request *req, const void *spec, uint16_t bytes)
{
	memcpy((uint8_t *)req + req->attr.size, spec, bytes);
	req->attr.size = (uint16_t)(req->attr.size + bytes);
	req->attr.num_of_specs++;
}

/* Always the first spec. Without mac=, group= and vlan= its masks are zeros, which match every
 * frame. A group's MAC address has its last 23 bits (RFC 1112, 6.4). */
static void rdma_flow_add_eth(struct flow_request *req, const struct rdma_flow_conf *conf,
			      const struct rdma_rule *rule)
{
	struct ibv_flow_spec_eth eth = {.type = IBV_FLOW_SPEC_ETH, .size = sizeof(eth)};
	const uint32_t group = ntohl(rule->group.addr_be);
	const uint8_t group_mac[] = {1,           0, 0x5e, group >> 16 & 0x7f, group >> 8 & 0xff,
				     group & 0xff};

	if (conf->has_mac || group) {
		memcpy(eth.val.dst_mac, group ? group_mac : conf->mac, 6);
		memset(eth.mask.dst_mac, 0xff, 6);
	}
	if (conf->has_vlan) {
		eth.val.vlan_tag = htons(conf->vlan);
		eth.mask.vlan_tag = htons(VLAN_ID_MASK);
	}
	rdma_flow_spec_add(req, &eth, sizeof(eth));
}

static void rdma_flow_add_ipv4(struct flow_request *req, const struct rdma_flow_conf *conf,
			       const struct rdma_group *group)
{
	struct ibv_flow_spec_ipv4 ip = {.type = IBV_FLOW_SPEC_IPV4, .size = sizeof(ip)};

	if (conf->has_ipv4) {
		memcpy(&ip.val.dst_ip, conf->ipv4, 4);
		memset(&ip.mask.dst_ip, 0xff, 4);
	}
	if (group->addr_be) {
		ip.val.dst_ip = group->addr_be;
		ip.mask.dst_ip = UINT32_MAX;
	}
	if (group->source_be) {
		ip.val.src_ip = group->source_be;
		ip.mask.src_ip = UINT32_MAX;
	}
	rdma_flow_spec_add(req, &ip, sizeof(ip));
}

static void rdma_flow_add_ipv6(struct flow_request *req, const struct rdma_flow_conf *conf)
{
	struct ibv_flow_spec_ipv6 ip = {.type = IBV_FLOW_SPEC_IPV6, .size = sizeof(ip)};

	if (conf->has_ipv6) {
		memcpy(ip.val.dst_ip, conf->ipv6, 16);
		memset(ip.mask.dst_ip, 0xff, 16);
	}
	rdma_flow_spec_add(req, &ip, sizeof(ip));
}

static void rdma_flow_add_l4(struct flow_request *req, const struct rdma_rule *rule)
{
	struct ibv_flow_spec_tcp_udp l4 = {.type = rule->l4 == RDMA_L4_UDP ? IBV_FLOW_SPEC_UDP
									   : IBV_FLOW_SPEC_TCP,
					   .size = sizeof(l4)};

	if (rule->port) {
		l4.val.dst_port = htons(rule->port);
		l4.mask.dst_port = 0xffff;
	}
	rdma_flow_spec_add(req, &l4, sizeof(l4));
}

/* The device writes it into the CQE of each frame of the rule. */
static void rdma_flow_add_tag(struct flow_request *req, uint32_t tag)
{
	const struct ibv_flow_spec_action_tag spec = {
		.type = IBV_FLOW_SPEC_ACTION_TAG, .size = sizeof(spec), .tag_id = tag};

	rdma_flow_spec_add(req, &spec, sizeof(spec));
}

/* For lists of rules, and for a device that refuses one. */
void rdma_flow_rule_text(const struct rdma_flow_conf *conf, const struct rdma_rule *rule,
			 char *text, size_t bytes)
{
	static const char *const l3[] = {"IPv4", "IPv6", "all frames"}, *const l4[] = {", UDP",
										       ", TCP", ""};
	char port[24] = "";

	if (rule->port)
		snprintf(port, sizeof(port), " port %u", rule->port);
	snprintf(text, bytes, "%s%s%s%s%s%s%s", l3[rule->l3], l4[rule->l4], port,
		 rule->group.addr_be ? ", to a multicast group" : "",
		 conf->has_mac ? ", to a MAC address" : "", conf->has_vlan ? ", in a VLAN" : "",
		 conf->has_ipv4 || conf->has_ipv6 ? ", to an IP address" : "");
}

/* Errors: with the rule in words, so that the user knows which keys to change. */
static int rdma_flow_make(struct rdma_dev *dev, const struct rdma_flow_conf *conf, uint32_t place,
			  struct rdma_steer *steer)
{
	const struct rdma_rule *rule = &conf->rule[place].rule;
	const uint32_t kind = rdma_flow_kind_of(rule);
	struct flow_request req = {
		.attr = {.type = IBV_FLOW_ATTR_NORMAL,
			 .size = sizeof(req.attr),
			 .port = dev->port_num,
			 .priority =
				 (uint16_t)((rule->l3 == RDMA_L3_ANY) + (rule->l4 == RDMA_L4_ANY))},
	};
	char text[128];
	int rc = rdma_flow_qp_make(dev, steer, kind);

	if (rc)
		return rc;
	rdma_flow_add_eth(&req, conf, rule);
	if (rule->l3 == RDMA_L3_IPV4)
		rdma_flow_add_ipv4(&req, conf, &rule->group);
	if (rule->l3 == RDMA_L3_IPV6)
		rdma_flow_add_ipv6(&req, conf);
	if (rule->l4 != RDMA_L4_ANY)
		rdma_flow_add_l4(&req, rule);
	if (conf->tags)
		rdma_flow_add_tag(&req, conf->rule[place].tag);
	steer->flow[place] = ibv_create_flow(steer->qp[kind], &req.attr);
	if (steer->flow[place])
		return 0;
	rdma_flow_rule_text(conf, rule, text, sizeof(text));
	if (errno == EPERM)
		return spw_err(EPERM, "flow rules need CAP_NET_RAW: run as root, or setcap "
				      "cap_net_raw+ep on the program");
	return spw_err(errno, "%s refuses the flow rule (%s): %s; name other frames, or fewer keys",
		       dev->name, text, strerror(errno));
}

/* ---- while frames come ----
 *
 * Rules are made and destroyed one by one; queues, indirection tables and RSS QPs stay, and so do
 * the rules that are not named. Places are never moved, so a rule's index in conf and steer is the
 * same for as long as it stands. conf is what shall stand, steer what does: between a failed queue
 * and its recovery nothing does, and rdma_steer_up makes what conf then has. */

/* Conditions that all rules of a port share need no comparison. */
static bool rdma_rule_equals(const struct rdma_rule *a, const struct rdma_rule *b)
{
	return a->l3 == b->l3 && a->l4 == b->l4 && a->port == b->port &&
	       a->group.addr_be == b->group.addr_be && a->group.source_be == b->group.source_be;
}

/* Returns: the place of a rule; RDMA_FLOW_RULE_MAX: it does not stand. */
static uint32_t rdma_rule_find(const struct rdma_flow_conf *conf, const struct rdma_rule *rule)
{
	for (uint32_t i = 0; i < conf->rule_cnt; i++)
		if (conf->rule[i].tag && rdma_rule_equals(&conf->rule[i].rule, rule))
			return i;
	return RDMA_FLOW_RULE_MAX;
}

/* Frames of the rule go on to the next that matches, or to the kernel. */
static void rdma_rule_drop(struct rdma_flow_conf *conf, struct rdma_steer *steer, uint32_t place)
{
	conf->rule[place].tag = 0;
	if (steer->flow[place])
		ibv_destroy_flow(steer->flow[place]);
	steer->flow[place] = NULL;
}

/* In the first place that is free. */
static int rdma_rule_put(struct rdma_dev *dev, struct rdma_flow_conf *conf,
			 struct rdma_steer *steer, const struct rdma_rule *rule)
{
	uint32_t at = 0;
	int rc;

	if (rdma_rule_find(conf, rule) < RDMA_FLOW_RULE_MAX)
		return spw_err(EEXIST, "the port has this rule already");
	while (at < conf->rule_cnt && conf->rule[at].tag)
		at++;
	if (at == RDMA_FLOW_RULE_MAX)
		return spw_err(ENOSPC, "the port has %u rules, no more: remove one first", at);
	conf->rule[at] = (struct rdma_rule_place){.rule = *rule, .tag = rdma_flow_tag_next(conf)};
	conf->rule_cnt = SPW_MAX(conf->rule_cnt, at + 1);
	rc = steer->table ? rdma_flow_make(dev, conf, at, steer) : 0;
	if (rc)
		conf->rule[at].tag = 0;
	return rc;
}

int rdma_steer_add(struct rdma_dev *dev, struct rdma_flow_conf *conf, struct rdma_steer *steer,
		   const struct rdma_flow_conf *rules)
{
	int rc = 0;

	for (uint32_t i = 0; i < rules->rule_cnt && !rc; i++) {
		rc = rdma_rule_put(dev, conf, steer, &rules->rule[i].rule);
		while (rc && i--)
			rdma_rule_drop(conf, steer, rdma_rule_find(conf, &rules->rule[i].rule));
	}
	return rc;
}

int rdma_steer_remove(struct rdma_flow_conf *conf, struct rdma_steer *steer,
		      const struct rdma_flow_conf *rules)
{
	for (uint32_t i = 0; i < rules->rule_cnt; i++)
		if (rdma_rule_find(conf, &rules->rule[i].rule) == RDMA_FLOW_RULE_MAX)
			return spw_err(ENOENT, "the port has no such rule");
	for (uint32_t i = 0; i < rules->rule_cnt; i++)
		rdma_rule_drop(conf, steer, rdma_rule_find(conf, &rules->rule[i].rule));
	return 0;
}

/* ---- all of it ---- */

/* Idempotent: a queue that recovers calls it although the rules may still stand. */
int rdma_steer_up(struct rdma_dev *dev, const struct rdma_flow_conf *conf, struct ibv_wq *const *wq,
		  uint32_t cnt, struct rdma_steer *steer)
{
	int rc;

	if (steer->table)
		return 0;
	rc = rdma_flow_table_make(dev, wq, cnt, &steer->table);
	rc = rc ? rc : rdma_flow_table_make(dev, wq, 1, &steer->table_one);
	for (uint32_t i = 0; i < conf->rule_cnt && !rc; i++)
		if (conf->rule[i].tag)
			rc = rdma_flow_make(dev, conf, i, steer);
	if (rc)
		rdma_steer_down(steer);
	return rc;
}

void rdma_steer_down(struct rdma_steer *steer)
{
	for (uint32_t i = 0; i < RDMA_FLOW_RULE_MAX; i++)
		if (steer->flow[i])
			ibv_destroy_flow(steer->flow[i]);
	for (uint32_t i = 0; i < RDMA_KIND_CNT; i++)
		if (steer->qp[i])
			ibv_destroy_qp(steer->qp[i]);
	if (steer->table)
		ibv_destroy_rwq_ind_table(steer->table);
	if (steer->table_one)
		ibv_destroy_rwq_ind_table(steer->table_one);
	memset(steer, 0, sizeof(*steer));
}
