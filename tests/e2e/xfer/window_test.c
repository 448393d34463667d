/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Windows: put with flags, get, and what is out of bounds, for us and for the peer's NIC.
 * Arguments: the rails of both ends.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "xfer/connection.h"
#include "xfer/endpoint.h"
#include "xfer_kit.h"

#define BUF      (8u << 20)
#define WINDOW   (4u << 20)
#define FLAGS_AT (3u << 20) /* of many puts at once */

static const char *rails_a = "mlx5_0", *rails_b = "mlx5_1";
static struct kit k;
static struct spw_xfer_window *window; /* the first half of b's buffer */

static struct spw_xfer_window *remote(uint32_t idx)
{
	const uint64_t end = kit_now_ms() + KIT_WAIT_MS;
	struct spw_xfer_window *w = NULL;
	int rc;

	while ((rc = spw_xfer_window_remote(k.ab, idx, &w)) == -EAGAIN && kit_now_ms() < end)
		kit_turn(&k);
	assert_int_equal(rc, 0);
	return w;
}

static int open_kit(void **state SPW_UNUSED)
{
	const struct spw_xfer_conf conf = {.chunk_bytes = 64u << 10};

	kit_open(&k, rails_a, rails_b, &conf);
	kit_connect(&k);
	kit_memory(&k, BUF);
	assert_int_equal(spw_xfer_window_expose(k.ba, k.mem_b, k.buf_b, WINDOW), 0);
	window = remote(0);
	assert_int_equal(spw_xfer_window_bytes(window), WINDOW);
	return 0;
}

static int close_kit(void **state SPW_UNUSED)
{
	kit_close(&k);
	return 0;
}

static struct spw_xfer_access access_at(uint64_t offset, uint64_t bytes)
{
	return (struct spw_xfer_access){.window = window,
					.offset = offset,
					.mem = k.mem_a,
					.addr = k.buf_a,
					.bytes = bytes,
					.flag_offset = SPW_XFER_NO_FLAG};
}

static void a_put_arrives_before_its_flag(void **state SPW_UNUSED)
{
	static const uint64_t bytes[] = {0, 1, 8, 29, 4096, 65537, 1000000, 3u << 20};
	const uint64_t *flags = (const uint64_t *)(void *)(k.buf_b + WINDOW - 32);
	struct spw_xfer_req *req;

	for (uint64_t i = 0; i < SPW_ARRAY_CNT(bytes); i++) {
		struct spw_xfer_access a = access_at(i * 64, bytes[i]);
		const uint64_t end = kit_now_ms() + KIT_WAIT_MS;

		a.flag_offset = WINDOW - 32;
		a.flag = 1 + i;
		kit_fill(k.buf_a, bytes[i], i);
		assert_false(spw_xfer_flag_seen(flags, a.flag));
		assert_int_equal(spw_xfer_put(k.ab, &a, &req), 0);
		while (!spw_xfer_flag_seen(flags, a.flag)) {
			assert_true(kit_now_ms() < end);
			spw_xfer_progress(k.a); /* b only looks at its memory */
		}
		kit_expect_bytes(k.buf_b + i * 64, bytes[i], i);
		kit_done(&k, req);
	}
}

/* Requests to write, and atomics, that b's devices have received. Returns: false: not all of them
 * count them; the kernel's soft-RoCE, which may be a rail here, does not. */
static bool requests(uint64_t *sum_out)
{
	static const char *const name[] = {"rx_write_requests", "rx_atomic_requests"};
	uint64_t n;

	*sum_out = 0;
	for (uint32_t i = 0; i < 4; i++) {
		char path[128];
		FILE *file;

		snprintf(path, sizeof(path), "/sys/class/infiniband/mlx5_%u/ports/1/hw_counters/%s",
			 i & 1u ? 1u : 3u, name[i / 2]);
		file = fopen(path, "r");
		if (!file)
			return false;
		assert_int_equal(fscanf(file, "%" SCNu64, &n), 1);
		fclose(file);
		*sum_out += n;
	}
	return true;
}

