/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Fuzzing flow rules of matchers: an input is a session of rules that come and go, and of frames.
 * The real control path and tables; each frame is judged twice.
 *
 *   the frame's fields, as the NIC lays them out, against every rule, byte by byte
 *   what the frame was made of, against named fields (match_rules.h), if neither was edited
 *
 *   input: records of u8 step, then
 *     ADD     u8 how, u64 seed, u8 edits, each u8 place, u8 mask, u8 value
 *             how: bits 0..1 the QP, 2..3 to it, drop, miss; 4 a tag, 5..6 priority, 7 no named
 * fields REMOVE  u8 rule FRAME   u64 seed, u8 bytes that are cut off, u8 edits, each u8 place, u8
 * bits (little-endian). A rule's fields are like those of the frame of the same seed.
 */
#include <errno.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_call.h"
#include "fuzz_nic.h"
#include "match_rules.h"
#include "softhca/kernel/flow/fte.h"
#include "softhca/nic/eth/flow.h"

#define QPS   3u
#define RULES 24u
#define EDITS 8u

enum step { ADD, REMOVE, FRAME, STEPS };

struct made {
	struct rule rule;
	struct flow_match match; /* with what the control path adds */
	bool named, drop, miss;
	uint8_t qp, level;
	uint32_t tag, age, handle, matcher;
};

