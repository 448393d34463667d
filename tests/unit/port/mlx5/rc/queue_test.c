/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * RC on memory alone: what bursts make of messages, and what the NIC and the peers make of our send
 * queues.
 */
#include <string.h>

#include "rc_hand.h"
#include "unit_test.h"

static struct rch hand;

static void open_rc(unsigned flags, uint32_t peers, uint32_t credits)
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
		.slot_extra = 60,
		.bf_bytes = 256,
	};

	assert_int_equal(rch_open(&hand, &c), 0);
}

static uint16_t burst(struct spw_desc *desc)
{
	return spw_port_rx_burst(&hand.pq, desc, SPW_BURST_MAX);
}

/* The peer sends bytes that follow from seed. */
static void put(uint32_t peer, uint32_t len, uint8_t seed, const uint32_t *imm)
{
	uint8_t *addr;

	assert_true(rch_message(&hand, peer, len, imm, &addr));
	for (uint32_t i = 0; i < len; i++)
		addr[i] = (uint8_t)(seed + i);
}

static void check_bytes(const struct spw_desc *d, uint8_t seed)
{
	const uint8_t *p = spw_pool_slot_addr(&hand.pool, d->slot) + d->offset;

	for (uint32_t i = 0; i < d->len; i++)
		assert_int_equal(p[i], (uint8_t)(seed + i));
}

static void release(const struct spw_desc *desc, uint16_t cnt)
{
	for (uint16_t i = 0; i < cnt; i++)
		spw_port_release_burst(&hand.pq, &desc[i].slot, 1);
}

/* All that the NIC may send now. Returns: messages among it. */
static uint32_t run_nic(uint32_t peer)
{
	struct rch_msg msg;
	uint32_t n = 0;

	while (rch_send_one(&hand, peer, &msg))
		n += msg.len != 0;
	return n;
}

/* Every field of the descriptor, for each variant; messages of several peers in one burst. */
static void test_descriptors(void **state)
{
	(void)state;
	for (unsigned v = 0; v < RCH_VARIANT_CNT; v++) {
		bool stamp = rch_variants[v] & MLX5_RC_STAMP,
		     write = rch_variants[v] & PORT_RC_WRITE;
		struct spw_desc desc[SPW_BURST_MAX];
		uint32_t imm = 0xfeedc0de;

		open_rc(rch_variants[v], 3, 16);
		assert_int_equal(burst(desc), 0);
		put(0, 100, 1, NULL);
		put(2, 1, 2, write ? NULL : &imm);
		put(0, 256, 3, NULL);
		assert_int_equal(burst(desc), 3);
		for (int i = 0; i < 3; i++) {
			uint32_t flags = SPW_DESC_MSG | (stamp ? SPW_DESC_NIC_STAMP : 0) |
					 (i == 1 && !write ? SPW_DESC_IMM : 0);

			assert_int_equal(desc[i].len, i == 0 ? 100 : i == 1 ? 1 : 256);
			assert_int_equal(desc[i].offset, 0);
			assert_int_equal(desc[i].peer, i == 1 ? 5 : 1);
			assert_int_equal(desc[i].flags, flags);
			assert_int_equal(desc[i].meta, i == 1 && !write ? imm : 0);
			assert_int_equal(desc[i].nic_stamp, stamp ? 1000 + 7 * (i + 1) : 0);
			assert_int_equal(desc[i].region, 6);
			assert_int_equal(desc[i].port, 5);
			assert_int_equal(desc[i].reserved, 0);
			check_bytes(&desc[i], (uint8_t)(i + 1));
		}
		assert_int_equal(hand.q->rc.stat.rx_frames, 3);
		assert_int_equal(hand.q->rc.stat.rx_bytes, 357);
		assert_int_equal(spw_be32_to_cpu(hand.db[0]), 3);
		assert_true(rch_balanced(&hand, 3));
		release(desc, 3);
		assert_true(rch_balanced(&hand, 0));
		assert_true(rch_clean(&hand));
		assert_int_equal(rch_close(&hand), 0);
	}
}

