/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * RC: peers that break the protocol and completions that make no sense. Only the peer concerned
 * goes down, no slot is lost, and it can be brought up again. err_test.c has queue pairs that fail.
 */
#include "err_kit.h"
#include "unit_test.h"

/* What a peer may not do: opcode, length, immediate (or count of credits), after how many messages.
 */
enum { SEND_ONLY = 1, WRITE_ONLY = 2 };
static const struct {
	unsigned mode;
	uint32_t opcode, len, imm, before;
} breach[] = {
	{SEND_ONLY, SPW_PRM_CQE_RESP_SEND, 10, 0, 16}, /* more than granted */
	{SEND_ONLY, SPW_PRM_CQE_RESP_SEND, 0, 0, 0},   /* nothing, and no control message */
	{SEND_ONLY, SPW_PRM_CQE_RESP_WR_IMM, 0, 5, 0}, /* a write of nothing, which needs no key */
	{SEND_ONLY, SPW_PRM_CQE_RESP_WR_IMM, 10, 5, 0},
	{WRITE_ONLY, SPW_PRM_CQE_RESP_WR_IMM, 10, 16, 0}, /* no such slot */
	{WRITE_ONLY, SPW_PRM_CQE_RESP_WR_IMM, 10, UINT32_MAX, 0},
	{WRITE_ONLY, SPW_PRM_CQE_RESP_WR_IMM, 10, 0, 1}, /* not granted again yet */
	{WRITE_ONLY, SPW_PRM_CQE_RESP_WR_IMM, 0, 5, 0},  /* lengths that cannot be */
	{WRITE_ONLY, SPW_PRM_CQE_RESP_WR_IMM, 257, 5, 0},
	{WRITE_ONLY, SPW_PRM_CQE_RESP_WR_IMM, 0x80000000u, 5, 0},
	{WRITE_ONLY, SPW_PRM_CQE_RESP_SEND, 0, 0, 0},
	{0, SPW_PRM_CQE_RESP_SEND_IMM, 0, 20, 0}, /* grants nothing */
	{0, SPW_PRM_CQE_RESP_SEND_IMM, 0, 21, 0}, /* more than it has */
	{0, SPW_PRM_CQE_RESP_SEND_IMM, 0, 19, 0}, /* takes back */
	{0, SPW_PRM_CQE_RESP_SEND_IMM, 0, UINT32_MAX, 0},
};

static void test_breaches(void **state)
{
	(void)state;
	for (unsigned v = 0; v < SPW_ARRAY_CNT(variants); v++)
		for (unsigned i = 0; i < SPW_ARRAY_CNT(breach); i++) {
			struct spw_desc desc[SPW_BURST_MAX];
			uint8_t *addr;

			if (breach[i].mode ==
			    (variants[v] & PORT_RC_WRITE ? SEND_ONLY : WRITE_ONLY))
				continue;
			open_rc(variants[v]);
			rch_peer(&hand, 1)->rc.tx.greeted =
				true; /* else the first control message may say nothing new */
			for (uint32_t k = 0; k < breach[i].before; k++)
				assert_true(rch_message(&hand, 1, 50, NULL, &addr));
			rch_cqe(&hand, hand.qp[1].qpn, breach[i].opcode, rch_take(&hand, 1, &addr),
				breach[i].len, breach[i].imm);
			assert_true(rch_message(&hand, 2, 50, NULL, &addr));
			assert_int_equal(burst(desc), breach[i].before + 1);
			assert_int_equal(state_of(1), SPW_PEER_SIDE_BROKEN);
			assert_int_equal(rch_peer(&hand, 1)->rc.why, SPW_PEER_WHY_PROTOCOL);
			assert_int_equal(hand.q->rc.stat.err[SPW_PORT_ERR_protocol], 1);
			assert_true(rch_balanced(&hand, breach[i].before + 1));
			release(desc, (uint16_t)(breach[i].before + 1));
			check_alive(0, 0);
			recover(1);
			check_alive(1, 0);
			check_alive(2, 0);
			assert_int_equal(rch_close(&hand), 0);
		}
}

/* WRITE: a peer grants a slot out of range. Messages that wait for it are returned unsent; nothing
 * is written anywhere. */
