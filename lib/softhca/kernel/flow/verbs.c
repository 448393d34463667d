/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Verbs commands on flow rules: folds the specs of a request into one value and mask (hca_flow.h),
 * as the mlx5 kernel driver does, and hands them to the constructor of all rules (fte.h). Sources:
 * Linux drivers/infiniband/core/uverbs_cmd.c (create_flow), hw/mlx5/fs.c (parse_flow_attr,
 * flow_is_multicast_only), ibv_create_flow(3).
 *
 *   request: attr | spec | spec | ...     each spec: type, size, value, mask
 *      specs_read --> spec_match_add --> spec_filter_get: one filter, and its fields one by one
 *
 * A field that the NIC does not compare is refused, never ignored: a rule that matches more than it
 * names would take frames from others.
 */
#include <errno.h>
#include <linux/capability.h>
#include <string.h>

#include "prm/spw_prm.h"
#include "softhca/kernel/cmd.h"
#include "softhca/kernel/ctl.h"
#include "softhca/kernel/flow/fte.h"

#define SPEC_ETH         0x20u
#define SPEC_IPV4        0x30u
#define SPEC_IPV6        0x31u
#define SPEC_TCP         0x40u
#define SPEC_UDP         0x41u
#define SPEC_ACTION_TAG  0x1000u
#define SPEC_ACTION_DROP 0x1001u
#define SPECS_MAX        10u
#define TAG_MAX          0xffffffu
#define PROTO_TCP        6u
#define PROTO_UDP        17u
enum { FLAG_DONT_TRAP = 2, FLAG_EGRESS = 4, FLAG_ALL = 6 };

/* A request while its specs are read. */
struct flow_draft {
	struct hca_flow flow; /* what to make */
	struct flow_match match;
	bool has_l3, has_l4, multicast;
};

union spec_filter {
	struct ib_uverbs_flow_eth_filter eth;
	struct ib_uverbs_flow_ipv4_filter ipv4;
	struct ib_uverbs_flow_ipv6_filter ipv6;
	struct ib_uverbs_flow_tcp_udp_filter l4;
};

/* Value and mask of one spec. The filter of an older or newer library may be shorter or longer than
 * ours; mask bytes beyond ours must be 0. */
static int spec_filter_get(const struct ib_uverbs_flow_spec_hdr *h, size_t bytes,
			   union spec_filter *val, union spec_filter *mask)
{
	size_t sent = (h->size - sizeof(*h)) / 2;
	const uint8_t *v = (const uint8_t *)h + sizeof(*h), *m = v + sent;

	if (!sent || h->size != sizeof(*h) + 2 * sent)
		return -EINVAL;
	for (size_t i = bytes; i < sent; i++)
		if (m[i])
			return -EOPNOTSUPP;
	memset(val, 0, sizeof(*val));
	memset(mask, 0, sizeof(*mask));
	memcpy(val, v, SPW_MIN(sent, bytes));
	memcpy(mask, m, SPW_MIN(sent, bytes));
	return 0;
}

/* Fields of the request are in network byte order, as in the rule. */
static void draft_put(struct flow_draft *d, uint32_t at, const void *val, const void *mask,
		      size_t bytes)
{
	memcpy(d->match.val.byte + at, val, bytes);
	memcpy(d->match.mask.byte + at, mask, bytes);
}

static void draft_put_bits(struct flow_draft *d, uint32_t at, uint8_t val, uint8_t mask)
{
	d->match.val.byte[at] |= val;
	d->match.mask.byte[at] |= mask;
}

/* Two specs that name the protocol must agree. */
static int draft_put_proto(struct flow_draft *d, uint8_t val, uint8_t mask)
{
	uint8_t *v = &d->match.val.outer[FLOW_PROTO], *m = &d->match.mask.outer[FLOW_PROTO];

	if (*m && mask && (*m != mask || *v != val))
		return -EINVAL;
	draft_put_bits(d, FLOW_PROTO, val, mask);
	return 0;
}

/* A VLAN means a tag of type 0x8100. */
static int spec_eth(struct flow_draft *d, const struct ib_uverbs_flow_spec_hdr *h)
{
	union spec_filter v, m;
	int rc = spec_filter_get(h, sizeof(v.eth), &v, &m);

	if (rc)
		return rc;
	draft_put(d, FLOW_DMAC, v.eth.dst_mac, m.eth.dst_mac, 6);
	draft_put(d, FLOW_SMAC, v.eth.src_mac, m.eth.src_mac, 6);
	draft_put(d, FLOW_ETHERTYPE, &v.eth.ether_type, &m.eth.ether_type, 2);
	if (m.eth.vlan_tag) {
		draft_put_bits(d, FLOW_BITS, FLOW_BIT_CVLAN, FLOW_BIT_CVLAN);
		draft_put(d, FLOW_FIRST_VLAN, &v.eth.vlan_tag, &m.eth.vlan_tag, 2);
	}
	d->multicast = m.eth.dst_mac[0] & v.eth.dst_mac[0] & 1;
	return 0;
}

