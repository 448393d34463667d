/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Receive steering: the headers of one frame, and the flow rules of the application over them.
 *
 * Source: hca_flow.h.
 */
#ifndef SPW_SOFTHCA_ETH_FLOW_H
#define SPW_SOFTHCA_ETH_FLOW_H

#include "softhca/hca_flow.h"

#define TAG_BYTES  4u /* a VLAN tag, by its type */
#define TYPE_CVLAN 0x8100u
#define TYPE_SVLAN 0x88a8u

/* The headers of a frame; used by the rules, by RSS and by the CQE's checksum flags. */
struct flow_key {
	const uint8_t *frame;
	uint32_t frame_bytes;
	uint16_t ether_type; /* after the VLAN tags, host order */
	uint16_t vlan_tci;   /* host order; 0 without a tag */
	bool has_vlan;
	bool is_frag;  /* not the first fragment: no L4 header here */
	uint8_t l3;    /* enum flow_l3 */
	uint8_t l4;    /* enum flow_l4 */
	uint8_t proto; /* IP protocol, last next-header of IPv6 */
	uint16_t l3_off, l4_off;
	uint32_t l3_bytes;           /* IP total length, cut to the frame */
	uint16_t src_port, dst_port; /* host order */
};

/* Purpose: finds the headers. Never reads beyond len; a header that is cut counts as absent. */
void flow_parse(const uint8_t *frame, uint32_t len, struct flow_key *key_out);

/* Purpose: the same for an IP packet of a tunnel, without an Ethernet header. */
void flow_parse_packet(const uint8_t *packet, uint32_t len, uint16_t ether_type,
		       struct flow_key *key_out);

/* Purpose: the headers as rules compare them (hca_flow.h): sections outer and misc; then, for the
 *          frame in a tunnel, inner and the rest of misc. */
void flow_fields_outer(const struct flow_key *k, struct flow_fields *out);
void flow_fields_inner(const struct flow_key *k, struct flow_fields *out);

struct flow_dst {
	struct hca_tir *tir;
	uint32_t tag; /* flow tag for the CQE; 0: none */
};

#define FLOW_DST_MAX 16u

/* What the rules make of a frame. */
struct flow_hit {
	struct flow_dst dst[FLOW_DST_MAX];
	uint32_t dst_cnt;
	bool dropped;                   /* by a rule; sniffers get it all the same */
	const struct flow_fte *counted; /* NULL: its rules have no counters */
};

/* Purpose: the TIRs that get a received frame: those of the rules that match it first; the default
 *          rules, if no rule took it; and always the sniffers. None: the port drops the frame.
 * Thread:  with the device lock held. */
void flow_steer(const struct hca_dev *dev, const struct flow_key *key, struct flow_hit *hit_out);

/* Purpose: counts the frame where its rules say so. Once, when it is offered for the last time. */
void flow_count(const struct flow_hit *hit, uint32_t bytes);

/* Purpose: the sniffers alone, for RoCE frames, which the NIC consumes itself. */
void flow_sniff(const struct hca_dev *dev, struct flow_hit *hit_out);

/* Purpose: at detach; no rule is left. */
void flow_tables_free(struct nic_dev *nd);

#endif
