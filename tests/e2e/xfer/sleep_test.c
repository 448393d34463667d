/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Endpoints that sleep: nothing wakes one that has nothing to do, and whatever happens wakes it.
 * Arguments: the rails of both ends, two each.
 */
#include <poll.h>
#include <pthread.h>
#include <stdio.h>

#include "xfer_kit.h"

#define BYTES   (256u << 10)
#define LAPS    5000u
#define NAP_MS  10
#define LOST_MS 5000 /* what should have woken it by then was lost */

static const char *rails_a = "mlx5_0+mlx5_2", *rails_b = "mlx5_1+mlx5_3";
static struct kit k;

static int open_kit(void **state SPW_UNUSED)
{
	kit_open(&k, rails_a, rails_b, NULL);
	kit_connect(&k);
	kit_memory(&k, BYTES);
	kit_wait_up(&k, 2);
	kit_pass(&k, BYTES, 1);
	return 0;
}

static int close_kit(void **state SPW_UNUSED)
{
	kit_close(&k);
	return 0;
}

static bool can_be_read(struct spw_xfer *x, int timeout_ms)
{
	struct pollfd fd = {.fd = spw_xfer_fd(x), .events = POLLIN};

	return poll(&fd, 1, timeout_ms) == 1;
}

/* As a caller does that has looked at all it waits for. Returns: false: nothing woke it. */
static bool sleeps_once(struct spw_xfer *x)
{
	int timeout;

	if (spw_xfer_arm(x, &timeout))
		return true;
	return can_be_read(x, timeout < 0 ? LOST_MS : timeout) || timeout >= 0;
}

/* Arms it, whatever comes in between. Returns: for how long it may sleep. */
static int arm(struct spw_xfer *x)
{
	const uint64_t end = kit_now_ms() + KIT_WAIT_MS;
	int timeout = 0;

	while (spw_xfer_arm(x, &timeout) == -EAGAIN) {
		assert_true(kit_now_ms() < end);
		spw_xfer_progress(x);
	}
	return timeout;
}

/* Both, until neither has anything left; then nothing happens in either. */
static void both_are_calm(void)
{
	const uint64_t end = kit_now_ms() + KIT_WAIT_MS;
	struct spw_xfer *const x[] = {k.a, k.b};

	while (arm(k.a) != -1 || arm(k.b) != -1) {
		assert_true(kit_now_ms() < end);
		kit_turn_for(&k, 1);
	}
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(arm(x[i]), -1);
}

static void nothing_wakes_it(void **state SPW_UNUSED)
{
	both_are_calm();
	assert_false(can_be_read(k.a, 300));
	assert_false(can_be_read(k.b, 300));
	assert_int_equal(arm(k.a), -1); /* again, without an event in between */
	assert_false(can_be_read(k.a, 100));
}

static struct spw_xfer_req *receive(struct spw_xfer_conn *conn, struct spw_xfer_mem *mem, void *to)
{
	const struct spw_xfer_part part = {mem, to, BYTES, 0};
	struct spw_xfer_req *req;

	assert_int_equal(spw_xfer_recv(conn, &part, 1, &req), 0);
	return req;
}

/* Tests this request alone. */
static void finish_alone(struct spw_xfer_req *req)
{
	const uint64_t end = kit_now_ms() + KIT_WAIT_MS;
	bool done = false;

	while (!done) {
		assert_int_equal(spw_xfer_test(req, &done, NULL), 0);
		assert_true(kit_now_ms() < end);
	}
}