/* Time to live and flags are not compared. */
static int spec_ipv4(struct flow_draft *d, const struct ib_uverbs_flow_spec_hdr *h)
{
	union spec_filter v, m;
	int rc = spec_filter_get(h, sizeof(v.ipv4), &v, &m);

	if (rc)
		return rc;
	if (m.ipv4.ttl || m.ipv4.flags)
		return -EOPNOTSUPP;
	draft_put_bits(d, FLOW_BITS, 4 << FLOW_VERSION_SHIFT, FLOW_BIT_VERSION);
	draft_put(d, FLOW_SRC_IP + 12, &v.ipv4.src_ip, &m.ipv4.src_ip, 4);
	draft_put(d, FLOW_DST_IP + 12, &v.ipv4.dst_ip, &m.ipv4.dst_ip, 4);
	draft_put(d, FLOW_TOS, &v.ipv4.tos, &m.ipv4.tos, 1);
	d->multicast = (spw_be32_to_cpu(v.ipv4.dst_ip) & 0xf0000000u) == 0xe0000000u;
	return draft_put_proto(d, v.ipv4.proto, m.ipv4.proto);
}

/* The label has 20 bits in the rule; those beyond are dropped, as by Linux. */
static int spec_ipv6(struct flow_draft *d, const struct ib_uverbs_flow_spec_hdr *h)
{
	union spec_filter v, m;
	int rc = spec_filter_get(h, sizeof(v.ipv6), &v, &m);
	__be32 label = spw_cpu_to_be32(0xfffffu);

	if (rc)
		return rc;
	if (m.ipv6.hop_limit)
		return -EOPNOTSUPP;
	v.ipv6.flow_label &= label;
	m.ipv6.flow_label &= label;
	draft_put_bits(d, FLOW_BITS, 6 << FLOW_VERSION_SHIFT, FLOW_BIT_VERSION);
	draft_put(d, FLOW_SRC_IP, v.ipv6.src_ip, m.ipv6.src_ip, 16);
	draft_put(d, FLOW_DST_IP, v.ipv6.dst_ip, m.ipv6.dst_ip, 16);
	draft_put(d, FLOW_TOS, &v.ipv6.traffic_class, &m.ipv6.traffic_class, 1);
	draft_put(d, FLOW_SECTION_BYTES + FLOW_LABEL, &v.ipv6.flow_label, &m.ipv6.flow_label, 4);
	return draft_put_proto(d, v.ipv6.next_hdr, m.ipv6.next_hdr);
}

static int spec_l4(struct flow_draft *d, const struct ib_uverbs_flow_spec_hdr *h)
{
	const bool tcp = h->type == SPEC_TCP;
	const uint32_t sport = tcp ? FLOW_TCP_SPORT : FLOW_UDP_SPORT;
	union spec_filter v, m;
	int rc = spec_filter_get(h, sizeof(v.l4), &v, &m);

	if (rc)
		return rc;
	draft_put(d, sport, &v.l4.src_port, &m.l4.src_port, 2);
	draft_put(d, sport + 2, &v.l4.dst_port, &m.l4.dst_port, 2);
	return draft_put_proto(d, tcp ? PROTO_TCP : PROTO_UDP, 0xff);
}

/* One header of a layer per rule. */
static int spec_match_add(struct flow_draft *d, const struct ib_uverbs_flow_spec_hdr *h)
{
	const struct ib_uverbs_flow_spec_action_tag *tag = (const void *)h;
	bool *has;

	switch (h->type) {
	case SPEC_ETH:
		return spec_eth(d, h);
	case SPEC_IPV4:
	case SPEC_IPV6:
	case SPEC_TCP:
	case SPEC_UDP:
		has = h->type < SPEC_TCP ? &d->has_l3 : &d->has_l4;
		if (*has)
			return -EINVAL;
		*has = true;
		return h->type == SPEC_IPV4   ? spec_ipv4(d, h)
		       : h->type == SPEC_IPV6 ? spec_ipv6(d, h)
					      : spec_l4(d, h);
	case SPEC_ACTION_TAG:
		if (h->size != sizeof(*tag) || tag->tag_id > TAG_MAX)
			return -EINVAL;
		d->flow.tag = tag->tag_id;
		d->flow.has_tag = true;
		return 0;
	case SPEC_ACTION_DROP:
		d->flow.drop = true;
		return h->size == sizeof(*h) ? 0 : -EINVAL;
	default: /* tunnels, counters, actions */
		return -EOPNOTSUPP;
	}
}

