/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Doorbells: which QP a write to a register page rings, and what counts as wrong (run/doorbell.c).
 * The device lock is held throughout, so that the NIC thread does not take the doorbells.
 */
#include "../../kernel/kit.h"

#include "softhca/nic/run/run.h"
#include "softhca/nic/transport/qp.h"

#define WIDE true

struct bell {
	struct kit k;
	struct nic_dev *nd;
	struct hca_qp *qp[2];
};

static struct hca_qp *ready_qp(struct kit *k, uint32_t cq)
{
	struct ib_uverbs_create_qp_resp r;

	assert_int_equal(kit_qp(k, IB_UVERBS_QPT_RAW_PACKET, cq, &r), 0);
	assert_int_equal(kit_modify(k, r.qp_handle, QPA_PORT, HCA_QPS_INIT), 0);
	assert_int_equal(kit_modify(k, r.qp_handle, 0, HCA_QPS_RTR), 0);
	assert_int_equal(kit_modify(k, r.qp_handle, 0, HCA_QPS_RTS), 0);
	return hca_qp_get(k->dev, r.qpn);
}

static int open_bell(void **state)
{
	static struct bell b;
	uint32_t cq;

	kit_open(&b.k);
	b.nd = b.k.dev->nic;
	assert_int_equal(kit_cq(&b.k, -1, &cq), 0);
	b.qp[0] = ready_qp(&b.k, cq);
	b.qp[1] = ready_qp(&b.k, cq);
	hca_lock(b.k.dev);
	*state = &b;
	return 0;
}

static int close_bell(void **state)
{
	struct bell *b = *state;

	for (uint32_t i = 0; i < b->nd->uar_cnt; i++)
		memset(b->nd->uar[i]->page + SPW_PRM_UAR_BF_OFFSET, 0, 0x400);
	hca_unlock(b->k.dev);
	kit_close(&b->k);
	return 0;
}

static void record(struct hca_qp *qp, uint16_t pi)
{
	spw_dma_store(qp->sq_dbrec, spw_cpu_to_be32(pi));
}

static uint64_t value_of(const struct hca_qp *qp, uint16_t idx)
{
	return (uint64_t)idx << 40 | (uint64_t)SPW_PRM_OP_SEND << 32 | qp->qpn << 8 | 3;
}

/* half: 0 and 1 of the first register, 2 and 3 of the second. */
static void put(struct bell *b, uint32_t half, uint64_t value, bool wide)
{
	uint8_t *to = b->k.uar->page + SPW_PRM_UAR_BF_OFFSET + half * 0x100;

	if (wide)
		memset(to + 8, 0x5a, 56);
	spw_prm_st64(to, value);
}

static uint32_t look(struct bell *b)
{
	b->nd->now_ns += 1000000;
	return nic_doorbells(b->nd);
}

static void expect_counts(const struct bell *b, uint64_t qpn, uint64_t index, uint64_t half)
{
	assert_int_equal(b->nd->strict.qpn, qpn);
	assert_int_equal(b->nd->strict.index, index);
	assert_int_equal(b->nd->strict.half, half);
}

static void good_one_rings(void **state)
{
	struct bell *b = *state;

	record(b->qp[0], 1);
	put(b, 0, value_of(b->qp[0], 0), false);
	assert_int_equal(look(b), 1);
	assert_int_equal(b->qp[0]->nic->sq_pi, 1);
	assert_int_equal(look(b), 0);
	record(b->qp[0], 4); /* the record has moved on already */
	put(b, 1, value_of(b->qp[0], 1), false);
	assert_int_equal(look(b), 1);
	assert_int_equal(b->qp[0]->nic->sq_pi, 4);
	expect_counts(b, 0, 0, 0);
}

static void index_goes_round(void **state)
{
	struct bell *b = *state;

	record(b->qp[0], 1);
	put(b, 0, value_of(b->qp[0], 0xffff) | 5 /* two blocks: 0xffff and 0 */, false);
	assert_int_equal(look(b), 1);
	expect_counts(b, 0, 0, 0);
}

