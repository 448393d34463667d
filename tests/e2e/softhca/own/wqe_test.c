/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Work queue entries written by hand, through mlx5dv, valid and invalid: the rules of doorbells,
 * and how the NIC checks WQEs. Runs under tools/with-softhca; needs the mlx5 provider.
 */
#include "verbs_kit.h"

#include <string.h>
#include <unistd.h>

#include "base/spw_order.h"
#include "prm/spw_prm.h"

static struct kit k;
static struct kit_end a, b;
static struct mlx5dv_qp dv;
static unsigned pi;        /* WQEBBs written so far */
static unsigned bf_offset; /* of the BlueFlame half to be written next */
static bool poison;        /* under --adversary SEED,poison */

static int open_pair(void **state)
{
	struct mlx5dv_obj obj = {0};

	(void)state;
	kit_open(&k);
	kit_pair_open(&k, &a, &b, NULL);
	obj.qp.in = a.qp;
	obj.qp.out = &dv;
	memset(&dv, 0, sizeof(dv));
	assert_int_equal(mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP), 0);
	pi = bf_offset = 0;
	return 0;
}

static int close_pair(void **state)
{
	(void)state;
	kit_end_close(&a);
	kit_end_close(&b);
	kit_close(&k);
	return 0;
}

/* A SEND of 64 bytes of the buffer, not yet visible to the NIC. */
static uint8_t *write_send(void)
{
	uint8_t *wqe = (uint8_t *)dv.sq.buf + (size_t)(pi & (dv.sq.wqe_cnt - 1)) * 64;

	memset(wqe, 0, 64);
	spw_prm_wqe_ctrl_set_opcode(wqe, SPW_PRM_OP_SEND);
	spw_prm_wqe_ctrl_set_wqe_index(wqe, pi & 0xffff);
	spw_prm_wqe_ctrl_set_qpn(wqe, a.qp->qp_num);
	spw_prm_wqe_ctrl_set_ds(wqe, 2);
	spw_prm_wqe_ctrl_set_ce(wqe, SPW_PRM_CTRL_CE_CQE);
	spw_prm_wqe_data_set_byte_count(wqe + 16, 64);
	spw_prm_wqe_data_set_lkey(wqe + 16, k.mr->lkey);
	spw_prm_wqe_data_set_addr(wqe + 16, (uintptr_t)k.buf);
	pi++;
	return wqe;
}

static void write_record(unsigned counter)
{
	spw_dma_to_device(); /* WQE before record; partner: the NIC's read of SND_DBR */
	spw_dma_store((spw_be32 *)&dv.dbrec[MLX5_SND_DBR], spw_cpu_to_be32(counter & 0xffff));
}

/* Rings with the first 8 bytes of a WQE; qpn may differ from the one in the WQE. */
static void ring_qp(const uint8_t *wqe, uint32_t qpn)
{
	uint8_t ctrl[16];
	spw_be64 first;

	memcpy(ctrl, wqe, sizeof(ctrl));
	spw_prm_wqe_ctrl_set_qpn(ctrl, qpn);
	memcpy(&first, ctrl, sizeof(first));
	spw_mmio_wc_start(); /* record before register; partner: the NIC's read of the register */
	spw_mmio_write64_be((uint8_t *)dv.bf.reg + bf_offset, first);
	spw_mmio_wc_flush();
	bf_offset ^= dv.bf.size;
}

static void ring(const uint8_t *wqe)
{
	ring_qp(wqe, a.qp->qp_num);
}

/* The software NIC clears the half that it takes a doorbell from. */
static void wait_taken(void)
{
	const uint64_t *half =
		(const uint64_t *)((const uint8_t *)dv.bf.reg + (bf_offset ^ dv.bf.size));

	for (unsigned ms = 0; spw_dma_load(half); ms++) {
		assert_true(ms < KIT_WAIT_MS);
		usleep(1000);
	}
}

static void prepare(unsigned seed)
{
	uint8_t *to = k.buf + KIT_BUF_BYTES / 2;

	kit_fill(k.buf, 64, seed);
	memset(to, 0, 64);
	assert_int_equal(kit_recv(&b, to, 64, k.mr->lkey), 0);
}

static void expect_delivered(unsigned seed)
{
	kit_expect(b.cq, IBV_WC_SUCCESS, NULL);
	assert_true(kit_same(k.buf + KIT_BUF_BYTES / 2, 64, seed));
}

static void test_by_hand(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 3 * dv.sq.wqe_cnt;
	     i++) { /* three laps of the ring, both halves of the register */
		uint8_t *wqe;

		prepare(i);
		wqe = write_send();
		write_record(pi);
		ring(wqe);
		expect_delivered(i);
		kit_expect(a.cq, IBV_WC_SUCCESS, NULL);
	}
}

/* A card reads the record only when the register is written. */
static void test_record_without_register(void **state)
{
	uint8_t *wqe;

	(void)state;
	prepare(1);
	wqe = write_send();
	write_record(pi);
	kit_expect_nothing(b.cq);
	ring(wqe);
	expect_delivered(1);
}

/* A register write without a new record has no effect. */
static void test_register_without_record(void **state)
{
	uint8_t *wqe;

	(void)state;
	prepare(2);
	wqe = write_send();
	ring(wqe);
	kit_expect_nothing(b.cq);
	write_record(pi);
	ring(wqe);
	expect_delivered(2);
}

/* A register write that names another QP rings that one, or none. */
static void test_register_of_another_qp(void **state)
{
	uint8_t *wqe;

	(void)state;
	prepare(4);
	wqe = write_send();
	write_record(pi);
	ring_qp(wqe, a.qp->qp_num ^ 0x800);
	kit_expect_nothing(b.cq);
	ring(wqe);
	expect_delivered(4);
}

