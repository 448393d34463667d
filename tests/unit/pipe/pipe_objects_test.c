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
#include <stdlib.h>

#include "exec/spw_place.h"
#include "pipe_rig.h"

#define UNITS       16u
#define BATCHES     64u
#define TURNS       20000u
#define BUFFERS     8u
#define PACKETS     8u /* of an object */
#define PAYLOAD     64u
#define HEADER      50u /* Ethernet, IP, UDP, counter */
#define FILL        0xeeu
#define MEMORY_ID   1u /* of the region with the table of moves, and the objects behind it */
#define TABLE_BYTES (SPW_PIPE_MOVE_MIN * sizeof(struct spw_move))

struct late {
	struct rig rig; /* first: the port's functions get its address */
	struct spw_port_queue inner;
	struct spw_gring *ring;
	struct spw_obj_desc desc;
	struct spw_obj_page *page;
	struct spw_obj *obj;
	uint8_t *memory;
	struct spw_place_state place;
	struct spw_handler_env env;
	uint64_t unit_frames[UNITS], *unit_frames_own;
	uint64_t random, number;
	uint64_t noted;             /* batches before it are in last_seq */
	uint64_t last_seq[BUFFERS]; /* the last batch with a move into the buffer */
	uint32_t tail;              /* of the table, a turn ago */
	uint32_t cut, cut_fill;     /* pushes that became several batches */
	uint64_t taken[SPW_OBJ_STATE_CNT];
};

static uint8_t late_byte(uint64_t number, uint32_t at)
{
	return (uint8_t)((number * 2654435761u + at * 40503u) >> 7);
}

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
	const uint16_t n = t->inner.rx_burst(arg, desc, want);

	for (uint16_t i = 0; i < n; i++) {
		uint8_t *frame = spw_pool_slot_addr(&t->rig.pool, desc[i].slot) + desc[i].offset;
		const uint64_t number = number_next(t);

		for (uint32_t k = 0; k < 8; k++)
			frame[HEADER - 8 + k] = (uint8_t)(number >> (56 - 8 * k));
		for (uint32_t k = 0; k < PAYLOAD; k++)
			frame[HEADER + k] = late_byte(number, k);
	}
	return n;
}

/* ---- the executor ---- */

static bool is_executed(const struct late *t, uint64_t seq)
{
	return spw_gring_has_tag(t->ring->done[seq & t->ring->batch_mask].w[0],
				 spw_gring_tag(seq, t->ring->batch_log2));
}

static void finish(struct late *t, uint64_t seq, const uint64_t *w)
{
	const uint64_t tag = spw_gring_tag(seq, t->ring->batch_log2);

	for (uint32_t i = 0; i < 8; i++)
		t->ring->done[seq & t->ring->batch_mask].w[i] = tag | (w[i] & SPW_GRING_VALUE_MASK);
}

static void execute(struct late *t, uint64_t seq)
{
	const struct spw_gring_desc *desc =
		&t->ring->desc[(seq & t->ring->batch_mask) * SPW_GRING_FRAME_MAX];
	const uint64_t unit = seq % UNITS, now = spw_tsc_now(), cnt = spw_gring_hi_cnt(desc->hi);
	struct spw_tally tally;

	spw_place_handler.host(desc, (uint32_t)cnt, &t->env, &tally);
	t->unit_frames[unit] += cnt;
	finish(t, seq,
	       (const uint64_t[8]){tally.verdict[0], tally.verdict[1],
				   tally.verdict[2] | cnt << 16 | unit << 40, now, now, tally.bad,
				   tally.digest, t->unit_frames[unit]});
}

/* Returns: whether there was one to execute. */
static bool execute_one(struct late *t)
{
	const uint64_t first = t->ring->tail_seq, cnt = t->ring->head_seq - first;
	const uint64_t skip = cnt ? unit_random(&t->random) % cnt : 0;

	for (uint64_t i = 0; i < cnt; i++) {
		const uint64_t seq = first + (skip + i) % cnt;

		if (!is_executed(t, seq)) {
			execute(t, seq);
			return true;
		}
	}
	return false;
}

/* ---- what the ring names ---- */

static void note_moves(struct late *t, const struct spw_desc *d, uint64_t seq)
{
	const struct spw_move *table = (const struct spw_move *)(void *)t->memory;

	for (uint32_t i = 0; i < (d->meta & 15); i++) {
		const uint64_t at = spw_move_get_offset(table[(d->meta >> 4) + i].dst);

		t->last_seq[(at - TABLE_BYTES) / t->page->buffer_stride] = seq;
	}
}

