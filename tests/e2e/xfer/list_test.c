/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Lists of pieces, written to and read from exported memory: every byte of both ends is compared
 * with what plain copies of the pieces give. Packet numbers of all QPs begin just before they wrap.
 * Arguments: the rails of both ends.
 */
#include <stdio.h>

#include "xfer/connection.h"
#include "xfer/endpoint.h"
#include "xfer_kit.h"

#define MEM   ((size_t)48 << 20)
#define LONG  100000u
#define PIECE 400u /* longest of a long list */

/* One end's exported memory. */
struct end {
	uint8_t at[MEM];
	struct spw_xfer_mem *mem;
	struct spw_xfer_blob blob;
};

static const char *rails_a = "mlx5_0", *rails_b = "mlx5_1";
static struct kit k;
static struct end a, b;
static struct spw_xfer_window *window; /* b's memory */
static struct spw_xfer_piece piece[LONG];
static uint8_t want[MEM]; /* what the end that is written to should hold */
static uint64_t seed;

/* The low 24 bits are where a QP's packet numbers begin. */
int __real_spw_oob_nonce(uint8_t nonce_out[SPW_OOB_NONCE_BYTES]);
int __wrap_spw_oob_nonce(uint8_t nonce_out[SPW_OOB_NONCE_BYTES]);
int __wrap_spw_oob_nonce(uint8_t nonce_out[SPW_OOB_NONCE_BYTES])
{
	const int rc = __real_spw_oob_nonce(nonce_out);

	nonce_out[0] = 0xf0;
	nonce_out[1] = nonce_out[2] = 0xff;
	return rc;
}

static void end_open(struct end *e, struct spw_xfer *x)
{
	const struct spw_xfer_mem_req req = {
		.kind = SPW_XFER_HOST, .addr = e->at, .bytes = MEM, .exported = true};

	assert_int_equal(spw_xfer_mem_reg(x, &req, &e->mem), 0);
	assert_int_equal(spw_xfer_mem_export(e->mem, &e->blob), 0);
}

static struct spw_xfer_window *import(const struct spw_xfer_blob *blob)
{
	struct spw_xfer_window *w;

	if (spw_xfer_window_import(k.ab, blob->byte, sizeof(blob->byte), &w))
		fail_msg("import: %s", spw_err_text());
	return w;
}

static int open_kit_with(const struct spw_xfer_conf *conf)
{
	seed = 7;
	kit_open(&k, rails_a, rails_b, conf);
	kit_connect(&k);
	kit_memory(&k, 1u << 20);
	kit_wait_up(&k, strchr(rails_a, '+') ? 2 : 1);
	end_open(&a, k.a);
	end_open(&b, k.b);
	window = import(&b.blob);
	assert_int_equal(spw_xfer_window_bytes(window), MEM);
	return 0;
}

/* The defaults, where writes are counted: a NIC thread without a core for 20 ms is no outage. */
static int open_kit(void **state SPW_UNUSED)
{
	return open_kit_with(NULL);
}

/* An ACK timeout of 4 ms and 3 retries: a black hole is noticed in some 20 ms. */
static int open_hasty(void **state SPW_UNUSED)
{
	return open_kit_with(&(struct spw_xfer_conf){.timeout = 10, .retry = 3});
}

static int close_kit(void **state SPW_UNUSED)
{
	kit_close(&k);
	return 0;
}

/* ---- lists ---- */

/* A list of pieces of 0 .. most bytes, apart by a gap or without one, at one end in their order and
 * at the other at places of their own, in no order. Both ends are filled with other bytes. */
static void lay(uint32_t cnt, uint32_t most)
{
	const uint64_t room = cnt ? MEM / cnt : 0;
	uint64_t at = 0;

	for (uint32_t i = 0; i < cnt; i++) {
		const bool follows = i && unit_random(&seed) % 4 == 0;
		const uint64_t len = unit_random(&seed) % (most + 1ull), to = i * 7919ull % cnt;

		piece[i] = (struct spw_xfer_piece){.window = window,
						   .offset = to * room,
						   .mem = a.mem,
						   .addr = a.at + at,
						   .bytes = SPW_MIN(len, room / 2)};
		at += piece[i].bytes + unit_random(&seed) % 3 * 8;
		if (follows && piece[i].bytes + piece[i - 1].bytes <= room / 2) {
			piece[i].addr = (uint8_t *)piece[i - 1].addr + piece[i - 1].bytes;
			piece[i].offset = piece[i - 1].offset + piece[i - 1].bytes;
		}
		assert_true(at <= MEM);
	}
	kit_fill(a.at, MEM, seed);
	kit_fill(b.at, MEM, seed + 1);
}

