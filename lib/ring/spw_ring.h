/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Single-producer, single-consumer index ring: it hands out positions, the caller owns whatever array they index
 * (entry[pos & mask]). Each side keeps a copy of the other's position and looks at the real one only when the copy says
 * full or empty, so that a burst moves one cache line in each direction at most.
 *
 *   line 0  write_pos    written by the producer, read by the consumer
 *   line 1  producer's own: mask, what it last saw of read_pos
 *   line 2  read_pos     written by the consumer, read by the producer
 *   line 3  consumer's own: mask, what it last saw of write_pos
 *
 * Positions count from 0 and never wrap within 64 bits. Source of the four lines: E. Rigtorp, SPSCQueue.
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
		uint64_t read_seen;
		uint64_t mask;
	} producer SPW_ALIGNED(SPW_CACHE_LINE);
	uint64_t read_pos SPW_ALIGNED(SPW_CACHE_LINE);
	struct {
		uint64_t write_seen;
		uint64_t mask;
	} consumer SPW_ALIGNED(SPW_CACHE_LINE);
};
SPW_ASSERT_SIZE(struct spw_ring, 256);
SPW_ASSERT_OFFSET(struct spw_ring, producer, 64);
SPW_ASSERT_OFFSET(struct spw_ring, read_pos, 128);
SPW_ASSERT_OFFSET(struct spw_ring, consumer, 192);

/* Purpose: an empty ring. Shape: entry_cnt a power of 2, 1 .. 2^31. Errors: -EINVAL. Thread: setup. */
int spw_ring_init(struct spw_ring *ring, uint32_t entry_cnt);

/* ---- producer -------------------------------------------------------------------------------------- */

/* Where the next entry goes: entry[(pos + i) & mask] for i below what spw_ring_room said. */
SPW_INLINE uint64_t spw_ring_write_pos(const struct spw_ring *ring)
{
	return ring->write_pos;
}

/* Purpose: how many entries may be written now. Shape: want 1 .. entry_cnt. Returns: 0 .. want; never waits.
 * Order: [R1 acquire, pairs with R2: the consumer has done with those entries]. Thread: producer. */
SPW_INLINE uint32_t spw_ring_room(struct spw_ring *ring, uint32_t want)
{
	uint64_t cnt = ring->producer.mask + 1, used = ring->write_pos - ring->producer.read_seen;

	if (spw_unlikely(cnt - used < want)) {
		ring->producer.read_seen = spw_thr_load_acq(&ring->read_pos); /* [R1 acquire, pairs with R2] */
		used = ring->write_pos - ring->producer.read_seen;
	}
	return (uint32_t)SPW_MIN(cnt - used, (uint64_t)want);
}

/* Purpose: n written entries are the consumer's. Shape: n 0 .. what spw_ring_room said last.
 * Order: [R3 release, pairs with R4: entries are seen whole]. Thread: producer. */
SPW_INLINE void spw_ring_publish(struct spw_ring *ring, uint32_t n)
{
	spw_thr_store_rel(&ring->write_pos, ring->write_pos + n); /* [R3 release, pairs with R4] */
}

/* ---- consumer -------------------------------------------------------------------------------------- */

SPW_INLINE uint64_t spw_ring_read_pos(const struct spw_ring *ring)
{
	return ring->read_pos;
}

/* Purpose: how many entries may be read now. Shape: want 1 .. entry_cnt. Returns: 0 .. want; never waits. What it saw
 *          earlier is handed out first: fewer than want may come back though more have just been published.
 * Order: [R4 acquire, pairs with R3]. Thread: consumer. */
SPW_INLINE uint32_t spw_ring_ready(struct spw_ring *ring, uint32_t want)
{
	uint64_t ready = ring->consumer.write_seen - ring->read_pos;

	if (ready == 0) {
		ring->consumer.write_seen = spw_thr_load_acq(&ring->write_pos); /* [R4 acquire, pairs with R3] */
		ready = ring->consumer.write_seen - ring->read_pos;
	}
	return (uint32_t)SPW_MIN(ready, (uint64_t)want);
}

/* Purpose: n entries are free again. Shape: n 0 .. what spw_ring_ready said last.
 * Order: [R2 release, pairs with R1: reads of the entries come before]. Thread: consumer. */
SPW_INLINE void spw_ring_release(struct spw_ring *ring, uint32_t n)
{
	spw_thr_store_rel(&ring->read_pos, ring->read_pos + n); /* [R2 release, pairs with R1] */
}

/* Purpose: entries under way, as a sample. Thread: any. */
SPW_INLINE uint32_t spw_ring_fill(const struct spw_ring *ring)
{
	uint64_t read_pos = spw_thr_load_rlx(&ring->read_pos);

	return (uint32_t)SPW_MIN(spw_thr_load_rlx(&ring->write_pos) - read_pos, ring->producer.mask + 1);
}

#ifdef __cplusplus
}
#endif
#endif
