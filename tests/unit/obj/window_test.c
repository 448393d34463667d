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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(objects_in_order_are_complete),
		cmocka_unit_test(missing_bytes_are_filled_at_the_deadline),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
