/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Contexts and connections through one table of the plugin: what it says of itself, handles, the
 * order of ends, forks and threads.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net_pair.h"
#include "page_kit.h"

static struct pair p;

/* Whether this process has a live page mapped. */
static bool maps_a_page(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[1024];
	bool found = false;

	while (f && fgets(line, sizeof(line), f))
		found |= strstr(line, SPW_HANG_PAGE_LINK) != NULL;
	if (f)
		fclose(f);
	return found;
}

/* ---- without a connection ---- */

static void has_no_other_versions(void **state)
{
	struct net net;

	(void)state;
	for (int v = 0; v < 40; v++)
		assert_int_equal(net_load(&net, v), v >= 8 && v <= 12);
}

/* The page lasts from the first context to the last. */
static void leaves_no_page(void **state)
{
	struct net net;

	(void)state;
	for (int i = 0; i < 2; i++) {
		assert_true(!maps_a_page() || pair_version() < 11);
		pair_init(&net, pair_rails_a());
		assert_true(maps_a_page());
		assert_int_equal(net_finalize(&net), NCCL_SUCCESS);
		/* Before version 11 a context has no end. */
		assert_int_equal(maps_a_page(), pair_version() < 11);
	}
}

static void says_why_there_is_no_rail(void **state)
{
	struct net net;
	const char *text;

	(void)state;
	assert_true(net_load(&net, pair_version()));
	setenv("NCCL_SPINWIRE_RAILS", "mlx5_77", 1);
	assert_int_equal(net_init(&net), NCCL_SYSTEM_ERROR);
	text = net_log();
	assert_non_null(strstr(text, "no rail is usable"));
	assert_non_null(strstr(text, "mlx5_77"));
	assert_non_null(strstr(text, "NCCL_NET=spinwire"));
	assert_int_equal(net_finalize(&net), NCCL_SUCCESS); /* as NCCL does then */
}

static void says_which_rails_it_took(void **state)
{
	struct net net;
	const char *text;

	(void)state;
	pair_init(&net, pair_rails_a());
	text = net_log();
	assert_non_null(strstr(text, strchr(pair_rails_a(), '+') ? "2 rails, together 200 Gb/s: "
								 : "1 rail, together 100 Gb/s: "));
	assert_non_null(strstr(text, "mlx5_0 (100 Gb/s"));
	assert_int_equal(net_finalize(&net), NCCL_SUCCESS);
}

/* ---- the device ---- */

static void describes_one_device(void **state)
{
	struct nccl_props_v12 d;
	int cnt = 0;

	(void)state;
	assert_int_equal(net_devices(&p.a, &cnt), 0);
	assert_int_equal(cnt, 1);
	assert_int_equal(net_properties(&p.a, 0, &d), 0);
	assert_string_equal(d.name, "spinwire");
	assert_non_null(strstr(d.pci_path, "/sys/devices/"));
	assert_true(d.guid != 0);
	assert_int_equal(d.ptr_support & NCCL_PTR_HOST, NCCL_PTR_HOST);
	assert_int_equal(d.ptr_support & NCCL_PTR_CUDA, 0);
	assert_int_equal(d.mbps, strchr(pair_rails_a(), '+') ? 200000 : 100000);
	assert_true(d.comm_max > 0);
	assert_true(d.recv_max >= 1 && d.recv_max <= NET_PART_MAX);
	assert_int_equal(d.offload, 0);
	if (pair_version() >= 9) {
		assert_int_equal(d.vdev_cnt, 1);
		assert_int_equal(d.vdev[0], 0);
		assert_int_equal(d.p2p_bytes_max, 1u << 30);
	}
	if (pair_version() >= 12) {
		assert_int_equal(d.multi_request_max, 1);
		assert_int_equal(d.rail_id, NCCL_UNDEFINED);
	}
	assert_int_equal(net_properties(&p.a, 1, &d), NCCL_INVALID_ARGUMENT);
	assert_int_equal(net_properties(&p.a, -1, &d), NCCL_INVALID_ARGUMENT);
}

static void refuses_a_device_that_is_not_there(void **state)
{
	uint8_t other[NCCL_HANDLE_BYTES];
	void *comm;

	(void)state;
	assert_int_equal(net_listen(&p.a, 1, other, &comm), NCCL_INVALID_ARGUMENT);
	assert_null(comm);
	assert_int_equal(net_connect(&p.a, -1, p.handle, &comm), NCCL_INVALID_ARGUMENT);
	assert_null(comm);
	assert_non_null(strstr(net_log(), "there is no device"));
}

/* ---- connections ---- */

