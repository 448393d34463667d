/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Every operation of RC, UC and UD, every byte checked, at sizes around the limits of segmentation.
 * RC also runs under loss, duplication, reordering and corruption, and must give the same result.
 */
#include "verbs_kit.h"

#include <stdlib.h>
#include <string.h>

#define HALF (KIT_BUF_BYTES / 2)

static struct kit k;
static struct kit_end a, b;
static uint8_t *far;
static const uint32_t sizes[] = {1,    2,    63,   64,    65,    1023,     1024,
				 1025, 2048, 4095, 65536, 65537, 1u << 20, HALF};

static int open_all(void **state)
{
	(void)state;
	kit_open(&k);
	far = k.buf + HALF;
	return 0;
}

static int close_all(void **state)
{
	(void)state;
	kit_close(&k);
	return 0;
}

static void close_pair(void)
{
	kit_end_close(&a);
	kit_end_close(&b);
}

static void each_size(void (*one)(uint32_t len, unsigned seed))
{
	kit_pair_open(&k, &a, &b, NULL);
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		one(sizes[i], i + 1);
	close_pair();
}

static void one_send(uint32_t len, unsigned seed)
{
	struct ibv_wc wc;

	kit_fill(k.buf, len, seed);
	memset(far, 0, len);
	assert_int_equal(kit_recv(&b, far, HALF, k.mr->lkey), 0);
	assert_int_equal(kit_post(&a, IBV_WR_SEND_WITH_IMM, k.buf, len, k.mr->lkey, 0, 0), 0);
	kit_expect(b.cq, IBV_WC_SUCCESS, &wc);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(wc.byte_len, len);
	assert_true(wc.wc_flags & IBV_WC_WITH_IMM);
	assert_int_equal(be32toh(wc.imm_data), 0xfeedf00d);
	assert_int_equal(wc.qp_num, b.qp->qp_num);
	assert_int_equal(wc.wr_id, (uintptr_t)far);
	assert_true(kit_same(far, len, seed));
	kit_expect(a.cq, IBV_WC_SUCCESS, &wc);
	assert_int_equal(wc.opcode, IBV_WC_SEND);
}

static void one_write(uint32_t len, unsigned seed)
{
	struct ibv_wc wc;

	kit_fill(k.buf, len, seed);
	memset(far, 0, len);
	assert_int_equal(
		kit_post(&a, IBV_WR_RDMA_WRITE, k.buf, len, k.mr->lkey, (uintptr_t)far, k.mr->rkey),
		0);
	kit_expect(a.cq, IBV_WC_SUCCESS, &wc);
	assert_int_equal(wc.opcode, IBV_WC_RDMA_WRITE);
	assert_true(kit_same(far, len, seed));
}

static void one_write_imm(uint32_t len, unsigned seed)
{
	struct ibv_wc wc;

	kit_fill(k.buf, len, seed);
	memset(far, 0, len);
	assert_int_equal(kit_recv(&b, k.buf, 64, k.mr->lkey),
			 0); /* for its CQE; the data goes to the WRITE's address */
	assert_int_equal(kit_post(&a, IBV_WR_RDMA_WRITE_WITH_IMM, k.buf, len, k.mr->lkey,
				  (uintptr_t)far, k.mr->rkey),
			 0);
	kit_expect(b.cq, IBV_WC_SUCCESS, &wc);
	assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(wc.byte_len, len);
	assert_int_equal(be32toh(wc.imm_data), 0xfeedf00d);
	assert_true(kit_same(far, len, seed));
	kit_expect(a.cq, IBV_WC_SUCCESS, NULL);
}

static void one_read(uint32_t len, unsigned seed)
{
	struct ibv_wc wc;

	kit_fill(far, len, seed);
	memset(k.buf, 0, len);
	assert_int_equal(
		kit_post(&a, IBV_WR_RDMA_READ, k.buf, len, k.mr->lkey, (uintptr_t)far, k.mr->rkey),
		0);
	kit_expect(a.cq, IBV_WC_SUCCESS, &wc);
	assert_int_equal(wc.opcode, IBV_WC_RDMA_READ);
	assert_true(kit_same(k.buf, len, seed));
}

