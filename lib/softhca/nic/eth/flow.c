/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Receive steering: parsing the headers of a frame, and matching them against the rules.
 *
 * raw.c calls flow_parse() and flow_steer() for each frame that is not RoCE for this NIC. Rules
 * come from kernel/cmd_flow.c, sorted by priority and age. Order of evaluation:
 *
 *   normal rules     the first that matches takes the frame, and every rule equal to it gets it as
 *                    well; a "don't trap" rule gets a copy and takes nothing
 *   default rules    only if no normal rule took the frame
 *   sniffers         always
 *
 * Frames are hostile: every offset is checked against the frame's length, and the number of
 * extension headers that are followed is bounded. A header that is cut or wrong counts as not
 * there, so rules that ask for it do not match.
 */
#include "softhca/nic/eth/flow.h"

#include <string.h>

#include "prm/spw_prm.h"

#define ETH_BYTES  14u
#define TYPE_VLAN  0x8100u
#define TYPE_QINQ  0x88a8u
#define TYPE_IPV4  0x0800u
#define TYPE_IPV6  0x86ddu
#define IPV4_BYTES 20u
#define IPV6_BYTES 40u
#define EXT_MAX    8u /* extension headers that are followed */

/* ---- headers ---- */

/* Only the first fragment of a datagram has ports, so a fragment of any kind has none here. */
static void flow_parse_l4(struct flow_key *k)
{
	const uint8_t *p = k->frame + k->l4_off;
	uint32_t left = k->l3_off + k->l3_bytes - k->l4_off;

	k->l4 = k->proto == 6 ? FLOW_L4_TCP : k->proto == 17 ? FLOW_L4_UDP : FLOW_L4_OTHER;
	if (k->is_frag || k->l4 == FLOW_L4_OTHER)
		return;
	if (left < (k->l4 == FLOW_L4_TCP ? 20u : 8u)) {
		k->l4 = FLOW_L4_OTHER;
		return;
	}
	k->src_port = spw_prm_ld16(p);
	k->dst_port = spw_prm_ld16(p + 2);
}

/* l3_bytes comes from the header, bounded by the frame: short frames are padded by Ethernet. */
static void flow_parse_ipv4(struct flow_key *k)
{
	const uint8_t *p = k->frame + k->l3_off;
	uint32_t left = k->frame_bytes - k->l3_off, hdr;

	if (left < IPV4_BYTES || p[0] >> 4 != 4)
		return;
	hdr = (p[0] & 15u) * 4u;
	k->l3_bytes = SPW_MIN((uint32_t)spw_prm_ld16(p + 2), left);
	if (hdr < IPV4_BYTES || k->l3_bytes < hdr)
		return;
	k->l3 = FLOW_L3_IPV4;
	k->proto = p[9];
	k->is_frag = (spw_prm_ld16(p + 6) & 0x3fffu) != 0;
	k->l4_off = (uint16_t)(k->l3_off + hdr);
	flow_parse_l4(k);
}

/* Routing, hop-by-hop and destination options are skipped to the transport header, a fragment
 * header likewise. */
static void flow_parse_ipv6(struct flow_key *k)
{
	const uint8_t *p = k->frame + k->l3_off;
	uint32_t left = k->frame_bytes - k->l3_off, at = IPV6_BYTES;

	if (left < IPV6_BYTES || p[0] >> 4 != 6)
		return;
	k->l3 = FLOW_L3_IPV6;
	k->l3_bytes = SPW_MIN(spw_prm_ld16(p + 4) + IPV6_BYTES, left);
	k->proto = p[6];
	for (uint32_t i = 0; i < EXT_MAX && at + 8u <= k->l3_bytes; i++) {
		if (k->proto == 44) { /* fragment */
			k->is_frag = (spw_prm_ld16(p + at + 2) & 0xfff9u) != 0;
			k->proto = p[at];
			at += 8;
		} else if (k->proto == 0 || k->proto == 43 || k->proto == 60) {
			k->proto = p[at];
			at += 8u + p[at + 1] * 8u;
		} else {
			break;
		}
	}
	if (at > k->l3_bytes)
		return;
	k->l4_off = (uint16_t)(k->l3_off + at);
	flow_parse_l4(k);
}

