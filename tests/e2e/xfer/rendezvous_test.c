/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Messages over one and several rails: every length, tags, groups, limits, errors of the caller.
 * Arguments: the rails of both ends.
 */
#include "time/spw_time.h"
#include "xfer_kit.h"

static const char *rails_a = "mlx5_0", *rails_b = "mlx5_1";
static struct kit k;

static int open_kit(void **state SPW_UNUSED)
{
	const struct spw_xfer_conf conf = {.chunk_bytes = 64u << 10};

	kit_open(&k, rails_a, rails_b, &conf);
	kit_connect(&k);
	kit_memory(&k, 8u << 20);
	return 0;
}

static int close_kit(void **state SPW_UNUSED)
{
	kit_close(&k);
	return 0;
}

static void every_length_arrives_whole(void **state SPW_UNUSED)
{
	static const uint64_t bytes[] = {
		0,     1,     27,     28,     29,       4095,    4096,           65535,
		65536, 65537, 131072, 200001, 1u << 20, 3333333, (8u << 20) - 1, 8u << 20};

	for (size_t i = 0; i < SPW_ARRAY_CNT(bytes); i++)
		kit_pass(&k, bytes[i], i);
}

static void shorter_messages_have_their_length(void **state SPW_UNUSED)
{
	static const uint64_t bytes[] = {0, 1, 100, 65536, 1000000};

	for (size_t i = 0; i < SPW_ARRAY_CNT(bytes); i++) {
		const struct spw_xfer_part part = {k.mem_b, k.buf_b, 2u << 20, 5};
		struct spw_xfer_req *send, *recv;
		uint64_t got = 99;

		kit_fill(k.buf_a, bytes[i], i);
		assert_int_equal(spw_xfer_send(k.ab, k.mem_a, k.buf_a, bytes[i], 5, &send), 0);
		assert_int_equal(spw_xfer_recv(k.ba, &part, 1, &recv), 0);
		assert_int_equal(kit_finish(&k, recv, &got), 0);
		assert_int_equal(got, bytes[i]);
		kit_expect_bytes(k.buf_b, bytes[i], i);
		assert_int_equal(kit_finish(&k, send, &got), 0);
		assert_int_equal(got, bytes[i]);
	}
}

/* The parts of a group are met by their tags, whatever the order of the sends. */
static void tags_find_their_part(void **state SPW_UNUSED)
{
	struct spw_xfer_part part[SPW_XFER_PART_MAX];
	struct spw_xfer_req *recv, *send[SPW_XFER_PART_MAX];
	uint64_t got[SPW_XFER_PART_MAX];

	for (uint32_t i = 0; i < SPW_XFER_PART_MAX; i++) {
		part[i] = (struct spw_xfer_part){k.mem_b, k.buf_b + i * 100000, 100000, 100 + i};
		kit_fill(k.buf_a + i * 100000, 10000 * (i + 1), i);
	}
	assert_int_equal(spw_xfer_recv(k.ba, part, SPW_XFER_PART_MAX, &recv), 0);
	for (uint32_t i = SPW_XFER_PART_MAX; i-- > 0;)
		assert_int_equal(spw_xfer_send(k.ab, k.mem_a, k.buf_a + i * 100000, 10000 * (i + 1),
					       100 + i, &send[i]),
				 0);
	assert_int_equal(kit_finish(&k, recv, got), 0);
	for (uint32_t i = 0; i < SPW_XFER_PART_MAX; i++) {
		kit_done(&k, send[i]);
		assert_int_equal(got[i], 10000 * (i + 1));
		kit_expect_bytes(k.buf_b + i * 100000, got[i], i);
	}
}