/* What the send queue says, byte for byte: data segment or inline, immediate, remote slot, peer. */
static void test_wqes(void **state)
{
	static const uint32_t lens[] = {1, 28, 29, 44, 45, 256};

	(void)state;
	for (unsigned write = 0; write < 2; write++)
		for (unsigned i = 0; i < SPW_ARRAY_CNT(lens); i++) {
			uint32_t inline_max = write ? 28 : 44, slot;
			struct spw_desc d = {.len = lens[i],
					     .peer = 3,
					     .flags = SPW_DESC_IMM,
					     .meta = 77},
					*p = &d;
			struct rch_msg msg;

			open_rc(write ? PORT_RC_WRITE : 0, 2, 16);
			assert_int_equal(spw_port_lend_burst(&hand.pq, &slot, 1), 1);
			d.slot = slot;
			for (uint32_t k = 0; k < lens[i]; k++)
				spw_pool_slot_addr(&hand.pool, slot)[k] = (uint8_t)(9 + k);
			assert_int_equal(spw_port_tx_burst(&hand.pq, &p, 1), 1);
			assert_true(rch_balanced(&hand, 0));
			assert_false(rch_send_one(&hand, 0, &msg));
			assert_memory_equal(hand.uar + 0x800, hand.qp[1].sq, 64);
			assert_true(rch_send_one(&hand, 1, &msg));
			assert_int_equal(msg.opcode,
					 write ? SPW_PRM_OP_RDMA_WRITE_IMM : SPW_PRM_OP_SEND_IMM);
			assert_int_equal(msg.imm, write ? 0 : 77);
			assert_int_equal(msg.len, lens[i]);
			assert_int_equal(msg.is_inline, lens[i] <= inline_max);
			assert_int_equal(msg.raddr, write ? RCH_SLOT_ADDR : 0);
			for (uint32_t k = 0; k < SPW_MIN(lens[i], 64u); k++)
				assert_int_equal(msg.data[k], (uint8_t)(9 + k));
			mlx5_rc_reap(&hand.q->rc);
			assert_int_equal(hand.q->rc.stat.tx_frames, 1);
			assert_int_equal(hand.q->rc.stat.tx_bytes, lens[i]);
			assert_int_equal(hand.pool.free_cnt, 60);
			assert_true(rch_clean(&hand));
			assert_int_equal(rch_close(&hand), 0);
		}
}

/* A burst to two peers: one doorbell each; the first 8 bytes only where several WQEs were rung. */
static void test_doorbells(void **state)
{
	struct spw_desc desc[3], *ptr[3];
	uint32_t slot[3];
	struct rch_msg msg;

	(void)state;
	open_rc(0, 2, 16);
	assert_int_equal(spw_port_lend_burst(&hand.pq, slot, 3), 3);
	for (int i = 0; i < 3; i++) {
		desc[i] = (struct spw_desc){.slot = slot[i], .len = 100, .peer = i == 1 ? 3 : 1};
		ptr[i] = &desc[i];
	}
	assert_int_equal(spw_port_tx_burst(&hand.pq, ptr, 3), 3);
	assert_int_equal(spw_be32_to_cpu(hand.qp[0].db[1]), 2);
	assert_int_equal(spw_be32_to_cpu(hand.qp[1].db[1]), 1);
	assert_true(rch_send_one(&hand, 0, &msg));
	mlx5_rc_reap(&hand.q->rc);
	assert_int_equal(hand.q->rc.in_tx_cnt, 3); /* only the last of a burst has a completion */
	assert_true(rch_send_one(&hand, 0, &msg));
	mlx5_rc_reap(&hand.q->rc);
	assert_int_equal(hand.q->rc.in_tx_cnt, 1);
	assert_true(rch_send_one(&hand, 1, &msg));
	mlx5_rc_reap(&hand.q->rc);
	assert_int_equal(hand.q->rc.in_tx_cnt, 0);
	assert_int_equal(rch_close(&hand), 0);
}

/* The half of the register that was written since the last call: 0, 1; 2: none or both. */
static unsigned half_rung(void)
{
	bool rung[2];

	for (unsigned half = 0; half < 2; half++) {
		uint8_t *reg = hand.uar + 0x800 + half * 256;

		rung[half] = reg[4] || reg[5] || reg[6]; /* the QP number of a WQE's head */
		memset(reg, 0, 256);
	}
	return rung[0] == rung[1] ? 2 : rung[1];
}

