/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What an application may do wrong through verbs, and what a ConnectX answers: the completion
 * status, the state of both QPs, and memory that nobody may have touched. Keys, bounds, rights,
 * sizes, states; memory that is gone is in gone_test.c, peers that do not answer in retry_test.c.
 * Runs under tools/with-softhca.
 */
#include "pair_kit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void test_good(void **state)
{
	(void)state;
	kit_check_alive(&k, &a, &b);
	kit_check_alive(&k, &b, &a);
}

static void test_bad_lkey(void **state)
{
	(void)state;
	assert_int_equal(kit_post(&a, IBV_WR_SEND, k.buf, 64, k.mr->lkey ^ 0x5a00, 0, 0), 0);
	kit_expect(a.cq, IBV_WC_LOC_PROT_ERR, NULL);
	expect_dead(&a);
}

static void test_beyond_mr(void **state)
{
	(void)state;
	assert_int_equal(kit_post(&a, IBV_WR_SEND, k.buf + KIT_BUF_BYTES - 8, 16, k.mr->lkey, 0, 0),
			 0);
	kit_expect(a.cq, IBV_WC_LOC_PROT_ERR, NULL);
}

static void expect_refused_write(uint64_t raddr, uint32_t rkey)
{
	memset(far, 0x11, 4096);
	assert_int_equal(kit_recv(&b, far, 64, k.mr->lkey), 0);
	assert_int_equal(kit_post(&a, IBV_WR_RDMA_WRITE, k.buf, 64, k.mr->lkey, raddr, rkey), 0);
	kit_expect(a.cq, IBV_WC_REM_ACCESS_ERR, NULL);
	expect_dead(&a);
	kit_expect(b.cq, IBV_WC_WR_FLUSH_ERR, NULL);
	assert_int_equal(kit_state(b.qp), IBV_QPS_ERR);
	kit_expect_event(&k, IBV_EVENT_QP_ACCESS_ERR);
	for (int i = 0; i < 4096; i++)
		assert_int_equal(far[i], 0x11);
}

static void test_bad_rkey(void **state)
{
	(void)state;
	expect_refused_write((uintptr_t)far, k.mr->rkey ^ 0x5a00);
}

static void test_write_beyond_mr(void **state)
{
	(void)state;
	expect_refused_write((uintptr_t)k.buf + KIT_BUF_BYTES - 8, k.mr->rkey);
}

