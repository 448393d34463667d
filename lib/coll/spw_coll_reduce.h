/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The arithmetic of an all-reduce, written once for the host and the device: every rank gets the
 * same bits, whatever executes it.
 *
 *   acc = contribution of rank 0, as f32
 *   acc = acc op contribution of rank 1, 2, ... n-1, in this order, each step rounded to f32
 *   result = acc, rounded once to the type, to nearest, ties to even
 *
 * bf16 and f16 become f32 without loss. A NaN among the contributions makes the result the one
 * quiet NaN of the type, since payloads and signs of NaNs differ between processors. max takes the
 * earlier rank's of two equal values, so +0 and -0 are decided, too. Integer arithmetic converts;
 * nothing depends on the compiler's half types. Code that includes this is not compiled with
 * -ffast-math or nvcc's --use_fast_math.
 *
 * Pure, but for the output. Thread: any. */
#ifndef SPW_COLL_REDUCE_H
#define SPW_COLL_REDUCE_H

#include "coll/spw_coll_round.h"
#include "exec/spw_handler.h" /* spw_lanes */

#if defined(__FAST_MATH__) || defined(__USE_FAST_MATH__)
#error "ranks would get different bits: compile without fast math"
#endif

/* Purpose: the number with these bits. By an intrinsic on the device, since a copy through memory
 * would leave the registers. Thread: any. */
SPW_HD SPW_INLINE float spw_coll_f32_of(uint32_t bits)
{
#ifdef __CUDA_ARCH__
	return __uint_as_float(bits);
#else
	float v;

	__builtin_memcpy(&v, &bits, sizeof(v));
	return v;
#endif
}

/* Purpose: the bits of a number, as spw_coll_f32_of takes them. Thread: any. */
SPW_HD SPW_INLINE uint32_t spw_coll_bits_of(float v)
{
#ifdef __CUDA_ARCH__
	return __float_as_uint(v);
#else
	uint32_t bits;

	__builtin_memcpy(&bits, &v, sizeof(bits));
	return bits;
#endif
}

/* ---- conversions ---- */

/* Purpose: a bf16 as f32, exactly: it is the upper half of one. Thread: any. */
SPW_HD SPW_INLINE float spw_coll_f32_of_bf16(uint16_t v)
{
	return spw_coll_f32_of((uint32_t)v << 16);
}

/* A NaN becomes 0x7fc0. Else the lower half rounds: 0x7fff and the lowest bit that stays are added,
 * so that a tie goes to the even one; a carry out of the mantissa raises the exponent, up to
 * infinity, as it should. */
