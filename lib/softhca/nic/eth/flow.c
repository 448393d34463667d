/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Receive steering: parsing the headers of a frame. fields.c lays them out for the rules (table.c);
 * RSS and the CQE's checksum flags use them too.
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

static void flow_parse_l3(struct flow_key *k)
{
	if (k->ether_type == TYPE_IPV4)
		flow_parse_ipv4(k);
	else if (k->ether_type == TYPE_IPV6)
		flow_parse_ipv6(k);
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
	flow_parse_l3(k);
}

void flow_parse_packet(const uint8_t *packet, uint32_t len, uint16_t ether_type,
		       struct flow_key *key_out)
{
	memset(key_out, 0, sizeof(*key_out));
	key_out->frame = packet;
	key_out->frame_bytes = SPW_MIN(len, 0xffffu);
	key_out->ether_type = ether_type;
	flow_parse_l3(key_out);
}
