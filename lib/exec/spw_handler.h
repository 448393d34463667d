/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Handlers: what is done with a frame. A handler is written once and compiled for the host (C17)
 * and for the device (CUDA C++); the same body runs in every executor. Your own handler is a
 * plug-in of about ten lines (examples/handler), loaded with --handler ./ttl.so:
 *
 *   #include <exec/spw_handler.h>
 *   SPW_HANDLER_BODY(ttl)(const struct spw_frame *frame, struct spw_lanes lanes)
 *   {
 *           if (frame->len < 34)
 *                   return spw_bad(SPW_BAD_short_frame);
 *           return spw_consume(spw_window_u8(spw_window_load(frame, lanes), 22));
 *   }
 *   SPW_HANDLER_PLUGIN(ttl, "adds up the time-to-live of every frame", 0)
 *
 * What a body gets and returns:
 *
 *   frame ──> body ──> spw_consume(digest)   done with it; the slot is recycled
 *                  ──> spw_echo(digest)      send it back from the same slot
 *                  ──> spw_bad(reason)       counted by reason; the slot is recycled
 *
 * The digests of all frames are added up, modulo 2^56, and printed, so that a run can be checked.
 *
 * State. A handler that counts has a state: a struct of its own, one block for each executor ring
 * (receive queue) that it serves, which the body finds as lanes.state. Counters and arguments are
 * fields of it that the plug-in declares; whatever reports the run then shows the counters, added
 * up over the blocks, and of a table its sum and its used places, the largest first: 4 as text,
 * 4096 in JSON, 160 of all tables in telemetry and metrics, and how many are left out
 * (examples/handler/syn.c). Places count from 0, or from what SPW_TABLE_FROM says:
 *
 *   struct syn { uint64_t port, syns[65536]; };
 *   ... SPW_TABLE(struct syn, syns, "port", "TCP SYNs by destination port")
 *   ... SPW_ARG(struct syn, port, 0, 65535, 0, "count this port only; 0: all")
 *
 *   --handler ./syn.so:port=443
 *          │ defaults, arguments, init: once, at set-up
 *          ▼
 *       initial ─┬─copy─> block of ring 0 ── body: spw_count ─┬─sum─> text, JSON, telemetry
 *                └─copy─> block of ring 1 ── body: spw_count ─┘       at the end fini
 *
 * A handler without a state pays nothing for this. Order: on the host a block has one writer, its
 * ring's executor, and spw_count is a relaxed store; on the device the warps of all units of the
 * ring share it, so spw_count is one relaxed atomic addition by lane 0. Whoever samples loads
 * relaxed: each number is whole, they are not of one moment, and after spw_exec_stop they are
 * exact. Other fields are the body's own: on the host it may write them, on the device only by
 * atomics of CUDA, since other warps run the body at the same time.
 *
 * Lanes. On the device a frame is handled by a warp, or by several warps of a CTA when frames are
 * few and large; on the host by one lane. Every lane calls the body with its own idx. Calls
 * named spw_lanes_* and spw_window_*, and spw_for_each_chunk, are collective: all lanes must reach
 * the same ones in the same order. All lanes return the same result.
 *
 * Bytes. A body reads the frame through the accessors here and in no other way: they stay inside
 * [addr, addr + len), keep several loads in flight, and never become the device's non-coherent
 * load, which may return the bytes of an earlier frame (spw_gring.h, G1). A body that writes into
 * the frame must have SPW_HANDLER_WRITES among its flags.
 *
 * A frame can change while it is read: with mode=rc,op=write the peer keeps the right to write into
 * its own slots. Load a value once, check that copy and use that copy; a length or an offset that
 * is loaded a second time may differ from the one that was checked. The echoed bytes may also
 * differ from those that were read. Bytes of other peers can never appear in the slot.
 *
 * Thread: any. Nothing that a body calls allocates or blocks.
 */
#ifndef SPW_EXEC_HANDLER_H
#define SPW_EXEC_HANDLER_H

#include <stddef.h>

#include "base/spw_types.h"
#include "exec/spw_gring.h"
#ifdef __CUDACC__
#include "exec/spwd_order.cuh"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Incremented whenever anything below, or a word format of spw_gring.h, changes. */
#define SPW_HANDLER_ABI    4u
#define SPW_HANDLER_SYMBOL "spw_handler_plugin" /* what a plug-in exports */