static void note_pushed(struct late *t)
{
	uint32_t parts[2] = {0};

	for (; t->noted != t->ring->head_seq; t->noted++) {
		const struct spw_gring_batch *b = spw_gring_at(t->ring, t->noted);

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
	const struct spw_pipe_obj *o = &t->rig.pipe->obj;

	assert_true(o->tail - t->tail <= o->head - t->tail);
	t->tail = o->tail;
	for (uint64_t seq = t->ring->retired_seq; seq != t->ring->head_seq; seq++) {
		const struct spw_gring_batch *b = spw_gring_at(t->ring, seq);

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
	const uint8_t *object = t->memory + TABLE_BYTES + (uint64_t)buffer * t->page->buffer_stride;
	uint64_t missing = 0;

	assert_int_equal(r->range_more, 0);
	for (uint32_t pos = 0; pos < PACKETS * PAYLOAD; pos++) {
		const uint64_t number = r->id * PACKETS + pos / PAYLOAD;

		missing += is_missing(r, pos);
		assert_int_equal(object[pos],
				 is_missing(r, pos) ? FILL : late_byte(number, pos % PAYLOAD));
	}
	assert_int_equal(missing, r->bytes_due - r->bytes_present);
}

static void consume(struct late *t)
{
	uint64_t generation;
	int b;

	while ((b = spw_obj_take(t->page, &generation)) >= 0) {
		const struct spw_obj_receipt *r = &t->page->buffer[b].receipt;

		assert_true(t->last_seq[b] < t->ring->retired_seq);
		check_bytes(t, b, r);
		t->taken[r->state]++;
		assert_int_equal(spw_obj_release(t->page, (uint32_t)b, generation, 1), 0);
	}
}

static void late_turn(struct late *t)
{
	spw_pipe_run_once(t->rig.pipe);
	note_pushed(t);
	check_table(t);
	consume(t);
}

/* ---- set-up ---- */

static void late_receipt(void *arg, const struct spw_obj_receipt *receipt,
			 const struct spw_obj_way *way)
{
	(void)arg;
	(void)receipt;
	(void)way;
}

static void late_obj_open(struct late *t)
{
	static const char text[] = "format: counter\n"
				   "set: { port: 9, packets: 8, payload: 64 }\n"
				   "deadline: 10s\n"
				   "buffers: 8\n"
				   "fill: 0xee\n";
	uint64_t page_bytes = SPW_ALIGN_UP(spw_obj_page_bytes(BUFFERS), (uint64_t)128), stride;
	struct spw_obj_conf oc = {.desc = &t->desc,
				  .region = MEMORY_ID,
				  .region_offset = TABLE_BYTES,
				  .tsc_hz = 1000000000};

	assert_int_equal(spw_obj_desc_load_text("test", text, strlen(text), &t->desc), 0);
	stride = SPW_ALIGN_UP(t->desc.shape.bytes, (uint64_t)256);
	t->page = aligned_alloc(128, page_bytes);
	t->memory = aligned_alloc(128, TABLE_BYTES + BUFFERS * stride);
	assert_true(t->page && t->memory);
	memset(t->page, 0, page_bytes);
	memset(t->memory, 0xdd, TABLE_BYTES + BUFFERS * stride);
	spw_obj_page_init(t->page, &t->desc, stride, oc.tsc_hz);
	oc.page = t->page;
	assert_int_equal(spw_obj_open(&oc, late_receipt, NULL, &t->obj), 0);
}

/* The inline executor's ring, as one of several units that share. A fill move counts as a byte:
 * shares of two let fill batches be cut too. */
static void late_open(struct late *t)
{
	memset(t, 0, sizeof(*t));
	rig_open(&t->rig, "null:size=114", "null", SPW_EXEC_INLINE, BATCHES);
	t->inner = t->rig.queue;
	t->rig.queue.rx_burst = number_frames;
	late_obj_open(t);
	t->place.region = MEMORY_ID;
	t->env.state = &t->place;
	t->env.region_base[t->rig.region.id] = (uintptr_t)t->rig.region.host_va;
	t->env.region_base[MEMORY_ID] = (uintptr_t)t->memory;
	assert_int_not_equal(t->rig.region.id, MEMORY_ID);
	rig_pipe(&t->rig,
		 (struct spw_pipe_conf){.burst = 32,
					.objects = {.obj = t->obj,
						    .table = (struct spw_move *)(void *)t->memory,
						    .table_cnt = SPW_PIPE_MOVE_MIN}});
	t->ring = spw_exec_ring(t->rig.exec, 0);
	t->unit_frames_own = t->ring->unit_frames;
	t->ring->unit_frames = t->unit_frames;
	t->ring->unit_cnt = UNITS;
	t->ring->share_log2 = 1;
	t->ring->kick = NULL;
	spw_pipe_begin(t->rig.pipe);
}

static void late_close(struct late *t)
{
	assert_int_equal(t->ring->fault_cnt, 0);
	assert_int_equal(t->rig.lent_twice, 0);
	t->ring->unit_frames = t->unit_frames_own;
	t->ring->unit_cnt = 1;
	spw_obj_close(t->obj);
	free(t->page);
	free(t->memory);
	rig_free(&t->rig);
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
		t.rig.dry = turn % 16 >= 4;
		late_turn(&t);
		while (execute_one(&t) && t.rig.dry)
			;
	}
	t.rig.dry = true;
	spw_obj_stop(t.obj);
	while (t.ring->retired_seq != t.ring->head_seq || spw_obj_pending(t.obj, 0)) {
		execute_one(&t);
		late_turn(&t);
	}
	spw_obj_stat(t.obj, &count);
	assert_int_equal(t.taken[SPW_OBJ_STATE_complete] + t.taken[SPW_OBJ_STATE_partial],
			 count.published);
	assert_true(t.taken[SPW_OBJ_STATE_complete] > 100 && t.taken[SPW_OBJ_STATE_partial] > 100);
	assert_true(t.cut > 100 && t.cut_fill > 100);
	assert_true(t.rig.pipe->obj.head > 4 * SPW_PIPE_MOVE_MIN);
	assert_int_equal(t.rig.pipe->obj.tail, t.rig.pipe->obj.head);
	late_close(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cut_batches_publish_with_their_last_part),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
