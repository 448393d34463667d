/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The executor ring: how batches of frames get to an executor (a resident CUDA kernel, a launched one, a CPU thread,
 * or the lcore itself) and how verdicts come back. One layout in host memory, two views; this file is its contract.
 *
 *   field               place         writer      reader      scope and order
 *   ------------------  ------------  ----------  ----------  -----------------------------------------------------
 *   desc[b][i].lo, .hi  host memory   owner       executor    8-byte system-scope stores; see G1 below
 *   done[b].w[0..7]     host memory   executor    owner       8-byte system-scope stores; see G2 below
 *   batch[b] (record)   host memory   owner       owner       private
 *
 * Tags. Every 8-byte word carries an 8-bit lap tag in its top byte, tag = (lap + 1) & 0xff with lap = seq / batch_cnt,
 * so a reader polls the words themselves: no sequence word, no second read across the link (which costs 1.6 µs on an
 * H100). A batch of n frames writes entries 0 .. n-1, entry 0 with the count. So that an entry which short batches
 * leave alone can never show a tag of 256 laps ago, each push also rewrites entry (lap & 63) of its batch when that
 * entry is >= n ("scrub"): every entry is written at least once in 64 laps. done[] is written whole each lap.
 *
 * G1 [descriptor]  owner: payload made readable by the port (O: spw_dma_from_device), record written, then desc words
 *                  with spw_gpu_store_rel64, entry 0 last.
 *                  executor: polls entry 0, then its own entry, with acquire at system scope (ld.acquire.sys / ldar),
 *                  and only then reads payload, never through the non-coherent path (ld.global.nc).
 * G2 [completion]  executor: all payload reads of the batch come before a CTA or warp barrier that precedes the stores
 *                  (else the NIC may overwrite a slot that is still being read); then the eight words, relaxed at
 *                  system scope, no fence between them, since each says by its tag that it is whole. A handler that
 *                  WROTE something which host or NIC must see (echo) owes a system fence between barrier and stores.
 *                  owner: polls w[0] with spw_gpu_load_acq64, then checks every other tag; a missing tag means "not yet".
 *
 * Descriptor word formats (bit 63 on the left):
 *   lo  | tag 8 | meta_lo 16 | offset 40 |              offset: bytes from the region's start (1 TiB)
 *   hi  | tag 8 | meta_hi 16 | cnt 6 | region 3 | flags 4 | len 27 |
 *       cnt: batch size - 1, in entry 0 only (0 elsewhere); flags: low bits of enum spw_desc_flag; len: 1 .. 2^26
 * Completion word formats:
 *   w[0] | tag 8 | verdicts of frames  0 .. 27, 2 bits each, frame 0 lowest |
 *   w[1] | tag 8 | verdicts of frames 28 .. 55 |
 *   w[2] | tag 8 | unit 16 | 0 | cnt 7 | 0 | verdicts of frames 56 .. 63 in bits 0..15 |  cnt in bits 16..22, unit in 40..55
 *   w[3] | tag 8 | start, low 56 bits of the executor's clock |
 *   w[4] | tag 8 | end,   low 56 bits |
 *   w[5] | tag 8 | frames called bad, by reason, 8 x 7 bits, reason 0 lowest |
 *   w[6] | tag 8 | digest: 56-bit sum of what the handler returned for each frame |
 *   w[7] | tag 8 | frames that this unit has executed since it was first started, this batch included |
 * unit: the executing unit (CTA, thread) that did the batch; batch seq s goes to unit s % unit_cnt.
 *
 * Threads: one owner (the lcore) calls next/push/reap/retire; the executor's units poll. Everything is wait-free.
 */
#ifndef SPW_GPU_GRING_H
#define SPW_GPU_GRING_H

#include "base/spw_desc.h"
#include "base/spw_order.h"
#include "base/spw_types.h"
#include "pool/spw_pool.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPW_GRING_FRAME_MAX  64u
#define SPW_GRING_REASON_MAX 8u
#define SPW_GRING_UNIT_MAX   256u
#define SPW_GRING_BATCH_MAX  4096u

enum spw_verdict {
	SPW_VERDICT_CONSUME = 0, /* done with it: recycle the slot */
	SPW_VERDICT_ECHO    = 1, /* send it back from the same slot */
	SPW_VERDICT_BAD     = 2, /* counted by reason in w[5], recycled */
};

