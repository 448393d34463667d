/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Large messages, whose payload several threads of the NIC copy (--nic-threads): every byte, their
 * order in memory, and memory that goes away meanwhile. Usage: copy_test CONTROL_SOCKET THREADS,
 * under tools/with-softhca --control CONTROL_SOCKET --nic-threads THREADS.
 */
#include "base/spw_order.h"
#include "pair_kit.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define BIG   65536u
#define PAIRS 8u
#define TURNS 40u

static const char *control_path;
static unsigned threads;

/* Copies that helpers have made. */
static unsigned long long helped(void)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	char answer[256] = "", *at;
	const int s = socket(AF_UNIX, SOCK_STREAM, 0);

	snprintf(to.sun_path, sizeof(to.sun_path), "%s", control_path);
	assert_int_equal(connect(s, (struct sockaddr *)&to, sizeof(to)), 0);
	assert_int_equal(write(s, "thread\n", 7), 7);
	assert_true(read(s, answer, sizeof(answer) - 1) > 0);
	close(s);
	at = strstr(answer, "helped=");
	assert_non_null(at);
	return strtoull(at + 7, NULL, 10);
}

static int put(struct kit_end *e, enum ibv_wr_opcode op, uint8_t *from, uint8_t *to, uint32_t len)
{
	return kit_post(e, op, from, len, k.mr->lkey, (uintptr_t)to, k.mr->rkey);
}

/* WRITEs and SENDs of several queue pairs at once, until helpers had a share in them. */
static void test_bytes(void **state)
{
	struct kit_end c[PAIRS], d[PAIRS];
	const unsigned long long before = helped();
	unsigned turn = 0;

	(void)state;
	for (unsigned i = 0; i < PAIRS; i++)
		kit_pair_open(&k, &c[i], &d[i], NULL);
	do {
		memset(far, 0, (size_t)PAIRS * BIG);
		for (unsigned i = 0; i < PAIRS; i++) {
			const bool send = (turn + i) % 2;
			const uint32_t len = BIG - (turn * PAIRS + i) % 3000;

			kit_fill(k.buf + (size_t)i * BIG, len, turn * PAIRS + i);
			if (send)
				assert_int_equal(
					kit_recv(&d[i], far + (size_t)i * BIG, BIG, k.mr->lkey), 0);
			assert_int_equal(put(&c[i], send ? IBV_WR_SEND : IBV_WR_RDMA_WRITE,
					     k.buf + (size_t)i * BIG, far + (size_t)i * BIG, len),
					 0);
		}
		for (unsigned i = 0; i < PAIRS; i++) {
			const uint32_t len = BIG - (turn * PAIRS + i) % 3000;

			kit_expect(c[i].cq, IBV_WC_SUCCESS, NULL);
			if ((turn + i) % 2)
				kit_expect(d[i].cq, IBV_WC_SUCCESS, NULL);
			assert_true(kit_same(far + (size_t)i * BIG, len, turn * PAIRS + i));
		}
	} while (++turn < TURNS || (threads > 1 && helped() == before && turn < 100 * TURNS));
	assert_true((helped() > before) == (threads > 1));
	for (unsigned i = 0; i < PAIRS; i++) {
		kit_end_close(&c[i]);
		kit_end_close(&d[i]);
	}
}

/* Whoever polls memory for the end of a message finds the rest of it, and the message before. */
static void test_order(void **state)
{
	uint8_t *first = far, *second = far + BIG;

	(void)state;
	for (unsigned turn = 1; turn <= 20 * TURNS; turn++) {
		const uint8_t mark = (uint8_t)turn;

		memset(k.buf, mark, BIG);
		assert_int_equal(put(&a, IBV_WR_RDMA_WRITE, k.buf, first, BIG), 0);
		assert_int_equal(put(&a, IBV_WR_RDMA_WRITE, k.buf, second, BIG - 512), 0);
		while (spw_thr_load_acq(second + BIG - 513) != mark)
			;
		for (unsigned i = 0; i < BIG; i++)
			assert_int_equal(first[i], mark);
		for (unsigned i = 0; i < BIG - 512; i++)
			assert_int_equal(second[i], mark);
		kit_expect(a.cq, IBV_WC_SUCCESS, NULL);
		kit_expect(a.cq, IBV_WC_SUCCESS, NULL);
	}
}

