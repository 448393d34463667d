/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A stream's objects inside a kernel of your own (tensor/spw_tensor_ring.h has the host's side):
 *
 *   __global__ void look(const __grid_constant__ struct spw_tensor_ring_dev ring)
 *   {
 *           struct spwd_tensor_reader reader = spwd_tensor_begin(ring, blockIdx.x);
 *           __shared__ struct spwd_tensor_object object;
 *
 *           while (spwd_tensor_next(&reader, &object)) {
 *                   ...                              all threads read object.data
 *                   spwd_tensor_release(&reader);
 *           }
 *   }
 *
 * Readers 0 .. reader_cnt - 1 are one CTA each, of one dimension; they run at the same time. A
 * reader that ends early holds every object from then on, until the ring is closed.
 *
 * The kernel leaves by itself: when the stream has ended, at spw_tensor_ring_stop, and when the
 * ring's thread has been silent for a second (a process that was stopped, or is being debugged).
 *
 * Objects are read by plain loads, never by __ldg, ld.global.nc or const __restrict__: the buffer
 * is used again, and the non-coherent path may return what was there before. Labels: TE4, TE5 of
 * docs/040-ordering.md.
 */
#ifndef SPWD_TENSOR_CUH
#define SPWD_TENSOR_CUH

#include "exec/spwd_order.cuh"
#include "tensor/spw_tensor_ring.h"

#define SPWD_TENSOR_BEAT_NS 100000ull /* between two looks at the beat */

/* In shared memory. */
struct spwd_tensor_object {
	const uint8_t *data; /* NULL: there is none */
	uint64_t id;         /* lowest 56 bits */
	uint64_t bytes;      /* that are present, of those on the wire */
	uint32_t state;      /* enum spw_obj_state */
	uint32_t cause;      /* enum spw_obj_cause */
	uint32_t buffer;
	bool silent; /* data is NULL since the host was silent, not at the end */
};

/* A CTA's place in the ring; every thread has the same. */
struct spwd_tensor_reader {
	uint64_t at; /* of its memory */
	uint64_t n;  /* objects that were released */
	uint64_t beat_timeout_ns;
	uint32_t entry_log2;
};

/* Thread: all of the CTA. */
SPWD struct spwd_tensor_reader spwd_tensor_begin(const struct spw_tensor_ring_dev &ring,
						 uint32_t reader)
{
	return {ring.base + reader * ring.reader_bytes, 0, ring.beat_timeout_ns, ring.entry_log2};
}

/* Returns: whether the entry of the next object is there. */
SPWD bool spwd_tensor_look(const struct spwd_tensor_reader &r, struct spwd_tensor_object *object)
{
	const uint64_t at = r.at + spw_tensor_entry_at(r.n, r.entry_log2),
		       lap = spw_tensor_lap(r.n, r.entry_log2);
	uint64_t w[4];

	spwd_sys_load_acq2((const void *)at, &w[0], &w[1]); /* [TE4 acquire] */
	spwd_sys_load_acq2((const void *)(at + 16), &w[2], &w[3]);
	for (uint32_t i = 0; i < 4; i++)
		if ((w[i] & 0xff) != lap)
			return false;
	*object = {(const uint8_t *)(w[0] & ~0xffull),
		   w[1] >> 8,
		   w[2] >> 8,
		   (uint32_t)(w[3] >> 8) & 0xff,
		   (uint32_t)(w[3] >> 16) & 0xff,
		   (uint32_t)(w[3] >> 24) & 0xffff,
		   false};
	return true;
}

SPWD void spwd_tensor_poll(const struct spwd_tensor_reader &r, struct spwd_tensor_object *object)
{
	uint64_t looked = spwd_now_ns(), beat_at = looked, beat = 0, now, word, unused;

	while (!spwd_tensor_look(r, object)) {
		now = spwd_now_ns();
		if (now < looked + SPWD_TENSOR_BEAT_NS)
			continue;
		looked = now;
		spwd_sys_load_rlx2((const void *)r.at, &word, &unused);
		if (word != beat) {
			beat = word;
			beat_at = now;
		} else if (now > beat_at + r.beat_timeout_ns) {
			*object = {NULL, 0, 0, 0, 0, 0, true};
			return;
		}
	}
}

/* Purpose: waits for the next object.
 * Shape:   object: in shared memory, the CTA's; the one before was released.
 * Returns: false: there is none, and none will come; the kernel ends.
 * Order:   the object's bytes may be read by all threads.
 * Thread:  all of the CTA; collective. */
SPWD bool spwd_tensor_next(struct spwd_tensor_reader *r, struct spwd_tensor_object *object)
{
	if (threadIdx.x == 0)
		spwd_tensor_poll(*r, object);
	__syncthreads();
	return object->data != NULL;
}

/* Purpose: this CTA reads the object no more, and what it wrote before is visible to the host once
 *          the object is back.
 * Thread:  all of the CTA; collective. */
SPWD void spwd_tensor_release(struct spwd_tensor_reader *r)
{
	__syncthreads(); /* all threads have read */
	r->n++;
	if (threadIdx.x == 0) /* [TE5 release, pairs with ring_reap] */
		spwd_sys_store_rel((uint64_t *)(r->at + SPW_TENSOR_BEAT_BYTES), r->n);
}

#endif
