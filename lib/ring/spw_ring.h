/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Single-producer, single-consumer index ring. It hands out positions; the caller owns the array
 * that they index: entry[pos & mask]. Every SPSC queue between two threads is one of these.
 *
 *   producer                                   consumer
 *   n = spw_ring_room(want)                    n = spw_ring_ready(want)
 *   entry[(write_pos + i) & mask] = ...        ... = entry[(read_pos + i) & mask]
 *   spw_ring_publish(n)       ---- R3/R4 --->  spw_ring_release(n)
 *                            <--- R2/R1 ----
 *
 * Each side keeps a copy of the other side's position and reloads it only when the copy makes the
 * ring look full or empty, so that a burst moves at most one cache line in each direction.
 *
 *   line 0  write_pos    written by the producer, read by the consumer
 *   line 1  producer's   mask, copy of read_pos
 *   line 2  read_pos     written by the consumer, read by the producer
 *   line 3  consumer's   mask, copy of write_pos
 *
 * Positions count entries from 0 in 64 bits; all arithmetic is modulo 2^64, so a wrap would be
 * harmless. Source of the four lines: E. Rigtorp, SPSCQueue.
 */
#ifndef SPW_RING_H
#define SPW_RING_H

#include "base/spw_order.h"
#include "base/spw_types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spw_ring {
	uint64_t write_pos SPW_ALIGNED(SPW_CACHE_LINE);
	struct {
		uint64_t read_copy;
		uint64_t mask;
	} producer SPW_ALIGNED(SPW_CACHE_LINE);
	uint64_t read_pos SPW_ALIGNED(SPW_CACHE_LINE);
	struct {
		uint64_t write_copy;
		uint64_t mask;
	} consumer SPW_ALIGNED(SPW_CACHE_LINE);
};
SPW_ASSERT_SIZE(struct spw_ring, 256);
SPW_ASSERT_OFFSET(struct spw_ring, producer, 64);
SPW_ASSERT_OFFSET(struct spw_ring, read_pos, 128);
SPW_ASSERT_OFFSET(struct spw_ring, consumer, 192);

/* Purpose: makes an empty ring.
 * Shape: entry_cnt a power of 2, 1 .. 2^31.
 * Owner: the caller, of the ring and of the entries.
 * Thread: setup, before either side runs.
 * Errors: -EINVAL for another entry_cnt.
 */
int spw_ring_init(struct spw_ring *ring, uint32_t entry_cnt);

/* ---- producer ---- */

/* Purpose: the position of the next entry to write. Entry i of a burst is
 *   entry[(spw_ring_write_pos() + i) & mask], for i below the last result of spw_ring_room.
 * Thread: owner (producer).
 */
SPW_INLINE uint64_t spw_ring_write_pos(const struct spw_ring *ring)
{
	return ring->write_pos;
}

/* Purpose: how many entries may be written now.
 * Shape: want 1 .. entry_cnt.
 * Returns: 0 .. want; never waits.
 * Thread: owner (producer).
 * Order: [R1 acquire, pairs with R2: the consumer's reads of those entries are over].
 */
SPW_INLINE uint32_t spw_ring_room(struct spw_ring *ring, uint32_t want)
{
	uint64_t cnt = ring->producer.mask + 1, used = ring->write_pos - ring->producer.read_copy;

	if (spw_unlikely(cnt - used < want)) {
		/* [R1 acquire, pairs with R2] */
		ring->producer.read_copy = spw_thr_load_acq(&ring->read_pos);
		used = ring->write_pos - ring->producer.read_copy;
	}
	return (uint32_t)SPW_MIN(cnt - used, (uint64_t)want);
}

/* Purpose: passes n written entries to the consumer.
 * Shape: n 0 .. the last result of spw_ring_room.
 * Thread: owner (producer).
 * Order: [R3 release, pairs with R4: the consumer reads whole entries].
 */
SPW_INLINE void spw_ring_publish(struct spw_ring *ring, uint32_t n)
{
	spw_thr_store_rel(&ring->write_pos, ring->write_pos + n); /* [R3 release, pairs with R4] */
}

/* ---- consumer ---- */

/* Purpose: the position of the next entry to read. Entry i of a burst is
 *   entry[(spw_ring_read_pos() + i) & mask], for i below the last result of spw_ring_ready.
 * Thread: owner (consumer).
 */
SPW_INLINE uint64_t spw_ring_read_pos(const struct spw_ring *ring)
{
	return ring->read_pos;
}

/* Purpose: how many entries may be read now.
 * Shape: want 1 .. entry_cnt.
 * Returns: 0 .. want; never waits. It first hands out what the copy of write_pos covers, so it may
 *   return less than want although more has just been published; it returns 0 only if the ring
 *   is empty.
 * Thread: owner (consumer).
 * Order: [R4 acquire, pairs with R3].
 */
SPW_INLINE uint32_t spw_ring_ready(struct spw_ring *ring, uint32_t want)
{
	uint64_t ready = ring->consumer.write_copy - ring->read_pos;

	if (ready == 0) {
		/* [R4 acquire, pairs with R3] */
		ring->consumer.write_copy = spw_thr_load_acq(&ring->write_pos);
		ready = ring->consumer.write_copy - ring->read_pos;
	}
	return (uint32_t)SPW_MIN(ready, (uint64_t)want);
}

/* Purpose: passes n entries back to the producer.
 * Shape: n 0 .. the last result of spw_ring_ready.
 * Thread: owner (consumer).
 * Order: [R2 release, pairs with R1: reads of the entries come before].
 */
SPW_INLINE void spw_ring_release(struct spw_ring *ring, uint32_t n)
{
	spw_thr_store_rel(&ring->read_pos, ring->read_pos + n); /* [R2 release, pairs with R1] */
}

#ifdef __cplusplus
}
#endif
#endif
