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

/* 1000 bytes in granules of 300: the last one is short. */
static void open_common(uint32_t key_bits)
{
	kit_init(&kit, key_bits, 1000, 300);
	kit_open(&kit);
}

static void send_whole(uint64_t object)
{
	for (uint64_t g = 0; g < 4; g++)
		assert_int_equal(kit_granule(&kit, object, g), SPW_OBJ_FATE_placed);
}

static void objects_in_order_are_complete(void **state)
{
	struct spw_obj_count count;

	(void)state;
	open_common(32);
	for (uint64_t object = 7; object < 7 + 100; object++) {
		send_whole(object);
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

static void missing_bytes_are_filled_at_the_deadline(void **state)
{
	(void)state;
	open_common(32);
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
	open_common(32);
	kit_granule(&kit, 1, 0);
	kit_granule(&kit, 2, 1);
	spw_obj_spilled(kit.obj);
	kit_granule(&kit, 3, 2);
	assert_int_equal(kit_granule(&kit, 1, 1), SPW_OBJ_FATE_late);
	kit_settle(&kit);
	assert_true(kit_consume(&kit, &r));
	assert_int_equal(r.id, 1);
	assert_int_equal(r.cause, SPW_OBJ_CAUSE_lost_place);
	assert_int_equal(r.packets_late, 1);
	kit_granule(&kit, 4, 0);
	kit_granule(&kit, 5, 0);
	kit_settle(&kit);
	assert_true(kit_consume(&kit, &r));
	assert_int_equal(r.cause, SPW_OBJ_CAUSE_lost_place);
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
	send_whole(12);
	kit_push(&kit, 16);
	kit_retire(&kit, 1);
	assert_false(kit_consume(&kit, &r));
	for (uint64_t g = 1; g < 4; g++)
		kit_granule(&kit, 11, g);
	kit_settle(&kit);
	assert_true(kit_consume(&kit, &r) && r.id == 11);
	assert_true(kit_consume(&kit, &r) && r.id == 12);
	send_whole(10);
	kit_settle(&kit);
	assert_true(kit_consume(&kit, &r) && r.id == 10);
	send_whole(15);
	spw_obj_stat(kit.obj, &count);
	assert_int_equal(count.unseen, 2); /* 13, 14 */
	send_whole(14);
	spw_obj_stat(kit.obj, &count);
	assert_int_equal(count.unseen, 1);
	kit_close(&kit);
}

/* ---- what frames bring ---- */

static void whole_granules_count(void **state)
{
	(void)state;
	open_common(32);
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
	open_common(32);
	kit.desc.rule.buffers = 8;
	for (uint64_t object = 1; object < 40; object++) {
		/* every buffer has held a whole one before: what is behind the end is filled */
		if (object < 9) {
			send_whole(object);
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
	send_whole(3);
	kit_granule(&kit, 4, 3);
	kit_granule(&kit, 4, 1);
	spw_obj_stop(kit.obj);
	kit_settle(&kit);
	assert_true(kit_consume(&kit, &r) && r.state == SPW_OBJ_STATE_complete);
	assert_true(kit_consume(&kit, &r) && r.state == SPW_OBJ_STATE_partial);
	kit_close(&kit);
}

/* ---- keys ---- */

static void keys_wrap_at_any_width(void **state)
{
	static const uint32_t bits[] = {4, 16, 32, 64};

	(void)state;
	for (size_t i = 0; i < SPW_ARRAY_CNT(bits); i++) {
		const uint64_t first = (UINT64_MAX >> (64 - bits[i])) - 20;
		struct spw_obj_count count;

		open_common(bits[i]);
		kit.id_offset = first & ~(UINT64_MAX >> (64 - bits[i]));
		for (uint64_t object = first; object != first + 40; object++) {
			const uint64_t key = first & UINT64_MAX >> (64 - bits[i]);

			send_whole(object);
			if (object != first)
				assert_int_equal(kit_granule(&kit, object - 1, 0),
						 SPW_OBJ_FATE_late);
			kit_settle(&kit);
			assert_true(kit_consume(&kit, &r));
			assert_int_equal(r.id, key + (object - first));
		}
		spw_obj_stat(kit.obj, &count);
		assert_int_equal(count.restarts + count.unseen, 0);
		kit_close(&kit);
	}
}

static void few_bits_are_ambiguous(void **state)
{
	(void)state;
	open_common(4);
	for (uint64_t object = 0; object < 4; object++)
		send_whole(object);
	assert_int_equal(kit_granule(&kit, 7, 0), SPW_OBJ_FATE_placed); /* 4 ahead */
	for (uint64_t ahead = 5; ahead <= 11; ahead++) {
		assert_int_equal(kit_granule(&kit, 7 + ahead, 0), SPW_OBJ_FATE_ambiguous);
		assert_int_equal(kit_granule(&kit, 7, 0), SPW_OBJ_FATE_duplicate);
	}
	assert_int_equal(kit_granule(&kit, 7 + 12, 0), SPW_OBJ_FATE_late); /* 4 behind */
	kit_close(&kit);
}

static void far_once_is_damage_and_twice_a_restart(void **state)
{
	const uint64_t far = 10 + (1u << 21);
	struct spw_obj_count count;

	(void)state;
	open_common(32);
	kit_granule(&kit, 10, 0);
	assert_int_equal(kit_granule(&kit, far, 0), SPW_OBJ_FATE_ambiguous);
	assert_int_equal(kit_granule(&kit, 10, 1), SPW_OBJ_FATE_placed);
	assert_int_equal(kit_granule(&kit, far, 0), SPW_OBJ_FATE_ambiguous);
	assert_int_equal(kit_granule(&kit, 10, 1), SPW_OBJ_FATE_duplicate);
	assert_int_equal(kit_granule(&kit, far, 0), SPW_OBJ_FATE_ambiguous);
	assert_int_equal(kit_granule(&kit, far + 9, 0), SPW_OBJ_FATE_ambiguous);
	assert_int_equal(kit_granule(&kit, far + 10, 0), SPW_OBJ_FATE_placed);
	assert_int_equal(kit_granule(&kit, 10, 2), SPW_OBJ_FATE_ambiguous);
	spw_obj_stat(kit.obj, &count);
	assert_int_equal(count.restarts, 1);
	kit_settle(&kit);
	assert_true(kit_consume(&kit, &r));
	assert_int_equal(r.id, 10);
	assert_int_equal(r.cause, SPW_OBJ_CAUSE_restart);
	assert_int_equal(r.bytes_present, 600);
	kit_close(&kit);
}

static void a_sender_may_begin_again_after_a_silence(void **state)
{
	(void)state;
	open_common(32);
	for (uint64_t object = 0; object < 50; object++) {
		send_whole(object);
		kit_settle(&kit);
		assert_true(kit_consume(&kit, &r));
	}
	assert_int_equal(kit_granule(&kit, 0, 0), SPW_OBJ_FATE_late);
	kit.turn.now_tsc += KIT_HZ / 5;
	kit_push(&kit, 16);
	send_whole(0);
	send_whole(1);
	kit_settle(&kit);
	assert_true(kit_consume(&kit, &r) && r.id == 0);
	assert_true(kit_consume(&kit, &r) && r.id == 1);
	kit.turn.now_tsc += KIT_HZ / 5;
	kit_push(&kit, 16);
	send_whole(1); /* the same one again */
	kit_settle(&kit);
	assert_true(kit_consume(&kit, &r) && r.id == 1 && r.packets_present == 4);
	kit_close(&kit);
}

static void labels_are_ordered_and_not_counted(void **state)
{
	struct spw_obj_count count;
	uint64_t label = UINT32_MAX - 20000;

	(void)state;
	kit_init(&kit, 32, 1000, 300);
	kit.desc.plan.key_label = true;
	kit_open(&kit);
	for (uint32_t i = 0; i < 20; i++, label += 3600) {
		kit.id_offset = label & ~(uint64_t)UINT32_MAX;
		send_whole(label);
		if (i)
			assert_int_equal(kit_granule(&kit, label - 3600, 1), SPW_OBJ_FATE_late);
		kit_settle(&kit);
		assert_true(kit_consume(&kit, &r));
		assert_int_equal(r.id, label & UINT32_MAX);
	}
	spw_obj_stat(kit.obj, &count);
	assert_int_equal(count.unseen + count.restarts, 0);
	kit_close(&kit);
}

/* The second one's frames are duplicates, or late: nothing of them gets into the first. */
static void two_objects_with_one_key_do_not_mix(void **state)
{
	(void)state;
	open_common(32);
	kit_granule(&kit, 7, 0);
	kit_granule(&kit, 7, 1);
	kit_granule(&kit, 7, 2);
	assert_int_equal(kit_granule(&kit, 7 + (1ull << 32), 0), SPW_OBJ_FATE_duplicate);
	assert_int_equal(kit_granule(&kit, 7 + (1ull << 32), 1), SPW_OBJ_FATE_duplicate);
	kit_granule(&kit, 7, 3);
	assert_int_equal(kit_granule(&kit, 7 + (1ull << 32), 2), SPW_OBJ_FATE_late);
	kit_settle(&kit);
	assert_true(kit_consume(&kit, &r));
	assert_int_equal(r.packets_duplicate, 2);
	assert_int_equal(r.packets_late, 1);
	kit_close(&kit);
}

/* ---- overload ---- */

static void an_executor_that_is_behind_sheds_whole_objects(void **state)
{
	static const uint32_t most[] = {128, 192, 224, 240};

	(void)state;
	for (uint32_t priority = 0; priority < SPW_ARRAY_CNT(most); priority++) {
		kit_init(&kit, 32, 1000, 300);
		kit.desc.rule.priority = priority;
		kit_open(&kit);
		kit.turn.busy = most[priority];
		kit_push(&kit, 16);
		assert_int_equal(kit_granule(&kit, 1, 0), SPW_OBJ_FATE_placed);
		kit.turn.busy++;
		kit_push(&kit, 16);
		assert_int_equal(kit_granule(&kit, 1, 1), SPW_OBJ_FATE_placed);
		assert_int_equal(kit_granule(&kit, 2, 0), SPW_OBJ_FATE_shed);
		kit.turn.busy = 0;
		kit_push(&kit, 16);
		assert_int_equal(kit_granule(&kit, 2, 1), SPW_OBJ_FATE_shed);
		kit.turn.now_tsc += kit.desc.rule.deadline_ns;
		kit_push(&kit, 16);
		kit_settle(&kit);
		assert_int_equal(kit.last.cause, SPW_OBJ_CAUSE_deadline);
		assert_int_equal(kit.receipts, 2);
		assert_int_equal(kit.sum.packets_shed, 2);
		assert_int_equal(kit_granule(&kit, 2, 2), SPW_OBJ_FATE_late);
		kit_close(&kit);
	}
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
	open_common(8);
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
		cmocka_unit_test(gaps_are_more_than_one_call_writes),
		cmocka_unit_test(nothing_is_published_early),
		cmocka_unit_test(newer_objects_close_older_ones),
		cmocka_unit_test(objects_are_published_in_the_order_of_keys),
		cmocka_unit_test(whole_granules_count),
		cmocka_unit_test(moves_of_a_frame_are_bounded),
		cmocka_unit_test(pieces_that_overlap_are_claimed_once),
		cmocka_unit_test(a_frame_may_end_an_object),
		cmocka_unit_test(elements_grow_as_they_are_converted),
		cmocka_unit_test(keys_wrap_at_any_width),
		cmocka_unit_test(few_bits_are_ambiguous),
		cmocka_unit_test(far_once_is_damage_and_twice_a_restart),
		cmocka_unit_test(a_sender_may_begin_again_after_a_silence),
		cmocka_unit_test(labels_are_ordered_and_not_counted),
		cmocka_unit_test(two_objects_with_one_key_do_not_mix),
		cmocka_unit_test(an_executor_that_is_behind_sheds_whole_objects),
		cmocka_unit_test(streams_that_cannot_be_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
