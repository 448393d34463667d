/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Consumers: those that hold objects for ever, die, release twice or late, or are overtaken; one
 * that takes while the owner takes back; pages that are not what they say.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>

#include "obj_kit.h"

static struct kit kit;
static struct spw_obj_receipt r;

static void open_policy(enum spw_obj_policy policy)
{
	kit_init(&kit, 32, 1000, 300);
	kit.desc.rule.policy = policy;
	kit.desc.rule.buffers = 5;
	kit_open(&kit);
}

static enum spw_obj_fate send_whole(uint64_t object)
{
	enum spw_obj_fate fate = SPW_OBJ_FATE_CNT;

	for (uint64_t g = 0; g < 4; g++)
		fate = kit_granule(&kit, object, g);
	kit_settle(&kit);
	return fate;
}

static void a_consumer_that_holds_all_gets_no_more(void **state)
{
	struct spw_obj_count count;
	int held[5];

	(void)state;
	open_policy(SPW_OBJ_POLICY_oldest);
	for (uint64_t object = 0; object < 5; object++)
		assert_int_equal(send_whole(object), SPW_OBJ_FATE_placed);
	for (uint64_t object = 0; object < 5; object++) {
		held[object] = kit_take(&kit, &r);
		assert_true(held[object] >= 0 && r.id == object);
	}
	for (uint64_t object = 5; object < 10; object++)
		assert_int_equal(send_whole(object), SPW_OBJ_FATE_shed);
	kit_release(&kit, held[3], 4);
	assert_int_equal(send_whole(10), SPW_OBJ_FATE_placed);
	assert_true(kit_consume(&kit, &r) && r.id == 10);
	spw_obj_stop(kit.obj);
	spw_obj_stat(kit.obj, &count);
	assert_int_equal(count.objects[SPW_OBJ_STATE_shed], 5);
	assert_int_equal(count.causes[SPW_OBJ_CAUSE_no_buffer], 5);
	assert_int_equal(count.frames[SPW_OBJ_FATE_shed], 20);
	assert_int_equal(kit.sum.packets_shed, 20);
	kit_close(&kit);
}

/* Of ten unread objects the newest five are there; those before have a second receipt. */
static void the_newest_are_kept_if_that_is_wanted(void **state)
{
	struct spw_obj_count count;

	(void)state;
	open_policy(SPW_OBJ_POLICY_newest);
	for (uint64_t object = 0; object < 1000; object++)
		assert_int_equal(send_whole(object), SPW_OBJ_FATE_placed);
	assert_int_equal(kit.last.id, 999);
	for (uint64_t object = 995; object < 1000; object++)
		assert_true(kit_consume(&kit, &r) && r.id == object);
	assert_false(kit_consume(&kit, &r));
	spw_obj_stat(kit.obj, &count);
	assert_int_equal(count.published, 1000);
	assert_int_equal(count.taken_back, 995);
	assert_int_equal(count.causes[SPW_OBJ_CAUSE_taken_back], 995);
	assert_int_equal(kit.receipts, 1995);
	assert_int_equal(kit.sum.packets_present, 4000);
	kit_close(&kit);
}

/* What a consumer has taken is not taken back, and when it has all, new objects are shed. */
static void what_is_taken_is_left_alone(void **state)
{
	(void)state;
	open_policy(SPW_OBJ_POLICY_newest);
	for (uint64_t object = 0; object < 5; object++) {
		send_whole(object);
		assert_true(kit_take(&kit, &r) >= 0);
	}
	assert_int_equal(send_whole(5), SPW_OBJ_FATE_shed);
	assert_int_equal(spw_obj_page_reclaim(kit.page, 77), -ESRCH);
	assert_int_equal(spw_obj_page_claim(kit.page, 77), 0);
	assert_int_equal(spw_obj_page_claim(kit.page, 78), -EBUSY);
	assert_non_null(strstr(spw_err_text(), "77"));
	assert_int_equal(spw_obj_page_reclaim(kit.page, 77), 5);
	assert_int_equal(spw_obj_page_claim(kit.page, 78), 0);
	assert_int_equal(send_whole(6), SPW_OBJ_FATE_placed);
	assert_true(kit_consume(&kit, &r) && r.id == 6);
	kit_close(&kit);
}

