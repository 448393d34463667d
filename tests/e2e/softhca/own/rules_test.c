/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Flow rules as programs make them by mlx5dv_create_flow: each is judged by where frames go.
 */
#include <errno.h>
#include <string.h>

#include "rules_kit.h"

/* ---- what is compared ---- */

struct part {
	uint16_t at;
	uint8_t bytes, mask; /* of each byte; 0: whole */
	uint8_t val[16];
};

static const struct {
	const char *name;
	struct part part[2];
	enum kind like, unlike;
} fields[] = {
	{"smac", {{0, 6, 0, {2, 0, 0, 0, 0, 9}}}, PLAIN, OTHER},
	{"ethertype", {{6, 2, 0, {0x86, 0xdd}}}, SIX, PLAIN},
	{"ethertype behind a tag", {{6, 2, 0, {8, 0}}, {0x12, 1, 0x80, {0x80}}}, TAGGED, PLAIN},
	{"first_vid", {{0xf, 1, 0, {0x23}}}, TAGGED, PLAIN},
	{"first_prio", {{0xe, 1, 0xe0, {0x60}}}, TAGGED, PLAIN},
	{"ip_protocol", {{0x10, 1, 0, {6}}}, TCP, PLAIN},
	{"ip_dscp", {{0x11, 1, 0xfc, {0x28}}}, OTHER, PLAIN},
	{"frag", {{0x12, 1, 0x20, {0x20}}}, FRAGMENT, PLAIN},
	{"no fragment", {{0x12, 1, 0x20, {0}}, {0x10, 1, 0, {17}}}, PLAIN, FRAGMENT},
	{"ip_version", {{0x12, 1, 0x1e, {6 << 1}}}, SIX, PLAIN},
	{"tcp_flags", {{0x13, 1, 0x02, {0x02}}}, TCP, PLAIN},
	{"tcp_dport", {{0x16, 2, 0, {0, 7}}}, TCP, PLAIN},
	{"ttl", {{0x1b, 1, 0, {64}}}, PLAIN, OTHER},
	{"udp_sport", {{0x1c, 2, 0, {1001 >> 8, 1001 & 0xff}}}, PLAIN, OTHER},
	{"udp_dport", {{0x1e, 2, 0, {0, 7}}}, PLAIN, TCP},
	{"src IPv4", {{0x2c, 4, 0, {10, 0, 0, 1}}}, PLAIN, OTHER},
	{"dst IPv4 /24", {{0x3c, 3, 0, {10, 0, 0}}}, PLAIN, SIX},
	{"dst IPv6", {{0x30, 16, 0, {0xfd, [15] = 6}}}, SIX, PLAIN},
	{"vni", {{MISC + 0x14, 3, 0, {0x12, 0x34, 0x56}}}, VXLAN, PLAIN},
	{"gre_protocol", {{MISC + 0xe, 2, 0, {8, 0}}}, GRE, PLAIN},
	{"gre_key", {{MISC + 0x10, 4, 0, {0xca, 0xfe, 0, 1}}}, GRE, VXLAN},
	{"IPv6 label",
	 {{MISC + 0x1d, 1, 0x0f, {1}}, {MISC + 0x1e, 2, 0, {0x23, 0x45}}},
	 SIX,
	 PLAIN},
	{"inner dst", {{INNER + 0x3c, 4, 0, {192, 168, 0, 2}}}, VXLAN, PLAIN},
	{"inner dst in GRE", {{INNER + 0x3c, 4, 0, {192, 168, 0, 2}}}, GRE, PLAIN},
	{"inner dmac", {{INNER + 8, 6, 0, {2, 0, 0, 0, 7, 7}}}, VXLAN, GRE},
	{"inner udp_dport, outer too",
	 {{INNER + 0x1e, 2, 0, {0, 99}}, {0x1e, 2, 0, {4789 >> 8, 4789 & 0xff}}},
	 VXLAN,
	 GRE},
};

