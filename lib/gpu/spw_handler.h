/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Handlers: what is done with a frame. Written once, compiled for the host (C17) and for the device (CUDA C++); the
 * same body runs in every executor. A handler of one's own is a plug-in of about ten lines (examples/handler):
 *
 *   #include <gpu/spw_handler.h>
 *   SPW_HANDLER_BODY(ttl)(const struct spw_frame *frame, struct spw_lanes lanes)
 *   {
 *           if (frame->len < 34)
 *                   return spw_bad(SPW_BAD_short_frame);
 *           return spw_consume(spw_window_u8(spw_window_load(frame, lanes), 22));
 *   }
 *   SPW_HANDLER_PLUGIN(ttl, "adds up the time-to-live of every frame", 0)
 *
 * Lanes. On the device a frame is handled by a warp, or by all worker warps of a CTA when frames are few and large; on
 * the host by one lane. A body is called by every lane with its own idx; the lanes must take the same way through
 * calls named spw_lanes_*, spw_window_* and spw_for_each_chunk, and all return the same result.
 *
 * Bytes. A body reads the frame through the accessors here and in no other way: they stay inside [addr, addr + len),
 * keep several loads in flight, and never become the device's non-coherent load, which may return the last lap's
 * bytes (spw_gring.h, G1). A body that writes into the frame has SPW_HANDLER_WRITES among its flags.
 *
 * Thread: any. Nothing here allocates, blocks or keeps state.
 */
#ifndef SPW_GPU_HANDLER_H
#define SPW_GPU_HANDLER_H

#include "base/spw_types.h"
#include "gpu/spw_gring.h"
#ifdef __CUDACC__
#include "gpu/spwd_order.cuh"
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define SPW_HANDLER_ABI 1u /* grows whenever anything below, or a word format of spw_gring.h, changes */
#define SPW_HANDLER_SYMBOL "spw_handler_plugin"

enum spw_handler_flag {
	SPW_HANDLER_WRITES = 1u << 0, /* changes bytes of the frame: completions owe a system fence (G2) */
};

/* One frame or message, at the address where this executor sees it. */
struct spw_frame {
	uint8_t *addr;
	uint32_t len;   /* bytes, 1 .. SPW_DESC_LEN_MAX */
	uint32_t meta;  /* flow hash or immediate (spw_desc.meta) */
	uint32_t flags; /* low bits of enum spw_desc_flag */
};

struct spw_result {
	uint64_t digest; /* added up over the batch (low 56 bits), then over the run */
	uint32_t verdict; /* enum spw_verdict */
	uint32_t reason;  /* enum spw_bad, with SPW_VERDICT_BAD */
};

SPW_HD SPW_INLINE struct spw_result spw_verdict(enum spw_verdict verdict, uint32_t reason, uint64_t digest)
{
	struct spw_result r;

	r.digest = digest;
	r.verdict = (uint32_t)verdict;
	r.reason = reason;
	return r;
}

SPW_HD SPW_INLINE struct spw_result spw_consume(uint64_t digest)
{
	return spw_verdict(SPW_VERDICT_CONSUME, 0, digest);
}

SPW_HD SPW_INLINE struct spw_result spw_echo(uint64_t digest)
{
	return spw_verdict(SPW_VERDICT_ECHO, 0, digest);
}

SPW_HD SPW_INLINE struct spw_result spw_bad(enum spw_bad reason)
{
	return spw_verdict(SPW_VERDICT_BAD, (uint32_t)reason, 0);
}

/* ---- lanes ---------------------------------------------------------------------------------------- */

struct spw_lanes {
	uint32_t idx, cnt; /* cnt: 1 on the host; 32 or a multiple of it on the device */
	void *scratch;     /* device, cnt > 32: shared memory for reductions */
};

