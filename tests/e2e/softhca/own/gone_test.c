/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Memory that the application unmapped under a region or a ring. A card pins the pages; the NIC
 * thread cannot, and answers with an error completion where it must not crash. Runs under
 * tools/with-softhca.
 */
#include "pair_kit.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A region whose memory has been unmapped: neither a crash nor a successful completion. */
static void expect_gone(bool remote)
{
	uint8_t *gone =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr =
		ibv_reg_mr(k.pd, gone, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	struct ibv_wc wc;

	assert_non_null(mr);
	assert_int_equal(munmap(gone, 4096), 0);
	assert_int_equal(kit_post(&a, IBV_WR_RDMA_WRITE, remote ? k.buf : gone, 64,
				  remote ? k.mr->lkey : mr->lkey, (uintptr_t)(remote ? gone : far),
				  remote ? mr->rkey : k.mr->rkey),
			 0);
	assert_int_equal(kit_poll(a.cq, &wc, 1, KIT_WAIT_MS), 1);
	assert_int_equal(wc.status, remote ? IBV_WC_REM_OP_ERR : IBV_WC_LOC_PROT_ERR);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void test_memory_gone(void **state)
{
	(void)state;
	expect_gone(false);
}

static void test_write_to_memory_gone(void **state)
{
	(void)state;
	expect_gone(true);
}

#define OTHERS 8u

/* One QP meets memory that is gone; those that have work at the same time go on. */
static void test_memory_gone_beside_others(void **state)
{
	struct kit_end others[OTHERS];

	(void)state;
	for (unsigned i = 0; i < OTHERS; i++) {
		kit_end_open(&k, &others[i], &(struct kit_how){0});
		kit_end_connect(&k, &others[i], others[i].qp->qp_num,
				&(struct kit_how){0}); /* to itself */
	}
	for (unsigned turn = 0; turn < 50; turn++) {
		uint8_t *gone = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		struct ibv_mr *mr = ibv_reg_mr(k.pd, gone, 4096, IBV_ACCESS_LOCAL_WRITE);

		assert_non_null(mr);
		assert_int_equal(munmap(gone, 4096), 0);
		assert_int_equal(kit_post(&a, IBV_WR_RDMA_WRITE, gone, 64, mr->lkey, (uintptr_t)far,
					  k.mr->rkey),
				 0);
		for (unsigned i = 0; i < OTHERS; i++)
			assert_int_equal(kit_post(&others[i], IBV_WR_RDMA_WRITE, k.buf, 64,
						  k.mr->lkey, (uintptr_t)far, k.mr->rkey),
					 0);
		for (unsigned i = 0; i < OTHERS; i++)
			kit_expect(others[i].cq, IBV_WC_SUCCESS, NULL);
		kit_expect(a.cq, IBV_WC_LOC_PROT_ERR, NULL);
		assert_int_equal(ibv_dereg_mr(mr), 0);
		reopen(&(struct kit_how){0});
	}
	for (unsigned i = 0; i < OTHERS; i++)
		kit_end_close(&others[i]);
}

/* An RDMA READ from memory that is gone, or into it, fails at once: no timeout is waited for. */
static void expect_read_gone(bool remote)
{
	uint8_t *gone =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr =
		ibv_reg_mr(k.pd, gone, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);

	assert_non_null(mr);
	assert_int_equal(munmap(gone, 4096), 0);
	assert_int_equal(kit_post(&a, IBV_WR_RDMA_READ, remote ? k.buf : gone, 64,
				  remote ? k.mr->lkey : mr->lkey, (uintptr_t)(remote ? gone : far),
				  remote ? mr->rkey : k.mr->rkey),
			 0);
	kit_expect(a.cq, remote ? IBV_WC_REM_OP_ERR : IBV_WC_LOC_PROT_ERR, NULL);
	assert_int_equal(kit_state(a.qp), IBV_QPS_ERR);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void test_read_from_memory_gone(void **state)
{
	(void)state;
	expect_read_gone(true);
	assert_int_equal(kit_state(b.qp), IBV_QPS_ERR);
}

static void test_read_into_memory_gone(void **state)
{
	(void)state;
	expect_read_gone(false);
}

/* A completion queue whose ring the NIC cannot reach puts its QPs in ERR, and nothing else. The
 * flushes of that transition meet the same ring. */
static void test_ring_gone(void **state)
{
	struct mlx5dv_cq dv;
	struct mlx5dv_obj obj = {.cq = {.in = a.cq, .out = &dv}};
	const size_t bytes = (size_t)4 * KIT_DEPTH * 64; /* whole pages */
	struct kit_end c, d;

	(void)state;
	assert_int_equal(mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ), 0);
	assert_int_equal((uintptr_t)dv.buf % 4096, 0);
	assert_int_equal(mprotect(dv.buf, bytes, PROT_NONE), 0);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(kit_post(&a, IBV_WR_RDMA_WRITE, k.buf, 64, k.mr->lkey,
					  (uintptr_t)far, k.mr->rkey),
				 0);
	for (unsigned ms = 0; kit_state(a.qp) != IBV_QPS_ERR; ms++) {
		assert_true(ms < KIT_WAIT_MS);
		usleep(1000);
	}
	kit_pair_open(&k, &c, &d, NULL);
	kit_check_alive(&k, &c, &d);
	kit_end_close(&c);
	kit_end_close(&d);
	assert_int_equal(mprotect(dv.buf, bytes, PROT_READ | PROT_WRITE), 0);
}

/* The same, met by a command (modify to ERR), whose flushes have no ring to go to. */
static void test_ring_gone_for_a_command(void **state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct mlx5dv_cq dv;
	struct mlx5dv_obj obj = {.cq = {.in = b.cq, .out = &dv}};
	const size_t bytes = (size_t)4 * KIT_DEPTH * 64;
	struct kit_end c, d;

	(void)state;
	assert_int_equal(kit_recv(&b, far, 64, k.mr->lkey), 0);
	assert_int_equal(mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ), 0);
	assert_int_equal(mprotect(dv.buf, bytes, PROT_NONE), 0);
	assert_int_equal(ibv_modify_qp(b.qp, &attr, IBV_QP_STATE), EFAULT);
	assert_int_equal(kit_state(b.qp), IBV_QPS_ERR);
	kit_pair_open(&k, &c, &d, NULL);
	kit_check_alive(&k, &c, &d);
	kit_end_close(&c);
	kit_end_close(&d);
	assert_int_equal(mprotect(dv.buf, bytes, PROT_READ | PROT_WRITE), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		CASE(test_memory_gone),
		CASE(test_write_to_memory_gone),
		CASE(test_memory_gone_beside_others),
		CASE(test_read_from_memory_gone),
		CASE(test_read_into_memory_gone),
		CASE(test_ring_gone),
		CASE(test_ring_gone_for_a_command),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
