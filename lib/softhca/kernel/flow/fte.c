/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * One constructor for all flow rules, and the check of what they match (fte.h). verbs.c and match.c
 * call it; nic/eth/fields.c lays out a frame the same way.
 */
#include "softhca/kernel/flow/fte.h"

#include <errno.h>

#include "softhca/kernel/ctl.h"
#include "softhca/nic/nic.h"

/* The fields that the NIC compares: bytes first..last, with these bits of each, need a header. */
struct fte_field {
	uint8_t first, last, bits, needs;
};

static const struct fte_field layer_field[] = {
	{FLOW_SMAC, FLOW_FIRST_VLAN - 1, 0xff, FLOW_HAS_L2},
	{FLOW_FIRST_VLAN, FLOW_FIRST_VLAN + 1, 0xff, FLOW_HAS_VLAN},
	{FLOW_PROTO, FLOW_TOS, 0xff, FLOW_HAS_L3},
	{FLOW_BITS, FLOW_BITS, FLOW_BIT_CVLAN | FLOW_BIT_SVLAN, FLOW_HAS_L2},
	{FLOW_BITS, FLOW_BITS, FLOW_BIT_FRAG, FLOW_HAS_L3},
	{FLOW_BITS, FLOW_BITS, FLOW_BIT_VERSION, 0},
	{FLOW_BITS, FLOW_BITS, FLOW_BIT_TCP_NS, FLOW_HAS_TCP},
	{FLOW_TCP_FLAGS, FLOW_TCP_DPORT + 1, 0xff, FLOW_HAS_TCP},
	{FLOW_TTL, FLOW_TTL, 0xff, FLOW_HAS_L3},
	{FLOW_UDP_SPORT, FLOW_UDP_DPORT + 1, 0xff, FLOW_HAS_UDP},
	{FLOW_SRC_IP, FLOW_DST_IP + 15, 0xff, FLOW_HAS_L3},
};

static const struct fte_field misc_field[] = {
	{FLOW_GRE_BITS, FLOW_GRE_BITS, 0xb0, FLOW_HAS_GRE},
	{FLOW_SECOND_VLAN, FLOW_SECOND_VLAN + 1, 0xff, FLOW_HAS_VLAN2},
	{FLOW_SECOND_VLAN_INNER, FLOW_SECOND_VLAN_INNER + 1, 0xff, FLOW_HAS_VLAN2_INNER},
	{FLOW_SECOND_KIND, FLOW_SECOND_KIND, 0xf0, 0},
	{FLOW_GRE_PROTO, FLOW_GRE_PROTO + 1, 0xff, FLOW_HAS_GRE},
	{FLOW_GRE_KEY, FLOW_GRE_KEY + 3, 0xff, FLOW_HAS_GRE_KEY},
	{FLOW_VNI, FLOW_VNI + 2, 0xff, FLOW_HAS_VXLAN},
	{FLOW_LABEL + 1, FLOW_LABEL + 1, 0x0f, FLOW_HAS_LABEL},
	{FLOW_LABEL + 2, FLOW_LABEL + 3, 0xff, FLOW_HAS_LABEL},
	{FLOW_LABEL_INNER + 1, FLOW_LABEL_INNER + 1, 0x0f, FLOW_HAS_LABEL_INNER},
	{FLOW_LABEL_INNER + 2, FLOW_LABEL_INNER + 3, 0xff, FLOW_HAS_LABEL_INNER},
};

/* Which bits of byte `at` are compared, and which headers those of `mask` need. */
static uint8_t fte_byte_bits(const struct fte_field *f, uint32_t cnt, uint32_t at, uint8_t mask,
			     uint8_t *needs)
{
	uint8_t bits = 0;

	for (uint32_t i = 0; i < cnt; i++) {
		if (at < f[i].first || at > f[i].last)
			continue;
		bits |= f[i].bits;
		*needs |= mask & f[i].bits ? f[i].needs : 0;
	}
	return bits;
}

static int fte_section_check(struct flow_match *m, uint32_t section, const struct fte_field *field,
			     uint32_t cnt, uint8_t has_at)
{
	uint8_t *val = m->val.byte + section * FLOW_SECTION_BYTES;
	uint8_t *mask = m->mask.byte + section * FLOW_SECTION_BYTES;
	uint8_t needs = 0;

	for (uint32_t i = 0; i < FLOW_SECTION_BYTES; i++)
		if (val[i] & ~mask[i] || mask[i] & ~fte_byte_bits(field, cnt, i, mask[i], &needs))
			return -EINVAL;
	val[has_at] |= needs;
	mask[has_at] |= needs;
	return 0;
}

int fte_match_check(struct flow_match *m)
{
	const uint32_t layer_cnt = SPW_ARRAY_CNT(layer_field), misc_cnt = SPW_ARRAY_CNT(misc_field);
	int rc = fte_section_check(m, 0, layer_field, layer_cnt, FLOW_HAS);

	rc = rc ? rc : fte_section_check(m, 1, misc_field, misc_cnt, FLOW_MISC_HAS);
	return rc ? rc : fte_section_check(m, 2, layer_field, layer_cnt, FLOW_HAS);
}

int hca_flow_make(struct hca_ctx *ctx, const struct hca_flow *want, const struct flow_match *match,
		  struct hca_flow **flow_out)
{
	struct hca_flow *f = hca_obj_new(ctx, HCA_FLOW, sizeof(*f), 0);
	struct hca_obj o;
	int rc;

	if (!f)
		return -ENOMEM;
	o = f->o;
	*f = *want;
	f->o = o;
	rc = nic_flow_create(f, match);
	if (rc) {
		hca_obj_free(&f->o);
		return rc;
	}
	if (f->tir)
		f->tir->o.use_cnt++;
	if (f->matcher)
		f->matcher->o.use_cnt++;
	if (f->cnt)
		hca_obj_hold(&f->o, &f->cnt->o);
	*flow_out = f;
	return 0;
}

/* Out of the tables first: the next frame is not matched against it. */
void hca_flow_free(struct hca_obj *o)
{
	struct hca_flow *f = (struct hca_flow *)o;

	nic_flow_destroy(f);
	if (f->tir)
		f->tir->o.use_cnt--;
	if (f->matcher)
		f->matcher->o.use_cnt--;
	hca_obj_free(o);
}