/* Purpose: the sum over all lanes, in every lane. */
SPW_HD SPW_INLINE uint64_t spw_lanes_sum(struct spw_lanes lanes, uint64_t v)
{
#ifdef __CUDA_ARCH__
	return spwd_lanes_sum(lanes.idx, lanes.cnt, (uint64_t *)lanes.scratch, v);
#else
	(void)lanes;
	return v;
#endif
}

/* Purpose: the exclusive or over all lanes, in every lane. */
SPW_HD SPW_INLINE uint32_t spw_lanes_xor(struct spw_lanes lanes, uint32_t v)
{
#ifdef __CUDA_ARCH__
	return (uint32_t)spwd_lanes_xor(lanes.idx, lanes.cnt, (uint64_t *)lanes.scratch, v);
#else
	(void)lanes;
	return v;
#endif
}

/* Purpose: no lane goes on before all have come here; what they read and wrote before is done. */
SPW_HD SPW_INLINE void spw_lanes_sync(struct spw_lanes lanes)
{
#ifdef __CUDA_ARCH__
	spwd_lanes_sync(lanes.cnt);
#else
	(void)lanes;
#endif
}

/* ---- the frame's bytes ----------------------------------------------------------------------------- */

/* Purpose: the part [off, off + len) of a frame as a frame. The caller has checked that it lies inside. */
SPW_HD SPW_INLINE struct spw_frame spw_frame_part(const struct spw_frame *frame, uint32_t off, uint32_t len)
{
	struct spw_frame part = *frame;

	part.addr = frame->addr + off;
	part.len = len;
	return part;
}

/* One byte; a load of its own. For headers use the window, for bodies spw_for_each_chunk. */
SPW_HD SPW_INLINE uint32_t spw_frame_u8(const struct spw_frame *frame, uint32_t off)
{
#ifdef __CUDA_ARCH__
	return spwd_load_u8(frame->addr + off);
#else
	return frame->addr[off];
#endif
}

SPW_HD SPW_INLINE void spw_frame_put_u8(const struct spw_frame *frame, uint32_t off, uint32_t v)
{
#ifdef __CUDA_ARCH__
	spwd_store_u8(frame->addr + off, v);
#else
	frame->addr[off] = (uint8_t)v;
#endif
}

/* The first SPW_WINDOW_BYTES of a frame, loaded by one instruction of the whole warp and kept in registers: fields are
 * then read without touching memory. Bytes past the end of the frame are 0. */
#define SPW_WINDOW_BYTES 128u

struct spw_window {
#ifdef __CUDA_ARCH__
	uint32_t w; /* bytes 4 * lane .. 4 * lane + 3 */
#else
	const uint8_t *p;
	uint32_t len;
#endif
};

SPW_HD SPW_INLINE struct spw_window spw_window_load(const struct spw_frame *frame, struct spw_lanes lanes)
{
	struct spw_window win;

#ifdef __CUDA_ARCH__
	win.w = spwd_window_word(frame->addr, frame->len, lanes.idx & 31u);
#else
	(void)lanes;
	win.p = frame->addr;
	win.len = frame->len;
#endif
	return win;
}

/* off < SPW_WINDOW_BYTES; every lane calls it, each for a byte of its own if it likes. */
SPW_HD SPW_INLINE uint32_t spw_window_u8(struct spw_window win, uint32_t off)
{
#ifdef __CUDA_ARCH__
	return (__shfl_sync(0xffffffffu, win.w, off >> 2) >> (8 * (off & 3))) & 0xff;
#else
	return off < win.len ? win.p[off] : 0;
#endif
}

/* Big-endian 16 bits at off < SPW_WINDOW_BYTES - 1. */
SPW_HD SPW_INLINE uint32_t spw_window_be16(struct spw_window win, uint32_t off)
{
	return spw_window_u8(win, off) << 8 | spw_window_u8(win, off + 1);
}

