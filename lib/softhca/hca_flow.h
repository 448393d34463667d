/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A flow rule (ibv_create_flow) as both halves of the software ConnectX see it: the kernel side
 * builds it from the specs of a request (kernel/cmd_flow.c), the NIC matches received frames
 * against it (nic/eth/flow.c).
 *
 * All specs of a rule are folded into one value and one mask, so that matching is a masked
 * comparison of the headers.
 */
#ifndef SPW_SOFTHCA_HCA_FLOW_H
#define SPW_SOFTHCA_HCA_FLOW_H

#include "softhca/hca_obj.h"

enum flow_l3 { FLOW_L3_NONE, FLOW_L3_IPV4, FLOW_L3_IPV6 };
enum flow_l4 { FLOW_L4_NONE, FLOW_L4_TCP, FLOW_L4_UDP, FLOW_L4_OTHER };

/* The values of enum ib_flow_attr_type. */
enum flow_type { FLOW_NORMAL, FLOW_ALL_DEFAULT, FLOW_MC_DEFAULT, FLOW_SNIFFER };

struct flow_fields {
	struct ib_uverbs_flow_eth_filter eth;
	union {
		struct ib_uverbs_flow_ipv4_filter ipv4;
		struct ib_uverbs_flow_ipv6_filter ipv6;
	};
	struct ib_uverbs_flow_tcp_udp_filter l4;
};

/* Zero matches everything. Two rules are compared byte by byte, so padding is explicit and 0. */
struct flow_match {
	struct flow_fields val; /* already masked */
	struct flow_fields mask;
	uint8_t l3; /* enum flow_l3: the network header that a frame must have; NONE: any */
	uint8_t l4; /* enum flow_l4: likewise */
	uint8_t zero[2];
};

struct hca_flow {
	struct hca_obj o;
	struct hca_flow *next; /* in dev->flows, by priority, then by age */
	struct hca_tir *tir;
	uint8_t type;         /* enum flow_type */
	bool drop, dont_trap; /* dont_trap: the TIR gets a copy and matching goes on */
	uint16_t priority;    /* 0 comes first */
	uint32_t tag;         /* reported in the CQE; 0: none */
	struct flow_match match;
};

#endif