/* What the end that is written to holds when the first cnt pieces have been copied. */
static void copy(uint32_t cnt, bool put)
{
	memcpy(want, put ? b.at : a.at, MEM);
	for (uint32_t i = 0; i < cnt; i++) {
		uint8_t *near = want + ((uint8_t *)piece[i].addr - a.at);

		if (put)
			memcpy(want + piece[i].offset, piece[i].addr, piece[i].bytes);
		else
			memcpy(near, b.at + piece[i].offset, piece[i].bytes);
	}
}

static uint64_t sum(uint32_t cnt)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < cnt; i++)
		bytes += piece[i].bytes;
	return bytes;
}

static struct spw_xfer_req *start(uint32_t cnt, bool put)
{
	struct spw_xfer_req *req;

	copy(cnt, put);
	if ((put ? spw_xfer_put_list : spw_xfer_get_list)(k.ab, piece, cnt, &req))
		fail_msg("start: %s", spw_err_text());
	return req;
}

static void expect_copied(bool put)
{
	const uint8_t *got = put ? b.at : a.at;

	for (size_t i = 0; i < MEM; i++)
		if (got[i] != want[i])
			fail_msg("byte %zu of a %s is wrong", i, put ? "put" : "get");
}

static void expect_done(struct spw_xfer_req *req, uint32_t cnt, bool put)
{
	uint64_t bytes = 0;

	if (kit_finish(&k, req, &bytes))
		fail_msg("a list: %s", spw_err_text());
	assert_int_equal(bytes, sum(cnt));
	expect_copied(put);
}

static void pass(uint32_t cnt, bool put)
{
	expect_done(start(cnt, put), cnt, put);
}

static void lists_of_every_length_arrive(void **state SPW_UNUSED)
{
	static const uint32_t cnt[] = {0, 1, 2, 31, 1000, LONG};

	for (uint32_t i = 0; i < SPW_ARRAY_CNT(cnt); i++)
		for (uint32_t put = 0; put < 2; put++) {
			lay(cnt[i], PIECE);
			pass(cnt[i], put);
		}
}

/* Longer than a chunk, between short ones; and pieces of 0 bytes before, between and behind. */
static void long_and_empty_pieces_arrive(void **state SPW_UNUSED)
{
	static const uint64_t bytes[] = {0, 0, 1, 5u << 20, 0, 65536, 65537, 3, (9u << 20) + 1, 0};

	for (uint32_t put = 0; put < 2; put++) {
		uint64_t at = 0;

		lay(0, 0);
		for (uint32_t i = 0; i < SPW_ARRAY_CNT(bytes); i++) {
			piece[i] = (struct spw_xfer_piece){window, at, bytes[i] ? a.mem : NULL,
							   a.at + at + (i & 1), bytes[i]};
			at += bytes[i] + 64;
		}
		pass(SPW_ARRAY_CNT(bytes), put);
		pass(2, put); /* without any byte */
	}
}

static void overlapping_pieces_are_of_any_of_them(void **state SPW_UNUSED)
{
	struct spw_xfer_req *req;

	lay(0, 0);
	for (uint32_t i = 0; i < 1000; i++) {
		piece[i] = (struct spw_xfer_piece){window, 64 * i, a.mem, a.at + 4096 * i, 256};
		memset(piece[i].addr, (int)(i % 251), 256);
	}
	assert_int_equal(spw_xfer_put_list(k.ab, piece, 1000, &req), 0);
	kit_done(&k, req);
	for (uint32_t i = 0; i < 64 * 1000 + 192; i++) {
		bool found = false;

		for (uint32_t j = 0; j < 4; j++)
			found |= i / 64 >= j && i / 64 - j < 1000 && b.at[i] == (i / 64 - j) % 251;
		assert_true(found);
	}
}

static struct spw_xfer_rail_stat rail_stat(uint32_t rail)
{
	struct spw_xfer_rail_stat stat = {0}; /* of a rail that is not there */

	(void)spw_xfer_conn_rail_stat(k.ab, rail, &stat);
	return stat;
}

static uint64_t chunks(void)
{
	return rail_stat(0).tx_chunks + rail_stat(1).tx_chunks;
}

static void neighbours_are_one_write(void **state SPW_UNUSED)
{
	uint64_t before = chunks();

	lay(0, 0);
	for (uint32_t i = 0; i < 4096; i++)
		piece[i] = (struct spw_xfer_piece){window, 64 * i, a.mem, a.at + 8 + 64 * i, 64};
	pass(4096, true);
	assert_in_range(chunks() - before, 1, 16);
	before = chunks();
	for (uint32_t i = 0; i < 4096; i++) /* neighbours at one end only */
		piece[i].addr = a.at + 65 * i;
	pass(4096, true);
	assert_int_equal(chunks() - before, 4096);
}

