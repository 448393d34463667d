/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * One flow rule, its specs folded into one value and mask.
 */
#ifndef SPW_SOFTHCA_FLOW_RULE_H
#define SPW_SOFTHCA_FLOW_RULE_H

#include "softhca/flow.h"

enum flow_type { FLOW_NORMAL, FLOW_ALL_DEFAULT, FLOW_MC_DEFAULT, FLOW_SNIFFER }; /* enum ib_flow_attr_type */

struct flow_fields {
	struct ib_uverbs_flow_eth_filter eth;
	union {
		struct ib_uverbs_flow_ipv4_filter ipv4;
		struct ib_uverbs_flow_ipv6_filter ipv6;
	};
	struct ib_uverbs_flow_tcp_udp_filter l4;
};

/* Zero matches everything. All bytes count in a comparison of two rules. */
struct flow_match {
	struct flow_fields val; /* masked */
	struct flow_fields mask;
	uint8_t l3;             /* enum flow_l3: a header that must be there */
	uint8_t l4;             /* enum flow_l4 */
	uint8_t zero[2];
};

struct hca_flow {
	struct hca_obj o;
	struct hca_flow *next;  /* of the device, by priority, then by age */
	struct hca_qp *qp;
	uint8_t type;           /* enum flow_type */
	bool drop, dont_trap;   /* dont_trap: a copy, and the next rule has its turn */
	uint16_t priority;      /* 0 comes first */
	uint32_t tag;
	struct flow_match match;
};

bool flow_match_frame(const struct flow_match *m, const struct flow_key *k);

#endif
