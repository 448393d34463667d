/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Objects of one stream, case by case: in order, with bytes missing, closed by each cause, filled,
 * published only when nothing is under way.
 */
#include <errno.h>

#include "obj_kit.h"

static struct kit kit;
static struct spw_obj_receipt r;

static void objects_in_order_are_complete(void **state)
{
	struct spw_obj_count count;

	(void)state;
	kit_open_common(&kit, 32);
	for (uint64_t object = 7; object < 7 + 100; object++) {
		kit_whole(&kit, object);
		kit_push(&kit, 16);
		assert_false(kit_consume(&kit, &r));
		kit_retire(&kit, 1);
		assert_true(kit_consume(&kit, &r));
		assert_int_equal(r.id, object);
		assert_int_equal(r.state, SPW_OBJ_STATE_complete);
		assert_int_equal(r.cause, SPW_OBJ_CAUSE_all);
		assert_int_equal(r.packets_present, 4);
		assert_int_equal(r.bytes_present, 1000);
		assert_false(spw_obj_pending(kit.obj, kit.turn.now_tsc));
	}
	spw_obj_stat(kit.obj, &count);
	assert_int_equal(count.frames[SPW_OBJ_FATE_placed], 400);
	assert_int_equal(count.opened, 100);
	assert_int_equal(count.published, 100);
	assert_int_equal(count.objects[SPW_OBJ_STATE_complete], 100);
	assert_int_equal(count.causes[SPW_OBJ_CAUSE_all], 100);
	assert_int_equal(kit_take(&kit, &r), -EAGAIN);
	kit_close(&kit);
}

static void way_check(struct kit *one, const struct spw_obj_receipt *receipt)
{
	const struct spw_obj_way *way = &one->way;
	const uint64_t late = 2 * one->desc.rule.deadline_ns;

	if (receipt->id == 5) { /* closed by its deadline */
		assert_int_equal(way->last_tsc, 1500);
		assert_int_equal(way->empty_tsc, late - 7);
		assert_int_equal(way->order_tsc, 0);
		assert_int_equal(receipt->close_tsc, late);
	} else { /* complete long before */
		assert_int_equal(way->last_tsc, 2000);
		assert_int_equal(way->empty_tsc, 1800);
		assert_int_equal(receipt->close_tsc, 2000);
		assert_int_equal(way->order_tsc, late);
	}
}

static void missing_bytes_are_filled_at_the_deadline(void **state)
{
	(void)state;
	kit_open_common(&kit, 32);
	kit_granule(&kit, 5, 0);
	kit_granule(&kit, 5, 2);
	kit_push(&kit, 16);
	kit.turn.now_tsc += kit.desc.rule.deadline_ns - 1;
	spw_obj_turn(kit.obj, &kit.turn);
	assert_false(spw_obj_pending(kit.obj, kit.turn.now_tsc));
	kit_push(&kit, 16);
	kit_retire(&kit, 9);
	assert_false(kit_consume(&kit, &r));
	kit.turn.now_tsc++;
	spw_obj_turn(kit.obj, &kit.turn);
	assert_true(spw_obj_pending(kit.obj, kit.turn.now_tsc));
	kit_push(&kit, 16);
	assert_false(kit_consume(&kit, &r));
	kit_retire(&kit, 9);
	assert_true(kit_consume(&kit, &r));
	assert_int_equal(r.state, SPW_OBJ_STATE_partial);
	assert_int_equal(r.cause, SPW_OBJ_CAUSE_deadline);
	assert_int_equal(r.range_cnt, 2);
	assert_int_equal(r.range[0].from, 300);
	assert_int_equal(r.range[0].to, 600);
	assert_int_equal(r.range[1].from, 900);
	assert_int_equal(r.range[1].to, 1000);
	assert_int_equal(kit_granule(&kit, 5, 1), SPW_OBJ_FATE_late);
	kit_close(&kit);
}

static void send_every_second(uint64_t object, uint64_t granules)
{
	for (uint64_t g = 0; g < granules; g += 2) {
		assert_int_equal(kit_granule(&kit, object, g), SPW_OBJ_FATE_placed);
		if (g % 64 == 62)
			kit_push(&kit, 0);
	}
}

/* A turn's stamps go into the objects that it places and closes; in order, an object that closed
 * early waits for the one before it. */
