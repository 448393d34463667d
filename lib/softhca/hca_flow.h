/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A flow rule as both halves of the software ConnectX see it: the kernel side builds it from a
 * verbs request (kernel/flow/verbs.c) or from a matcher and a value (kernel/flow/match.c); the NIC
 * finds it for a received frame (nic/eth/table.c).
 *
 * All rules have one form, that of the card: a value and a mask over the first three sections of
 * fte_match_param. The NIC lays the headers of a frame out the same way, so that matching is a
 * masked comparison of words. Numbers are big-endian there, as on the wire.
 *
 * Source of the places: rdma-core v44 providers/mlx5/mlx5_ifc.h (dr_match_spec, dr_match_set_misc).
 */
#ifndef SPW_SOFTHCA_HCA_FLOW_H
#define SPW_SOFTHCA_HCA_FLOW_H

#include "softhca/hca_obj.h"

enum flow_l3 { FLOW_L3_NONE, FLOW_L3_IPV4, FLOW_L3_IPV6 };
enum flow_l4 { FLOW_L4_NONE, FLOW_L4_TCP, FLOW_L4_UDP, FLOW_L4_OTHER };

/* The values of enum ib_flow_attr_type. */
enum flow_type { FLOW_NORMAL, FLOW_ALL_DEFAULT, FLOW_MC_DEFAULT, FLOW_SNIFFER };

/* Bytes of `outer` and `inner`. */
enum {
	FLOW_SMAC = 0x00,
	FLOW_ETHERTYPE = 0x06, /* after the VLAN tags */
	FLOW_DMAC = 0x08,
	FLOW_FIRST_VLAN = 0x0e, /* priority, CFI and id of the outermost tag */
	FLOW_PROTO = 0x10,
	FLOW_TOS = 0x11,
	FLOW_BITS = 0x12, /* FLOW_BIT_* */
	FLOW_TCP_FLAGS = 0x13,
	FLOW_TCP_SPORT = 0x14,
	FLOW_TCP_DPORT = 0x16,
	FLOW_HAS = 0x18, /* reserved in the source: FLOW_HAS_* of a layer */
	FLOW_TTL = 0x1b,
	FLOW_UDP_SPORT = 0x1c,
	FLOW_UDP_DPORT = 0x1e,
	FLOW_SRC_IP = 0x20, /* IPv4 in the last 4 of 16 bytes */
	FLOW_DST_IP = 0x30,
};
#define FLOW_VERSION_SHIFT 1u
enum {
	FLOW_BIT_CVLAN = 0x80,
	FLOW_BIT_SVLAN = 0x40,
	FLOW_BIT_FRAG = 0x20,
	FLOW_BIT_VERSION = 0xf << FLOW_VERSION_SHIFT,
	FLOW_BIT_TCP_NS = 0x01,
};
enum { FLOW_HAS_L2 = 1, FLOW_HAS_VLAN = 2, FLOW_HAS_L3 = 4, FLOW_HAS_TCP = 8, FLOW_HAS_UDP = 0x10 };

/* Bytes of `misc`. */
enum {
	FLOW_GRE_BITS = 0x00, /* checksum, key, sequence number present */
	FLOW_SECOND_VLAN = 0x08,
	FLOW_SECOND_VLAN_INNER = 0x0a,
	FLOW_SECOND_KIND = 0x0c, /* cvlan, inner cvlan, svlan, inner svlan */
	FLOW_GRE_PROTO = 0x0e,
	FLOW_GRE_KEY = 0x10,
	FLOW_VNI = 0x14,
	FLOW_LABEL = 0x1c,
	FLOW_LABEL_INNER = 0x20,
	FLOW_MISC_HAS = 0x3f, /* reserved in the source: FLOW_HAS_* of misc */
};
enum {
	FLOW_HAS_GRE = 1,
	FLOW_HAS_GRE_KEY = 2,
	FLOW_HAS_VXLAN = 4,
	FLOW_HAS_VLAN2 = 8,
	FLOW_HAS_VLAN2_INNER = 0x10,
	FLOW_HAS_LABEL = 0x20,
	FLOW_HAS_LABEL_INNER = 0x40
};

#define FLOW_SECTION_BYTES 64u
#define FLOW_WORD_CNT      24u
struct flow_fields {
	union {
		struct {
			uint8_t outer[FLOW_SECTION_BYTES];
			uint8_t misc[FLOW_SECTION_BYTES];
			uint8_t inner[FLOW_SECTION_BYTES];
		};
		uint8_t byte[3 * FLOW_SECTION_BYTES];
		uint64_t word[FLOW_WORD_CNT];
	};
};

/* A mask of zeros matches everything. The value has no bit that the mask has not. */
struct flow_match {
	struct flow_fields val, mask;
};

/* Tables of the root, in order: per priority one for rules that pass the frame on (dont_trap) and
 * one for those that take it, and at the end one for multicast (Linux hw/mlx5/fs.c,
 * ib_prio_to_core_prio). */
#define FLOW_PRIORITY_CNT    16u
#define FLOW_LEVEL(prio, on) ((uint8_t)(2u * (prio) + !(on)))
#define FLOW_LEVEL_MULTICAST (2u * FLOW_PRIORITY_CNT)
#define FLOW_LEVEL_CNT       (FLOW_LEVEL_MULTICAST + 1)

struct hca_flow {
	struct hca_obj o;
	struct hca_flow *next, **at; /* N: its list, and what points to it there */
	struct flow_fte *fte;        /* N: of FLOW_NORMAL; shared with its equals */
	struct hca_tir *tir;         /* NULL: nobody gets the frame */
	struct hca_matcher *matcher; /* NULL: from a verbs request */
	struct hca_flow_cnt *cnt;    /* NULL: nobody counts its frames */
	uint8_t type;                /* enum flow_type */
	uint8_t level;               /* FLOW_NORMAL: FLOW_LEVEL */
	bool drop, miss;             /* miss: the frame is left to the kernel's rules */
	bool dont_trap;              /* the TIR gets a copy and matching goes on */
	bool has_tag;
	uint32_t tag; /* reported in the CQE; 0: none */
};

#endif