/* num_of_specs and the sizes inside must agree with attr->size, and that with what the application
 * sent (room): all three are the application's numbers. Each spec begins at a multiple of 8.
 * Whether the rule is one of multicast, the first spec decides. */
static int specs_read(struct flow_draft *d, const struct ib_uverbs_flow_attr *attr, uint32_t room)
{
	const uint8_t *at = (const uint8_t *)(attr + 1);
	uint32_t left = attr->size;
	bool multicast = false;
	int rc = 0;

	if (left > room)
		return -EINVAL;
	for (uint32_t i = 0; i < attr->num_of_specs && !rc; i++) {
		const struct ib_uverbs_flow_spec_hdr *h = (const void *)at;

		if (left < sizeof(*h) || h->size < sizeof(*h) || h->size > left || h->reserved)
			return -EINVAL;
		rc = spec_match_add(d, h);
		multicast = i ? multicast : d->multicast;
		at += SPW_ALIGN_UP((uint32_t)h->size, 8u);
		left -= SPW_MIN(left, SPW_ALIGN_UP((uint32_t)h->size, 8u));
	}
	d->multicast = multicast;
	return rc ? rc : left ? -EINVAL : 0;
}

/* What Linux refuses, what mlx5 does not have, and priorities without a table. */
static int flow_attr_check(const struct ib_uverbs_flow_attr *a)
{
	bool dflt = a->type == FLOW_ALL_DEFAULT || a->type == FLOW_MC_DEFAULT;

	if (a->type > FLOW_SNIFFER || a->flags & ~(uint32_t)FLAG_ALL ||
	    a->num_of_specs > SPECS_MAX || a->port != 1)
		return -EINVAL;
	if (a->flags & FLAG_EGRESS)
		return -EOPNOTSUPP;
	if (dflt && (a->flags & FLAG_DONT_TRAP || a->num_of_specs))
		return -EINVAL;
	return a->priority >= FLOW_PRIORITY_CNT ? -ENOMEM : 0; /* as mlx5: no table for it */
}

/* Steering takes frames from others, so it needs CAP_NET_RAW, as in Linux. The NIC knows the rule
 * as soon as the lock is released. */
int cmd_ex_create_flow(struct uv_call *c)
{
	const struct ib_uverbs_create_flow *req = c->in;
	const struct ib_uverbs_flow_attr *attr = &req->flow_attr;
	struct ib_uverbs_create_flow_resp *resp = c->out;
	struct hca_qp *qp = hca_obj_find(c->ctx, HCA_QP, req->qp_handle);
	struct flow_draft d = {
		.flow = {.type = (uint8_t)attr->type, .dont_trap = attr->flags & FLAG_DONT_TRAP}};
	struct hca_flow *f;
	int rc = flow_attr_check(attr);

	if (req->comp_mask)
		return -EINVAL;
	if (!hca_capable(CAP_NET_RAW))
		return -EPERM;
	if (!qp)
		return -EINVAL;
	if (qp->qp_type != IB_UVERBS_QPT_RAW_PACKET)
		return qp->qp_type == IB_UVERBS_QPT_UD ? -EOPNOTSUPP : -EINVAL;
	d.flow.tir = &qp->tir;
	rc = rc ? rc : specs_read(&d, attr, c->in_bytes - (uint32_t)sizeof(*req));
	rc = rc ? rc : fte_match_check(&d.match);
	d.flow.level = d.multicast && !d.flow.dont_trap
			       ? FLOW_LEVEL_MULTICAST
			       : FLOW_LEVEL(attr->priority, d.flow.dont_trap);
	rc = rc ? rc : hca_flow_make(c->ctx, &d.flow, &d.match, &f);
	if (!rc)
		resp->flow_handle = f->o.handle;
	return rc;
}

/* A rule raises no events, so there is nothing to wait for. */
int cmd_ex_destroy_flow(struct uv_call *c)
{
	const struct ib_uverbs_destroy_flow *req = c->in;
	struct hca_obj *f;
	int rc;

	if (req->comp_mask)
		return -EINVAL;
	rc = hca_obj_find_destroy(c->ctx, HCA_FLOW, req->flow_handle, &f);
	if (!rc)
		hca_flow_free(f);
	return rc;
}
