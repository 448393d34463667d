/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Moves into objects: each operation, in many lengths and at all alignments, against a model that
 * knows bytes only. The suite's memory has frames first, then objects, then the table of moves. */
#include "exec_suite.h"

#include "../unit/unit_test.h"

#include <math.h>
#include <stdlib.h>

#include "exec/spw_place.h"
#include "frame/spw_move.h"

#define OBJECTS   (16u << 20)
#define TABLE     (60u << 20)
#define MOVE_CNT  4096u
#define FRAME_MAX 70000u
#define GUARD     64u   /* bytes around an object that nobody may touch */
#define UNTOUCHED 0xa5u /* what they hold */

/* ---- the model ---- */

static uint16_t half_bits[512]; /* of -256 .. 255, by 256 + number */

static double half_value(uint32_t h)
{
	const int exponent = (int)(h >> 10 & 31), fraction = (int)(h & 1023);
	const double v = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);

	return h >> 15 ? -v : v;
}

/* Every half that is such a number, but for -0. */
static void half_bits_find(void)
{
	for (uint32_t h = 0; h < 0x7c00u; h++)
		for (uint32_t sign = 0; sign < 2; sign++) {
			const double v = half_value(h | sign << 15);

			if (v >= -256 && v <= 255 && v == floor(v) && (h || !sign))
				half_bits[256 + (int)v] = (uint16_t)(h | sign << 15);
		}
}

static void model_swap(uint8_t *to, const uint8_t *from, uint32_t len, uint32_t bytes)
{
	for (uint32_t i = 0; i < len; i++)
		to[i] = from[i / bytes * bytes + bytes - 1 - i % bytes];
}

static void model_half(uint8_t *to, const uint8_t *from, uint32_t len, bool is_signed)
{
	for (uint32_t i = 0; i < len; i++) {
		const int v = is_signed && from[i] > 127 ? from[i] - 256 : from[i];

		to[2 * i] = (uint8_t)half_bits[256 + v];
		to[2 * i + 1] = (uint8_t)(half_bits[256 + v] >> 8);
	}
}

/* Numbers of `bytes` bytes, whose byte `high` is the more significant one. */
static void model_float(uint8_t *to, const uint8_t *from, uint32_t len, uint32_t bytes,
			uint32_t high, bool is_signed)
{
	for (uint32_t i = 0; i < len / bytes; i++) {
		int v = from[i * bytes + high];
		float f;

		if (bytes == 2)
			v = v * 256 + from[i * bytes + 1 - high];
		if (is_signed && v >= 1 << (8 * bytes - 1))
			v -= 1 << 8 * bytes;
		f = (float)v;
		memcpy(to + 4 * i, &f, 4);
	}
}

static void model_move(uint32_t op, uint8_t fill, uint8_t *to, const uint8_t *from, uint32_t len)
{
	switch (op) {
	case SPW_MOVE_OP_copy:
		memcpy(to, from, len);
		break;
	case SPW_MOVE_OP_fill:
		memset(to, fill, len);
		break;
	case SPW_MOVE_OP_swap16:
	case SPW_MOVE_OP_swap32:
	case SPW_MOVE_OP_swap64:
		model_swap(to, from, len, 2u << (op - SPW_MOVE_OP_swap16));
		break;
	case SPW_MOVE_OP_i8_f16:
	case SPW_MOVE_OP_u8_f16:
		model_half(to, from, len, op == SPW_MOVE_OP_i8_f16);
		break;
	case SPW_MOVE_OP_i8_f32:
	case SPW_MOVE_OP_u8_f32:
		model_float(to, from, len, 1, 0, op == SPW_MOVE_OP_i8_f32);
		break;
	case SPW_MOVE_OP_i16_f32:
		model_float(to, from, len, 2, 1, true);
		break;
	case SPW_MOVE_OP_i16be_f32:
		model_float(to, from, len, 2, 0, true);
		break;
	default:
		fail_msg("operation %u has no model", op);
	}
}

/* ---- rig ---- */

