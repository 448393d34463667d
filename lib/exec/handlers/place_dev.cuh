/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A move on the device. Source and destination have any alignment: loads are aligned, 16 bytes
 * each, and stores too wherever 16 bytes of the destination's grid are written whole.
 *
 *   source    |cell 0   |cell 1   |cell 2   |cell 3   |       loaded whole, each once
 *   move            |###########################|
 *   units        |0        |1        |2        |3        |    16 bytes of the destination's grid
 *   written      |16 << grow bytes   | ...                    each; grow 1, 2: conversions widen
 *
 * A lane has a cell, gets the one before it from the lane before, and writes the unit that begins
 * in that one. A warp has SPWD_PLACE_DEPTH cells a lane in flight, and begins with a line of 128
 * bytes of the source, since each piece of a line is a read of its own on PCIe. Of a team, each
 * warp has a part of the cells.
 *
 * No byte beside the move is written, since the one beside it may be another frame's: the first and
 * the last unit are written in part, an element a lane. A cell that is loaded has at least one byte
 * of the move, so it lies within the frame's slot. */
#ifndef EXEC_HANDLERS_PLACE_DEV_CUH
#define EXEC_HANDLERS_PLACE_DEV_CUH

#include "exec/spwd_order.cuh"

#define SPWD_PLACE_DEPTH 3

/* Bytes [shift, shift + 16) of the 32 in w and next, into w; shift 0 .. 15. */
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

/* How a move lies: cell 0 has byte 0 of unit 0, which begins `lo` bytes before the move. */
struct spwd_place_cut {
	const uint8_t *cell; /* cell 0 */
	uint8_t *to;         /* of unit 0 */
	uint32_t shift;      /* of unit 0 in cell 0 */
	uint32_t grow;
	int32_t lo, hi; /* the move's bytes, counted from unit 0 */
	bool aligned;   /* elements lie on the destination's grid; else no unit is written whole */
};

SPWD struct spwd_place_cut spwd_place_cut(uint32_t op, uint8_t *to, const uint8_t *from,
					  uint32_t len)
{
	const uint32_t out_log2 = spw_move_out_log2(op), at = (uint32_t)(uintptr_t)to & 15;
	struct spwd_place_cut cut;

	cut.grow = out_log2 - spw_move_in_log2(op);
	cut.aligned = !(at & ((1u << out_log2) - 1));
	cut.lo = cut.aligned ? (int32_t)(at >> cut.grow) : 0;
	cut.hi = cut.lo + (int32_t)len;
	cut.to = to - ((uint64_t)cut.lo << cut.grow);
	cut.shift = (uint32_t)(uintptr_t)(from - cut.lo) & 15;
	cut.cell = from - cut.lo - cut.shift;
	return cut;
}

SPWD bool spwd_place_is_whole(const struct spwd_place_cut &cut, int32_t u)
{
	return cut.aligned && 16 * u >= cut.lo && 16 * u + 16 <= cut.hi;
}

/* Writes the move's bytes of unit u, which lane `src` has; an element a lane. */
SPWD void spwd_place_some(uint32_t op, const struct spwd_place_cut &cut, int32_t u, uint32_t src,
			  const uint32_t *w)
{
	const uint32_t in_log2 = spw_move_in_log2(op), k = (threadIdx.x & 31) << in_log2;
	const int32_t at = 16 * u + (int32_t)k;
	uint32_t a[4];
	uint64_t v;

#pragma unroll
	for (int i = 0; i < 4; i++)
		a[i] = __shfl_sync(0xffffffffu, w[i], (int)src);
	if (k >= 16 || at < cut.lo || at >= cut.hi)
		return;
	v = k & 8 ? (uint64_t)a[3] << 32 | a[2] : (uint64_t)a[1] << 32 | a[0];
	v = v >> 8 * (k & 7) & ~0ull >> (64 - (8u << in_log2));
	v = spw_place_element(op, v);
	for (uint32_t b = 0; b < 1u << (in_log2 + cut.grow); b++)
		spwd_store_u8(cut.to + ((int64_t)at << cut.grow) + b,
			      (uint32_t)(v >> 8 * b) & 0xff);
}