static void test_send(void **state)
{
	(void)state;
	each_size(one_send);
}
static void test_write(void **state)
{
	(void)state;
	each_size(one_write);
}
static void test_write_imm(void **state)
{
	(void)state;
	each_size(one_write_imm);
}
static void test_read(void **state)
{
	(void)state;
	each_size(one_read);
}

static void atomic(enum ibv_wr_opcode op, uint64_t compare_add, uint64_t swap)
{
	struct ibv_sge sge = {.addr = (uintptr_t)k.buf, .length = 8, .lkey = k.mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = op,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.atomic = {(uintptr_t)far, compare_add, swap, k.mr->rkey}};
	struct ibv_send_wr *bad;

	assert_int_equal(ibv_post_send(a.qp, &wr, &bad), 0);
	kit_expect(a.cq, IBV_WC_SUCCESS, NULL);
}

/* Each atomic is executed exactly once, whatever is lost: a duplicate request gets the saved
 * answer. */
static void test_atomics(void **state)
{
	uint64_t *word = (uint64_t *)(void *)far, *old = (uint64_t *)(void *)k.buf;

	(void)state;
	kit_pair_open(&k, &a, &b, NULL);
	*word = 5;
	for (uint64_t i = 0; i < 200; i++) {
		atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 3, 0);
		assert_int_equal(*old, 5 + 3 * i);
	}
	assert_int_equal(*word, 605);
	atomic(IBV_WR_ATOMIC_CMP_AND_SWP, 605, 9);
	assert_int_equal(*old, 605);
	assert_int_equal(*word, 9);
	atomic(IBV_WR_ATOMIC_CMP_AND_SWP, 605, 1);
	assert_int_equal(*old, 9);
	assert_int_equal(*word, 9);
	close_pair();
}

/* Empty messages, inline data, and lists of pieces on both sides. */
static void test_shapes(void **state)
{
	struct ibv_sge from[4], to[4];
	struct ibv_send_wr wr = {.sg_list = from,
				 .num_sge = 4,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED};
	struct ibv_recv_wr rr = {.sg_list = to, .num_sge = 4};
	struct ibv_send_wr *bad;
	struct ibv_recv_wr *bad_r;
	struct ibv_wc wc;

	(void)state;
	kit_pair_open(&k, &a, &b, NULL);
	assert_int_equal(kit_recv(&b, far, 64, k.mr->lkey), 0);
	assert_int_equal(kit_post(&a, IBV_WR_SEND, NULL, 0, 0, 0, 0), 0);
	kit_expect(b.cq, IBV_WC_SUCCESS, &wc);
	assert_int_equal(wc.byte_len, 0);
	kit_expect(a.cq, IBV_WC_SUCCESS, NULL);
	for (uint32_t len = 1; len <= 128; len++) {
		kit_fill(k.buf, len, len);
		assert_int_equal(kit_recv(&b, far, 4096, k.mr->lkey), 0);
		assert_int_equal(kit_post_inline(&a, k.buf, len), 0);
		memset(k.buf, 0, len); /* inline: the bytes are the NIC's already */
		kit_expect(b.cq, IBV_WC_SUCCESS, NULL);
		assert_true(kit_same(far, len, len));
		kit_expect(a.cq, IBV_WC_SUCCESS, NULL);
	}
	kit_fill(k.buf, 5000, 9);
	memset(far, 0, 5000);
	for (unsigned i = 0; i < 4;
	     i++) { /* 1250 each from a gapless source to pieces of other lengths */
		from[i] = (struct ibv_sge){(uintptr_t)k.buf + 1250 * i, 1250, k.mr->lkey};
		to[i] = (struct ibv_sge){(uintptr_t)far + (i ? 100 + 1000 * (i - 1) : 0),
					 i == 0   ? 100
					 : i == 3 ? 2900
						  : 1000,
					 k.mr->lkey};
	}
	assert_int_equal(ibv_post_recv(b.qp, &rr, &bad_r), 0);
	assert_int_equal(ibv_post_send(a.qp, &wr, &bad), 0);
	kit_expect(b.cq, IBV_WC_SUCCESS, &wc);
	assert_int_equal(wc.byte_len, 5000);
	assert_true(kit_same(far, 5000, 9));
	kit_expect(a.cq, IBV_WC_SUCCESS, NULL);
	close_pair();
}

