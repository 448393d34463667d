/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Rules of matchers (kernel/flow/match.c), by the ioctls that libmlx5 sends, against frames
 * (nic/eth/table.c): random ones by a reference that knows what a frame was made of
 * (match_rules.h), many, and those that must be refused.
 */
#include "kit.h"

#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>

#include "match_rules.h"
#include "softhca/nic/eth/flow.h"

#define QPS 6u

/* One ioctl in the making. */
struct call {
	struct ib_uverbs_ioctl_hdr hdr;
	struct ib_uverbs_attr attr[10];
};

static struct call call_of(uint16_t object, uint16_t method)
{
	return (struct call){
		.hdr = {.object_id = object, .method_id = method, .driver_id = RDMA_DRIVER_MLX5}};
}

/* Up to 8 bytes are in the attribute itself; a handle has no length. */
static void attr(struct call *c, uint16_t id, const void *data, uint16_t bytes)
{
	struct ib_uverbs_attr *a = &c->attr[c->hdr.num_attrs++];

	a->attr_id = id;
	a->len = bytes;
	a->flags = UVERBS_ATTR_F_MANDATORY;
	if (bytes > sizeof(a->data))
		a->data = (uintptr_t)data;
	else
		memcpy(&a->data, data, bytes ? bytes : 4);
}

static int call_run(struct kit *k, struct call *c)
{
	c->hdr.length = (uint16_t)(sizeof(c->hdr) + c->hdr.num_attrs * sizeof(c->attr[0]));
	return uv_ioctl(k->ctx, c);
}

struct matcher_want {
	const void *mask;
	uint16_t mask_bytes, priority;
	uint8_t criteria, type;
	int table; /* -1: none named */
};

static int matcher(struct kit *k, const struct matcher_want *w, uint32_t *out)
{
	struct call c = call_of(MLX5_IB_OBJECT_FLOW_MATCHER, MLX5_IB_METHOD_FLOW_MATCHER_CREATE);
	uint32_t none = 0;
	int64_t table = w->table;
	int rc;

	attr(&c, MLX5_IB_ATTR_FLOW_MATCHER_CREATE_HANDLE, &none, 0);
	attr(&c, MLX5_IB_ATTR_FLOW_MATCHER_MATCH_MASK, w->mask, w->mask_bytes);
	attr(&c, MLX5_IB_ATTR_FLOW_MATCHER_FLOW_TYPE, &w->priority, w->type ? 0 : 2);
	c.attr[2].attr_data.enum_data.elem_id = w->type;
	attr(&c, MLX5_IB_ATTR_FLOW_MATCHER_MATCH_CRITERIA, &w->criteria, 1);
	if (w->table >= 0)
		attr(&c, MLX5_IB_ATTR_FLOW_MATCHER_FT_TYPE, &table, 8);
	rc = call_run(k, &c);
	*out = (uint32_t)c.attr[0].data;
	return rc;
}

struct rule_want {
	const void *val;
	uint16_t val_bytes;
	uint32_t matcher, qp, flags;
	uint32_t tag; /* UINT32_MAX: none */
};

static int rule(struct kit *k, const struct rule_want *w, uint32_t *out)
{
	struct call c = call_of(UVERBS_OBJECT_FLOW, MLX5_IB_METHOD_CREATE_FLOW);
	uint32_t none = 0;
	int rc;

	attr(&c, MLX5_IB_ATTR_CREATE_FLOW_HANDLE, &none, 0);
	attr(&c, MLX5_IB_ATTR_CREATE_FLOW_MATCH_VALUE, w->val, w->val_bytes);
	attr(&c, MLX5_IB_ATTR_CREATE_FLOW_MATCHER, &w->matcher, 0);
	if (w->qp)
		attr(&c, MLX5_IB_ATTR_CREATE_FLOW_DEST_QP, &w->qp, 0);
	if (w->flags)
		attr(&c, MLX5_IB_ATTR_CREATE_FLOW_FLAGS, &w->flags, 4);
	if (w->tag != UINT32_MAX)
		attr(&c, MLX5_IB_ATTR_CREATE_FLOW_TAG, &w->tag, 4);
	rc = call_run(k, &c);
	*out = (uint32_t)c.attr[0].data;
	return rc;
}

