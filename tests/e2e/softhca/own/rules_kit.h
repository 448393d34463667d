/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Flow rules by libmlx5: two ends on one port, frames of several kinds, and where they go.
 *
 *   a rule --> end B, a raw QP         no rule but the lowest --> end A, a queue read by hand
 *
 * Places of fields: rdma-core's mlx5_ifc.h.
 */
#ifndef RULES_KIT_H
#define RULES_KIT_H

#include "raw_kit.h"

#define NOBODY      0u
#define END_A       1u
#define END_B       2u
#define PARAM_BYTES 1024u /* more than any mask has */
#define MISC        0x40u
#define INNER       0x80u

/* mlx5dv_flow_match_parameters with room; the library passes on `bytes` of it. */
struct param {
	size_t bytes;
	uint64_t word[PARAM_BYTES / 8];
};

#define TO(q)                                                     \
	{                                                         \
		.type = MLX5DV_FLOW_ACTION_DEST_IBV_QP, .qp = (q) \
	}
#define DROP                                    \
	{                                       \
		.type = MLX5DV_FLOW_ACTION_DROP \
	}
#define MISS                                            \
	{                                               \
		.type = MLX5DV_FLOW_ACTION_DEFAULT_MISS \
	}
#define TAG(v)                                                   \
	{                                                        \
		.type = MLX5DV_FLOW_ACTION_TAG, .tag_value = (v) \
	}
#define ACTIONS(...)                       \
	(struct mlx5dv_flow_action_attr[]) \
	{                                  \
		__VA_ARGS__                \
	}

/* PLAIN: from 02:00:00:00:00:09, 10.0.0.2, TTL 64, UDP to 7; OTHER has other fields of all these
 * headers. */
enum kind { PLAIN, OTHER, TAGGED, TCP, FRAGMENT, SIX, VXLAN, GRE };

/* The ends: A, whose lowest rule takes all frames to the port's address, and B. */
extern struct raw end_a;
extern struct kit_end end_b;

struct mlx5dv_flow_match_parameters *param_of(struct param *p);
uint8_t *byte_of(struct param *p, uint32_t at);

int open_ends(void **state);
int close_ends(void **state);

/* Sends a frame. Returns: END_A | END_B, who got it, and the tag that A read (NULL: not asked). */
unsigned sent_to(enum kind kind, uint32_t *tag_out);

/* A matcher whose criteria are the sections in which the mask has bits. */
struct mlx5dv_flow_matcher *matcher_make(struct param *mask, uint16_t priority);
struct ibv_flow *rule_make(struct mlx5dv_flow_matcher *m, struct param *val,
			   struct mlx5dv_flow_action_attr *action, size_t cnt);
/* m: NULL, or a matcher that goes too. */
void rule_free(struct ibv_flow *f, struct mlx5dv_flow_matcher *m);

/* The mask and the value of UDP, by its protocol number. */
void udp_param(struct param *mask, struct param *val);

#endif
