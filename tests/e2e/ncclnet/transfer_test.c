/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Transfers and memory through one table of the plugin, in the order of NCCL's calls.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "net_pair.h"

static struct pair p;

/* ---- transfers ---- */

static void passes_messages_of_all_sizes(void **state)
{
	const size_t sizes[] = {0, 1, 28, 29, 4096, 65535, 65537, 262144, 1 << 20, PAIR_BUF_BYTES};

	(void)state;
	for (size_t i = 0; i < SPW_ARRAY_CNT(sizes); i++) {
		memset(p.in, 0, PAIR_BUF_BYTES);
		pair_pass(&p, sizes[i], sizes[i]);
		memset(p.in, 0, PAIR_BUF_BYTES);
		pair_pass(&p, sizes[i], PAIR_BUF_BYTES); /* more room than it needs */
		for (size_t b = sizes[i]; b < PAIR_BUF_BYTES; b += 509)
			assert_int_equal(p.in[b], 0);
	}
}

static void receives_without_memory(void **state)
{
	struct net_group g = {.n = 1, .tag = {1}};
	void *req[2];
	int got[2] = {-1, -1};

	(void)state;
	assert_int_equal(net_irecv(&p.b, p.recv, &g, &req[0]), 0);
	assert_int_equal(net_isend(&p.a, p.send, NULL, 0, 1, NULL, &req[1]), 0);
	pair_finish(&p, req, 2, got);
	assert_int_equal(got[0], 0);
}

/* NCCL relies on so many; one more may be put off, and never fails. */
static void has_room_for_nccls_requests(void **state)
{
	void *req[2 * NCCL_REQUEST_CNT];
	const size_t bytes = 8192;
	uint32_t more = 0;

	(void)state;
	for (uint32_t i = 0; i < NCCL_REQUEST_CNT; i++) {
		req[2 * i] = pair_recv(&p, i * bytes, bytes, 0);
		req[2 * i + 1] = pair_send(&p, i * bytes, bytes, 0);
		assert_non_null(req[2 * i]);
		assert_non_null(req[2 * i + 1]);
	}
	pair_finish(&p, req, SPW_ARRAY_CNT(req), NULL);
	assert_memory_equal(p.out, p.in, NCCL_REQUEST_CNT * bytes);
	while (pair_recv(&p, 0, 16, 5)) /* nobody sends: the connection ends with them */
		assert_true(more++ < 1000);
	assert_true(more >= NCCL_REQUEST_CNT);
}

static void receives_groups(void **state)
{
	const uint64_t until = pair_now_ms() + PAIR_WAIT_MS;
	struct net_group g = {.n = NET_PART_MAX};
	void *recv, *req[NET_PART_MAX];
	int got[NET_PART_MAX], done = 0;

	(void)state;
	for (int i = 0; i < NET_PART_MAX; i++) {
		g.data[i] = p.in + i * 65536;
		g.bytes[i] = 65536;
		g.tag[i] = 100 + i;
		g.mr[i] = p.mr_in;
	}
	assert_int_equal(net_irecv(&p.b, p.recv, &g, &recv), 0);
	for (int i = NET_PART_MAX - 1; i >= 0; i--) /* the tag decides, not the order */
		req[i] = pair_send(&p, (uint64_t)i * 65536, 65536 - (size_t)i * 1000, 100 + i);
	while (!done) {
		pair_turn(&p, req, NET_PART_MAX, NULL);
		assert_int_equal(net_test(&p.b, recv, &done, got), 0);
		assert_true(pair_now_ms() < until);
	}
	pair_finish(&p, req, NET_PART_MAX, NULL);
	for (int i = 0; i < NET_PART_MAX; i++) {
		assert_int_equal(got[i], 65536 - i * 1000);
		assert_memory_equal(p.in + i * 65536, p.out + i * 65536, (size_t)got[i]);
	}
	g.n = NET_PART_MAX + 1;
	assert_int_equal(net_irecv(&p.b, p.recv, &g, &recv), NCCL_INVALID_ARGUMENT);
	assert_null(recv);
}

/* The message that does not fit is an error on both sides, in words; nothing is written. */
static void refuses_what_does_not_fit(void **state)
{
	const uint64_t until = pair_now_ms() + PAIR_WAIT_MS;
	void *req[2] = {pair_recv(&p, 0, 1000, 3), pair_send(&p, 0, 1001, 3)};
	int rc[2] = {0};

	(void)state;
	while (!rc[0] || !rc[1]) {
		for (int i = 0, done = 0; i < 2; i++) {
			if (!rc[i])
				rc[i] = net_test(&p.b, req[i], &done, NULL);
			assert_false(done);
		}
		assert_true(pair_now_ms() < until);
	}
	assert_int_equal(rc[0], NCCL_INVALID_USAGE);
	assert_int_equal(rc[1], NCCL_INVALID_USAGE);
	assert_int_equal(p.in[0], 0);
	assert_non_null(strstr(net_log(), "longer than the receive"));
}