enum spw_handler_flag {
	/* Changes bytes of the frame: the executor fences before it completes the batch (G2). */
	SPW_HANDLER_WRITES = 1u << 0,
};

/* One frame or message, at the address that this executor uses. */
struct spw_frame {
	uint8_t *addr;
	uint32_t len;   /* bytes, 1 .. SPW_DESC_LEN_MAX */
	uint32_t meta;  /* flow hash or immediate (spw_desc.meta) */
	uint32_t flags; /* low bits of enum spw_desc_flag */
};

/* What a body returns; made by spw_consume, spw_echo or spw_bad. */
struct spw_result {
	uint64_t digest;  /* added up over the batch (low 56 bits), then over the run */
	uint32_t verdict; /* enum spw_verdict */
	uint32_t reason;  /* enum spw_bad, with SPW_VERDICT_BAD */
};

SPW_HD SPW_INLINE struct spw_result spw_verdict(enum spw_verdict verdict, uint32_t reason,
						uint64_t digest)
{
	struct spw_result r;

	r.digest = digest;
	r.verdict = (uint32_t)verdict;
	r.reason = reason;
	return r;
}

/* Done with the frame. digest: any number, added up over the run. */
SPW_HD SPW_INLINE struct spw_result spw_consume(uint64_t digest)
{
	return spw_verdict(SPW_VERDICT_CONSUME, 0, digest);
}

/* Send the frame back; the body has made it what is to be sent. */
SPW_HD SPW_INLINE struct spw_result spw_echo(uint64_t digest)
{
	return spw_verdict(SPW_VERDICT_ECHO, 0, digest);
}

/* The frame is not what the handler expects; SPW_BAD_handler if no reason fits. */
SPW_HD SPW_INLINE struct spw_result spw_bad(enum spw_bad reason)
{
	return spw_verdict(SPW_VERDICT_BAD, (uint32_t)reason, 0);
}

/* ---- lanes ---- */

/* Which of the lanes that handle this frame calls the body. */
struct spw_lanes {
	uint32_t idx, cnt; /* cnt: 1 on the host; 32 or a multiple of it on the device */
	/* device, cnt > 32: shared memory for reductions, and a barrier of these lanes */
	void *scratch;
	uint32_t bar;
	void *state; /* the ring's block; NULL for a handler without a state */
	/* where each memory region begins, [SPW_REGION_MAX], at this executor's address */
	const uint64_t *region_base;
};

/* Purpose: the sum of v over all lanes, returned to every lane. Collective. */
SPW_HD SPW_INLINE uint64_t spw_lanes_sum(struct spw_lanes lanes, uint64_t v)
{
#ifdef __CUDA_ARCH__
	return spwd_lanes_reduce<0>(lanes.idx, lanes.cnt, lanes.bar, (uint64_t *)lanes.scratch, v);
#else
	(void)lanes;
	return v;
#endif
}

/* Purpose: the exclusive or of v over all lanes, returned to every lane. Collective. */
SPW_HD SPW_INLINE uint32_t spw_lanes_xor(struct spw_lanes lanes, uint32_t v)
{
#ifdef __CUDA_ARCH__
	return (uint32_t)spwd_lanes_reduce<1>(lanes.idx, lanes.cnt, lanes.bar,
					      (uint64_t *)lanes.scratch, v);
#else
	(void)lanes;
	return v;
#endif
}

/* Purpose: a barrier of all lanes: reads and writes before it are done when it returns. Collective.
 */
SPW_HD SPW_INLINE void spw_lanes_sync(struct spw_lanes lanes)
{
#ifdef __CUDA_ARCH__
	spwd_lanes_sync(lanes.cnt, lanes.bar);
#else
	(void)lanes;
#endif
}

/* Purpose: adds n to a counter of the state, once for all lanes; n is that of lane 0.
 * Order:   relaxed; see the head of this file. */
SPW_HD SPW_INLINE void spw_count(struct spw_lanes lanes, uint64_t *counter, uint64_t n)
{
#ifdef __CUDA_ARCH__
	if (lanes.idx == 0)
		spwd_gpu_add_rlx(counter, n);
#else
	(void)lanes;
	spw_thr_count(counter, n);
#endif
}

/* ---- the frame's bytes ---- */

/* Purpose: the part [off, off + len) of a frame, as a frame.
 * Shape:   the caller has checked that it lies within the frame. */
SPW_HD SPW_INLINE struct spw_frame spw_frame_part(const struct spw_frame *frame, uint32_t off,
						  uint32_t len)
{
	struct spw_frame part = *frame;

	part.addr = frame->addr + off;
	part.len = len;
	return part;
}