struct place {
	struct rig rig;
	struct spw_place_state state;
	struct spw_handler handler;
	struct spw_move *table;
	uint32_t move_cnt; /* written since the last push */
	uint8_t *want;     /* what object memory is to be, from OBJECTS on */
	uint64_t written;
	size_t used; /* bytes of object memory that are looked at */
};

static void place_open(struct place *p, const struct suite *suite, struct spw_exec_conf conf)
{
	uint64_t seed = 7;

	memset(p, 0, sizeof(*p));
	p->state = (struct spw_place_state){.region = 3, .offset = TABLE};
	p->handler = spw_place_handler;
	p->handler.initial = &p->state;
	conf.handler = &p->handler;
	rig_open(&p->rig, suite, NULL, conf);
	p->table = (struct spw_move *)(suite->mem + TABLE);
	for (uint32_t i = 0; i < 1u << 20; i++)
		suite->mem[i] = (uint8_t)suite_random(&seed);
	p->want = malloc(TABLE - OBJECTS);
	assert_non_null(p->want);
	if (!half_bits[257])
		half_bits_find();
}

static void place_clear(struct place *p, size_t bytes)
{
	assert_true(bytes <= TABLE - OBJECTS);
	p->used = bytes;
	memset(p->rig.suite->mem + OBJECTS, UNTOUCHED, bytes);
	memset(p->want, UNTOUCHED, bytes);
	p->move_cnt = 0;
	p->written = 0;
}

/* A frame; moves of it are added by place_move. */
static struct spw_desc *place_frame(struct place *p, struct spw_gring_batch *b, uint32_t offset,
				    uint32_t len)
{
	rig_add(&p->rig, b, offset, len, 0);
	b->desc[b->cnt - 1].meta = spw_move_meta(p->move_cnt, 0);
	return &b->desc[b->cnt - 1];
}

static void place_move(struct place *p, struct spw_desc *frame, uint32_t op, uint32_t at,
		       uint32_t skip, uint32_t len)
{
	const uint8_t fill = op == SPW_MOVE_OP_fill ? 0x3c : 0;

	assert_true(skip + len <= frame->len || op == SPW_MOVE_OP_fill);
	p->table[p->move_cnt++] = spw_move_make(op, 3, OBJECTS + at, skip, len, fill);
	frame->meta++;
	model_move(op, fill, p->want + at, p->rig.suite->mem + frame->offset + skip, len);
	p->written += spw_move_written(op, len);
}

static void place_differs(const struct place *p)
{
	size_t i = 0;

	while (p->rig.suite->mem[OBJECTS + i] == p->want[i])
		i++;
	fail_msg("byte %zu is 0x%02x, not 0x%02x; first move: op %u at %llu, skip %u, len %u", i,
		 p->rig.suite->mem[OBJECTS + i], p->want[i], spw_move_get_op(p->table[0].dst),
		 (unsigned long long)spw_move_get_offset(p->table[0].dst) - OBJECTS,
		 spw_move_get_skip(p->table[0].src), spw_move_get_len(p->table[0].src));
}

static void place_push(struct place *p, struct spw_gring_batch *b)
{
	b = rig_do(&p->rig, b);
	assert_int_equal(b->verdict[0] | b->verdict[1], 0);
	assert_int_equal(b->digest, p->written);
	rig_done(&p->rig, b);
	if (memcmp(p->rig.suite->mem + OBJECTS, p->want, p->used))
		place_differs(p);
}

static void place_close(struct place *p)
{
	rig_close(&p->rig);
	free(p->want);
}

/* ---- tests ---- */

/* Elements of a move: around what a lane, a warp, a turn and a team take. */
static const uint32_t elements[] = {1,   2,   3,   7,   8,    9,    15,   16,   17,   31,  33,
				    100, 255, 511, 512, 2047, 2048, 2049, 2111, 4096, 9000};

/* Objects lie GUARD bytes apart. Each has one move; destinations of wide elements are aligned to
 * them and, in every third object, are not. */
