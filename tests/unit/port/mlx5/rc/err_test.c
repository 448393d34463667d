/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * RC: queue pairs that fail, at every point of a transfer. Only the peer concerned goes down, no
 * slot is lost, and it can be brought up again. breach_test.c has peers and completions that lie.
 */
#include "err_kit.h"
#include "unit_test.h"

/* An error on either side, with messages before it lent, behind it flushed, and others under way.
 */
static void test_qp_errors(void **state)
{
	(void)state;
	for (unsigned v = 0; v < SPW_ARRAY_CNT(variants); v++)
		for (unsigned tx = 0; tx < 2; tx++) {
			struct spw_desc desc[SPW_BURST_MAX], *ptr[2] = {&desc[0], &desc[1]};
			uint8_t *addr;

			open_rc(variants[v]);
			for (int i = 0; i < 5; i++)
				assert_true(rch_message(&hand, 1, 50, NULL, &addr));
			assert_true(rch_message(&hand, 0, 50, NULL, &addr));
			assert_int_equal(burst(desc), 6);
			assert_int_equal(spw_port_tx_burst(&hand.pq, ptr, 2), 2);
			if (tx) {
				rch_sent(&hand, hand.qp[1].qpn, 0,
					 SPW_PRM_SYN_TRANSPORT_RETRY_EXC_ERR);
				hand.qp[1].sq_ci++;
				mlx5_rc_reap(&hand.q->rc);
			} else {
				rch_rx_error(&hand, 1, SPW_PRM_SYN_LOCAL_PROT_ERR);
				assert_int_equal(burst(desc + 6), 0);
				assert_int_equal(hand.q->rc.stat.dropped[SPW_PORT_DROP_rx_error],
						 1);
			}
			assert_int_equal(state_of(1), SPW_PEER_SIDE_BROKEN);
			assert_int_equal(rch_peer(&hand, 1)->rc.code,
					 tx ? SPW_PRM_SYN_TRANSPORT_RETRY_EXC_ERR
					    : SPW_PRM_SYN_LOCAL_PROT_ERR);
			assert_true(rch_balanced(&hand, 4));
			check_alive(0, 4);
			assert_false(port_rc_is_drained(&hand.q->rc, &rch_peer(&hand, 1)->rc));
			ptr[0] = &desc[2];
			assert_int_equal(spw_port_tx_burst(&hand.pq, ptr, 1),
					 0); /* nothing is sent to it */
			release(desc + 2, 4);
			recover(1);
			assert_true(rch_balanced(&hand, 0));
			assert_true(hand.q->rc.stat.err[SPW_PORT_ERR_cqe_error] > 0);
			assert_int_equal(hand.q->rc.stat.err[SPW_PORT_ERR_protocol], 0);
			assert_int_equal(hand.q->rc.stat.tx_frames, 100);
			check_alive(1, 0);
			check_alive(2, 0);
			assert_int_equal(rch_close(&hand), 0);
		}
}

/* The last WQEs were unsignaled and completed before the QP failed: only the marker proves it. */
static void test_silent_end(void **state)
{
	struct mlx5_rc_peer *p;
	struct spw_desc desc[SPW_BURST_MAX];
	struct rch_msg msg;
	uint8_t *addr;

	(void)state;
	open_rc(PORT_RC_WRITE);
	p = rch_peer(&hand, 1);
	for (int i = 0; i < 4; i++)
		assert_true(rch_message(&hand, 1, 50, NULL, &addr));
	assert_int_equal(burst(desc), 4);
	release(desc, 4);
	assert_int_equal(burst(desc), 0);
	while (rch_send_one(&hand, 1, &msg)) /* a grant */
		;
	assert_int_equal(hand.tx_pi, hand.conf.start);
	port_rc_break(&hand.q->rc, &p->rc, SPW_PEER_WHY_PEER_GONE, 0);
	assert_false(mlx5_rc_has_unread(&hand.q->rc, &p->rc));
	rch_rx_flush(&hand, 1);
	assert_true(mlx5_rc_has_unread(&hand.q->rc, &p->rc));
	assert_false(mlx5_rc_has_unread(&hand.q->rc, &rch_peer(&hand, 0)->rc));
	burst(desc);
	assert_int_equal(p->rc.rq_ci, p->rc.rq_pi);
	assert_false(mlx5_rc_has_unread(&hand.q->rc, &p->rc));
	assert_false(port_rc_is_drained(&hand.q->rc, &p->rc));
	mlx5_rc_mark(&hand.q->rc, &p->rc);
	rch_tx_flush(&hand, 1);
	assert_true(mlx5_rc_has_unread(&hand.q->rc, &p->rc));
	assert_false(mlx5_rc_has_unread(&hand.q->rc, &rch_peer(&hand, 0)->rc));
	recover(1);
	assert_false(mlx5_rc_has_unread(&hand.q->rc, &p->rc));
	check_alive(1, 0);
	assert_int_equal(rch_close(&hand), 0);
}

