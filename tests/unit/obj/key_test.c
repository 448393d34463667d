/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Which object a key names: counters of any width that wrap, labels, what is ambiguous, damaged, or
 * a sender that began again, and two objects with one key.
 */
#include "obj_kit.h"

static struct kit kit;
static struct spw_obj_receipt r;

static void keys_wrap_at_any_width(void **state)
{
	static const uint32_t bits[] = {4, 16, 32, 64};

	(void)state;
	for (size_t i = 0; i < SPW_ARRAY_CNT(bits); i++) {
		const uint64_t first = (UINT64_MAX >> (64 - bits[i])) - 20;
		struct spw_obj_count count;

		kit_open_common(&kit, bits[i]);
		kit.id_offset = first & ~(UINT64_MAX >> (64 - bits[i]));
		for (uint64_t object = first; object != first + 40; object++) {
			const uint64_t key = first & UINT64_MAX >> (64 - bits[i]);

			kit_whole(&kit, object);
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
	kit_open_common(&kit, 4);
	for (uint64_t object = 0; object < 4; object++)
		kit_whole(&kit, object);
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
	kit_open_common(&kit, 32);
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
	kit_open_common(&kit, 32);
	for (uint64_t object = 0; object < 50; object++) {
		kit_whole(&kit, object);
		kit_settle(&kit);
		assert_true(kit_consume(&kit, &r));
	}
	assert_int_equal(kit_granule(&kit, 0, 0), SPW_OBJ_FATE_late);
	kit.turn.now_tsc += KIT_HZ / 5;
	kit_push(&kit, 16);
	kit_whole(&kit, 0);
	kit_whole(&kit, 1);
	kit_settle(&kit);
	assert_true(kit_consume(&kit, &r) && r.id == 0);
	assert_true(kit_consume(&kit, &r) && r.id == 1);
	kit.turn.now_tsc += KIT_HZ / 5;
	kit_push(&kit, 16);
	kit_whole(&kit, 1); /* the same one again */
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
		kit_whole(&kit, label);
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
	kit_open_common(&kit, 32);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_wrap_at_any_width),
		cmocka_unit_test(few_bits_are_ambiguous),
		cmocka_unit_test(far_once_is_damage_and_twice_a_restart),
		cmocka_unit_test(a_sender_may_begin_again_after_a_silence),
		cmocka_unit_test(labels_are_ordered_and_not_counted),
		cmocka_unit_test(two_objects_with_one_key_do_not_mix),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
