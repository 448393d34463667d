/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Frames as they are on the wire, through description, plan and window: what is no frame of the
 * stream, cut or beyond, and a counter that begins anywhere, twice.
 */
#include <stdio.h>
#include <stdlib.h>

#include "obj/window.h"
#include "unit_test.h"

#define PACKETS  4u
#define PAYLOAD  64u
#define HEADERS  42u
#define FRAME    (HEADERS + 8 + PAYLOAD)
#define UDP_PORT 4660u
#define FILL_MAX 64u

static struct spw_obj_desc desc;
static struct spw_obj *obj;
static struct spw_obj_page *page;
static struct spw_obj_turn turn;
static uint8_t frame[FRAME];
static uint64_t receipts;
static struct spw_obj_receipt last;

static void on_receipt(void *arg, const struct spw_obj_receipt *receipt,
		       const struct spw_obj_way *way)
{
	(void)arg;
	if (way->released)
		return;
	receipts++;
	last = *receipt;
}

static void open_stream(const char *more)
{
	struct spw_obj_conf conf = {.desc = &desc, .tsc_hz = 1000000000};
	char text[400];

	snprintf(text, sizeof(text),
		 "name: test\nformat: counter\nset: { packets: %u, payload: %u }\n%s", PACKETS,
		 PAYLOAD, more);
	if (spw_obj_desc_load_text("test", text, strlen(text), &desc))
		fail_msg("%s", spw_err_text());
	page = aligned_alloc(128, SPW_ALIGN_UP(spw_obj_page_bytes(desc.rule.buffers), 128ull));
	assert_non_null(page);
	memset(page, 0, spw_obj_page_bytes(desc.rule.buffers));
	spw_obj_page_init(page, &desc, SPW_ALIGN_UP(desc.shape.bytes, 256ull), conf.tsc_hz);
	conf.page = page;
	assert_int_equal(spw_obj_open(&conf, on_receipt, NULL, &obj), 0);
	turn = (struct spw_obj_turn){.now_tsc = 1, .room = 1};
	spw_obj_turn(obj, &turn);
	receipts = 0;
}

static void close_stream(void)
{
	spw_obj_close(obj);
	free(page);
}

/* UDP over IPv4, then the counter. */
static enum spw_obj_fate send_head(uint64_t counter, uint16_t port, uint32_t head, uint32_t len)
{
	const spw_be64 number = spw_cpu_to_be64(counter);
	const spw_be16 to = spw_cpu_to_be16(port), ip = spw_cpu_to_be16(FRAME - 14),
		       udp = spw_cpu_to_be16(FRAME - 34);
	struct spw_move move[SPW_MOVE_FRAME_MAX];
	struct spw_obj_placed placed;

	memset(frame, 0, sizeof(frame));
	frame[12] = 8;
	frame[14] = 0x45;
	frame[23] = 17;
	memcpy(frame + 16, &ip, 2);
	memcpy(frame + 36, &to, 2);
	memcpy(frame + 38, &udp, 2);
	memcpy(frame + HEADERS, &number, 8);
	placed = spw_obj_frame(obj, frame, head, len, 1, move);
	assert_int_equal(placed.move_cnt, placed.fate == SPW_OBJ_FATE_placed);
	if (placed.move_cnt) {
		assert_int_equal(spw_move_get_skip(move->src), HEADERS + 8);
		assert_int_equal(spw_move_get_len(move->src), PAYLOAD);
		assert_int_equal(spw_move_get_offset(move->dst) % PAYLOAD, 0);
	}
	return placed.fate;
}

static enum spw_obj_fate send_frame(uint64_t counter, uint16_t port, uint32_t len)
{
	return send_head(counter, port, len, len);
}

static void settle(void)
{
	struct spw_move move[FILL_MAX];

	do {
		spw_obj_due(obj, move, FILL_MAX);
		turn.seq++;
		spw_obj_turn(obj, &turn);
		spw_obj_retired(obj, turn.seq, turn.now_tsc);
	} while (spw_obj_pending(obj, turn.now_tsc));
}

