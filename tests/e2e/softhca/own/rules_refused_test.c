/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What cards without software steering refuse of flow rules, by errno, and what mlx5dv_dr does on
 * them: rules of the root table.
 *
 * Errnos: Linux drivers/infiniband/hw/mlx5/fs.c, and where no command reaches the kernel
 * rdma-core's providers/mlx5.
 */
#include <errno.h>

#include "rules_kit.h"

/* ---- what is refused ---- */

enum act { TO_B, TO_RC, TO_DROP, TO_MISS, WITH_TAG, LONG_TAG, ACTS };

static const struct {
	uint32_t acts; /* bits of enum act */
	uint16_t mask_at, val_at, priority;
	uint8_t mask, val, criteria;
	int table; /* enum mlx5dv_flow_table_type + 1; 0: none is named */
	int rc;
} refused[] = {
	{1 << TO_B | 1 << WITH_TAG, .rc = 0},
	{1 << TO_B, .priority = 15, .rc = 0},
	{1 << TO_B, .priority = 16, .rc = ENOMEM},
	{1 << TO_RC, .rc = EINVAL},
	{1 << TO_B | 1 << LONG_TAG, .rc = EINVAL},
	{1 << WITH_TAG, .rc = EINVAL},
	{1 << TO_B | 1 << TO_DROP, .rc = EOPNOTSUPP},             /* libmlx5 */
	{1 << TO_DROP | 1 << TO_MISS, .rc = EOPNOTSUPP},          /* libmlx5 */
	{1 << WITH_TAG | 1 << LONG_TAG, .rc = EINVAL},            /* libmlx5: two tags */
	{1 << TO_B, .mask_at = 0x1b, .mask = 0xff, .rc = EINVAL}, /* no criteria */
	{1 << TO_B, .mask_at = 0x1a, .mask = 0xff, .criteria = 1, .rc = EINVAL}, /* a hole */
	{1 << TO_B, .mask_at = 0xc0, .mask = 1, .criteria = 8, .rc = EINVAL},    /* MPLS */
	{1 << TO_B, .criteria = 0x20, .rc = EINVAL},
	{1 << TO_B, .val_at = 0x1b, .val = 1, .criteria = 1, .rc = EINVAL}, /* outside the mask */
	{1 << TO_DROP, .table = MLX5DV_FLOW_TABLE_TYPE_NIC_TX + 1, .rc = EOPNOTSUPP},
	{0, .table = MLX5DV_FLOW_TABLE_TYPE_NIC_TX + 1, .rc = EOPNOTSUPP},
	{1 << TO_B, .table = MLX5DV_FLOW_TABLE_TYPE_NIC_TX + 1, .rc = EINVAL},
	{1 << TO_DROP, .table = MLX5DV_FLOW_TABLE_TYPE_FDB + 1, .rc = EOPNOTSUPP},
	{1 << TO_B, .table = MLX5DV_FLOW_TABLE_TYPE_FDB + 1, .rc = EINVAL},
};

/* A matcher is refused when a rule is made of it: the kernel asks the card no sooner. */
static void test_refused_rules(void **state)
{
	struct kit_end rc;

	(void)state;
	kit_end_open(&end_a.k, &rc, &(struct kit_how){0});
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		struct mlx5dv_flow_action_attr all[ACTS] = {TO(end_b.qp), TO(rc.qp), DROP,
							    MISS,         TAG(5),    TAG(1u << 24)},
					       some[ACTS];
		struct param mask = {.bytes = 256}, val = {.bytes = 256};
		struct mlx5dv_flow_matcher_attr attr = {
			.type = IBV_FLOW_ATTR_NORMAL,
			.priority = refused[i].priority,
			.match_criteria_enable = refused[i].criteria,
			.match_mask = param_of(&mask),
			.comp_mask = refused[i].table ? MLX5DV_FLOW_MATCHER_MASK_FT_TYPE : 0,
			.ft_type = (enum mlx5dv_flow_table_type)(refused[i].table - 1)};
		struct mlx5dv_flow_matcher *m;
		struct ibv_flow *f;
		size_t cnt = 0;

		for (uint32_t n = 0; n < ACTS; n++)
			if (refused[i].acts >> n & 1)
				some[cnt++] = all[n];
		*byte_of(&mask, refused[i].mask_at) = refused[i].mask;
		*byte_of(&val, refused[i].val_at) = refused[i].val;
		m = mlx5dv_create_flow_matcher(end_a.k.ctx, &attr);
		assert_non_null(m);
		errno = 0;
		f = mlx5dv_create_flow(m, param_of(&val), cnt, some);
		if ((f ? 0 : errno) != refused[i].rc)
			fail_msg("row %zu: errno %d", i, f ? 0 : errno);
		if (f)
			assert_int_equal(ibv_destroy_flow(f), 0);
		assert_int_equal(mlx5dv_destroy_flow_matcher(m), 0);
	}
	kit_end_close(&rc);
	assert_int_equal(sent_to(PLAIN, NULL), END_A);
}