/* b is not called between arming and waking: first the grant wakes a, then the message b. */
static void a_grant_and_a_message_wake_it(void **state SPW_UNUSED)
{
	for (uint32_t i = 0; i < 20; i++) { /* the sequence number of events has two bits */
		struct spw_xfer_req *send, *recv;
		bool done;

		kit_fill(k.buf_a, BYTES, i);
		assert_int_equal(spw_xfer_send(k.ab, k.mem_a, k.buf_a, BYTES, 0, &send), 0);
		both_are_calm();
		recv = receive(k.ba, k.mem_b, k.buf_b);
		assert_true(can_be_read(k.a, LOST_MS));
		both_are_calm(); /* a has sent what it could */
		finish_alone(send);
		assert_int_equal(spw_xfer_test(recv, &done, NULL), 0);
		if (!done)
			finish_alone(recv);
		kit_expect_bytes(k.buf_b, BYTES, i);

		recv = receive(k.ba, k.mem_b, k.buf_b);
		both_are_calm();
		assert_int_equal(spw_xfer_send(k.ab, k.mem_a, k.buf_a, 1u << i % 18, 0, &send), 0);
		finish_alone(send);
		assert_true(can_be_read(k.b, LOST_MS));
		finish_alone(recv);
	}
}

/* A test of one request takes the completion of another one, which was tested before: whoever then
 * asks to sleep must look again. No CQ is armed, and no event waits, so nothing else says so. */
static void nothing_is_slept_over(void **state SPW_UNUSED)
{
	struct spw_xfer_req *send, *first, *second;
	bool done;
	int timeout;

	first = receive(k.ba, k.mem_b, k.buf_b);
	second = receive(k.ba, k.mem_b, k.buf_b);
	kit_turn_for(&k, 20); /* the grants are there, and all events were taken */
	assert_false(can_be_read(k.b, 0));
	assert_int_equal(spw_xfer_send(k.ab, k.mem_a, k.buf_a, 100, 0, &send), 0);
	finish_alone(send);
	assert_int_equal(spw_xfer_test(second, &done, NULL), 0);
	assert_false(done);
	assert_int_equal(spw_xfer_arm(k.b, &timeout), -EAGAIN);
	assert_int_equal(spw_xfer_test(first, &done, NULL), 0);
	assert_true(done);
	assert_int_equal(spw_xfer_send(k.ab, k.mem_a, k.buf_a, 100, 0, &send), 0);
	finish_alone(send);
	finish_alone(second);
}

/* Only a learns of it; b's CPU takes no part. */
static void a_put_and_a_get_wake_it(void **state SPW_UNUSED)
{
	struct spw_xfer_access access = {
		.mem = k.mem_a, .addr = k.buf_a, .bytes = BYTES, .flag_offset = SPW_XFER_NO_FLAG};
	struct spw_xfer_req *req;

	assert_int_equal(spw_xfer_window_expose(k.ba, k.mem_b, k.buf_b, BYTES), 0);
	while (spw_xfer_window_remote(k.ab, 0, &access.window) == -EAGAIN)
		kit_turn(&k);
	for (uint32_t i = 0; i < 10; i++) {
		assert_int_equal(i & 1 ? spw_xfer_get(k.ab, &access, &req)
				       : spw_xfer_put(k.ab, &access, &req),
				 0);
		for (bool done = false; !done;) {
			assert_true(sleeps_once(k.a));
			assert_int_equal(spw_xfer_test(req, &done, NULL), 0);
		}
	}
}

/* A client that begins, and one that leaves. */
static void a_connection_wakes_it(void **state SPW_UNUSED)
{
	struct spw_xfer_handle handle;
	struct spw_xfer_listener *listener;
	struct spw_xfer_conn *ab = NULL, *ba;
	int rc_a = -EAGAIN, rc_b = -EAGAIN, timeout;

	assert_int_equal(spw_xfer_listen(k.b, &handle, &listener), 0);
	both_are_calm();
	rc_a = spw_xfer_connect(k.a, &handle, &ab);
	assert_true(can_be_read(k.b, LOST_MS));
	for (const uint64_t end = kit_now_ms() + KIT_WAIT_MS;
	     (rc_a || rc_b) && kit_now_ms() < end;) {
		spw_xfer_progress(k.b);
		rc_b = rc_b ? spw_xfer_accept(listener, &ba) : 0;
		rc_a = rc_a ? spw_xfer_connect(k.a, &handle, &ab) : 0;
		if (!rc_b || spw_xfer_arm(k.b, &timeout))
			continue;
		assert_in_range(timeout, 1, NAP_MS); /* it is not done yet */
		can_be_read(k.b, timeout);
	}
	assert_int_equal(rc_a, 0);
	assert_int_equal(rc_b, 0);
	both_are_calm();
	spw_xfer_conn_close(ab);
	assert_true(can_be_read(k.b, LOST_MS));
	while (!spw_xfer_conn_error(ba))
		assert_true(sleeps_once(k.b));
	assert_int_equal(spw_xfer_conn_error(ba), -ECONNRESET);
	spw_xfer_conn_close(ba);
	spw_xfer_listener_close(listener);
}

