/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Sequence-numbered slot ring: fixed slots in memory that both sides map, each led by an 8-byte sequence word that says
 * whose it is. One layout, as many views as there are address spaces: a view is the ring's base as that side sees it and
 * that side's own position; nothing else is shared, and no side ever writes a word that the other spins on for another slot.
 *
 *   slot of position p = base + (p & mask) * slot_bytes
 *   seq == p               free: the producer may fill it for position p
 *   seq == p + 1           full: the consumer may read it
 *   seq == p + slot_cnt    free for the next lap (written by the consumer)
 *
 *   field     place         writer                    reader                    order
 *   --------  ------------  ------------------------  ------------------------  -----------------------------------
 *   seq       slot + 0      producer, then consumer   consumer, then producer   release / acquire at system scope
 *   payload   slot + 8      producer                  consumer                  plain, between the two
 *
 * The sides may be two threads, or a thread and a kernel on a GPU: the words are then of the same atomic domain (CUDA's
 * system scope), and device code reads and writes seq with ld.acquire.sys and st.release.sys at spw_slot_addr().
 * Source of the sequence scheme: D. Vyukov, bounded queue, cut down to one producer and one consumer.
 */
#ifndef SPW_SLOTRING_H
#define SPW_SLOTRING_H

#include "base/spw_order.h"
#include "base/spw_types.h"

#ifdef __CUDACC__
#define SPW_SLOT_HD __host__ __device__
#else
#define SPW_SLOT_HD
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define SPW_SLOT_HEAD_BYTES 8u

/* A side's own; copied to a device by value. */
struct spw_slotring {
	uint8_t *base;       /* as this side sees it */
	uint64_t pos;        /* next position of this side */
	uint32_t slot_bytes; /* a multiple of 64 */
	uint32_t mask;       /* slot_cnt - 1 */
};
SPW_ASSERT_SIZE(struct spw_slotring, 24);

/* Purpose: bytes of memory for a ring, 0 if the shape is not allowed. Shape: slot_cnt a power of 2, 2 .. 2^20;
 *          slot_bytes, sequence word included, a multiple of 64 up to 1 MiB. Thread: any. */
size_t spw_slotring_bytes(uint32_t slot_bytes, uint32_t slot_cnt);

/* Purpose: marks all slots free, and gives the first view, at position 0; copies of it with another base are the others.
 * Shape:   base aligned to 64, spw_slotring_bytes() long. Owner: the caller keeps the memory until both sides ended.
 * Errors:  -EINVAL. Thread: setup, before either side runs. */
int spw_slotring_init(void *base, uint32_t slot_bytes, uint32_t slot_cnt, struct spw_slotring *view_out);

SPW_SLOT_HD SPW_INLINE uint8_t *spw_slot_addr(const struct spw_slotring *view, uint64_t pos)
{
	return view->base + (size_t)(pos & view->mask) * view->slot_bytes;
}

/* Purpose: the payload of the next slot to fill, slot_bytes - 8 of it, or NULL when the ring is full.
 * Order: [S1 acquire, pairs with S4: the consumer has done with it]. Thread: producer. */
SPW_INLINE void *spw_slotring_claim(const struct spw_slotring *view)
{
	uint8_t *slot = spw_slot_addr(view, view->pos);

	if (spw_gpu_load_acq64((const uint64_t *)(const void *)slot) != view->pos) /* [S1 acquire, pairs with S4] */
		return NULL;
	return slot + SPW_SLOT_HEAD_BYTES;
}

/* Purpose: the slot from spw_slotring_claim is the consumer's. Order: [S2 release, pairs with S3]. Thread: producer. */
SPW_INLINE void spw_slotring_publish(struct spw_slotring *view)
{
	uint8_t *slot = spw_slot_addr(view, view->pos);

	spw_gpu_store_rel64((uint64_t *)(void *)slot, view->pos + 1); /* [S2 release, pairs with S3] */
	view->pos++;
}

/* Purpose: the payload of the next slot to read, or NULL when there is none.
 * Order: [S3 acquire, pairs with S2: the payload is seen whole]. Thread: consumer. */
SPW_INLINE const void *spw_slotring_peek(const struct spw_slotring *view)
{
	uint8_t *slot = spw_slot_addr(view, view->pos);

	if (spw_gpu_load_acq64((const uint64_t *)(const void *)slot) != view->pos + 1) /* [S3 acquire, pairs with S2] */
		return NULL;
	return slot + SPW_SLOT_HEAD_BYTES;
}

/* Purpose: the slot from spw_slotring_peek is free again. Order: [S4 release, pairs with S1: reads of the payload come
 *          before]. Thread: consumer. */
SPW_INLINE void spw_slotring_release(struct spw_slotring *view)
{
	uint8_t *slot = spw_slot_addr(view, view->pos);

	spw_gpu_store_rel64((uint64_t *)(void *)slot, view->pos + view->mask + 1); /* [S4 release, pairs with S1] */
	view->pos++;
}

#ifdef __cplusplus
}
#endif
#endif