static int destroy(struct kit *k, uint16_t object, uint16_t method, uint32_t handle)
{
	struct call c = call_of(object, method);

	attr(&c, 1u << UVERBS_ID_NS_SHIFT, &handle, 0);
	return call_run(k, &c);
}

static int rule_destroy(struct kit *k, uint32_t handle)
{
	return destroy(k, UVERBS_OBJECT_FLOW, MLX5_IB_METHOD_DESTROY_FLOW, handle);
}

static int matcher_destroy(struct kit *k, uint32_t handle)
{
	return destroy(k, MLX5_IB_OBJECT_FLOW_MATCHER, MLX5_IB_METHOD_FLOW_MATCHER_DESTROY, handle);
}

static void raw_qps(struct kit *k, struct ib_uverbs_create_qp_resp *qp, uint32_t cnt)
{
	uint32_t cq;

	kit_open(k);
	assert_int_equal(kit_cq(k, -1, &cq), 0);
	for (uint32_t i = 0; i < cnt; i++)
		assert_int_equal(kit_qp(k, IB_UVERBS_QPT_RAW_PACKET, cq, &qp[i]), 0);
}

/* ---- against the reference ---- */

struct made {
	struct rule rule;
	uint32_t level, qp, tag, matcher, handle;
	bool drop, miss, used;
};

#define MADE_MAX 40u

static bool made_equal(const struct made *a, const struct made *b)
{
	return a->level == b->level && !memcmp(a->rule.mask, b->rule.mask, PARAM_BYTES) &&
	       !memcmp(a->rule.val, b->rule.val, PARAM_BYTES);
}

/* The multicast level is behind all others. */
static uint32_t level_of(const struct rule *r, uint32_t priority)
{
	const bool mac = r->val[8] & r->mask[8] & 1;
	const bool ip = (r->val[0x3c] & 0xf0) == 0xe0 && (r->mask[0x3c] & 0xf0) == 0xe0;

	return mac || ip ? 100 : priority;
}

/* Adds one, or finds out that it is refused because of an equal rule. made is in order of age. */
static void made_add(struct kit *k, uint64_t *s, const struct truth *like, struct made *all,
		     uint32_t *cnt, const struct ib_uverbs_create_qp_resp *qp)
{
	struct made m = {.used = true, .qp = match_random(s, QPS)};
	const uint32_t priority = match_random(s, 3), action = match_random(s, 8);
	struct matcher_want mw = {.mask = m.rule.mask, .priority = (uint16_t)priority, .table = -1};
	struct rule_want w = {.val = m.rule.val, .val_bytes = PARAM_BYTES};
	int want = 0;

	if (*cnt && !match_random(s, 4))
		m.rule = all[match_random(s, *cnt)].rule;
	else
		rule_make(s, like, &m.rule);
	m.level = level_of(&m.rule, priority);
	m.drop = action == 0;
	m.miss = action == 1;
	m.tag = match_random(s, 2) ? match_random(s, 1u << 24) : UINT32_MAX;
	for (uint32_t i = 0; i < *cnt && !want; i++) {
		if (!made_equal(&all[i], &m))
			continue;
		want = all[i].drop != m.drop || all[i].miss != m.miss ||
				       (m.tag != UINT32_MAX && m.tag != all[i].tag)
			       ? -EEXIST
			       : 0;
		m.tag = want ? m.tag : all[i].tag;
		break;
	}
	mw.mask_bytes = PARAM_BYTES;
	mw.criteria = m.rule.criteria;
	assert_int_equal(matcher(k, &mw, &m.matcher), 0);
	w.matcher = m.matcher;
	w.qp = m.drop || m.miss ? 0 : qp[m.qp].qp_handle;
	w.flags = m.drop ? 2 : m.miss ? 1 : 0;
	w.tag = m.tag;
	assert_int_equal(rule(k, &w, &m.handle), want);
	if (want) {
		assert_int_equal(matcher_destroy(k, m.matcher), 0);
		return;
	}
	m.tag = m.tag == UINT32_MAX ? 0 : m.tag;
	assert_int_equal(matcher_destroy(k, m.matcher), -EBUSY);
	all[(*cnt)++] = m;
}

