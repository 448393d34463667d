/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Objects in the loop: between poll and push each frame of a batch is decided (obj/spw_obj.h), and
 * after batches are retired objects are published. Only the variants with SPW_PIPE_OBJECTS call it.
 *
 *   poll ─ pipe_obj_place ─ push ─ pipe_obj_fill ─ settle ─ pipe_obj_retired
 *            decides, writes         a batch of fill moves    publishes what no move
 *            moves into the table    alone, if any are due    into is under way
 *
 * The executor gets frames with moves only. Once half of its ring is in flight, frames wait in the
 * next record for more of them, so that the other half holds full batches: what objects were begun
 * for (obj/shed.c) finds room however slowly it came. If the ring is full nevertheless, frames are
 * decided without room, and shed their objects.
 *
 *   ring   | in flight, any size: half | full batches of 64 ... | waiting | free ...
 *
 * The table of moves is a ring: a batch takes a stretch that does not wrap, and frees it when it is
 * retired, in order. Without room for the most moves that a batch can have, the executor ring
 * counts as full. Fill moves of closed objects travel in a batch of descriptors without frames: no
 * slot, and counted apart (fill_frames).
 *
 *   table   ...|batch 7|batch 8|  free  ...      tail: first move of the oldest batch under way
 *              ^tail           ^head             head: where the next batch's begin
 */
#include <errno.h>
#include <string.h>

#include "base/spw_err.h"
#include "pipe/pipe_obj.h"

#define BATCH_MOVES (SPW_BURST_MAX * SPW_MOVE_FRAME_MAX) /* of one batch, at most */
#define AHEAD       4u /* frames whose headers are fetched before they are looked at */

/* Where the moves of the next batch begin: they do not wrap. */
static uint32_t obj_first(const struct spw_pipe_obj *o)
{
	const uint32_t at = o->head & o->mask;

	return at + BATCH_MOVES > o->mask + 1 ? o->head + o->mask + 1 - at : o->head;
}

bool pipe_obj_has_room(const struct spw_pipe *pipe)
{
	const struct spw_pipe_obj *o = &pipe->obj;

	return obj_first(o) + BATCH_MOVES - o->tail <= o->mask + 1;
}

/* The batch has the table's moves up to `end`. */
static void obj_take(struct spw_pipe_obj *o, struct spw_gring_batch *batch, uint32_t end)
{
	o->begin = o->head;
	batch->move_end = o->head = end;
}

static uint64_t obj_now(const struct spw_pipe *pipe)
{
	return pipe->flags & SPW_REC_ON ? pipe->rec.last_tsc : spw_tsc_now();
}

/* Frames that wait or are in the executor. */
static uint32_t obj_busy(const struct spw_pipe *pipe)
{
	return (uint32_t)pipe->ring->in_exec_frames + pipe->obj.waiting;
}

/* Objects are begun for so many frames: half of the ring's, and the port keeps half of the slots.
 */
static uint32_t obj_room(const struct spw_pipe *pipe)
{
	return SPW_MIN((pipe->ring->batch_mask / 2 + 1) * SPW_BURST_MAX,
		       pipe->obj.pool->slot_cnt / 2);
}

/* empty_tsc: the last poll that left the port empty, before the one that brought the frames. */
static void obj_turn(struct spw_pipe *pipe, uint64_t empty_tsc, uint32_t room)
{
	const struct spw_gring *ring = pipe->ring;
	const struct spw_obj_turn turn = {
		.now_tsc = obj_now(pipe),
		.seq = pipe->obj.seq_base + ring->head_seq,
		.busy = obj_busy(pipe),
		.room = room,
		.nic_unc_ns = (uint32_t)spw_tsc_to_ns(&pipe->obj.tsc, pipe->rec.nic_unc),
		.empty_tsc = pipe->flags & SPW_REC_ON ? empty_tsc : 0,
	};

	spw_obj_turn(pipe->obj.obj, &turn);
}

