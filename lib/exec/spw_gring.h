/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The executor ring: carries batches of frames to an executor (a resident CUDA kernel, a launched
 * one, a CPU thread, or the lcore itself) and carries the verdicts back. One layout in host memory,
 * two views; this file is its contract.
 *
 *   owner (the lcore)        host memory                       executor's unit
 *   next: an empty record    batch[b]     64 x spw_desc
 *   push: writes ──────────> desc[b][i]   16 bytes a frame ─────> polls entry 0, reads the rest
 *                                                                 runs the handler
 *   reap: polls <─────────── done[b]      64 bytes a batch <───── writes verdicts and stamps
 *   retire: b is free again
 *
 *   field                place        writer     reader     scope and order
 *   -------------------  -----------  ---------  ---------  ---------------------------------------
 *   desc[b][i].lo, .hi   host memory  owner      executor   8-byte system-scope stores; G1 below
 *   done[b].w[0..7]      host memory  executor   owner      8-byte system-scope stores; G2 below
 *   pauses               host memory  executor   owner      8-byte system-scope stores; G6
 *   batch[b] (record)    host memory  owner      owner      private
 *   head_seq, tail_seq   host memory  owner      any        relaxed samples, no order
 *
 * Batches are numbered from 0 (seq); b = seq % batch_cnt is the place in the ring, and
 * lap = seq / batch_cnt counts how often the ring has been gone through.
 *
 *        retired_seq      tail_seq          head_seq          retired_seq + batch_cnt
 *   ──────────┼────────────────┼─────────────────┼─────────────────┼────> seq
 *    retired  │ reaped, being  │ pushed: in the  │ free            │
 *             │ settled        │ executor        │                 │
 *
 * Tags. Every 8-byte word carries an 8-bit lap tag in its top byte, tag = (lap + 1) & 0xff, so that
 * a reader polls the words themselves: there is no sequence word and no second read across the link
 * (which costs 1.6 µs on an H100).
 *
 *   lap of the batch    0  1  2 ... 254  255  256 ...
 *   tag of its words    1  2  3 ... 255    0    1 ...     empty memory shows 0
 *
 * A batch of n frames writes entries 0 .. n-1; entry 0 holds the count. An entry that only short
 * batches pass by would still show its tag of 256 laps ago, so each push also rewrites entry
 * (lap & 63) of its batch if that entry is >= n ("scrub"): every entry is written at least once in
 * 64 laps. done[] is written whole in each lap.
 *
 * G1, the descriptors. Owner: the port has made the payload readable (spw_dma_from_device) and the
 * record is written; then the descriptor words with spw_gpu_store_rel64, entry 0 last, its lo word
 * last of all. Executor: acquires entry 0 at system scope (ld.acquire.sys, ldar), which vouches for
 * the others, and only then reads those and payload, never through the non-coherent path
 * (ld.global.nc), which may return the bytes of the last lap. Where the payload is in GPU memory
 * that the device does not order (spw_region.flush), push flushes the NIC's writes first.
 *
 * G2, the completion. Executor: all payload reads of the batch come before a barrier of the warp or
 * CTA that precedes the stores; otherwise the NIC could overwrite a slot that is still being read.
 * Then the eight words, relaxed at system scope and with no fence between them, since the tag in
 * each shows that it is this lap's. A handler that wrote what the host or the NIC must read (an
 * echo) owes a system fence between barrier and stores. Owner: polls w[0] with spw_gpu_load_acq64,
 * then checks the other seven tags; one missing tag means "not yet".
 *
 * Descriptor words (bit 63 on the left; the number is the field's width in bits):
 *   lo   | tag 8 | meta_lo 16 | offset 40 |
 *   hi   | tag 8 | meta_hi 16 | cnt 6 | region 3 | flags 4 | len 27 |
 *     offset  bytes from the region's start, below 1 TiB
 *     cnt     batch size - 1 in entry 0, else 0
 *     flags   low four bits of enum spw_desc_flag
 *     len     1 .. 2^26 bytes
 *
 * Completion words:
 *   w[0] | tag 8 | verdicts of frames  0 .. 27, 2 bits each, frame 0 lowest |
 *   w[1] | tag 8 | verdicts of frames 28 .. 55 |
 *   w[2] | tag 8 | unit 16 (bits 40..55) | 0 | cnt 7 (bits 16..22) | verdicts of frames 56 .. 63 |
 *   w[3] | tag 8 | start, low 56 bits of the executor's clock |
 *   w[4] | tag 8 | end, low 56 bits |
 *   w[5] | tag 8 | frames called bad, by reason, 8 x 7 bits, reason 0 lowest |
 *   w[6] | tag 8 | digest: 56-bit sum of what the handler returned for each frame |
 *   w[7] | tag 8 | frames that this unit has executed since it was first started, these included,
 *                  modulo 2^32 (bits above those do not matter) |
 *     unit    the CTA or thread that executed the batch; batch seq goes to unit seq % unit_cnt
 *
 * Threads: one owner (the lcore) calls next, push, reap and retire; the executor's units poll.
 * Every call is wait-free.
 */
#ifndef SPW_EXEC_GRING_H
#define SPW_EXEC_GRING_H

#include "base/spw_enum.h"
#include "frame/spw_desc.h"
#include "base/spw_order.h"
#include "base/spw_types.h"
#include "pool/spw_pool.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPW_GRING_FRAME_MAX  64u   /* frames per batch: verdicts fit three words */
#define SPW_GRING_REASON_MAX 8u    /* reasons that fit w[5] */
#define SPW_GRING_UNIT_MAX   256u  /* units per ring */
#define SPW_GRING_BATCH_MAX  4096u /* batches per ring */

/* What a handler decides about a frame; the numbers travel in w[0] .. w[2]. */
enum spw_verdict {
	SPW_VERDICT_CONSUME = 0, /* done with it: the slot is recycled */
	SPW_VERDICT_ECHO = 1,    /* send it back from the same slot */
	SPW_VERDICT_BAD = 2,     /* counted by reason in w[5], recycled */
};

/* Why a handler called a frame bad; fixed numbers, they travel in w[5]. name, meaning */
#define SPW_BAD_LIST(X, P)                                                                      \
	X(P, short_frame, "shorter than the headers it should have")                            \
	X(P, not_ipv4, "no IPv4 right after the Ethernet header: IPv6, VLAN, MPLS, PPPoE, ARP") \
	X(P, ip_length, "IP header length or total length does not fit the frame")              \
	X(P, not_udp, "not UDP where the handler needs it")                                     \
	X(P, udp_length, "UDP length does not fit the IP length")                               \
	X(P, checksum, "trailer or checksum did not match the bytes")                           \
	X(P, handler, "the handler's own reason")                                               \
	X(P, verdict, "the handler returned no known verdict")

enum spw_bad { SPW_ENUM(SPW_BAD) };

/* One frame, as the executor reads it. */
struct spw_gring_desc {
	uint64_t lo, hi;
} SPW_ALIGNED(16);
SPW_ASSERT_SIZE(struct spw_gring_desc, 16);

/* One finished batch, as the owner reads it. */
struct spw_gring_done {
	uint64_t w[8];
} SPW_ALIGNED(64);
SPW_ASSERT_SIZE(struct spw_gring_done, 64);

/* The host-side record of one batch: what the port lent, the stamps of the batch, and after reap
 * the verdicts. Private to the owner. rx_burst writes straight into desc[]; nothing is copied on
 * the way. The fields "of the pipe" are set by lib/pipe and not read here. */
struct spw_gring_batch {
	uint64_t seq;       /* number of the batch since start */
	uint32_t cnt;       /* frames, 1 .. 64 */
	uint32_t ahead;     /* of the pipe: batches in the executor when it was pushed */
	uint64_t exec_busy; /* of the pipe: executions settled when it was pushed, executor clock */
	uint64_t polled_tsc; /* of the pipe: rx_burst returned */
	/* of the pipe: what its poll noted (struct spw_rec_poll) */
	uint64_t since_tsc, empty_tsc, before, turn_tsc;
	uint64_t pushed_tsc; /* of the pipe: push returned */
	uint64_t exec_start; /* set by reap: executor clock, extended to 64 bits */
	uint64_t exec_end;
	uint64_t reaped_tsc; /* of the pipe: reap returned */
	uint64_t digest;     /* set by reap, as are those below */
	/* bit i of [0]: frame i is ECHO; bit i of [1]: frame i is BAD; neither: CONSUME */
	uint64_t verdict[2];
	uint8_t bad[SPW_GRING_REASON_MAX]; /* BAD frames by enum spw_bad */
	uint16_t unit;                     /* that executed it */
	bool fill;         /* of the pipe, with objects: its descriptors have no frames */
	uint32_t move_end; /* of the pipe, with objects: behind its moves */
	struct spw_desc desc[SPW_GRING_FRAME_MAX];
} SPW_ALIGNED(SPW_CACHE_LINE);

struct spw_pauses; /* exec/spw_pause.h */

/* One ring, as its owner holds it; lib/exec allocates it (spw_exec_open). */
struct spw_gring {
	/* shared with the executor; addresses as the host sees them */
	struct spw_gring_desc *desc; /* [batch_cnt][64] */
	struct spw_gring_done *done; /* [batch_cnt] */
	struct spw_pauses *pauses;   /* when the executor was suspended */
	/* owner only */
	struct spw_gring_batch *batch; /* [batch_cnt] */
	uint64_t head_seq;             /* next to push; sampled by others */
	uint64_t tail_seq;             /* next to reap; sampled by others */
	uint64_t retired_seq;          /* next to retire */
	uint32_t batch_mask;           /* batch_cnt - 1, a power of 2 */
	uint32_t batch_log2;
	uint32_t unit_cnt;
	uint16_t region_cnt;
	/* Idle units share a batch of two times 2^share_log2 bytes or more; 0: never. */
	uint32_t share_log2;
	uint64_t in_exec_frames; /* pushed - retired */
	uint64_t *unit_frames;   /* [unit_cnt], by w[7] of each: the executor's own count */
	uint64_t fault_cnt;      /* completions that reap refused; sampled by others */
	uint64_t digest;         /* of all batches that were reaped; sampled by others */
	/* Called before push where a NIC's writes into GPU memory must be flushed first; else NULL.
	 */
	void (*flush)(struct spw_gring *ring);
	/* Called after push: inline runs the batch, graph and launch call the driver; else NULL. */
	void (*kick)(struct spw_gring *ring);
	uint64_t slot_base, slot_bytes; /* where slots lie in their region, from spw_gring_bind */
	uint64_t (*exec_now)(struct spw_gring *ring); /* reads the executor's clock */
	/* End of the last batch, 64 bits: extends the next batch's stamps without a clock read. */
	uint64_t stamp_ref;
	void *exec; /* private to the backend */
};

/* Purpose: binds the ring to the pool whose slots it will carry: a frame starts at
 *          pool->region_offset + slot * slot_bytes + spw_desc.offset of its region. In an unbound
 *          ring spw_desc.offset counts from the region's start.
 * Thread:  setup, before the first push. */
void spw_gring_bind(struct spw_gring *ring, const struct spw_pool *pool);

/* Returns: the record of a batch that is not retired, or of the next one. Thread: owner. */
SPW_INLINE struct spw_gring_batch *spw_gring_at(struct spw_gring *ring, uint64_t seq)
{
	return &ring->batch[seq & ring->batch_mask];
}

/* Purpose:  the record to receive the next burst into.
 * Returns:  NULL if the ring is full: the caller drops and counts.
 * Lifetime: until push, or until the next call if it is not pushed.
 * Thread:   owner. */
SPW_INLINE struct spw_gring_batch *spw_gring_next(struct spw_gring *ring)
{
	if (spw_unlikely(ring->head_seq - ring->retired_seq > ring->batch_mask))
		return NULL;
	return spw_gring_at(ring, ring->head_seq);
}

/* Purpose: hands the record from spw_gring_next to the executor; never waits. A batch with more
 *          payload than a unit's share (share_log2) is cut into batches of as many frames each, one
 *          for each unit that is idle and gets a whole share: one unit cannot read a large payload
 *          at the link's rate. The first stays in `batch`, the others go into the records behind
 *          it, with a copy of the fields of the pipe.
 *
 *            batch, 64 frames   |1..16|17..32|33..48|49..64|      four of the units are idle
 *            seq                  n     n + 1  n + 2  n + 3       each is reaped by itself
 *
 * Shape:   batch->cnt is 1 .. 64, desc[0 .. cnt-1] filled.
 * Returns: the number of batches that it became, 1 .. unit_cnt.
 * Order:   [G1 release], paired with the pollers of the executor.
 * Thread:  owner. */
uint32_t spw_gring_push(struct spw_gring *ring, struct spw_gring_batch *batch);

/* Purpose:  takes the oldest batch if the executor has finished it, and decodes verdicts, stamps
 *           and reasons into its record. Batches are reaped in the order in which they were pushed.
 * Returns:  NULL if it is not finished, or nothing is pushed.
 * Errors:   a completion that contradicts the batch (unit, count, verdicts beyond the count, two
 *           verdicts for a frame, reasons that do not sum up) must not happen; it is refused,
 *           counted in fault_cnt, and every frame of the batch is bad, reason `verdict`.
 * Lifetime: until retire.
 * Order:    [G2 acquire], paired with the executor's completion stores.
 * Thread:   owner. */
struct spw_gring_batch *spw_gring_reap(struct spw_gring *ring);

/* Purpose: decodes what the handler found of a batch (w[0..2], w[5], w[6]) into verdict[], bad[]
 * and digest. Nothing is checked, and tags are not looked at. reap does this by itself. Shape:
 * w[0..7] of a completion. Returns: the frames that the reasons account for. Thread:  any. */
uint32_t spw_gring_results(struct spw_gring_batch *batch, const uint64_t *w);

/* Purpose: updates the time from which 56-bit stamps are extended. Each batch does so too; this
 *          call is for rings that idle for months.
 * Shape:   at least every 2^54 ticks of the executor's clock.
 * Thread:  owner, in housekeeping. */
SPW_INLINE void spw_gring_clock(struct spw_gring *ring)
{
	ring->stamp_ref = ring->exec_now(ring);
}

/* Purpose: frees the place of the batch that reap returned last, in order.
 * Thread:  owner. */
void spw_gring_retire(struct spw_gring *ring, struct spw_gring_batch *batch);

/* Purpose: the executor's own count of frames: w[7] summed over units, as of the last reap.
 * Thread:  owner; setup after stop. */
uint64_t spw_gring_executed(const struct spw_gring *ring);

/* Purpose: the digests of all batches that were reaped, added up modulo 2^56, so that it does not
 *          matter how the frames were batched.
 * Thread:  any. */
uint64_t spw_gring_digest(const struct spw_gring *ring);

/* Purpose: the reason's name as it is printed, and what it means; "?" if there is none.
 * Thread: any. */
const char *spw_bad_name(enum spw_bad reason);
const char *spw_bad_text(enum spw_bad reason);

/* ---- word codec ----
 *
 * Shared by the owner, the CPU executors, the CUDA kernels and the tests. Pure arithmetic on words:
 * no memory is read, and nothing is checked. Thread: any. */

#ifdef __CUDACC__
#define SPW_HD __host__ __device__
#else
#define SPW_HD
#endif

#define SPW_GRING_TAG_SHIFT  56
#define SPW_GRING_VALUE_MASK ((1ull << SPW_GRING_TAG_SHIFT) - 1)

/* Purpose: the tag of batch seq, in place (top byte), in a ring of 2^batch_log2 batches. */
SPW_HD SPW_INLINE uint64_t spw_gring_tag(uint64_t seq, uint32_t batch_log2)
{
	return (((seq >> batch_log2) + 1) & 0xff) << SPW_GRING_TAG_SHIFT;
}

/* Purpose: whether word carries tag; the other 56 bits of both do not matter. */
SPW_HD SPW_INLINE bool spw_gring_has_tag(uint64_t word, uint64_t tag)
{
	return ((word ^ tag) >> SPW_GRING_TAG_SHIFT) == 0;
}

/* Purpose: builds the lo word.
 * Shape:   offset: bytes from the region's start, below 2^40. */
SPW_HD SPW_INLINE uint64_t spw_gring_lo(uint64_t tag, uint64_t offset, uint32_t meta)
{
	return tag | (uint64_t)(meta & 0xffff) << 40 | offset;
}

/* Purpose: builds the hi word.
 * Shape:   len 1 .. 2^26, region below 8; cnt: the batch size for entry 0, 1 for every other. */
SPW_HD SPW_INLINE uint64_t spw_gring_hi(uint64_t tag, uint32_t len, uint32_t meta, uint32_t flags,
					uint32_t region, uint32_t cnt)
{
	return tag | (uint64_t)(meta >> 16) << 40 | (uint64_t)((cnt - 1) & 63) << 34 |
	       (uint64_t)region << 31 | (uint64_t)(flags & SPW_DESC_HANDLER_FLAGS) << 27 | len;
}

/* Returns: the fields of the two words, as spw_gring_lo and spw_gring_hi took them. */
SPW_HD SPW_INLINE uint64_t spw_gring_lo_offset(uint64_t lo)
{
	return lo & ((1ull << 40) - 1);
}
SPW_HD SPW_INLINE uint32_t spw_gring_hi_len(uint64_t hi)
{
	return (uint32_t)hi & ((1u << 27) - 1);
}
SPW_HD SPW_INLINE uint32_t spw_gring_hi_flags(uint64_t hi)
{
	return (uint32_t)(hi >> 27) & 0xf;
}
SPW_HD SPW_INLINE uint32_t spw_gring_hi_region(uint64_t hi)
{
	return (uint32_t)(hi >> 31) & 7;
}
SPW_HD SPW_INLINE uint32_t spw_gring_hi_cnt(uint64_t hi)
{
	return ((uint32_t)(hi >> 34) & 63) + 1;
}
SPW_HD SPW_INLINE uint32_t spw_gring_meta(uint64_t lo, uint64_t hi)
{
	return ((uint32_t)(lo >> 40) & 0xffff) | (((uint32_t)(hi >> 40) & 0xffff) << 16);
}

/* Purpose: extends a 56-bit stamp to 64 bits.
 * Shape:   it was written less than 2^55 ticks (129 days at 3.2 GHz) before or after ref. */
SPW_INLINE uint64_t spw_gring_stamp(uint64_t low, uint64_t ref)
{
	int64_t apart = (int64_t)((low - ref) << (64 - SPW_GRING_TAG_SHIFT)) >>
			(64 - SPW_GRING_TAG_SHIFT);

	return ref + (uint64_t)apart;
}

#ifdef __cplusplus
}
#endif
#endif