/* ---- walking over all bytes -------------------------------------------------------------------------
 * The frame lies on a grid of 16-byte cells that begins at the multiple of 128 at or below its address. A chunk is one
 * cell: its bytes in memory order in w[], bytes of the cell that are outside the frame as 0. Lanes take cells in turn,
 * SPW_WALK_DEPTH loads in flight each, so the cells of 8 lanes are one whole line of memory. Lane idx has the cells
 * idx, idx + cnt, idx + 2 cnt ...; cells outside the frame come as empty chunks (len 0).
 *
 *   spw_for_each_chunk(c, frame, lanes)
 *           sum += c->w[0];
 *
 * No break out of it. The device loads whole cells, as memory hands out nothing smaller than 32 bytes, and clears what is
 * not the frame's before anyone sees it; slots are multiples of 64 bytes, so a cell never leaves its slot. The host
 * touches the frame's bytes only. */
#define SPW_WALK_DEPTH 4
#define SPW_WALK_LINE  128u

struct spw_chunk {
	uint32_t w[4];
	uint32_t len; /* bytes of the frame in this cell, 0 .. 16 */
	int32_t off;  /* of the cell's first byte from the start of the frame; negative in the first cell */
};

struct spw_walk {
	uint8_t *base;      /* where the grid begins */
	uint32_t head, end; /* first byte of the frame on the grid, and the one after its last */
	uint32_t cell;      /* this lane's next */
	uint32_t stride;    /* lanes */
	uint32_t turns;     /* left */
	struct spw_chunk chunk[SPW_WALK_DEPTH];
};

/* The grid's last cell of a frame. */
SPW_HD SPW_INLINE uint32_t spw_walk_last_cell(const struct spw_frame *frame)
{
	return ((uint32_t)((uintptr_t)frame->addr & (SPW_WALK_LINE - 1)) + frame->len - 1) / 16;
}

SPW_HD SPW_INLINE struct spw_walk spw_walk_begin(const struct spw_frame *frame, struct spw_lanes lanes)
{
	struct spw_walk walk;
	uint32_t per_turn = lanes.cnt * SPW_WALK_DEPTH;

	walk.head = (uint32_t)((uintptr_t)frame->addr & (SPW_WALK_LINE - 1));
	walk.base = frame->addr - walk.head;
	walk.end = walk.head + frame->len;
	walk.stride = lanes.cnt;
	walk.turns = frame->len ? (spw_walk_last_cell(frame) + per_turn) / per_turn : 0;
	walk.cell = lanes.idx;
	return walk;
}

/* Which bytes of its cell a chunk has. */
SPW_HD SPW_INLINE void spw_cell_place(const struct spw_walk *walk, uint32_t cell, struct spw_chunk *c)
{
	uint32_t at = 16 * cell, lo = SPW_MAX(at, walk->head), hi = SPW_MIN(at + 16, walk->end);

	c->w[0] = c->w[1] = c->w[2] = c->w[3] = 0;
	c->len = hi > lo ? hi - lo : 0;
	c->off = (int32_t)(at - walk->head);
}

/* Loads this lane's chunks of one turn: all loads first, then what is not the frame's is cleared. False after the last. */
SPW_HD SPW_INLINE bool spw_walk_load(struct spw_walk *walk)
{
	if (!walk->turns)
		return false;
	walk->turns--;
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
	for (uint32_t i = 0; i < SPW_WALK_DEPTH; i++) {
		struct spw_chunk *c = &walk->chunk[i];

		spw_cell_place(walk, walk->cell + i * walk->stride, c);
#ifdef __CUDA_ARCH__
		spwd_load_16_if(c->len, walk->base + 16 * (uint64_t)(walk->cell + i * walk->stride), c->w);
	}
#pragma unroll
	for (uint32_t i = 0; i < SPW_WALK_DEPTH; i++) {
		struct spw_chunk *c = &walk->chunk[i];

		if (c->len - 1 < 15)
			spwd_cell_clear(c->w, c->off < 0 ? (uint32_t)-c->off : 0, c->len);
#else
		if (c->len)
			__builtin_memcpy((uint8_t *)c->w + (c->off < 0 ? -c->off : 0),
					 walk->base + walk->head + (c->off < 0 ? 0 : c->off), c->len);
#endif
	}
	walk->cell += SPW_WALK_DEPTH * walk->stride;
	return true;
}

