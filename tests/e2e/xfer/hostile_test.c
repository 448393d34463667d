/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A peer that was let in and then breaks the protocol, over its rails and over TCP: `ab` lies, by
 * the library's own means, and `ba` must notice. That costs one line and this connection; memory
 * that was not granted keeps its bytes, and another connection between the same endpoints carries
 * on. Arguments: the rails of both ends.
 */
#include <sys/socket.h>

#include "base/spw_log.h"
#include "xfer/connection.h"
#include "xfer/endpoint.h"
#include "xfer_kit.h"

#define ROOM   10000u
#define BESIDE 0x5a /* in memory that was not granted */

static const char *rails_a = "mlx5_0", *rails_b = "mlx5_1";
static struct kit k;
static struct spw_xfer_conn *good_ab, *good_ba;
static uint32_t lines; /* that name a breach */

static void on_log(enum spw_log_level level SPW_UNUSED, const char *text, void *arg SPW_UNUSED)
{
	lines += strstr(text, "it broke the protocol") != NULL;
}

/* The good connection is made first, and is what kit_pass uses. */
static int open_kit(void **state SPW_UNUSED)
{
	const struct spw_xfer_conf conf = {.chunk_bytes = 4096};

	kit_open(&k, rails_a, rails_b, &conf);
	kit_connect(&k);
	kit_memory(&k, 1u << 20);
	good_ab = k.ab;
	good_ba = k.ba;
	spw_xfer_listener_close(k.listener);
	k.ab = k.ba = NULL;
	kit_connect(&k);
	kit_turn_for(&k, 5);
	lines = 0;
	spw_log_sink_set(on_log, NULL);
	return 0;
}

static int close_kit(void **state SPW_UNUSED)
{
	spw_log_sink_set(NULL, NULL);
	kit_close(&k);
	return 0;
}

/* ---- what the liar does ---- */

static struct xfer_rail *rail(void)
{
	return k.ab->rail[0];
}

static void imm(struct xfer_imm i, uint32_t bytes)
{
	const struct xfer_wr wr = {.op = XFER_OP_WRITE_IMM,
				   .raddr = k.ab->their_box,
				   .rkey = rail()->theirs.rkey,
				   .bytes = bytes,
				   .laddr = (uintptr_t)k.ab->box->out,
				   .lkey = k.ab->box_out[rail()->dev_idx]->lkey,
				   .imm = xfer_imm_put(i)};
	const struct xfer_sent sent = {.kind = XFER_SENT_GRANT};

	xfer_rail_post(rail(), &wr, &sent);
	rail()->ops->ring(rail());
	rail()->rang = true;
}

/* Writes a grant of ab's own and announces it. */
static void grant(uint32_t seq, uint64_t addr, uint64_t bytes, uint8_t lap)
{
	struct xfer_grant *g = &k.ab->box->out[xfer_slot_of(seq)];
	const struct xfer_wr wr = {
		.op = XFER_OP_WRITE_IMM,
		.bytes = sizeof(*g),
		.laddr = (uintptr_t)g,
		.lkey = k.ab->box_out[rail()->dev_idx]->lkey,
		.raddr = k.ab->their_box + offsetof(struct xfer_box, in) +
			 xfer_slot_of(seq) * sizeof(*g),
		.rkey = rail()->theirs.rkey,
		.imm = xfer_imm_put((struct xfer_imm){
			.kind = XFER_IMM_GRANT, .slot = (uint8_t)xfer_slot_of(seq), .lap = lap}),
	};
	const struct xfer_sent sent = {.kind = XFER_SENT_GRANT};

	*g = (struct xfer_grant){.addr = spw_cpu_to_be64(addr),
				 .bytes = spw_cpu_to_be64(bytes),
				 .rkey = {spw_cpu_to_be32(k.mem_a->mr[0]->rkey ^ 0x5500)},
				 .seq = spw_cpu_to_be32(seq)};
	xfer_rail_post(rail(), &wr, &sent);
	rail()->ops->ring(rail());
	rail()->rang = true;
}

/* ba's receive of ROOM bytes, slot 0, in the middle of its buffer. */
static struct spw_xfer_req *receive(void)
{
	const struct spw_xfer_part part = {k.mem_b, k.buf_b + ROOM, ROOM, 0};
	struct spw_xfer_req *req;

	memset(k.buf_b, BESIDE, 3 * ROOM);
	assert_int_equal(spw_xfer_recv(k.ba, &part, 1, &req), 0);
	kit_turn_for(&k, 2);
	return req;
}

static struct spw_xfer_req *send_back(void)
{
	struct spw_xfer_req *req;

	assert_int_equal(spw_xfer_send(k.ba, k.mem_b, k.buf_b, 100, 0, &req), 0);
	return req;
}

/* ---- what becomes of it ---- */