/* Writes the units of a warp's lanes, one each from unit `first` on, as far as there are any. */
SPWD void spwd_place_row(uint32_t op, const struct spwd_place_cut &cut, int32_t first,
			 const uint32_t *w)
{
	const int32_t u = first + (int32_t)(threadIdx.x & 31);
	const bool whole = spwd_place_is_whole(cut, u);
	uint32_t some = __ballot_sync(0xffffffffu,
				      !whole && u >= 0 && 16 * u + 16 > cut.lo && 16 * u < cut.hi);

	if (whole)
		spwd_place_store(op, cut.to + ((int64_t)u << (4 + cut.grow)), w);
	for (; some; some &= some - 1)
		spwd_place_some(op, cut, first + __ffs((int)some) - 1,
				(uint32_t)__ffs((int)some) - 1, w);
}

/* The units that end in cells [first, end), by one warp. */
SPWD void spwd_place_cells(uint32_t op, uint32_t fill, const struct spwd_place_cut &cut,
			   int32_t first, int32_t end)
{
	const int32_t lane = (int32_t)(threadIdx.x & 31);
	const int32_t begin = cut.lo + (int32_t)cut.shift >> 4,
		      cells = op == SPW_MOVE_OP_fill
				      ? 0
				      : (cut.hi + (int32_t)cut.shift + 15 >> 4) - begin;
	uint32_t w[SPWD_PLACE_DEPTH][4], unit[4], carry[4]; /* lane 31: the cell before */

	carry[0] = carry[1] = carry[2] = carry[3] = fill * 0x01010101u;
	spwd_load_16_if(lane == 31 && (uint32_t)(first - 1 - begin) < (uint32_t)cells,
			cut.cell + 16 * (int64_t)(first - 1), carry);
	for (; first < end; first += 32 * SPWD_PLACE_DEPTH) {
#pragma unroll
		for (int32_t j = 0; j < SPWD_PLACE_DEPTH; j++) {
			const int32_t c = first + 32 * j + lane;

			w[j][0] = w[j][1] = w[j][2] = w[j][3] = fill * 0x01010101u;
			spwd_load_16_if((uint32_t)(c - begin) < (uint32_t)cells,
					cut.cell + 16 * (int64_t)c, w[j]);
		}
#pragma unroll
		for (int32_t j = 0; j < SPWD_PLACE_DEPTH; j++) {
#pragma unroll
			for (int i = 0; i < 4; i++)
				unit[i] = __shfl_sync(0xffffffffu,
						      lane < 31 ? w[j][i]
						      : j       ? w[j - 1][i]
								: carry[i],
						      lane + 31 & 31);
			spwd_place_shift(unit, w[j], cut.shift);
			spwd_place_row(op, cut, first + 32 * j - 1, unit);
		}
#pragma unroll
		for (int i = 0; i < 4; i++)
			carry[i] = w[SPWD_PLACE_DEPTH - 1][i];
	}
}

/* Returns: what lane i of the first warp has, to all lanes; only that warp reads moves, since reads
 * of one address of host memory wait for each other. Collective. */
SPWD uint64_t spwd_place_of_lane(struct spw_lanes lanes, uint64_t v, uint32_t i)
{
	uint64_t *at = (uint64_t *)lanes.scratch;

	v = __shfl_sync(0xffffffffu, v, (int)i);
	if (lanes.cnt <= 32)
		return v;
	if (lanes.idx == 0)
		*at = v;
	spwd_bar_sync(lanes.bar, lanes.cnt);
	v = *at;
	spwd_bar_sync(lanes.bar, lanes.cnt); /* scratch is free again */
	return v;
}

/* Purpose: executes one move. Collective. */
SPWD void spwd_place_move(struct spw_lanes lanes, uint32_t op, uint32_t fill, uint8_t *to,
			  const uint8_t *from, uint32_t len)
{
	const struct spwd_place_cut cut = spwd_place_cut(op, to, from, len);
	const int32_t turn = 32 * SPWD_PLACE_DEPTH, warps = (int32_t)lanes.cnt / 32;
	const int32_t lead = (int32_t)((uint32_t)(uintptr_t)cut.cell & 127) / 16;
	const int32_t end = (cut.hi + 15 >> 4) + 1; /* the last unit ends in the cell before */
	const int32_t each = SPW_ALIGN_UP((end + lead + warps - 1) / warps, turn);
	const int32_t first = (int32_t)(lanes.idx / 32) * each - lead;

	spwd_place_cells(op, fill, cut, first, SPW_MIN(first + each, end));
}

#endif
