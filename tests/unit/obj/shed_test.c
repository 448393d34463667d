/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Overload: an executor that is behind, or has no room.
 */
#include "obj_kit.h"

static struct kit kit;
static struct spw_obj_receipt r;

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

/* Four frames each: what is open and what begins has to fit in behind what is busy. */
static void what_begins_must_fit_to_its_end(void **state)
{
	(void)state;
	kit_init(&kit, 32, 1000, 300);
	kit.desc.rule.open_max = 4;
	kit_open(&kit);
	kit_whole(&kit, 1); /* how many frames an object has is known then */
	kit.turn.busy = 3;
	kit.turn.room = 7;
	kit_push(&kit, 16);
	assert_int_equal(kit_granule(&kit, 2, 0), SPW_OBJ_FATE_placed);
	kit.turn.room = 9; /* 3, 3 of the open one, 4 */
	kit_push(&kit, 16);
	assert_int_equal(kit_granule(&kit, 3, 0), SPW_OBJ_FATE_shed);
	kit.turn.room = 10;
	kit_push(&kit, 16);
	assert_int_equal(kit_granule(&kit, 4, 0), SPW_OBJ_FATE_placed);
	kit.turn.room = 48; /* with little to do it keeps up */
	kit.turn.busy = 6;
	kit_push(&kit, 16);
	assert_int_equal(kit_granule(&kit, 5, 0), SPW_OBJ_FATE_placed);
	kit_settle(&kit);
	kit_close(&kit);
}

/* The frames that come without room shed the whole of their object; others do not notice. */
static void a_frame_without_room_sheds_its_object(void **state)
{
	struct spw_obj_count count;

	(void)state;
	kit_open_common(&kit, 32);
	kit_granule(&kit, 1, 0);
	kit_granule(&kit, 2, 0);
	kit_granule(&kit, 2, 1);
	kit.turn.room = 0;
	kit_push(&kit, 16);
	assert_int_equal(kit_granule(&kit, 2, 2), SPW_OBJ_FATE_shed);
	kit.turn.room = 256;
	kit_push(&kit, 16);
	assert_int_equal(kit_granule(&kit, 2, 3), SPW_OBJ_FATE_shed);
	for (uint64_t g = 1; g < 4; g++)
		assert_int_equal(kit_granule(&kit, 1, g), SPW_OBJ_FATE_placed);
	kit_settle(&kit);
	assert_true(kit_consume(&kit, &r) && r.id == 1 && r.state == SPW_OBJ_STATE_complete);
	for (uint64_t id = 3; id < 40; id++) { /* its buffer is used again */
		kit_whole(&kit, id);
		kit_settle(&kit);
		assert_true(kit_consume(&kit, &r) && r.id == id);
	}
	assert_int_equal(kit.sum.packets_shed, 2);
	spw_obj_stat(kit.obj, &count);
	assert_int_equal(count.objects[SPW_OBJ_STATE_shed], 1);
	assert_int_equal(count.causes[SPW_OBJ_CAUSE_lost_place], 1);
	assert_int_equal(count.objects[SPW_OBJ_STATE_partial], 0);
	assert_int_equal(kit.released,
			 count.published - 8); /* the buffers' first, and the dropped */
	kit_close(&kit);
}

/* Moves of a dropped object are under way: nobody else gets its buffer before they are done. */
static void a_dropped_buffer_waits_for_its_moves(void **state)
{
	(void)state;
	kit_init(&kit, 32, 1000, 300);
	kit.desc.rule.buffers = 2;
	kit.desc.rule.open_max = 1;
	kit_open(&kit);
	kit_whole(&kit, 1);
	kit_settle(&kit); /* nobody takes it */
	kit_granule(&kit, 2, 0);
	kit.turn.room = 0;
	kit_push(&kit, 16);
	assert_int_equal(kit_granule(&kit, 2, 1), SPW_OBJ_FATE_shed);
	kit.turn.room = 256;
	kit_push(&kit, 16);
	assert_int_equal(kit_granule(&kit, 3, 0), SPW_OBJ_FATE_shed);
	kit_retire(&kit, 1);
	assert_int_equal(kit_granule(&kit, 4, 0), SPW_OBJ_FATE_placed);
	kit_settle(&kit);
	kit_close(&kit);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_executor_that_is_behind_sheds_whole_objects),
		cmocka_unit_test(what_begins_must_fit_to_its_end),
		cmocka_unit_test(a_frame_without_room_sheds_its_object),
		cmocka_unit_test(a_dropped_buffer_waits_for_its_moves),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
