/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A frame that is not the common one (window.c): of another object than the frame before, with
 * several pieces, several granules, the object's short last granule, a size, an end, or with bytes
 * that are there already.
 *
 *   piece     ├───────────────────────────────┤
 *   granules │    0    │    1    │    2    │    3    │     whole ones count: 1 and 2
 *   claimed             set       clear                  one move, for 2; 1 is overlap
 */
#include "obj/window.h"

struct claim {
	struct spw_move *move;
	uint32_t cnt;
	uint64_t fresh, old; /* bytes */
	bool beyond;
};

uint64_t obj_claim_find(const uint64_t *claimed, uint64_t from, uint64_t end, bool set)
{
	const uint64_t flip = set ? 0 : UINT64_MAX;

	for (uint64_t bits = UINT64_MAX << (from % 64); from < end;
	     bits = UINT64_MAX, from = (from / 64 + 1) * 64) {
		bits &= claimed[from / 64] ^ flip;
		if (bits)
			return SPW_MIN(end, from / 64 * 64 + (uint64_t)__builtin_ctzll(bits));
	}
	return end;
}

/* Sets bits [from, end). */
static void claim_set(uint64_t *claimed, uint64_t from, uint64_t end)
{
	for (; from < end; from = (from / 64 + 1) * 64) {
		uint64_t bits = UINT64_MAX << (from % 64);

		if (end / 64 == from / 64)
			bits &= (1ull << (end % 64)) - 1;
		claimed[from / 64] |= bits;
	}
}

/* Bytes of granules [from, end). */
static uint64_t claim_bytes(const struct spw_obj *obj, const struct obj_fill *f, uint64_t from,
			    uint64_t end)
{
	return SPW_MIN(end * obj->granule, f->size) - SPW_MIN(from * obj->granule, f->size);
}

/* The object's size, from the first frame that gives one. One that is no size, or below what is
 * there already, is not believed. */
static void claim_size(struct spw_obj *obj, struct obj_fill *f, const struct spw_obj_hit *hit)
{
	uint64_t size = hit->size;

	if (!(hit->flags & SPW_OBJ_SIZE)) {
		size = 0;
		for (uint32_t i = 0; i < hit->piece_cnt; i++)
			size = SPW_MAX(size, hit->piece[i].pos + hit->piece[i].len);
	}
	if (f->sized || size == 0 || size > f->size || size % obj->element ||
	    obj_claim_find(f->claimed, window_granule(obj, size), window_granules(obj, f->size),
			   true) != window_granules(obj, f->size))
		return;
	f->sized = true;
	f->left -= f->size - size;
	f->size = size;
	f->whole_cnt = window_granule(obj, size);
}

/* Claims what is missing of a piece, as far as the frame's moves go. */
static void claim_piece(struct spw_obj *obj, struct obj_fill *f, const struct spw_obj_piece *piece,
			struct claim *c)
{
	uint64_t at, end;

	if (piece->pos >= f->size || piece->len > f->size - piece->pos) {
		c->beyond = true;
		return;
	}
	at = window_granules(obj, piece->pos);
	end = piece->pos + piece->len == f->size ? window_granules(obj, f->size)
						 : window_granule(obj, piece->pos + piece->len);
	while (at < end && c->cnt < SPW_OBJ_MOVE_MAX) {
		const uint64_t from = obj_claim_find(f->claimed, at, end, false);
		const uint64_t to = obj_claim_find(f->claimed, from, end, true);
		const uint64_t pos = from * obj->granule, bytes = claim_bytes(obj, f, from, to);

		c->old += claim_bytes(obj, f, at, from);
		at = to;
		if (from == to)
			continue;
		claim_set(f->claimed, from, to);
		c->fresh += bytes;
		c->move[c->cnt++] = window_move(
			obj, f, pos, piece->skip + (uint32_t)(pos - piece->pos), (uint32_t)bytes);
	}
}

/* What was new decides; then what was there; a frame with neither is the sender's fault. */
static enum spw_obj_fate claim_fate(const struct claim *c, const struct spw_obj_hit *hit)
{
	if (c->fresh || hit->piece_cnt == 0)
		return SPW_OBJ_FATE_placed;
	if (c->old)
		return SPW_OBJ_FATE_duplicate;
	return c->beyond ? SPW_OBJ_FATE_beyond : SPW_OBJ_FATE_cut;
}

/* All of one frame: its size first, since pieces are compared with it. */
static enum spw_obj_fate claim_take(struct spw_obj *obj, struct obj_fill *f,
				    const struct spw_obj_hit *hit, uint64_t nic_ns, struct claim *c)
{
	enum spw_obj_fate fate;

	if (hit->flags & (SPW_OBJ_END | SPW_OBJ_SIZE))
		claim_size(obj, f, hit);
	for (uint32_t i = 0; i < hit->piece_cnt; i++)
		claim_piece(obj, f, &hit->piece[i], c);
	fate = claim_fate(c, hit);
	f->left -= c->fresh;
	if (c->cnt)
		f->free_seq = obj->turn.seq + 1;
	if (fate == SPW_OBJ_FATE_placed) {
		f->packets++;
		f->last_nic = nic_ns;
		f->last_tsc = obj->turn.now_tsc;
		f->receipt.bytes_overlap += c->old;
		if (f->receipt.first_nic == 0)
			f->receipt.first_nic = nic_ns;
	} else if (fate == SPW_OBJ_FATE_duplicate) {
		f->receipt.packets_duplicate++;
		f->receipt.bytes_duplicate += c->old;
	} else {
		f->receipt.packets_bad++;
	}
	if (f->left == 0)
		obj_close_fill(obj, f, SPW_OBJ_CAUSE_all);
	return fate;
}

SPW_NOINLINE enum spw_obj_fate obj_claim_hit(struct spw_obj *obj, const struct spw_obj_hit *hit,
					     uint64_t nic_ns, struct spw_move *move_out,
					     uint32_t *cnt_out)
{
	struct claim c = {.move = move_out};
	struct obj_fill *f = obj->cur;
	enum spw_obj_fate fate;

	*cnt_out = 0;
	if (f == &obj->none || hit->key != f->key)
		f = obj_key_find(obj, hit->key, &fate);
	obj->heard_tsc = obj->turn.now_tsc;
	if (!f)
		return window_count(obj, fate);
	if (spw_likely(obj->turn.room))
		obj->cur = f;
	else if (hit->piece_cnt && f->buffer != OBJ_NO_BUFFER)
		obj_shed_drop(obj, f);
	if (f->buffer == OBJ_NO_BUFFER) {
		f->receipt.packets_shed++;
		return window_count(obj, SPW_OBJ_FATE_shed);
	}
	fate = claim_take(obj, f, hit, nic_ns, &c);
	*cnt_out = c.cnt;
	return window_count(obj, fate);
}