/* The outer VLAN tag is the one that rules compare; inner ones are skipped. */
void flow_parse(const uint8_t *frame, uint32_t len, struct flow_key *key_out)
{
	struct flow_key *k = key_out;
	uint32_t at = ETH_BYTES;

	memset(k, 0, sizeof(*k));
	k->frame = frame;
	k->frame_bytes = SPW_MIN(len, 0xffffu);
	if (k->frame_bytes < ETH_BYTES)
		return;
	k->ether_type = spw_prm_ld16(frame + 12);
	while ((k->ether_type == TYPE_VLAN || k->ether_type == TYPE_QINQ) &&
	       at + 4u <= k->frame_bytes) {
		if (!k->has_vlan)
			k->vlan_tci = spw_prm_ld16(frame + at);
		k->has_vlan = true;
		k->ether_type = spw_prm_ld16(frame + at + 2);
		at += 4;
	}
	k->l3_off = (uint16_t)at;
	if (k->ether_type == TYPE_IPV4)
		flow_parse_ipv4(k);
	else if (k->ether_type == TYPE_IPV6)
		flow_parse_ipv6(k);
}

/* ---- rules ---- */

/* The value was masked when the rule was made. */
static bool flow_bytes_match(const uint8_t *frame, const void *value, const void *mask, size_t n)
{
	const uint8_t *v = value, *m = mask;

	for (size_t i = 0; i < n; i++)
		if ((frame[i] & m[i]) != v[i])
			return false;
	return true;
}

/* Rules keep the byte order of the request, which is the network's. */
static bool flow_be16_match(uint16_t x, uint16_t val_be, uint16_t mask_be)
{
	return (spw_cpu_to_be16(x) & mask_be) == val_be;
}

static bool flow_eth_match(const struct flow_match *m, const struct flow_key *k)
{
	const struct ib_uverbs_flow_eth_filter *v = &m->val.eth, *w = &m->mask.eth;

	if (k->frame_bytes < ETH_BYTES || !flow_bytes_match(k->frame, v->dst_mac, w->dst_mac, 6) ||
	    !flow_bytes_match(k->frame + 6, v->src_mac, w->src_mac, 6))
		return false;
	if (w->vlan_tag &&
	    (!k->has_vlan || !flow_be16_match(k->vlan_tci, v->vlan_tag, w->vlan_tag)))
		return false;
	return flow_be16_match(k->ether_type, v->ether_type, w->ether_type);
}

/* Source and destination lie side by side in the header and in the rule: 8 bytes at once. */
static bool flow_ipv4_match(const struct flow_match *m, const struct flow_key *k)
{
	const struct ib_uverbs_flow_ipv4_filter *v = &m->val.ipv4, *w = &m->mask.ipv4;
	const uint8_t *p = k->frame + k->l3_off;

	return k->l3 == FLOW_L3_IPV4 && flow_bytes_match(p + 12, &v->src_ip, &w->src_ip, 8) &&
	       (p[9] & w->proto) == v->proto && (p[1] & w->tos) == v->tos;
}

static bool flow_ipv6_match(const struct flow_match *m, const struct flow_key *k)
{
	const struct ib_uverbs_flow_ipv6_filter *v = &m->val.ipv6, *w = &m->mask.ipv6;
	const uint8_t *p = k->frame + k->l3_off;
	uint32_t word, label_mask = 0x000fffff;

	if (k->l3 != FLOW_L3_IPV6)
		return false;
	word = (uint32_t)spw_prm_ld16(p) << 16 | spw_prm_ld16(p + 2);
	return flow_bytes_match(p + 8, v->src_ip, w->src_ip, 16) &&
	       flow_bytes_match(p + 24, v->dst_ip, w->dst_ip, 16) &&
	       (spw_cpu_to_be32(word & label_mask) & w->flow_label) == v->flow_label &&
	       (k->proto & w->next_hdr) == v->next_hdr &&
	       ((word >> 20) & w->traffic_class) == v->traffic_class;
}