static void the_way_of_an_object_has_stamps(void **state)
{
	(void)state;
	kit_open_common(&kit, 32);
	kit.turn.empty_tsc = 990;
	spw_obj_turn(kit.obj, &kit.turn); /* at 1000 */
	kit_granule(&kit, 5, 0);
	kit.turn.now_tsc = 1500;
	spw_obj_turn(kit.obj, &kit.turn);
	kit_granule(&kit, 5, 1); /* the common frame */
	kit_push(&kit, 16);
	kit.turn.now_tsc = 2000;
	kit.turn.empty_tsc = 1800;
	spw_obj_turn(kit.obj, &kit.turn);
	kit_whole(&kit, 6);
	kit_push(&kit, 16);
	kit.turn.now_tsc = 2 * kit.desc.rule.deadline_ns;
	kit.turn.empty_tsc = kit.turn.now_tsc - 7;
	spw_obj_turn(kit.obj, &kit.turn);
	kit.on_receipt = way_check;
	kit_settle(&kit);
	assert_int_equal(kit.receipts, 2);
	kit_close(&kit);
}

static void gaps_are_more_than_one_call_writes(void **state)
{
	(void)state;
	kit_init(&kit, 32, 200 * 4, 4);
	kit_open(&kit);
	send_every_second(1, 200);
	kit_push(&kit, 0);
	spw_obj_stop(kit.obj);
	kit_push(&kit, 7);
	kit_retire(&kit, KIT_BATCHES);
	assert_true(kit_consume(&kit, &r));
	assert_int_equal(r.cause, SPW_OBJ_CAUSE_stop);
	assert_int_equal(r.range_cnt, SPW_OBJ_RANGE_MAX);
	assert_int_equal(r.range_more, 100 - SPW_OBJ_RANGE_MAX);
	assert_int_equal(r.bytes_present, 400);
	kit_close(&kit);
}

/* Not before every gap has its move, and not before all of those have retired. */
static void nothing_is_published_early(void **state)
{
	(void)state;
	kit_init(&kit, 32, 40 * 4, 4);
	kit_open(&kit);
	send_every_second(1, 40);
	spw_obj_stop(kit.obj);
	for (uint32_t done = 0; done < 20; done++) {
		struct spw_move move[1];

		spw_obj_retired(kit.obj, UINT64_MAX, 0);
		assert_false(kit_consume(&kit, &r));
		assert_int_equal(spw_obj_due(kit.obj, move, 1), 1);
		memset(kit.memory + spw_move_get_offset(move->dst), KIT_FILL, 4);
	}
	kit_retire(&kit, 1);
	assert_false(kit_consume(&kit, &r)); /* whether there is another gap has not been asked */
	spw_obj_cut(kit.obj, kit.turn.seq, kit.turn.seq + 2);
	kit_push(&kit, 1);
	kit_retire(&kit, 1);
	assert_false(kit_consume(&kit, &r)); /* the batch was cut in three */
	kit_push(&kit, 1);
	kit_retire(&kit, 1);
	assert_false(kit_consume(&kit, &r));
	kit_push(&kit, 1);
	kit_retire(&kit, 1);
	assert_true(kit_consume(&kit, &r));
	kit_close(&kit);
}

static void newer_objects_close_older_ones(void **state)
{
	(void)state;
	kit_open_common(&kit, 32);
	kit_granule(&kit, 1, 0);
	kit_granule(&kit, 2, 1);
	kit_granule(&kit, 3, 2);
	assert_int_equal(kit_granule(&kit, 1, 1), SPW_OBJ_FATE_late);
	kit_settle(&kit);
	assert_true(kit_consume(&kit, &r));
	assert_int_equal(r.id, 1);
	assert_int_equal(r.cause, SPW_OBJ_CAUSE_newer);
	assert_int_equal(r.packets_late, 1);
	kit_granule(&kit, 4, 0);
	kit_granule(&kit, 5, 0);
	kit_settle(&kit);
	assert_true(kit_consume(&kit, &r));
	assert_int_equal(r.cause, SPW_OBJ_CAUSE_newer);
	assert_true(kit_consume(&kit, &r));
	assert_int_equal(r.cause, SPW_OBJ_CAUSE_newer);
	kit_close(&kit);
}