static void test_refused_matchers(void **state)
{
	struct param mask = {.bytes = PARAM_BYTES};
	struct mlx5dv_flow_matcher_attr attr = {.type = IBV_FLOW_ATTR_SNIFFER,
						.match_mask = param_of(&mask)};
	const uint64_t action[1] = {0};

	(void)state;
	assert_null(mlx5dv_create_flow_matcher(end_a.k.ctx, &attr));
	assert_int_equal(errno, EOPNOTSUPP); /* libmlx5 */
	attr.type = IBV_FLOW_ATTR_NORMAL;
	assert_null(mlx5dv_create_flow_matcher(end_a.k.ctx, &attr));
	assert_int_equal(errno, EINVAL); /* longer than any mask */
	mask.bytes = 0;
	assert_null(mlx5dv_create_flow_matcher(end_a.k.ctx, &attr));
	assert_int_equal(errno, EINVAL);
	mask.bytes = 64;
	attr.comp_mask = MLX5DV_FLOW_MATCHER_MASK_FT_TYPE;
	attr.flags = IBV_FLOW_ATTR_FLAGS_EGRESS;
	assert_null(mlx5dv_create_flow_matcher(end_a.k.ctx, &attr));
	assert_int_equal(errno, EINVAL); /* the table is named twice */
	assert_null(mlx5dv_create_flow_action_modify_header(end_a.k.ctx, sizeof(action),
							    (uint64_t *)(uintptr_t)action,
							    MLX5DV_FLOW_TABLE_TYPE_NIC_RX));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_null(mlx5dv_create_flow_action_packet_reformat(
		end_a.k.ctx, 0, NULL, MLX5DV_FLOW_ACTION_PACKET_REFORMAT_TYPE_L2_TUNNEL_TO_L2,
		MLX5DV_FLOW_TABLE_TYPE_NIC_RX));
	assert_int_equal(errno, EOPNOTSUPP);
}

/* ---- mlx5dv_dr: the root table and nothing else ---- */

static struct mlx5dv_dr_matcher *dr_udp(struct mlx5dv_dr_table *table, struct param *val)
{
	struct mlx5dv_dr_matcher *m;
	struct param mask;

	udp_param(&mask, val);
	m = mlx5dv_dr_matcher_create(table, 3, 1, param_of(&mask));
	assert_non_null(m);
	return m;
}

static void dr_refuses(struct mlx5dv_dr_matcher *m, struct param *val, struct mlx5dv_dr_action *a,
		       int rc)
{
	assert_non_null(a);
	errno = 0;
	assert_null(mlx5dv_dr_rule_create(m, param_of(val), 1, &a));
	assert_int_equal(errno, rc);
	assert_int_equal(mlx5dv_dr_action_destroy(a), 0);
}