/* Purpose: one byte, off < len, by a load of its own. For headers use the window, for payloads
 *          spw_for_each_chunk. */
SPW_HD SPW_INLINE uint32_t spw_frame_u8(const struct spw_frame *frame, uint32_t off)
{
#ifdef __CUDA_ARCH__
	return spwd_load_u8(frame->addr + off);
#else
	return frame->addr[off];
#endif
}

/* Purpose: writes one byte, off < len. The handler needs SPW_HANDLER_WRITES. */
SPW_HD SPW_INLINE void spw_frame_put_u8(const struct spw_frame *frame, uint32_t off, uint32_t v)
{
#ifdef __CUDA_ARCH__
	spwd_store_u8(frame->addr + off, v);
#else
	frame->addr[off] = (uint8_t)v;
#endif
}

/* The first SPW_WINDOW_BYTES of a frame, loaded by one instruction of the whole warp and kept in
 * registers, so that fields are read without memory accesses. Bytes past the frame's end are 0. */
#define SPW_WINDOW_BYTES 128u

struct spw_window {
#ifdef __CUDA_ARCH__
	uint32_t w; /* bytes 4 * lane .. 4 * lane + 3 */
#else
	const uint8_t *p;
	uint32_t len;
#endif
};

SPW_HD SPW_INLINE struct spw_window spw_window_load(const struct spw_frame *frame,
						    struct spw_lanes lanes)
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

/* Purpose: the byte at off < SPW_WINDOW_BYTES; off may differ between lanes. Collective. */
SPW_HD SPW_INLINE uint32_t spw_window_u8(struct spw_window win, uint32_t off)
{
#ifdef __CUDA_ARCH__
	return (__shfl_sync(0xffffffffu, win.w, off >> 2) >> (8 * (off & 3))) & 0xff;
#else
	return off < win.len ? win.p[off] : 0;
#endif
}

/* Purpose: the big-endian 16 bits at off < SPW_WINDOW_BYTES - 1. Collective. */
SPW_HD SPW_INLINE uint32_t spw_window_be16(struct spw_window win, uint32_t off)
{
	return spw_window_u8(win, off) << 8 | spw_window_u8(win, off + 1);
}

/* ---- walking over all bytes ---- */

/* The frame lies on a grid of 16-byte cells that begins at the multiple of 128 at or below its
 * address. A chunk is one cell: its bytes in memory order in w[], bytes outside the frame as 0.
 *
 *   cell        0        1        2        3      ...
 *   grid    |........|....####|########|###.....|        # bytes of the frame, . cleared to 0
 *   lane        0        1        2        3      ...    lane idx has cells idx, idx + cnt, ...
 *
 * Each lane has SPW_WALK_DEPTH loads in flight; the cells of 8 lanes are one line of memory. Cells
 * outside the frame come as empty chunks (len 0).
 *
 *   spw_for_each_chunk(c, frame, lanes)
 *           sum += c->w[0];
 *
 * The loop must not be left by break. The device loads whole cells, since memory transfers 32 bytes
 * at least, and clears bytes outside the frame before the body gets them; slots are multiples of 64
 * bytes, so a cell never leaves its slot. The host touches the frame's bytes only. */
#ifdef __CUDACC__
#define SPW_WALK_DEPTH 5
#else
#define SPW_WALK_DEPTH 4 /* a CPU keeps its loads in flight by itself; a fifth chunk costs time */
#endif
#define SPW_WALK_LINE 128u

struct spw_chunk {
	uint32_t w[4];
	uint32_t len; /* bytes of the frame in this cell, 0 .. 16 */
	/* Of the cell's first byte, from the frame's start; negative if the frame starts within the
	 * cell. */
	int32_t off;
};

struct spw_walk {
	uint8_t *base;      /* where the grid begins */
	uint32_t head, end; /* first byte of the frame on the grid, and the one after its last */
	uint32_t cell;      /* this lane's next */
	uint32_t stride;    /* lanes */
	uint32_t turns;     /* left */
	struct spw_chunk chunk[SPW_WALK_DEPTH];
};

/* The number of the frame's last cell on the grid. */
SPW_HD SPW_INLINE uint32_t spw_walk_last_cell(const struct spw_frame *frame)
{
	return ((uint32_t)((uintptr_t)frame->addr & (SPW_WALK_LINE - 1)) + frame->len - 1) / 16;
}

