/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A peer that is not ready or does not answer: RNR NAKs and their timer, retries, and their
 * counters: what was repeated is apart from what exceeded the limit. Runs under tools/with-softhca.
 */
#include "pair_kit.h"

/* Two counters; the device's other tests have counted too. */
struct counts {
	uint64_t repeated, exceeded;
};

static struct counts rnr_counts(void)
{
	return (struct counts){kit_counter(&k, "hw_counters/rnr_nak_retry_err"),
			       kit_counter(&k, "hw_counters/req_rnr_retries_exceeded")};
}

static struct counts timeout_counts(void)
{
	return (struct counts){kit_counter(&k, "hw_counters/local_ack_timeout_err"),
			       kit_counter(&k, "hw_counters/req_transport_retries_exceeded")};
}

static void expect_counts(struct counts now, struct counts before, uint64_t repeated)
{
	assert_int_equal(now.repeated - before.repeated, repeated);
	assert_int_equal(now.exceeded - before.exceeded, 1);
}

static void test_rnr_retry_exceeded(void **state)
{
	const struct kit_how how = {.no_retry = true};
	const struct counts before = rnr_counts();

	(void)state;
	reopen(&how);
	assert_int_equal(kit_post(&a, IBV_WR_SEND, k.buf, 64, k.mr->lkey, 0, 0), 0);
	kit_expect(a.cq, IBV_WC_RNR_RETRY_EXC_ERR, NULL);
	assert_int_equal(kit_state(b.qp), IBV_QPS_RTS);
	expect_counts(rnr_counts(), before, 0);
}

/* Between two RNR NAKs the sender waits for as long as the receiver asked: code 26 is 81.92 ms
 * (InfiniBand specification, table 45). */
static void test_rnr_timer(void **state)
{
	const struct kit_how how = {.min_rnr_timer = 26, .rnr_retry = 2};
	const struct counts before = rnr_counts();
	uint64_t from;

	(void)state;
	reopen(&how);
	from = kit_now_us();
	assert_int_equal(kit_post(&a, IBV_WR_SEND, k.buf, 64, k.mr->lkey, 0, 0), 0);
	kit_expect(a.cq, IBV_WC_RNR_RETRY_EXC_ERR, NULL);
	assert_true(kit_now_us() - from >= 2 * 81800);
	expect_counts(rnr_counts(), before, 2);
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
	const struct counts before = timeout_counts();
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};

	(void)state;
	reopen(&how);
	assert_int_equal(ibv_modify_qp(b.qp, &reset, IBV_QP_STATE), 0);
	assert_int_equal(
		kit_post(&a, IBV_WR_RDMA_WRITE, k.buf, 64, k.mr->lkey, (uintptr_t)far, k.mr->rkey),
		0);
	kit_expect(a.cq, IBV_WC_RETRY_EXC_ERR, NULL);
	expect_dead(&a);
	expect_counts(timeout_counts(), before, 2);
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