static void test_dr_root(void **state)
{
	struct mlx5dv_dr_domain *rx =
		mlx5dv_dr_domain_create(end_a.k.ctx, MLX5DV_DR_DOMAIN_TYPE_NIC_RX);
	struct mlx5dv_dr_table *root;
	struct mlx5dv_dr_action *action[2];
	struct mlx5dv_dr_matcher *m;
	struct mlx5dv_dr_rule *rule;
	struct param val;
	uint32_t tag = 0;

	(void)state;
	assert_non_null(rx);
	assert_null(mlx5dv_dr_table_create(rx, 1));
	assert_int_equal(errno, EOPNOTSUPP);
	root = mlx5dv_dr_table_create(rx, 0);
	assert_non_null(root);
	m = dr_udp(root, &val);
	action[0] = mlx5dv_dr_action_create_dest_ibv_qp(end_a.rss);
	action[1] = mlx5dv_dr_action_create_tag(77);
	rule = mlx5dv_dr_rule_create(m, param_of(&val), 2, action);
	assert_non_null(rule);
	assert_int_equal(sent_to(PLAIN, &tag), END_A);
	assert_int_equal(tag, 77);
	assert_int_equal(sent_to(TCP, &tag), END_A);
	assert_int_equal(tag, 0);
	assert_int_equal(mlx5dv_dr_matcher_destroy(m), EBUSY);
	assert_int_equal(mlx5dv_dr_rule_destroy(rule), 0);
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(mlx5dv_dr_action_destroy(action[i]), 0);
	action[0] = mlx5dv_dr_action_create_drop();
	rule = mlx5dv_dr_rule_create(m, param_of(&val), 1, action);
	assert_non_null(rule);
	assert_int_equal(sent_to(PLAIN, NULL), NOBODY);
	assert_int_equal(mlx5dv_dr_rule_destroy(rule), 0);
	assert_int_equal(mlx5dv_dr_action_destroy(action[0]), 0);
	assert_int_equal(sent_to(PLAIN, NULL), END_A);
	assert_int_equal(mlx5dv_dr_matcher_destroy(m), 0);
	assert_int_equal(mlx5dv_dr_table_destroy(root), 0);
	assert_int_equal(mlx5dv_dr_domain_destroy(rx), 0);
}

/* Sent frames and switches have a domain and a root table; rules find that no such table is there.
 */
static void test_dr_refused(void **state)
{
	static const enum mlx5dv_dr_domain_type type[] = {MLX5DV_DR_DOMAIN_TYPE_NIC_RX,
							  MLX5DV_DR_DOMAIN_TYPE_NIC_TX,
							  MLX5DV_DR_DOMAIN_TYPE_FDB};

	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		struct mlx5dv_dr_domain *domain = mlx5dv_dr_domain_create(end_a.k.ctx, type[i]);
		struct mlx5dv_dr_table *root;
		struct mlx5dv_dr_matcher *m;
		__be64 change = 0;
		struct param val;

		assert_non_null(domain);
		root = mlx5dv_dr_table_create(domain, 0);
		assert_non_null(root);
		m = dr_udp(root, &val);
		if (i)
			dr_refuses(m, &val, mlx5dv_dr_action_create_drop(), EOPNOTSUPP);
		else
			dr_refuses(m, &val, mlx5dv_dr_action_create_tag(3), EINVAL);
		dr_refuses(m, &val, mlx5dv_dr_action_create_pop_vlan(), ENOTSUP);
		assert_null(mlx5dv_dr_action_create_dest_table(root));
		assert_int_equal(errno, EINVAL);
		assert_null(mlx5dv_dr_action_create_modify_header(
			domain, MLX5DV_DR_ACTION_FLAGS_ROOT_LEVEL, sizeof(change), &change));
		assert_int_equal(errno, EOPNOTSUPP);
		assert_int_equal(mlx5dv_dr_matcher_destroy(m), 0);
		assert_int_equal(mlx5dv_dr_table_destroy(root), 0);
		assert_int_equal(mlx5dv_dr_domain_destroy(domain), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refused_rules),
		cmocka_unit_test(test_refused_matchers),
		cmocka_unit_test(test_dr_root),
		cmocka_unit_test(test_dr_refused),
	};

	return cmocka_run_group_tests(tests, open_ends, close_ends);
}