static void expect_breach(const char *what)
{
	const uint64_t end = kit_now_ms() + KIT_WAIT_MS;
	struct spw_xfer_stat stat;

	while (!spw_xfer_conn_error(k.ba) && kit_now_ms() < end)
		kit_turn(&k);
	assert_int_equal(spw_xfer_conn_error(k.ba), -EPROTO);
	if (!strstr(spw_xfer_conn_text(k.ba), what))
		fail_msg("'%s' does not say '%s'", spw_xfer_conn_text(k.ba), what);
	spw_xfer_stat(k.b, &stat);
	assert_int_equal(stat.protocol, 1);
	assert_int_equal(stat.conns_lost, 1);
	assert_int_equal(lines, 1);
	for (uint32_t i = 0; i < ROOM; i++) {
		assert_int_equal(k.buf_b[i], BESIDE);
		assert_int_equal(k.buf_b[2 * ROOM + i], BESIDE);
	}
	k.ab = good_ab;
	k.ba = good_ba;
	kit_pass(&k, 300000, 1);
}

static void failed(struct spw_xfer_req *req)
{
	bool done;

	assert_int_equal(spw_xfer_test(req, &done, NULL), -EPROTO);
	assert_true(done);
}

/* ---- immediates ---- */

static void an_immediate_of_no_kind(void **state SPW_UNUSED)
{
	struct spw_xfer_req *req = receive();

	imm((struct xfer_imm){.kind = 9}, 0);
	memset(k.buf_b, BESIDE, 3 * ROOM);
	expect_breach("an immediate of no kind");
	failed(req);
}

static void an_end_of_nothing(void **state SPW_UNUSED)
{
	memset(k.buf_b, BESIDE, 3 * ROOM);
	imm((struct xfer_imm){.kind = XFER_IMM_FIN, .slot = 3, .rails = 1}, 0);
	expect_breach("an end of a message that was not under way");
}

/* Each field of an end that does not fit the receive under way. */
static void an_end_that_does_not_fit(void **state SPW_UNUSED)
{
	static const struct xfer_imm wrong[] = {
		{.kind = XFER_IMM_FIN, .slot = 0, .rails = 1, .lap = 1},
		{.kind = XFER_IMM_FIN, .slot = 1, .rails = 1},
		{.kind = XFER_IMM_FIN, .slot = 0, .rails = 0},
		{.kind = XFER_IMM_FIN, .slot = 0, .rails = 8},
		{.kind = XFER_IMM_FIN, .slot = 0, .rails = 9},
	};

	for (uint32_t i = 0; i < SPW_ARRAY_CNT(wrong); i++) {
		struct spw_xfer_req *req = receive();

		imm(wrong[i], 0);
		expect_breach("an end of a message that was not under way");
		failed(req);
		close_kit(NULL);
		open_kit(NULL);
	}
}

static void an_end_of_impossible_length(void **state SPW_UNUSED)
{
	struct spw_xfer_req *req = receive();

	imm((struct xfer_imm){.kind = XFER_IMM_FIN, .rails = 1, .size = XFER_SIZE_CNT}, 0);
	expect_breach("a message longer than its grant");
	failed(req);
}

/* The length is a record in the mailbox, which says more than was granted. */
static void a_record_beyond_the_grant(void **state SPW_UNUSED)
{
	struct spw_xfer_req *req = receive();
	const spw_be64 size = spw_cpu_to_be64(ROOM + 1);
	const struct xfer_wr wr = {.op = XFER_OP_WRITE,
				   .raddr = k.ab->their_box + offsetof(struct xfer_box, size),
				   .rkey = rail()->theirs.rkey,
				   .bytes = sizeof(size),
				   .in_wqe = true,
				   .laddr = (uintptr_t)&size};
	const struct xfer_sent sent = {.kind = XFER_SENT_GRANT};

	xfer_rail_post(rail(), &wr, &sent);
	imm((struct xfer_imm){.kind = XFER_IMM_FIN, .rails = 1, .size = XFER_SIZE_RECORD}, 0);
	expect_breach("a message longer than its grant");
	failed(req);
}

/* The end of a message twice. */
static void an_end_again(void **state SPW_UNUSED)
{
	struct spw_xfer_req *req = receive();
	const struct xfer_imm fin = {.kind = XFER_IMM_FIN, .rails = 1, .size = XFER_SIZE_RECORD};

	imm(fin, 0);
	kit_done(&k, req);
	memset(k.buf_b, BESIDE, 3 * ROOM);
	imm(fin, 0);
	expect_breach("an end of a message that was not under way");
}

/* ---- grants ---- */

static void a_grant_out_of_order(void **state SPW_UNUSED)
{
	struct spw_xfer_req *req = send_back();

	memset(k.buf_b, BESIDE, 3 * ROOM);
	grant(XFER_SLOT_CNT, (uintptr_t)k.buf_a, 100, 1); /* slot 0, second lap */
	expect_breach("a grant out of order");
	failed(req);
}

static void a_grant_whose_lap_differs(void **state SPW_UNUSED)
{
	memset(k.buf_b, BESIDE, 3 * ROOM);
	grant(0, (uintptr_t)k.buf_a, 100, 5);
	expect_breach("a grant out of order");
}

static void a_grant_of_impossible_size(void **state SPW_UNUSED)
{
	struct spw_xfer_req *req = send_back();

	memset(k.buf_b, BESIDE, 3 * ROOM);
	grant(0, UINT64_MAX - 10, 100, 0);
	expect_breach("a grant of impossible size");
	failed(req);
}