/* The peers share a register, whose halves alternate whichever of them rings: by messages, credits
 * or a marker. */
static void test_halves_alternate_by_register(void **state)
{
	static const uint32_t who[] = {1, 3, 3, 1, 1, 1, 3, 1, 3};

	(void)state;
	open_rc(0, 2, 16);
	unsigned next = 0;

	for (unsigned i = 0; i < SPW_ARRAY_CNT(who); i++) {
		struct spw_desc d = {.len = 100, .peer = who[i]}, *p = &d;

		assert_int_equal(spw_port_lend_burst(&hand.pq, &d.slot, 1), 1);
		assert_int_equal(spw_port_tx_burst(&hand.pq, &p, 1), 1);
		assert_int_equal(half_rung(), next++ & 1);
	}
	for (unsigned i = 0; i < 4; i++) {
		mlx5_rc_grant(&hand.q->rc, &mlx5_rc_peer_at(hand.q, i & 1)->rc);
		assert_int_equal(half_rung(), next++ & 1);
		mlx5_rc_mark(&hand.q->rc, &mlx5_rc_peer_at(hand.q, i & 1)->rc);
		assert_int_equal(half_rung(), next++ & 1);
	}
	mlx5_rc_peer_at(hand.q, 1)->bf_toggle = 0; /* it got no register of its own */
	for (unsigned i = 0; i < 2; i++) {
		mlx5_rc_grant(&hand.q->rc, &mlx5_rc_peer_at(hand.q, 1)->rc);
		assert_int_equal(half_rung(), 0);
		mlx5_rc_grant(&hand.q->rc, &mlx5_rc_peer_at(hand.q, 0)->rc);
		assert_int_equal(half_rung(), next++ & 1);
	}
	rch_close(&hand);
}

static void lend(struct spw_desc *desc, struct spw_desc **ptr, uint16_t cnt, uint32_t peer)
{
	uint32_t slot[SPW_BURST_MAX];

	assert_int_equal(spw_port_lend_burst(&hand.pq, slot, cnt), cnt);
	for (uint16_t i = 0; i < cnt; i++) {
		desc[i] = (struct spw_desc){.slot = slot[i], .len = 100, .peer = peer};
		memcpy(spw_pool_slot_addr(&hand.pool, slot[i]), &i, 2);
		ptr[i] = &desc[i];
	}
}

/* The messages that the NIC sends now are those of a lend, from the first-th on, in order. */
static void check_order(uint32_t peer, uint16_t first, uint16_t cnt)
{
	struct rch_msg msg;

	while (rch_send_one(&hand, peer, &msg))
		if (msg.len) {
			assert_memory_equal(msg.data, &first, 2);
			first++;
			cnt--;
		}
	assert_int_equal(cnt, 0);
}

/* What a peer has no room for waits, in order, as far as there is room for that too; what is not
 * taken stands at the end, and the other peers do not notice. */