/* ---- frames ---- */

static uint64_t obj_nic_ns(const struct spw_pipe *pipe, const struct spw_desc *d)
{
	if (!(pipe->flags & SPW_PIPE_NIC_STAMPS) || !(d->flags & SPW_DESC_NIC_STAMP))
		return 0;
	return spw_tsc_to_ns(&pipe->obj.tsc, spw_clock_map_ref(&pipe->rec.nic_map, d->nic_stamp));
}

/* Moves of a frame that is split read payload in its slot. The first one becomes `head`, which puts
 * there what of it is in the head, if any is. Returns: how many moves there are, and at which of
 * them they begin: at move[0], or at move[1]. */
SPW_INLINE uint32_t obj_head(const struct spw_pipe_obj *o, const struct spw_desc *d,
			     struct spw_move *move, uint32_t cnt, uint32_t *begin_out)
{
	const struct spw_pool *pool = o->pool;
	const uint32_t end = SPW_MIN(d->len, pool->head_bytes);
	uint32_t skip = end;

	for (uint32_t i = 1; i <= cnt; i++)
		skip = SPW_MIN(skip, spw_move_get_skip(move[i].src));
	*begin_out = skip == end;
	if (skip == end)
		return cnt;
	move[0] = spw_move_head(pool->region->id,
				pool->region_offset + d->slot * pool->slot_bytes + skip,
				pool->head_region->id,
				pool->head_offset + d->slot * pool->head_stride + skip, end - skip);
	return cnt + 1;
}

/* Writes the frame's moves from `at` on, and names them in its descriptor. Returns: where the next
 * frame's begin. */
SPW_INLINE uint32_t obj_place_one(struct spw_pipe *pipe, struct spw_desc *d, uint32_t at,
				  const bool split)
{
	struct spw_pipe_obj *o = &pipe->obj;
	struct spw_move *move = &o->table[at & o->mask];
	const uint32_t head = split ? SPW_MIN(d->len, o->pool->head_bytes) : d->len;
	uint32_t cnt, begin = 0;

	cnt = spw_obj_frame(o->obj, spw_pool_head_addr(o->pool, d->slot) + d->offset, head, d->len,
			    obj_nic_ns(pipe, d), move + split)
		      .move_cnt;
	if (cnt == 0)
		return at;
	if (split)
		cnt = obj_head(o, d, move, cnt, &begin);
	d->meta = spw_move_meta((at + begin) & o->mask, cnt);
	d->flags &= ~(uint32_t)SPW_DESC_IMM;
	return at + begin + cnt;
}

SPW_INLINE void obj_fetch(const struct spw_pool *pool, const struct spw_desc *d)
{
	spw_prefetch_read(spw_pool_head_addr(pool, d->slot) + d->offset);
}

/* Returns: how many of the frames have no moves, and their slots. The others stay, behind those
 * that wait. */
SPW_INLINE uint16_t obj_place(struct spw_pipe *pipe, struct spw_gring_batch *batch,
			      const bool split, uint32_t *slot_out)
{
	struct spw_pipe_obj *o = &pipe->obj;
	uint32_t kept = o->waiting;
	uint16_t back = 0;

	for (uint32_t i = kept; i < SPW_MIN(batch->cnt, kept + AHEAD); i++)
		obj_fetch(o->pool, &batch->desc[i]);
	for (uint32_t i = kept; i < batch->cnt; i++) {
		struct spw_desc *d = &batch->desc[i];
		uint32_t at;

		if (i + AHEAD < batch->cnt)
			obj_fetch(o->pool, d + AHEAD);
		at = obj_place_one(pipe, d, o->at, split);
		if (at == o->at) {
			slot_out[back++] = d->slot;
			continue;
		}
		if (spw_unlikely(kept != i))
			batch->desc[kept] = *d;
		kept++;
		o->at = at;
	}
	batch->cnt = o->waiting = kept;
	return back;
}