static void made_remove(struct kit *k, struct made *all, uint32_t *cnt, uint32_t i)
{
	assert_int_equal(rule_destroy(k, all[i].handle), 0);
	assert_int_equal(matcher_destroy(k, all[i].matcher), 0);
	memmove(&all[i], &all[i + 1], (--*cnt - i) * sizeof(all[0]));
}

/* With what is needed to make a case of it. */
static void frame_fail(const struct truth *t, const struct made *best)
{
	char text[2 * TRUTH_BYTES + 1] = "";

	for (uint32_t i = 0; i < t->frame_bytes; i++)
		sprintf(text + 2 * i, "%02x", t->frame[i]);
	for (uint32_t i = 0; best && i < PARAM_BYTES; i++)
		if (best->rule.mask[i])
			print_message("byte %#x: value %#x mask %#x\n", i, best->rule.val[i],
				      best->rule.mask[i]);
	fail_msg("rule %s, frame %s", best ? "missed" : "found", text);
}

/* Equal rules share an entry as old as the first of them, which `all` is in the order of. */
static void frame_check(struct kit *k, const struct truth *t, const struct made *all, uint32_t cnt,
			const struct ib_uverbs_create_qp_resp *qp)
{
	const struct made *best = NULL;
	bool gets[QPS] = {false};
	uint32_t want = 0;
	struct flow_hit hit;
	struct flow_key key;

	for (uint32_t i = 0; i < cnt; i++)
		if (rule_matches(&all[i].rule, t) && (!best || all[i].level < best->level))
			best = &all[i];
	for (uint32_t i = 0; best && !best->drop && !best->miss && i < cnt; i++)
		if (made_equal(&all[i], best))
			gets[all[i].qp] = true;
	for (uint32_t i = 0; i < QPS; i++)
		want += gets[i];
	flow_parse(t->frame, t->frame_bytes, &key);
	flow_steer(k->dev, &key, &hit);
	if (hit.dropped != (best && best->drop) || hit.dst_cnt != want)
		frame_fail(t, best);
	for (uint32_t i = 0; i < hit.dst_cnt; i++) {
		uint32_t at = 0;

		while (at < QPS && qp[at].qpn != hit.dst[i].tir->qp->qpn)
			at++;
		assert_true(at < QPS && gets[at]);
		gets[at] = false;
		assert_int_equal(hit.dst[i].tag, best->tag);
	}
}

/* Rules are removed as a whole entry, oldest first or not, so that ages stay what they were. */
static void random_rules(void **state)
{
	struct ib_uverbs_create_qp_resp qp[QPS];
	struct made all[MADE_MAX];
	uint64_t s = 0x5eed;
	uint32_t cnt = 0, taken = 0;
	struct truth t;
	struct kit k;

	(void)state;
	raw_qps(&k, qp, QPS);
	for (uint32_t round = 0; round < 1500; round++) {
		truth_make(&s, &t);
		if (cnt < MADE_MAX && match_random(&s, 3))
			made_add(&k, &s, &t, all, &cnt, qp);
		if (cnt == MADE_MAX || (cnt && !match_random(&s, 4))) {
			const struct made gone = all[match_random(&s, cnt)];

			for (uint32_t i = cnt; i--;)
				if (made_equal(&all[i], &gone))
					made_remove(&k, all, &cnt, i);
		}
		for (uint32_t i = 0; i < 8; i++) {
			frame_check(&k, &t, all, cnt, qp);
			for (uint32_t j = 0; j < cnt; j++)
				taken += rule_matches(&all[j].rule, &t);
			truth_make(&s, &t);
		}
	}
	assert_true(taken > 3000); /* or the rules were no test */
	kit_close(&k);
}

