/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Endpoints share nothing: two of them, each in a thread of its own, send each other messages and
 * put to each other's windows, while a third thread polls the flags.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>

#include "xfer_kit.h"

#define BYTES  (1u << 20)
#define LAPS   300u
#define WINDOW 65536u

/* What the threads tell each other, under the lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct spw_xfer_handle handle;
static bool listening;

/* cmocka's checks work in its own thread only. */
static void must(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "%s: %s\n", what, spw_err_text());
	abort();
}

struct end {
	const char *rails;
	bool serves;
	struct spw_xfer *x;
	struct spw_xfer_conn *conn;
	struct spw_xfer_mem *mem;
	struct spw_xfer_window *window; /* the other end's */
	uint8_t *buf;                   /* sent from | received into | put from | window */
};

static void open_end(struct end *e)
{
	const struct spw_xfer_conf conf = {.rails = e->rails, .bind = "127.0.0.1:0"};
	struct spw_xfer_mem_req req = {.kind = SPW_XFER_HOST, .bytes = 4 * BYTES};
	struct spw_xfer_listener *listener = NULL;
	bool ready = false;
	int rc = -EAGAIN;

	must(!spw_xfer_open(&conf, &e->x), "open");
	req.addr = e->buf;
	must(!spw_xfer_mem_reg(e->x, &req, &e->mem), "register");
	pthread_mutex_lock(&lock);
	if (e->serves)
		must(!spw_xfer_listen(e->x, &handle, &listener), "listen");
	listening |= e->serves;
	pthread_mutex_unlock(&lock);
	while (!ready) {
		pthread_mutex_lock(&lock);
		ready = listening;
		pthread_mutex_unlock(&lock);
	}
	while (rc == -EAGAIN) {
		rc = e->serves ? spw_xfer_accept(listener, &e->conn)
			       : spw_xfer_connect(e->x, &handle, &e->conn);
		sched_yield();
	}
	must(!rc, "join");
	must(!spw_xfer_window_expose(e->conn, e->mem, e->buf + 3 * BYTES, WINDOW), "expose");
	while ((rc = spw_xfer_window_remote(e->conn, 0, &e->window)) == -EAGAIN)
		sched_yield();
	must(!rc, "window");
}

static void finish(struct spw_xfer_req *req)
{
	bool done = false;

	while (!done) {
		must(!spw_xfer_test(req, &done, NULL), "request");
		sched_yield();
	}
}

static void lap(struct end *e, uint32_t n)
{
	const uint64_t len = n * 1237 % BYTES;
	const struct spw_xfer_part part = {e->mem, e->buf + BYTES, BYTES, n};
	const struct spw_xfer_access put = {.window = e->window,
					    .offset = 64,
					    .mem = e->mem,
					    .addr = e->buf + 2 * BYTES,
					    .bytes = 4000,
					    .flag_offset = 0,
					    .flag = n + 1};
	struct spw_xfer_req *recv, *send, *req;

	memset(e->buf, (int)n, len);
	must(!spw_xfer_recv(e->conn, &part, 1, &recv), "recv");
	must(!spw_xfer_send(e->conn, e->mem, e->buf, len, n, &send), "send");
	must(!spw_xfer_put(e->conn, &put, &req), "put");
	finish(recv);
	finish(send);
	finish(req);
	for (uint64_t i = 0; i < len; i += 101)
		must(e->buf[BYTES + i] == (uint8_t)n, "byte");
}

static void *run(void *arg)
{
	struct end *e = arg;

	open_end(e);
	for (uint32_t n = 0; n < LAPS; n++)
		lap(e, n);
	return NULL;
}

static struct end end[2] = {{.rails = "mlx5_0+mlx5_2"}, {.rails = "mlx5_1+mlx5_3", .serves = true}};

/* The last put's flag stays. */
static void *poll(void *arg SPW_UNUSED)
{
	for (uint32_t i = 0; i < 2; i++)
		while (!spw_xfer_flag_seen((const uint64_t *)(void *)(end[i].buf + 3 * BYTES),
					   LAPS))
			sched_yield();
	return NULL;
}

static void endpoints_share_nothing(void **state SPW_UNUSED)
{
	pthread_t thread[3];

	for (uint32_t i = 0; i < 2; i++) {
		end[i].buf = aligned_alloc(4096, 4 * BYTES);
		assert_non_null(end[i].buf);
		memset(end[i].buf, 0, 4 * BYTES);
	}
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, run, &end[i]), 0);
	assert_int_equal(pthread_create(&thread[2], NULL, poll, NULL), 0);
	for (uint32_t i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	for (uint32_t i = 0; i < 2; i++) {
		struct spw_xfer_stat stat;

		spw_xfer_stat(end[i].x, &stat);
		assert_int_equal(stat.tx_msgs, LAPS);
		assert_int_equal(stat.rx_msgs, LAPS);
		assert_int_equal(stat.puts, LAPS);
	}
	for (uint32_t i = 0; i < 2; i++) {
		spw_xfer_close(end[i].x);
		free(end[i].buf);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(endpoints_share_nothing)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
