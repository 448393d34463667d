/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * RC on memory alone, all at random against peers that keep the protocol: laps of every ring and
 * wraps of every counter.
 */
#include <string.h>

#include "rc_hand.h"
#include "unit_test.h"

static struct rch hand;

static void release(const struct spw_desc *desc, uint16_t cnt)
{
	for (uint16_t i = 0; i < cnt; i++)
		spw_port_release_burst(&hand.pq, &desc[i].slot, 1);
}

struct flow {
	uint32_t sent, seen;   /* messages of the peer to us: count is the content */
	uint32_t echoed, back; /* and of us to the peer */
};

static struct flow flow[RCH_PEER_MAX];

static void peers_send(uint64_t *seed)
{
	uint32_t was = hand.pi;

	for (uint32_t p = 0; p < hand.conf.peer_cnt; p++)
		for (uint64_t n = unit_random(seed) % 8; n > 0; n--) {
			uint32_t len = 4 + (uint32_t)(unit_random(seed) % 250);
			uint8_t *addr;

			if (hand.pi - hand.q->cq_ci > hand.conf.cq_cnt - 8 ||
			    !rch_message(&hand, p, len, NULL, &addr))
				break;
			memcpy(addr, &flow[p].sent, 4);
			flow[p].sent++;
		}
	if (hand.conf.flags & MLX5_RC_COMPRESSED)
		rch_compress(&hand, hand.pi - was);
}

static void nic_sends(uint64_t *seed)
{
	for (uint32_t p = 0; p < hand.conf.peer_cnt; p++)
		for (uint64_t n = unit_random(seed) % 16; n > 0; n--) {
			struct rch_msg msg;

			if (!rch_send_one(&hand, p, &msg))
				break;
			if (!msg.len)
				continue;
			assert_memory_equal(msg.data, &flow[p].back, 4);
			flow[p].back++;
			if (unit_random(seed) % 4 == 0 && hand.qp[p].granted - hand.qp[p].got < 5)
				rch_control(&hand, p, hand.qp[p].got + hand.conf.remote_credits);
		}
}

/* Echoes every message, in order per peer; what the peer has no room for is released. */
static void echo(struct spw_desc *desc, uint16_t n, uint64_t *seed)
{
	struct spw_desc *ptr[SPW_BURST_MAX];
	uint16_t want = 0, got;

	for (uint16_t i = 0; i < n; i++) {
		struct flow *f = &flow[desc[i].peer / 2];

		assert_memory_equal(spw_pool_slot_addr(&hand.pool, desc[i].slot), &f->seen, 4);
		f->seen++;
		if (unit_random(seed) % 3 == 0)
			release(&desc[i], 1);
		else
			ptr[want++] = &desc[i];
	}
	for (uint16_t i = 0; i < want; i++) /* echoes get numbers of their own */
		memcpy(spw_pool_slot_addr(&hand.pool, ptr[i]->slot), &flow[ptr[i]->peer / 2].echoed,
		       4);
	for (uint16_t i = 0; i < want; i++) {
		memcpy(spw_pool_slot_addr(&hand.pool, ptr[i]->slot), &flow[ptr[i]->peer / 2].echoed,
		       4);
		got = spw_port_tx_burst(&hand.pq, &ptr[i], 1);
		flow[ptr[i]->peer / 2].echoed += got;
		if (!got)
			release(ptr[i], 1);
	}
}

#define LAPS 50000u

static void long_run(unsigned flags, uint32_t peers, uint32_t credits, uint32_t start,
		     uint32_t turns)
{
	struct rch_conf c = {
		.flags = flags,
		.peer_cnt = peers,
		.credits = credits,
		.remote_credits = 20,
		.cq_cnt = 512,
		.rq_cnt = 64,
		.srq_cnt = 512,
		.sq_cnt = 64,
		.slot_bytes = 256,
		.slot_extra = 3,
		.start = start,
		.wqe_start = 65000,
	};
	uint64_t seed = flags + 1;

	memset(flow, 0, sizeof(flow));
	assert_int_equal(rch_open(&hand, &c), 0);
	for (uint32_t i = 0; i < turns; i++) {
		struct spw_desc desc[SPW_BURST_MAX];

		peers_send(&seed);
		nic_sends(&seed);
		echo(desc,
		     spw_port_rx_burst(&hand.pq, desc,
				       (uint16_t)(1 + unit_random(&seed) % SPW_BURST_MAX)),
		     &seed);
		assert_true(rch_balanced(&hand, 0));
		for (uint32_t p = 0; p < peers;
		     p++) { /* a peer without credits must have been granted some */
			if (hand.qp[p].granted == hand.qp[p].got &&
			    hand.pi - hand.q->cq_ci < c.cq_cnt - 8 && rch_posted(&hand, p))
				rch_control(&hand, p, hand.qp[p].got + c.remote_credits);
		}
	}
	for (uint32_t p = 0; p < peers; p++) {
		assert_true(flow[p].seen > turns / 8);
		assert_true(flow[p].back > turns / 16);
		if (turns >= LAPS)
			assert_true(flow[p].sent > 1u << 16 && flow[p].back > 1u << 14);
	}
	if (flags & MLX5_RC_COMPRESSED && credits > 1)
		assert_true(hand.sessions > turns / 2);
	assert_true(rch_clean(&hand));
	assert_int_equal(rch_close(&hand), 0);
}

/* Laps of every ring and wraps of 16 bits of WQE counters, for each variant. */
static void test_long_run(void **state)
{
	(void)state;
	for (unsigned v = 0; v < RCH_VARIANT_CNT; v++) {
		long_run(rch_variants[v], 3, 32, 0, 3000);
		long_run(rch_variants[v], 1, 1, 0, 2000);
		long_run(rch_variants[v], 8, 7, 0, 2000);
	}
}

/* The CQ's counters pass 2^24 (what the doorbell record holds) and 2^32. */
static void test_cq_wraps(void **state)
{
	(void)state;
	for (unsigned v = 0; v < RCH_VARIANT_CNT; v++) {
		long_run(rch_variants[v], 2, 32, (1u << 24) - 512 * 3, 2000);
		long_run(rch_variants[v], 2, 32, 0u - 512 * 3, 2000);
	}
}

/* More than 2^16 WQEs through each ring, without a short cut. */
static void test_all_the_way(void **state)
{
	(void)state;
	long_run(PORT_RC_SRQ, 4, 32, 0, LAPS);
	long_run(PORT_RC_WRITE | MLX5_RC_STAMP, 4, 32, 0, LAPS);
	long_run(0, 4, 32, 0, LAPS);
	long_run(MLX5_RC_COMPRESSED, 4, 32, 0, LAPS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_long_run),
		cmocka_unit_test(test_cq_wraps),
		cmocka_unit_test(test_all_the_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