/* Cut at any byte, a frame is steered without a read beyond its end. */
static void cut_frames(void **state)
{
	struct ib_uverbs_create_qp_resp qp[QPS];
	struct made all[MADE_MAX];
	uint64_t s = 0xc07;
	uint32_t cnt = 0;
	struct flow_hit hit;
	struct flow_key key;
	struct truth t;
	struct kit k;

	(void)state;
	raw_qps(&k, qp, QPS);
	for (uint32_t round = 0; round < 60; round++) {
		truth_make(&s, &t);
		if (cnt < MADE_MAX)
			made_add(&k, &s, &t, all, &cnt, qp);
		for (uint32_t n = 0; n <= t.frame_bytes; n++) {
			uint8_t *cut = malloc(n ? n : 1);

			assert_non_null(cut);
			memcpy(cut, t.frame, n);
			flow_parse(cut, n, &key);
			flow_steer(k.dev, &key, &hit);
			free(cut);
		}
	}
	kit_close(&k);
}

/* ---- many ---- */

/* 10^5 rules over two priorities, which is more than one holds. */
static void many(void **state)
{
	struct ib_uverbs_create_qp_resp qp;
	const uint8_t mask[64] = {[0x3c] = 255, 255, 255, 255};
	struct matcher_want mw = {.mask = mask, .mask_bytes = 64, .criteria = 1, .table = 0};
	struct rule_want w = {.val_bytes = 64, .tag = UINT32_MAX};
	uint8_t val[64] = {[0x3c] = 10}, frame[34] = {[12] = 8, [14] = 0x45, [17] = 20, [30] = 10};
	struct flow_hit hit;
	struct flow_key key;
	uint32_t m[2], h;
	struct kit k;

	(void)state;
	raw_qps(&k, &qp, 1);
	w.val = val;
	w.qp = qp.qp_handle;
	for (uint32_t i = 0; i < 2; i++) {
		mw.priority = (uint16_t)i;
		assert_int_equal(matcher(&k, &mw, &m[i]), 0);
	}
	for (uint32_t i = 0; i < 100000; i++) {
		val[0x3d] = (uint8_t)(i >> 16);
		val[0x3e] = (uint8_t)(i >> 8);
		val[0x3f] = (uint8_t)i;
		w.matcher = m[i >= 65536];
		w.tag = i;
		assert_int_equal(rule(&k, &w, &h), 0);
		if (i == 65535) {
			val[0x3d] = 9;
			assert_int_equal(rule(&k, &w, &h), -ENOSPC);
		}
	}
	for (uint32_t i = 0; i < 100000; i += 77) {
		frame[31] = (uint8_t)(i >> 16);
		frame[32] = (uint8_t)(i >> 8);
		frame[33] = (uint8_t)i;
		flow_parse(frame, sizeof(frame), &key);
		flow_steer(k.dev, &key, &hit);
		assert_int_equal(hit.dst_cnt, 1);
		assert_int_equal(hit.dst[0].tag, i);
	}
	kit_close(&k);
}

/* ---- refusals ---- */

static void refused_matchers(void **state)
{
	struct ib_uverbs_create_qp_resp qp;
	uint8_t p[sizeof(struct mlx5_ib_match_params) + 4] = {0};
	struct matcher_want mw = {.mask = p, .mask_bytes = 64, .table = -1};
	struct kit k;
	uint32_t m;

	(void)state;
	raw_qps(&k, &qp, 1);
	mw.mask_bytes = sizeof(p);
	assert_int_equal(matcher(&k, &mw, &m), -EINVAL);
	mw.mask_bytes = 0;
	assert_int_equal(matcher(&k, &mw, &m), -EINVAL);
	mw.mask_bytes = 64;
	mw.type = 4;
	assert_int_equal(matcher(&k, &mw, &m), -EINVAL);
	mw.type = 0;
	mw.table = 5;
	assert_int_equal(matcher(&k, &mw, &m), -EINVAL);
	assert_int_equal(matcher_destroy(&k, 12345), -ENOENT);
	assert_int_equal(matcher_destroy(&k, qp.qp_handle), -EINVAL);
	kit_close(&k);
}

