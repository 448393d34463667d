/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Receive steering: the flow rules of the application (ibv_create_flow), by priority, over the headers
 * of one frame. Source: ibv_create_flow(3) and <rdma/ib_user_verbs.h> (specs, values and masks).
 */
#ifndef SPW_SOFTHCA_FLOW_H
#define SPW_SOFTHCA_FLOW_H

#include "softhca/hca_obj.h"

/* What the headers of a frame say; used by the rules, by RSS and by the CQE's checksum flags. */
enum flow_l3 { FLOW_L3_NONE, FLOW_L3_IPV4, FLOW_L3_IPV6 };
enum flow_l4 { FLOW_L4_NONE, FLOW_L4_TCP, FLOW_L4_UDP, FLOW_L4_OTHER };

struct flow_key {
	const uint8_t *frame;
	uint32_t frame_bytes;
	uint16_t ether_type;   /* behind the VLAN tag, host order */
	uint16_t vlan_tci;     /* host order; 0 without a tag */
	bool has_vlan;
	bool is_frag;          /* not the first fragment: no L4 header here */
	uint8_t l3;            /* enum flow_l3 */
	uint8_t l4;            /* enum flow_l4 */
	uint8_t proto;         /* IP protocol, last next-header of IPv6 */
	uint16_t l3_off, l4_off;
	uint32_t l3_bytes;     /* IP total length, cut to the frame */
	uint16_t src_port, dst_port; /* host order */
};

/* Purpose: finds the headers. Never reads past len; what is cut off is as if it were absent. */
void flow_parse(const uint8_t *frame, uint32_t len, struct flow_key *key_out);

struct flow_dst {
	struct hca_qp *qp;     /* RAW_PACKET: its own ring or its RSS table */
	uint32_t tag;          /* flow tag for the CQE; 0: none */
};

#define FLOW_DST_MAX 16u

/* Purpose: who gets a received frame: all rules of the best priority that match the frame, then the default rules
 *          (if no rule matched), and always the sniffers.
 * Errors:  0: nobody; the port then drops it. A drop rule gives 0 as well, and *dropped_out = true.
 * Thread:  under the device lock. */
uint32_t flow_steer(struct hca_dev *dev, const struct flow_key *key, struct flow_dst dst_out[FLOW_DST_MAX],
		    bool *dropped_out);

/* Purpose: the sniffers alone, for a frame that this NIC consumes itself (RoCE) or sends. */
uint32_t flow_sniff(struct hca_dev *dev, struct flow_dst dst_out[FLOW_DST_MAX]);

#endif
