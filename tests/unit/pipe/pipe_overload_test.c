/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Objects under overload: a wire that brings five times what the executor moves, or the consumer
 * takes. Nothing here is timed: a turn brings a few frames, and executor and consumer are allowed
 * one for every five.
 */
#include <stdio.h>

#include "objects_rig.h"

#define LOAD    5u
#define PAYLOAD 64u
#define FRAMES  100000u

struct load {
	struct objects_rig o; /* first: the port's functions get its address */
	uint64_t random, number;
	uint32_t packets; /* of an object */
	uint64_t moved;   /* frames that the executor has moved */
	uint64_t taken;
};

/* One to four frames a poll, as where a loop is faster than its wire. */
static uint16_t load_frames(void *arg, struct spw_desc *desc, uint16_t cnt)
{
	struct load *t = arg;
	const uint16_t want = (uint16_t)(1 + unit_random(&t->random) % 4);
	const uint16_t n = t->o.inner.rx_burst(arg, desc, SPW_MIN(cnt, want));

	for (uint16_t i = 0; i < n; i++)
		objects_write(&t->o, &desc[i], t->number++, PAYLOAD);
	return n;
}

/* The executor works on the oldest batch, as soon as it may have as many frames. */
static void load_execute(struct load *t, uint64_t allowed)
{
	struct spw_gring *ring = t->o.ring;

	for (uint64_t seq = ring->tail_seq; seq != ring->head_seq; seq++) {
		const struct spw_gring_batch *b = spw_gring_at(ring, seq);

		if (objects_is_executed(&t->o, seq))
			continue;
		if (t->moved + b->cnt > allowed)
			return;
		t->moved += b->cnt;
		objects_execute(&t->o, seq);
	}
	t->moved = allowed; /* what was not used is lost */
}

/* Takes one object, of which every byte must be there. */
static void load_consume(struct load *t)
{
	const uint8_t *object;
	uint64_t generation, id;
	int b = spw_obj_take(t->o.page, &generation);

	if (b < 0)
		return;
	assert_int_equal(t->o.page->buffer[b].receipt.state, SPW_OBJ_STATE_complete);
	id = t->o.page->buffer[b].receipt.id;
	object = t->o.memory + OBJECTS_TABLE + (uint64_t)b * t->o.page->buffer_stride;
	for (uint32_t pos = 0; pos < t->packets * PAYLOAD; pos++)
		if (object[pos] != objects_byte(id * t->packets + pos / PAYLOAD, pos % PAYLOAD))
			fail_msg("object %llu is torn at %u", (unsigned long long)id, pos);
	t->taken++;
	assert_int_equal(spw_obj_release(t->o.page, (uint32_t)b, generation, 1), 0);
}

static void load_open(struct load *t, uint32_t packets, const char *policy)
{
	char text[160];

	memset(t, 0, sizeof(*t));
	t->packets = packets;
	snprintf(text, sizeof(text),
		 "format: counter\nset: { port: 9, packets: %u, payload: %u }\n"
		 "deadline: 10s\nbuffers: 8\npolicy: %s\n",
		 packets, PAYLOAD, policy);
	objects_open(&t->o, text, 64, 1, 32, load_frames);
}

/* Frames of every fate are those that were polled, objects those that were sent. */
static void load_balance(struct load *t, struct spw_obj_count *count_out)
{
	const struct spw_ledger_lcore *l = &t->o.rig.pipe->ledger;
	uint64_t frames = 0, objects = 0;

	spw_obj_stat(t->o.obj, count_out);
	for (int i = 0; i < SPW_OBJ_FATE_CNT; i++)
		frames += count_out->frames[i];
	for (int i = 0; i < SPW_OBJ_STATE_CNT; i++)
		objects += count_out->objects[i];
	assert_int_equal(frames, l->polled_frames);
	assert_int_equal(l->pushed_frames + l->unmoved_frames, l->polled_frames);
	assert_int_equal(l->reaped_frames, l->pushed_frames);
	assert_int_equal(l->dropped[SPW_DROP_ring_full], 0);
	assert_int_equal(t->number, l->polled_frames);
	assert_int_equal(objects, (t->number + t->packets - 1) / t->packets);
}

/* executor, consumer: they are allowed one for so many of the wire. No part of an object is handed
 * over but that of the last one, which the end cuts. */
static void load_run(struct load *t, uint32_t executor, uint32_t consumer,
		     struct spw_obj_count *count_out)
{
	uint64_t due = 0;

	while (t->number < FRAMES) {
		spw_pipe_run_once(t->o.rig.pipe);
		load_execute(t, t->number / executor);
		for (; due < t->number / t->packets / consumer; due++)
			load_consume(t);
	}
	t->o.rig.dry = true;
	spw_obj_stop(t->o.obj);
	while (t->o.ring->retired_seq != t->o.ring->head_seq || t->o.rig.pipe->obj.waiting ||
	       spw_obj_pending(t->o.obj, 0)) {
		load_execute(t, UINT64_MAX);
		spw_pipe_run_once(t->o.rig.pipe);
	}
	load_balance(t, count_out);
	assert_true(count_out->objects[SPW_OBJ_STATE_partial] <= 1);
	assert_int_equal(count_out->objects[SPW_OBJ_STATE_aborted], 0);
}

/* Of objects of so many frames, at least 0.95 of what the slower one of the two does alone. */
static void load_is_met(const char *policy, uint32_t packets, uint32_t executor, uint32_t consumer)
{
	static struct load t;
	const uint64_t most = FRAMES / packets / SPW_MAX(executor, consumer);
	struct spw_obj_count count;

	load_open(&t, packets, policy);
	load_run(&t, executor, consumer, &count);
	if (t.taken * 100 < most * 95)
		fail_msg("%u frames, executor 1/%u, consumer 1/%u: %llu objects of %llu", packets,
			 executor, consumer, (unsigned long long)t.taken, (unsigned long long)most);
	objects_close(&t.o);
}

static void a_slow_consumer_is_never_hungry(void **state)
{
	(void)state;
	load_is_met("oldest", 147, 1, LOAD);
	load_is_met("newest", 147, 1, LOAD);
	load_is_met("oldest", 8, 1, LOAD);
}

static void a_slow_executor_moves_whole_objects(void **state)
{
	(void)state;
	load_is_met("oldest", 147, LOAD, 1);
	load_is_met("newest", 147, LOAD, 1);
	load_is_met("oldest", 8, LOAD, 1);
	load_is_met("oldest", 300, LOAD, 1); /* only one fits in */
	load_is_met("oldest", 147, 2, 1);
}

static void both_may_be_slow(void **state)
{
	(void)state;
	load_is_met("oldest", 147, LOAD, LOAD);
	load_is_met("newest", 147, 3, LOAD);
}

/* More frames than room: nothing else can be done, and the cause says it. */
static void what_cannot_fit_is_shed(void **state)
{
	static struct load t;
	struct spw_obj_count count;

	(void)state;
	load_open(&t, 2000, "oldest");
	load_run(&t, LOAD, 1, &count);
	assert_int_equal(t.taken, 0);
	assert_true(count.causes[SPW_OBJ_CAUSE_lost_place] > 0);
	objects_close(&t.o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_slow_consumer_is_never_hungry),
		cmocka_unit_test(a_slow_executor_moves_whole_objects),
		cmocka_unit_test(both_may_be_slow),
		cmocka_unit_test(what_cannot_fit_is_shed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
