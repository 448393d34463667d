/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The keys of flow rules, and the rules that they mean (spw_rdma_flow.h). mode=eth of both drivers
 * parses them at open, before it opens the device; flow.c creates the rules, and netdev.c joins the
 * groups. The table of keys has the text of spinwire-ports(7) too.
 *
 * A rule matches one kind of packet, since a QP hashes one kind: IPv4 or IPv6, with UDP, TCP or
 * neither. Addresses and VLAN are conditions of every rule; a port or a group makes rules of its
 * own:
 *
 *   udp=9,udp=11                  {IPv4, IPv6} x {9, 11}
 *   group=A,group=B,udp=9,udp=11  IPv4 x {A, B} x {9, 11}
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "rdma/spw_rdma_flow.h"

static const struct spw_port_key flow_key[] = {
	{"flow", "all",
	 "Every frame that the port lets in; the kernel receives none of them then. It must be "
	 "written out on an interface that the kernel uses: the default route, an address, or such "
	 "a bridge, bond or VLAN on top. A function that shares its port (a VF, an SF, one half of "
	 "a "
	 "port of a DGX Spark) gets frames to its own MAC address and broadcast; multicast only "
	 "while the interface is all-multicast (ip link set dev IFACE allmulticast on), other "
	 "addresses only while it is promiscuous. A physical function alone on its port gets them "
	 "all. (Read off the drivers of Linux and DPDK, not tried on a card.) RoCE to the port's "
	 "own address never comes.",
	 "all, if no other key of this list is given", 0, 0},
	{"mac", "ADDR", "Destination MAC address. All addresses and the VLAN must match.", NULL, 0,
	 0},
	{"vlan", "ID", "VLAN.", NULL, 0, 4094},
	{"ipv4", "ADDR", "Destination address.", NULL, 0, 0},
	{"ipv6", "ADDR", "Destination address.", NULL, 0, 0},
	{"group", "[SOURCE@]ADDR",
	 "UDP to an IPv4 multicast group: to its MAC and IP address, from SOURCE if one is given, "
	 "and to udp= if that is given. While the port is open the kernel is a member on the "
	 "device's interface and answers IGMP, so that switches forward the group. May be "
	 "repeated, up to 16 times; groups times ports: at most 32. Not with mac=, vlan=, ipv4=, "
	 "ipv6= or tcp=.",
	 NULL, 0, 0},
	{"udp", "PORT",
	 "Destination port. May be repeated, with tcp= up to 16 times: one match is enough.", NULL,
	 1, 65535},
	{"tcp", "PORT", "As udp=.", NULL, 1, 65535},
};
const struct spw_port_keys rdma_flow_keys = {"mode=eth", flow_key, SPW_ARRAY_CNT(flow_key)};

static int rdma_flow_parse_mac(const char *text, struct rdma_flow_conf *conf)
{
	uint8_t *m = conf->mac;
	char end;

	conf->has_mac = true;
	if (sscanf(text, "%2hhx:%2hhx:%2hhx:%2hhx:%2hhx:%2hhx%c", &m[0], &m[1], &m[2], &m[3], &m[4],
		   &m[5], &end) == 6)
		return 0;
	return spw_err(
		EINVAL,
		"mac=%s is no address: six bytes in hexadecimal with colons, 02:00:00:00:00:01",
		text);
}

/* Decimal only. The callers' limits leave out what is reserved: port 0, VLAN 4095. */
static int rdma_flow_parse_number(const char *key, const char *text, unsigned long min,
				  unsigned long max, uint16_t *value_out)
{
	char *end;
	unsigned long v = strtoul(text, &end, 10);

	if (end == text || *end || *text == '-' || v < min || v > max)
		return spw_err(EINVAL, "%s=%s is no number in %lu .. %lu", key, text, min, max);
	*value_out = (uint16_t)v;
	return 0;
}

static int rdma_flow_parse_ip(int family, const char *key, const char *text, void *out)
{
	return inet_pton(family, text, out) == 1
		       ? 0
		       : spw_err(EINVAL, "%s=%s is no %s address", key, text,
				 family == AF_INET ? "IPv4" : "IPv6");
}

/* "ADDR" or "SOURCE@ADDR". 224.0.0.0/24 is flooded by every switch (RFC 4541, 2.1.2) and belongs to
 * protocols of the kernel, IGMP's queries among them. */
