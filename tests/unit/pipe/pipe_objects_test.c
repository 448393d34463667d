/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Objects in the loop while pushes are cut (spw_gring_push): the test plays an executor of several
 * units, which finish the parts of a batch late and in any order.
 *
 *   null port ─ number_frames ─> pipe ─ parts ─> ring ─ execute_one, in any order ─> reap, in order
 *                                                                                 └─> consume
 *
 * After each turn the test compares what was published and what the table of moves has freed with
 * its own reading of the ring: the moves that descriptors name.
 */
#include "objects_rig.h"

#define UNITS   16u
#define BATCHES 64u
#define TURNS   20000u
#define BUFFERS 8u
#define PACKETS 8u /* of an object */
#define PAYLOAD 64u
#define FILL    0xeeu

struct late {
	struct objects_rig o; /* first: the port's functions get its address */
	uint64_t random, number;
	uint64_t noted;             /* batches before it are in last_seq */
	uint64_t last_seq[BUFFERS]; /* the last batch with a move into the buffer */
	uint32_t tail;              /* of the table, a turn ago */
	uint32_t cut, cut_fill;     /* pushes that became several batches */
	uint64_t taken[SPW_OBJ_STATE_CNT];
};

/* ---- the sender ---- */

/* Every second object lacks every second packet: four gaps are enough for a cut. */
static uint64_t number_next(struct late *t)
{
	uint64_t number = t->number++;

	if (number / PACKETS % 2 && number % 2)
		number = t->number++;
	return number;
}

/* Every second poll brings so few frames that units are left for a fill batch. */
static uint16_t number_frames(void *arg, struct spw_desc *desc, uint16_t cnt)
{
	struct late *t = arg;
	const uint16_t most = unit_random(&t->random) % 2 ? cnt : 3;
	const uint16_t want = (uint16_t)(1 + unit_random(&t->random) % most);
	const uint16_t n = t->o.inner.rx_burst(arg, desc, want);

	for (uint16_t i = 0; i < n; i++)
		objects_write(&t->o, &desc[i], number_next(t), PAYLOAD);
	return n;
}

/* ---- the executor ---- */

/* Returns: whether there was one to execute. */
static bool execute_one(struct late *t)
{
	const uint64_t first = t->o.ring->tail_seq, cnt = t->o.ring->head_seq - first;
	const uint64_t skip = cnt ? unit_random(&t->random) % cnt : 0;

	for (uint64_t i = 0; i < cnt; i++) {
		const uint64_t seq = first + (skip + i) % cnt;

		if (!objects_is_executed(&t->o, seq)) {
			objects_execute(&t->o, seq);
			return true;
		}
	}
	return false;
}

/* ---- what the ring names ---- */

static void note_moves(struct late *t, const struct spw_desc *d, uint64_t seq)
{
	const struct spw_move *table = (const struct spw_move *)(void *)t->o.memory;

	for (uint32_t i = 0; i < (d->meta & 15); i++) {
		const uint64_t at = spw_move_get_offset(table[(d->meta >> 4) + i].dst);

		t->last_seq[(at - OBJECTS_TABLE) / t->o.page->buffer_stride] = seq;
	}
}

static void note_pushed(struct late *t)
{
	uint32_t parts[2] = {0};

	for (; t->noted != t->o.ring->head_seq; t->noted++) {
		const struct spw_gring_batch *b = spw_gring_at(t->o.ring, t->noted);

		parts[b->fill]++;
		for (uint32_t i = 0; i < b->cnt; i++)
			note_moves(t, &b->desc[i], t->noted);
	}
	t->cut += parts[0] > 1;
	t->cut_fill += parts[1] > 1;
}

/* The table frees forwards, and nothing that a batch in the ring names. */
static void check_table(struct late *t)
{
	const struct spw_pipe_obj *o = &t->o.rig.pipe->obj;

	assert_true(o->tail - t->tail <= o->head - t->tail);
	t->tail = o->tail;
	for (uint64_t seq = t->o.ring->retired_seq; seq != t->o.ring->head_seq; seq++) {
		const struct spw_gring_batch *b = spw_gring_at(t->o.ring, seq);

		for (uint32_t i = 0; i < b->cnt; i++) {
			const uint32_t first = b->desc[i].meta >> 4, cnt = b->desc[i].meta & 15;

			if (cnt)
				assert_true(((first - o->tail) & o->mask) + cnt <=
					    o->head - o->tail);
		}
	}
}