static void test_bad_grant(void **state)
{
	(void)state;
	for (int waits = 0; waits < 2; waits++) {
		struct spw_desc desc[2], *ptr[2] = {&desc[0], &desc[1]};
		uint32_t slot[2];
		struct rch_msg msg;

		open_rc(PORT_RC_WRITE);
		assert_int_equal(spw_port_lend_burst(&hand.pq, slot, 2), 2);
		for (int i = 0; i < 2; i++)
			desc[i] = (struct spw_desc){.slot = slot[i], .len = 99, .peer = 3};
		if (waits)
			rch_peer(&hand, 1)->rc.tx.limit = 1;
		hand.qp[1].granted = 2; /* of these the second is: */
		hand.qp[1].ring_in[1] = spw_cpu_to_be32(20);
		assert_int_equal(spw_port_tx_burst(&hand.pq, ptr, 2), waits ? 2 : 1);
		if (waits) {
			struct spw_desc none;

			rch_control(&hand, 1, 2);
			assert_int_equal(spw_port_rx_burst(&hand.pq, &none, 1), 0);
		} else {
			spw_port_release_burst(&hand.pq, &ptr[1]->slot, 1);
		}
		assert_int_equal(state_of(1), SPW_PEER_SIDE_BROKEN);
		assert_int_equal(rch_peer(&hand, 1)->rc.why, SPW_PEER_WHY_PROTOCOL);
		assert_int_equal(hand.q->rc.stat.err[SPW_PORT_ERR_protocol], 1);
		assert_true(rch_send_one(&hand, 1, &msg)); /* the one before it */
		assert_false(rch_send_one(&hand, 1, &msg));
		mlx5_rc_reap(&hand.q->rc);
		assert_int_equal(hand.q->rc.stat.tx_flushed, waits);
		assert_true(rch_balanced(&hand, 0));
		check_alive(0, 0);
		recover(1);
		check_alive(1, 0);
		assert_int_equal(rch_close(&hand), 0);
	}
}

/* WRITE: a bad grant is met while the peer's neighbours have been served in the same burst; what
 * waited for it returns to them, so that they are to be served once more. */
static void test_bad_grant_among_others(void **state)
{
	struct spw_desc desc[SPW_BURST_MAX], *ptr[2] = {&desc[0], &desc[1]};
	uint8_t *addr;

	(void)state;
	open_rc(PORT_RC_WRITE);
	assert_true(rch_message(&hand, 0, 50, NULL, &addr));
	assert_true(rch_message(&hand, 2, 50, NULL, &addr));
	assert_int_equal(burst(desc), 2);
	desc[0].peer = desc[1].peer = 3;
	rch_peer(&hand, 1)->rc.tx.limit = 0;
	assert_int_equal(spw_port_tx_burst(&hand.pq, ptr, 2), 2);
	assert_true(rch_message(&hand, 0, 50, NULL, &addr));
	assert_true(rch_message(&hand, 2, 50, NULL, &addr));
	hand.qp[1].granted = 2;
	hand.qp[1].ring_in[0] = spw_cpu_to_be32(20);
	rch_control(&hand, 1, 2);
	assert_int_equal(burst(desc), 2);
	assert_int_equal(state_of(1), SPW_PEER_SIDE_BROKEN);
	assert_int_equal(hand.q->rc.stat.tx_flushed, 2);
	assert_int_equal(hand.q->rc.todo_cnt, 0);
	assert_true(rch_balanced(&hand, 2));
	release(desc, 2);
	check_alive(0, 0);
	check_alive(2, 0);
	recover(1);
	check_alive(1, 0);
	assert_int_equal(rch_close(&hand), 0);
}

/* SEND: a length that the slot cannot have held is a lie of the device; the message is dropped, the
 * credit is not. */
static void test_too_long(void **state)
{
	struct spw_desc desc[SPW_BURST_MAX];
	uint8_t *addr;

	(void)state;
	open_rc(PORT_RC_SRQ);
	assert_true(rch_message(&hand, 1, 257, NULL, &addr));
	assert_true(rch_message(&hand, 1, UINT32_MAX, NULL, &addr));
	assert_true(rch_message(&hand, 1, 256, NULL, &addr));
	assert_int_equal(burst(desc), 1);
	assert_int_equal(hand.q->rc.stat.dropped[SPW_PORT_DROP_too_long], 2);
	assert_int_equal(rch_peer(&hand, 1)->rc.rx.returned - rch_peer(&hand, 1)->rc.rx.received,
			 15);
	release(desc, 1);
	check_alive(1, 0);
	assert_int_equal(rch_close(&hand), 0);
}

/* Completions that cannot be: of no QP of ours, of receives that are not posted, of opcodes that
 * there are not. */
