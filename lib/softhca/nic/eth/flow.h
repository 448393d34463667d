/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Receive steering: the flow rules of the application (ibv_create_flow), by priority, over the
 * headers of one frame.
 *
 * Source: ibv_create_flow(3) and <rdma/ib_user_verbs.h> (specs, values and masks).
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

/* Purpose: does the frame meet a rule's match? */
bool flow_match_frame(const struct flow_match *m, const struct flow_key *k);

struct flow_dst {
	struct hca_tir *tir;
	uint32_t tag; /* flow tag for the CQE; 0: none */
};

#define FLOW_DST_MAX 16u

/* Purpose: the TIRs that get a received frame: every rule of the best priority that matches it; the
 *          default rules, if no rule matched; and always the sniffers.
 * Returns: how many; 0: none, and the port drops the frame. A drop rule gives 0 as well, and
 *          *dropped_out = true.
 * Thread:  with the device lock held. */
uint32_t flow_steer(struct hca_dev *dev, const struct flow_key *key,
		    struct flow_dst dst_out[FLOW_DST_MAX], bool *dropped_out);

/* Purpose: the sniffers alone, for RoCE frames, which the NIC consumes itself. */
uint32_t flow_sniff(struct hca_dev *dev, struct flow_dst dst_out[FLOW_DST_MAX]);

#endif