/* None of these values names a QP that rings on this page: nothing is fetched. */
static void wrong_qp_rings_nobody(void **state)
{
	struct bell *b = *state;
	struct hca_uar *other;
	uint64_t off;

	record(b->qp[0], 1);
	put(b, 0, value_of(b->qp[0], 0) ^ 0x40000, false);
	assert_int_equal(look(b), 0);
	expect_counts(b, 1, 0, 0);
	put(b, 0, SPW_SWAP64(value_of(b->qp[0], 0)), false); /* the other byte order */
	assert_int_equal(look(b), 0);
	expect_counts(b, 2, 0, 0);
	assert_int_equal(hca_uar_alloc(b->k.ctx, &other, &off), 0);
	spw_prm_st64(other->page + SPW_PRM_UAR_BF_OFFSET, value_of(b->qp[0], 0));
	assert_int_equal(look(b), 0);
	expect_counts(b, 3, 0, 0);
	assert_int_equal(b->qp[0]->nic->sq_pi, 0);
	put(b, 1, value_of(b->qp[0], 0), false);
	assert_int_equal(look(b), 1);
	assert_int_equal(b->qp[0]->nic->sq_pi, 1);
}

/* The register before the record. The record is what counts. */
static void index_beyond_the_record(void **state)
{
	struct bell *b = *state;

	record(b->qp[0], 1);
	put(b, 0, value_of(b->qp[0], 1), false);
	assert_int_equal(look(b), 1);
	expect_counts(b, 0, 1, 0);
	assert_int_equal(b->qp[0]->nic->sq_pi, 1);
}

/* Posts one on the QP through that half and reads the register. */
static void post(struct bell *b, uint32_t qp, uint32_t half, bool wide)
{
	const uint16_t pi = b->qp[qp]->nic->sq_pi;

	record(b->qp[qp], (uint16_t)(pi + 1));
	put(b, half, value_of(b->qp[qp], pi), wide);
	assert_int_equal(look(b), 1);
}

static void copies_alternate(void **state)
{
	struct bell *b = *state;

	for (uint32_t i = 0; i < 6;
	     i++) { /* two QPs on one register, and another register in between */
		post(b, i & 1, i & 1, WIDE);
		post(b, 0, 2 + (i & 1), WIDE);
	}
	expect_counts(b, 0, 0, 0);
	post(b, 0, 1, WIDE);
	expect_counts(b, 0, 0, 1);
	post(b, 1, 1, WIDE); /* of another QP: the register is the same */
	expect_counts(b, 0, 0, 2);
	post(b, 0, 0, WIDE);
	expect_counts(b, 0, 0, 2);
}

/* glibc's memmove() for AVX-512 writes a block of 64 bytes twice: no second copy. The next doorbell
 * in that half is one. */
static void copy_written_twice(void **state)
{
	struct bell *b = *state;

	post(b, 0, 0, WIDE);
	for (uint32_t i = 0; i < 2; i++) {
		put(b, 0, value_of(b->qp[0], 0), WIDE);
		assert_int_equal(look(b), 1);
	}
	expect_counts(b, 0, 0, 0);
	post(b, 0, 0, WIDE);
	expect_counts(b, 0, 0, 1);
	post(b, 0, 1, WIDE);
	expect_counts(b, 0, 0, 1);
}

static void plain_ones_may_stay(void **state)
{
	struct bell *b = *state;

	for (uint32_t i = 0; i < 5; i++)
		post(b, 0, 0, false);
	expect_counts(b, 0, 0, 0);
}

/* Both halves found written: which came last is not known. What is found alone after them may be
 * older than one of them, so either half may follow that, too. */
static void order_that_is_not_known(void **state)
{
	struct bell *b = *state;

	for (uint32_t i = 0; i < 2; i++) {
		put(b, 0, value_of(b->qp[0], (uint16_t)(2 * i)), WIDE);
		put(b, 1, value_of(b->qp[0], (uint16_t)(2 * i + 1)), WIDE);
		record(b->qp[0], (uint16_t)(2 * i + 2));
		assert_int_equal(look(b), 1);
	}
	post(b, 0, 1, WIDE);
	post(b, 0, 1, WIDE);
	expect_counts(b, 0, 0, 0);
	post(b, 0, 1, WIDE);
	expect_counts(b, 0, 0, 1);
}

