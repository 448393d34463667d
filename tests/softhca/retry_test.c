/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A peer that is not ready or does not answer: RNR NAKs and their timer, retries. Runs under
 * tools/with-softhca.
 */
#include "pair_kit.h"

static void test_rnr_retry_exceeded(void **state)
{
	const struct kit_how how = {.no_retry = true};

	(void)state;
	reopen(&how);
	assert_int_equal(kit_post(&a, IBV_WR_SEND, k.buf, 64, k.mr->lkey, 0, 0), 0);
	kit_expect(a.cq, IBV_WC_RNR_RETRY_EXC_ERR, NULL);
	assert_int_equal(kit_state(b.qp), IBV_QPS_RTS);
}

/* Between two RNR NAKs the sender waits for as long as the receiver asked: code 26 is 81.92 ms
 * (InfiniBand specification, table 45). */
static void test_rnr_timer(void **state)
{
	const struct kit_how how = {.min_rnr_timer = 26, .rnr_retry = 2};
	uint64_t from;

	(void)state;
	reopen(&how);
	from = kit_now_us();
	assert_int_equal(kit_post(&a, IBV_WR_SEND, k.buf, 64, k.mr->lkey, 0, 0), 0);
	kit_expect(a.cq, IBV_WC_RNR_RETRY_EXC_ERR, NULL);
	assert_true(kit_now_us() - from >= 2 * 81800);
}

/* The receive is posted after RNR NAKs, while retries are left: the message still arrives. */
static void test_rnr_then_receive(void **state)
{
	(void)state;
	kit_fill(k.buf, 64, 5);
	assert_int_equal(kit_post(&a, IBV_WR_SEND, k.buf, 64, k.mr->lkey, 0, 0), 0);
	kit_expect_nothing(a.cq);
	assert_int_equal(kit_recv(&b, far, 64, k.mr->lkey), 0);
	kit_expect(a.cq, IBV_WC_SUCCESS, NULL);
	kit_expect(b.cq, IBV_WC_SUCCESS, NULL);
	assert_true(kit_same(far, 64, 5));
}

/* The peer's QP is back in RESET and answers nothing. */
static void test_retry_exceeded(void **state)
{
	const struct kit_how how = {.timeout = 8, .retry = 2};
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};

	(void)state;
	reopen(&how);
	assert_int_equal(ibv_modify_qp(b.qp, &reset, IBV_QP_STATE), 0);
	assert_int_equal(
		kit_post(&a, IBV_WR_RDMA_WRITE, k.buf, 64, k.mr->lkey, (uintptr_t)far, k.mr->rkey),
		0);
	kit_expect(a.cq, IBV_WC_RETRY_EXC_ERR, NULL);
	expect_dead(&a);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		CASE(test_rnr_retry_exceeded),
		CASE(test_rnr_timer),
		CASE(test_rnr_then_receive),
		CASE(test_retry_exceeded),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