static void a_grant_beyond_any_message(void **state SPW_UNUSED)
{
	memset(k.buf_b, BESIDE, 3 * ROOM);
	grant(0, 4096, SPW_XFER_BYTES_MAX + 1, 0);
	expect_breach("a grant of impossible size");
}

/* Its NIC refuses the write: no rail could carry it, so trying again would never end. */
static void a_grant_of_foreign_memory(void **state SPW_UNUSED)
{
	struct spw_xfer_req *req;

	memset(k.buf_b, BESIDE, 3 * ROOM);
	grant(0, (uintptr_t)k.buf_a, 100, 0);
	req = send_back();
	expect_breach("it granted memory that its NIC refuses");
	failed(req);
}

/* A grant again is what a peer writes after a failure, and changes nothing. */
static void a_grant_again_changes_nothing(void **state SPW_UNUSED)
{
	const struct spw_xfer_part part = {k.mem_a, k.buf_a, 100, 0};
	struct spw_xfer_req *recv, *send;

	assert_int_equal(spw_xfer_recv(k.ab, &part, 1, &recv), 0);
	imm((struct xfer_imm){.kind = XFER_IMM_GRANT}, 0);
	kit_turn_for(&k, 2);
	send = send_back();
	kit_done(&k, send);
	kit_done(&k, recv);
	kit_pass(&k, 50000, 2);
	assert_int_equal(lines, 0);
}

/* ---- frames ---- */

static void frames_out_of_place(void **state SPW_UNUSED)
{
	struct xfer_frame f = {.type = XFER_FRAME_DOWN,
			       .down = {.qp_generation = 1, .generation = 2}};
	struct spw_xfer_req *req = receive();

	memset(f.down.open, 0xff, sizeof(f.down.open));
	xfer_conn_send(k.ab, &f);
	expect_breach("a generation was left out");
	failed(req);
}

static void an_exchange_again(void **state SPW_UNUSED)
{
	const struct xfer_frame f = {
		.type = XFER_FRAME_OFFER,
		.offer = {.dev_cnt = 1, .end = {{.mtu = 1024, .read_max = 1}}}};

	memset(k.buf_b, BESIDE, 3 * ROOM);
	xfer_conn_send(k.ab, &f);
	expect_breach("a frame that has no place here");
}

static void a_rail_down_twice(void **state SPW_UNUSED)
{
	struct xfer_frame f = {.type = XFER_FRAME_DOWN,
			       .down = {.qp_generation = 1, .generation = 1}};

	memset(k.buf_b, BESIDE, 3 * ROOM);
	memset(f.down.open, 0xff, sizeof(f.down.open));
	xfer_conn_send(k.ab, &f);
	f.down.generation = 2;
	xfer_conn_send(k.ab, &f);
	expect_breach("a rail is down that was not up");
}

static void a_window_of_impossible_size(void **state SPW_UNUSED)
{
	const struct xfer_frame f = {.type = XFER_FRAME_WINDOW,
				     .window = {.addr = UINT64_MAX - 5, .bytes = 100}};

	memset(k.buf_b, BESIDE, 3 * ROOM);
	xfer_conn_send(k.ab, &f);
	expect_breach("a malformed frame");
}

/* The middle of a frame on the wire: its MAC no longer fits. */
static void a_frame_that_was_changed(void **state SPW_UNUSED)
{
	const struct xfer_frame f = {.type = XFER_FRAME_WINDOW,
				     .window = {.addr = 4096, .bytes = 100}};
	uint8_t bytes[4 + XFER_FRAME_MAX + SPW_OOB_MAC_BYTES] = {0};
	const size_t len = xfer_wire_encode(&f, bytes + 4);

	memset(k.buf_b, BESIDE, 3 * ROOM);
	bytes[3] = (uint8_t)len;
	memset(bytes + 4 + len, 1, SPW_OOB_MAC_BYTES);
	assert_int_equal(send(k.ab->link.ch.fd, bytes, 4 + len + SPW_OOB_MAC_BYTES, 0),
			 4 + len + SPW_OOB_MAC_BYTES);
	expect_breach("a frame that was changed, or sent before");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
#define CASE(f) cmocka_unit_test_setup_teardown(f, open_kit, close_kit)
		CASE(an_immediate_of_no_kind),    CASE(an_end_of_nothing),
		CASE(an_end_that_does_not_fit),   CASE(an_end_of_impossible_length),
		CASE(a_record_beyond_the_grant),  CASE(an_end_again),
		CASE(a_grant_out_of_order),       CASE(a_grant_whose_lap_differs),
		CASE(a_grant_of_impossible_size), CASE(a_grant_beyond_any_message),
		CASE(a_grant_of_foreign_memory),  CASE(a_grant_again_changes_nothing),
		CASE(frames_out_of_place),        CASE(an_exchange_again),
		CASE(a_rail_down_twice),          CASE(a_window_of_impossible_size),
		CASE(a_frame_that_was_changed),
	};

	if (argc == 3) {
		rails_a = argv[1];
		rails_b = argv[2];
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