/* NCCL counts bytes in an int. */
static void refuses_what_no_int_counts(void **state)
{
	void *req = &req;

	(void)state;
	net_log();
	assert_int_equal(net_isend(&p.a, p.send, p.out, (1u << 30) + 1, 0, p.mr_out, &req),
			 NCCL_INVALID_ARGUMENT);
	assert_null(req);
	assert_non_null(strstr(net_log(), "1073741825 bytes: at most 2^30 in one message"));
	pair_pass(&p, 1000, 1000);
}

static void host_memory_needs_no_flush(void **state)
{
	void *data = p.in, *req = &req;
	int bytes = 100;

	(void)state;
	assert_int_equal(net_iflush(&p.b, p.recv, 1, &data, &bytes, &p.mr_in, &req), 0);
	assert_null(req);
}

/* ---- memory ---- */

static void registers_any_address(void **state)
{
	void *mr[8], *other, *none;

	(void)state;
	for (size_t i = 0; i < SPW_ARRAY_CNT(mr); i++) {
		assert_int_equal(net_reg(&p.a, p.send, p.out + 1 + i * 777, 1 + i * 1001,
					 NCCL_PTR_HOST, &mr[i]),
				 0);
		assert_ptr_equal(mr[i], p.mr_out); /* it lies within */
	}
	other = malloc(5003);
	assert_int_equal(net_reg(&p.a, p.send, (uint8_t *)other + 3, 5000, NCCL_PTR_HOST, &none),
			 0);
	assert_ptr_not_equal(none, p.mr_out);
	assert_int_equal(net_dereg(&p.a, p.send, none), 0);
	free(other);
	for (size_t i = 0; i < SPW_ARRAY_CNT(mr); i++)
		assert_int_equal(net_dereg(&p.a, p.send, mr[i]), 0);
	assert_int_equal(net_reg(&p.a, p.send, p.out, 0, NCCL_PTR_HOST, &none), 0);
	assert_int_equal(net_dereg(&p.a, p.send, none), 0);
	pair_pass(&p, 100000, 100000);
}

static void refuses_memory_that_it_cannot_have(void **state)
{
	void *hole = mmap(NULL, PAIR_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *mr;

	(void)state;
	munmap(hole, PAIR_PAGE);
	assert_int_not_equal(net_reg(&p.a, p.send, hole, PAIR_PAGE, NCCL_PTR_HOST, &mr), 0);
	assert_null(mr);
	net_log();
	assert_int_equal(net_reg(&p.a, p.send, p.out, PAIR_PAGE, NCCL_PTR_CUDA, &mr),
			 NCCL_INVALID_USAGE);
	assert_non_null(strstr(net_log(), "dma-buf"));
	assert_int_not_equal(net_reg_dmabuf(&p.a, p.send, p.out, PAIR_PAGE, 0, -1, &mr), 0);
	assert_null(mr);
	pair_pass(&p, 1000, 1000);
}

/* A collective that is aborted leaves requests behind, and its memory is freed. */
static void gives_memory_up_with_requests_under_way(void **state)
{
	void *page = aligned_alloc(PAIR_PAGE, PAIR_PAGE), *mr, *req;
	struct net_group g = {1, {page}, {PAIR_PAGE}, {0}, {NULL}};
	int done;

	(void)state;
	assert_int_equal(net_reg(&p.b, p.recv, page, PAIR_PAGE, NCCL_PTR_HOST, &mr), 0);
	g.mr[0] = mr;
	assert_int_equal(net_irecv(&p.b, p.recv, &g, &req), 0);
	assert_non_null(req);
	assert_int_equal(net_dereg(&p.b, p.recv, mr), NCCL_SUCCESS);
	free(page);
	assert_int_equal(net_test(&p.b, req, &done, NULL), NCCL_REMOTE_ERROR);
	g.mr[0] = p.mr_in;
	g.data[0] = p.in;
	assert_int_equal(net_irecv(&p.b, p.recv, &g, &req), NCCL_REMOTE_ERROR);
}

int main(int argc, char **argv)
{
#define WITH_PAIR(F) cmocka_unit_test_prestate_setup_teardown(F, pair_set_up, pair_tear_down, &p)
	const struct CMUnitTest tests[] = {
		WITH_PAIR(passes_messages_of_all_sizes),
		WITH_PAIR(receives_without_memory),
		WITH_PAIR(has_room_for_nccls_requests),
		WITH_PAIR(receives_groups),
		WITH_PAIR(refuses_what_does_not_fit),
		WITH_PAIR(refuses_what_no_int_counts),
		WITH_PAIR(host_memory_needs_no_flush),
		WITH_PAIR(registers_any_address),
		WITH_PAIR(refuses_memory_that_it_cannot_have),
		WITH_PAIR(gives_memory_up_with_requests_under_way),
	};

	return pair_args(argc, argv) ? cmocka_run_group_tests(tests, NULL, NULL) : 2;
}