static void test_no_credit(void **state)
{
	struct spw_desc desc[60], *ptr[60];
	uint32_t slot[1];

	(void)state;
	open_rc(0, 2, 16);
	hand.conf.remote_credits = 4;
	port_rc_break(&hand.q->rc, &rch_peer(&hand, 0)->rc, SPW_PEER_WHY_PEER_GONE, 0);
	port_rc_reset(&hand.q->rc, &rch_peer(&hand, 0)->rc);
	rch_up(&hand, 0);
	lend(desc, ptr, 40, 1);
	lend(desc + 40, ptr + 40, 4, 3);
	assert_int_equal(spw_port_tx_burst(&hand.pq, ptr, 44),
			 40); /* 4 go out, 32 wait, 4 are refused, and 4 to the other */
	for (int i = 0; i < 40; i++)
		assert_ptr_equal(ptr[i], &desc[i < 36 ? i : i + 4]);
	for (int i = 40; i < 44; i++) {
		assert_true(ptr[i] >= &desc[36] && ptr[i] < &desc[40]);
		spw_port_release_burst(&hand.pq, &ptr[i]->slot, 1);
	}
	assert_int_equal(hand.q->rc.stat.err[SPW_PORT_ERR_no_credit], 4);
	assert_int_equal(hand.q->rc.in_tx_cnt, 40);
	check_order(0, 0, 4);
	check_order(1, 0, 4);
	rch_control(&hand, 0, 7);
	assert_int_equal(burst(desc + 44), 0);
	check_order(0, 4, 3);
	lend(desc + 44, ptr, 1, 1);
	assert_int_equal(spw_port_tx_burst(&hand.pq, ptr, 1), 1); /* behind those that wait */
	for (uint32_t count = 11; count <= 36; count += 4) {
		rch_control(&hand, 0, SPW_MIN(count, 36u));
		burst(desc + 45);
		run_nic(0);
	}
	assert_int_equal(rch_peer(&hand, 0)->rc.wait_pi - rch_peer(&hand, 0)->rc.wait_ci, 2);
	mlx5_rc_reap(&hand.q->rc);
	assert_true(rch_balanced(&hand, 0));
	assert_int_equal(hand.q->rc.in_tx_cnt, 2);
	assert_true(rch_clean(&hand));
	port_rc_break(&hand.q->rc, &rch_peer(&hand, 0)->rc, SPW_PEER_WHY_PEER_GONE, 0);
	assert_int_equal(hand.q->rc.stat.tx_flushed, 2);
	assert_int_equal(hand.q->rc.in_tx_cnt, 0);
	/* who is unknown, who belongs to another queue, and messages that the peer cannot hold, are
	 * not sent */
	assert_int_equal(spw_port_lend_burst(&hand.pq, slot, 1), 1);
	for (uint32_t peer = 0; peer < 6; peer++) {
		desc[0] = (struct spw_desc){.slot = slot[0],
					    .len = peer == 3 ? 257 : 10,
					    .peer = peer == 5 ? UINT32_MAX : peer};
		ptr[0] = &desc[0];
		assert_int_equal(spw_port_tx_burst(&hand.pq, ptr, 1), 0);
	}
	spw_port_release_burst(&hand.pq, slot, 1);
	assert_true(rch_balanced(&hand, 0));
	assert_int_equal(rch_close(&hand), 0);
}

/* A peer whose connection is not whole yet: its messages come in, and what is sent to it waits;
 * what it cannot hold is flushed. */
static void test_before_it_is_up(void **state)
{
	struct spw_desc desc[8], *ptr[8];
	struct rch_qp *qp = &hand.qp[0];
	uint8_t *addr;

	(void)state;
	open_rc(0, 2, 16);
	port_rc_break(&hand.q->rc, &rch_peer(&hand, 0)->rc, SPW_PEER_WHY_PEER_GONE, 0);
	port_rc_reset(&hand.q->rc, &rch_peer(&hand, 0)->rc);
	qp->rq_ci = 0;
	lend(desc, ptr, 1, 1);
	assert_int_equal(spw_port_tx_burst(&hand.pq, ptr, 1), 0); /* DOWN */
	port_rc_post(&hand.q->rc, &rch_peer(&hand, 0)->rc, RCH_LKEY, RCH_RING_LKEY);
	spw_peer_tx_credit_start(&qp->tx, 16);
	assert_true(rch_message(&hand, 0, 10, NULL, &addr));
	assert_int_equal(burst(desc + 1), 1);
	desc[0].len = 257; /* the peer's slots have 256 bytes */
	ptr[1] = &desc[1];
	assert_int_equal(spw_port_tx_burst(&hand.pq, ptr, 2), 2);
	assert_int_equal(run_nic(0), 0);
	assert_true(rch_balanced(&hand, 0));

	struct spw_peer_remote remote = {.credit_cnt = 20, .slot_bytes = 256};

	assert_int_equal(port_rc_up(&hand.q->rc, &rch_peer(&hand, 0)->rc, &remote), 0);
	assert_int_equal(burst(desc + 2), 0);
	assert_int_equal(run_nic(0), 1);
	mlx5_rc_reap(&hand.q->rc);
	assert_int_equal(hand.q->rc.stat.tx_flushed, 1);
	assert_int_equal(hand.q->rc.stat.tx_frames, 1);
	assert_int_equal(hand.q->rc.in_tx_cnt, 0);
	assert_true(rch_balanced(&hand, 0));
	assert_int_equal(rch_close(&hand), 0);
}