static void test_write_without_right(void **state)
{
	struct ibv_mr *mr =
		ibv_reg_mr(k.pd, far, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);

	(void)state;
	assert_non_null(mr);
	expect_refused_write((uintptr_t)far, mr->rkey);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void test_write_other_pd(void **state)
{
	struct ibv_pd *pd = ibv_alloc_pd(k.ctx);
	struct ibv_mr *mr =
		ibv_reg_mr(pd, far, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);

	(void)state;
	assert_non_null(mr);
	expect_refused_write((uintptr_t)far, mr->rkey);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void test_read_bad_rkey(void **state)
{
	(void)state;
	memset(k.buf, 0x22, 64);
	assert_int_equal(kit_post(&a, IBV_WR_RDMA_READ, k.buf, 64, k.mr->lkey, (uintptr_t)far,
				  k.mr->rkey ^ 0x5a00),
			 0);
	kit_expect(a.cq, IBV_WC_REM_ACCESS_ERR, NULL);
	for (int i = 0; i < 64; i++)
		assert_int_equal(k.buf[i], 0x22);
}

static void test_receive_too_small(void **state)
{
	(void)state;
	memset(far, 0x33, 4096);
	assert_int_equal(kit_recv(&b, far, 64, k.mr->lkey), 0);
	assert_int_equal(kit_post(&a, IBV_WR_SEND, k.buf, 128, k.mr->lkey, 0, 0), 0);
	kit_expect(a.cq, IBV_WC_REM_INV_REQ_ERR, NULL);
	kit_expect(b.cq, IBV_WC_LOC_LEN_ERR, NULL);
	for (int i = 64; i < 4096; i++)
		assert_int_equal(far[i], 0x33);
}

static void test_receive_bad_lkey(void **state)
{
	(void)state;
	assert_int_equal(kit_recv(&b, far, 4096, k.mr->lkey ^ 0x5a00), 0);
	assert_int_equal(kit_post(&a, IBV_WR_SEND, k.buf, 128, k.mr->lkey, 0, 0), 0);
	kit_expect(b.cq, IBV_WC_LOC_PROT_ERR, NULL);
	kit_expect(a.cq, IBV_WC_REM_OP_ERR, NULL);
}

static void test_mr_deregistered(void **state)
{
	struct ibv_mr *mr = ibv_reg_mr(k.pd, k.buf, 4096, IBV_ACCESS_LOCAL_WRITE);
	const uint32_t lkey = mr->lkey;

	(void)state;
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(kit_post(&a, IBV_WR_SEND, k.buf, 64, lkey, 0, 0), 0);
	kit_expect(a.cq, IBV_WC_LOC_PROT_ERR, NULL);
}

static void post_atomic(uint64_t raddr)
{
	struct ibv_sge sge = {.addr = (uintptr_t)k.buf, .length = 8, .lkey = k.mr->lkey};
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.atomic = {.remote_addr = raddr, .rkey = k.mr->rkey, .compare_add = 1}};
	struct ibv_send_wr *bad;

	assert_int_equal(ibv_post_send(a.qp, &wr, &bad), 0);
}

static void test_atomic_unaligned(void **state)
{
	(void)state;
	memset(far, 0, 16);
	post_atomic((uintptr_t)far + 4);
	kit_expect(a.cq, IBV_WC_REM_INV_REQ_ERR, NULL);
	for (int i = 0; i < 16; i++)
		assert_int_equal(far[i], 0);
}

/* WQEs posted after a failed one complete as flushed, in order. */
static void test_flush_order(void **state)
{
	struct ibv_wc wc[9];

	(void)state;
	for (int i = 0; i < 4; i++)
		assert_int_equal(kit_recv(&a, far + 64 * i, 64, k.mr->lkey), 0);
	assert_int_equal(kit_post(&a, IBV_WR_SEND, k.buf, 64, k.mr->lkey ^ 0x5a00, 0, 0), 0);
	for (int i = 1; i < 5; i++)
		assert_int_equal(kit_post(&a, IBV_WR_SEND, k.buf + i, 64, k.mr->lkey, 0, 0), 0);
	assert_int_equal(kit_poll(a.cq, wc, 9, KIT_WAIT_MS), 9);
	assert_int_equal(wc[0].status, IBV_WC_LOC_PROT_ERR);
	uint64_t send = (uintptr_t)k.buf, recv = 0;
	for (int i = 1; i < 9; i++) {
		assert_int_equal(wc[i].status, IBV_WC_WR_FLUSH_ERR);
		uint64_t *last = wc[i].wr_id >= (uintptr_t)far ? &recv : &send;
		assert_true(wc[i].wr_id > *last);
		*last = wc[i].wr_id;
	}
}

static void test_cq_overrun(void **state)
{
	const struct kit_how how = {.cqe = 7};

	(void)state;
	reopen(&how);
	for (uint32_t i = 0; i < 40; i++)
		assert_int_equal(kit_post(&a, IBV_WR_RDMA_WRITE, k.buf, 8, k.mr->lkey,
					  (uintptr_t)far, k.mr->rkey),
				 0);
	kit_expect_event(&k, IBV_EVENT_CQ_ERR);
}

/* A forked child has the library but no NIC thread: its exit handlers leave the parent's alone. */
static void test_fork_child_ends(void **state)
{
	int status;
	const pid_t child = fork();

	(void)state;
	if (child == 0)
		exit(0); /* with all exit handlers */
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	kit_check_alive(&k, &a, &b);
}

static void test_busy_objects(void **state)
{
	(void)state;
	assert_int_equal(ibv_dealloc_pd(k.pd), EBUSY);
	assert_int_equal(ibv_destroy_cq(a.cq), EBUSY);
	kit_check_alive(&k, &a, &b);
}

static void test_wrong_transition(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS};
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.send_cq = a.cq,
		.recv_cq = a.cq,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
	struct ibv_qp *qp = ibv_create_qp(k.pd, &init);

	(void)state;
	assert_non_null(qp);
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), EINVAL);
	assert_int_equal(kit_state(qp), IBV_QPS_RESET);
	attr.qp_state = IBV_QPS_INIT;
	attr.port_num = 9;
	assert_int_equal(
		ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		EINVAL);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		CASE(test_good),
		CASE(test_bad_lkey),
		CASE(test_beyond_mr),
		CASE(test_bad_rkey),
		CASE(test_write_beyond_mr),
		CASE(test_write_without_right),
		CASE(test_write_other_pd),
		CASE(test_read_bad_rkey),
		CASE(test_receive_too_small),
		CASE(test_receive_bad_lkey),
		CASE(test_mr_deregistered),
		CASE(test_atomic_unaligned),
		CASE(test_flush_order),
		CASE(test_cq_overrun),
		CASE(test_fork_child_ends),
		CASE(test_busy_objects),
		CASE(test_wrong_transition),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
