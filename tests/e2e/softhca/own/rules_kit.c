/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 */
#include "rules_kit.h"

#include <string.h>

#include "prm/spw_prm.h"

#define LEN       160u
#define LAST_LEN  60u
#define TAG_BYTES 4u
#define LOWEST    9u
#define B_DEPTH   8u
#define B_BYTES   4096u

struct raw end_a;
struct kit_end end_b;

struct mlx5dv_flow_match_parameters *param_of(struct param *p)
{
	return (struct mlx5dv_flow_match_parameters *)(void *)p;
}

uint8_t *byte_of(struct param *p, uint32_t at)
{
	return (uint8_t *)p->word + at;
}

/* All receives of B have one place, since its bytes are A's to check. */
static void post_b(void)
{
	assert_int_equal(
		kit_recv(&end_b, end_a.k.buf + KIT_BUF_BYTES - B_BYTES, B_BYTES, end_a.k.mr->lkey),
		0);
}

/* ---- frames ---- */

static void put_inner_ip(uint8_t *ip, const uint8_t *end)
{
	memset(ip, 0, 28);
	memcpy(ip, (uint8_t[]){0x45, 0x20}, 2);
	spw_prm_st16(ip + 2, (uint16_t)(end - ip));
	memcpy(ip + 8, (uint8_t[]){5, 17}, 2);
	memcpy(ip + 12, (uint8_t[]){192, 168, 0, 1, 192, 168, 0, 2}, 8);
	memcpy(ip + 20, (uint8_t[]){0, 1, 0, 99}, 4);
	spw_prm_st16(ip + 24, (uint16_t)(end - ip - 20));
}

static void put_tunnel(uint8_t *f, enum kind kind)
{
	if (kind == VXLAN) {
		spw_prm_st16(f + 36, 4789);
		memcpy(f + 42, (uint8_t[]){8, 0, 0, 0, 0x12, 0x34, 0x56, 0}, 8);
		memcpy(f + 50, (uint8_t[]){2, 0, 0, 0, 7, 7, 2, 0, 0, 0, 7, 8, 8, 0}, 14);
		put_inner_ip(f + 64, f + LEN);
		return;
	}
	f[23] = 47;
	memcpy(f + 34, (uint8_t[]){0x20, 0, 8, 0, 0xca, 0xfe, 0, 1}, 8);
	put_inner_ip(f + 42, f + LEN);
}

static void put_ipv6(uint8_t *f)
{
	memset(f + 14, 0, 40);
	spw_prm_st16(f + 12, 0x86dd);
	memcpy(f + 14, (uint8_t[]){0x60, 1, 0x23, 0x45}, 4);
	spw_prm_st16(f + 18, LEN - 54);
	memcpy(f + 20, (uint8_t[]){17, 9, 0xfd}, 3);
	f[38] = 0xfd;
	f[53] = 6;
	memcpy(f + 54, (uint8_t[]){0, 8, 0, 9, 0, LEN - 54, 0, 0}, 8);
}

/* raw_frame: 02:00:00:00:00:09, 10.0.0.2, TTL 64, UDP to 7. Returns: the length. */
static uint32_t frame_make(enum kind kind)
{
	uint8_t *f = raw_frame_at(&end_a, 0);

	raw_frame(&end_a, 0, LEN, 1);
	switch (kind) {
	case PLAIN:
		break;
	case OTHER:
		f[11] = 8;
		memcpy(f + 15, (uint8_t[]){0x28}, 1);
		f[22] = 63;
		f[29] = f[33] = 77;
		f[35] = f[37] = 78;
		break;
	case TAGGED:
		memmove(f + 12 + TAG_BYTES, f + 12, LEN - 12);
		memcpy(f + 12, (uint8_t[]){0x81, 0, 0x61, 0x23}, 4);
		return LEN + TAG_BYTES;
	case TCP:
		f[23] = 6;
		memcpy(f + 46, (uint8_t[]){0x50, 0x12}, 2);
		break;
	case FRAGMENT:
		f[20] = 0x20;
		break;
	case SIX:
		put_ipv6(f);
		break;
	case VXLAN:
	case GRE:
		put_tunnel(f, kind);
		break;
	}
	return LEN;
}

