/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The headers of a frame as the fields that rules compare (hca_flow.h). flow_parse() has found the
 * outer headers; the inner ones are those behind VXLAN or GRE.
 *
 * A field whose header is absent reads 0. Its FLOW_HAS bit is the difference to a field that is 0,
 * and a rule compares it along with the field (kernel/flow/fte.c).
 *
 * Frames are hostile: flow_parse() has checked the outer offsets against the frame's length, and
 * the tunnel headers are checked here against the end of the IP packet.
 *
 * Sources: RFC 7348 (VXLAN), RFC 2784 and 2890 (GRE); places of fields: hca_flow.h.
 */
#include <string.h>

#include "prm/spw_prm.h"
#include "softhca/nic/eth/flow.h"

#define ETH_HDR_BYTES  14u
#define PROTO_GRE      47u
#define PORT_VXLAN     4789u
#define GRE_BYTES      4u
#define TUN_BYTES      8u /* of UDP, and of VXLAN */
#define TYPE_TEB       0x6558u
#define GRE_CSUM       0x8000u
#define GRE_ROUTING    0x4000u
#define GRE_KEY        0x2000u
#define GRE_SEQ        0x1000u
#define GRE_VERSION    7u
#define FRAME_TAG_TYPE 12u /* where an Ethernet header has the type of its first tag */

/* Of the tag that lies `at` bytes into the frame: which kind it is. */
static uint8_t fields_tag_kind(const uint8_t *frame, uint32_t at, uint8_t cvlan, uint8_t svlan)
{
	const uint16_t type = spw_prm_ld16(frame + at);

	return type == TYPE_CVLAN ? cvlan : type == TYPE_SVLAN ? svlan : 0;
}

/* The second tag is compared among the misc fields, of both layers there. */
static void fields_put_l2(const struct flow_key *k, uint8_t *l, uint8_t *misc, bool inner)
{
	const uint8_t *p = k->frame;
	const uint32_t tags = (k->l3_off - ETH_HDR_BYTES) / TAG_BYTES;

	memcpy(l + FLOW_SMAC, p + 6, 6);
	memcpy(l + FLOW_DMAC, p, 6);
	spw_prm_st16(l + FLOW_ETHERTYPE, k->ether_type);
	l[FLOW_HAS] |= FLOW_HAS_L2;
	if (spw_likely(!tags))
		return;
	l[FLOW_HAS] |= FLOW_HAS_VLAN;
	memcpy(l + FLOW_FIRST_VLAN, p + FRAME_TAG_TYPE + 2, 2);
	l[FLOW_BITS] |= fields_tag_kind(p, FRAME_TAG_TYPE, FLOW_BIT_CVLAN, FLOW_BIT_SVLAN);
	if (tags < 2)
		return;
	misc[FLOW_MISC_HAS] |= inner ? FLOW_HAS_VLAN2_INNER : FLOW_HAS_VLAN2;
	memcpy(misc + (inner ? FLOW_SECOND_VLAN_INNER : FLOW_SECOND_VLAN),
	       p + FRAME_TAG_TYPE + TAG_BYTES + 2, 2);
	misc[FLOW_SECOND_KIND] |=
		(uint8_t)(fields_tag_kind(p, FRAME_TAG_TYPE + TAG_BYTES, 0x80, 0x20) >> inner);
}

/* Source and destination lie side by side, as in both headers. */
static void fields_put_l3(const struct flow_key *k, uint8_t *l, uint8_t *misc, bool inner)
{
	const uint8_t *p = k->frame + k->l3_off;

	l[FLOW_HAS] |= FLOW_HAS_L3;
	l[FLOW_PROTO] = k->proto;
	l[FLOW_BITS] |= k->is_frag ? FLOW_BIT_FRAG : 0;
	if (k->l3 == FLOW_L3_IPV4) {
		l[FLOW_BITS] |= 4 << FLOW_VERSION_SHIFT;
		l[FLOW_TOS] = p[1];
		l[FLOW_TTL] = p[8];
		memcpy(l + FLOW_SRC_IP + 12, p + 12, 4);
		memcpy(l + FLOW_DST_IP + 12, p + 16, 4);
		return;
	}
	l[FLOW_BITS] |= 6 << FLOW_VERSION_SHIFT;
	l[FLOW_TOS] = (uint8_t)(spw_prm_ld16(p) >> 4);
	l[FLOW_TTL] = p[7];
	memcpy(l + FLOW_SRC_IP, p + 8, 32);
	misc[FLOW_MISC_HAS] |= inner ? FLOW_HAS_LABEL_INNER : FLOW_HAS_LABEL;
	spw_prm_st32(misc + (inner ? FLOW_LABEL_INNER : FLOW_LABEL), spw_prm_ld32(p) & 0xfffffu);
}