/* When the buffer is used again, once each, and at the end for those whose is not. */
static void what_was_released_is_reported(void **state)
{
	uint64_t generation;
	int b;

	(void)state;
	open_policy(SPW_OBJ_POLICY_oldest);
	for (uint64_t object = 0; object < 5; object++)
		send_whole(object);
	b = spw_obj_take(kit.page, &generation);
	assert_int_equal(spw_obj_release(kit.page, (uint32_t)b, generation, 4711), 0);
	assert_int_equal(kit.released, 0);
	send_whole(5); /* in its buffer */
	assert_int_equal(kit.released, 1);
	assert_int_equal(kit.released_id, 0);
	assert_int_equal(kit.released_tsc, 4711);
	assert_true(kit_consume(&kit, &r) && r.id == 1);
	assert_true(kit_take(&kit, &r) >= 0 && r.id == 2); /* held: no release */
	spw_obj_stop(kit.obj);
	assert_int_equal(kit.released, 2);
	assert_int_equal(kit.released_id, 1);
	kit_close(&kit);
	assert_int_equal(kit.released, 2);
}

/* A consumer that ends with an object left no stamp; what is taken back was not released. */
static void a_release_without_a_stamp_is_one(void **state)
{
	uint64_t generation;

	(void)state;
	open_policy(SPW_OBJ_POLICY_newest);
	for (uint64_t object = 0; object < 7; object++)
		send_whole(object);
	assert_int_equal(kit.released, 0);
	assert_int_equal(spw_obj_page_claim(kit.page, 77), 0);
	assert_true(spw_obj_take(kit.page, &generation) >= 0);
	assert_int_equal(spw_obj_page_reclaim(kit.page, 77), 1);
	send_whole(7);
	assert_int_equal(kit.released, 1);
	assert_int_equal(kit.released_tsc, 0);
	kit_close(&kit);
}

static void a_release_counts_once(void **state)
{
	uint64_t generation;
	int b;

	(void)state;
	open_policy(SPW_OBJ_POLICY_oldest);
	send_whole(0);
	b = spw_obj_take(kit.page, &generation);
	assert_int_equal(spw_obj_release(kit.page, 5, generation, 0), -EALREADY);
	assert_int_equal(spw_obj_release(kit.page, (uint32_t)b, generation + 1, 0), -EALREADY);
	assert_int_equal(spw_obj_release(kit.page, (uint32_t)b, generation, 0), 0);
	assert_int_equal(spw_obj_release(kit.page, (uint32_t)b, generation, 0), -EALREADY);
	/* late: another object is there, taken by another consumer */
	for (uint64_t object = 1; object < 6; object++)
		send_whole(object);
	for (uint64_t object = 1; object < 6; object++)
		assert_true(kit_take(&kit, &r) >= 0);
	assert_int_equal(spw_obj_release(kit.page, (uint32_t)b, generation, 0), -EALREADY);
	assert_int_equal(send_whole(6), SPW_OBJ_FATE_shed);
	kit_close(&kit);
}

static void a_stream_has_an_end(void **state)
{
	struct spw_obj_page *page;
	uint64_t generation;

	(void)state;
	open_policy(SPW_OBJ_POLICY_oldest);
	page = kit.page;
	send_whole(0);
	kit_granule(&kit, 1, 0); /* given up: its moves never retire */
	spw_obj_close(kit.obj);
	kit.obj = NULL;
	assert_int_equal(kit.last.state, SPW_OBJ_STATE_aborted);
	assert_int_equal(kit.last.cause, SPW_OBJ_CAUSE_stop);
	assert_true(spw_obj_take(page, &generation) >= 0);
	assert_int_equal(spw_obj_take(page, &generation), -EPIPE);
	kit_close(&kit);
}