/* A handle comes from the peer: whatever its bytes are, connecting fails, or never ends. */
static void survives_hostile_handles(void **state)
{
	uint64_t seed = 4711;

	(void)state;
	for (uint32_t i = 0; i < 200; i++) {
		uint8_t bad[NCCL_HANDLE_BYTES];
		void *comm;

		memcpy(bad, p.handle, sizeof(bad));
		if (i % 2)
			pair_fill(bad, sizeof(bad), seed + i);
		else
			bad[unit_random(&seed) % 16] ^= (uint8_t)(1u << unit_random(&seed) % 8);
		for (int t = 0; t < 3; t++) {
			(void)net_connect(&p.a, 0, bad, &comm);
			assert_null(comm);
		}
	}
	pair_pass(&p, 5000, 5000);
}

static void connects_in_both_directions(void **state)
{
	struct pair back;

	(void)state;
	pair_join(&back, &p.b, &p.a);
	assert_int_equal(net_close_listen(&p.a, back.listen), 0); /* a connection outlives it */
	pair_pass(&p, 70000, 70000);
	assert_int_equal(net_close_recv(&p.a, back.recv), 0);
	assert_int_equal(net_close_send(&p.b, back.send), 0);
}

/* Every order in which three things can be closed; finalize may come first. */
static void closes_in_every_order(void **state)
{
	static const int order[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
					{1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

	(void)state;
	for (size_t i = 0; i < SPW_ARRAY_CNT(order); i++) {
		struct pair q;
		void *mr;

		pair_init(&q.a, pair_rails_a());
		q.b = p.b;
		pair_join(&q, &q.a, &q.b);
		assert_int_equal(net_reg(&q.a, q.send, p.in, 8, NCCL_PTR_HOST, &mr), 0);
		if (i % 2)
			assert_int_equal(net_finalize(&q.a), 0);
		for (int k = 0; k < 3; k++)
			assert_int_equal(order[i][k] == 0   ? net_close_listen(&q.b, q.listen)
					 : order[i][k] == 1 ? net_close_send(&q.a, q.send)
							    : net_close_recv(&q.b, q.recv),
					 0);
		assert_int_equal(net_dereg(&q.a, NULL, mr), 0);
		if (!(i % 2))
			assert_int_equal(net_finalize(&q.a), 0);
	}
	pair_pass(&p, 3000, 3000);
}

static void reports_a_peer_that_closed(void **state)
{
	const uint64_t until = pair_now_ms() + PAIR_WAIT_MS;
	struct net_group g = {1, {p.in}, {100}, {0}, {p.mr_in}};
	void *req = pair_recv(&p, 0, 100, 0);
	const struct spw_hang_page *page;
	struct spw_hang_conn conn;
	int done, rc = 0;

	(void)state;
	assert_int_equal(net_close_send(&p.a, p.send), 0);
	p.send = NULL;
	while (!rc) {
		rc = net_test(&p.b, req, &done, NULL);
		assert_true(pair_now_ms() < until);
	}
	assert_int_equal(rc, NCCL_REMOTE_ERROR);
	assert_non_null(strstr(net_log(), "the peer closed the connection, or died"));
	assert_int_equal(net_irecv(&p.b, p.recv, &g, &req), NCCL_REMOTE_ERROR);
	page = page_map();
	assert_int_equal(page_conns(page, SPW_HANG_CONN_FAILED, &conn, 1), 1);
	assert_int_equal(conn.view.error, -ECONNRESET);
	assert_non_null(strstr(conn.view.peer, "the peer closed"));
	assert_true(!conn.view.is_send && conn.begun == 1 && conn.ended == 1);
	page_unmap(page);
}

/* What NCCL waits for is on the page until it is there: then it is a connection. */
static void shows_what_it_waits_for(void **state)
{
	const struct spw_hang_page *page = page_map();
	struct spw_hang_conn conn;
	struct pair q = {.a = p.a, .b = p.b};
	const uint32_t ready = page_conns(page, SPW_HANG_CONN_READY, &conn, 0);

	(void)state;
	assert_int_equal(page_conns(page, SPW_HANG_CONN_LISTENING, &conn, 1), 0);
	assert_int_equal(net_listen(&q.b, 0, q.handle, &q.listen), 0);
	assert_int_equal(net_accept(&q.b, q.listen, &q.recv), 0);
	assert_int_equal(page_conns(page, SPW_HANG_CONN_LISTENING, &conn, 1), 1);
	assert_true(conn.calls == 1 && conn.view.state_tsc && !conn.view.is_send);
	assert_int_equal(net_connect(&q.a, 0, q.handle, &q.send), 0);
	assert_null(q.send);
	assert_int_equal(page_conns(page, SPW_HANG_CONN_CONNECTING, &conn, 1), 1);
	assert_true(conn.calls == 1 && conn.view.is_send && conn.view.tid == (uint32_t)gettid());
	while (!q.send || !q.recv) {
		if (!q.send)
			assert_int_equal(net_connect(&q.a, 0, q.handle, &q.send), 0);
		if (!q.recv)
			assert_int_equal(net_accept(&q.b, q.listen, &q.recv), 0);
	}
	assert_int_equal(page_conns(page, SPW_HANG_CONN_LISTENING, &conn, 1), 0);
	assert_int_equal(page_conns(page, SPW_HANG_CONN_CONNECTING, &conn, 1), 0);
	assert_int_equal(page_conns(page, SPW_HANG_CONN_READY, &conn, 1), ready + 2);
	assert_int_equal(net_close_send(&q.a, q.send), 0);
	assert_int_equal(net_close_recv(&q.b, q.recv), 0);
	assert_int_equal(net_close_listen(&q.b, q.listen), 0);
	assert_int_equal(page_conns(page, SPW_HANG_CONN_READY, &conn, 1), ready);
	page_unmap(page);
}

/* ---- processes and threads ---- */

/* Returns: whether every call refused, with one line in all. */
static bool child_is_refused(void)
{
	struct net c;
	void *x;
	int done;
	bool ok = !maps_a_page();
	const char *first;

	ok &= net_listen(&p.a, 0, p.handle, &x) == NCCL_INVALID_USAGE;
	ok &= net_isend(&p.a, p.send, p.out, 1, 0, p.mr_out, &x) == NCCL_INVALID_USAGE;
	ok &= net_test(&p.a, p.send, &done, NULL) == NCCL_INVALID_USAGE;
	ok &= net_close_send(&p.a, p.send) == NCCL_INVALID_USAGE;
	ok &= net_load(&c, pair_version()) && net_init(&c) == NCCL_INVALID_USAGE;
	first = strstr(net_log(), "forked");
	return ok && first && !strstr(first + 1, "forked");
}

static void refuses_a_forked_child(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	net_log();
	assert_true(maps_a_page());
	pid = fork();
	if (!pid)
		_exit(!child_is_refused());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	pair_pass(&p, 10000, 10000);
}

/* The thread of a communicator that transfers. */
static void *transfer(void *arg)
{
	struct pair *q = arg;

	for (int i = 0; i < 60; i++) {
		const uint64_t at = 65536u * (unsigned int)(i % 64);
		void *req[2] = {pair_recv(q, at, 32768, i), pair_send(q, at, 32768, i)};

		pair_finish(q, req, 2, NULL);
		assert_memory_equal(q->in + at, q->out + at, 32768);
	}
	return NULL;
}

/* The thread of a communicator that registers, connects, and transfers in the other half of the
 * buffers. */
static void *serve(void *arg)
{
	const struct pair *q = arg;
	struct pair own = *q;
	void *mr;

	own.in += PAIR_BUF_BYTES / 2;
	own.out += PAIR_BUF_BYTES / 2;

	for (int i = 0; i < 20; i++) {
		assert_int_equal(
			net_reg(&own.a, own.send, q->out + i, PAIR_PAGE, NCCL_PTR_HOST, &mr), 0);
		assert_int_equal(net_dereg(&own.a, own.send, mr), 0);
	}
	for (int i = 0; i < 2; i++) {
		pair_join(&own, &own.a, &own.b);
		for (int k = 0; k < 30; k++)
			pair_pass(&own, 32768, 32768);
		assert_int_equal(net_close_send(&own.a, own.send), 0);
		assert_int_equal(net_close_recv(&own.b, own.recv), 0);
		assert_int_equal(net_close_listen(&own.b, own.listen), 0);
	}
	return NULL;
}

static void serves_two_communicators_in_four_threads(void **state)
{
	struct pair job[2];
	pthread_t t[4];

	(void)state;
	for (int i = 0; i < 2; i++)
		pair_open(&job[i]);
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&t[i], NULL, i < 2 ? transfer : serve, &job[i % 2]),
				 0);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	for (int i = 0; i < 2; i++)
		pair_close(&job[i]);
}

int main(int argc, char **argv)
{
#define WITH_PAIR(F) cmocka_unit_test_prestate_setup_teardown(F, pair_set_up, pair_tear_down, &p)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(has_no_other_versions),
		cmocka_unit_test(says_why_there_is_no_rail),
		cmocka_unit_test(says_which_rails_it_took),
		cmocka_unit_test(leaves_no_page),
		WITH_PAIR(describes_one_device),
		WITH_PAIR(refuses_a_device_that_is_not_there),
		WITH_PAIR(connects_in_both_directions),
		WITH_PAIR(closes_in_every_order),
		WITH_PAIR(shows_what_it_waits_for),
		WITH_PAIR(reports_a_peer_that_closed),
		WITH_PAIR(refuses_a_forked_child),
		WITH_PAIR(serves_two_communicators_in_four_threads),
		WITH_PAIR(survives_hostile_handles), /* its many lines reach the limit of lines */
	};

	return pair_args(argc, argv) ? cmocka_run_group_tests(tests, NULL, NULL) : 2;
}