static int rdma_flow_parse_group(const char *text, struct rdma_flow_conf *conf)
{
	struct rdma_group group = {0};
	const char *at = strchr(text, '@');
	char source[INET6_ADDRSTRLEN]; /* longer than IPv4: what is cut is no address */
	uint32_t addr;

	snprintf(source, sizeof(source), "%.*s", at ? (int)(at - text) : 0, text);
	if (inet_pton(AF_INET, at ? at + 1 : text, &group.addr_be) != 1 ||
	    (at && (inet_pton(AF_INET, source, &group.source_be) != 1 || !group.source_be)))
		return spw_err(EINVAL,
			       "group=%s is no IPv4 address: group=239.1.2.3, or "
			       "group=10.0.0.7@232.1.2.3 to hear one sender",
			       text);
	addr = ntohl(group.addr_be);
	if (!IN_MULTICAST(addr) || addr >> 8 == INADDR_UNSPEC_GROUP >> 8)
		return spw_err(EINVAL,
			       "group=%s is no group that can be joined: they are 224.0.1.0 .. "
			       "239.255.255.255; other addresses are ipv4=",
			       text);
	for (uint32_t i = 0; i < conf->group_cnt; i++)
		if (conf->group[i].addr_be == group.addr_be &&
		    (conf->group[i].source_be == group.source_be || !group.source_be ||
		     !conf->group[i].source_be))
			return spw_err(EINVAL, "group=%s: the port has this group already", text);
	if (conf->group_cnt == RDMA_FLOW_GROUP_MAX)
		return spw_err(EINVAL, "more than %u of group=", RDMA_FLOW_GROUP_MAX);
	conf->group[conf->group_cnt++] = group;
	return 0;
}

/* Tags ascend, so that one comes again only after all others: it names one rule for as long as a
 * ring can hold frames of it. */
uint32_t rdma_flow_tag_next(struct rdma_flow_conf *conf)
{
	bool taken = true;

	while (taken) {
		conf->tag_last = (conf->tag_last + 1) & 0xffffffu;
		taken = conf->tag_last % RDMA_FLOW_TAGS == 0;
		for (uint32_t i = 0; i < conf->rule_cnt && !taken; i++)
			taken = conf->rule[i].tag &&
				(conf->rule[i].tag - conf->tag_last) % RDMA_FLOW_TAGS == 0;
	}
	return conf->tag_last;
}

/* The limit is that of the key list: each port is up to two rules, or one of each group. */
static int rdma_flow_rule_add(struct rdma_flow_conf *conf, const struct rdma_rule *rule)
{
	if (conf->rule_cnt == RDMA_FLOW_RULE_MAX)
		return conf->group_cnt
			       ? spw_err(EINVAL, "more than %u rules: groups times ports",
					 RDMA_FLOW_RULE_MAX)
			       : spw_err(EINVAL,
					 "more than %u ports in udp= and tcp=", RDMA_FLOW_PORT_MAX);
	conf->rule[conf->rule_cnt] =
		(struct rdma_rule_place){.rule = *rule, .tag = rdma_flow_tag_next(conf)};
	conf->rule_cnt++;
	return 0;
}

/* One rule per group, or per IP version: the one whose address is given, or both. */
static int rdma_flow_rules_of_l4(struct rdma_flow_conf *conf, enum rdma_l4 l4, uint16_t port)
{
	bool any = !conf->group_cnt && !conf->has_ipv4 && !conf->has_ipv6;
	struct rdma_rule rule = {.l3 = RDMA_L3_IPV4, .l4 = l4, .port = port};
	int rc = 0;

	for (uint32_t i = 0; i < conf->group_cnt && !rc; i++) {
		rule.group = conf->group[i];
		rc = rdma_flow_rule_add(conf, &rule);
	}
	if (any || conf->has_ipv4)
		rc = rdma_flow_rule_add(conf, &rule);
	rule.l3 = RDMA_L3_IPV6;
	if (!rc && (any || conf->has_ipv6))
		rc = rdma_flow_rule_add(conf, &rule);
	return rc;
}

/* flow=all, and addresses without ports: one rule for each kind of packet, so that each is hashed
 * as well as it can be. Of a group UDP alone: queries about it are sent to its own address, and the
 * kernel must get them to answer. */
static int rdma_flow_rules_without_ports(struct rdma_flow_conf *conf)
{
	static const struct rdma_rule no_ip = {.l3 = RDMA_L3_ANY, .l4 = RDMA_L4_ANY};
	int rc = rdma_flow_rules_of_l4(conf, RDMA_L4_UDP, 0);

	if (conf->group_cnt)
		return rc;
	rc = rc ? rc : rdma_flow_rules_of_l4(conf, RDMA_L4_TCP, 0);
	rc = rc ? rc : rdma_flow_rules_of_l4(conf, RDMA_L4_ANY, 0);
	if (!rc && !conf->has_ipv4 && !conf->has_ipv6)
		rc = rdma_flow_rule_add(conf, &no_ip);
	return rc;
}