/* Many messages at once, in order, in both directions of one pair. */
static void test_stream(void **state)
{
	struct ibv_wc wc[KIT_DEPTH];
	const uint32_t len = 1500;

	(void)state;
	kit_pair_open(&k, &a, &b, NULL);
	for (unsigned lap = 0; lap < 40; lap++) {
		for (unsigned i = 0; i < KIT_DEPTH; i++) {
			kit_fill(k.buf + i * len, len, lap * KIT_DEPTH + i);
			assert_int_equal(kit_recv(&b, far + i * len, len, k.mr->lkey), 0);
		}
		memset(far, 0, KIT_DEPTH * len);
		for (unsigned i = 0; i < KIT_DEPTH; i++)
			assert_int_equal(
				kit_post(&a, IBV_WR_SEND, k.buf + i * len, len, k.mr->lkey, 0, 0),
				0);
		assert_int_equal(kit_poll(b.cq, wc, KIT_DEPTH, KIT_WAIT_MS), KIT_DEPTH);
		for (unsigned i = 0; i < KIT_DEPTH; i++) {
			assert_int_equal(wc[i].status, IBV_WC_SUCCESS);
			assert_int_equal(wc[i].wr_id, (uintptr_t)far + i * len);
			assert_true(kit_same(far + i * len, len, lap * KIT_DEPTH + i));
		}
		assert_int_equal(kit_poll(a.cq, wc, KIT_DEPTH, KIT_WAIT_MS), KIT_DEPTH);
	}
	close_pair();
}

static void test_uc(void **state)
{
	const struct kit_how how = {.type = IBV_QPT_UC};

	(void)state;
	kit_pair_open(&k, &a, &b, &how);
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		one_send(sizes[i], i);
	close_pair();
}

static void test_ud(void **state)
{
	const struct kit_how how = {.type = IBV_QPT_UD};
	struct ibv_ah_attr to = {.is_global = 1,
				 .port_num = 1,
				 .grh = {.dgid = k.gid, .sgid_index = k.gid_idx, .hop_limit = 64}};
	struct ibv_ah *ah = ibv_create_ah(k.pd, &to);
	struct ibv_sge sge = {.addr = (uintptr_t)k.buf, .length = 1000, .lkey = k.mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	(void)state;
	assert_non_null(ah);
	kit_pair_open(&k, &a, &b, &how);
	kit_fill(k.buf, 1000, 4);
	memset(far, 0, 2000);
	assert_int_equal(kit_recv(&b, far, 2000, k.mr->lkey), 0);
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = b.qp->qp_num;
	wr.wr.ud.remote_qkey = 0x2222; /* not b's key: dropped */
	assert_int_equal(ibv_post_send(a.qp, &wr, &bad), 0);
	kit_expect(a.cq, IBV_WC_SUCCESS, NULL);
	kit_expect_nothing(b.cq);
	wr.wr.ud.remote_qkey = 0x1111;
	assert_int_equal(ibv_post_send(a.qp, &wr, &bad), 0);
	kit_expect(a.cq, IBV_WC_SUCCESS, NULL);
	kit_expect(b.cq, IBV_WC_SUCCESS, &wc);
	assert_int_equal(wc.byte_len, 1040);
	assert_int_equal(wc.src_qp, a.qp->qp_num);
	assert_true(wc.wc_flags & IBV_WC_GRH);
	assert_true(kit_same(far + 40, 1000, 4));
	close_pair();
	assert_int_equal(ibv_destroy_ah(ah), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest reliable[] = {
		cmocka_unit_test(test_send),      cmocka_unit_test(test_write),
		cmocka_unit_test(test_write_imm), cmocka_unit_test(test_read),
		cmocka_unit_test(test_atomics),   cmocka_unit_test(test_shapes),
		cmocka_unit_test(test_stream),
	};
	const struct CMUnitTest unreliable[] = {cmocka_unit_test(test_uc),
						cmocka_unit_test(test_ud)};

	if (argc > 2)
		cmocka_set_test_filter(argv[2]);
	if (argc > 1 && strcmp(argv[1], "rc") == 0) /* the only one that may be used under faults */
		return cmocka_run_group_tests(reliable, open_all, close_all);
	return cmocka_run_group_tests(unreliable, open_all, close_all);
}
