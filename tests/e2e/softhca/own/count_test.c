/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Flow counters, made by firmware commands (DEVX) and named by flow rules: what is counted where,
 * and what is refused.
 */
#include <errno.h>

#include "devx_kit.h"
#include "rules_kit.h"

#define COUNT(c)                                                          \
	{                                                                 \
		.type = MLX5DV_FLOW_ACTION_COUNTERS_DEVX, .obj = (c)->obj \
	}

enum { EREFUSED = 121, BAD_PARAM = 3, BAD_INP_LEN = 0x50 };

struct count {
	uint64_t frames, bytes;
};

static void counter_make(struct thing *t)
{
	struct box b;

	*t = (struct thing){0};
	box_start(&b, 0x939);
	thing_make(end_a.k.ctx, &b, t);
}

static void query_box(struct box *b, const struct thing *t)
{
	box_start(b, 0x93b);
	box_put(b->in, 0xe0, 32, t->number);
}

static struct count counter_read(const struct thing *t, bool clear)
{
	struct box b;

	query_box(&b, t);
	box_put(b.in, 0xc0, 1, clear);
	assert_int_equal(mlx5dv_devx_obj_query(t->obj, b.in, 32, b.out, 32), 0);
	return (struct count){box_get(b.out, 0x80, 64), box_get(b.out, 0xc0, 64)};
}

static void expect_count(const struct thing *t, uint64_t frames, uint64_t bytes)
{
	const struct count c = counter_read(t, false);

	assert_int_equal(c.frames, frames);
	assert_int_equal(c.bytes, bytes);
}

/* Any UDP. */
static struct mlx5dv_flow_matcher *udp(struct param *val, uint16_t priority)
{
	struct param mask;

	udp_param(&mask, val);
	return matcher_make(&mask, priority);
}

/* Bytes are those of the frames as they came, without FCS; frames of other rules do not count. */
static void test_rule_counts(void **state)
{
	struct mlx5dv_flow_matcher *m;
	struct ibv_flow *f;
	struct param val;
	struct thing cnt;
	struct count c;

	(void)state;
	counter_make(&cnt);
	m = udp(&val, 4);
	f = rule_make(m, &val, ACTIONS(TO(end_b.qp), COUNT(&cnt)), 2);
	expect_count(&cnt, 0, 0);
	assert_int_equal(sent_to(PLAIN, NULL), END_B);
	c = counter_read(&cnt, false);
	assert_int_equal(c.frames, 1);
	assert_true(c.bytes > 60);
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(sent_to(PLAIN, NULL), END_B);
		assert_int_equal(sent_to(TCP, NULL), END_A);
	}
	expect_count(&cnt, 5, 5 * c.bytes);
	assert_int_equal(counter_read(&cnt, true).frames, 5);
	expect_count(&cnt, 0, 0);
	assert_int_equal(sent_to(PLAIN, NULL), END_B);
	expect_count(&cnt, 1, c.bytes);
	rule_free(f, m);
	assert_int_equal(sent_to(PLAIN, NULL), END_A);
	expect_count(&cnt, 1, c.bytes);
	thing_free(&cnt);
}

/* Nobody gets them, and they are counted. */
static void test_drop_counts(void **state)
{
	struct mlx5dv_flow_matcher *m;
	struct ibv_flow *f;
	struct param val;
	struct thing cnt;

	(void)state;
	counter_make(&cnt);
	m = udp(&val, 4);
	f = rule_make(m, &val, ACTIONS(DROP, COUNT(&cnt)), 2);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(sent_to(PLAIN, NULL), NOBODY);
	assert_int_equal(counter_read(&cnt, false).frames, 3);
	rule_free(f, m);
	f = rule_make(m = udp(&val, 4), &val, ACTIONS(MISS, COUNT(&cnt)), 2);
	assert_int_equal(sent_to(PLAIN, NULL), NOBODY);
	assert_int_equal(counter_read(&cnt, false).frames, 4);
	rule_free(f, m);
	thing_free(&cnt);
}

/* Rules of one value are one entry: each counter of theirs has all its frames. Rules of two values
 * may share a counter. */
static void test_shared(void **state)
{
	struct param val, tcp_mask, tcp_val;
	struct mlx5dv_flow_matcher *m, *tcp;
	struct thing one, two;
	struct ibv_flow *f[3];

	(void)state;
	counter_make(&one);
	counter_make(&two);
	assert_int_not_equal(one.number, two.number);
	m = udp(&val, 4);
	f[0] = rule_make(m, &val, ACTIONS(TO(end_a.rss), COUNT(&one)), 2);
	f[1] = rule_make(m, &val, ACTIONS(TO(end_b.qp), COUNT(&two)), 2);
	udp_param(&tcp_mask, &tcp_val);
	*byte_of(&tcp_val, 0x10) = 6;
	tcp = matcher_make(&tcp_mask, 2);
	f[2] = rule_make(tcp, &tcp_val, ACTIONS(TO(end_b.qp), COUNT(&two)), 2);
	assert_int_equal(sent_to(PLAIN, NULL), END_A | END_B);
	assert_int_equal(sent_to(TCP, NULL), END_B);
	assert_int_equal(counter_read(&one, false).frames, 1);
	assert_int_equal(counter_read(&two, false).frames, 2);
	rule_free(f[1], NULL);
	assert_int_equal(sent_to(PLAIN, NULL), END_A);
	assert_int_equal(counter_read(&one, false).frames, 2);
	assert_int_equal(counter_read(&two, false).frames, 2);
	rule_free(f[0], m);
	rule_free(f[2], tcp);
	thing_free(&one);
	thing_free(&two);
}