/* Why a handler called a frame bad; fixed numbers, they travel in w[5]. name, meaning */
#define SPW_BAD_LIST(X)                                                                                                \
	X(short_frame, "shorter than the headers it should have")                                                      \
	X(not_ip, "not IPv4 where the handler needs it")                                                               \
	X(ip_length, "IP header length or total length does not fit the frame")                                        \
	X(not_udp, "not UDP where the handler needs it")                                                               \
	X(udp_length, "UDP length does not fit the IP length")                                                         \
	X(checksum, "trailer or checksum did not match the bytes")                                                     \
	X(handler, "the handler's own reason")                                                                         \
	X(verdict, "the handler returned no known verdict")

enum spw_bad {
#define X(name, text) SPW_BAD_##name,
	SPW_BAD_LIST(X)
#undef X
	SPW_BAD_CNT
};

struct spw_gring_desc {
	uint64_t lo, hi;
} SPW_ALIGNED(16);
SPW_ASSERT_SIZE(struct spw_gring_desc, 16);

struct spw_gring_done {
	uint64_t w[8];
} SPW_ALIGNED(64);
SPW_ASSERT_SIZE(struct spw_gring_done, 64);

/* The host-side record of one batch: what the port lent, the stamps of the batch, and after reap the verdicts.
 * Written and read by the owner only. rx_burst writes straight into desc[]: nothing is copied on the way. */
struct spw_gring_batch {
	uint64_t seq;             /* number of the batch since start */
	uint32_t cnt;             /* frames, 1 .. 64 */
	uint32_t ahead;           /* set by the pipe: batches in the executor when it was pushed */
	uint64_t exec_busy;       /* set by the pipe: what batches settled by then had taken, executor clock */
	uint64_t polled_tsc;      /* set by the pipe: rx_burst returned */
	uint64_t since_tsc, empty_tsc, before, turn_tsc; /* set by the pipe: what its poll noted (rec/spw_rec.h) */
	uint64_t pushed_tsc;      /* set by the pipe: push returned */
	uint64_t exec_start;      /* set by reap: executor clock, extended to 64 bits */
	uint64_t exec_end;
	uint64_t reaped_tsc;      /* set by the pipe */
	uint64_t digest;
	uint64_t verdict[2];      /* bit i of [0]: frame i is ECHO; bit i of [1]: frame i is BAD; neither: CONSUME */
	uint8_t bad[SPW_GRING_REASON_MAX];
	uint16_t unit;
	struct spw_desc desc[SPW_GRING_FRAME_MAX];
} SPW_ALIGNED(SPW_CACHE_LINE);

struct spw_pauses; /* gpu/spw_pause.h */

struct spw_gring {
	/* shared with the executor; addresses as the host sees them */
	struct spw_gring_desc *desc;   /* [batch_cnt][64] */
	struct spw_gring_done *done;   /* [batch_cnt] */
	struct spw_pauses *pauses;     /* when the executor was away */
	/* owner only */
	struct spw_gring_batch *batch; /* [batch_cnt] */
	uint64_t head_seq;             /* next to push; sampled by others */
	uint64_t tail_seq;             /* next to reap; sampled by others */
	uint64_t retired_seq;          /* next to retire */
	uint32_t batch_mask;           /* batch_cnt - 1, a power of 2 */
	uint32_t batch_log2;
	uint32_t unit_cnt;
	uint16_t region_cnt;
	uint64_t in_exec_frames;       /* pushed - retired */
	uint64_t *unit_frames;         /* [unit_cnt], last w[7] seen: the executor's own count */
	void (*kick)(struct spw_gring *ring); /* after push: inline runs the batch, graph and launch call the driver; else NULL */
	uint64_t slot_base, slot_bytes; /* where slots lie in their region, from spw_gring_bind */
	uint64_t (*exec_now)(struct spw_gring *ring); /* executor clock now */
	uint64_t stamp_ref;            /* the last batch's end, 64 bits: extends the next one's stamps without a clock read */
	void *exec;                    /* the backend's own */
};

/* Purpose: says where slots lie: a frame starts at pool->region_offset + slot * slot_bytes + spw_desc.offset of its region.
 * An unbound ring takes spw_desc.offset as counted from the region's start. Thread: setup, before the first push. */
void spw_gring_bind(struct spw_gring *ring, const struct spw_pool *pool);

/* Purpose: the record to receive the next burst into. Returns NULL when the ring is full: the caller drops and counts.
 * Lifetime: until push, or the next call without push. Thread: owner. */
SPW_INLINE struct spw_gring_batch *spw_gring_next(struct spw_gring *ring)
{
	if (spw_unlikely(ring->head_seq - ring->retired_seq > ring->batch_mask))
		return NULL;
	return &ring->batch[ring->head_seq & ring->batch_mask];
}