static int rdma_flow_parse_address_key(struct rdma_flow_conf *conf, const char *key,
				       const char *value, bool *taken)
{
	*taken = true;
	if (!strcmp(key, "group"))
		return rdma_flow_parse_group(value, conf);
	if (!strcmp(key, "mac"))
		return rdma_flow_parse_mac(value, conf);
	if (!strcmp(key, "vlan")) {
		conf->has_vlan = true;
		return rdma_flow_parse_number(key, value, 0, 4094, &conf->vlan);
	}
	if (!strcmp(key, "ipv4")) {
		conf->has_ipv4 = true;
		return rdma_flow_parse_ip(AF_INET, key, value, conf->ipv4);
	}
	if (!strcmp(key, "ipv6")) {
		conf->has_ipv6 = true;
		return rdma_flow_parse_ip(AF_INET6, key, value, conf->ipv6);
	}
	*taken = false;
	return 0;
}

static int rdma_flow_parse_port_keys(const struct spw_port_spec *spec, struct rdma_flow_conf *conf)
{
	int rc = 0;

	for (uint32_t i = 0; i < spec->arg_cnt && !rc; i++) {
		const char *key = spw_port_spec_key(spec, i);
		enum rdma_l4 l4 = strcmp(key, "udp") ? RDMA_L4_TCP : RDMA_L4_UDP;
		uint16_t port = 0;

		if (strcmp(key, "udp") && strcmp(key, "tcp"))
			continue;
		rc = rdma_flow_parse_number(key, spw_port_spec_value(spec, i), 1, 65535, &port);
		rc = rc ? rc : rdma_flow_rules_of_l4(conf, l4, port);
	}
	return rc;
}

/* What says of the same frames something else. */
static int rdma_flow_check(const struct spw_port_spec *spec, const struct rdma_flow_conf *conf,
			   bool named)
{
	const char *flow = spw_port_spec_find(spec, "flow");

	if (flow && strcmp(flow, "all"))
		return spw_err(EINVAL,
			       "flow=%s is not known: flow=all, or name frames with mac=, vlan=, "
			       "ipv4=, ipv6=, group=, udp=, tcp=",
			       flow);
	if (flow && (named || conf->rule_cnt))
		return spw_err(EINVAL, "flow=all takes every frame; leave it out to name some");
	if (conf->group_cnt && (conf->has_mac || conf->has_vlan || conf->has_ipv4 ||
				conf->has_ipv6 || spw_port_spec_find(spec, "tcp")))
		return spw_err(EINVAL,
			       "group= means UDP to the group's own addresses, without a VLAN tag: "
			       "leave mac=, vlan=, ipv4=, ipv6= and tcp= out");
	return 0;
}

int rdma_flow_parse(const struct spw_port_spec *spec, struct rdma_flow_conf *conf)
{
	bool named = false, taken;
	int rc = 0;

	memset(conf, 0, sizeof(*conf));
	for (uint32_t i = 0; i < spec->arg_cnt && !rc; i++) {
		rc = rdma_flow_parse_address_key(conf, spw_port_spec_key(spec, i),
						 spw_port_spec_value(spec, i), &taken);
		named |= taken;
	}
	rc = rc ? rc : rdma_flow_parse_port_keys(spec, conf);
	rc = rc ? rc : rdma_flow_check(spec, conf, named);
	if (rc)
		return rc;
	conf->by_default = !spw_port_spec_find(spec, "flow") && !named && !conf->rule_cnt;
	return conf->rule_cnt ? 0 : rdma_flow_rules_without_ports(conf);
}

/* Groups are joined when the port opens, and addresses and VLAN are conditions of all its rules. */
int rdma_flow_parse_rule(const struct rdma_flow_conf *conf, const char *text,
			 struct rdma_flow_conf *rules_out)
{
	const bool udp = !strncmp(text, "udp=", 4), tcp = !strncmp(text, "tcp=", 4);
	uint16_t port = 0;
	int rc;

	*rules_out = *conf;
	rules_out->rule_cnt = 0;
	if (!udp && !tcp)
		return spw_err(
			ENOTSUP,
			"'%s' is no rule that can be changed now: udp=PORT or tcp=PORT; other "
			"keys are those that the port was opened with",
			text);
	if (tcp && conf->group_cnt)
		return spw_err(EINVAL, "tcp=: the port has group=, which means UDP");
	rc = rdma_flow_parse_number(udp ? "udp" : "tcp", text + 4, 1, 65535, &port);
	return rc ? rc : rdma_flow_rules_of_l4(rules_out, udp ? RDMA_L4_UDP : RDMA_L4_TCP, port);
}
