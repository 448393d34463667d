/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Executes moves (exec/spw_place.h): bytes of the frame go into object memory, as they are, with
 * the byte order of their elements reversed, or converted; or one byte is written again and again.
 * The first move of a frame may be `head`, which puts bytes into the frame's own slot, for the
 * moves behind it.
 *
 *   frame   ....|#### #### #### ####|..     elements of 1 << in_log2 bytes, at any address
 *                 │ spw_place_element
 *   object  ...|######## ########|...       elements of 1 << out_log2 bytes, at any address
 *
 * On the host a move is a memcpy, a memset or a loop over its elements. place_dev.cuh has the
 * device's, which writes 16 bytes at once wherever it can. A half is made of a float, which holds
 * every number of 8 bits exactly, as the half does.
 */
#ifndef EXEC_HANDLERS_PLACE_H
#define EXEC_HANDLERS_PLACE_H

#include "exec/spw_place.h"
#include "frame/spw_move.h"

/* The bits of an integer as a float, of which few enough are used that it is exact. */
SPW_HD SPW_INLINE uint32_t spw_place_f32(int32_t v)
{
	float f = (float)v;
	uint32_t bits;

	__builtin_memcpy(&bits, &f, sizeof(bits));
	return bits;
}

/* The bits of an integer of 8 bits as a half: the float's, with a shorter exponent whose bias is
 * 112 less. */
SPW_HD SPW_INLINE uint32_t spw_place_f16(int32_t v)
{
	const uint32_t bits = spw_place_f32(v), magnitude = (bits & 0x7fffffffu) >> 13;

	return (bits >> 16 & 0x8000u) | (magnitude - (magnitude ? 112u << 10 : 0));
}

SPW_HD SPW_INLINE uint32_t spw_place_swap16(uint32_t v)
{
	return (v >> 8 & 0xff) | (v & 0xff) << 8;
}

SPW_HD SPW_INLINE uint32_t spw_place_swap32(uint32_t v)
{
	return spw_place_swap16(v) << 16 | spw_place_swap16(v >> 16);
}

/* Purpose: an element as it is written, of one as it is in the frame; both as numbers whose lowest
 *          byte comes first in memory. */
SPW_HD SPW_INLINE uint64_t spw_place_element(uint32_t op, uint64_t v)
{
	switch (op) {
	case SPW_MOVE_OP_swap16:
		return spw_place_swap16((uint32_t)v);
	case SPW_MOVE_OP_swap32:
		return spw_place_swap32((uint32_t)v);
	case SPW_MOVE_OP_swap64:
		return (uint64_t)spw_place_swap32((uint32_t)v) << 32 |
		       spw_place_swap32((uint32_t)(v >> 32));
	case SPW_MOVE_OP_i8_f16:
		return spw_place_f16((int8_t)v);
	case SPW_MOVE_OP_i8_f32:
		return spw_place_f32((int8_t)v);
	case SPW_MOVE_OP_u8_f16:
		return spw_place_f16((uint8_t)v);
	case SPW_MOVE_OP_u8_f32:
		return spw_place_f32((uint8_t)v);
	case SPW_MOVE_OP_i16_f32:
		return spw_place_f32((int16_t)v);
	case SPW_MOVE_OP_i16be_f32:
		return spw_place_f32((int16_t)spw_place_swap16((uint32_t)v));
	default:
		return v;
	}
}

/* Where a `head` reads. */
SPW_HD SPW_INLINE const uint8_t *spw_place_head(struct spw_lanes lanes, uint64_t dst, uint64_t src)
{
	return (const uint8_t *)(uintptr_t)(lanes.region_base[spw_move_get_from(dst)] +
					    spw_move_get_from_offset(src));
}

#ifdef __CUDA_ARCH__
#include "exec/handlers/place_dev.cuh"
#else
/* op is a constant where it is called. */
SPW_INLINE void spw_place_elements(uint32_t op, uint8_t *to, const uint8_t *from, uint32_t len)
{
	const uint32_t in = 1u << spw_move_in_log2(op), out = 1u << spw_move_out_log2(op);

	for (uint32_t i = 0; i < len / in; i++) {
		uint64_t v = 0;

		__builtin_memcpy(&v, from + i * in, in);
		v = spw_place_element(op, v);
		__builtin_memcpy(to + i * out, &v, out);
	}
}

#define SPW_PLACE_CASE(prefix, name, ...)                              \
	case SPW_MOVE_OP_##name:                                       \
		spw_place_elements(SPW_MOVE_OP_##name, to, from, len); \
		break;

SPW_INLINE void spw_place_move(struct spw_lanes lanes, uint64_t dst, uint64_t src, uint8_t *to,
			       const uint8_t *from)
{
	const uint32_t op = spw_move_get_op(dst), len = spw_move_get_len(src);

	if (op == SPW_MOVE_OP_copy) {
		__builtin_memcpy(to, from, len);
		return;
	}
	if (op == SPW_MOVE_OP_fill) {
		__builtin_memset(to, spw_move_get_fill(src), len);
		return;
	}
	if (op == SPW_MOVE_OP_head) {
		__builtin_memcpy(to, spw_place_head(lanes, dst, src), len);
		return;
	}
	switch (op) {
		SPW_MOVE_OP_LIST(SPW_PLACE_CASE, )
	}
}
#endif

/* Purpose: one move of a frame, by all lanes. Returns: the bytes written. */
SPW_HD SPW_INLINE uint64_t spw_place_one(const struct spw_frame *frame, struct spw_lanes lanes,
					 uint64_t dst, uint64_t src)
{
	const uint32_t op = spw_move_get_op(dst), len = spw_move_get_len(src);
	uint8_t *to = (uint8_t *)(uintptr_t)(lanes.region_base[spw_move_get_region(dst)] +
					     spw_move_get_offset(dst));
	const uint8_t *from = frame->addr + spw_move_get_skip(src);

#ifdef __CUDA_ARCH__
	if (op == SPW_MOVE_OP_head)
		from = spw_place_head(lanes, dst, src);
	spwd_place_move(lanes, op, spw_move_get_fill(src), to, from, len);
	if (op == SPW_MOVE_OP_head)
		spw_lanes_sync(lanes); /* other lanes read it */
#else
	spw_place_move(lanes, dst, src, to, from);
#endif
	return spw_move_written(op, len);
}

SPW_HANDLER_BODY(place)(const struct spw_frame *frame, struct spw_lanes lanes)
{
	const struct spw_place_state *state = (const struct spw_place_state *)lanes.state;
	const struct spw_move *move =
		(const struct spw_move *)(uintptr_t)(lanes.region_base[state->region] +
						     state->offset) +
		(frame->meta >> 4);
	const uint32_t cnt = frame->meta & SPW_MOVE_FRAME_MAX;
	uint64_t written = 0;

#ifdef __CUDA_ARCH__
	uint64_t dst = 0, src = 0; /* of the lane's move: all of them are read at once */

	if (lanes.idx < cnt)
		spwd_sys_load_rlx2(move + lanes.idx, &dst, &src);
	__syncwarp();
	for (uint32_t i = 0; i < cnt; i++)
		written += spw_place_one(frame, lanes, spwd_place_of_lane(lanes, dst, i),
					 spwd_place_of_lane(lanes, src, i));
#else
	for (uint32_t i = 0; i < cnt; i++)
		written += spw_place_one(frame, lanes, move[i].dst, move[i].src);
#endif
	return spw_consume(written);
}

#endif