/* The NIC may come to a WQE before its doorbell, when the other QP of the page is rung. The one who
 * posted it still copies it to the register then, so it stays as it is until a later one has been
 * posted; after that the adversary overwrites it. */
static void test_wqe_is_kept_for_its_doorbell(void **state)
{
	uint8_t *wqe, *next, as_written[64];
	const uint64_t poisoned = 0xa5a5a5a5a5a5a5a5ull;

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		prepare(6);
		wqe = write_send();
		memcpy(as_written, wqe, sizeof(as_written));
		write_record(pi);
		ring_qp(wqe, b.qp->qp_num);
		expect_delivered(6);
		kit_expect(a.cq, IBV_WC_SUCCESS, NULL);
		assert_memory_equal(wqe, as_written, sizeof(as_written));
		ring(wqe);
		wait_taken();

		prepare(7);
		next = write_send();
		write_record(pi);
		ring(next);
		expect_delivered(7);
		kit_expect(a.cq, IBV_WC_SUCCESS, NULL);
		assert_int_equal(memcmp(next, &poisoned, sizeof(poisoned)) == 0, poison);
	}
}

/* One register write may announce many WQEs. */
static void test_one_register_many_wqes(void **state)
{
	struct ibv_wc wc[8];
	uint8_t *wqe = NULL;

	(void)state;
	for (int i = 0; i < 8; i++) {
		prepare(3);
		wqe = write_send();
	}
	write_record(pi);
	ring(wqe);
	assert_int_equal(kit_poll(b.cq, wc, 8, KIT_WAIT_MS), 8);
	for (int i = 0; i < 8; i++)
		assert_int_equal(wc[i].status, IBV_WC_SUCCESS);
}

/* The NIC refuses the WQE with an error CQE and stops the queue; another pair is not disturbed. */
static void expect_refused(const uint8_t *wqe, unsigned counter)
{
	struct kit_end c, d;
	struct mlx5dv_obj obj = {0};
	struct mlx5dv_cq cq;
	const uint8_t *cqe;

	obj.cq.in = a.cq;
	obj.cq.out = &cq;
	assert_int_equal(mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ), 0);
	write_record(counter);
	ring(wqe);
	for (unsigned ms = 0; kit_state(a.qp) != IBV_QPS_ERR; ms++) {
		assert_true(ms < KIT_WAIT_MS);
		usleep(1000);
	}
	cqe = (const uint8_t *)cq.buf + (cq.cqe_size == 128 ? 64 : 0);
	assert_int_equal(spw_prm_cqe_err_get_opcode(cqe), SPW_PRM_CQE_REQ_ERR);
	assert_int_not_equal(spw_prm_cqe_err_get_syndrome(cqe), SPW_PRM_SYN_WR_FLUSH_ERR);
	assert_int_equal(spw_prm_cqe_err_get_qpn(cqe), a.qp->qp_num);
	kit_pair_open(&k, &c, &d, NULL);
	kit_check_alive(&k, &c, &d);
	kit_end_close(&c);
	kit_end_close(&d);
}

static void test_wrong_qpn(void **state)
{
	uint8_t *wqe = write_send();

	(void)state;
	spw_prm_wqe_ctrl_set_qpn(wqe, a.qp->qp_num ^ 1);
	expect_refused(wqe, pi);
}

static void test_wrong_index(void **state)
{
	uint8_t *wqe = write_send();

	(void)state;
	spw_prm_wqe_ctrl_set_wqe_index(wqe, 7);
	expect_refused(wqe, pi);
}

static void test_unknown_opcode(void **state)
{
	uint8_t *wqe = write_send();

	(void)state;
	spw_prm_wqe_ctrl_set_opcode(wqe, 0x77);
	expect_refused(wqe, pi);
}

static void test_empty(void **state)
{
	uint8_t *wqe = write_send();

	(void)state;
	spw_prm_wqe_ctrl_set_ds(wqe, 0);
	expect_refused(wqe, pi);
}

/* The WQE has 63 segments by its size, but the record announces one block only. */
static void test_longer_than_posted(void **state)
{
	uint8_t *wqe = write_send();

	(void)state;
	spw_prm_wqe_ctrl_set_ds(wqe, 63);
	expect_refused(wqe, pi);
}

/* The length of inline data exceeds the WQE. */
static void test_inline_too_long(void **state)
{
	uint8_t *wqe = write_send();

	(void)state;
	spw_prm_wqe_inline_set_byte_count(wqe + 16, 1000);
	spw_prm_wqe_inline_set_inline_seg(wqe + 16, 1);
	expect_refused(wqe, pi);
}

/* The record is several laps ahead of the ring. */
static void test_record_beyond_ring(void **state)
{
	(void)state;
	for (unsigned i = 0; i < dv.sq.wqe_cnt; i++) /* the ring contains no WQE */
		memset((uint8_t *)dv.sq.buf + (size_t)i * 64, 0xff, 64);
	expect_refused(dv.sq.buf, 5 * dv.sq.wqe_cnt);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, open_pair, close_pair)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		CASE(test_by_hand),
		CASE(test_record_without_register),
		CASE(test_register_without_record),
		CASE(test_register_of_another_qp),
		CASE(test_wqe_is_kept_for_its_doorbell),
		CASE(test_one_register_many_wqes),
		CASE(test_wrong_qpn),
		CASE(test_wrong_index),
		CASE(test_unknown_opcode),
		CASE(test_empty),
		CASE(test_longer_than_posted),
		CASE(test_inline_too_long),
		CASE(test_record_beyond_ring),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	poison = argc > 2;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
