/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#include "objects_rig.h"

#include <stdlib.h>

uint8_t objects_byte(uint64_t number, uint32_t at)
{
	return (uint8_t)((number * 2654435761u + at * 40503u) >> 7);
}

void objects_write(const struct objects_rig *t, const struct spw_desc *d, uint64_t number,
		   uint32_t payload)
{
	uint8_t *frame = spw_pool_slot_addr(&t->rig.pool, d->slot) + d->offset;

	for (uint32_t k = 0; k < 8; k++)
		frame[OBJECTS_HEADER - 8 + k] = (uint8_t)(number >> (56 - 8 * k));
	for (uint32_t k = 0; k < payload; k++)
		frame[OBJECTS_HEADER + k] = objects_byte(number, k);
}

/* ---- the executor ---- */

bool objects_is_executed(const struct objects_rig *t, uint64_t seq)
{
	return spw_gring_has_tag(t->ring->done[seq & t->ring->batch_mask].w[0],
				 spw_gring_tag(seq, t->ring->batch_log2));
}

static void objects_finish(struct objects_rig *t, uint64_t seq, const uint64_t *w)
{
	const uint64_t tag = spw_gring_tag(seq, t->ring->batch_log2);

	for (uint32_t i = 0; i < 8; i++)
		t->ring->done[seq & t->ring->batch_mask].w[i] = tag | (w[i] & SPW_GRING_VALUE_MASK);
}

void objects_execute(struct objects_rig *t, uint64_t seq)
{
	const struct spw_gring_desc *desc =
		&t->ring->desc[(seq & t->ring->batch_mask) * SPW_GRING_FRAME_MAX];
	const uint64_t unit = seq % t->unit_cnt, now = spw_tsc_now();
	const uint64_t cnt = spw_gring_hi_cnt(desc->hi);
	struct spw_tally tally;

	spw_place_handler.host(desc, (uint32_t)cnt, &t->env, &tally);
	t->unit_frames[unit] += cnt;
	objects_finish(t, seq,
		       (const uint64_t[8]){tally.verdict[0], tally.verdict[1],
					   tally.verdict[2] | cnt << 16 | unit << 40, now, now,
					   tally.bad, tally.digest, t->unit_frames[unit]});
}

/* ---- set-up ---- */

static void objects_receipt(void *arg, const struct spw_obj_receipt *receipt,
			    const struct spw_obj_way *way)
{
	(void)arg;
	(void)receipt;
	(void)way;
}

static void objects_stream(struct objects_rig *t, const char *text)
{
	struct spw_obj_conf oc = {.desc = &t->desc,
				  .region = OBJECTS_MEMORY_ID,
				  .region_offset = OBJECTS_TABLE,
				  .tsc_hz = 1000000000};
	uint64_t page_bytes, bytes, stride;

	assert_int_equal(spw_obj_desc_load_text("test", text, strlen(text), &t->desc), 0);
	stride = SPW_ALIGN_UP(t->desc.shape.bytes, (uint64_t)256);
	page_bytes = SPW_ALIGN_UP(spw_obj_page_bytes(t->desc.rule.buffers), (uint64_t)128);
	bytes = OBJECTS_TABLE + t->desc.rule.buffers * stride;
	t->page = aligned_alloc(128, page_bytes);
	t->memory = aligned_alloc(128, bytes);
	assert_true(t->page && t->memory);
	memset(t->page, 0, page_bytes);
	memset(t->memory, 0xdd, bytes);
	spw_obj_page_init(t->page, &t->desc, stride, oc.tsc_hz);
	oc.page = t->page;
	assert_int_equal(spw_obj_open(&oc, objects_receipt, NULL, &t->obj), 0);
}

void objects_open(struct objects_rig *t, const char *text, uint32_t batches, uint32_t units,
		  uint16_t burst, uint16_t (*rx)(void *arg, struct spw_desc *desc, uint16_t cnt))
{
	memset(t, 0, sizeof(*t));
	rig_open(&t->rig, "null:size=114", "null", SPW_EXEC_INLINE, batches);
	t->inner = t->rig.queue;
	t->rig.queue.rx_burst = rx;
	objects_stream(t, text);
	t->place.region = OBJECTS_MEMORY_ID;
	t->env.state = &t->place;
	t->env.region_base[t->rig.region.id] = (uintptr_t)t->rig.region.host_va;
	t->env.region_base[OBJECTS_MEMORY_ID] = (uintptr_t)t->memory;
	assert_int_not_equal(t->rig.region.id, OBJECTS_MEMORY_ID);
	rig_pipe(&t->rig,
		 (struct spw_pipe_conf){.burst = burst,
					.objects = {.obj = t->obj,
						    .table = (struct spw_move *)(void *)t->memory,
						    .table_cnt = SPW_PIPE_MOVE_MIN}});
	t->ring = spw_exec_ring(t->rig.exec, 0);
	t->unit_frames_own = t->ring->unit_frames;
	t->unit_cnt = units;
	t->ring->unit_frames = t->unit_frames;
	t->ring->unit_cnt = units;
	t->ring->kick = NULL;
	spw_pipe_begin(t->rig.pipe);
}

void objects_close(struct objects_rig *t)
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
