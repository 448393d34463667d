/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * When a raw send completes (port/tx.c): after the flush that published its frame, stamped then,
 * and in order with what fails or is flushed. The device lock is held throughout, so the NIC thread
 * does nothing of its own.
 */
#include "../../kernel/kit.h"

#include "softhca/nic/run/run.h"
#include "softhca/nic/port/port.h"
#include "softhca/nic/eth/eth.h"
#include "softhca/nic/up.h"

#define WQES      16u /* of the kit's SQ, and entries of its CQ */
#define FRAME_LEN 14u

struct sent {
	struct kit k;
	struct nic_dev *nd;
	struct hca_qp *qp;
	const struct cable_ops *under;
	struct cable_ops ops;
	uint32_t committed, flushed; /* frames */
	uint64_t flushed_at[WQES];   /* by frame, NIC clock */
};

static struct sent s;

static const uint8_t *cqe(uint32_t i)
{
	return s.qp->send_cq->buf + (size_t)(i % WQES) * 64;
}

/* In the CQ's first lap. */
static uint32_t cqes(void)
{
	uint32_t n = 0;

	while (n < WQES && spw_prm_cqe64_get_opcode(cqe(n)) != SPW_PRM_CQE_INVALID &&
	       !spw_prm_cqe64_get_owner(cqe(n)))
		n++;
	return n;
}

static void commit(struct cable *c, uint32_t flags)
{
	s.under->tx_commit(c, flags);
	s.committed++;
}

static void flush(struct cable *c)
{
	assert_int_equal(cqes(), SPW_MIN(s.flushed, WQES)); /* none of what is flushed only now */
	s.under->tx_flush(c);
	while (s.flushed < s.committed)
		s.flushed_at[s.flushed++ % WQES] = nic_clock(s.k.dev);
}

static int open_sent(void **state)
{
	struct ib_uverbs_create_qp_resp r;
	uint32_t cq;

	(void)state;
	memset(&s, 0, sizeof(s));
	kit_open(&s.k);
	s.nd = s.k.dev->nic;
	assert_int_equal(kit_cq(&s.k, -1, &cq), 0);
	assert_int_equal(kit_qp(&s.k, IB_UVERBS_QPT_RAW_PACKET, cq, &r), 0);
	assert_int_equal(kit_modify(&s.k, r.qp_handle, QPA_PORT, HCA_QPS_INIT), 0);
	assert_int_equal(kit_modify(&s.k, r.qp_handle, 0, HCA_QPS_RTR), 0);
	assert_int_equal(kit_modify(&s.k, r.qp_handle, 0, HCA_QPS_RTS), 0);
	hca_lock(s.k.dev);
	s.qp = hca_qp_get(s.k.dev, r.qpn);
	memset(s.qp->send_cq->buf, 0xff, WQES * 64);
	s.under = s.nd->cable->ops;
	s.ops = *s.under;
	s.ops.tx_commit = commit;
	s.ops.tx_flush = flush;
	s.nd->cable->ops = &s.ops;
	return 0;
}

static int close_sent(void **state)
{
	(void)state;
	s.nd->cable->ops = s.under;
	hca_unlock(s.k.dev);
	kit_close(&s.k);
	return 0;
}

/* One frame of `len` inline bytes, which asks for a CQE. */
static void put(uint16_t idx, uint32_t len)
{
	uint8_t *wqe = sq_bytes(s.qp->nic, idx, 0);

	memset(wqe, 0, 64);
	spw_prm_st32(wqe, (uint32_t)idx << 8 | SPW_PRM_OP_SEND);
	spw_prm_st32(wqe + 4, s.qp->qpn << 8 | (1 + (14 + len + 15) / 16));
	spw_prm_st32(wqe + 8, SPW_PRM_CTRL_CE_CQE << 2);
	spw_prm_st16(wqe + 16 + 12, (uint16_t)len);
	memset(wqe + 16 + 14, 0x5a, len);
}

/* Rings for cnt more and sends; the cable is flushed after every `every` frames. */
static void send(uint32_t cnt, uint32_t every)
{
	struct nic_qp *q = s.qp->nic;

	for (uint32_t i = 0; i < cnt; i++)
		put(q->sq_pi++, FRAME_LEN);
	s.nd->tx_left = every;
	raw_tx(q);
}

static void expect_good(uint32_t cnt)
{
	assert_int_equal(cqes(), cnt);
	for (uint32_t i = 0; i < cnt; i++) {
		assert_int_equal(spw_prm_cqe64_get_opcode(cqe(i)), SPW_PRM_CQE_REQ);
		assert_int_equal(spw_prm_cqe64_get_wqe_counter(cqe(i)), i);
	}
	assert_null(s.nd->sent_list);
}

