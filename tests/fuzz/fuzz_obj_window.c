/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Fuzzing a stream's window: any hits, batches, time, consumers. A move stays inside its frame's
 * piece and its object's buffer, no byte of an object is written twice, an object is published only
 * when every byte of it was, by batches that have retired, and once; consumers get each at most
 * once, in order; frames and objects add up.
 *
 *   input: eight bytes of configuration, then steps: an opcode byte and its operands
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_port.h"
#include "obj/window.h"

#define BUFFER_MAX 8u
#define OBJECT_MAX 640u
#define STRIDE     768u
#define MOVE_MAX   64u

struct run {
	struct fuzz_input in;
	struct spw_obj_desc desc;
	struct spw_obj_page *page;
	struct spw_obj *obj;
	struct spw_obj_turn turn;
	uint64_t frames, receipts, generation, retired;
	uint64_t written_seq[BUFFER_MAX * STRIDE]; /* 1 + the batch that writes the byte; 0: none */
	uint64_t packets, ended[SPW_OBJ_STATE_CNT];
};

static uint32_t take_byte(struct run *r)
{
	const uint8_t *p = fuzz_take(&r->in, 1);

	return p ? *p : 0;
}

/* Published: all bytes that are due are written, and nobody writes any more. */
static void check_published(struct run *r, const struct spw_obj_receipt *receipt)
{
	const uint64_t ready = spw_obj_state_word(receipt->generation, SPW_OBJ_READY);
	uint32_t b = 0, missing = 0;

	fuzz_demand(receipt->generation == ++r->generation);
	while (b < r->desc.rule.buffers && r->page->buffer[b].state != ready)
		b++;
	fuzz_demand(b < r->desc.rule.buffers);
	for (uint32_t i = 0; i < r->desc.plan.object_bytes; i++) {
		uint64_t *seq = &r->written_seq[b * STRIDE + i];

		fuzz_demand(*seq || i >= receipt->bytes_due);
		fuzz_demand(*seq <= r->retired);
		*seq = 0;
	}
	for (uint32_t i = 0; i < receipt->range_cnt; i++) {
		fuzz_demand(receipt->range[i].from < receipt->range[i].to);
		fuzz_demand(receipt->range[i].to <= receipt->bytes_due);
		missing += receipt->range[i].to - receipt->range[i].from;
	}
	fuzz_demand(receipt->range_more || missing == receipt->bytes_due - receipt->bytes_present);
	fuzz_demand((missing == 0) == (receipt->state == SPW_OBJ_STATE_complete));
}

static void on_receipt(void *arg, const struct spw_obj_receipt *receipt,
		       const struct spw_obj_way *way)
{
	struct run *r = arg;

	if (way->released)
		return;
	fuzz_demand(receipt->bytes_present <= receipt->bytes_due);
	fuzz_demand(receipt->bytes_due <= r->desc.plan.object_bytes);
	r->receipts++;
	r->packets += receipt->packets_present + receipt->packets_duplicate + receipt->packets_shed;
	if (receipt->cause == SPW_OBJ_CAUSE_taken_back)
		return;
	r->ended[receipt->state]++;
	if (receipt->state <= SPW_OBJ_STATE_partial)
		check_published(r, receipt);
}

static void note_move(struct run *r, const struct spw_move *m)
{
	const uint64_t at = spw_move_get_offset(m->dst), len = spw_move_get_len(m->src);

	fuzz_demand(len > 0 && at % STRIDE + len <= r->desc.plan.object_bytes);
	fuzz_demand(at + len <= (uint64_t)r->desc.rule.buffers * STRIDE);
	for (uint64_t i = at; i < at + len; i++) {
		fuzz_demand(r->written_seq[i] == 0);
		r->written_seq[i] = r->turn.seq + 1;
	}
}

