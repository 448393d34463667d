/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What a value and a mask must be so that the NIC compares all that they name.
 */
#ifndef SPW_SOFTHCA_FTE_H
#define SPW_SOFTHCA_FTE_H

#include "softhca/hca_flow.h"

/* Purpose: checks a match of the application, and adds to it that the headers whose fields it names
 *          are there: without, a field that must be 0 would match frames that lack it.
 * Errors:  -EINVAL: the mask has a bit that the NIC does not compare, or the value one that the
 * mask has not (Linux fs_core.c, check_valid_spec). Thread: any. */
int fte_match_check(struct flow_match *m);

/* A matcher (mlx5dv_create_flow_matcher): what its rules compare, and in which table. It is checked
 * when a rule is made, as the card is asked no sooner. */
struct hca_matcher {
	struct hca_obj o;
	struct flow_fields mask;
	bool mask_beyond; /* it has bits beyond those sections */
	uint8_t criteria; /* sections that are compared; 1, 2, 4: outer, misc, inner */
	uint8_t type;     /* enum flow_type */
	uint8_t table;    /* MLX5_IB_UAPI_FLOW_TABLE_TYPE_* */
	uint16_t priority;
};

/* Purpose: the rule under one more name. want: type, level, tir, matcher, cnt and what to do;
 * match: NULL unless FLOW_NORMAL. Errors:  -ENOMEM; -EEXIST: a rule with this match and level does
 * otherwise, or has another tag; -ENOSPC: the level is full. Locked. */
int hca_flow_make(struct hca_ctx *ctx, const struct hca_flow *want, const struct flow_match *match,
		  struct hca_flow **flow_out);

#endif