/* Purpose: hands the record from spw_gring_next to the executor; never waits. Shape: batch->cnt 1 .. 64, desc[] filled.
 * Order: G1. Thread: owner. */
void spw_gring_push(struct spw_gring *ring, struct spw_gring_batch *batch);

/* Purpose: the oldest batch that the executor has finished, or NULL. Verdicts, stamps and reasons are decoded into it.
 * Lifetime: until retire. Order: G2. Thread: owner. */
struct spw_gring_batch *spw_gring_reap(struct spw_gring *ring);

/* Purpose: renews the time that extends stamps from 56 bits, which each batch does too: for rings that idle for months.
 * Shape:   at least every 2^54 ticks of the executor's clock. Thread: owner, in housekeeping. */
SPW_INLINE void spw_gring_clock(struct spw_gring *ring)
{
	ring->stamp_ref = ring->exec_now(ring);
}

/* Purpose: done with the batch that reap returned; its place is free again. Thread: owner. */
void spw_gring_retire(struct spw_gring *ring, struct spw_gring_batch *batch);

/* Purpose: sum of the executor's own frame counters (w[7] by unit). Thread: owner, or setup after stop. */
uint64_t spw_gring_executed(const struct spw_gring *ring);

const char *spw_bad_name(enum spw_bad reason);

/* ---- word codec: shared by the owner, the CPU executors, the CUDA kernels and the tests ------------ */

#ifdef __CUDACC__
#define SPW_HD __host__ __device__
#else
#define SPW_HD
#endif

#define SPW_GRING_TAG_SHIFT 56
#define SPW_GRING_VALUE_MASK ((1ull << SPW_GRING_TAG_SHIFT) - 1)

SPW_HD SPW_INLINE uint64_t spw_gring_tag(uint64_t seq, uint32_t batch_log2)
{
	return (((seq >> batch_log2) + 1) & 0xff) << SPW_GRING_TAG_SHIFT;
}

SPW_HD SPW_INLINE bool spw_gring_has_tag(uint64_t word, uint64_t tag)
{
	return ((word ^ tag) >> SPW_GRING_TAG_SHIFT) == 0;
}

SPW_HD SPW_INLINE uint64_t spw_gring_lo(uint64_t tag, uint64_t offset, uint32_t meta)
{
	return tag | (uint64_t)(meta & 0xffff) << 40 | offset;
}

SPW_HD SPW_INLINE uint64_t spw_gring_hi(uint64_t tag, uint32_t len, uint32_t meta, uint32_t flags, uint32_t region,
					uint32_t cnt)
{
	return tag | (uint64_t)(meta >> 16) << 40 | (uint64_t)((cnt - 1) & 63) << 34 | (uint64_t)region << 31 |
	       (uint64_t)(flags & SPW_DESC_HANDLER_FLAGS) << 27 | len;
}

SPW_HD SPW_INLINE uint64_t spw_gring_lo_offset(uint64_t lo) { return lo & ((1ull << 40) - 1); }
SPW_HD SPW_INLINE uint32_t spw_gring_hi_len(uint64_t hi) { return (uint32_t)hi & ((1u << 27) - 1); }
SPW_HD SPW_INLINE uint32_t spw_gring_hi_flags(uint64_t hi) { return (uint32_t)(hi >> 27) & 0xf; }
SPW_HD SPW_INLINE uint32_t spw_gring_hi_region(uint64_t hi) { return (uint32_t)(hi >> 31) & 7; }
SPW_HD SPW_INLINE uint32_t spw_gring_hi_cnt(uint64_t hi) { return ((uint32_t)(hi >> 34) & 63) + 1; }
SPW_HD SPW_INLINE uint32_t spw_gring_meta(uint64_t lo, uint64_t hi)
{
	return ((uint32_t)(lo >> 40) & 0xffff) | (((uint32_t)(hi >> 40) & 0xffff) << 16);
}

/* Purpose: puts the top byte back on a 56-bit stamp that was written less than 2^55 ticks (129 days at 3.2 GHz) before or after ref. */
SPW_INLINE uint64_t spw_gring_stamp(uint64_t low, uint64_t ref)
{
	int64_t apart = (int64_t)((low - ref) << (64 - SPW_GRING_TAG_SHIFT)) >> (64 - SPW_GRING_TAG_SHIFT);

	return ref + (uint64_t)apart;
}

#ifdef __cplusplus
}
#endif
#endif