/* 2 is complete first, and waits for 1; 0 comes after both, and is handed over nevertheless. */
static void objects_are_published_in_the_order_of_keys(void **state)
{
	struct spw_obj_count count;

	(void)state;
	kit_init(&kit, 32, 1000, 300);
	kit.desc.rule.open_max = 4;
	kit_open(&kit);
	kit_granule(&kit, 11, 0);
	kit_whole(&kit, 12);
	kit_push(&kit, 16);
	kit_retire(&kit, 1);
	assert_false(kit_consume(&kit, &r));
	for (uint64_t g = 1; g < 4; g++)
		kit_granule(&kit, 11, g);
	kit_settle(&kit);
	assert_true(kit_consume(&kit, &r) && r.id == 11);
	assert_true(kit_consume(&kit, &r) && r.id == 12);
	kit_whole(&kit, 10);
	kit_settle(&kit);
	assert_true(kit_consume(&kit, &r) && r.id == 10);
	kit_whole(&kit, 15);
	spw_obj_stat(kit.obj, &count);
	assert_int_equal(count.unseen, 2); /* 13, 14 */
	kit_whole(&kit, 14);
	spw_obj_stat(kit.obj, &count);
	assert_int_equal(count.unseen, 1);
	kit_close(&kit);
}

/* ---- what frames bring ---- */

static void whole_granules_count(void **state)
{
	(void)state;
	kit_open_common(&kit, 32);
	assert_int_equal(kit_send(&kit, 1, 0, 299), SPW_OBJ_FATE_cut);
	assert_int_equal(kit_send(&kit, 1, 300, 310), SPW_OBJ_FATE_placed); /* 300 .. 599 */
	assert_int_equal(kit_send(&kit, 1, 301, 310), SPW_OBJ_FATE_cut);
	assert_int_equal(kit_send(&kit, 1, 900, 101), SPW_OBJ_FATE_beyond);
	assert_int_equal(kit_send(&kit, 1, 1000, 1), SPW_OBJ_FATE_beyond);
	assert_int_equal(kit_send(&kit, 1, UINT64_MAX - 10, 20), SPW_OBJ_FATE_beyond);
	assert_int_equal(kit_send(&kit, 1, 900, 99), SPW_OBJ_FATE_cut);
	spw_obj_stop(kit.obj);
	kit_settle(&kit);
	assert_true(kit_consume(&kit, &r));
	assert_int_equal(r.packets_bad, 6);
	assert_int_equal(r.packets_present, 1);
	assert_int_equal(r.bytes_present, 300);
	kit_close(&kit);
}

static void pieces_that_overlap_are_claimed_once(void **state)
{
	struct spw_obj_hit hit = {
		.piece_cnt = 3,
		.piece = {{.pos = 0, .len = 8}, {.pos = 4, .len = 12}, {.pos = 200, .len = 4}}};

	(void)state;
	kit_init(&kit, 32, 400, 4);
	kit_open(&kit);
	assert_int_equal(kit_hit(&kit, 9, &hit), SPW_OBJ_FATE_placed);
	assert_int_equal(kit_hit(&kit, 9, &hit), SPW_OBJ_FATE_duplicate);
	spw_obj_stop(kit.obj);
	kit_settle(&kit);
	assert_true(kit_consume(&kit, &r));
	assert_int_equal(r.bytes_present, 20);
	assert_int_equal(r.bytes_overlap, 4);
	assert_int_equal(r.bytes_duplicate, 24);
	assert_int_equal(r.packets_present, 1);
	assert_int_equal(r.packets_duplicate, 1);
	kit_close(&kit);
}

/* A frame over 32 gaps has moves for 15 of them; what was not moved was not claimed. */
static void moves_of_a_frame_are_bounded(void **state)
{
	(void)state;
	kit_init(&kit, 32, 400, 4);
	kit_open(&kit);
	send_every_second(9, 64);
	assert_int_equal(kit_send(&kit, 9, 0, 256), SPW_OBJ_FATE_placed);
	assert_int_equal(kit_send(&kit, 9, 0, 256), SPW_OBJ_FATE_placed);
	assert_int_equal(kit_send(&kit, 9, 0, 256), SPW_OBJ_FATE_placed);
	assert_int_equal(kit_send(&kit, 9, 0, 256), SPW_OBJ_FATE_duplicate);
	spw_obj_stop(kit.obj);
	kit_settle(&kit);
	assert_true(kit_consume(&kit, &r));
	assert_int_equal(r.bytes_present, 256);
	assert_int_equal(r.packets_present, 32 + 3);
	kit_close(&kit);
}