static void frames_become_objects(void **state)
{
	struct spw_obj_count count;

	(void)state;
	open_stream("");
	for (uint64_t i = 0; i < 10 * PACKETS; i++) {
		assert_int_equal(send_frame(i, UDP_PORT, FRAME), SPW_OBJ_FATE_placed);
		assert_int_equal(send_frame(i, UDP_PORT + 1, FRAME), SPW_OBJ_FATE_not_object);
		assert_int_equal(send_frame(i, UDP_PORT, FRAME - 1), SPW_OBJ_FATE_cut);
		assert_int_equal(send_frame(i, UDP_PORT, HEADERS + 3), SPW_OBJ_FATE_cut);
		settle();
		if (i % PACKETS == PACKETS - 1) {
			uint64_t generation;
			int b = spw_obj_take(page, &generation);

			assert_true(b >= 0);
			spw_obj_release(page, (uint32_t)b, generation, 0);
			assert_int_equal(last.id, i / PACKETS);
			assert_int_equal(last.state, SPW_OBJ_STATE_complete);
		}
	}
	assert_int_equal(receipts, 10);
	spw_obj_stat(obj, &count);
	assert_int_equal(count.frames[SPW_OBJ_FATE_placed], 40);
	assert_int_equal(count.frames[SPW_OBJ_FATE_not_object], 40);
	assert_int_equal(count.frames[SPW_OBJ_FATE_cut], 80);
	close_stream();
}

/* Fields have to lie in the head, payload has not. */
static void a_split_frame_is_read_by_its_head(void **state)
{
	(void)state;
	open_stream("");
	assert_int_equal(spw_obj_plan_head(&desc.plan), HEADERS + 8);
	assert_int_equal(send_head(0, UDP_PORT, HEADERS + 8, FRAME), SPW_OBJ_FATE_placed);
	assert_int_equal(send_head(1, UDP_PORT, HEADERS + 7, FRAME), SPW_OBJ_FATE_cut);
	assert_int_equal(send_head(1, UDP_PORT, HEADERS - 1, FRAME), SPW_OBJ_FATE_cut);
	assert_int_equal(send_head(1, UDP_PORT, HEADERS + 8, FRAME - 1), SPW_OBJ_FATE_cut);
	assert_int_equal(send_head(1, UDP_PORT, HEADERS + 9, FRAME), SPW_OBJ_FATE_placed);
	settle();
	close_stream();
}

/* 1003 is the first counter of an object, and after a restart 6 is. */
static void objects_begin_where_the_sender_does(void **state)
{
	struct spw_obj_count count;

	(void)state;
	open_stream("align: first\n");
	assert_int_equal(send_frame(5, UDP_PORT + 1, FRAME), SPW_OBJ_FATE_not_object);
	for (uint64_t i = 1003; i < 1003 + 2 * PACKETS; i++)
		assert_int_equal(send_frame(i, UDP_PORT, FRAME), SPW_OBJ_FATE_placed);
	settle();
	assert_int_equal(receipts, 2);
	assert_int_equal(last.state, SPW_OBJ_STATE_complete);
	turn.now_tsc += 1000000000;
	spw_obj_turn(obj, &turn);
	assert_int_equal(send_frame(5, UDP_PORT, FRAME), SPW_OBJ_FATE_ambiguous);
	for (uint64_t i = 6; i < 6 + 2 * PACKETS; i++)
		assert_int_equal(send_frame(i, UDP_PORT, FRAME), SPW_OBJ_FATE_placed);
	settle();
	assert_int_equal(receipts, 4);
	assert_int_equal(last.state, SPW_OBJ_STATE_complete);
	spw_obj_stat(obj, &count);
	assert_int_equal(count.restarts, 1);
	close_stream();
}

/* Small numbers, those beside powers of 2 and the largest ones, in any mixture. */
static uint64_t edge_number(uint64_t *seed)
{
	const uint64_t r = unit_random(seed), near = (r >> 8 & 7) - 4;

	return r & 1 ? (1ull << (r >> 16 & 63)) + near : unit_random(seed) >> (r >> 16 & 63);
}

static void granules_divide_as_a_division_says(void **state)
{
	static struct spw_obj_plan plan;
	uint64_t seed = 5, whole = 0;

	(void)state;
	for (uint32_t i = 0; i < 300000; i++) {
		const uint64_t d = edge_number(&seed) | (i % 64 == 0), n = edge_number(&seed);
		uint64_t multiple;

		if (d == 0)
			continue;
		plan_granule_set(&plan, d);
		multiple = UINT64_MAX / d * d - n / d * d;
		for (uint64_t near = 0; near < 3; near++) {
			const uint64_t at = multiple + near - 1;

			assert_true(plan_granule_divides(&plan, at) == (at % d == 0));
			whole += at % d == 0;
		}
		assert_true(plan_granule_divides(&plan, n) == (n % d == 0));
	}
	assert_true(whole > 300000 / 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(granules_divide_as_a_division_says),
		cmocka_unit_test(frames_become_objects),
		cmocka_unit_test(a_split_frame_is_read_by_its_head),
		cmocka_unit_test(objects_begin_where_the_sender_does),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