/* Without a quarter of the slots the port would soon lose frames of any object, uncounted. */
void pipe_obj_place(struct spw_pipe *pipe, struct spw_gring_batch *batch)
{
	struct spw_pipe_obj *o = &pipe->obj;
	const bool full = batch == &pipe->spill || obj_busy(pipe) > o->pool->slot_cnt / 4 * 3;
	uint32_t slot[SPW_BURST_MAX];
	uint16_t back;

	if (o->waiting == 0)
		o->at = obj_first(o);
	obj_turn(pipe, o->empty_tsc, spw_unlikely(full) ? 0 : obj_room(pipe));
	back = spw_pool_is_split(o->pool) ? obj_place(pipe, batch, true, slot)
					  : obj_place(pipe, batch, false, slot);
	if (back == 0)
		return;
	spw_port_release_burst(pipe->queue, slot, back);
	spw_ledger_add(&pipe->ledger.unmoved_frames, back);
}

void pipe_obj_push(struct spw_pipe *pipe, struct spw_gring_batch *batch)
{
	batch->fill = false;
	obj_take(&pipe->obj, batch, pipe->obj.at);
	pipe->obj.waiting = 0;
}

/* Parts of a batch that was cut free their moves together, with the last one. */
void pipe_obj_pushed(struct spw_pipe *pipe, struct spw_gring_batch *batch)
{
	const uint64_t last = pipe->ring->head_seq - 1;

	if (spw_likely(batch->seq == last))
		return;
	for (uint64_t seq = batch->seq; seq < last; seq++)
		spw_gring_at(pipe->ring, seq)->move_end = pipe->obj.begin;
	spw_obj_cut(pipe->obj.obj, pipe->obj.seq_base + batch->seq, pipe->obj.seq_base + last);
}

/* ---- fill moves ---- */

/* Descriptors without a frame: the moves are dealt out among as many of them as there can be, since
 * each is one warp's. */
static void obj_fill_batch(struct spw_pipe *pipe, struct spw_gring_batch *batch, uint32_t first,
			   uint32_t moves)
{
	const struct spw_pipe_obj *o = &pipe->obj;

	batch->cnt = SPW_MIN(moves, SPW_BURST_MAX);
	batch->fill = true;
	batch->polled_tsc = batch->pushed_tsc = obj_now(pipe);
	batch->exec_busy = pipe->exec_busy;
	for (uint32_t i = 0; i < batch->cnt; i++) {
		const uint32_t from = i * moves / batch->cnt, to = (i + 1) * moves / batch->cnt;

		batch->desc[i] = (struct spw_desc){
			.len = 1,
			.region = o->pool->region->id,
			.meta = spw_move_meta((first + from) & o->mask, to - from),
		};
	}
}

void pipe_obj_fill(struct spw_pipe *pipe)
{
	struct spw_pipe_obj *o = &pipe->obj;
	const uint32_t first = obj_first(o);
	struct spw_gring_batch *batch;
	uint32_t moves;

	if (spw_likely(!spw_obj_pending(o->obj, obj_now(pipe))))
		return;
	batch = spw_gring_next(pipe->ring);
	if (!batch || o->waiting || !pipe_obj_has_room(pipe))
		return;
	obj_turn(pipe, pipe->rec.empty_tsc, obj_room(pipe));
	moves = spw_obj_due(o->obj, &o->table[first & o->mask], BATCH_MOVES);
	if (!moves)
		return;
	obj_fill_batch(pipe, batch, first, moves);
	obj_take(o, batch, first + moves);
	spw_gring_push(pipe->ring, batch);
	pipe_obj_pushed(pipe, batch);
}

/* ---- after the executor ---- */

void pipe_obj_filled(struct spw_pipe *pipe, const struct spw_gring_batch *batch)
{
	spw_ledger_add(&pipe->obj.fill_frames, batch->cnt);
	pipe->exec_busy += batch->exec_end - batch->exec_start;
	pipe->exec_last_end = SPW_MAX(pipe->exec_last_end, batch->exec_end);
}