static const struct {
	uint8_t mask_at, mask, val_at, val, criteria, type;
	uint16_t priority;
	int table;
	uint32_t flags, tag;
	bool qp;
	int rc;
} refused[] = {
	{.qp = true, .rc = 0},
	{.flags = 2, .rc = 0},
	{.flags = 1, .priority = 1, .rc = 0},
	{.qp = true, .mask_at = 0x1b, .mask = 255, .criteria = 1, .rc = 0},
	{.rc = -EINVAL},                         /* nothing to do */
	{.qp = true, .flags = 2, .rc = -EINVAL}, /* two things */
	{.flags = 3, .rc = -EINVAL},             /* drop and miss */
	{.flags = 4, .rc = -EINVAL},             /* no such flag */
	{.qp = true, .tag = 1u << 24, .rc = -EINVAL},
	{.qp = true, .priority = 16, .rc = -ENOMEM},
	{.qp = true, .type = 1, .rc = -EOPNOTSUPP},  /* not FLOW_NORMAL */
	{.table = 1, .rc = -EOPNOTSUPP},             /* frames are sent anyway */
	{.qp = true, .table = 1, .rc = -EINVAL},     /* and have no receiver */
	{.flags = 2, .table = 2, .rc = -EOPNOTSUPP}, /* a switch */
	{.qp = true, .mask_at = 0x1b, .mask = 255, .criteria = 0, .rc = -EINVAL},
	{.qp = true, .mask_at = 0x1a, .mask = 0xf0, .criteria = 1, .rc = -EINVAL}, /* IHL */
	{.qp = true, .mask_at = 0x18, .mask = 1, .criteria = 1, .rc = -EINVAL},    /* ours */
	{.qp = true, .mask_at = 0x7f, .mask = 1, .criteria = 2, .rc = -EINVAL},    /* ours */
	{.qp = true, .mask_at = 0x46, .mask = 1, .criteria = 2, .rc = -EINVAL},    /* port */
	{.qp = true, .mask_at = 0xc0, .mask = 1, .criteria = 8, .rc = -EINVAL},    /* MPLS */
	{.qp = true, .mask_at = 0xc0, .mask = 1, .criteria = 1, .rc = -EINVAL},
	{.qp = true, .criteria = 8, .rc = -EINVAL},
	{.qp = true, .val_at = 0x10, .val = 6, .criteria = 1, .rc = -EINVAL},
	{.qp = true, .val_at = 0xc0, .val = 6, .criteria = 1, .rc = -EINVAL},
};

/* What a matcher is refused for shows when a rule is made of it. */
static void refused_rules(void **state)
{
	struct ib_uverbs_create_qp_resp qp;
	struct kit k;
	uint32_t h;

	(void)state;
	raw_qps(&k, &qp, 1);
	for (size_t i = 0; i < SPW_ARRAY_CNT(refused); i++) {
		uint8_t mask[256] = {0}, val[256] = {0};
		struct matcher_want mw = {.mask = mask,
					  .mask_bytes = sizeof(mask),
					  .priority = refused[i].priority,
					  .criteria = refused[i].criteria,
					  .type = refused[i].type,
					  .table = refused[i].table};
		struct rule_want w = {.val = val,
				      .val_bytes = sizeof(val),
				      .qp = refused[i].qp ? qp.qp_handle : 0,
				      .flags = refused[i].flags,
				      .tag = refused[i].tag ? refused[i].tag : UINT32_MAX};

		mask[refused[i].mask_at] = refused[i].mask;
		val[refused[i].val_at] |= refused[i].val;
		assert_int_equal(matcher(&k, &mw, &w.matcher), 0);
		if (rule(&k, &w, &h) != refused[i].rc)
			fail_msg("row %zu", i);
		if (!refused[i].rc)
			assert_int_equal(rule_destroy(&k, h), 0);
		assert_int_equal(matcher_destroy(&k, w.matcher), 0);
	}
	kit_close(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_rules),  cmocka_unit_test(cut_frames),
		cmocka_unit_test(many),          cmocka_unit_test(refused_matchers),
		cmocka_unit_test(refused_rules),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