/* What a plan returns: pieces of any place and length, in a frame of a thousand bytes. */
static void step_hit(struct run *r, uint32_t key)
{
	struct spw_obj_hit hit = {.key = key & UINT64_MAX >> (64 - r->desc.plan.key_bits)};
	struct spw_move move[SPW_OBJ_MOVE_MAX];
	enum spw_obj_fate fate;
	uint32_t cnt, how = take_byte(r);

	if (how & 0x80) /* a key from elsewhere */
		hit.key = hit.key * 0x9e3779b97f4a7c15ull >> (64 - r->desc.plan.key_bits);
	hit.flags = how & 7;
	hit.size = hit.flags & SPW_OBJ_SIZE ? take_byte(r) * 4 : 0;
	hit.piece_cnt = hit.flags & SPW_OBJ_INFO ? 0 : 1 + (how >> 3 & 3);
	for (uint32_t i = 0; i < hit.piece_cnt; i++)
		hit.piece[i] = (struct spw_obj_piece){.pos = take_byte(r) * r->desc.rule.granule,
						      .skip = 100 * i,
						      .len = 1 + take_byte(r)};
	if (how & 0x40 && hit.piece_cnt)
		hit.piece[0].len = (uint32_t)r->desc.rule.granule;
	fate = obj_window_hit(r->obj, &hit, take_byte(r), move, &cnt);
	r->frames++;
	fuzz_demand(cnt <= SPW_OBJ_MOVE_MAX && (cnt == 0 || fate == SPW_OBJ_FATE_placed));
	for (uint32_t i = 0; i < cnt; i++) {
		const uint32_t skip = spw_move_get_skip(move[i].src);
		const struct spw_obj_piece *p = hit.piece;

		while (p < hit.piece + hit.piece_cnt &&
		       (skip < p->skip || skip + spw_move_get_len(move[i].src) > p->skip + p->len))
			p++;
		fuzz_demand(p < hit.piece + hit.piece_cnt);
		note_move(r, &move[i]);
	}
}

/* The fills that are due, and the end of the batch; `cut`: the ring takes it as two. */
static void step_push(struct run *r, uint32_t max, bool cut)
{
	struct spw_move move[MOVE_MAX];
	uint32_t cnt = max ? spw_obj_due(r->obj, move, max) : 0;

	fuzz_demand(cnt <= max);
	for (uint32_t i = 0; i < cnt; i++)
		note_move(r, &move[i]);
	if (cut) {
		spw_obj_cut(r->obj, r->turn.seq, r->turn.seq + 1);
		for (uint32_t i = 0; i < BUFFER_MAX * STRIDE; i++)
			r->written_seq[i] += r->written_seq[i] == r->turn.seq + 1;
	}
	r->turn.seq += 1 + cut;
	spw_obj_turn(r->obj, &r->turn);
}

/* Buffers that nobody has owned, or that were left by an object that was shed. */
static void check_left(struct run *r)
{
	for (uint32_t b = 0; b < r->desc.rule.buffers; b++) {
		uint64_t *seq = &r->written_seq[b * STRIDE];

		if (r->page->buffer[b].state != spw_obj_state_word(0, SPW_OBJ_FREE))
			continue;
		for (uint32_t i = 0; i < STRIDE; i++) {
			fuzz_demand(seq[i] <= r->retired);
			seq[i] = 0;
		}
	}
}

static void step_retire(struct run *r, uint32_t cnt)
{
	r->retired = SPW_MIN(r->retired + cnt, r->turn.seq);
	spw_obj_retired(r->obj, r->retired, r->turn.now_tsc);
	check_left(r);
}

static void step_consume(struct run *r, uint32_t how)
{
	uint64_t generation, last = r->page->tail;
	int b = spw_obj_take(r->page, &generation);

	if (b < 0)
		return;
	fuzz_demand((uint32_t)b < r->desc.rule.buffers && generation > last);
	fuzz_demand(r->page->buffer[b].receipt.generation == generation);
	if (how & 1)
		fuzz_demand(spw_obj_release(r->page, (uint32_t)b, generation, 0) == 0);
	fuzz_demand(spw_obj_release(r->page, (uint32_t)b, generation + !(how & 1), 0) == -EALREADY);
}