/* A fragment matches by protocol, and never by port. */
static bool flow_l4_match(const struct flow_match *m, const struct flow_key *k)
{
	if (k->l4 != m->l4)
		return false;
	if (k->is_frag)
		return !m->mask.l4.src_port && !m->mask.l4.dst_port;
	return flow_be16_match(k->src_port, m->val.l4.src_port, m->mask.l4.src_port) &&
	       flow_be16_match(k->dst_port, m->val.l4.dst_port, m->mask.l4.dst_port);
}

/* A rule that names no header of a layer matches whatever the frame has there. */
bool flow_match_frame(const struct flow_match *m, const struct flow_key *k)
{
	if (!flow_eth_match(m, k))
		return false;
	if (m->l3 == FLOW_L3_IPV4 && !flow_ipv4_match(m, k))
		return false;
	if (m->l3 == FLOW_L3_IPV6 && !flow_ipv6_match(m, k))
		return false;
	return m->l4 == FLOW_L4_NONE || flow_l4_match(m, k);
}

/* A drop rule takes the frame and gives it to nobody. Beyond FLOW_DST_MAX receivers the rest gets
 * no copy. */
static uint32_t flow_dst_add(struct flow_dst *dst, uint32_t n, const struct hca_flow *f)
{
	if (n < FLOW_DST_MAX && !f->drop)
		dst[n++] = (struct flow_dst){f->tir, f->tag};
	return n;
}

/* Equal rules differ in TIR and tag only, and share the frame. */
static bool flow_same_rule(const struct hca_flow *a, const struct hca_flow *b)
{
	return a->priority == b->priority && memcmp(&a->match, &b->match, sizeof(a->match)) == 0;
}

/* The first rule, by priority and age, that matches the frame, and every rule equal to it. */
static uint32_t flow_steer_normal(const struct hca_dev *dev, const struct flow_key *key,
				  struct flow_dst *dst, const struct hca_flow **taker_out)
{
	const struct hca_flow *taker = NULL;
	uint32_t n = 0;

	for (const struct hca_flow *f = dev->flows; f; f = f->next) {
		if (f->type != FLOW_NORMAL || (taker && !flow_same_rule(f, taker)) ||
		    !flow_match_frame(&f->match, key))
			continue;
		n = flow_dst_add(dst, n, f);
		if (!taker && !f->dont_trap)
			taker = f;
	}
	*taker_out = taker;
	return n;
}

/* Default rules have no order among them: each gets the frame. */
static uint32_t flow_steer_default(const struct hca_dev *dev, const struct flow_key *key,
				   struct flow_dst *dst, uint32_t n)
{
	bool multicast = key->frame_bytes && key->frame[0] & 1;

	for (const struct hca_flow *f = dev->flows; f; f = f->next)
		if (f->type == FLOW_ALL_DEFAULT || (f->type == FLOW_MC_DEFAULT && multicast))
			n = flow_dst_add(dst, n, f);
	return n;
}

static uint32_t flow_steer_sniffers(const struct hca_dev *dev, struct flow_dst *dst, uint32_t n)
{
	for (const struct hca_flow *f = dev->flows; f; f = f->next)
		if (f->type == FLOW_SNIFFER)
			n = flow_dst_add(dst, n, f);
	return n;
}

/* A frame that a drop rule took still reaches the sniffers. */
uint32_t flow_steer(struct hca_dev *dev, const struct flow_key *key,
		    struct flow_dst dst_out[FLOW_DST_MAX], bool *dropped_out)
{
	const struct hca_flow *taker;
	uint32_t n = flow_steer_normal(dev, key, dst_out, &taker);

	*dropped_out = taker && taker->drop;
	if (!taker)
		n = flow_steer_default(dev, key, dst_out, n);
	return flow_steer_sniffers(dev, dst_out, n);
}

uint32_t flow_sniff(struct hca_dev *dev, struct flow_dst dst_out[FLOW_DST_MAX])
{
	return flow_steer_sniffers(dev, dst_out, 0);
}