/* A fragment has no ports, and a header that is cut is none (flow_parse). */
static void fields_put_l4(const struct flow_key *k, uint8_t *l)
{
	const uint8_t *p = k->frame + k->l4_off;

	if (k->is_frag)
		return;
	if (k->l4 == FLOW_L4_UDP) {
		l[FLOW_HAS] |= FLOW_HAS_UDP;
		memcpy(l + FLOW_UDP_SPORT, p, 4);
	} else if (k->l4 == FLOW_L4_TCP) {
		l[FLOW_HAS] |= FLOW_HAS_TCP;
		memcpy(l + FLOW_TCP_SPORT, p, 4);
		l[FLOW_BITS] |= p[12] & FLOW_BIT_TCP_NS;
		l[FLOW_TCP_FLAGS] = p[13];
	}
}

/* A packet of a tunnel without an Ethernet header begins with L3. */
static void fields_put_layer(const struct flow_key *k, uint8_t *l, uint8_t *misc, bool inner)
{
	if (k->l3_off >= ETH_HDR_BYTES)
		fields_put_l2(k, l, misc, inner);
	if (k->l3 == FLOW_L3_NONE)
		return;
	fields_put_l3(k, l, misc, inner);
	fields_put_l4(k, l);
}

/* Returns: the bytes from the L4 header to the end of the IP packet; 0: there is none. */
static uint32_t fields_l4_room(const struct flow_key *k)
{
	return k->l4_off ? k->l3_off + k->l3_bytes - k->l4_off : 0;
}

/* By the port alone, as a card whose parser was not configured otherwise. The flags are not
 * checked, and a frame that is too short for Ethernet is none. */
static bool fields_open_vxlan(const struct flow_key *k, uint8_t *misc, struct flow_key *inner_out)
{
	const uint8_t *p = k->frame + k->l4_off + TUN_BYTES;
	const uint32_t room = fields_l4_room(k);

	if (room < 2 * TUN_BYTES)
		return false;
	misc[FLOW_MISC_HAS] |= FLOW_HAS_VXLAN;
	memcpy(misc + FLOW_VNI, p + 4, 3);
	flow_parse(p + TUN_BYTES, room - 2 * TUN_BYTES, inner_out);
	return inner_out->frame_bytes >= ETH_HDR_BYTES;
}

/* Version 0 without source routes; what follows is a frame or an IP packet. */
static bool fields_open_gre(const struct flow_key *k, uint8_t *misc, struct flow_key *inner_out)
{
	const uint8_t *p = k->frame + k->l4_off;
	const uint32_t room = fields_l4_room(k);
	uint32_t at = GRE_BYTES;
	uint16_t flags, type;

	if (room < GRE_BYTES)
		return false;
	flags = spw_prm_ld16(p);
	type = spw_prm_ld16(p + 2);
	at += (flags & GRE_CSUM ? 4u : 0) + (flags & GRE_KEY ? 4u : 0) + (flags & GRE_SEQ ? 4u : 0);
	if (flags & (GRE_ROUTING | GRE_VERSION) || room < at)
		return false;
	misc[FLOW_MISC_HAS] |= FLOW_HAS_GRE;
	misc[FLOW_GRE_BITS] = p[0] & (GRE_CSUM | GRE_KEY | GRE_SEQ) >> 8;
	spw_prm_st16(misc + FLOW_GRE_PROTO, type);
	if (flags & GRE_KEY) {
		misc[FLOW_MISC_HAS] |= FLOW_HAS_GRE_KEY;
		memcpy(misc + FLOW_GRE_KEY, p + (flags & GRE_CSUM ? 8 : 4), 4);
	}
	if (type == TYPE_TEB) {
		flow_parse(p + at, room - at, inner_out);
		return inner_out->frame_bytes >= ETH_HDR_BYTES;
	}
	flow_parse_packet(p + at, room - at, type, inner_out);
	return inner_out->l3 != FLOW_L3_NONE;
}

/* The sections are filled in even if the frame has no headers: then nothing but 0 matches. */
void flow_fields_outer(const struct flow_key *k, struct flow_fields *out)
{
	memset(out->outer, 0, sizeof(out->outer));
	memset(out->misc, 0, sizeof(out->misc));
	if (k->frame_bytes >= ETH_HDR_BYTES)
		fields_put_layer(k, out->outer, out->misc, false);
}

/* A fragment is not looked into: only the first one has the tunnel's header. */
void flow_fields_inner(const struct flow_key *k, struct flow_fields *out)
{
	struct flow_key inner;
	bool found = false;

	memset(out->inner, 0, sizeof(out->inner));
	if (k->l3 == FLOW_L3_NONE || k->is_frag)
		return;
	if (k->l4 == FLOW_L4_UDP && k->dst_port == PORT_VXLAN)
		found = fields_open_vxlan(k, out->misc, &inner);
	else if (k->proto == PROTO_GRE)
		found = fields_open_gre(k, out->misc, &inner);
	if (found)
		fields_put_layer(&inner, out->inner, out->misc, true);
}