#ifdef __CUDA_ARCH__
#define SPW_UNROLL _Pragma("unroll")
#else
#define SPW_UNROLL
#endif

#define spw_for_each_chunk(c, frame, lanes)                                                        \
	for (struct spw_walk walk_##c = spw_walk_begin(frame, lanes); spw_walk_load(&walk_##c);)   \
		SPW_UNROLL                                                                         \
		for (int i_##c = 0; i_##c < SPW_WALK_DEPTH; i_##c++)                               \
			for (const struct spw_chunk *c = &walk_##c.chunk[i_##c]; c; c = NULL)

/* Bytes of a frame added up, this lane's share. */
SPW_HD SPW_INLINE uint64_t spw_bytes_sum4(uint32_t w, uint64_t sum)
{
#ifdef __CUDA_ARCH__
	return sum + __dp4a(w, 0x01010101u, 0u);
#else
	w = (w & 0x00ff00ffu) + ((w >> 8) & 0x00ff00ffu);
	return sum + (w & 0xffff) + (w >> 16);
#endif
}

/* ---- what the executors call ------------------------------------------------------------------------ */

/* A batch's results, as completion words without tags: w[0..2] verdicts, w[5] reasons, w[6] digest. */
struct spw_tally {
	uint64_t verdict[3];
	uint64_t bad;
	uint64_t digest;
	uint64_t frames; /* counted as they were executed */
};

SPW_HD SPW_INLINE void spw_tally_add(struct spw_tally *tally, uint32_t i, struct spw_result r)
{
	if (r.verdict > SPW_VERDICT_BAD)
		r = spw_bad(SPW_BAD_verdict);
	if (spw_unlikely(r.verdict == SPW_VERDICT_BAD)) {
		if (r.reason >= SPW_GRING_REASON_MAX)
			r.reason = SPW_BAD_handler;
		tally->bad += 1ull << (7 * r.reason);
	}
	/* selected, not indexed: the device keeps the words in registers */
	tally->verdict[0] |= i < 28 ? (uint64_t)r.verdict << (2 * i) : 0;
	tally->verdict[1] |= i >= 28 && i < 56 ? (uint64_t)r.verdict << (2 * (i - 28)) : 0;
	tally->verdict[2] |= i >= 56 ? (uint64_t)r.verdict << (2 * (i - 56)) : 0;
	tally->digest += r.digest;
	tally->frames++;
}

SPW_HD SPW_INLINE struct spw_frame spw_frame_of(uint64_t lo, uint64_t hi, const uint64_t *region_base)
{
	struct spw_frame frame;

	frame.addr = (uint8_t *)(uintptr_t)(region_base[spw_gring_hi_region(hi)] + spw_gring_lo_offset(lo));
	frame.len = spw_gring_hi_len(hi);
	frame.meta = spw_gring_meta(lo, hi);
	frame.flags = spw_gring_hi_flags(hi);
	return frame;
}

/* Purpose: runs the handler over one batch on this CPU. Shape: desc[cnt], readable (G1 done by the caller);
 * tally_out is written whole. */
typedef void spw_handler_batch_fn(const struct spw_gring_desc *desc, uint32_t cnt, const uint64_t *region_base,
				  struct spw_tally *tally_out);

struct spw_kernel_ring; /* gpu/spw_kernel.h */
struct spw_kernel_info;

/* The device side of a handler; each returns a cudaError_t as int. Filled by gpu/spwd_kernel.cuh, so that a plug-in
 * launches its kernels through the CUDA runtime that it was linked with. stream is a cudaStream_t. */
struct spw_handler_cuda {
	int (*load)(uint32_t threads, struct spw_kernel_info *info_out);
	int (*persistent)(const struct spw_kernel_ring *ring, uint32_t threads, void *stream);
	int (*batch)(const struct spw_kernel_ring *ring, uint32_t unit, uint32_t threads, void *stream);
	const char *(*error_text)(int rc);
};

struct spw_handler {
	uint32_t abi;   /* SPW_HANDLER_ABI */
	uint32_t bytes; /* sizeof(struct spw_handler) */
	const char *name;
	const char *text;   /* one clause for people */
	uint32_t flags;     /* enum spw_handler_flag */
	uint32_t reserved;
	spw_handler_batch_fn *host;
	const struct spw_handler_cuda *cuda; /* NULL: no device code */
};

/* Purpose: a built-in handler by name, or a plug-in by path (a name with a '/' in it).
 * Lifetime: built-in: the process; plug-in: until spw_handler_close. Errors: -ENOENT with the list of names, or the
 * loader's text; -EINVAL no symbol, wrong ABI. Thread: setup. */
int spw_handler_open(const char *name, const struct spw_handler **handler_out);
/* NULL and built-ins are fine. */
void spw_handler_close(const struct spw_handler *handler);
/* The i-th built-in, NULL after the last. */
const struct spw_handler *spw_handler_builtin(uint32_t i);

#define SPW_HANDLER_BODY(name) SPW_HD SPW_INLINE struct spw_result spw_body_##name

#define SPW_HANDLER_BATCH(name)                                                                                \
	static void spw_batch_##name(const struct spw_gring_desc *desc, uint32_t cnt, const uint64_t *region_base, \
				     struct spw_tally *tally_out)                                              \
	{                                                                                                      \
		struct spw_lanes lanes = {0, 1, NULL};                                                         \
		struct spw_tally tally = {{0, 0, 0}, 0, 0, 0};                                                 \
                                                                                                               \
		for (uint32_t i = 0; i < cnt; i++) {                                                           \
			struct spw_frame frame = spw_frame_of(desc[i].lo, desc[i].hi, region_base);            \
                                                                                                               \
			spw_tally_add(&tally, i, spw_body_##name(&frame, lanes));                              \
		}                                                                                              \
		*tally_out = tally;                                                                            \
	}

#ifdef __CUDACC__
#define SPW_HANDLER_CUDA(name, flag_bits) SPWD_HANDLER_LAUNCHERS(name, flag_bits)
#define SPW_HANDLER_CUDA_PTR(name) (&spw_cuda_##name)
#else
#define SPW_HANDLER_CUDA(name, flag_bits)
#define SPW_HANDLER_CUDA_PTR(name) NULL
#endif

#ifdef __cplusplus
#define SPW_PLUGIN_SYMBOL                                                                                      \
	extern "C" {                                                                                           \
	extern __attribute__((visibility("default"))) const struct spw_handler spw_handler_plugin;             \
	}
#else
#define SPW_PLUGIN_SYMBOL extern __attribute__((visibility("default"))) const struct spw_handler spw_handler_plugin;
#endif

#define SPW_HANDLER_INIT(name, clause, flag_bits, cuda_ptr)                                                    \
	{SPW_HANDLER_ABI, sizeof(struct spw_handler), #name, clause, flag_bits, 0, spw_batch_##name, cuda_ptr}

/* The line that makes a plug-in of a body. */
#define SPW_HANDLER_PLUGIN(name, clause, flag_bits)                                                            \
	SPW_HANDLER_BATCH(name)                                                                                \
	SPW_HANDLER_CUDA(name, flag_bits)                                                                      \
	SPW_PLUGIN_SYMBOL                                                                                      \
	const struct spw_handler spw_handler_plugin =                                               \
		SPW_HANDLER_INIT(name, clause, flag_bits, SPW_HANDLER_CUDA_PTR(name));

#ifdef __cplusplus
}
#endif

#ifdef __CUDACC__
#include "gpu/spwd_kernel.cuh"
#endif
#endif