static void every_length(struct place *p, uint32_t op, uint32_t from_at, uint32_t to_at)
{
	const uint32_t in = 1u << spw_move_in_log2(op);
	struct spw_gring_batch *b = rig_next(&p->rig, 0);
	uint32_t at = GUARD;

	place_clear(p, 1u << 18);
	for (uint32_t i = 0; i < SPW_ARRAY_CNT(elements); i++) {
		const uint32_t len = elements[i] * in, skip = i & 31;
		struct spw_desc *frame =
			place_frame(p, b, 4096 + i * 512 + from_at - skip % 16, skip + len);

		place_move(p, frame, op, at + to_at, skip, len);
		at += SPW_ALIGN_UP((uint32_t)spw_move_written(op, len) + 2 * GUARD, 16u);
		assert_true(at < p->used);
	}
	place_push(p, b);
}

void suite_place_every_length_and_alignment(void **state)
{
	struct place p;

	place_open(&p, *state, (struct spw_exec_conf){.cta_per_ring = 2});
	for (uint32_t op = 0; op < SPW_MOVE_OP_head; op++)
		for (uint32_t from_at = 0; from_at < 16; from_at++)
			for (uint32_t to_at = 0; to_at < 16; to_at += 1 + (from_at & 1))
				every_length(&p, op, from_at, to_at);
	place_close(&p);
}

/* One frame to eight, of up to 70,000 bytes, so that teams of warps move them. */
void suite_place_large_frames(void **state)
{
	struct place p;
	uint64_t seed = 11;

	place_open(&p, *state, (struct spw_exec_conf){.cta_per_ring = 1});
	for (uint32_t round = 0; round < 110; round++) {
		const uint32_t op = round % SPW_MOVE_OP_head, frames = 1 + round % 8;
		struct spw_gring_batch *b = rig_next(&p.rig, 0);
		uint32_t at = GUARD;

		place_clear(&p, 4u << 20);
		for (uint32_t i = 0; i < frames; i++) {
			const uint32_t skip = (uint32_t)suite_random(&seed) % 100,
				       len = ((uint32_t)suite_random(&seed) % (FRAME_MAX - 100)) &
					     ~7u;
			struct spw_desc *frame =
				place_frame(&p, b, 131072 * i + 64 * round, FRAME_MAX);

			place_move(&p, frame, op, at, skip, len);
			at += (uint32_t)spw_move_written(op, len) + GUARD;
			at = op < SPW_MOVE_OP_swap16 ? at : SPW_ALIGN_UP(at, 8u);
		}
		place_push(&p, b);
	}
	place_close(&p);
}

/* Frames that are split: the end of the head is put into the slot, and what is moved then begins
 * there, ends there, lies across, or has an element of which a part is in the head. */
void suite_place_heads(void **state)
{
	static const uint32_t head_bytes = 128,
			      ops[] = {SPW_MOVE_OP_copy, SPW_MOVE_OP_swap32, SPW_MOVE_OP_i16be_f32};
	struct place p;
	uint64_t seed = 17;

	place_open(&p, *state, (struct spw_exec_conf){.cta_per_ring = 1});
	for (uint32_t round = 0; round < 120; round++) {
		const uint32_t op = ops[round % SPW_ARRAY_CNT(ops)], frames = 1 + round % 32;
		struct spw_gring_batch *b = rig_next(&p.rig, 0);
		uint32_t at = GUARD;

		place_clear(&p, 1u << 20);
		for (uint32_t i = 0; i < frames; i++) {
			const uint32_t slot = 16384 * i, head = slot + 12288 + 64 * (round % 8),
				       skip = 1 + (uint32_t)suite_random(&seed) % 127,
				       len = 4 + ((uint32_t)suite_random(&seed) % 9000 & ~3u);
			struct spw_desc *frame = place_frame(&p, b, slot, skip + len);
			uint8_t *mem = p.rig.suite->mem;

			p.table[p.move_cnt++] =
				spw_move_head(3, slot + skip, 3, head + skip, head_bytes - skip);
			frame->meta++;
			p.written += head_bytes - skip;
			place_move(&p, frame, op, at, skip, len);
			at += SPW_ALIGN_UP((uint32_t)spw_move_written(op, len) + GUARD, 16u);
			memcpy(mem + head, mem + slot, head_bytes);
			memset(mem + slot, UNTOUCHED, head_bytes);
		}
		assert_true(at < p.used);
		place_push(&p, b);
	}
	place_close(&p);
}