/* Sends a frame, and after it one that only the lowest rule takes: frames keep their order, so
 * when the second is at A the first is where it goes. Returns: END_A | END_B, and A's tag. */
unsigned sent_to(enum kind kind, uint32_t *tag_out)
{
	const uint32_t len[2] = {frame_make(kind), LAST_LEN};
	uint8_t *last = raw_frame_at(&end_a, 1);
	struct raw_done d;
	struct ibv_wc wc;
	unsigned who = NOBODY;

	memset(last, 0, LAST_LEN);
	memcpy(last, end_a.mac, 6);
	memcpy(last + 6, (uint8_t[]){2, 0, 0, 0, 9, 9, 0x88, 0xb5}, 8);
	raw_send(&end_a, 2, len);
	for (raw_next(&end_a, &d); d.byte_cnt != LAST_LEN; raw_next(&end_a, &d)) {
		assert_int_equal(d.byte_cnt, len[0]);
		assert_false(who & END_A);
		who |= END_A;
		if (tag_out)
			*tag_out = d.tag;
		raw_post(&end_a, 0);
	}
	raw_post(&end_a, 0);
	while (ibv_poll_cq(end_b.cq, 1, &wc) == 1) {
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.byte_len, len[0]);
		assert_false(who & END_B);
		who |= END_B;
		post_b();
	}
	return who;
}

/* ---- matchers and rules ---- */

struct mlx5dv_flow_matcher *matcher_make(struct param *mask, uint16_t priority)
{
	struct mlx5dv_flow_matcher_attr attr = {
		.type = IBV_FLOW_ATTR_NORMAL, .priority = priority, .match_mask = param_of(mask)};
	struct mlx5dv_flow_matcher *m;

	for (uint32_t i = 0; i < mask->bytes; i++)
		attr.match_criteria_enable |= (uint8_t)((*byte_of(mask, i) != 0) << i / 64);
	m = mlx5dv_create_flow_matcher(end_a.k.ctx, &attr);
	assert_non_null(m);
	return m;
}

struct ibv_flow *rule_make(struct mlx5dv_flow_matcher *m, struct param *val,
			   struct mlx5dv_flow_action_attr *action, size_t cnt)
{
	struct ibv_flow *f = mlx5dv_create_flow(m, param_of(val), cnt, action);

	assert_non_null(f);
	return f;
}

void rule_free(struct ibv_flow *f, struct mlx5dv_flow_matcher *m)
{
	assert_int_equal(ibv_destroy_flow(f), 0);
	if (m)
		assert_int_equal(mlx5dv_destroy_flow_matcher(m), 0);
}

/* The kit's own rule stands at priority 0; the lowest takes its place. */
int open_ends(void **state)
{
	const struct kit_how raw = {.type = IBV_QPT_RAW_PACKET};
	struct param mask = {.bytes = 64}, val = {.bytes = 64};

	(void)state;
	raw_open(&end_a, &(struct raw_how){0});
	kit_end_open(&end_a.k, &end_b, &raw);
	kit_end_bring(&end_a.k, &end_b, 0, &raw, IBV_QPS_RTS);
	for (uint32_t i = 0; i < RAW_WQE_CNT; i++)
		raw_post(&end_a, 0);
	for (uint32_t i = 0; i < B_DEPTH; i++)
		post_b();
	assert_int_equal(ibv_destroy_flow(end_a.flow), 0);
	memset(byte_of(&mask, 8), 0xff, 6);
	memcpy(byte_of(&val, 8), end_a.mac, 6);
	end_a.flow = rule_make(matcher_make(&mask, LOWEST), &val, ACTIONS(TO(end_a.rss)), 1);
	return 0;
}

int close_ends(void **state)
{
	(void)state;
	kit_end_close(&end_b);
	raw_close(&end_a);
	return 0;
}

void udp_param(struct param *mask, struct param *val)
{
	*mask = *val = (struct param){.bytes = 64};
	*byte_of(mask, 0x10) = 0xff;
	*byte_of(val, 0x10) = 17;
}