/* A frame that the rule matches goes to B, all others to A; and all to A when it is destroyed. */
static void test_fields(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		struct param mask = {.bytes = 192}, val = {.bytes = 192};
		struct mlx5dv_flow_matcher *m;
		struct ibv_flow *f;

		print_message("%s\n", fields[i].name);
		for (uint32_t n = 0; n < 2; n++) {
			const struct part *p = &fields[i].part[n];

			memset(byte_of(&mask, p->at), p->mask ? p->mask : 0xff, p->bytes);
			memcpy(byte_of(&val, p->at), p->val, p->bytes);
		}
		m = matcher_make(&mask, 2);
		f = rule_make(m, &val, ACTIONS(TO(end_b.qp)), 1);
		assert_int_equal(sent_to(fields[i].like, NULL), END_B);
		assert_int_equal(sent_to(fields[i].unlike, NULL), END_A);
		rule_free(f, m);
		assert_int_equal(sent_to(fields[i].like, NULL), END_A);
	}
}

/* ---- what is done ---- */

/* UDP to 7, or any UDP. */
static struct mlx5dv_flow_matcher *udp(struct param *val, uint16_t priority, bool port)
{
	struct param mask;

	udp_param(&mask, val);
	if (port) {
		memset(byte_of(&mask, 0x1e), 0xff, 2);
		*byte_of(val, 0x1f) = 7;
	}
	return matcher_make(&mask, priority);
}

/* The lower number wins whichever was made first. */
static void test_priorities(void **state)
{
	(void)state;
	for (uint32_t first = 0; first < 2; first++) {
		struct mlx5dv_flow_matcher *m[2];
		struct ibv_flow *f[2];
		struct param val[2];
		uint32_t tag = 0;

		for (uint32_t i = 0; i < 2; i++)
			m[i] = udp(&val[i], (uint16_t)(i ? 5 : 3), true);
		for (uint32_t n = 0; n < 2; n++) {
			const uint32_t i = n ^ first;

			f[i] = i ? rule_make(m[i], &val[i], ACTIONS(TO(end_a.rss), TAG(55)), 2)
				 : rule_make(m[i], &val[i], ACTIONS(TO(end_b.qp)), 1);
		}
		assert_int_equal(sent_to(PLAIN, NULL), END_B);
		rule_free(f[0], m[0]);
		assert_int_equal(sent_to(PLAIN, &tag), END_A);
		assert_int_equal(tag, 55);
		rule_free(f[1], m[1]);
		assert_int_equal(sent_to(PLAIN, &tag), END_A);
		assert_int_equal(tag, 0);
	}
}

/* A miss leaves the frame to the kernel's rules: no rule below gets it. */
static void test_drop_and_miss(void **state)
{
	struct mlx5dv_flow_action_attr action[] = {DROP, MISS};
	struct mlx5dv_flow_matcher *m;
	struct param val;

	(void)state;
	for (uint32_t i = 0; i < 2; i++) {
		struct ibv_flow *f;

		m = udp(&val, 4, false);
		f = rule_make(m, &val, &action[i], 1);
		assert_int_equal(sent_to(PLAIN, NULL), NOBODY);
		assert_int_equal(sent_to(TCP, NULL), END_A);
		rule_free(f, m);
		assert_int_equal(sent_to(PLAIN, NULL), END_A);
	}
}

/* Rules of one value share tag and action, and each receiver gets a copy. */
static void test_equal_rules(void **state)
{
	struct mlx5dv_flow_matcher *m;
	struct ibv_flow *f[2];
	struct param val;
	uint32_t tag = 0;

	(void)state;
	m = udp(&val, 4, true);
	f[0] = rule_make(m, &val, ACTIONS(TO(end_a.rss), TAG(0xffffff)), 2);
	f[1] = rule_make(m, &val, ACTIONS(TO(end_b.qp), TAG(0xffffff)), 2);
	assert_int_equal(sent_to(PLAIN, &tag), END_A | END_B);
	assert_int_equal(tag, 0xffffff);
	assert_null(mlx5dv_create_flow(m, param_of(&val), 2, ACTIONS(TO(end_b.qp), TAG(1))));
	assert_int_equal(errno, EEXIST);
	assert_null(mlx5dv_create_flow(m, param_of(&val), 1, ACTIONS(DROP)));
	assert_int_equal(errno, EEXIST);
	assert_int_equal(mlx5dv_destroy_flow_matcher(m), EBUSY);
	rule_free(f[0], NULL);
	assert_int_equal(sent_to(PLAIN, NULL), END_B);
	rule_free(f[1], m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fields),
		cmocka_unit_test(test_priorities),
		cmocka_unit_test(test_drop_and_miss),
		cmocka_unit_test(test_equal_rules),
	};

	return cmocka_run_group_tests(tests, open_ends, close_ends);
}