static void pages_are_checked(void **state)
{
	struct spw_obj_page good;
	const uint64_t bytes = spw_obj_page_bytes(5);

	(void)state;
	open_policy(SPW_OBJ_POLICY_oldest);
	memcpy(&good, kit.page, sizeof(good));
	assert_int_equal(spw_obj_page_check(kit.page, bytes - 1), -EPROTO);
	assert_int_equal(spw_obj_page_check(kit.page, 8), -EPROTO);
#define REFUSED(field, value)                                                   \
	do {                                                                    \
		kit.page->field = (value);                                      \
		assert_int_equal(spw_obj_page_check(kit.page, bytes), -EPROTO); \
		memcpy(kit.page, &good, sizeof(good));                          \
	} while (0)
	REFUSED(magic, 0);
	REFUSED(version, SPW_OBJ_PAGE_VERSION + 1);
	REFUSED(buffer_cnt, 1);
	REFUSED(buffer_cnt, 6);
	REFUSED(buffer_cnt, UINT32_MAX);
	REFUSED(page_bytes, bytes + 1);
	REFUSED(object_bytes, 0);
	REFUSED(object_bytes, 4096);
	REFUSED(buffer_stride, 1000);
	memset(kit.page->name, 'x', sizeof(kit.page->name) - 1);
	REFUSED(name[SPW_OBJ_NAME_BYTES - 1], 'x');
	REFUSED(shape.ndim, 0);
	REFUSED(shape.ndim, 9);
	REFUSED(shape.type_bits, 0);
	REFUSED(shape.type_bits, 16);
	REFUSED(shape.dim[0], 1001);
	REFUSED(shape.dim[0], 0);
	REFUSED(shape.dim[0], INT64_MAX);
	REFUSED(shape.stride[0], -1);
	REFUSED(shape.stride[0], INT64_MAX);
#undef REFUSED
	assert_int_equal(spw_obj_page_check(kit.page, bytes), 0);
	kit_close(&kit);
}

/* ---- two threads ---- */

#define RACE_OBJECTS 20000u

static uint64_t race_taken, race_faults;

/* Takes what is there, in rising order, and finds every byte of it its own. */
static void *race_consumer(void *arg)
{
	const struct spw_obj_page *page = kit.page;
	uint64_t generation, last = 0;
	int b;

	(void)arg;
	while ((b = spw_obj_take(kit.page, &generation)) != -EPIPE) {
		const uint8_t *object = kit.memory + KIT_OFFSET;
		const struct spw_obj_receipt *rec;

		if (b < 0) {
			sched_yield();
			continue;
		}
		rec = &page->buffer[b].receipt;
		object += (uint64_t)b * page->buffer_stride;
		race_faults += generation <= last || rec->generation != generation;
		for (uint64_t pos = 0; pos < rec->bytes_due; pos += 300)
			race_faults +=
				object[pos] != kit_byte(rec->id, pos) &&
				!(rec->state == SPW_OBJ_STATE_partial && object[pos] == KIT_FILL);
		last = generation;
		race_taken++;
		race_faults += spw_obj_release(kit.page, (uint32_t)b, generation, 1) != 0;
	}
	return NULL;
}

static void the_owner_may_take_back_while_a_consumer_takes(void **state)
{
	struct spw_obj_count count;
	pthread_t consumer;

	(void)state;
	open_policy(SPW_OBJ_POLICY_newest);
	assert_int_equal(pthread_create(&consumer, NULL, race_consumer, NULL), 0);
	for (uint64_t object = 0; object < RACE_OBJECTS; object++) {
		for (uint64_t g = object % 7 == 0; g < 4; g++)
			kit_granule(&kit, object, g);
		spw_obj_stop(kit.obj);
		kit_settle(&kit);
		if (object % 64 == 0)
			sched_yield(); /* both threads may share one core */
	}
	spw_obj_stat(kit.obj, &count);
	spw_obj_close(kit.obj);
	kit.obj = NULL;
	assert_int_equal(pthread_join(consumer, NULL), 0);
	assert_int_equal(race_faults, 0);
	assert_true(race_taken > 0);
	assert_int_equal(race_taken + count.taken_back, count.published);
	kit_close(&kit);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_consumer_that_holds_all_gets_no_more),
		cmocka_unit_test(the_newest_are_kept_if_that_is_wanted),
		cmocka_unit_test(what_is_taken_is_left_alone),
		cmocka_unit_test(what_was_released_is_reported),
		cmocka_unit_test(a_release_without_a_stamp_is_one),
		cmocka_unit_test(a_release_counts_once),
		cmocka_unit_test(a_stream_has_an_end),
		cmocka_unit_test(pages_are_checked),
		cmocka_unit_test(the_owner_may_take_back_while_a_consumer_takes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
