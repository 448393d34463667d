/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Random frames that know what they are made of, random rules by named fields, and whether a rule
 * matches a frame, decided from what the frame was made of: nothing here parses. Fields are placed
 * by their bit offsets in fte_match_param, as rdma-core's mlx5_ifc.h lists them.
 */
#ifndef SPW_TESTS_MATCH_RULES_H
#define SPW_TESTS_MATCH_RULES_H

#include <stdbool.h>
#include <stdint.h>

#define PARAM_BYTES 192u
#define TRUTH_BYTES 512u

struct truth_layer {
	bool has_l2, has_l3, frag;
	uint8_t smac[6], dmac[6];
	uint32_t tag_cnt;
	uint16_t tag_type[2], tci[2], ether_type;
	uint8_t version, tos, ttl, proto; /* version 0: no IP */
	uint8_t src[16], dst[16];
	uint32_t label;
	uint8_t l4; /* 6, 17; 0: neither, or a fragment */
	uint16_t sport, dport, flags;
};

struct truth {
	struct truth_layer outer, inner; /* inner: has_l2 and has_l3 false without a tunnel */
	bool has_gre, has_vni;
	uint8_t gre_bits; /* as in the header's first byte */
	uint16_t gre_proto;
	uint32_t gre_key, vni;
	uint8_t frame[TRUTH_BYTES];
	uint32_t frame_bytes;
};

#define RULE_FIELDS 5u

struct rule {
	uint8_t mask[PARAM_BYTES], val[PARAM_BYTES];
	uint8_t criteria;
	uint32_t field_cnt;
	uint8_t who[RULE_FIELDS], what[RULE_FIELDS];
};

uint32_t match_random(uint64_t *state, uint32_t below);
void truth_make(uint64_t *state, struct truth *out);
/* Up to five fields, with the values of a frame or others. */
void rule_make(uint64_t *state, const struct truth *like, struct rule *out);
bool rule_matches(const struct rule *r, const struct truth *t);

#endif
