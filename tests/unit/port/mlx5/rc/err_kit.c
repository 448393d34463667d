/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The queue of three peers that err_test.c and breach_test.c break, and how they check that it
 * works again.
 */
#include <string.h>

#include "err_kit.h"
#include "unit_test.h"

struct rch hand;

const unsigned variants[6] = {0,
			      PORT_RC_SRQ,
			      PORT_RC_WRITE | MLX5_RC_STAMP,
			      PORT_RC_WRITE | PORT_RC_SRQ,
			      MLX5_RC_COMPRESSED,
			      MLX5_RC_COMPRESSED | PORT_RC_SRQ};

void open_rc(unsigned flags)
{
	struct rch_conf c = {
		.flags = flags,
		.peer_cnt = 3,
		.credits = 16,
		.remote_credits = 20,
		.cq_cnt = 512,
		.rq_cnt = 32,
		.srq_cnt = 512,
		.sq_cnt = 64,
		.slot_bytes = 256,
		.slot_extra = 10,
		.start = 512 * 3 - 20,
	};

	assert_int_equal(rch_open(&hand, &c), 0);
}

uint16_t burst(struct spw_desc *desc)
{
	return spw_port_rx_burst(&hand.pq, desc, SPW_BURST_MAX);
}

void release(const struct spw_desc *desc, uint16_t cnt)
{
	for (uint16_t i = 0; i < cnt; i++)
		spw_port_release_burst(&hand.pq, &desc[i].slot, 1);
}

uint32_t state_of(uint32_t peer)
{
	return rch_peer(&hand, peer)->rc.side;
}

void check_alive(uint32_t peer, uint32_t lent)
{
	for (int i = 0; i < 100; i++) {
		struct spw_desc desc[SPW_BURST_MAX], *ptr = desc;
		struct rch_msg msg = {0};
		uint8_t *addr;

		assert_true(rch_message(&hand, peer, 64, NULL, &addr));
		memset(addr, i, 64);
		assert_int_equal(burst(desc), 1);
		assert_int_equal(desc[0].peer, peer * 2 + 1);
		assert_ptr_equal(spw_pool_slot_addr(&hand.pool, desc[0].slot), addr);
		assert_int_equal(spw_port_tx_burst(&hand.pq, &ptr, 1), 1);
		while (rch_send_one(&hand, peer, &msg))
			if (msg.len)
				assert_int_equal(msg.data[63], i);
		rch_control(&hand, peer, hand.qp[peer].got + hand.conf.remote_credits);
		assert_int_equal(burst(desc), 0);
		assert_int_equal(burst(desc), 0);
		while (rch_send_one(&hand, peer, &msg)) /* a grant */
			;
		assert_true(rch_balanced(&hand, lent));
	}
	assert_int_equal(hand.qp[peer].violations, 0);
}

void recover(uint32_t peer)
{
	struct mlx5_rc_peer *p = rch_peer(&hand, peer);
	struct spw_desc desc[SPW_BURST_MAX];

	rch_rx_flush(&hand, peer);
	mlx5_rc_mark(&hand.q->rc, &p->rc);
	rch_tx_flush(&hand, peer);
	for (int i = 0; i < 4; i++)
		assert_int_equal(burst(desc), 0);
	mlx5_rc_reap(&hand.q->rc);
	assert_true(port_rc_is_drained(&hand.q->rc, &p->rc));
	hand.qp[peer].rq_ci = hand.qp[peer].sq_ci = 0; /* what RESET does */
	hand.qp[peer].db[0] = hand.qp[peer].db[1] = spw_cpu_to_be32(0);
	port_rc_reset(&hand.q->rc, &p->rc);
	assert_int_equal(state_of(peer), SPW_PEER_SIDE_DOWN);
	rch_up(&hand, peer);
}
