/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A move on the device. Source and destination have any alignment: stores are aligned, 16 bytes
 * each, and loads too; a unit of 16 source bytes is cut out of two neighbouring cells.
 *
 *   source   |cell 0   |cell 1   |cell 2   |cell 3   |     loaded whole, each once: lane i has cell
 *   unit         |0        |1        |2        |           i, and gets the next one from lane i + 1
 *   written  |16 << grow bytes |16 << grow bytes | ...     grow 1, 2: the conversion widens
 *
 *   head │ units                                  │ tail   less than 16 bytes each side: one
 *        └ written from a multiple of 16 on                element a lane, byte by byte
 *
 * A warp has SPWD_PLACE_DEPTH units a lane in flight, side by side; the warps of a team take turns.
 * No byte beside the move is written, since the one beside it may be another frame's. A cell of the
 * source that is loaded has at least one byte of the move, so it lies within the frame's slot. */
#ifndef EXEC_HANDLERS_PLACE_DEV_CUH
#define EXEC_HANDLERS_PLACE_DEV_CUH

#include "exec/spwd_order.cuh"

#define SPWD_PLACE_DEPTH 4

/* How a move is cut; all in bytes of the source. */
struct spwd_place_cut {
	uint32_t in_log2, grow; /* of an element; of what is written */
	uint32_t head, tail;    /* units lie between: [head, tail) */
	uint32_t edge_cnt;      /* elements before and behind them */
};

/* An element that lies across the destination's own grid has no aligned store: all is edge then. */
SPWD struct spwd_place_cut spwd_place_cut(uint32_t op, const uint8_t *to, uint32_t len)
{
	const uint32_t out_log2 = spw_move_out_log2(op), at = (uint32_t)(uintptr_t)to & 15;
	struct spwd_place_cut cut;

	cut.in_log2 = spw_move_in_log2(op);
	cut.grow = out_log2 - cut.in_log2;
	cut.head = (16 - at & 15) >> cut.grow;
	if (cut.head > len || at & ((1u << out_log2) - 1))
		cut.head = len;
	cut.tail = cut.head + (len - cut.head & ~15u);
	cut.edge_cnt = (cut.head + len - cut.tail) >> cut.in_log2;
	return cut;
}

/* Where edge element e begins. */
SPWD uint32_t spwd_place_edge(const struct spwd_place_cut &cut, uint32_t e)
{
	const uint32_t at = e << cut.in_log2;

	return at < cut.head ? at : cut.tail + at - cut.head;
}

SPWD uint64_t spwd_place_edge_load(const struct spwd_place_cut &cut, const uint8_t *from,
				   uint32_t e)
{
	uint64_t v = 0;

	for (uint32_t b = 0; b < 1u << cut.in_log2; b++)
		v |= (uint64_t)spwd_load_u8(from + spwd_place_edge(cut, e) + b) << 8 * b;
	return v;
}

SPWD void spwd_place_edge_store(const struct spwd_place_cut &cut, uint8_t *to, uint32_t e,
				uint64_t v)
{
	to += spwd_place_edge(cut, e) << cut.grow;
	for (uint32_t b = 0; b < 1u << (cut.in_log2 + cut.grow); b++)
		spwd_store_u8(to + b, (uint32_t)(v >> 8 * b) & 0xff);
}

/* Bytes [shift, shift + 16) of the 32 in w and next, into w; shift 1 .. 15. */
SPWD void spwd_place_shift(uint32_t *w, const uint32_t *next, uint32_t shift)
{
	uint32_t a[8] = {w[0], w[1], w[2], w[3], next[0], next[1], next[2], next[3]};

#pragma unroll
	for (int i = 0; i < 6; i++)
		a[i] = shift & 8 ? a[i + 2] : a[i];
#pragma unroll
	for (int i = 0; i < 5; i++)
		a[i] = shift & 4 ? a[i + 1] : a[i];
#pragma unroll
	for (int i = 0; i < 4; i++)
		w[i] = __funnelshift_r(a[i], a[i + 1], 8 * (shift & 3));
}

/* Element e of 16 source bytes; element k of 16 written ones. All indices are constants. */
template <uint32_t BYTES> SPWD uint64_t spwd_place_get(const uint32_t *w, uint32_t e)
{
	if (BYTES == 8)
		return w[2 * e & 3] | (uint64_t)w[2 * e + 1 & 3] << 32;
	return w[e * BYTES / 4] >> 8 * (e * BYTES % 4) & 0xffffffffu >> (32 - 8 * BYTES & 31);
}

