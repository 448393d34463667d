/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Datagrams to multicast groups, from one device of the process (mlx5_0) to another (mlx5_1).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "verbs_kit.h"

#define QKEY      0x1111 /* that of verbs_kit.c */
#define GRH_BYTES 40u

static struct kit from, to;
static struct kit_end sender, member, stranger;

static int open_ends(void **state)
{
	const struct kit_how how = {.type = IBV_QPT_UD};

	(void)state;
	kit_open_device(&from, "mlx5_0");
	kit_open_device(&to, "mlx5_1");
	kit_end_open(&from, &sender, &how);
	kit_end_connect(&from, &sender, 0, &how);
	kit_end_open(&to, &member, &how);
	kit_end_connect(&to, &member, 0, &how);
	kit_end_open(&to, &stranger, &how);
	kit_end_connect(&to, &stranger, 0, &how);
	return 0;
}

static int close_ends(void **state)
{
	(void)state;
	kit_end_close(&sender);
	kit_end_close(&member);
	kit_end_close(&stranger);
	kit_close(&from);
	kit_close(&to);
	return 0;
}

static void send_to(const union ibv_gid *group, unsigned seed)
{
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = 1,
		.grh = {.dgid = *group, .sgid_index = from.gid_idx, .hop_limit = 1}};
	struct ibv_ah *ah = ibv_create_ah(from.pd, &attr);
	struct ibv_sge sge = {(uintptr_t)from.buf, 256, from.mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	assert_non_null(ah);
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = 0xffffff;
	wr.wr.ud.remote_qkey = QKEY;
	kit_fill(from.buf, 256, seed);
	assert_int_equal(ibv_post_send(sender.qp, &wr, &bad), 0);
	kit_expect(sender.cq, IBV_WC_SUCCESS, NULL);
	assert_int_equal(ibv_destroy_ah(ah), 0);
}

/* A member receives a datagram once; a QP that never joined, or has left, receives none. */
static void group(const char *address)
{
	union ibv_gid gid = {0}, other;
	struct ibv_wc wc;

	assert_int_equal(inet_pton(AF_INET6, address, gid.raw), 1);
	other = gid;
	other.raw[15] ^= 1;
	assert_int_equal(ibv_attach_mcast(member.qp, &gid, 0), 0);
	assert_int_equal(ibv_attach_mcast(member.qp, &gid, 0), 0);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(kit_recv(&member, to.buf + i * 4096, 4096, to.mr->lkey), 0);
		assert_int_equal(kit_recv(&stranger, to.buf + (i + 4) * 4096, 4096, to.mr->lkey),
				 0);
	}
	send_to(&other, 1);
	send_to(&gid, 2);
	kit_expect(member.cq, IBV_WC_SUCCESS, &wc);
	assert_int_equal(wc.byte_len, 256 + GRH_BYTES);
	assert_int_equal(wc.src_qp, sender.qp->qp_num);
	assert_true(kit_same(to.buf + GRH_BYTES, 256, 2));
	assert_int_equal(ibv_detach_mcast(member.qp, &gid, 0), 0);
	assert_int_equal(ibv_detach_mcast(member.qp, &gid, 0), EINVAL);
	send_to(&gid, 3);
	kit_expect_nothing(member.cq);
	kit_expect_nothing(stranger.cq);
}

static void test_ipv4(void **state)
{
	(void)state;
	group("::ffff:239.1.2.4");
}

static void test_ipv6(void **state)
{
	(void)state;
	group("ff0e::1234");
}

static void test_refused(void **state)
{
	union ibv_gid gid = {0};

	(void)state;
	assert_int_equal(inet_pton(AF_INET6, "::ffff:10.1.2.3", gid.raw), 1);
	assert_int_equal(ibv_attach_mcast(member.qp, &gid, 0), EINVAL);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, open_ends, close_ends)

int main(void)
{
	const struct CMUnitTest tests[] = {CASE(test_ipv4), CASE(test_ipv6), CASE(test_refused)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
