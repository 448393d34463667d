/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The stream without a port (obj_kit.h).
 */
#include <errno.h>
#include <stdlib.h>

#include "obj_kit.h"

uint8_t kit_byte(uint64_t object, uint64_t pos)
{
	return (uint8_t)((object * 2654435761u + pos * 40503u) >> 7);
}

void kit_init(struct kit *kit, uint32_t key_bits, uint64_t bytes, uint64_t granule)
{
	memset(kit, 0, sizeof(*kit));
	strcpy(kit->desc.name, "kit");
	kit->desc.plan.key_bits = key_bits;
	kit->desc.plan.object_bytes = bytes;
	kit->desc.rule = (struct spw_obj_rule){.deadline_ns = 1000000,
					       .granule = granule,
					       .buffers = 8,
					       .open_max = 2,
					       .fill = KIT_FILL,
					       .op = SPW_MOVE_OP_copy};
	kit->desc.shape = (struct spw_obj_shape){
		.type_code = 1, .type_bits = 8, .ndim = 1, .dim = {(int64_t)bytes}, .stride = {1}};
	kit->turn.now_tsc = 1000;
	kit->turn.room = 256;
}

static void kit_receipt(void *arg, const struct spw_obj_receipt *r, const struct spw_obj_way *way)
{
	struct kit *kit = arg;

	if (way->released) {
		kit->released++;
		kit->released_tsc = way->release_tsc;
		kit->released_id = r->id;
		return;
	}
	kit->way = *way;
	kit->receipts++;
	kit->last = *r;
	kit->sum.packets_present += r->packets_present;
	kit->sum.packets_duplicate += r->packets_duplicate;
	kit->sum.packets_late += r->packets_late;
	kit->sum.packets_shed += r->packets_shed;
	kit->sum.packets_bad += r->packets_bad;
	kit->sum.bytes_present += r->bytes_present;
	if (kit->on_receipt)
		kit->on_receipt(kit, r);
}

static uint64_t kit_grow(const struct kit *kit)
{
	return kit->desc.rule.op == SPW_MOVE_OP_i8_f32 ? 4 : 1;
}

void kit_open(struct kit *kit)
{
	struct spw_obj_desc *desc = &kit->desc;
	uint64_t stride, page_bytes = spw_obj_page_bytes(desc->rule.buffers);
	struct spw_obj_conf conf = {
		.desc = desc, .region = KIT_REGION, .region_offset = KIT_OFFSET, .tsc_hz = KIT_HZ};

	desc->shape.bytes = desc->plan.object_bytes * kit_grow(kit);
	stride = SPW_ALIGN_UP(desc->shape.bytes, (uint64_t)256);
	kit->page = aligned_alloc(128, SPW_ALIGN_UP(page_bytes, (uint64_t)128));
	kit->memory = malloc(KIT_OFFSET + stride * desc->rule.buffers);
	kit->batch = calloc(KIT_BATCHES, sizeof(*kit->batch));
	assert_true(kit->page && kit->memory && kit->batch);
	memset(kit->page, 0, page_bytes);
	memset(kit->memory, 0xdd, KIT_OFFSET + stride * desc->rule.buffers);
	spw_obj_page_init(kit->page, desc, stride, KIT_HZ);
	assert_int_equal(spw_obj_page_check(kit->page, page_bytes), 0);
	conf.page = kit->page;
	assert_int_equal(spw_obj_open(&conf, kit_receipt, kit, &kit->obj), 0);
	spw_obj_turn(kit->obj, &kit->turn);
}

void kit_open_common(struct kit *kit, uint32_t key_bits)
{
	kit_init(kit, key_bits, 1000, 300);
	kit_open(kit);
}

void kit_close(struct kit *kit)
{
	spw_obj_close(kit->obj);
	free(kit->page);
	free(kit->memory);
	free(kit->batch);
}

static struct kit_batch *kit_batch(struct kit *kit)
{
	return &kit->batch[kit->turn.seq % KIT_BATCHES];
}

