/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A move: one order to an executor to put bytes into an object. The owner lcore decides what goes
 * where (lib/obj); executors only move (exec/handlers/place.h). Moves stand in a table of the lane,
 * beside its executor ring; a frame's descriptor names its first one and how many there are:
 *
 *   descriptor   meta | first 28 | cnt 4 |          cnt 0: nothing of this frame is moved
 *                          │
 *   table        ... │ move │ move │ move │ ...      [SPW_MOVE_TABLE], written before the push
 *                          │
 *                          └─> frame[skip .. skip + len) ──op──> object memory at dst
 *
 *   dst  | op 8 | region 3 | 0 | offset 40 |         bytes from the region's start
 *   src  | fill 8 | 0 | skip 24 | len 24 |           len: bytes read; of fill: written
 *
 * `head` makes a frame that is split (pool/spw_pool.h) whole as far as the moves behind it need it:
 * it copies the end of the frame's head, which is in a region of its own, into the frame's slot.
 *
 *   dst  | op 8 | region 3 | from 3 | 0 | offset 40 |   the slot's region, and the heads'
 *   src  | offset 40 | len 24 |                         bytes from the start of the heads' region
 *
 * Order: the owner writes moves with plain stores before it pushes the batch; the executor reads
 * them after it has acquired the descriptors (exec/spw_gring.h, G1), as it does the payload. A
 * place in the table is used again once the batch that named it is retired. What an executor wrote
 * into an object is visible to whoever learns of it after the batch was reaped (G2): the handler
 * has SPW_HANDLER_WRITES.
 *
 * Two moves of batches that are in flight together never write the same byte, so their order does
 * not matter.
 */
#ifndef SPW_FRAME_MOVE_H
#define SPW_FRAME_MOVE_H

#include "base/spw_enum.h"
#include "base/spw_types.h"

#ifdef __CUDACC__
#define SPW_MOVE_HD __host__ __device__
#else
#define SPW_MOVE_HD
#endif

#define SPW_MOVE_FRAME_MAX 15u /* moves of one descriptor, at most: what four bits hold */
#define SPW_MOVE_LEN_MAX   ((1u << 24) - 1)

/* What is done with the bytes. name, bytes read for an element, bytes written for it, meaning.
 * Elements of several bytes are big-endian on the wire where the name ends in _be. */
#define SPW_MOVE_OP_LIST(X, P)                                         \
	X(P, copy, 1, 1, "bytes as they are")                          \
	X(P, fill, 0, 1, "one byte, again and again; nothing is read") \
	X(P, swap16, 2, 2, "elements of 2 bytes, byte order reversed") \
	X(P, swap32, 4, 4, "elements of 4 bytes, byte order reversed") \
	X(P, swap64, 8, 8, "elements of 8 bytes, byte order reversed") \
	X(P, i8_f16, 1, 2, "int8 to float16")                          \
	X(P, i8_f32, 1, 4, "int8 to float32")                          \
	X(P, u8_f16, 1, 2, "uint8 to float16")                         \
	X(P, u8_f32, 1, 4, "uint8 to float32")                         \
	X(P, i16_f32, 2, 4, "int16 to float32")                        \
	X(P, i16be_f32, 2, 4, "big-endian int16 to float32")           \
	X(P, head, 1, 1, "bytes of a frame's head, into its slot; not of an object")

enum spw_move_op { SPW_ENUM(SPW_MOVE_OP) };

struct spw_move {
	uint64_t dst, src;
} SPW_ALIGNED(16);
SPW_ASSERT_SIZE(struct spw_move, 16);

#define SPW_MOVE_LOG2(n) ((n) > 4 ? 3ull : (n) > 2 ? 2ull : (n) > 1 ? 1ull : 0ull)

/* Of each operation: its number at four bits of its own. */
#define SPW_MOVE_OP_IN(prefix, name, in, ...)       | SPW_MOVE_LOG2(in) << 4 * SPW_MOVE_OP_##name
#define SPW_MOVE_OP_OUT(prefix, name, in, out, ...) | SPW_MOVE_LOG2(out) << 4 * SPW_MOVE_OP_##name