/* A QP destroyed before the doorbell was read is no wrong doorbell, and the one that was written
 * over is not lost with it. */
static void forgotten_with_its_qp(void **state)
{
	struct bell *b = *state;

	record(b->qp[1], 1);
	record(b->qp[0], 1);
	put(b, 0, value_of(b->qp[0], 0), WIDE);
	nic_doorbells_forget(b->qp[0]->nic);
	assert_int_equal(look(b), 0);
	assert_int_equal(b->qp[1]->nic->sq_pi, 1);
	expect_counts(b, 0, 0, 0);
	post(b, 1, 0, WIDE);
	nic_doorbells_forget(b->qp[0]->nic); /* a new QP's user may begin with this half again */
	post(b, 1, 0, WIDE);
	expect_counts(b, 0, 0, 0);
}

/* A WQE of `ds` segments at index idx, every byte different, and its copy in a half. The NIC has
 * taken all before it. */
static void wqe_and_copy(struct bell *b, uint16_t idx, uint32_t ds, uint32_t half, uint32_t bytes)
{
	struct nic_qp *q = b->qp[0]->nic;
	const uint64_t value = value_of(b->qp[0], idx) - 3 + ds;
	uint8_t *to = b->k.uar->page + SPW_PRM_UAR_BF_OFFSET + half * 0x100;

	for (uint32_t i = 0; i < ds * 16; i++)
		*sq_bytes(q, idx, i) = (uint8_t)(i + 1);
	spw_prm_st64(sq_bytes(q, idx, 0), value);
	for (uint32_t i = 0; i < bytes; i++)
		to[i] = *sq_bytes(q, idx, i);
	q->sq_pi = idx;
	record(b->qp[0], (uint16_t)(idx + (ds + 3) / 4));
}

static void copies_are_compared(void **state)
{
	struct bell *b = *state;
	uint8_t *page = b->k.uar->page + SPW_PRM_UAR_BF_OFFSET;
	const uint16_t last = (uint16_t)(b->qp[0]->sq_wqebb_cnt - 1);

	b->k.cfg.trap_blueflame = true;
	wqe_and_copy(b, 0, 4, 0, 64);
	look(b);
	wqe_and_copy(b, 1, 3, 1, 48);
	look(b);
	wqe_and_copy(b, 2, 4, 0, 8); /* a plain doorbell */
	look(b);
	wqe_and_copy(b, last, 8, 1, 128); /* goes round */
	look(b);
	assert_int_equal(b->nd->strict.copy, 0);
	wqe_and_copy(b, 4, 4, 0, 64);
	page[63] ^= 1;
	look(b);
	assert_int_equal(b->nd->strict.copy, 1);
	wqe_and_copy(b, 5, 4, 1, 32); /* the other half of it never comes */
	look(b);
	assert_int_equal(b->nd->strict.copy, 2);
	wqe_and_copy(b, 6, 8, 0, 64); /* two blocks, and one was copied */
	look(b);
	assert_int_equal(b->nd->strict.copy, 3);
	wqe_and_copy(b, 7, 4, 0, 64);
	wqe_and_copy(b, 8, 4, 0, 8); /* a plain doorbell over a copy that the NIC has not seen */
	b->qp[0]->nic->sq_pi = 7;
	look(b);
	assert_int_equal(b->nd->strict.copy, 3);
	b->k.cfg.trap_blueflame = false;
	wqe_and_copy(b, 9, 4, 1, 56);
	look(b);
	assert_int_equal(b->nd->strict.copy, 3);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, open_bell, close_bell)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(good_one_rings),          CASE(index_goes_round),
		CASE(wrong_qp_rings_nobody),   CASE(index_beyond_the_record),
		CASE(copies_alternate),        CASE(plain_ones_may_stay),
		CASE(order_that_is_not_known), CASE(forgotten_with_its_qp),
		CASE(copies_are_compared),     CASE(copy_written_twice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