/* Flushes after 6 frames, and then as port/tx.c does: after 16, here at the end of the round. */
static void completes_after_its_flush(void **state)
{
	const uint64_t before = nic_clock(s.k.dev);

	(void)state;
	send(WQES, 6);
	assert_int_equal(cqes(), 6);
	nic_tx_publish(s.nd);
	expect_good(WQES);
	for (uint32_t i = 0; i < WQES; i++) {
		const uint64_t stamp = spw_prm_cqe64_get_timestamp(cqe(i));

		assert_true(s.flushed_at[i] >= before && stamp >= s.flushed_at[i]);
		assert_true(stamp <= (i < 6 ? s.flushed_at[6] : nic_clock(s.k.dev)));
	}
}

/* A frame above the MTU completes as sent, in order, and does not leave. */
static void above_the_mtu(void **state)
{
	struct nic_qp *q = s.qp->nic;

	(void)state;
	s.k.dev->mtu_bytes = 42;
	put(0, FRAME_LEN);
	put(1, FRAME_LEN);
	put(2, 42 + 19);
	q->sq_pi = 4; /* the last one takes two blocks */
	s.nd->tx_left = WQES;
	raw_tx(q);
	assert_int_equal(s.committed, 2);
	nic_tx_publish(s.nd);
	s.flushed = s.committed = 3; /* as many as CQEs, for the last flush */
	expect_good(3);
	assert_int_equal(s.nd->too_long, 1);
	assert_int_equal(s.qp->state, HCA_QPS_RTS);
}

static void fails_in_order(void **state)
{
	struct nic_qp *q = s.qp->nic;

	(void)state;
	put(3, FRAME_LEN - 1); /* too short for a frame */
	q->sq_pi = 4;
	for (uint16_t i = 0; i < 3; i++)
		put(i, FRAME_LEN);
	s.nd->tx_left = WQES;
	raw_tx(q);
	assert_int_equal(s.qp->state, HCA_QPS_SQE);
	assert_int_equal(cqes(), 4);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(spw_prm_cqe64_get_opcode(cqe(i)), SPW_PRM_CQE_REQ);
	assert_int_equal(spw_prm_cqe64_get_opcode(cqe(3)), SPW_PRM_CQE_REQ_ERR);
	assert_int_equal(spw_prm_cqe_err_get_syndrome(cqe(3)), SPW_PRM_SYN_LOCAL_LENGTH_ERR);
}

/* What is on the cable was sent, whatever becomes of its queue. */
static void error_comes_after_it(void **state)
{
	struct nic_qp *q = s.qp->nic;

	(void)state;
	send(3, WQES);
	assert_int_equal(cqes(), 0);
	put(q->sq_pi++, FRAME_LEN); /* rung, and never sent */
	qp_to_err(q);
	assert_int_equal(cqes(), 4);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(spw_prm_cqe64_get_opcode(cqe(i)), SPW_PRM_CQE_REQ);
	assert_int_equal(spw_prm_cqe64_get_opcode(cqe(3)), SPW_PRM_CQE_REQ_ERR);
	assert_int_equal(spw_prm_cqe_err_get_syndrome(cqe(3)), SPW_PRM_SYN_WR_FLUSH_ERR);
	assert_int_equal(s.flushed, 3);
}

static void reset_comes_after_it(void **state)
{
	(void)state;
	send(3, WQES);
	s.qp->state = HCA_QPS_RESET;
	nic_qp_modified(s.qp, HCA_QPS_RTS, 0);
	expect_good(3);
	assert_int_equal(s.qp->nic->swr_cur, 0);
}

/* The CQ overruns while a queue's sends complete, which fails that very queue. */
static void overrun_on_the_way(void **state)
{
	struct nic_qp *q = s.qp->nic;

	(void)state;
	send(WQES - 2, WQES);
	nic_tx_publish(s.nd);
	expect_good(WQES - 2);
	send(8, WQES);
	nic_tx_publish(s.nd); /* two fit; the application has read none */
	assert_int_equal(s.qp->state, HCA_QPS_ERR);
	assert_true(s.qp->send_cq->nic->err);
	assert_int_equal(q->swr_head, q->swr_tail);
	expect_good(WQES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(completes_after_its_flush, open_sent, close_sent),
		cmocka_unit_test_setup_teardown(above_the_mtu, open_sent, close_sent),
		cmocka_unit_test_setup_teardown(fails_in_order, open_sent, close_sent),
		cmocka_unit_test_setup_teardown(error_comes_after_it, open_sent, close_sent),
		cmocka_unit_test_setup_teardown(reset_comes_after_it, open_sent, close_sent),
		cmocka_unit_test_setup_teardown(overrun_on_the_way, open_sent, close_sent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