struct session {
	struct hca_ctx *ctx;
	struct hca_qp *qp[QPS];
	struct made made[RULES];
	uint32_t cnt, age;
	const uint8_t *in;
	size_t left;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* 0 at the end of the input. */
static uint64_t next(struct session *s, uint32_t bytes)
{
	uint64_t v = 0;

	bytes = (uint32_t)SPW_MIN((size_t)bytes, s->left);
	memcpy(&v, s->in, bytes);
	s->in += bytes;
	s->left -= bytes;
	return v;
}

/* ---- calls, as libmlx5 makes them ---- */

static int run_matcher(struct session *s, const struct made *m, uint16_t priority, uint32_t *out)
{
	struct ib_uverbs_attr *a;
	int rc;

	memcpy(IN_AT, m->rule.mask, PARAM_BYTES);
	a = call_start(MLX5_IB_OBJECT_FLOW_MATCHER, MLX5_IB_METHOD_FLOW_MATCHER_CREATE, 4);
	a[0] = attr(MLX5_IB_ATTR_FLOW_MATCHER_CREATE_HANDLE, 0, 0);
	a[1] = attr(MLX5_IB_ATTR_FLOW_MATCHER_MATCH_MASK, PARAM_BYTES, (uintptr_t)IN_AT);
	a[2] = attr(MLX5_IB_ATTR_FLOW_MATCHER_FLOW_TYPE, 2, priority);
	a[3] = attr(MLX5_IB_ATTR_FLOW_MATCHER_MATCH_CRITERIA, 1, m->rule.criteria);
	rc = uv_ioctl(s->ctx, CALL_AT);
	*out = (uint32_t)a[0].data;
	return rc;
}

static int run_rule(struct session *s, struct made *m, bool tagged)
{
	struct ib_uverbs_attr *a;
	uint16_t cnt = 4;
	int rc;

	memcpy(IN_AT, m->rule.val, PARAM_BYTES);
	a = call_start(UVERBS_OBJECT_FLOW, MLX5_IB_METHOD_CREATE_FLOW, (uint16_t)(cnt + tagged));
	a[0] = attr(MLX5_IB_ATTR_CREATE_FLOW_HANDLE, 0, 0);
	a[1] = attr(MLX5_IB_ATTR_CREATE_FLOW_MATCH_VALUE, PARAM_BYTES, (uintptr_t)IN_AT);
	a[2] = attr(MLX5_IB_ATTR_CREATE_FLOW_MATCHER, 0, m->matcher);
	a[3] = m->drop || m->miss
		       ? attr(MLX5_IB_ATTR_CREATE_FLOW_FLAGS, 4, m->drop ? 2 : 1)
		       : attr(MLX5_IB_ATTR_CREATE_FLOW_DEST_QP, 0, s->qp[m->qp]->o.handle);
	if (tagged)
		a[cnt] = attr(MLX5_IB_ATTR_CREATE_FLOW_TAG, 4, m->tag);
	rc = uv_ioctl(s->ctx, CALL_AT);
	m->handle = (uint32_t)a[0].data;
	return rc;
}

static void run_destroy(struct session *s, uint16_t object, uint16_t method, uint32_t handle)
{
	struct ib_uverbs_attr *a = call_start(object, method, 1);

	a[0] = attr(MLX5_IB_ATTR_CREATE_FLOW_HANDLE, 0, handle);
	if (uv_ioctl(s->ctx, CALL_AT))
		fuzz_die("an object could not be destroyed");
}

/* ---- rules ---- */

static bool made_equal(const struct made *a, const struct made *b)
{
	return a->level == b->level && !memcmp(&a->match, &b->match, sizeof(a->match));
}

static const struct made *made_find(const struct session *s, const struct made *m)
{
	for (uint32_t i = 0; i < s->cnt; i++)
		if (made_equal(&s->made[i], m))
			return &s->made[i];
	return NULL;
}

static void made_edit(struct session *s, struct made *m)
{
	const uint32_t edits = next(s, 1) % EDITS;

	m->named = !edits;
	for (uint32_t i = 0; i < edits; i++) {
		const uint32_t at = next(s, 1) % PARAM_BYTES;

		m->rule.mask[at] = (uint8_t)next(s, 1);
		m->rule.val[at] = (uint8_t)next(s, 1);
		m->rule.criteria |= (uint8_t)(1u << at / 64);
	}
	memcpy(m->match.mask.byte, m->rule.mask, PARAM_BYTES);
	memcpy(m->match.val.byte, m->rule.val, PARAM_BYTES);
}

static bool made_is_multicast(const struct made *m)
{
	const uint8_t *v = m->rule.val, *w = m->rule.mask;

	return (v[8] & w[8] & 1) || ((v[0x3c] & 0xf0) == 0xe0 && (w[0x3c] & 0xf0) == 0xe0);
}

/* Named rules are sound; others are what the check of matches says. Of equal rules the first
 * decides. */
static void run_add(struct session *s)
{
	const uint32_t how = (uint32_t)next(s, 1), priority = how >> 5 & 3;
	uint64_t seed = next(s, 8);
	struct made *m = &s->made[SPW_MIN(s->cnt, RULES - 1)];
	const struct made *same;
	struct truth like;
	int want, rc;

	if (s->cnt == RULES)
		return;
	*m = (struct made){
		.qp = (how & 3) % QPS, .drop = (how >> 2 & 3) == 2, .miss = (how >> 2 & 3) == 3};
	truth_make(&seed, &like);
	if (!(how & 0x80))
		rule_make(&seed, &like, &m->rule);
	made_edit(s, m);
	m->tag = how & 0x10 ? (uint32_t)seed & 0xffffff : 0;
	m->level = made_is_multicast(m) ? UINT8_MAX : (uint8_t)priority;
	want = fte_match_check(&m->match);
	if (want && m->named)
		fuzz_die("a rule of named fields was refused");
	same = want ? NULL : made_find(s, m);
	if (same &&
	    (same->drop != m->drop || same->miss != m->miss || (how & 0x10 && same->tag != m->tag)))
		want = -EEXIST;
	if (run_matcher(s, m, (uint16_t)priority, &m->matcher))
		fuzz_die("a matcher was refused");
	rc = run_rule(s, m, how & 0x10);
	if (rc != want)
		fuzz_die("a rule was taken or refused wrongly");
	m->tag = same ? same->tag : m->tag;
	m->age = same ? same->age : ++s->age;
	if (rc)
		run_destroy(s, MLX5_IB_OBJECT_FLOW_MATCHER, MLX5_IB_METHOD_FLOW_MATCHER_DESTROY,
			    m->matcher);
	else
		s->cnt++;
}

static void run_remove(struct session *s)
{
	const uint32_t at = (uint32_t)next(s, 1);

	if (at >= s->cnt)
		return;
	run_destroy(s, UVERBS_OBJECT_FLOW, MLX5_IB_METHOD_DESTROY_FLOW, s->made[at].handle);
	run_destroy(s, MLX5_IB_OBJECT_FLOW_MATCHER, MLX5_IB_METHOD_FLOW_MATCHER_DESTROY,
		    s->made[at].matcher);
	memmove(&s->made[at], &s->made[at + 1], (--s->cnt - at) * sizeof(s->made[0]));
}

/* ---- frames ---- */

static bool made_matches(const struct made *m, const struct flow_fields *fields)
{
	for (uint32_t i = 0; i < sizeof(fields->byte); i++)
		if ((fields->byte[i] & m->match.mask.byte[i]) != m->match.val.byte[i])
			return false;
	return true;
}

/* The lowest level, and there the oldest entry. */
static const struct made *made_best(const struct session *s, const struct flow_fields *fields)
{
	const struct made *best = NULL;

	for (uint32_t i = 0; i < s->cnt; i++) {
		const struct made *m = &s->made[i];

		if (made_matches(m, fields) && (!best || m->level < best->level ||
						(m->level == best->level && m->age < best->age)))
			best = m;
	}
	return best;
}

static void check_hit(const struct session *s, const struct made *best, const struct flow_hit *hit)
{
	bool gets[QPS] = {false};
	uint32_t want = 0;

	if (hit->dropped != (best && best->drop))
		fuzz_die("a frame was dropped wrongly");
	for (uint32_t i = 0; best && !best->drop && !best->miss && i < s->cnt; i++)
		if (made_equal(&s->made[i], best))
			gets[s->made[i].qp] = true;
	for (uint32_t i = 0; i < QPS; i++)
		want += gets[i];
	if (hit->dst_cnt != want)
		fuzz_die("a frame has other receivers");
	for (uint32_t i = 0; i < want; i++) {
		uint32_t q = 0;

		while (q < QPS && hit->dst[i].tir != &s->qp[q]->tir)
			q++;
		if (q == QPS || !gets[q] || hit->dst[i].tag != best->tag)
			fuzz_die("a frame has a wrong receiver or tag");
		gets[q] = false;
	}
}

static void check_frame(const struct session *s, const uint8_t *frame, uint32_t bytes,
			const struct truth *whole)
{
	struct flow_fields fields = {0};
	struct flow_key key;
	struct flow_hit hit;

	flow_parse(frame, bytes, &key);
	flow_fields_outer(&key, &fields);
	flow_fields_inner(&key, &fields);
	flow_steer(fuzz_dev, &key, &hit);
	check_hit(s, made_best(s, &fields), &hit);
	for (uint32_t i = 0; whole && i < s->cnt; i++)
		if (s->made[i].named &&
		    rule_matches(&s->made[i].rule, whole) != made_matches(&s->made[i], &fields))
			fuzz_die("the fields of a frame are not what it was made of");
}

/* In memory of its own, so that a read beyond its end is found. */
static void run_frame(struct session *s)
{
	uint64_t seed = next(s, 8);
	const uint32_t cut = (uint32_t)next(s, 1), edits = next(s, 1) % EDITS;
	struct truth t;
	uint8_t *frame;
	uint32_t bytes;

	truth_make(&seed, &t);
	bytes = t.frame_bytes - SPW_MIN(cut, t.frame_bytes);
	frame = malloc(SPW_MAX(bytes, 1u));
	if (!frame)
		return;
	memcpy(frame, t.frame, bytes);
	for (uint32_t i = 0; i < edits; i++) {
		const uint32_t at = (uint32_t)next(s, 1);

		if (at < bytes)
			frame[at] ^= (uint8_t)next(s, 1);
	}
	check_frame(s, frame, bytes, cut || edits ? NULL : &t);
	free(frame);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct session s;
	struct hca_uar *uar;
	uint32_t pd, lkey, cq;

	s = (struct session){.in = data, .left = size};
	s.ctx = fuzz_begin(&uar, &pd, &lkey);
	cq = fuzz_cq(s.ctx, uar->index, 0, false);
	for (uint32_t i = 0; i < QPS; i++)
		s.qp[i] = fuzz_qp(s.ctx, pd, cq, uar->index, IB_UVERBS_QPT_RAW_PACKET, NULL);
	while (s.left)
		switch ((enum step)(next(&s, 1) % STEPS)) {
		case ADD:
			run_add(&s);
			break;
		case REMOVE:
			run_remove(&s);
			break;
		case FRAME:
		case STEPS:
			run_frame(&s);
			break;
		}
	fuzz_end(s.ctx);
	return 0;
}