/* ---- frames ---- */

enum spw_obj_fate kit_hit(struct kit *kit, uint64_t object, struct spw_obj_hit *hit)
{
	struct kit_batch *b = kit_batch(kit);
	const uint8_t slot = (uint8_t)b->frame_cnt;
	uint32_t cnt = 0, skip = 42;
	enum spw_obj_fate fate;

	assert_true(b->frame_cnt < KIT_BATCH_MAX);
	b->frame_cnt++;
	hit->key = object & UINT64_MAX >> (64 - kit->desc.plan.key_bits);
	for (uint32_t i = 0; i < hit->piece_cnt; i++) {
		struct spw_obj_piece *p = &hit->piece[i];

		assert_true(skip + p->len <= KIT_FRAME_BYTES);
		p->skip = skip;
		for (uint32_t k = 0; k < p->len; k++)
			b->frame[slot][skip + k] = kit_byte(object, p->pos + k);
		skip += p->len;
	}
	fate = obj_window_hit(kit->obj, hit, kit->turn.now_tsc, &b->move[b->move_cnt], &cnt);
	assert_true(cnt <= SPW_MOVE_FRAME_MAX && (cnt == 0 || fate == SPW_OBJ_FATE_placed));
	memset(&b->move_frame[b->move_cnt], slot, cnt);
	b->move_cnt += cnt;
	return fate;
}

enum spw_obj_fate kit_send(struct kit *kit, uint64_t object, uint64_t pos, uint32_t len)
{
	struct spw_obj_hit hit = {.piece_cnt = 1, .piece = {{.pos = pos, .len = len}}};

	return kit_hit(kit, object, &hit);
}

enum spw_obj_fate kit_granule(struct kit *kit, uint64_t object, uint64_t g)
{
	const uint64_t granule = kit->desc.rule.granule, pos = g * granule;

	return kit_send(kit, object, pos,
			(uint32_t)SPW_MIN(granule, kit->desc.plan.object_bytes - pos));
}

void kit_whole(struct kit *kit, uint64_t object)
{
	for (uint64_t g = 0; g < 4; g++)
		assert_int_equal(kit_granule(kit, object, g), SPW_OBJ_FATE_placed);
}

/* ---- the executor ---- */

static void kit_move(struct kit *kit, const struct spw_move *m, const uint8_t *frame)
{
	const struct spw_obj_page *page = kit->page;
	const uint64_t at = spw_move_get_offset(m->dst);
	const uint32_t len = spw_move_get_len(m->src), skip = spw_move_get_skip(m->src);
	const uint64_t grow = spw_move_get_op(m->dst) == SPW_MOVE_OP_fill ? 1 : kit_grow(kit);

	assert_int_equal(spw_move_get_region(m->dst), KIT_REGION);
	assert_true(len > 0 && at >= KIT_OFFSET);
	assert_true((at - KIT_OFFSET) % page->buffer_stride + len * grow <= page->object_bytes);
	assert_true(at - KIT_OFFSET < page->buffer_stride * page->buffer_cnt);
	if (spw_move_get_op(m->dst) == SPW_MOVE_OP_fill) {
		memset(kit->memory + at, spw_move_get_fill(m->src), len);
		return;
	}
	assert_int_equal(spw_move_get_op(m->dst), kit->desc.rule.op);
	assert_true(skip + len <= KIT_FRAME_BYTES);
	for (uint32_t i = 0; i < len; i++) {
		const float value = (int8_t)frame[skip + i];

		if (grow == 1)
			kit->memory[at + i] = frame[skip + i];
		else
			memcpy(kit->memory + at + i * grow, &value, sizeof(value));
	}
}