/* BIG bytes, registered, of which a page in the middle is gone. */
static uint8_t *holed(struct ibv_mr **mr_out)
{
	uint8_t *at = mmap(NULL, BIG, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	*mr_out = ibv_reg_mr(k.pd, at, BIG, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	assert_non_null(*mr_out);
	assert_int_equal(munmap(at + BIG / 2, 4096), 0);
	return at;
}

static void filled(struct ibv_mr *mr, uint8_t *at)
{
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(at, BIG);
}

/* The message before is whole, the one after it is flushed, other queue pairs go on. */
static void expect_hole(bool remote, enum ibv_wr_opcode op)
{
	const bool send = op == IBV_WR_SEND;
	struct kit_end c, d;
	struct ibv_mr *mr;

	kit_pair_open(&k, &c, &d, NULL);
	for (unsigned turn = 0; turn < TURNS; turn++) {
		uint8_t *at = holed(&mr);

		kit_fill(k.buf, BIG, turn);
		memset(far, 0, 2 * BIG);
		if (send)
			assert_int_equal(kit_recv(&b, at, BIG, mr->lkey), 0);
		assert_int_equal(put(&a, IBV_WR_RDMA_WRITE, k.buf, far, BIG), 0);
		assert_int_equal(kit_post(&a, op, remote ? k.buf : at, BIG,
					  remote ? k.mr->lkey : mr->lkey,
					  (uintptr_t)(remote ? at : far + 2 * BIG),
					  remote ? mr->rkey : k.mr->rkey),
				 0);
		assert_int_equal(put(&a, IBV_WR_RDMA_WRITE, k.buf, far + 2 * BIG, BIG), 0);
		assert_int_equal(put(&c, IBV_WR_RDMA_WRITE, k.buf, far + BIG, BIG), 0);
		kit_expect(c.cq, IBV_WC_SUCCESS, NULL);
		assert_true(kit_same(far + BIG, BIG, turn));
		if (remote) {
			kit_expect(a.cq, IBV_WC_SUCCESS, NULL);
			assert_true(kit_same(far, BIG, turn));
			kit_expect(a.cq, IBV_WC_REM_OP_ERR, NULL);
			assert_int_equal(kit_state(b.qp), IBV_QPS_ERR);
		} else { /* the oldest open WQE reports it */
			struct ibv_wc wc;

			assert_int_equal(kit_poll(a.cq, &wc, 1, KIT_WAIT_MS), 1);
			if (wc.status == IBV_WC_SUCCESS)
				kit_expect(a.cq, IBV_WC_LOC_PROT_ERR, NULL);
			else
				assert_int_equal(wc.status, IBV_WC_LOC_PROT_ERR);
		}
		kit_expect(a.cq, IBV_WC_WR_FLUSH_ERR, NULL);
		assert_int_equal(kit_state(a.qp), IBV_QPS_ERR);
		filled(mr, at);
		reopen(&(struct kit_how){0});
	}
	kit_end_close(&c);
	kit_end_close(&d);
}

static void test_source_has_a_hole(void **state)
{
	(void)state;
	expect_hole(false, IBV_WR_RDMA_WRITE);
}

static void test_target_has_a_hole(void **state)
{
	(void)state;
	expect_hole(true, IBV_WR_RDMA_WRITE);
}

static void test_receive_has_a_hole(void **state)
{
	(void)state;
	expect_hole(true, IBV_WR_SEND);
}

static void *unmap(void *at)
{
	munmap(at, BIG);
	return NULL;
}

/* Unmapped, or deregistered, at any moment of the copy: whole, or one of a card's errors. */
static void test_gone_meanwhile(void **state)
{
	(void)state;
	for (unsigned turn = 0; turn < 2 * TURNS; turn++) {
		uint8_t *at = mmap(NULL, BIG, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
		struct ibv_mr *mr =
			ibv_reg_mr(k.pd, at, BIG, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
		const bool dereg = turn % 2;
		struct ibv_wc wc;
		pthread_t thread;

		assert_non_null(mr);
		for (unsigned i = 0; i < 8; i++)
			assert_int_equal(kit_post(&a, IBV_WR_RDMA_WRITE, k.buf, BIG, k.mr->lkey,
						  (uintptr_t)at, mr->rkey),
					 0);
		usleep(turn * 5);
		if (dereg)
			assert_int_equal(ibv_dereg_mr(mr), 0);
		else
			assert_int_equal(pthread_create(&thread, NULL, unmap, at), 0);
		for (unsigned i = 0; i < 8; i++) {
			assert_int_equal(kit_poll(a.cq, &wc, 1, KIT_WAIT_MS), 1);
			if (wc.status != IBV_WC_WR_FLUSH_ERR && wc.status != IBV_WC_SUCCESS)
				assert_int_equal(wc.status,
						 dereg ? IBV_WC_REM_ACCESS_ERR : IBV_WC_REM_OP_ERR);
		}
		if (dereg) {
			munmap(at, BIG);
		} else {
			pthread_join(thread, NULL);
			assert_int_equal(ibv_dereg_mr(mr), 0);
		}
		reopen(&(struct kit_how){0});
	}
	kit_check_alive(&k, &a, &b);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		CASE(test_bytes),
		CASE(test_order),
		CASE(test_source_has_a_hole),
		CASE(test_target_has_a_hole),
		CASE(test_receive_has_a_hole),
		CASE(test_gone_meanwhile),
	};

	if (argc != 3) {
		fprintf(stderr, "usage: %s CONTROL_SOCKET THREADS\n", argv[0]);
		return 1;
	}
	control_path = argv[1];
	threads = (unsigned)atoi(argv[2]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