/* Returns: the binary logarithm of the bytes that an element of the operation has where it is read,
 *          0 for fill, and where it is written. Thread: any. */
SPW_MOVE_HD SPW_INLINE uint32_t spw_move_in_log2(uint32_t op)
{
	return (uint32_t)((0ull SPW_MOVE_OP_LIST(SPW_MOVE_OP_IN, )) >> 4 * op) & 15;
}
SPW_MOVE_HD SPW_INLINE uint32_t spw_move_out_log2(uint32_t op)
{
	return (uint32_t)((0ull SPW_MOVE_OP_LIST(SPW_MOVE_OP_OUT, )) >> 4 * op) & 15;
}

/* Returns: the bytes that a move of len bytes writes. Shape: len a multiple of the op's element.
 * Thread:  any. */
SPW_MOVE_HD SPW_INLINE uint64_t spw_move_written(uint32_t op, uint64_t len)
{
	return len << (spw_move_out_log2(op) - spw_move_in_log2(op));
}

/* Purpose: builds a move.
 * Shape:   op: enum spw_move_op; region below 8; offset below 2^40; skip, len below 2^24; len a
 *          multiple of the op's element; fill: the byte of `fill`, else 0.
 * Thread:  any. */
SPW_INLINE struct spw_move spw_move_make(uint32_t op, uint32_t region, uint64_t offset,
					 uint32_t skip, uint32_t len, uint8_t fill)
{
	struct spw_move m;

	m.dst = (uint64_t)op << 56 | (uint64_t)region << 53 | offset;
	m.src = (uint64_t)fill << 56 | (uint64_t)skip << 24 | len;
	return m;
}

/* Purpose: builds a `head`: from the heads' region into the slot's.
 * Shape:   regions below 8; offsets below 2^40; len below 2^24.
 * Thread:  any. */
SPW_INLINE struct spw_move spw_move_head(uint32_t region, uint64_t offset, uint32_t from_region,
					 uint64_t from_offset, uint32_t len)
{
	struct spw_move m;

	m.dst = (uint64_t)SPW_MOVE_OP_head << 56 | (uint64_t)region << 53 |
		(uint64_t)from_region << 50 | offset;
	m.src = from_offset << 24 | len;
	return m;
}

/* Returns: where a `head` reads. Thread: any, of both. */
SPW_MOVE_HD SPW_INLINE uint32_t spw_move_get_from(uint64_t dst)
{
	return (uint32_t)(dst >> 50) & 7;
}
SPW_MOVE_HD SPW_INLINE uint64_t spw_move_get_from_offset(uint64_t src)
{
	return src >> 24;
}

/* Returns: the fields, as spw_move_make took them. Thread: any, of each. */
SPW_MOVE_HD SPW_INLINE uint32_t spw_move_get_op(uint64_t dst)
{
	return (uint32_t)(dst >> 56);
}
SPW_MOVE_HD SPW_INLINE uint32_t spw_move_get_region(uint64_t dst)
{
	return (uint32_t)(dst >> 53) & 7;
}
SPW_MOVE_HD SPW_INLINE uint64_t spw_move_get_offset(uint64_t dst)
{
	return dst & ((1ull << 40) - 1);
}
SPW_MOVE_HD SPW_INLINE uint32_t spw_move_get_skip(uint64_t src)
{
	return (uint32_t)(src >> 24) & SPW_MOVE_LEN_MAX;
}
SPW_MOVE_HD SPW_INLINE uint32_t spw_move_get_len(uint64_t src)
{
	return (uint32_t)src & SPW_MOVE_LEN_MAX;
}
SPW_MOVE_HD SPW_INLINE uint8_t spw_move_get_fill(uint64_t src)
{
	return (uint8_t)(src >> 56);
}

/* Returns: the meta word of a descriptor, which names its moves. Shape: first below 2^28, cnt up to
 *          SPW_MOVE_FRAME_MAX. Thread: any. */
SPW_INLINE uint32_t spw_move_meta(uint32_t first, uint32_t cnt)
{
	return first << 4 | cnt;
}

#endif