static void put_and_look(uint64_t at, uint64_t bytes, uint64_t flag)
{
	const uint64_t *flags = (const uint64_t *)(void *)(k.buf_b + at);
	const uint64_t end = kit_now_ms() + KIT_WAIT_MS;
	struct spw_xfer_access a = access_at(at - bytes, bytes);
	struct spw_xfer_req *req;

	a.flag_offset = at;
	a.flag = flag;
	kit_fill(k.buf_a, bytes, flag);
	assert_int_equal(spw_xfer_put(k.ab, &a, &req), 0);
	while (!spw_xfer_flag_seen(flags, flag)) {
		assert_true(kit_now_ms() < end);
		spw_xfer_progress(k.a);
	}
	kit_expect_bytes(k.buf_b + at - bytes, bytes, flag);
	kit_done(&k, req);
}

/* Lengths around those that are joined, which end where their flag words begin: at the second half
 * of a line, and at a line's beginning. */
static void a_small_put_and_its_flag_are_one_message(void **state SPW_UNUSED)
{
	const bool in_order = k.ab->rail[0]->theirs.in_order;
	uint64_t before, after;
	const bool counted = requests(&before);

#if defined(__x86_64__)
	if (counted && !getenv("SPW_TEST_ADVERSARY"))
		assert_true(in_order);
#endif
	for (uint64_t i = 0; i < 2 * 24; i++) {
		const uint64_t bytes = i % 24, at = 4096 + (i < 24 ? 32 : 1024);
		const bool joined = in_order && spw_in_range(bytes, 1, SPW_XFER_JOIN_BYTES) &&
				    i < 24;

		requests(&before);
		put_and_look(at, bytes, 1 + i);
		if (counted && requests(&after))
			assert_int_equal(after - before, joined || !bytes ? 1 : 2);
	}
}

/* Words that this side did not write, and places in turn: each put finds out what there is. */
static void flags_replace_what_their_words_hold(void **state SPW_UNUSED)
{
	memset(k.buf_b + 4096, 0x5a, 4096);
	for (uint64_t i = 0; i < 60; i++)
		put_and_look(4096 + 1024 * (i % 3), 8 + i, 1 + i);
}

/* Many puts to one place: the last flag stays. */
static void flags_of_one_place_follow_each_other(void **state SPW_UNUSED)
{
	struct spw_xfer_req *req[SPW_XFER_REQ_MAX];

	memset(k.buf_b + 4096, 0x5a, 32);
	for (uint32_t lap = 0; lap < 20; lap++) {
		for (uint32_t i = 0; i < SPW_XFER_REQ_MAX; i++) {
			struct spw_xfer_access a = access_at(8192 + i * 64ull, 64);

			a.flag_offset = 4096;
			a.flag = 1 + lap * SPW_XFER_REQ_MAX + i;
			assert_int_equal(spw_xfer_put(k.ab, &a, &req[i]), 0);
		}
		for (uint32_t i = 0; i < SPW_XFER_REQ_MAX; i++)
			kit_done(&k, req[i]);
		put_and_look(4096, 64, 1u << 20 | lap);
	}
}

static void many_puts_and_gets_are_under_way(void **state SPW_UNUSED)
{
	struct spw_xfer_req *req[SPW_XFER_REQ_MAX], *more;

	for (uint32_t lap = 0; lap < 10; lap++) {
		for (uint32_t i = 0; i < SPW_XFER_REQ_MAX; i++) {
			struct spw_xfer_access a = access_at(i * 40000ull, 39999 - lap);

			a.addr = k.buf_a + i * 40000;
			a.flag_offset = FLAGS_AT + i * 64ull;
			a.flag = 1 + lap;
			kit_fill(a.addr, a.bytes, lap + i);
			assert_int_equal(spw_xfer_put(k.ab, &a, &req[i]), 0);
		}
		struct spw_xfer_access none = access_at(0, 1);

		assert_int_equal(spw_xfer_get(k.ab, &none, &more), -EAGAIN);
		for (uint32_t i = 0; i < SPW_XFER_REQ_MAX; i++)
			kit_done(&k, req[i]);
		for (uint32_t i = 0; i < SPW_XFER_REQ_MAX; i++) {
			struct spw_xfer_access a = access_at(i * 40000ull, 39999 - lap);

			assert_true(spw_xfer_flag_seen(
				(const uint64_t *)(void *)(k.buf_b + FLAGS_AT + i * 64), 1 + lap));
			kit_expect_bytes(k.buf_b + i * 40000, a.bytes, lap + i);
			a.addr = k.buf_a + (4u << 20) + i * 40000;
			memset(a.addr, 0, a.bytes);
			assert_int_equal(spw_xfer_get(k.ab, &a, &req[i]), 0);
		}
		for (uint32_t i = 0; i < SPW_XFER_REQ_MAX; i++) {
			kit_done(&k, req[i]);
			kit_expect_bytes(k.buf_a + (4u << 20) + i * 40000, 39999 - lap, lap + i);
		}
	}
}