/* A send whose tag nobody has asked for waits, and does not hold up others. */
static void a_tag_without_receive_waits(void **state SPW_UNUSED)
{
	const struct spw_xfer_part first = {k.mem_b, k.buf_b, 1000, 1},
				   second = {k.mem_b, k.buf_b + 1000, 1000, 2};
	struct spw_xfer_req *send_1, *send_2, *recv_1, *recv_2;
	bool done = true;

	kit_fill(k.buf_a, 1000, 1);
	kit_fill(k.buf_a + 1000, 1000, 2);
	assert_int_equal(spw_xfer_send(k.ab, k.mem_a, k.buf_a, 1000, 1, &send_1), 0);
	assert_int_equal(spw_xfer_send(k.ab, k.mem_a, k.buf_a + 1000, 1000, 2, &send_2), 0);
	assert_int_equal(spw_xfer_recv(k.ba, &second, 1, &recv_2), 0);
	kit_done(&k, recv_2);
	kit_done(&k, send_2);
	assert_int_equal(spw_xfer_test(send_1, &done, NULL), 0);
	assert_false(done);
	assert_int_equal(spw_xfer_recv(k.ba, &first, 1, &recv_1), 0);
	kit_done(&k, recv_1);
	kit_done(&k, send_1);
	kit_expect_bytes(k.buf_b, 1000, 1);
	kit_expect_bytes(k.buf_b + 1000, 1000, 2);
}

/* As many as there may be, both ways at once, many laps of the slots; then one more is refused. */
static void many_are_under_way(void **state SPW_UNUSED)
{
	struct spw_xfer_req *send[2][SPW_XFER_REQ_MAX], *recv[2][SPW_XFER_REQ_MAX], *more;

	for (uint32_t lap = 0; lap < 20; lap++) {
		const uint32_t len = 1 + lap * 997;

		for (uint32_t i = 0; i < SPW_XFER_REQ_MAX; i++) {
			const struct spw_xfer_part to_b = {k.mem_b, k.buf_b + i * 32768, len, 0},
						   to_a = {k.mem_a,
							   k.buf_a + (4u << 20) + i * 32768, len,
							   0};

			kit_fill(k.buf_a + i * 32768, len, lap * 1000 + i);
			kit_fill(k.buf_b + (4u << 20) + i * 32768, len, lap * 2000 + i);
			assert_int_equal(spw_xfer_recv(k.ba, &to_b, 1, &recv[0][i]), 0);
			assert_int_equal(spw_xfer_recv(k.ab, &to_a, 1, &recv[1][i]), 0);
			assert_int_equal(spw_xfer_send(k.ab, k.mem_a, k.buf_a + i * 32768, len, 0,
						       &send[0][i]),
					 0);
			assert_int_equal(spw_xfer_send(k.ba, k.mem_b,
						       k.buf_b + (4u << 20) + i * 32768, len, 0,
						       &send[1][i]),
					 0);
		}
		assert_int_equal(spw_xfer_send(k.ab, k.mem_a, k.buf_a, 1, 0, &more), -EAGAIN);
		for (uint32_t i = 0; i < SPW_XFER_REQ_MAX; i++)
			for (uint32_t way = 0; way < 2; way++) {
				kit_done(&k, recv[way][i]);
				kit_done(&k, send[way][i]);
			}
		for (uint32_t i = 0; i < SPW_XFER_REQ_MAX; i++) {
			kit_expect_bytes(k.buf_b + i * 32768, len, lap * 1000 + i);
			kit_expect_bytes(k.buf_a + (4u << 20) + i * 32768, len, lap * 2000 + i);
		}
	}
}

static void receives_have_a_limit(void **state SPW_UNUSED)
{
	const struct spw_xfer_part part = {k.mem_b, k.buf_b, 10, 0};
	struct spw_xfer_req *recv[SPW_XFER_REQ_MAX], *send, *more;

	for (uint32_t i = 0; i < SPW_XFER_REQ_MAX; i++)
		assert_int_equal(spw_xfer_recv(k.ba, &part, 1, &recv[i]), 0);
	assert_int_equal(spw_xfer_recv(k.ba, &part, 1, &more), -EAGAIN);
	for (uint32_t i = 0; i < SPW_XFER_REQ_MAX; i++) {
		assert_int_equal(spw_xfer_send(k.ab, k.mem_a, k.buf_a, 10, 0, &send), 0);
		kit_done(&k, send);
		kit_done(&k, recv[i]);
	}
	assert_int_equal(spw_xfer_recv(k.ba, &part, 1, &more), 0);
}