static void both_rails_carry_small_pieces(void **state SPW_UNUSED)
{
	for (uint32_t put = 0; put < 2 && strchr(rails_a, '+'); put++) {
		const uint64_t before[2] = {rail_stat(0).tx_bytes, rail_stat(1).tx_bytes};

		lay(0, 0);
		for (uint32_t i = 0; i < 256; i++)
			piece[i] = (struct spw_xfer_piece){window, 8192 * i, a.mem, a.at + 8192 * i,
							   4096};
		pass(256, put);
		for (uint32_t i = 0; i < 2; i++)
			assert_in_range(rail_stat(i).tx_bytes - before[i], 64 * 4096, 192 * 4096);
	}
}

/* ---- blobs ---- */

static void import_refused(const struct spw_xfer_blob *blob, size_t len)
{
	struct spw_xfer_window *w;

	assert_int_equal(spw_xfer_window_import(k.ab, blob->byte, len, &w), -EINVAL);
	assert_null(w);
}

static void what_is_no_blob_of_the_peer_is_refused(void **state SPW_UNUSED)
{
	struct spw_xfer_blob changed = b.blob;

	changed.byte[20] ^= 1;
	import_refused(&changed, sizeof(changed.byte));
	import_refused(&b.blob, sizeof(b.blob.byte) - 1);
	import_refused(&a.blob, sizeof(a.blob.byte)); /* of another endpoint */
	assert_int_equal(spw_xfer_mem_export(k.mem_b, &changed), -EINVAL);
}

/* With the right MAC, as only somebody could make it who knows the peer's key. */
static void a_forged_blob_fails_its_request_only(void **state SPW_UNUSED)
{
	struct xfer_export e;

	assert_int_equal(
		xfer_wire_blob_get(b.blob.byte, sizeof(b.blob.byte), k.ab->their_export_key, &e),
		0);
	for (uint32_t what = 0; what < 3; what++) {
		struct xfer_export bad = e;
		struct spw_xfer_blob blob;
		struct spw_xfer_req *req;
		uint64_t bytes = 1;

		bad.addr += what == 0 ? MEM : 0;
		bad.bytes += what == 1 ? 8192 : 0;
		for (uint32_t i = 0; i < SPW_XFER_RAIL_MAX; i++)
			bad.rkey[i] ^= what == 2 ? 0x5a00 : 0;
		xfer_wire_blob_put(&bad, k.ab->their_export_key, &blob);
		lay(100, PIECE);
		piece[50] = (struct spw_xfer_piece){import(&blob), bad.bytes - 8, a.mem, a.at, 8};
		assert_int_equal(spw_xfer_put_list(k.ab, piece, 100, &req), 0);
		assert_int_equal(kit_finish(&k, req, &bytes), -EREMOTEIO);
		assert_non_null(strstr(spw_err_text(), "piece 50 of 100"));
		assert_true(bytes < sum(100));
		assert_int_equal(spw_xfer_window_drop(piece[50].window), 0);
		kit_pass(&k, 1000000, what);
		kit_wait_up(&k, strchr(rails_a, '+') ? 2 : 1);
	}
	lay(1000, PIECE);
	pass(1000, true);
}

/* ---- refused at once ---- */

static void list_refused(uint32_t cnt, int error)
{
	struct spw_xfer_req *req;

	assert_int_equal(spw_xfer_put_list(k.ab, piece, cnt, &req), error);
	assert_int_equal(spw_xfer_get_list(k.ab, piece, cnt, &req), error);
}

static void a_wrong_piece_is_named_and_nothing_moves(void **state SPW_UNUSED)
{
	const struct spw_xfer_piece *p = &piece[77];

	lay(100, PIECE);
	copy(0, true);
	piece[77].offset = MEM - p->bytes + 1;
	list_refused(100, -ERANGE);
	assert_non_null(strstr(spw_err_text(), "piece 77 of 100"));
	piece[77].offset = UINT64_MAX;
	list_refused(100, -ERANGE);
	piece[77].offset = 0;
	piece[77].addr = a.at + MEM - p->bytes + 1;
	list_refused(100, -ERANGE);
	piece[77].addr = a.at;
	piece[77].mem = b.mem;
	list_refused(100, -EINVAL);
	piece[77].mem = a.mem;
	piece[77].window = NULL;
	list_refused(100, -EINVAL);
	list_refused(SPW_XFER_PIECE_MAX + 1, -EINVAL);
	kit_turn_for(&k, 20);
	expect_copied(true);
	assert_int_equal(spw_xfer_mem_dereg(a.mem), 0); /* none of it counts as a user */
	assert_int_equal(spw_xfer_window_drop(window), 0);
}