/* Private to spw_for_each_chunk, as are the next two. */
SPW_HD SPW_INLINE struct spw_walk spw_walk_begin(const struct spw_frame *frame,
						 struct spw_lanes lanes)
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

/* Places a chunk: which bytes of its cell belong to the frame. */
SPW_HD SPW_INLINE void spw_cell_place(const struct spw_walk *walk, uint32_t cell,
				      struct spw_chunk *c)
{
	uint32_t at = 16 * cell, lo = SPW_MAX(at, walk->head), hi = SPW_MIN(at + 16, walk->end);

	c->w[0] = c->w[1] = c->w[2] = c->w[3] = 0;
	c->len = hi > lo ? hi - lo : 0;
	c->off = (int32_t)(at - walk->head);
}

/* Loads this lane's chunks of one turn: first all loads, then bytes outside the frame are cleared.
 * Returns false after the last turn. */
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
		spwd_load_16_if(c->len, walk->base + 16 * (uint64_t)(walk->cell + i * walk->stride),
				c->w);
	}
#pragma unroll
	for (uint32_t i = 0; i < SPW_WALK_DEPTH; i++) {
		struct spw_chunk *c = &walk->chunk[i];

		if (c->len - 1 < 15)
			spwd_cell_clear(c->w, c->off < 0 ? (uint32_t)-c->off : 0, c->len);
#else
		if (c->len)
			__builtin_memcpy((uint8_t *)c->w + (c->off < 0 ? -c->off : 0),
					 walk->base + walk->head + (c->off < 0 ? 0 : c->off),
					 c->len);
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

#define spw_for_each_chunk(c, frame, lanes)                                                      \
	for (struct spw_walk walk_##c = spw_walk_begin(frame, lanes); spw_walk_load(&walk_##c);) \
		SPW_UNROLL                                                                       \
	for (int i_##c = 0; i_##c < SPW_WALK_DEPTH; i_##c++)                                     \
		for (const struct spw_chunk *c = &walk_##c.chunk[i_##c]; c; c = NULL)

/* Purpose: adds the four bytes of w to sum. */
SPW_HD SPW_INLINE uint64_t spw_bytes_sum4(uint32_t w, uint64_t sum)
{
#ifdef __CUDA_ARCH__
	return sum + __dp4a(w, 0x01010101u, 0u);
#else
	w = (w & 0x00ff00ffu) + ((w >> 8) & 0x00ff00ffu);
	return sum + (w & 0xffff) + (w >> 16);
#endif
}

/* ---- what the executors call ---- */

/* A batch's results, as completion words without tags: w[0..2] verdicts, w[5] reasons, w[6] digest.
 */
struct spw_tally {
	uint64_t verdict[3];
	uint64_t bad, digest;
	uint64_t frames; /* executed */
};

/* Purpose: enters the result of frame i, 0 .. 63; an unknown verdict becomes bad, reason verdict.
 */
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

/* Purpose: the frame that a descriptor's two words stand for, at this executor's address. */
SPW_HD SPW_INLINE struct spw_frame spw_frame_of(uint64_t lo, uint64_t hi,
						const uint64_t *region_base)
{
	struct spw_frame frame;

	frame.addr = (uint8_t *)(uintptr_t)(region_base[spw_gring_hi_region(hi)] +
					    spw_gring_lo_offset(lo));
	frame.len = spw_gring_hi_len(hi);
	frame.meta = spw_gring_meta(lo, hi);
	frame.flags = spw_gring_hi_flags(hi);
	return frame;
}

/* What all batches of a ring have in common. */
struct spw_handler_env {
	uint64_t region_base[SPW_REGION_MAX];
	void *state; /* the ring's block, or NULL */
};

/* Purpose: runs the handler over one batch on this CPU.
 * Shape:   desc[cnt]; the caller has acquired them (G1). tally_out is written whole.
 * Thread:  owner (the executor's unit that runs the batch). */
typedef void spw_handler_batch_fn(const struct spw_gring_desc *desc, uint32_t cnt,
				  const struct spw_handler_env *env, struct spw_tally *tally_out);

struct spw_kernel_ring; /* exec/spw_kernel.h */
struct spw_kernel_info;

/* The device side of a handler; each returns a cudaError_t as int. Filled by exec/spwd_kernel.cuh,
 * so that a plug-in launches its kernels through the CUDA runtime that it was linked with. stream
 * is a cudaStream_t. */
struct spw_handler_cuda {
	int (*load)(uint32_t threads, struct spw_kernel_info *info_out);
	int (*persistent)(const struct spw_kernel_ring *ring, uint32_t threads, void *stream);
	int (*batch)(const struct spw_kernel_ring *ring, uint32_t unit, uint32_t threads,
		     void *stream);
	const char *(*error_text)(int rc);
};

/* ---- the state, as a plug-in declares it ---- */

/* A counter: a uint64_t of the state that only grows, or a table of cnt of them. Names are metrics:
 * small letters, digits and _. Lists of counters and of arguments end with {0}. */
struct spw_handler_counter {
	const char *name, *help;
	const char *index; /* what a table's place stands for, such as "port"; NULL: no table */
	uint32_t offset, cnt;
	uint64_t first; /* what its place 0 stands for */
};

/* An argument: a uint64_t of the state, or a text in a char array of `bytes`. */
struct spw_handler_arg {
	const char *name, *help;
	uint64_t min, max, dflt; /* of a number; a text begins as "" */
	uint32_t offset, bytes;  /* bytes 0: a number */
};

struct spw_handler_state {
	size_t bytes;
	const struct spw_handler_counter *counter; /* SPW_HANDLER_COUNTER_MAX at most */
	const struct spw_handler_arg *arg;         /* NULL: takes none */
	/* Once, with the arguments set: opens or fills in what the run needs. Returns: NULL, or a
	 * clause that says what is wrong. NULL: nothing to do. Thread: setup. */
	const char *(*init)(void *state);
	/* Once, after a good init and the last batch, with the sums of all blocks in the counters.
	 * NULL: nothing to do. Thread: setup. */
	void (*fini)(void *state);
};

#define SPW_HANDLER_COUNTER_MAX 64u

#define SPW_COUNTER(type, field, help)                          \
	{                                                       \
#field, help, NULL, offsetof(type, field), 1, 0 \
	}
#define SPW_TABLE(type, field, index, help) SPW_TABLE_FROM(type, field, index, 0, help)
#define SPW_TABLE_FROM(type, field, index, first, help)                                           \
	{                                                                                         \
#field, help, index, offsetof(type, field), sizeof(((type *)0)->field) / 8, first \
	}
#define SPW_ARG(type, field, min, max, dflt, help)                     \
	{                                                              \
#field, help, min, max, dflt, offsetof(type, field), 0 \
	}
#define SPW_ARG_TEXT(type, field, help)                                                  \
	{                                                                                \
#field, help, 0, 0, 0, offsetof(type, field), sizeof(((type *)0)->field) \
	}

/* A handler as executors use it; SPW_HANDLER_PLUGIN defines one. */
struct spw_handler {
	uint32_t abi;   /* SPW_HANDLER_ABI */
	uint32_t bytes; /* sizeof(struct spw_handler) */
	const char *name;
	const char *text; /* one clause for people */
	uint32_t flags;   /* enum spw_handler_flag */
	uint32_t reserved;
	spw_handler_batch_fn *host;
	const struct spw_handler_cuda *cuda;   /* NULL: no device code */
	const struct spw_handler_state *state; /* NULL: none */
	/* Filled by spw_handler_open, NULL in a plug-in: what each block begins as, and the same
	 * with the counters of all blocks that were closed. */
	const void *initial;
	void *total;
};

/* Purpose:  opens a built-in handler by name, or a plug-in by path (a name with a '/' in it), which
 *           may have arguments: PATH:key=value,key=value. A plug-in that is opened twice is two
 *           handlers, each with its own arguments and counters.
 * Lifetime: built-in: the process; plug-in: until spw_handler_close.
 * Errors:   -ENOENT with the list of names, or the loader's text; -EINVAL no symbol, wrong ABI, an
 *           argument that it does not take, or what its init returned; -ENOMEM; -ENOSPC too many
 *           plug-ins are open.
 * Thread:   setup. */
int spw_handler_open(const char *name, const struct spw_handler **handler_out);

/* Purpose: the built-in handler of this name, for names that the user did not write: it opens no
 *          file.
 * Returns: NULL if there is none.
 * Thread:  any. */
const struct spw_handler *spw_handler_find(const char *name);

/* Purpose: closes a plug-in, after its fini; NULL and built-ins are allowed and ignored. No
 *          executor uses it any more.
 * Thread:  setup. */
void spw_handler_close(const struct spw_handler *handler);

/* Purpose: the i-th built-in, NULL after the last.
 * Thread:  any. */
const struct spw_handler *spw_handler_builtin(uint32_t i);

/* Purpose: adds the counters of a block to those of sum, a block too.
 * Order:   relaxed loads of block, which its executor may be writing.
 * Thread:  any, one for each sum. */
void spw_handler_counters_add(const struct spw_handler *handler, const void *block, void *sum);

/* Purpose: the largest counts of a table, the largest first; equal ones by place.
 * Shape:   value[counter->cnt]; at_out[max]: their places. sum_out, used_out: of the whole table:
 *          the sum, and how many are not 0.
 * Returns: how many places were filled: no more than max, and none whose count is 0.
 * Thread:  any. */
uint32_t spw_handler_counter_top(const struct spw_handler_counter *counter, const uint64_t *value,
				 uint32_t max, uint32_t *at_out, uint64_t *sum_out,
				 uint32_t *used_out);

/* The head of a body: SPW_HANDLER_BODY(name)(const struct spw_frame *frame, struct spw_lanes
 * lanes). */
#define SPW_HANDLER_BODY(name) SPW_HD SPW_INLINE struct spw_result spw_body_##name

/* Defines the host side of a body: a loop over the batch, with one lane. */
#define SPW_HANDLER_BATCH(name)                                                         \
	static void spw_batch_##name(const struct spw_gring_desc *desc, uint32_t cnt,   \
				     const struct spw_handler_env *env,                 \
				     struct spw_tally *tally_out)                       \
	{                                                                               \
		struct spw_lanes lanes = {0, 1, NULL, 0, env->state, env->region_base}; \
		struct spw_tally tally = {{0, 0, 0}, 0, 0, 0};                          \
                                                                                        \
		for (uint32_t i = 0; i < cnt; i++) {                                    \
			struct spw_frame frame =                                        \
				spw_frame_of(desc[i].lo, desc[i].hi, env->region_base); \
                                                                                        \
			spw_tally_add(&tally, i, spw_body_##name(&frame, lanes));       \
		}                                                                       \
		*tally_out = tally;                                                     \
	}

#ifdef __CUDACC__
#define SPW_HANDLER_CUDA(name, flag_bits) SPWD_HANDLER_LAUNCHERS(name, flag_bits)
#define SPW_HANDLER_CUDA_PTR(name)        (&spw_cuda_##name)
#else
#define SPW_HANDLER_CUDA(name, flag_bits)
#define SPW_HANDLER_CUDA_PTR(name) NULL
#endif

#ifdef __cplusplus
#define SPW_PLUGIN_SYMBOL                                 \
	extern "C" __attribute__((visibility("default"))) \
	const struct spw_handler spw_handler_plugin;
#else
#define SPW_PLUGIN_SYMBOL \
	extern __attribute__((visibility("default"))) const struct spw_handler spw_handler_plugin;
#endif

#define SPW_HANDLER_INIT_STATE(name, clause, flag_bits, cuda_ptr, state_ptr)              \
	{                                                                                 \
		SPW_HANDLER_ABI, sizeof(struct spw_handler), #name, clause, flag_bits, 0, \
			spw_batch_##name, cuda_ptr, state_ptr, NULL, NULL                 \
	}
#define SPW_HANDLER_INIT(name, clause, flag_bits, cuda_ptr) \
	SPW_HANDLER_INIT_STATE(name, clause, flag_bits, cuda_ptr, NULL)

/* The line that makes a plug-in of a body. clause: what it does, for people; flag_bits: enum
 * spw_handler_flag. */
#define SPW_HANDLER_PLUGIN(name, clause, flag_bits) \
	SPW_HANDLER_PLUGIN_STATE(name, clause, flag_bits, NULL)

/* The same for a body with a state: state_ptr is the address of a struct spw_handler_state. */
#define SPW_HANDLER_PLUGIN_STATE(name, clause, flag_bits, state_ptr)          \
	SPW_HANDLER_BATCH(name)                                               \
	SPW_HANDLER_CUDA(name, flag_bits)                                     \
	SPW_PLUGIN_SYMBOL                                                     \
	const struct spw_handler spw_handler_plugin = SPW_HANDLER_INIT_STATE( \
		name, clause, flag_bits, SPW_HANDLER_CUDA_PTR(name), state_ptr);

#ifdef __cplusplus
}
#endif

#ifdef __CUDACC__
#include "exec/spwd_kernel.cuh"
#endif
#endif
