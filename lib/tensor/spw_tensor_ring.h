/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A stream's objects for a kernel that takes them itself (tensor/spwd_tensor.cuh has its side): a
 * resident one, or one that is launched for many objects. A thread of this library takes them from
 * the stream and passes them on in memory that the GPU maps.
 *
 *   spw_tensor_next ─► thread ──── entries ───► reader 0, 1, ...   spwd_tensor_next: reads the
 * object spw_tensor_release ◄─ thread ◄── done ───── reader 0, 1, ...   spwd_tensor_release
 *
 * A reader is a CTA. Every reader gets every object, in order, and reads a part of it, or leaves it
 * to the others; the object goes back when all have released it. No word has two writers, so the
 * GPU needs no atomics on host memory, which it has none of behind PCIe; and each reader has words
 * of its own, since reads of one address of host memory wait for each other.
 *
 *   reader     | beat | done | entry 0 | entry 1 | ... |    128, 128, 32, 32 ... bytes
 *   entry      four words with the lap of the ring in their lowest byte: it is there when all four
 *              have the lap that is due, whatever their order [TE4]
 *   done       objects that the reader has released [TE5]
 *   beat       changes while the thread lives: a kernel whose host is silent leaves
 *
 *   open ring ─► launch ─► ... ─► stop, or the stream's end ─► the kernel leaves ─► close ring
 */
#ifndef SPW_TENSOR_RING_H
#define SPW_TENSOR_RING_H

#include "base/spw_types.h"

#ifdef __CUDACC__
#define SPW_TENSOR_HD __host__ __device__
#else
#define SPW_TENSOR_HD
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define SPW_TENSOR_READER_MAX   256u
#define SPW_TENSOR_BEAT_BYTES   128u
#define SPW_TENSOR_READER_BYTES 256u /* of a reader, before its entries */

struct spw_tensor_ring; /* opaque */
struct spw_tensor_stream;

/* What a kernel needs of a ring; by value. */
struct spw_tensor_ring_dev {
	uint64_t base; /* of reader 0, for the GPU */
	uint64_t reader_bytes;
	uint64_t beat_timeout_ns;
	uint32_t reader_cnt;
	uint32_t entry_log2; /* of the number of entries of a reader */
};

/* An object that is passed on. */
struct spw_tensor_entry {
	uint64_t
		data; /* address for the GPU, a multiple of 256 | lap 8; 0 | lap: no more objects */
	uint64_t id;  /* of the receipt, lowest 56 bits | lap 8 */
	uint64_t bytes; /* that are present, 56 | lap 8 */
	uint64_t how;   /* 24 | buffer 16 | cause 8 | state 8 | lap 8 */
};
SPW_ASSERT_SIZE(struct spw_tensor_entry, 32);

/* Returns: the lap of object n in its entry, below 256, never 0 in the first lap. Thread: any. */
SPW_TENSOR_HD SPW_INLINE uint64_t spw_tensor_lap(uint64_t n, uint32_t entry_log2)
{
	return ((n >> entry_log2) + 1) & 0xff;
}

/* Returns: where the entry of object n begins, from the reader's first byte. Thread: any. */
SPW_TENSOR_HD SPW_INLINE uint64_t spw_tensor_entry_at(uint64_t n, uint32_t entry_log2)
{
	return SPW_TENSOR_READER_BYTES +
	       (n & ((1ull << entry_log2) - 1)) * sizeof(struct spw_tensor_entry);
}

/* Purpose: passes the stream's objects on, from now on; nobody else takes any.
 * Shape:   reader_cnt: 1 .. SPW_TENSOR_READER_MAX, the CTAs of the kernel that take part.
 * Owner:   the caller, until spw_tensor_ring_close. The stream stays open until then.
 * Thread:  any. Starts one, which spins while objects come and sleeps up to 0.1 ms otherwise.
 * Errors:  -ENOTSUP the stream was not opened for a GPU; -ERANGE; -ENOMEM; -EAGAIN no thread. */
int spw_tensor_ring_open(struct spw_tensor_stream *stream, uint32_t reader_cnt,
			 struct spw_tensor_ring **ring_out);

/* Returns: what the kernel needs. Thread: any. */
struct spw_tensor_ring_dev spw_tensor_ring_device(const struct spw_tensor_ring *ring);

/* Purpose: passes on no more objects: readers that have taken all find the end, and the kernel
 *          leaves. The end of the stream, and its owner's death, do the same.
 * Thread:  any. */
void spw_tensor_ring_stop(struct spw_tensor_ring *ring);

/* Purpose: gives back what readers have not released, and frees the ring.
 * Shape:   the kernel has ended (cudaStreamSynchronize), or was never launched; NULL is fine.
 * Returns: 0, also at the stream's end; -EOWNERDEAD: its owner died, with a text.
 * Thread:  any, once. */
int spw_tensor_ring_close(struct spw_tensor_ring *ring);

#ifdef __cplusplus
}
#endif
#endif