static void too_long_is_an_error_of_both(void **state SPW_UNUSED)
{
	const struct spw_xfer_part part = {k.mem_b, k.buf_b, 1000, 0};
	struct spw_xfer_req *send, *recv;

	memset(k.buf_b, 0x55, 2000);
	assert_int_equal(spw_xfer_recv(k.ba, &part, 1, &recv), 0);
	assert_int_equal(spw_xfer_send(k.ab, k.mem_a, k.buf_a, 1001, 0, &send), 0);
	assert_int_equal(kit_finish(&k, recv, NULL), -EMSGSIZE);
	assert_int_equal(kit_finish(&k, send, NULL), -EMSGSIZE);
	for (uint32_t i = 0; i < 2000; i++)
		assert_int_equal(k.buf_b[i], 0x55);
	kit_pass(&k, 100000, 3); /* and the connection goes on */
}

static void what_lies_outside_of_memory_is_refused(void **state SPW_UNUSED)
{
	struct spw_xfer_part part = {k.mem_b, k.buf_b + 1, 8u << 20, 0};
	struct spw_xfer_req *req;

	assert_int_equal(spw_xfer_recv(k.ba, &part, 1, &req), -ERANGE);
	assert_int_equal(spw_xfer_recv(k.ba, &part, 9, &req), -EINVAL);
	assert_int_equal(spw_xfer_recv(k.ba, &part, 0, &req), -EINVAL);
	assert_int_equal(spw_xfer_send(k.ab, k.mem_a, k.buf_a - 1, 1, 0, &req), -ERANGE);
	assert_int_equal(spw_xfer_send(k.ab, k.mem_a, k.buf_a, SPW_XFER_BYTES_MAX + 1, 0, &req),
			 -ERANGE);
	assert_int_equal(spw_xfer_send(k.ab, k.mem_b, k.buf_b, 1, 0, &req), -EINVAL);
	assert_int_equal(spw_xfer_send(k.ab, NULL, NULL, 1, 0, &req), -EINVAL);
}

static void memory_in_use_stays_registered(void **state SPW_UNUSED)
{
	struct spw_xfer_part part = {k.mem_b, k.buf_b, 100, 0};
	struct spw_xfer_req *req, *send;

	assert_int_equal(spw_xfer_recv(k.ba, &part, 1, &req), 0);
	assert_int_equal(spw_xfer_mem_dereg(k.mem_b), -EBUSY);
	assert_int_equal(spw_xfer_send(k.ab, k.mem_a, k.buf_a, 100, 0, &send), 0);
	kit_done(&k, req);
	kit_done(&k, send);
	assert_int_equal(spw_xfer_mem_dereg(k.mem_b), 0);
}

static void a_peer_that_closes_fails_requests(void **state SPW_UNUSED)
{
	struct spw_xfer_part part = {k.mem_b, k.buf_b, 100, 0};
	struct spw_xfer_req *req;

	assert_int_equal(spw_xfer_recv(k.ba, &part, 1, &req), 0);
	spw_xfer_conn_close(k.ab);
	k.ab = NULL;
	assert_int_equal(kit_finish(&k, req, NULL), -ECONNRESET);
	assert_int_equal(spw_xfer_conn_error(k.ba), -ECONNRESET);
	assert_int_equal(spw_xfer_recv(k.ba, &part, 1, &req), -ECONNRESET);
}

/* What a sender saw done has arrived, even if it closes at once. */
static void a_sender_may_close_when_done(void **state SPW_UNUSED)
{
	struct spw_xfer_part part = {k.mem_b, k.buf_b, 300000, 0};
	struct spw_xfer_req *recv, *send;
	bool done = false;

	kit_fill(k.buf_a, 300000, 7);
	assert_int_equal(spw_xfer_recv(k.ba, &part, 1, &recv), 0);
	kit_turn_for(&k, 20);
	assert_int_equal(spw_xfer_send(k.ab, k.mem_a, k.buf_a, 300000, 0, &send), 0);
	for (uint64_t end = kit_now_ms() + KIT_WAIT_MS; !done;) { /* b does not look meanwhile */
		assert_true(kit_now_ms() < end);
		assert_int_equal(spw_xfer_test(send, &done, NULL), 0);
	}
	spw_xfer_conn_close(k.ab);
	k.ab = NULL;
	kit_done(&k, recv);
	kit_expect_bytes(k.buf_b, 300000, 7);
}