static void a_get_brings_every_length(void **state SPW_UNUSED)
{
	static const uint64_t bytes[] = {0, 1, 29, 65537, 1000000, WINDOW};

	for (uint64_t i = 0; i < SPW_ARRAY_CNT(bytes); i++) {
		const struct spw_xfer_access a = access_at(WINDOW - bytes[i], bytes[i]);
		struct spw_xfer_req *req;
		uint64_t got;

		kit_fill(k.buf_b + WINDOW - bytes[i], bytes[i], i);
		memset(k.buf_a, 0, bytes[i]);
		assert_int_equal(spw_xfer_get(k.ab, &a, &req), 0);
		assert_int_equal(kit_finish(&k, req, &got), 0);
		assert_int_equal(got, bytes[i]);
		kit_expect_bytes(k.buf_a, bytes[i], i);
	}
}

static void nothing_goes_beyond_a_window(void **state SPW_UNUSED)
{
	struct spw_xfer_access a = access_at(WINDOW - 1, 2);
	struct spw_xfer_req *req;

	assert_int_equal(spw_xfer_put(k.ab, &a, &req), -ERANGE);
	a = access_at(UINT64_MAX, 1);
	assert_int_equal(spw_xfer_get(k.ab, &a, &req), -ERANGE);
	a = access_at(0, 1);
	a.flag_offset = WINDOW - 16;
	a.flag = 1;
	assert_int_equal(spw_xfer_put(k.ab, &a, &req), -EINVAL);
	a.flag_offset = WINDOW;
	assert_int_equal(spw_xfer_put(k.ab, &a, &req), -ERANGE);
	a.flag_offset = 0;
	a.flag = 0;
	assert_int_equal(spw_xfer_put(k.ab, &a, &req), -EINVAL);
	a.flag = 1ull << 60;
	assert_int_equal(spw_xfer_put(k.ab, &a, &req), -EINVAL);
	a.flag = 1;
	assert_int_equal(spw_xfer_get(k.ab, &a, &req), -EINVAL);
	a = access_at(0, BUF + 1ull);
	assert_int_equal(spw_xfer_put(k.ab, &a, &req), -ERANGE);
}

/* The window's key reaches its bytes and not one more, whatever a library that lies about the size
 * would ask for. The access fails, the rail comes back, and the connection goes on. */
static void the_nic_guards_what_is_beside_a_window(void **state SPW_UNUSED)
{
	uint64_t *bytes = (uint64_t *)(void *)window; /* as a hostile caller has it */
	struct spw_xfer_access a;
	struct spw_xfer_req *req;

	memset(k.buf_b + WINDOW, 0x55, 4096);
	for (uint32_t i = 0; i < 8; i++)
		if (bytes[i] == WINDOW)
			bytes[i] = WINDOW + 4096;
	assert_int_equal(spw_xfer_window_bytes(window), WINDOW + 4096);
	a = access_at(WINDOW, 4096);
	assert_int_equal(spw_xfer_put(k.ab, &a, &req), 0);
	assert_int_equal(kit_finish(&k, req, NULL), -EREMOTEIO);
	for (uint32_t i = 0; i < 4096; i++)
		assert_int_equal(k.buf_b[WINDOW + i], 0x55);
	kit_pass(&k, 1000000, 1);
	assert_int_equal(spw_xfer_conn_error(k.ab), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
#define CASE(f) cmocka_unit_test_setup_teardown(f, open_kit, close_kit)
		CASE(a_put_arrives_before_its_flag),
		CASE(a_small_put_and_its_flag_are_one_message),
		CASE(flags_replace_what_their_words_hold),
		CASE(flags_of_one_place_follow_each_other),
		CASE(many_puts_and_gets_are_under_way),
		CASE(a_get_brings_every_length),
		CASE(nothing_goes_beyond_a_window),
		CASE(the_nic_guards_what_is_beside_a_window),
	};

	if (argc == 3) {
		rails_a = argv[1];
		rails_b = argv[2];
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
