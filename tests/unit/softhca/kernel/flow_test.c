/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Flow rules: created by the command (kernel/flow/verbs.c), matched against frames
 * (nic/eth/flow.c).
 */
#include "kit.h"

#include "softhca/hca_flow.h"
#include "softhca/nic/eth/flow.h"

/* Ethernet, VLAN 7, IPv4, UDP from port 1000 to 4791 */
static const uint8_t udp4[] = {2, 0, 0,    0, 0, 1,  2,    0,    0,    0,    0,  2,  0x81, 0, 0,  7,
			       8, 0, 0x45, 0, 0, 28, 0,    0,    0x40, 0,    64, 17, 0,    0, 10, 0,
			       0, 1, 10,   0, 0, 2,  0x03, 0xe8, 0x12, 0xb7, 0,  8,  0,    0};

/* The request, followed by its specs. */
union rule {
	struct ib_uverbs_create_flow req;
	uint8_t bytes[sizeof(struct ib_uverbs_create_flow) + 256];
};

static void spec(union rule *r, uint32_t type, const void *val, const void *mask, size_t bytes)
{
	struct ib_uverbs_flow_spec_hdr h = {.type = type,
					    .size = (uint16_t)(sizeof(h) + 2 * bytes)};
	uint8_t *at = r->bytes + sizeof(r->req) + r->req.flow_attr.size;

	memcpy(at, &h, sizeof(h));
	if (bytes) {
		memcpy(at + sizeof(h), val, bytes);
		memcpy(at + sizeof(h) + bytes, mask, bytes);
	}
	r->req.flow_attr.size = (uint16_t)(r->req.flow_attr.size + h.size);
	r->req.flow_attr.num_of_specs++;
}

static union rule rule_for(uint32_t qp, uint32_t type, uint16_t priority)
{
	return (union rule){.req = {.qp_handle = qp,
				    .flow_attr = {.type = type, .priority = priority, .port = 1}}};
}

static int add(struct kit *k, const union rule *r, uint32_t *handle)
{
	struct ib_uverbs_create_flow_resp resp;
	int rc = kit_cmd(k, IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_EX_CMD_CREATE_FLOW, r,
			 sizeof(r->req) + r->req.flow_attr.size, &resp, sizeof(resp));

	if (handle)
		*handle = resp.flow_handle;
	return rc;
}

static void spec_udp_dst(union rule *r, uint16_t port)
{
	const struct ib_uverbs_flow_tcp_udp_filter v = {.dst_port = spw_cpu_to_be16(port)},
						   m = {.dst_port = 0xffff};

	spec(r, 0x41, &v, &m, sizeof(v));
}

static uint32_t steer(struct kit *k, const uint8_t *frame, size_t len, struct flow_hit *hit)
{
	struct flow_key key;

	flow_parse(frame, (uint32_t)len, &key);
	flow_steer(k->dev, &key, hit);
	return hit->dst_cnt;
}

static void parse(void **state)
{
	struct flow_key k;

	(void)state;
	flow_parse(udp4, sizeof(udp4), &k);
	assert_true(k.has_vlan && k.vlan_tci == 7);
	assert_int_equal(k.ether_type, 0x800);
	assert_int_equal(k.l3, FLOW_L3_IPV4);
	assert_int_equal(k.l4, FLOW_L4_UDP);
	assert_int_equal(k.src_port, 1000);
	assert_int_equal(k.dst_port, 4791);
	assert_int_equal(k.l4_off, 38);
	/* Whatever is cut off is absent, and never read: each cut lies at the end of its own
	 * memory. */
	for (size_t n = 0; n < sizeof(udp4); n++) {
		uint8_t *cut = malloc(n ? n : 1);

		assert_non_null(cut);
		memcpy(cut, udp4, n);
		flow_parse(cut, (uint32_t)n, &k);
		assert_true(k.l4 != FLOW_L4_UDP || n == sizeof(udp4));
		free(cut);
	}
}