static void what_a_list_uses_stays(void **state SPW_UNUSED)
{
	struct spw_xfer_req *req;

	lay(LONG, PIECE);
	req = start(LONG, true);
	assert_int_equal(spw_xfer_mem_dereg(a.mem), -EBUSY);
	assert_int_equal(spw_xfer_window_drop(window), -EBUSY);
	expect_done(req, LONG, true);
	assert_int_equal(spw_xfer_mem_dereg(a.mem), 0);
	assert_int_equal(spw_xfer_window_drop(window), 0);
}

/* The other end takes back what it exported. */
static void memory_that_is_gone_fails_the_list(void **state SPW_UNUSED)
{
	struct spw_xfer_req *req;

	lay(100, PIECE);
	assert_int_equal(spw_xfer_mem_dereg(b.mem), 0);
	req = start(100, false);
	assert_int_equal(kit_finish(&k, req, NULL), -EREMOTEIO);
	kit_pass(&k, 100000, 1);
}

/* ---- beside others ---- */

static void messages_pass_a_list(void **state SPW_UNUSED)
{
	struct spw_xfer_req *req;

	lay(LONG, PIECE);
	req = start(LONG, true);
	for (uint32_t i = 0; i < 10; i++)
		kit_pass(&k, 1000 + i, i);
	assert_true(req->left); /* it was long */
	expect_done(req, LONG, true);
}

static void a_cancelled_list_stops(void **state SPW_UNUSED)
{
	for (uint32_t put = 0; put < 2; put++) {
		struct spw_xfer_req *req, *small;
		uint64_t bytes;

		lay(LONG, PIECE);
		req = start(LONG, put);
		assert_int_equal(spw_xfer_put_list(k.ab, piece, 1, &small), 0);
		assert_int_equal(spw_xfer_cancel(req), 0);
		assert_int_equal(kit_finish(&k, req, &bytes), -ECANCELED);
		assert_true(bytes < sum(LONG) / 2);
		kit_done(&k, small);
		lay(LONG, PIECE); /* whatever still moved would show */
		copy(0, put);
		kit_turn_for(&k, 20);
		expect_copied(put);
	}
	struct spw_xfer_part part = {k.mem_a, k.buf_a, 8, 0};
	struct spw_xfer_req *recv;

	assert_int_equal(spw_xfer_recv(k.ab, &part, 1, &recv), 0);
	assert_int_equal(spw_xfer_cancel(recv), -EOPNOTSUPP);
}

static void a_peer_that_ends_fails_the_list(void **state SPW_UNUSED)
{
	struct spw_xfer_req *req;
	uint64_t bytes;

	lay(LONG, PIECE);
	req = start(LONG, true);
	kit_turn(&k);
	spw_xfer_conn_close(k.ba);
	k.ba = NULL;
	assert_int_equal(kit_finish(&k, req, &bytes), -ECONNRESET);
	assert_true(bytes < sum(LONG));
	assert_int_equal(spw_xfer_mem_dereg(a.mem), 0);
}

/* ---- rails that fail ---- */

/* While a list is under way, some way in. */
static void harm(bool put, const char *line)
{
	struct spw_xfer_req *req;

	lay(LONG, PIECE);
	req = start(LONG, put);
	while (req->bytes[0] < sum(1000))
		kit_turn(&k);
	kit_control("mlx5_1", NULL, "%s", line);
	expect_done(req, LONG, put);
	kit_control("mlx5_1", NULL, "fault loss=0");
	kit_control("mlx5_1", NULL, "fault port-rate=none");
	kit_wait_up(&k, strchr(rails_a, '+') ? 2 : 1);
}

static void a_list_survives_its_rails(void **state SPW_UNUSED)
{
	for (uint32_t put = 0; put < 2; put++) {
		harm(put, "link-down=50ms");
		harm(put, "fault port-rate=0.05");
		harm(put, "fault loss=0.01");
		if (strchr(rails_a, '+'))
			harm(put, "fault loss=1");
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
#define CASE(f) cmocka_unit_test_setup_teardown(f, open_kit, close_kit)
		CASE(lists_of_every_length_arrive),
		CASE(long_and_empty_pieces_arrive),
		CASE(overlapping_pieces_are_of_any_of_them),
		CASE(neighbours_are_one_write),
		CASE(both_rails_carry_small_pieces),
		CASE(what_is_no_blob_of_the_peer_is_refused),
		CASE(a_forged_blob_fails_its_request_only),
		CASE(a_wrong_piece_is_named_and_nothing_moves),
		CASE(what_a_list_uses_stays),
		CASE(memory_that_is_gone_fails_the_list),
		CASE(messages_pass_a_list),
		CASE(a_cancelled_list_stops),
		CASE(a_peer_that_ends_fails_the_list),
		cmocka_unit_test_setup_teardown(a_list_survives_its_rails, open_hasty, close_kit),
	};

	rails_a = argc == 3 ? argv[1] : rails_a;
	rails_b = argc == 3 ? argv[2] : rails_b;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
