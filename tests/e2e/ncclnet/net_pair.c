/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 */
#include <stdlib.h>

#include "net_pair.h"

static int version;
static const char *rails_a, *rails_b;

bool pair_args(int argc, char **argv)
{
	if (argc != 4)
		return false;
	version = atoi(argv[1]);
	rails_a = argv[2];
	rails_b = argv[3];
	setenv("NCCL_DEBUG", "INFO", 1); /* else warnings go to stderr, not to the logger */
	return true;
}

int pair_version(void)
{
	return version;
}

const char *pair_rails_a(void)
{
	return rails_a;
}

uint64_t pair_now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
}

void pair_fill(uint8_t *at, size_t bytes, uint64_t seed)
{
	for (size_t i = 0; i < bytes; i++)
		at[i] = (uint8_t)(unit_random(&seed) >> 13);
}

void pair_expect(const uint8_t *at, size_t bytes, uint64_t seed)
{
	for (size_t i = 0; i < bytes; i++)
		if (at[i] != (uint8_t)(unit_random(&seed) >> 13))
			fail_msg("byte %zu of %zu is wrong", i, bytes);
}

/* ---- set up ---- */

void pair_init(struct net *net, const char *rails)
{
	setenv("NCCL_SPINWIRE_RAILS", rails, 1);
	assert_true(net_load(net, version));
	assert_int_equal(net_init(net), NCCL_SUCCESS);
}

void pair_join(struct pair *p, struct net *from, struct net *to)
{
	const uint64_t until = pair_now_ms() + PAIR_WAIT_MS;

	p->send = p->recv = NULL;
	assert_int_equal(net_listen(to, 0, p->handle, &p->listen), NCCL_SUCCESS);
	while (!p->send || !p->recv) {
		if (!p->send)
			assert_int_equal(net_connect(from, 0, p->handle, &p->send), NCCL_SUCCESS);
		if (!p->recv)
			assert_int_equal(net_accept(to, p->listen, &p->recv), NCCL_SUCCESS);
		assert_true(pair_now_ms() < until);
	}
}

void pair_open(struct pair *p)
{
	pair_init(&p->a, rails_a);
	pair_init(&p->b, rails_b);
	pair_join(p, &p->a, &p->b);
	p->out = aligned_alloc(PAIR_PAGE, PAIR_BUF_BYTES);
	p->in = aligned_alloc(PAIR_PAGE, PAIR_BUF_BYTES);
	pair_fill(p->out, PAIR_BUF_BYTES, 1);
	memset(p->in, 0, PAIR_BUF_BYTES);
	assert_int_equal(net_reg(&p->a, p->send, p->out, PAIR_BUF_BYTES, NCCL_PTR_HOST, &p->mr_out),
			 0);
	assert_int_equal(net_reg(&p->b, p->recv, p->in, PAIR_BUF_BYTES, NCCL_PTR_HOST, &p->mr_in),
			 0);
}

void pair_close(struct pair *p)
{
	assert_int_equal(net_dereg(&p->a, p->send, p->mr_out), NCCL_SUCCESS);
	assert_int_equal(net_dereg(&p->b, p->recv, p->mr_in), NCCL_SUCCESS);
	assert_int_equal(net_close_send(&p->a, p->send), NCCL_SUCCESS);
	assert_int_equal(net_close_recv(&p->b, p->recv), NCCL_SUCCESS);
	assert_int_equal(net_close_listen(&p->b, p->listen), NCCL_SUCCESS);
	assert_int_equal(net_finalize(&p->a), NCCL_SUCCESS);
	assert_int_equal(net_finalize(&p->b), NCCL_SUCCESS);
	free(p->out);
	free(p->in);
	net_log();
}

int pair_set_up(void **state)
{
	pair_open(*state);
	return 0;
}

int pair_tear_down(void **state)
{
	pair_close(*state);
	return 0;
}

/* ---- transfers ---- */

void *pair_send(struct pair *p, uint64_t at, size_t bytes, int tag)
{
	void *req;

	assert_int_equal(net_isend(&p->a, p->send, p->out + at, bytes, tag, p->mr_out, &req), 0);
	return req;
}

void *pair_recv(struct pair *p, uint64_t at, size_t bytes, int tag)
{
	struct net_group g = {1, {p->in + at}, {bytes}, {tag}, {p->mr_in}};
	void *req;

	assert_int_equal(net_irecv(&p->b, p->recv, &g, &req), 0);
	return req;
}

int pair_turn(struct pair *p, void **req, int n, int *bytes)
{
	int left = 0;

	for (int i = 0; i < n; i++) {
		int done = 0;

		if (!req[i])
			continue;
		assert_int_equal(net_test(&p->a, req[i], &done, bytes ? &bytes[i] : NULL), 0);
		req[i] = done ? NULL : req[i];
		left += !done;
	}
	return left;
}

void pair_finish(struct pair *p, void **req, int n, int *bytes)
{
	const uint64_t until = pair_now_ms() + PAIR_WAIT_MS;

	while (pair_turn(p, req, n, bytes))
		assert_true(pair_now_ms() < until);
}

void pair_pass(struct pair *p, size_t bytes, size_t room)
{
	void *req[2] = {pair_recv(p, 0, room, 7), pair_send(p, 0, bytes, 7)};
	int got[2] = {-1, -1};

	assert_non_null(req[0]);
	assert_non_null(req[1]);
	pair_finish(p, req, 2, got);
	assert_int_equal(got[0], bytes);
	assert_int_equal(got[1], bytes);
	assert_memory_equal(p->out, p->in, bytes);
}