static void priorities(void **state)
{
	struct ib_uverbs_create_qp_resp a, b, c;
	struct flow_hit hit;
	struct ib_uverbs_destroy_flow d = {0};
	union rule r;
	struct kit k;
	uint32_t cq, fa;

	(void)state;
	kit_open(&k);
	assert_int_equal(kit_cq(&k, -1, &cq), 0);
	assert_int_equal(kit_qp(&k, IB_UVERBS_QPT_RAW_PACKET, cq, &a), 0);
	assert_int_equal(kit_qp(&k, IB_UVERBS_QPT_RAW_PACKET, cq, &b), 0);
	assert_int_equal(kit_qp(&k, IB_UVERBS_QPT_RAW_PACKET, cq, &c), 0);
	assert_int_equal(steer(&k, udp4, sizeof(udp4), &hit), 0);

	r = rule_for(c.qp_handle, FLOW_ALL_DEFAULT, 0);
	assert_int_equal(add(&k, &r, NULL), 0);
	assert_int_equal(steer(&k, udp4, sizeof(udp4), &hit), 1);
	assert_int_equal(hit.dst[0].tir->qp->qpn, c.qpn);

	r = rule_for(b.qp_handle, FLOW_NORMAL, 1);
	spec_udp_dst(&r, 4791);
	assert_int_equal(add(&k, &r, NULL), 0);
	r = rule_for(a.qp_handle, FLOW_NORMAL, 0);
	spec_udp_dst(&r, 4791);
	assert_int_equal(add(&k, &r, &fa), 0);
	assert_int_equal(steer(&k, udp4, sizeof(udp4), &hit), 1);
	assert_int_equal(hit.dst[0].tir->qp->qpn, a.qpn);

	/* A QP with a rule is busy; without the rule the next rule matches. */
	assert_int_equal(kit_cmd(&k, IB_USER_VERBS_CMD_DESTROY_QP,
				 &(struct ib_uverbs_destroy_qp){.qp_handle = a.qp_handle},
				 sizeof(struct ib_uverbs_destroy_qp), &cq, sizeof(cq)),
			 -EBUSY);
	d.flow_handle = fa;
	assert_int_equal(
		kit_cmd(&k, IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_EX_CMD_DESTROY_FLOW, &d,
			sizeof(d), NULL, 0),
		0);
	assert_int_equal(steer(&k, udp4, sizeof(udp4), &hit), 1);
	assert_int_equal(hit.dst[0].tir->qp->qpn, b.qpn);

	/* A sniffer gets a copy, of sent frames as well. */
	r = rule_for(c.qp_handle, FLOW_SNIFFER, 0);
	assert_int_equal(add(&k, &r, NULL), 0);
	assert_int_equal(steer(&k, udp4, sizeof(udp4), &hit), 2);
	flow_sniff(k.dev, &hit);
	assert_int_equal(hit.dst_cnt, 1);

	/* Dropped; the sniffer still gets its copy. */
	r = rule_for(a.qp_handle, FLOW_NORMAL, 0);
	spec(&r, 0x1001, NULL, NULL, 0);
	assert_int_equal(add(&k, &r, NULL), 0);
	assert_int_equal(steer(&k, udp4, sizeof(udp4), &hit), 1);
	assert_true(hit.dropped);
	kit_close(&k);
}

