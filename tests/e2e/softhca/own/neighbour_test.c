/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * RTR to an address that nobody on the cable has: the kernel's wait of a second, and its errors.
 * The NIC carries other QPs' messages meanwhile.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "base/spw_types.h"
#include "verbs_kit.h"

static struct kit k;

static int open_kit(void **state SPW_UNUSED)
{
	kit_open(&k);
	return 0;
}

static int close_kit(void **state SPW_UNUSED)
{
	kit_close(&k);
	return 0;
}

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* IPv4 is written as ::ffff:10.0.0.1. */
static int rtr(struct ibv_qp *qp, const char *address, uint8_t gid_idx, uint64_t *ms_out)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = 5,
		.max_dest_rd_atomic = 1,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.sgid_index = gid_idx, .hop_limit = 64}},
	};
	const uint64_t begin = now_ms();
	int rc;

	assert_int_equal(inet_pton(AF_INET6, address, attr.ah_attr.grh.dgid.raw), 1);
	rc = ibv_modify_qp(qp, &attr,
			   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				   IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				   IBV_QP_MIN_RNR_TIMER);
	*ms_out = now_ms() - begin;
	return rc;
}

static void expect(const char *address, uint8_t gid_idx, int error, uint64_t least_ms)
{
	const struct kit_how how = {0};
	struct kit_end e;
	uint64_t ms;

	kit_end_open(&k, &e, &how);
	kit_end_bring(&k, &e, 0, &how, IBV_QPS_INIT);
	assert_int_equal(rtr(e.qp, address, gid_idx, &ms), error);
	assert_int_equal(kit_state(e.qp), error ? IBV_QPS_INIT : IBV_QPS_RTR);
	if (ms < least_ms)
		fail_msg("%s: after %u ms, not %u", address, (unsigned)ms, (unsigned)least_ms);
	kit_end_close(&e);
}

/* GID 1 is link-local over RoCE v2, 0 over v1, and 3 IPv4 over v2. */
static void test_errors(void **state SPW_UNUSED)
{
	expect("::ffff:10.77.77.77", 3, ETIMEDOUT, 990);
	expect("fe80::211:22ff:fe33:4455", 1, ETIMEDOUT, 990);
	expect("fe80::211:22ff:fe33:4455", 0, 0, 0);
	expect("fd00::7", 1, ENETUNREACH, 0);
	expect("::ffff:10.77.77.77", 1, EINVAL, 0);
	expect("fe80::211:22ff:fe33:4455", 3, EINVAL, 0);
	expect("::ffff:224.0.0.7", 3, 0, 0);
}

static void test_address_handle(void **state SPW_UNUSED)
{
	struct ibv_ah_attr attr = {
		.is_global = 1, .port_num = 1, .grh = {.sgid_index = 3, .hop_limit = 64}};
	struct ibv_ah *ah;

	assert_int_equal(inet_pton(AF_INET6, "::ffff:10.77.77.77", attr.grh.dgid.raw), 1);
	assert_null(ibv_create_ah(k.pd, &attr));
	assert_int_equal(errno, ETIMEDOUT);
	attr.grh.dgid = k.gid;
	ah = ibv_create_ah(k.pd, &attr);
	assert_non_null(ah);
	assert_int_equal(ibv_destroy_ah(ah), 0);
}

static void *silent(void *arg)
{
	uint64_t ms;

	return (void *)(intptr_t)rtr(arg, "::ffff:10.77.77.77", 3, &ms);
}

static void test_others_go_on(void **state SPW_UNUSED)
{
	const struct kit_how how = {0};
	struct kit_end a, b, waiting;
	uint64_t begin;
	pthread_t thread;
	void *error;

	kit_pair_open(&k, &a, &b, NULL);
	kit_end_open(&k, &waiting, &how);
	kit_end_bring(&k, &waiting, 0, &how, IBV_QPS_INIT);
	begin = now_ms();
	assert_int_equal(pthread_create(&thread, NULL, silent, waiting.qp), 0);
	for (uint32_t i = 0; i < 20; i++) {
		assert_int_equal(kit_recv(&b, k.buf + 4096, 64, k.mr->lkey), 0);
		assert_int_equal(kit_post(&a, IBV_WR_SEND, k.buf, 64, k.mr->lkey, 0, 0), 0);
		kit_expect(a.cq, IBV_WC_SUCCESS, NULL);
		kit_expect(b.cq, IBV_WC_SUCCESS, NULL);
	}
	assert_int_equal(kit_state(a.qp), IBV_QPS_RTS); /* commands go on, too */
	if (now_ms() - begin > 900)
		fail_msg("20 messages took %u ms", (unsigned)(now_ms() - begin));
	assert_int_equal(pthread_join(thread, &error), 0);
	assert_int_equal((intptr_t)error, ETIMEDOUT);
	kit_end_close(&a);
	kit_end_close(&b);
	kit_end_close(&waiting);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, open_kit, close_kit)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_errors),
		CASE(test_address_handle),
		CASE(test_others_go_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
