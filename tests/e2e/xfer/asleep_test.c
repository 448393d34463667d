/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A sender whose message is done makes no more calls for it, as NCCL's proxy thread: the receiver
 * must get it all the same when a rail fails before it has looked. Only one side is called at a
 * time. Arguments: the rails of both ends, two each.
 */
#include <unistd.h>

#include "xfer_kit.h"

#define BYTES (1u << 20)

static const char *rails_a = "mlx5_0+mlx5_2", *rails_b = "mlx5_1+mlx5_3";
static struct kit k;

static int open_kit(void **state SPW_UNUSED)
{
	const struct spw_xfer_conf conf = {.chunk_bytes = 32u << 10};

	kit_open(&k, rails_a, rails_b, &conf);
	kit_connect(&k);
	kit_memory(&k, BYTES);
	kit_wait_up(&k, 2);
	kit_pass(&k, BYTES, 1);
	return 0;
}

static int close_kit(void **state SPW_UNUSED)
{
	kit_control("mlx5_1", NULL, "link-down=0s");
	kit_close(&k);
	return 0;
}

static struct spw_xfer_req *b_receives(void)
{
	const struct spw_xfer_part part = {k.mem_b, k.buf_b, BYTES, 0};
	struct spw_xfer_req *req;

	memset(k.buf_b, 0, BYTES);
	assert_int_equal(spw_xfer_recv(k.ba, &part, 1, &req), 0);
	return req;
}

/* Tests this request, and nothing else. Returns: whether it was done in that time. */
static bool done_alone(struct spw_xfer_req *req, uint32_t ms)
{
	const uint64_t end = kit_now_ms() + ms;
	uint64_t got = 0;
	bool done = false;

	while (!done && kit_now_ms() < end)
		assert_int_equal(spw_xfer_test(req, &done, &got), 0);
	return done;
}

/* b is not called: its NIC takes the bytes, and acknowledges them. */
static void a_sends_alone(uint64_t seed)
{
	struct spw_xfer_req *req;

	kit_fill(k.buf_a, BYTES, seed);
	assert_int_equal(spw_xfer_send(k.ab, k.mem_a, k.buf_a, BYTES, 0, &req), 0);
	assert_true(done_alone(req, KIT_WAIT_MS));
}

/* a offers its rail again in the same call in which it sends over the other one; b, whose link is
 * still down, refuses before it finds the message. */
static void an_attempt_fails_behind_a_message(void **state SPW_UNUSED)
{
	struct spw_xfer_req *req;

	kit_control("mlx5_1", NULL, "link-down=3600s");
	kit_wait_up(&k, 1);
	for (uint64_t seed = 2; seed < 5; seed++) {
		req = b_receives();
		usleep(2 * SPW_XFER_REJOIN_MS * 1000u << (seed - 2)); /* waits double */
		a_sends_alone(seed);
		assert_true(done_alone(req, KIT_WAIT_MS));
		kit_expect_bytes(k.buf_b, BYTES, seed);
		kit_turn_for(&k, 50);
	}
	assert_int_equal(kit_up_cnt(k.ab), 1);
}

/* The message was on both rails. b asks for its end again, and a has calls for another connection
 * only. */
static void a_rail_fails_behind_a_message(void **state SPW_UNUSED)
{
	struct spw_xfer_part part = {k.mem_a, k.buf_a, 0, 0};
	struct spw_xfer_req *req, *other;
	struct spw_xfer_handle handle;
	struct spw_xfer_listener *listener;
	struct spw_xfer_conn *ab2, *ba2;
	bool done = false;

	assert_int_equal(spw_xfer_listen(k.b, &handle, &listener), 0);
	kit_join(&k, &handle, listener, &ab2, &ba2);
	assert_int_equal(spw_xfer_recv(ab2, &part, 1, &other), 0);
	req = b_receives();
	a_sends_alone(7);
	kit_control("mlx5_1", NULL, "link-down=3600s");
	usleep(20000); /* until the event is there */
	for (uint64_t end = kit_now_ms() + KIT_WAIT_MS; !done && kit_now_ms() < end;) {
		bool never;

		assert_int_equal(spw_xfer_test(req, &done, NULL), 0);
		assert_int_equal(spw_xfer_test(other, &never, NULL), 0);
		assert_false(never);
	}
	assert_true(done);
	kit_expect_bytes(k.buf_b, BYTES, 7);
	assert_int_equal(kit_up_cnt(k.ba), 1);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(an_attempt_fails_behind_a_message, open_kit,
						close_kit),
		cmocka_unit_test_setup_teardown(a_rail_fails_behind_a_message, open_kit, close_kit),
	};

	if (argc == 3) {
		rails_a = argv[1];
		rails_b = argv[2];
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