/* ---- the consumer ---- */

static bool is_missing(const struct spw_obj_receipt *r, uint64_t pos)
{
	for (uint32_t i = 0; i < r->range_cnt; i++)
		if (pos >= r->range[i].from && pos < r->range[i].to)
			return true;
	return false;
}

static void check_bytes(const struct late *t, int buffer, const struct spw_obj_receipt *r)
{
	const uint8_t *object =
		t->o.memory + OBJECTS_TABLE + (uint64_t)buffer * t->o.page->buffer_stride;
	uint64_t missing = 0;

	assert_int_equal(r->range_more, 0);
	for (uint32_t pos = 0; pos < PACKETS * PAYLOAD; pos++) {
		const uint64_t number = r->id * PACKETS + pos / PAYLOAD;

		missing += is_missing(r, pos);
		assert_int_equal(object[pos],
				 is_missing(r, pos) ? FILL : objects_byte(number, pos % PAYLOAD));
	}
	assert_int_equal(missing, r->bytes_due - r->bytes_present);
}

static void consume(struct late *t)
{
	uint64_t generation;
	int b;

	while ((b = spw_obj_take(t->o.page, &generation)) >= 0) {
		const struct spw_obj_receipt *r = &t->o.page->buffer[b].receipt;

		assert_true(t->last_seq[b] < t->o.ring->retired_seq);
		check_bytes(t, b, r);
		t->taken[r->state]++;
		assert_int_equal(spw_obj_release(t->o.page, (uint32_t)b, generation, 1), 0);
	}
}

static void late_turn(struct late *t)
{
	spw_pipe_run_once(t->o.rig.pipe);
	note_pushed(t);
	check_table(t);
	consume(t);
}

/* ---- set-up ---- */

/* A fill move counts as a byte: shares of two let fill batches be cut too. */
static void late_open(struct late *t)
{
	static const char text[] = "format: counter\n"
				   "set: { port: 9, packets: 8, payload: 64 }\n"
				   "deadline: 10s\n"
				   "buffers: 8\n"
				   "fill: 0xee\n";

	memset(t, 0, sizeof(*t));
	objects_open(&t->o, text, BATCHES, UNITS, 32, number_frames);
	t->o.ring->share_log2 = 1;
}

/* ---- the test ---- */

/* Four turns of frames, in which one part each is executed; then twelve without, and all are, so
 * that the next pushes find idle units, and some parts of them are executed while others wait. */
static void cut_batches_publish_with_their_last_part(void **state)
{
	static struct late t;
	struct spw_obj_count count;

	(void)state;
	late_open(&t);
	for (uint32_t turn = 0; turn < TURNS; turn++) {
		t.o.rig.dry = turn % 16 >= 4;
		late_turn(&t);
		while (execute_one(&t) && t.o.rig.dry)
			;
	}
	t.o.rig.dry = true;
	spw_obj_stop(t.o.obj);
	while (t.o.ring->retired_seq != t.o.ring->head_seq || spw_obj_pending(t.o.obj, 0)) {
		execute_one(&t);
		late_turn(&t);
	}
	spw_obj_stat(t.o.obj, &count);
	assert_int_equal(t.taken[SPW_OBJ_STATE_complete] + t.taken[SPW_OBJ_STATE_partial],
			 count.published);
	assert_true(t.taken[SPW_OBJ_STATE_complete] > 100 && t.taken[SPW_OBJ_STATE_partial] > 100);
	assert_true(t.cut > 100 && t.cut_fill > 100);
	assert_true(t.o.rig.pipe->obj.head > 4 * SPW_PIPE_MOVE_MIN);
	assert_int_equal(t.o.rig.pipe->obj.tail, t.o.rig.pipe->obj.head);
	objects_close(&t.o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cut_batches_publish_with_their_last_part),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