void kit_push(struct kit *kit, uint32_t max)
{
	uint32_t cnt;

	do {
		struct kit_batch *b = kit_batch(kit);

		if (max > KIT_MOVE_MAX - b->move_cnt)
			max = KIT_MOVE_MAX - b->move_cnt;
		cnt = max ? spw_obj_due(kit->obj, &b->move[b->move_cnt], max) : 0;
		assert_true(cnt <= max);
		b->move_cnt += cnt;
		kit->turn.seq++;
		if (kit->turn.seq - kit->retired == KIT_BATCHES)
			kit_retire(kit, 1);
		b = kit_batch(kit);
		b->move_cnt = b->frame_cnt = 0;
		spw_obj_turn(kit->obj, &kit->turn);
	} while (max && cnt == max);
}

void kit_retire(struct kit *kit, uint32_t cnt)
{
	for (; cnt && kit->retired < kit->turn.seq; cnt--) {
		const struct kit_batch *b = &kit->batch[kit->retired++ % KIT_BATCHES];

		for (uint32_t i = 0; i < b->move_cnt; i++)
			kit_move(kit, &b->move[i], b->frame[b->move_frame[i]]);
	}
	spw_obj_retired(kit->obj, kit->retired, kit->turn.now_tsc);
}

void kit_settle(struct kit *kit)
{
	do {
		kit_push(kit, KIT_MOVE_MAX);
		kit_retire(kit, KIT_BATCHES);
	} while (spw_obj_pending(kit->obj, kit->turn.now_tsc));
}

/* ---- the consumer ---- */

static bool kit_is_missing(const struct spw_obj_receipt *r, uint64_t pos)
{
	for (uint32_t i = 0; i < r->range_cnt; i++)
		if (pos >= r->range[i].from && pos < r->range[i].to)
			return true;
	return pos >= r->bytes_due;
}

/* Beyond the ranges that the receipt names, a byte may be either. */
static void kit_compare(struct kit *kit, const uint8_t *object, const struct spw_obj_receipt *r)
{
	const uint64_t number = r->id + kit->id_offset;
	uint64_t missing = 0;

	for (uint64_t pos = 0; pos < kit->desc.plan.object_bytes; pos++) {
		const bool is_missing = kit_is_missing(r, pos);
		const uint8_t want = is_missing ? KIT_FILL : kit_byte(number, pos);

		missing += is_missing && pos < r->bytes_due;
		for (uint64_t i = 0; i < kit_grow(kit); i++) {
			const float value = (int8_t)want;
			uint8_t byte = want, is = object[pos * kit_grow(kit) + i];

			if (!is_missing && kit_grow(kit) == 4)
				byte = ((const uint8_t *)&value)[i];
			if (is != byte && !(r->range_more && is == KIT_FILL))
				fail_msg("object %llu byte %llu: %02x, not %02x",
					 (unsigned long long)number, (unsigned long long)pos, is,
					 byte);
		}
	}
	if (!r->range_more)
		assert_int_equal(missing, r->bytes_due - r->bytes_present);
}

int kit_take(struct kit *kit, struct spw_obj_receipt *receipt_out)
{
	uint64_t generation;
	const int b = spw_obj_take(kit->page, &generation);

	if (b < 0)
		return b;
	*receipt_out = kit->page->buffer[b].receipt;
	assert_int_equal(receipt_out->generation, generation);
	assert_int_equal(receipt_out->state, receipt_out->bytes_present == receipt_out->bytes_due
						     ? SPW_OBJ_STATE_complete
						     : SPW_OBJ_STATE_partial);
	kit_compare(kit, kit->memory + KIT_OFFSET + (uint64_t)b * kit->page->buffer_stride,
		    receipt_out);
	return b;
}

void kit_release(struct kit *kit, int buffer, uint64_t generation)
{
	assert_int_equal(spw_obj_release(kit->page, (uint32_t)buffer, generation, 1), 0);
}

bool kit_consume(struct kit *kit, struct spw_obj_receipt *receipt_out)
{
	const int b = kit_take(kit, receipt_out);

	if (b >= 0)
		kit_release(kit, b, receipt_out->generation);
	return b >= 0;
}