static void step_other(struct run *r, uint32_t how)
{
	if (how == 0)
		r->turn.room = r->turn.room ? 0 : 256;
	else if (how == 1)
		spw_obj_stop(r->obj);
	else if (how == 2 && spw_obj_page_claim(r->page, 7) == 0)
		fuzz_demand(spw_obj_page_reclaim(r->page, 7) >= 0);
	else
		r->turn.now_tsc += how < 128 ? how : how * 10000u;
	spw_obj_turn(r->obj, &r->turn);
}

static bool step(struct run *r)
{
	const uint8_t *op = fuzz_take(&r->in, 2);

	if (!op)
		return false;
	switch (op[0] % 8) {
	case 0:
		step_push(r, op[1] % MOVE_MAX, op[1] >= 192);
		break;
	case 1:
		step_retire(r, op[1] % 8);
		break;
	case 2:
		step_consume(r, op[1]);
		break;
	case 3:
		step_other(r, op[1]);
		break;
	case 4:
		r->turn.busy = op[1];
		spw_obj_turn(r->obj, &r->turn);
		break;
	default:
		step_hit(r, op[1]);
	}
	return true;
}

/* The frames that receipts name are those of the fates; no more than one receipt an object. */
static void check_end(struct run *r)
{
	struct spw_obj_count c;
	uint64_t frames = 0;

	spw_obj_stop(r->obj);
	for (uint32_t i = 0; spw_obj_pending(r->obj, r->turn.now_tsc); i++) {
		fuzz_demand(i < 1000);
		step_push(r, MOVE_MAX, false);
		step_retire(r, 8);
	}
	spw_obj_stat(r->obj, &c);
	for (uint32_t i = 0; i < SPW_OBJ_FATE_CNT; i++)
		frames += c.frames[i];
	fuzz_demand(frames == r->frames);
	fuzz_demand(r->packets == c.frames[SPW_OBJ_FATE_placed] + c.frames[SPW_OBJ_FATE_duplicate] +
					  c.frames[SPW_OBJ_FATE_shed]);
	fuzz_demand(memcmp(c.objects, r->ended, sizeof(r->ended)) == 0);
	fuzz_demand(c.opened == c.published + c.causes[SPW_OBJ_CAUSE_lost_place] &&
		    c.published == r->generation);
	fuzz_demand(r->receipts == c.published + c.objects[SPW_OBJ_STATE_shed] + c.taken_back);
}

static bool open_run(struct run *r, const uint8_t *conf)
{
	struct spw_obj_desc *d = &r->desc;
	struct spw_obj_conf c = {.desc = d, .tsc_hz = 1000000};

	d->plan.key_bits = 2 + conf[0] % 63;
	d->plan.key_label = conf[1] & 1;
	d->plan.object_bytes = 1 + (conf[2] << 8 | conf[3]) % OBJECT_MAX;
	d->rule = (struct spw_obj_rule){.granule = 1 + conf[4] % 64,
					.buffers = 2 + conf[5] % (BUFFER_MAX - 1),
					.open_max = 1 + conf[6] % 4,
					.policy = conf[1] >> 1 & 1,
					.priority = conf[1] >> 2 & 3,
					.deadline_ns = 1000u * (1 + conf[7])};
	d->shape.bytes = d->plan.object_bytes;
	r->page = aligned_alloc(128, SPW_ALIGN_UP(spw_obj_page_bytes(d->rule.buffers), 128ull));
	fuzz_demand(r->page);
	memset(r->page, 0, spw_obj_page_bytes(d->rule.buffers));
	spw_obj_page_init(r->page, d, STRIDE, c.tsc_hz);
	c.page = r->page;
	return spw_obj_open(&c, on_receipt, r, &r->obj) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct run *r = calloc(1, sizeof(*r));
	const uint8_t *conf;

	fuzz_demand(r);
	r->in = (struct fuzz_input){data, size};
	conf = fuzz_take(&r->in, 8);
	if (conf && open_run(r, conf)) {
		r->turn.room = 256;
		spw_obj_turn(r->obj, &r->turn);
		while (step(r))
			;
		check_end(r);
		spw_obj_close(r->obj);
	}
	free(r->page);
	free(r);
	return 0;
}