/* SRQ: nothing of a QP is flushed; what it received before it failed, and nobody has read yet,
 * keeps it from being reset, else it would count for its next life. What others received does not.
 */
static void test_unread(void **state)
{
	static const unsigned flags[] = {PORT_RC_SRQ, PORT_RC_SRQ | MLX5_RC_COMPRESSED,
					 PORT_RC_SRQ | MLX5_RC_COMPRESSED};

	(void)state;
	for (unsigned i = 0; i < SPW_ARRAY_CNT(flags); i++) {
		struct mlx5_rc_peer *p;
		struct spw_desc desc[SPW_BURST_MAX];
		uint8_t *addr;

		open_rc(flags[i]);
		p = rch_peer(&hand, 0);
		for (uint32_t k = 0; k < 7; k++)
			assert_true(rch_message(&hand, k < 5, 10, NULL, &addr));
		if (i == 2)
			rch_compress(&hand, 7);
		port_rc_break(&hand.q->rc, &p->rc, SPW_PEER_WHY_PEER_GONE, 0);
		assert_false(port_rc_is_drained(&hand.q->rc, &p->rc));
		assert_int_equal(spw_port_rx_burst(&hand.pq, desc, 6), 6);
		assert_false(port_rc_is_drained(&hand.q->rc, &p->rc));
		release(desc, 6);
		assert_false(port_rc_is_drained(&hand.q->rc, &p->rc));
		assert_int_equal(burst(desc), 1);
		release(desc, 1);
		assert_true(rch_message(&hand, 1, 10, NULL, &addr));
		assert_true(port_rc_is_drained(&hand.q->rc, &p->rc));
		release(desc, burst(desc));
		recover(0);
		check_alive(0, 0);
		check_alive(1, 0);
		assert_int_equal(rch_close(&hand), 0);
	}
}

/* A session behind an error is no part of it; one that cannot be true costs its peer, and no slot.
 */
static void test_sessions_and_errors(void **state)
{
	(void)state;
	for (unsigned lie = 0; lie < 2; lie++) {
		struct spw_desc desc[SPW_BURST_MAX];
		uint32_t lent = lie ? 0 : 5;
		uint8_t *addr, *title;

		open_rc(MLX5_RC_COMPRESSED);
		if (!lie)
			rch_rx_error(&hand, 0, SPW_PRM_SYN_LOCAL_LENGTH_ERR);
		title = hand.cq + (size_t)(hand.pi & (hand.conf.cq_cnt - 1)) * 64;
		for (uint32_t i = 0; i < lent + lie; i++)
			assert_true(rch_message(&hand, 1, 100, NULL, &addr));
		rch_compress(&hand, lent + lie);
		if (lie) {
			title[63] |= SPW_PRM_CQE_FORMAT_COMPRESSED << 2;
			spw_prm_cqe64_set_byte_cnt(title, hand.conf.cq_cnt + 1);
		}
		assert_int_equal(burst(desc), 0); /* uses up what is odd */
		assert_int_equal(burst(desc), lent);
		assert_int_equal(state_of(lie), SPW_PEER_SIDE_BROKEN);
		assert_int_equal(state_of(!lie), SPW_PEER_SIDE_UP);
		assert_true(rch_balanced(&hand, lent));
		release(desc, (uint16_t)lent);
		recover(lie);
		check_alive(0, 0);
		check_alive(1, 0);
		assert_int_equal(rch_close(&hand), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_qp_errors),
		cmocka_unit_test(test_silent_end),
		cmocka_unit_test(test_sessions_and_errors),
		cmocka_unit_test(test_unread),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