static void a_frame_may_end_an_object(void **state)
{
	struct spw_obj_hit hit = {
		.flags = SPW_OBJ_END, .piece_cnt = 1, .piece = {{.pos = 300, .len = 123}}};
	struct spw_obj_hit info = {.flags = SPW_OBJ_INFO | SPW_OBJ_SIZE, .size = 600};
	struct spw_obj_hit lie = {.flags = SPW_OBJ_SIZE | SPW_OBJ_INFO, .size = 300};

	(void)state;
	kit_open_common(&kit, 32);
	kit.desc.rule.buffers = 8;
	for (uint64_t object = 1; object < 40; object++) {
		/* every buffer has held a whole one before: what is behind the end is filled */
		if (object < 9) {
			kit_whole(&kit, object);
		} else if (object % 2) {
			assert_int_equal(kit_hit(&kit, object, &hit), SPW_OBJ_FATE_placed);
			assert_int_equal(kit_granule(&kit, object, 2), SPW_OBJ_FATE_beyond);
			assert_int_equal(kit_granule(&kit, object, 0), SPW_OBJ_FATE_placed);
		} else {
			kit_granule(&kit, object, 1);
			assert_int_equal(kit_hit(&kit, object, &lie), SPW_OBJ_FATE_placed);
			assert_int_equal(kit_hit(&kit, object, &info), SPW_OBJ_FATE_placed);
			kit_granule(&kit, object, 0);
		}
		kit_settle(&kit);
		assert_true(kit_consume(&kit, &r));
		assert_int_equal(r.id, object);
		assert_int_equal(r.state, SPW_OBJ_STATE_complete);
		assert_int_equal(r.cause, object < 9 ? SPW_OBJ_CAUSE_all : SPW_OBJ_CAUSE_end);
		assert_int_equal(r.bytes_due, object < 9 ? 1000 : object % 2 ? 423 : 600);
	}
	kit_close(&kit);
}

static void elements_grow_as_they_are_converted(void **state)
{
	(void)state;
	kit_init(&kit, 32, 1000, 300);
	kit.desc.rule.op = SPW_MOVE_OP_i8_f32;
	kit_open(&kit);
	kit_whole(&kit, 3);
	kit_granule(&kit, 4, 3);
	kit_granule(&kit, 4, 1);
	spw_obj_stop(kit.obj);
	kit_settle(&kit);
	assert_true(kit_consume(&kit, &r) && r.state == SPW_OBJ_STATE_complete);
	assert_true(kit_consume(&kit, &r) && r.state == SPW_OBJ_STATE_partial);
	kit_close(&kit);
}

/* ---- set-up ---- */

static int open_refuses(void)
{
	struct spw_obj_conf conf = {.desc = &kit.desc, .page = kit.page, .tsc_hz = KIT_HZ};
	struct spw_obj *obj;

	return spw_obj_open(&conf, NULL, NULL, &obj);
}

static void streams_that_cannot_be_are_refused(void **state)
{
	struct kit good;

	(void)state;
	kit_open_common(&kit, 8);
	good = kit;
#define REFUSED(field, value)                                            \
	do {                                                             \
		kit.desc.field = (value);                                \
		assert_int_equal(open_refuses(), -EINVAL);               \
		assert_non_null(strstr(spw_err_text(), "stream kit: ")); \
		kit.desc = good.desc;                                    \
	} while (0)
	REFUSED(rule.granule, 0);
	REFUSED(rule.buffers, 1);
	REFUSED(rule.buffers, 4);
	REFUSED(rule.open_max, 0);
	REFUSED(rule.open_max, 8);
	REFUSED(rule.open_max, 65);
	REFUSED(rule.deadline_ns, 0);
	REFUSED(rule.op, SPW_MOVE_OP_fill);
	REFUSED(rule.op, SPW_MOVE_OP_head);
	REFUSED(rule.op, SPW_MOVE_OP_CNT);
	REFUSED(rule.op, SPW_MOVE_OP_i8_f32);
	REFUSED(plan.key_bits, 1);
	REFUSED(plan.key_bits, 2);
	REFUSED(plan.object_bytes, 0);
	REFUSED(plan.object_bytes, 2000);
#undef REFUSED
	kit_close(&kit);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(objects_in_order_are_complete),
		cmocka_unit_test(missing_bytes_are_filled_at_the_deadline),
		cmocka_unit_test(the_way_of_an_object_has_stamps),
		cmocka_unit_test(gaps_are_more_than_one_call_writes),
		cmocka_unit_test(nothing_is_published_early),
		cmocka_unit_test(newer_objects_close_older_ones),
		cmocka_unit_test(objects_are_published_in_the_order_of_keys),
		cmocka_unit_test(whole_granules_count),
		cmocka_unit_test(moves_of_a_frame_are_bounded),
		cmocka_unit_test(pieces_that_overlap_are_claimed_once),
		cmocka_unit_test(a_frame_may_end_an_object),
		cmocka_unit_test(elements_grow_as_they_are_converted),
		cmocka_unit_test(streams_that_cannot_be_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