static void query_refused(struct thing *t, struct box *b, uint32_t in_bytes, uint8_t status)
{
	assert_int_equal(mlx5dv_devx_obj_query(t->obj, b->in, in_bytes, b->out, 32), EREFUSED);
	assert_int_equal(b->out[0], status);
}

/* Bulks and dumps: their capability bits are 0. */
static void test_refused_commands(void **state)
{
	struct thing cnt, none = {0};
	struct box b;

	(void)state;
	counter_make(&cnt);
	box_start(&b, 0x939);
	box_put(b.in, 0x78, 8, 4); /* 512 of them */
	assert_int_equal(thing_try(end_a.k.ctx, &b, 16, &none), EREFUSED);
	assert_int_equal(b.out[0], BAD_PARAM);
	box_start(&b, 0x939);
	box_put(b.in, 0x73, 5, 9);
	assert_int_equal(thing_try(end_a.k.ctx, &b, 16, &none), EREFUSED);
	assert_int_equal(b.out[0], BAD_PARAM);
	query_box(&b, &cnt);
	box_put(b.in, 0xc1, 1, 1);
	query_refused(&cnt, &b, 32, BAD_PARAM);
	query_box(&b, &cnt);
	box_put(b.in, 0xc2, 30, 4);
	query_refused(&cnt, &b, 32, BAD_PARAM);
	box_put(b.in, 0xe0, 32, cnt.number + 1); /* not the handle's */
	assert_int_equal(mlx5dv_devx_obj_query(cnt.obj, b.in, 32, b.out, 32), EINVAL);
	query_box(&b, &cnt);
	assert_int_equal(mlx5dv_devx_obj_query(cnt.obj, b.in, 16, b.out, 32), EINVAL);
	thing_free(&cnt);
}

static void rule_refused(struct mlx5dv_flow_matcher *m, struct param *val, struct thing *cnt,
			 int rc)
{
	errno = 0;
	assert_null(mlx5dv_create_flow(m, param_of(val), 2, ACTIONS(TO(end_b.qp), COUNT(cnt))));
	assert_int_equal(errno, rc);
}

/* A counter in a bulk is named by its offset, which only mlx5dv_dr passes on. */
static void offset_refused(struct param *val, struct thing *cnt)
{
	struct mlx5dv_dr_domain *rx =
		mlx5dv_dr_domain_create(end_a.k.ctx, MLX5DV_DR_DOMAIN_TYPE_NIC_RX);
	struct mlx5dv_dr_table *root = mlx5dv_dr_table_create(rx, 0);
	struct mlx5dv_dr_action *action[2] = {mlx5dv_dr_action_create_dest_ibv_qp(end_b.qp)};
	struct mlx5dv_dr_matcher *m;
	struct param mask;

	udp_param(&mask, val);
	m = mlx5dv_dr_matcher_create(root, 3, 1, param_of(&mask));
	assert_non_null(m);
	for (uint32_t offset = 0; offset < 2; offset++) {
		struct mlx5dv_dr_rule *rule;

		action[1] = mlx5dv_dr_action_create_flow_counter(cnt->obj, offset);
		assert_non_null(action[1]);
		rule = mlx5dv_dr_rule_create(m, param_of(val), 2, action);
		assert_int_equal(!rule, offset);
		if (rule)
			assert_int_equal(mlx5dv_dr_rule_destroy(rule), 0);
		else
			assert_int_equal(errno, EINVAL);
		assert_int_equal(mlx5dv_dr_action_destroy(action[1]), 0);
	}
	assert_int_equal(mlx5dv_dr_action_destroy(action[0]), 0);
	assert_int_equal(mlx5dv_dr_matcher_destroy(m), 0);
	assert_int_equal(mlx5dv_dr_table_destroy(root), 0);
	assert_int_equal(mlx5dv_dr_domain_destroy(rx), 0);
}

static void test_refused_rules(void **state)
{
	struct mlx5dv_flow_matcher *m;
	struct thing cnt, pd = {0};
	struct ibv_flow *f;
	struct param val;
	struct box b;

	(void)state;
	counter_make(&cnt);
	m = udp(&val, 4);
	box_start(&b, 0x800);
	thing_make(end_a.k.ctx, &b, &pd);
	rule_refused(m, &val, &pd, EINVAL); /* no counter */
	f = rule_make(m, &val, ACTIONS(TO(end_b.qp), COUNT(&cnt)), 2);
	assert_int_equal(mlx5dv_devx_obj_destroy(cnt.obj), EBUSY);
	rule_free(f, m);
	offset_refused(&val, &cnt);
	thing_free(&pd);
	thing_free(&cnt);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rule_counts),   cmocka_unit_test(test_drop_counts),
		cmocka_unit_test(test_shared),        cmocka_unit_test(test_refused_commands),
		cmocka_unit_test(test_refused_rules),
	};

	return cmocka_run_group_tests(tests, open_ends, close_ends);
}