/* One rule at a time and one frame: a rule with one different field does not match. */
static void layers(void **state)
{
	static const struct {
		uint32_t type;
		size_t bytes;
		uint8_t val[12], mask[12];
		bool match;
	} t[] = {
		{0x20, 16 - 4, {2, 0, 0, 0, 0, 1}, {255, 255, 255, 255, 255, 255}, true},
		{0x20, 16 - 4, {2, 0, 0, 0, 0, 9}, {255, 255, 255, 255, 255, 255}, false},
		{0x20, 16 - 4, {2, 0, 0, 0, 0, 0}, {255, 255, 255, 255, 255, 0}, true},
		{0x30,
		 8,
		 {10, 0, 0, 1, 10, 0, 0, 2},
		 {255, 255, 255, 255, 255, 255, 255, 255},
		 true},
		{0x30,
		 8,
		 {10, 0, 0, 1, 10, 0, 0, 3},
		 {255, 255, 255, 255, 255, 255, 255, 255},
		 false},
		{0x30, 8, {10, 0, 0, 1, 10, 0, 0, 0}, {255, 255, 255, 255, 255, 255, 255, 0}, true},
		{0x30, 12, {[8] = 17}, {[8] = 255}, true},
		{0x30, 12, {[8] = 6}, {[8] = 255}, false},
		{0x31, 12, {0}, {0}, false},
		{0x41, 4, {0x12, 0xb7, 0x03, 0xe8}, {255, 255, 255, 255}, true},
		{0x41, 4, {0x12, 0xb8}, {255, 255}, false},
		{0x40, 4, {0}, {0}, false},
	};
	struct ib_uverbs_create_qp_resp qp;
	struct kit k;
	uint32_t cq;

	(void)state;
	kit_open(&k);
	assert_int_equal(kit_cq(&k, -1, &cq), 0);
	assert_int_equal(kit_qp(&k, IB_UVERBS_QPT_RAW_PACKET, cq, &qp), 0);
	for (size_t i = 0; i < SPW_ARRAY_CNT(t); i++) {
		union rule r = rule_for(qp.qp_handle, FLOW_NORMAL, 0);
		struct ib_uverbs_destroy_flow d = {0};
		struct flow_hit hit;

		spec(&r, t[i].type, t[i].val, t[i].mask, t[i].bytes);
		assert_int_equal(add(&k, &r, &d.flow_handle), 0);
		if (steer(&k, udp4, sizeof(udp4), &hit) != t[i].match)
			fail_msg("row %zu", i);
		assert_int_equal(
			kit_cmd(&k,
				IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_EX_CMD_DESTROY_FLOW,
				&d, sizeof(d), NULL, 0),
			0);
	}
	kit_close(&k);
}

static void refusals(void **state)
{
	struct ib_uverbs_create_qp_resp raw, rc;
	struct kit k;
	union rule r;
	uint8_t x[64] = {0};
	uint32_t cq;

	(void)state;
	kit_open(&k);
	assert_int_equal(kit_cq(&k, -1, &cq), 0);
	assert_int_equal(kit_qp(&k, IB_UVERBS_QPT_RAW_PACKET, cq, &raw), 0);
	assert_int_equal(kit_qp(&k, IB_UVERBS_QPT_RC, cq, &rc), 0);
	r = rule_for(rc.qp_handle, FLOW_NORMAL, 0);
	assert_int_equal(add(&k, &r, NULL), -EINVAL);
	r = rule_for(raw.qp_handle, 4, 0);
	assert_int_equal(add(&k, &r, NULL), -EINVAL);
	r = rule_for(raw.qp_handle, FLOW_NORMAL, 99);
	assert_int_equal(add(&k, &r, NULL), -ENOMEM);
	r = rule_for(raw.qp_handle, FLOW_NORMAL, 0);
	spec(&r, 0x51, x, x, 8); /* GRE */
	assert_int_equal(add(&k, &r, NULL), -EOPNOTSUPP);
	r = rule_for(raw.qp_handle, FLOW_NORMAL, 0);
	x[0] = 1; /* a value that its mask has not */
	spec(&r, 0x20, x, x + 16, 16);
	assert_int_equal(add(&k, &r, NULL), -EINVAL);
	r = rule_for(raw.qp_handle, FLOW_NORMAL, 0);
	spec_udp_dst(&r, 1);
	assert_int_equal(add(&k, &r, NULL), 0);
	spec(&r, 0x1001, NULL, NULL, 0); /* the same frames, dropped */
	assert_int_equal(add(&k, &r, NULL), -EEXIST);
	r = rule_for(raw.qp_handle, FLOW_NORMAL, 0);
	spec_udp_dst(&r, 1);
	r.req.flow_attr.num_of_specs = 2;
	assert_int_equal(add(&k, &r, NULL), -EINVAL);
	r = rule_for(raw.qp_handle, FLOW_ALL_DEFAULT, 0);
	spec_udp_dst(&r, 1);
	assert_int_equal(add(&k, &r, NULL), -EINVAL);
	kit_close(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(parse), cmocka_unit_test(priorities),
					   cmocka_unit_test(layers), cmocka_unit_test(refusals)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