static void test_bad_cqes(void **state)
{
	(void)state;
	for (unsigned v = 0; v < SPW_ARRAY_CNT(variants); v++) {
		uint32_t own_qp = hand.qp[1].qpn, errors = 3;
		struct spw_desc desc[SPW_BURST_MAX];
		uint8_t *addr;

		open_rc(variants[v]);
		own_qp = hand.qp[1].qpn;
		rch_cqe(&hand, 0x123456, SPW_PRM_CQE_RESP_SEND, rch_take(&hand, 2, &addr), 10,
			0); /* nobody's */
		assert_int_equal(burst(desc), 0);
		for (uint32_t i = 0; i < 3; i++)
			assert_int_equal(state_of(i), SPW_PEER_SIDE_UP);
		if (!(variants[v] & PORT_RC_SRQ))
			hand.qp[2].rq_ci--;
		rch_sent(&hand, 0x123456, 0, 0);
		rch_sent(&hand, hand.qp[2].qpn, 5, 0); /* nothing was sent */
		mlx5_rc_reap(&hand.q->rc);
		assert_int_equal(state_of(2), SPW_PEER_SIDE_BROKEN);
		rch_cqe(&hand, own_qp, 9, 0, 10,
			0); /* an opcode that there is not: its receive is not known */
		assert_int_equal(burst(desc), 0);
		assert_int_equal(state_of(1), SPW_PEER_SIDE_BROKEN);
		errors++;
		if (variants[v] & PORT_RC_SRQ) {
			uint32_t end = hand.q->srq_tail; /* never posted */

			rch_cqe(&hand, hand.qp[0].qpn, SPW_PRM_CQE_RESP_SEND, v == 1 ? end : 512,
				10, 0);
			assert_int_equal(burst(desc), 0);
			assert_int_equal(state_of(0), SPW_PEER_SIDE_BROKEN);
			errors++;
		}
		assert_int_equal(hand.q->rc.stat.err[SPW_PORT_ERR_cqe_error], errors);
		assert_int_equal(hand.q->rc.error[0], errors);
		assert_true(rch_balanced(&hand, 0));
		assert_int_equal(rch_close(&hand), 0);
	}
}

/* Shapes that would overrun a ring, or leave a credit without a receive, are refused with a text.
 */
static void test_shapes(void **state)
{
	struct rch_conf good = {
		.flags = 0,
		.peer_cnt = 3,
		.credits = 16,
		.remote_credits = 20,
		.cq_cnt = 128,
		.rq_cnt = 32,
		.srq_cnt = 128,
		.sq_cnt = 64,
		.slot_bytes = 256,
	};

	(void)state;
	for (int i = 0; i < 6; i++) {
		struct rch_conf c = good;

		if (i == 1)
			c.cq_cnt = 64; /* 3 * 32 receives */
		if (i == 2)
			c.rq_cnt = 16; /* 16 credits, 6 more */
		if (i == 3)
			c.flags = PORT_RC_SRQ, c.srq_cnt = 64; /* 3 * 22 receives */
		if (i == 4)
			c.sq_cnt = 32;
		if (i == 5)
			c.cq_cnt = 100;
		assert_int_equal(rch_open(&hand, &c), i ? -22 : 0);
		if (i == 0)
			assert_int_equal(rch_close(&hand), 0);
		else
			rch_close(&hand);
	}
}

/* A peer that says impossible things of itself does not come up. */
static void test_remote_lies(void **state)
{
	static const struct {
		uint32_t credits, ring_cnt;
	} lie[] = {{0, 16}, {4097, 16}, {20, 8}, {20, 17}, {20, 8192}};

	(void)state;
	open_rc(PORT_RC_WRITE);
	port_rc_break(&hand.q->rc, &rch_peer(&hand, 1)->rc, SPW_PEER_WHY_PEER_GONE, 0);
	port_rc_reset(&hand.q->rc, &rch_peer(&hand, 1)->rc);
	for (unsigned i = 0; i < SPW_ARRAY_CNT(lie); i++) {
		struct spw_peer_remote remote = {.credit_cnt = lie[i].credits,
						 .ring_cnt = lie[i].ring_cnt,
						 .slot_bytes = 256};

		assert_int_equal(port_rc_up(&hand.q->rc, &rch_peer(&hand, 1)->rc, &remote), -71);
		assert_int_equal(state_of(1), SPW_PEER_SIDE_DOWN);
	}
	assert_int_equal(rch_close(&hand), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_breaches),
		cmocka_unit_test(test_too_long),
		cmocka_unit_test(test_bad_grant),
		cmocka_unit_test(test_bad_cqes),
		cmocka_unit_test(test_bad_grant_among_others),
		cmocka_unit_test(test_shapes),
		cmocka_unit_test(test_remote_lies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