/* Each stage of a message shows at the end that reaches it, until the caller has tested it done. */
static void a_look_shows_the_stage(void **state SPW_UNUSED)
{
	struct spw_xfer_part part = {k.mem_b, k.buf_b, 1000, 0};
	struct spw_xfer_req *recv, *send;
	struct spw_xfer_look a, b;
	uint64_t end;

	assert_true(spw_xfer_conn_pair(k.ab) == spw_xfer_conn_pair(k.ba));
	spw_xfer_conn_look(k.ab, &a);
	assert_true(a.oldest_tsc == 0 && a.rail[0].qpn != 0 && a.rail[0].down_tsc == 0);
	assert_int_equal(spw_xfer_send(k.ab, k.mem_a, k.buf_a, 1000, 0, &send), 0);
	kit_turn_for(&k, 5);
	spw_xfer_conn_look(k.ab, &a);
	assert_int_equal(a.waiting, 1);
	assert_true(a.oldest_tsc && a.oldest_tsc < spw_tsc_now());
	assert_int_equal(spw_xfer_recv(k.ba, &part, 1, &recv), 0);
	spw_xfer_conn_look(k.ba, &b);
	assert_int_equal(b.receiving, 1);
	for (end = kit_now_ms() + KIT_WAIT_MS; kit_now_ms() < end;) {
		kit_turn(&k);
		spw_xfer_conn_look(k.ab, &a);
		spw_xfer_conn_look(k.ba, &b);
		if (a.acked == 1 && b.received == 1)
			break;
	}
	assert_true(a.acked == 1 && a.waiting + a.granted + a.posted == 0);
	assert_true(b.received == 1 && b.receiving == 0);
	kit_done(&k, send);
	kit_done(&k, recv);
	spw_xfer_conn_look(k.ab, &a);
	assert_true(a.acked == 0 && a.oldest_tsc == 0);
}

/* A sender whose peer was late, and one whose peer was ready. */
static void the_way_of_a_message_is_known(void **state SPW_UNUSED)
{
	struct spw_xfer_part part = {k.mem_b, k.buf_b, 1000, 0};
	struct spw_xfer_req *recv, *send;
	struct spw_xfer_stamps late = {0}, got = {0};
	const uint64_t end = kit_now_ms() + KIT_WAIT_MS;
	bool sent = false, received = false;
	uint64_t asked;

	assert_int_equal(spw_xfer_send(k.ab, k.mem_a, k.buf_a, 1000, 0, &send), 0);
	kit_turn_for(&k, 50);
	asked = spw_tsc_now();
	assert_int_equal(spw_xfer_recv(k.ba, &part, 1, &recv), 0);
	while (!sent || !received) {
		assert_true(kit_now_ms() < end);
		kit_turn(&k); /* both: an end whose rail fails needs the other one's word */
		if (!sent)
			assert_int_equal(spw_xfer_test_stamps(send, &sent, NULL, &late), 0);
		if (!received)
			assert_int_equal(spw_xfer_test_stamps(recv, &received, NULL, &got), 0);
	}
	assert_true(late.started < late.granted && late.granted <= late.posted &&
		    late.posted <= late.done);
	assert_true(late.started < asked && asked <= late.granted);
	assert_int_equal(__builtin_popcount(late.rails), 1); /* too short for two */
	assert_int_equal(got.rails, late.rails);
	assert_true(got.started > late.started && got.started <= got.done);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
#define CASE(f) cmocka_unit_test_setup_teardown(f, open_kit, close_kit)
		CASE(every_length_arrives_whole),
		CASE(shorter_messages_have_their_length),
		CASE(tags_find_their_part),
		CASE(a_tag_without_receive_waits),
		CASE(many_are_under_way),
		CASE(receives_have_a_limit),
		CASE(too_long_is_an_error_of_both),
		CASE(what_lies_outside_of_memory_is_refused),
		CASE(memory_in_use_stays_registered),
		CASE(a_peer_that_closes_fails_requests),
		CASE(a_sender_may_close_when_done),
		CASE(a_look_shows_the_stage),
		CASE(the_way_of_a_message_is_known),
	};

	if (argc == 3) {
		rails_a = argv[1];
		rails_b = argv[2];
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