/* While a rail is down it sleeps for moments only, since nothing tells when to try again. */
static void a_link_that_goes_wakes_it(void **state SPW_UNUSED)
{
	both_are_calm();
	kit_control("mlx5_0", NULL, "link-down=300ms");
	assert_true(can_be_read(k.a, LOST_MS));
	spw_xfer_progress(k.a);
	kit_wait_up(&k, 1);
	assert_in_range(arm(k.a), 1, NAP_MS);
	kit_pass(&k, BYTES, 3);
	kit_wait_up(&k, 2);
	both_are_calm();
}

/* ---- two threads ---- */

/* cmocka's checks work in its own thread only. */
static void must(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "%s: %s\n", what, spw_err_text());
	abort();
}

static void sleep_until_done(struct spw_xfer *x, struct spw_xfer_req *req)
{
	bool done = false;

	for (;;) {
		must(!spw_xfer_test(req, &done, NULL), "request");
		if (done)
			return;
		must(sleeps_once(x), "woken");
	}
}

struct end {
	struct spw_xfer *x;
	struct spw_xfer_conn *conn;
	struct spw_xfer_mem *mem;
	uint8_t *buf;
	bool first;
};

/* A number goes to and fro; what is received next is granted before. */
static void *ping_pong(void *arg)
{
	const struct end *e = arg;
	uint32_t *out = (uint32_t *)(void *)e->buf, *in = out + 1024;
	const struct spw_xfer_part part = {e->mem, in, 4, 0};
	struct spw_xfer_req *recv, *send;

	for (uint32_t i = 0; i < LAPS; i++) {
		must(!spw_xfer_recv(e->conn, &part, 1, &recv), "recv");
		if (!e->first) {
			sleep_until_done(e->x, recv);
			must(*in == i, "number");
		}
		*out = i;
		must(!spw_xfer_send(e->conn, e->mem, out, 4, 0, &send), "send");
		sleep_until_done(e->x, send);
		if (e->first) {
			sleep_until_done(e->x, recv);
			must(*in == i, "number");
		}
	}
	return NULL;
}

static void sleepers_lose_nothing(void **state SPW_UNUSED)
{
	struct end end[] = {{k.a, k.ab, k.mem_a, k.buf_a, true},
			    {k.b, k.ba, k.mem_b, k.buf_b, false}};
	pthread_t thread[2];

	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, ping_pong, &end[i]), 0);
	for (uint32_t i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(nothing_wakes_it, open_kit, close_kit),
		cmocka_unit_test_setup_teardown(a_grant_and_a_message_wake_it, open_kit, close_kit),
		cmocka_unit_test_setup_teardown(nothing_is_slept_over, open_kit, close_kit),
		cmocka_unit_test_setup_teardown(a_put_and_a_get_wake_it, open_kit, close_kit),
		cmocka_unit_test_setup_teardown(a_connection_wakes_it, open_kit, close_kit),
		cmocka_unit_test_setup_teardown(a_link_that_goes_wakes_it, open_kit, close_kit),
		cmocka_unit_test_setup_teardown(sleepers_lose_nothing, open_kit, close_kit),
	};

	if (argc == 3) {
		rails_a = argv[1];
		rails_b = argv[2];
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
