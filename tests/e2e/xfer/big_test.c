/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Messages, puts and gets on both sides of 4 GiB, and of the longest length, 16 GiB. Each end has
 * one buffer of PIECE bytes that is mapped many times, one behind the other: what arrives at
 * address n of it came from address n, modulo PIECE. Arguments: the rails of both ends.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "xfer_kit.h"

#define PIECE (64ull << 20)
#define GIB   (1ull << 30)
#define WHOLE SPW_XFER_BYTES_MAX

static const char *rails_a = "mlx5_0+mlx5_2", *rails_b = "mlx5_1+mlx5_3";
static struct kit k;

/* Returns: WHOLE bytes of addresses, PIECE of memory. */
static uint8_t *map(void)
{
	uint8_t *at =
		mmap(NULL, WHOLE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int fd = memfd_create("piece", MFD_CLOEXEC);

	assert_true(at != MAP_FAILED && fd >= 0);
	assert_int_equal(ftruncate(fd, PIECE), 0);
	for (uint64_t i = 0; i < WHOLE; i += PIECE)
		if (mmap(at + i, PIECE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
		    MAP_FAILED)
			fail_msg("mmap: %s", strerror(errno));
	close(fd);
	return at;
}

static int open_kit(void **state SPW_UNUSED)
{
	struct spw_xfer_mem_req req = {.kind = SPW_XFER_HOST, .bytes = WHOLE};

	kit_open(&k, rails_a, rails_b, NULL);
	kit_connect(&k);
	kit_wait_up(&k, 2);
	req.addr = k.buf_a = map();
	assert_int_equal(spw_xfer_mem_reg(k.a, &req, &k.mem_a), 0);
	req.addr = k.buf_b = map();
	assert_int_equal(spw_xfer_mem_reg(k.b, &req, &k.mem_b), 0);
	return 0;
}

static int close_kit(void **state SPW_UNUSED)
{
	spw_xfer_close(k.a);
	spw_xfer_close(k.b);
	munmap(k.buf_a, WHOLE);
	munmap(k.buf_b, WHOLE);
	return 0;
}

static uint64_t tx_bytes(void)
{
	struct spw_xfer_rail_stat stat;
	uint64_t sum = 0;

	for (uint32_t i = 0; spw_xfer_conn_rail_stat(k.ab, i, &stat); i++)
		sum += stat.tx_bytes;
	return sum;
}

static void finish(struct spw_xfer_req *req, uint64_t bytes)
{
	const uint64_t end = kit_now_ms() + 600000;
	bool done = false;
	uint64_t got = 0;

	while (!done) {
		assert_true(kit_now_ms() < end);
		if (spw_xfer_test(req, &done, &got))
			fail_msg("%s", spw_err_text());
		kit_turn(&k);
	}
	assert_int_equal(got, bytes);
}

/* From address `from` of one end to `to` of the other; more than PIECE bytes fill all of it. */
static void check(const uint8_t *at, uint64_t from, uint64_t to, uint64_t bytes, uint64_t seed)
{
	static uint8_t want[PIECE];

	kit_fill(want, PIECE, seed);
	for (uint64_t i = 0; i < SPW_MIN(bytes, PIECE); i++)
		if (at[(to + i) % PIECE] != want[(from + i) % PIECE])
			fail_msg("byte %llu is wrong", (unsigned long long)i);
}

static void a_message_of(uint64_t bytes, uint64_t seed)
{
	const struct spw_xfer_part part = {k.mem_b, k.buf_b + WHOLE - bytes, bytes, 0};
	const uint64_t before = tx_bytes();
	struct spw_xfer_req *send, *recv;

	kit_fill(k.buf_a, PIECE, seed);
	memset(k.buf_b, 0, PIECE);
	assert_int_equal(spw_xfer_recv(k.ba, &part, 1, &recv), 0);
	assert_int_equal(spw_xfer_send(k.ab, k.mem_a, k.buf_a, bytes, 0, &send), 0);
	finish(recv, bytes);
	finish(send, bytes);
	assert_int_equal(tx_bytes() - before, bytes);
	check(k.buf_b, 0, WHOLE - bytes, bytes, seed);
}

static void messages_around_4_gib(void **state SPW_UNUSED)
{
	a_message_of(0, 1);
	a_message_of(4 * GIB - 1, 2);
	a_message_of(4 * GIB, 3);
	a_message_of(4 * GIB + 1, 4);
}

static void the_longest_message(void **state SPW_UNUSED)
{
	a_message_of(WHOLE, 5);
}

static void windows_beyond_4_gib(void **state SPW_UNUSED)
{
	const uint64_t bytes = 4 * GIB + 1, offset = 5 * GIB + 3;
	struct spw_xfer_access a = {.offset = offset,
				    .mem = k.mem_a,
				    .addr = k.buf_a + 7,
				    .bytes = bytes,
				    .flag_offset = SPW_XFER_NO_FLAG};
	struct spw_xfer_req *req;
	int rc;

	assert_int_equal(spw_xfer_window_expose(k.ba, k.mem_b, k.buf_b, WHOLE), 0);
	while ((rc = spw_xfer_window_remote(k.ab, 0, &a.window)) == -EAGAIN)
		kit_turn(&k);
	assert_int_equal(rc, 0);
	kit_fill(k.buf_a, PIECE, 6);
	memset(k.buf_b, 0, PIECE);
	assert_int_equal(spw_xfer_put(k.ab, &a, &req), 0);
	finish(req, bytes);
	check(k.buf_b, 7, offset, bytes, 6);
	kit_fill(k.buf_b, PIECE, 7);
	assert_int_equal(spw_xfer_get(k.ab, &a, &req), 0);
	finish(req, bytes);
	check(k.buf_a, offset, 7, bytes, 7);
	a.offset = WHOLE - bytes + 1;
	assert_int_equal(spw_xfer_put(k.ab, &a, &req), -ERANGE);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages_around_4_gib),
		cmocka_unit_test(the_longest_message),
		cmocka_unit_test(windows_beyond_4_gib),
	};

	if (argc == 3) {
		rails_a = argv[1];
		rails_b = argv[2];
	}
	return cmocka_run_group_tests(tests, open_kit, close_kit);
}