/* Neighbours in an object come from different frames and share 16 bytes; nobody writes more than
 * its own. Frames have up to 15 moves; some have none. */
void suite_place_neighbours(void **state)
{
	struct place p;
	uint64_t seed = 13;

	place_open(&p, *state, (struct spw_exec_conf){.cta_per_ring = 1});
	for (uint32_t round = 0; round < 200; round++) {
		struct spw_gring_batch *b = rig_next(&p.rig, 0);
		uint32_t at = GUARD + round % 16;

		place_clear(&p, 1u << 17);
		for (uint32_t i = 0; i < SPW_GRING_FRAME_MAX; i++) {
			const uint32_t moves = (uint32_t)suite_random(&seed) % 16;
			struct spw_desc *frame = place_frame(&p, b, 2048 * i, 1800);

			for (uint32_t m = 0; m < moves; m++) {
				const uint32_t len = 1 + (uint32_t)suite_random(&seed) % 97;

				place_move(&p, frame, m % 5 ? SPW_MOVE_OP_copy : SPW_MOVE_OP_fill,
					   at, (uint32_t)suite_random(&seed) % 1700, len);
				at += len;
			}
		}
		assert_true(at < p.used - GUARD && p.move_cnt <= MOVE_CNT);
		place_push(&p, b);
	}
	place_close(&p);
}

/* Many batches under way, on several units: object after object, whole each time. */
void suite_place_batches_in_flight(void **state)
{
	enum { FRAME = 1176, PER_BATCH = 16, BATCHES = 16 };
	struct place p;
	uint32_t pushed = 0, reaped = 0;

	place_open(&p, *state, (struct spw_exec_conf){.batch_cnt = BATCHES, .cta_per_ring = 4});
	place_clear(&p, BATCHES * PER_BATCH * FRAME * 2);
	while (reaped < 2000) {
		struct spw_gring *ring = spw_exec_ring(p.rig.exec, 0);
		struct spw_gring_batch *b = pushed < 2000 ? spw_gring_next(ring) : NULL;
		const uint32_t place = (b ? pushed : reaped) % BATCHES * PER_BATCH;
		const uint8_t *made = p.rig.suite->mem + OBJECTS + place * FRAME * 2;

		for (uint32_t i = 0; b && i < PER_BATCH; i++) {
			struct spw_desc *frame;
			uint8_t *bytes;

			b->cnt = i;
			p.move_cnt = place + i;
			frame = place_frame(&p, b, (place + i) * 2048 + 42, FRAME);
			bytes = p.rig.suite->mem + frame->offset;
			memset(bytes, (int)(pushed + i), FRAME);
			place_move(&p, frame, SPW_MOVE_OP_u8_f16, (place + i) * FRAME * 2, 0,
				   FRAME);
		}
		if (b) {
			spw_gring_push(ring, b);
			pushed++;
			continue;
		}
		b = rig_reap(&p.rig, 0);
		for (uint32_t i = 0; i < PER_BATCH; i++)
			for (uint32_t k = 0; k < FRAME; k++)
				if (made[(i * FRAME + k) * 2] !=
					    (uint8_t)half_bits[256 + (uint8_t)(reaped + i)] ||
				    made[(i * FRAME + k) * 2 + 1] !=
					    half_bits[256 + (uint8_t)(reaped + i)] >> 8)
					fail_msg("batch %u, frame %u, byte %u", reaped, i, k);
		rig_done(&p.rig, b);
		reaped++;
	}
	place_close(&p);
}