template <uint32_t BYTES> SPWD void spwd_place_set(uint32_t *w, uint32_t k, uint64_t v)
{
	w[k * BYTES / 4] |= (uint32_t)v << 8 * (k * BYTES % 4);
	if (BYTES == 8)
		w[2 * k + 1 & 3] = (uint32_t)(v >> 32);
}

/* Writes what becomes of a unit; `to` is a multiple of 16. */
template <uint32_t OP, uint32_t IN, uint32_t OUT>
SPWD void spwd_place_unit(uint8_t *to, const uint32_t *w)
{
#pragma unroll
	for (uint32_t c = 0; c < OUT / IN; c++) {
		uint32_t o[4] = {0, 0, 0, 0};

#pragma unroll
		for (uint32_t k = 0; k < 16 / OUT; k++)
			spwd_place_set<OUT>(
				o, k,
				spw_place_element(OP, spwd_place_get<IN>(w, c * (16 / OUT) + k)));
		spwd_store_16(to + 16 * c, o);
	}
}

#define SPWD_PLACE_CASE(prefix, name, in, out, text)                                      \
	case SPW_MOVE_OP_##name:                                                          \
		if (SPW_MOVE_OP_##name > SPW_MOVE_OP_fill)                                \
			spwd_place_unit<SPW_MOVE_OP_##name, (in) ? (in) : 1, out>(to, w); \
		else                                                                      \
			spwd_store_16(to, w);                                             \
		break;

SPWD void spwd_place_store(uint32_t op, uint8_t *to, const uint32_t *w)
{
	switch (op) {
		SPW_MOVE_OP_LIST(SPWD_PLACE_CASE, )
	}
}

/* The part of the units that one warp takes in one turn, from unit `first` on. from, to: of unit 0.
 */
SPWD void spwd_place_turn(uint32_t op, uint32_t fill, uint8_t *to, const uint8_t *from,
			  uint32_t first, uint32_t units)
{
	const uint32_t lane = threadIdx.x & 31, shift = (uint32_t)(uintptr_t)from & 15,
		       grow = spw_move_out_log2(op) - spw_move_in_log2(op),
		       cells = op == SPW_MOVE_OP_fill ? 0 : units + (shift != 0);
	uint32_t w[SPWD_PLACE_DEPTH + 1][4], next[4];

#pragma unroll
	for (int j = 0; j <= SPWD_PLACE_DEPTH; j++) {
		const uint32_t cell = first + 32 * j + lane;

		w[j][0] = w[j][1] = w[j][2] = w[j][3] = fill * 0x01010101u;
		spwd_load_16_if(cell < cells && (j < SPWD_PLACE_DEPTH || lane == 0),
				from - shift + 16 * (uint64_t)cell, w[j]);
	}
#pragma unroll
	for (int j = 0; j < SPWD_PLACE_DEPTH; j++) {
		const uint32_t unit = first + 32 * j + lane;

		if (cells > units) { /* they are not the same */
#pragma unroll
			for (int i = 0; i < 4; i++)
				next[i] = __shfl_sync(0xffffffffu, lane ? w[j][i] : w[j + 1][i],
						      lane + 1 & 31);
			spwd_place_shift(w[j], next, shift);
		}
		if (unit < units)
			spwd_place_store(op, to + ((uint64_t)unit << (4 + grow)), w[j]);
	}
}

/* Purpose: executes one move. Collective. */
SPWD void spwd_place_move(struct spw_lanes lanes, uint32_t op, uint32_t fill, uint8_t *to,
			  const uint8_t *from, uint32_t len)
{
	const struct spwd_place_cut cut = spwd_place_cut(op, to, len);
	const uint32_t units = (cut.tail - cut.head) / 16,
		       turn = 32 * SPWD_PLACE_DEPTH; /* units of a warp */
	uint32_t e = lanes.idx;
	uint64_t v = fill;

	/* The first edge element is on its way while units are moved; more there are rarely. */
	if (e < cut.edge_cnt && op != SPW_MOVE_OP_fill)
		v = spwd_place_edge_load(cut, from, e);
	for (uint32_t first = lanes.idx / 32 * turn; first < units; first += lanes.cnt / 32 * turn)
		spwd_place_turn(op, fill, to + (cut.head << cut.grow), from + cut.head, first,
				units);
	while (e < cut.edge_cnt) {
		spwd_place_edge_store(cut, to, e, spw_place_element(op, v));
		e += lanes.cnt;
		if (e < cut.edge_cnt && op != SPW_MOVE_OP_fill)
			v = spwd_place_edge_load(cut, from, e);
	}
}

#endif