void pipe_obj_retired(struct spw_pipe *pipe, const struct spw_gring_batch *batch)
{
	pipe->obj.done = batch;
	spw_obj_retired(pipe->obj.obj, pipe->obj.seq_base + pipe->ring->retired_seq, obj_now(pipe));
	pipe->obj.done = NULL;
}

bool pipe_obj_is_pending(const struct spw_pipe *pipe)
{
	return pipe->obj.obj &&
	       (pipe->obj.waiting || spw_obj_pending(pipe->obj.obj, spw_tsc_now()));
}

/* ---- receipts ---- */

static void obj_receipt_pass(struct spw_pipe_obj *o, const struct spw_pipe_receipt *one)
{
	if (!o->receipt)
		return;
	if (!spw_ring_room(&o->receipts, 1)) {
		spw_thr_count(&o->receipts_lost, 1);
		return;
	}
	o->receipt[spw_ring_write_pos(&o->receipts) % SPW_PIPE_RECEIPT_CNT] = *one;
	spw_ring_publish(&o->receipts, 1);
}

/* Most objects are neither slow nor asked for: those cost no more than a count. */
void spw_pipe_receipt_put(void *arg, const struct spw_obj_receipt *receipt,
			  const struct spw_obj_way *way)
{
	struct spw_pipe_obj *o = &((struct spw_pipe *)arg)->obj;
	const bool judged = !way->released && pipe_obj_slow_wants(arg, receipt);

	if (judged || o->receipt) {
		struct spw_pipe_receipt one = {.receipt = *receipt,
					       .released = way->released,
					       .release_tsc = way->release_tsc};

		if (judged)
			pipe_obj_slow_judge(arg, way, &one);
		obj_receipt_pass(o, &one);
	}
}

const struct spw_pipe_objects_slow *spw_pipe_objects_slow(const struct spw_pipe *pipe)
{
	return &pipe->obj.slow;
}

bool spw_pipe_receipt(struct spw_pipe *pipe, struct spw_pipe_receipt *receipt_out)
{
	struct spw_pipe_obj *o = &pipe->obj;

	if (!o->receipt || !spw_ring_ready(&o->receipts, 1))
		return false;
	*receipt_out = o->receipt[spw_ring_read_pos(&o->receipts) % SPW_PIPE_RECEIPT_CNT];
	spw_ring_release(&o->receipts, 1);
	return true;
}

/* ---- set-up ---- */

int pipe_obj_init(struct spw_pipe *pipe, const struct spw_pipe_conf *conf)
{
	const struct spw_pipe_objects *from = &conf->objects;
	struct spw_pipe_obj *o = &pipe->obj;

	memset(o, 0, sizeof(*o));
	if (!from->obj)
		return 0;
	if (!SPW_IS_POW2(from->table_cnt) || from->table_cnt < SPW_PIPE_MOVE_MIN)
		return spw_err(EINVAL, "pipe: a table of %u moves: a power of 2, at least %u",
			       from->table_cnt, SPW_PIPE_MOVE_MIN);
	if (!conf->pool->head_region->host_va)
		return spw_err(ENOTSUP,
			       "objects: frames lie in memory kind gpu, where the CPU cannot read "
			       "their headers: use cuda-reg or cuda-host, or split=BYTES on a port "
			       "of mlx5");
	if (conf->flight)
		return spw_err(ENOTSUP, "objects: a port with objects cannot be recorded: leave "
					"out --record");
	*o = (struct spw_pipe_obj){
		.obj = from->obj,
		.table = from->table,
		.mask = from->table_cnt - 1,
		.pool = conf->pool,
		.tsc = from->tsc,
		.slow.limit_tsc = from->slow_tsc,
		.receipt = from->receipt,
	};
	pipe->flags |= SPW_PIPE_OBJECTS;
	return spw_ring_init(&o->receipts, SPW_PIPE_RECEIPT_CNT);
}