SPW_HD SPW_INLINE uint16_t spw_coll_bf16_of_f32(float v)
{
	const uint32_t bits = spw_coll_bits_of(v);

	if ((bits & 0x7fffffffu) > 0x7f800000u)
		return 0x7fc0;
	return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/* Numbers below 2^-14 are multiples of 2^-24: an integer of 10 bits, scaled. All others have their
 * exponent moved from bias 15 to bias 127; infinity and NaN keep their bits behind the largest
 * exponent. */
SPW_HD SPW_INLINE float spw_coll_f32_of_f16(uint16_t v)
{
	const uint32_t sign = (uint32_t)(v & 0x8000u) << 16, rest = v & 0x7fffu;

	if (rest >= 0x7c00u)
		return spw_coll_f32_of(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
	if (rest >= 0x400u)
		return spw_coll_f32_of(sign | ((rest << 13) + ((127u - 15u) << 23)));
	return spw_coll_f32_of(sign | spw_coll_bits_of((float)rest * 0x1p-24f));
}

/* A NaN becomes 0x7e00. Below 2^-14 the sum with 0.5 rounds to a multiple of 2^-24 and leaves it in
 * the low bits. */
SPW_HD SPW_INLINE uint16_t spw_coll_f16_of_f32(float v)
{
	const uint32_t bits = spw_coll_bits_of(v), sign = bits >> 16 & 0x8000u,
		       rest = bits & 0x7fffffffu;

	if (rest > 0x7f800000u)
		return 0x7e00;
	if (rest >= 0x47800000u) /* 2^16 and above */
		return (uint16_t)(sign | 0x7c00u);
	if (rest < 0x38800000u) /* below 2^-14 */
		return (uint16_t)(sign | (spw_coll_bits_of(spw_coll_f32_of(rest) + 0.5f) -
					  spw_coll_bits_of(0.5f)));
	return (uint16_t)(sign |
			  ((rest - ((127u - 15u) << 23) + 0xfffu + (rest >> 13 & 1u)) >> 13));
}

/* ---- one element ---- */

/* Purpose: one step of the chain at the head of this file. The device adds by an intrinsic that the
 * compiler never merges with a multiplication. Shape: op is a constant where this is compiled.
 * Thread: any. */
SPW_HD SPW_INLINE float spw_coll_combine(float a, float b, enum spw_coll_op op)
{
	if (op == SPW_COLL_MAX)
		return a != a || b != b ? spw_coll_f32_of(0x7fc00000u) : b > a ? b : a;
#ifdef __CUDA_ARCH__
	return __fadd_rn(a, b);
#else
	return a + b;
#endif
}

/* Element i of a cell of 16 bytes. Elements of 2 bytes lie in pairs, the earlier one in the low
 * half. */
SPW_HD SPW_INLINE float spw_coll_cell_get(const uint32_t *w, uint32_t i, enum spw_coll_type type)
{
	if (type == SPW_COLL_F32)
		return spw_coll_f32_of(w[i]);
	const uint16_t half = (uint16_t)(w[i / 2] >> (i % 2 * 16));

	return type == SPW_COLL_BF16 ? spw_coll_f32_of_bf16(half) : spw_coll_f32_of_f16(half);
}

/* An element as it is stored, in the low bits. Here, and only here, the result is rounded to the
 * type, and a NaN becomes the one of the type. */
SPW_HD SPW_INLINE uint32_t spw_coll_elem_of(float v, enum spw_coll_type type)
{
	if (type == SPW_COLL_F32)
		return spw_coll_bits_of(v != v ? spw_coll_f32_of(0x7fc00000u) : v);
	return type == SPW_COLL_BF16 ? spw_coll_bf16_of_f32(v) : spw_coll_f16_of_f32(v);
}

/* ---- all of them ---- */

/* What one thread of the device loads at once: 4 elements of f32, 8 of the others. */
#define SPW_COLL_CELL 16u

/* The contributions of a round by rank. That of this rank lies where the caller has it, aligned to
 * its elements; all others lie in slots, aligned to cells, with room for whole ones. */
struct spw_coll_parts {
	const uint8_t *at[SPW_COLL_RANK_MAX];
	uint32_t cnt, own;
	uint64_t count; /* elements of each */
};

/* Elements of a cell, 0 for one behind the last. The last cell of a contribution may hold fewer
 * than others. */
SPW_HD SPW_INLINE uint32_t spw_coll_cell_elems(const struct spw_coll_parts *parts, uint64_t cell,
					       uint32_t per_cell)
{
	const uint64_t first = cell * per_cell;

	return first >= parts->count             ? 0
	       : parts->count - first < per_cell ? (uint32_t)(parts->count - first)
						 : per_cell;
}

#ifdef __CUDA_ARCH__
#define SPW_COLL_UNROLL _Pragma("unroll") /* arrays whose indices are constants are registers */
#else
#define SPW_COLL_UNROLL
#endif

/* A cell of a contribution; `elems` of it are wanted. What lies in slots has room for whole cells,
 * and is loaded as one; the caller's own memory is loaded so only where a cell is aligned and
 * whole, else element by element: nothing beyond its end is touched. */
SPW_HD SPW_INLINE void spw_coll_cell_load(const struct spw_coll_parts *parts, uint32_t rank,
					  uint64_t cell, uint32_t elems, uint32_t bytes,
					  uint32_t *w)
{
	const uint8_t *p = parts->at[rank] + cell * SPW_COLL_CELL;

#ifdef __CUDA_ARCH__
	if (rank != parts->own ||
	    (elems * bytes == SPW_COLL_CELL && (uintptr_t)p % SPW_COLL_CELL == 0)) {
		spwd_load_16(p, w);
		return;
	}
	w[0] = w[1] = w[2] = w[3] = 0;
	SPW_COLL_UNROLL
	for (uint32_t i = 0; i < SPW_COLL_CELL / 2; i++)
		if (bytes == 4 && i < 4 && i < elems)
			w[i] = ((const uint32_t *)p)[i];
		else if (bytes == 2 && i < elems)
			w[i / 2] |= (uint32_t)((const uint16_t *)p)[i] << (i % 2 * 16);
#else
	w[0] = w[1] = w[2] = w[3] = 0;
	__builtin_memcpy(w, p, (size_t)elems * bytes);
#endif
}

/* Purpose: reduces one cell of all contributions into acc, which has room for a cell of the
 *   shortest type. A cell behind the last is none: acc is left as it is.
 * Shape: type and op are constants where this is compiled.
 * Order: after the flags of all peers were acquired (X1). Of two ranks both cells are on their way
 *   at the same time, of more always the next one.
 * Thread: any. */
SPW_HD SPW_INLINE void spw_coll_cell_reduce(const struct spw_coll_parts *parts, uint64_t cell,
					    enum spw_coll_type type, enum spw_coll_op op,
					    float *acc)
{
	const uint32_t bytes = type == SPW_COLL_F32 ? 4 : 2, per_cell = SPW_COLL_CELL / bytes;
	const uint32_t elems = spw_coll_cell_elems(parts, cell, per_cell);
	uint32_t w[2][4];

	if (!elems)
		return;
	spw_coll_cell_load(parts, 0, cell, elems, bytes, w[0]);
	SPW_COLL_UNROLL
	for (uint32_t rank = 0; rank < SPW_COLL_RANK_MAX; rank++) {
		if (rank >= parts->cnt)
			break;
		if (rank + 1 < parts->cnt)
			spw_coll_cell_load(parts, (rank + 1) % SPW_COLL_RANK_MAX, cell, elems,
					   bytes, w[(rank + 1) % 2]);
		SPW_COLL_UNROLL
		for (uint32_t i = 0; i < per_cell; i++) {
			const float v = spw_coll_cell_get(w[rank % 2], i, type);

			acc[i] = rank ? spw_coll_combine(acc[i], v, op) : v;
		}
	}
}

/* Writes the first `elems` elements of a cell to p, which is aligned to elements. Nothing behind
 * the last element is written. */
SPW_HD SPW_INLINE void spw_coll_cell_write(uint8_t *p, uint32_t elems, uint32_t bytes,
					   const uint32_t *w)
{
#ifdef __CUDA_ARCH__
	if (elems * bytes == SPW_COLL_CELL && (uintptr_t)p % SPW_COLL_CELL == 0) {
		spwd_store_16(p, w);
		return;
	}
	SPW_COLL_UNROLL
	for (uint32_t i = 0; i < SPW_COLL_CELL / 2; i++)
		if (bytes == 4 && i < 4 && i < elems)
			((uint32_t *)p)[i] = w[i];
		else if (bytes == 2 && i < elems)
			((uint16_t *)p)[i] = (uint16_t)(w[i / 2] >> (i % 2 * 16));
#else
	for (uint32_t i = 0; i < elems; i++)
		__builtin_memcpy(p + i * bytes, (const uint8_t *)w + i * bytes, bytes);
#endif
}

/* Purpose: writes what spw_coll_cell_reduce made of a cell, at its place in out.
 * Thread: any. */
SPW_HD SPW_INLINE void spw_coll_cell_store(const struct spw_coll_parts *parts, void *out,
					   uint64_t cell, enum spw_coll_type type, const float *acc)
{
	const uint32_t bytes = type == SPW_COLL_F32 ? 4 : 2, per_cell = SPW_COLL_CELL / bytes;
	const uint32_t elems = spw_coll_cell_elems(parts, cell, per_cell);
	uint32_t w[4] = {0, 0, 0, 0};

	SPW_COLL_UNROLL
	for (uint32_t i = 0; i < per_cell; i++)
		w[i * bytes / 4] |= spw_coll_elem_of(acc[i], type) << (i * bytes % 4 * 8);
	spw_coll_cell_write((uint8_t *)out + cell * SPW_COLL_CELL, elems, bytes, w);
}

/* Purpose: reduces the share of one lane: cells first, first + step, ... of all contributions.
 * Shape: out may be parts->at[own]. type and op are constants where this is compiled.
 * Order: after the flags of all peers were acquired (X1).
 * Thread: any. */
SPW_HD SPW_INLINE void spw_coll_reduce(const struct spw_coll_parts *parts, void *out,
				       enum spw_coll_type type, enum spw_coll_op op, uint64_t first,
				       uint64_t step)
{
	const uint32_t per_cell = SPW_COLL_CELL / (type == SPW_COLL_F32 ? 4 : 2);
	float acc[SPW_COLL_CELL / 2] = {0};

	for (uint64_t cell = first; cell * per_cell < parts->count; cell += step) {
		spw_coll_cell_reduce(parts, cell, type, op, acc);
		spw_coll_cell_store(parts, out, cell, type, acc);
	}
}

#endif