/* Credits: a quarter of the window at a time, or at once for a peer that has nothing left. */
static void test_credits(void **state)
{
	(void)state;
	for (unsigned v = 0; v < RCH_VARIANT_CNT; v++) {
		struct spw_desc desc[SPW_BURST_MAX];

		open_rc(rch_variants[v], 2, 16);
		for (int i = 0; i < 16; i++)
			put(0, 10, 0, NULL);
		assert_int_equal(burst(desc), 16);
		assert_int_equal(run_nic(0), 0);
		assert_int_equal(spw_peer_tx_credit_left(&hand.qp[0].tx), 0);
		release(desc, 1);
		assert_int_equal(burst(desc + 16), 0); /* one credit, at once */
		run_nic(0);
		assert_int_equal(spw_peer_tx_credit_left(&hand.qp[0].tx), 1);
		release(desc + 1, 3);
		burst(desc + 16);
		run_nic(0);
		assert_int_equal(spw_peer_tx_credit_left(&hand.qp[0].tx),
				 1); /* three are not worth a message */
		release(desc + 4, 12);
		burst(desc + 16);
		run_nic(0);
		assert_int_equal(spw_peer_tx_credit_left(&hand.qp[0].tx), 16);
		assert_int_equal(hand.q->rc.control_tx, 2);
		assert_true(rch_balanced(&hand, 0));
		assert_true(rch_clean(&hand));
		assert_int_equal(rch_close(&hand), 0);
	}
}

/* Sessions of each length around those where an array of minis ends, taken in bursts of each size;
 * the title's immediate is everybody's. */
static void test_compressed(void **state)
{
	static const unsigned flags[] = {MLX5_RC_COMPRESSED, MLX5_RC_COMPRESSED | PORT_RC_SRQ};
	uint32_t imm = 0xfeedc0de;

	(void)state;
	for (uint32_t cnt = 1; cnt <= 36; cnt++)
		for (uint32_t at_once = 1; at_once <= SPW_BURST_MAX; at_once += 6) {
			struct spw_desc desc[SPW_BURST_MAX];
			uint16_t n = 0;

			open_rc(flags[cnt % 2], 2, 40);
			put(1, 5, 0, NULL);
			for (uint32_t i = 0; i < cnt; i++)
				put(0, 1 + i * 7 % 250, (uint8_t)i, &imm);
			put(1, 6, 0, NULL);
			rch_compress(&hand, cnt + 2);
			assert_int_equal(hand.sessions, cnt > 1);
			for (uint16_t got = 1; got; n += got)
				got = spw_port_rx_burst(
					&hand.pq, desc + n,
					(uint16_t)SPW_MIN(at_once, (uint32_t)(SPW_BURST_MAX - n)));
			assert_int_equal(n, cnt + 2);
			assert_int_equal(desc[n - 1].len, 6);
			assert_int_equal(desc[n - 1].peer, 3);
			for (uint32_t i = 0; i < cnt; i++) {
				assert_int_equal(desc[1 + i].len, 1 + i * 7 % 250);
				assert_int_equal(desc[1 + i].meta, imm);
				assert_int_equal(desc[1 + i].flags, SPW_DESC_MSG | SPW_DESC_IMM);
				assert_int_equal(desc[1 + i].peer, 1);
				check_bytes(&desc[1 + i], (uint8_t)i);
			}
			release(desc, n);
			assert_true(rch_balanced(&hand, 0));
			assert_true(rch_clean(&hand));
			assert_int_equal(rch_close(&hand), 0);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_descriptors),
		cmocka_unit_test(test_wqes),
		cmocka_unit_test(test_doorbells),
		cmocka_unit_test(test_halves_alternate_by_register),
		cmocka_unit_test(test_no_credit),
		cmocka_unit_test(test_before_it_is_up),
		cmocka_unit_test(test_credits),
		cmocka_unit_test(test_compressed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
