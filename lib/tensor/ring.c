/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Passes a stream's objects on to a kernel (spw_tensor_ring.h has the picture): the thread, which
 * is the only one that takes from the stream, and the memory that it shares with the GPU.
 *
 *   head   objects passed on; held[n % entries] of tail .. head - 1
 *   tail   objects given back: the fewest that a reader has released
 *
 * There are more entries than buffers, and an object that is passed on keeps its buffer, so an
 * entry is never written before all readers are beyond it; one is left for the end.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "tensor/spw_tensor_ring.h"
#include "tensor/tensor.h"

#define TAKE_NS         100000 /* between two looks at what readers have released */
#define BEAT_TIMEOUT_NS 1000000000ull
#define PAGE_BYTES      4096u

struct spw_tensor_ring {
	struct spw_tensor_stream *stream;
	uint8_t *memory;
	struct spw_tensor_ring_dev dev;
	pthread_t thread;
	uint64_t head, tail, beat;
	bool ended;
	int rc;              /* why, but for a stop */
	uint32_t stop, quit; /* by others */
	struct spw_tensor held[];
};

static uint64_t *ring_word(const struct spw_tensor_ring *ring, uint32_t reader, uint64_t at)
{
	return (uint64_t *)(void *)(ring->memory + reader * ring->dev.reader_bytes + at);
}

/* w: as in struct spw_tensor_entry, without the lap. */
static void ring_pass(struct spw_tensor_ring *ring, const uint64_t *w)
{
	const uint64_t lap = spw_tensor_lap(ring->head, ring->dev.entry_log2);
	const uint64_t at = spw_tensor_entry_at(ring->head, ring->dev.entry_log2);

	for (uint32_t r = 0; r < ring->dev.reader_cnt; r++)
		for (uint32_t i = 0; i < 4; i++) /* [TE4 release] */
			spw_gpu_store_rel64(ring_word(ring, r, at) + i, w[i] | lap);
}

/* The end takes an entry as an object does, so readers find it behind the last one. */
static void ring_end(struct spw_tensor_ring *ring)
{
	const uint64_t w[4] = {0};

	ring_pass(ring, w);
	ring->ended = true;
}

/* Waits a moment at most, since releases and the beat are looked after by the same thread. The end
 * of the stream is no failure; the owner's death is, and close reports it. */
static void ring_take(struct spw_tensor_ring *ring)
{
	struct spw_tensor *tensor = &ring->held[ring->head & ((1u << ring->dev.entry_log2) - 1)];
	int rc = spw_tensor_next(ring->stream, TAKE_NS, tensor);
	const struct spw_obj_receipt *r = tensor->receipt;

	if (rc == -ETIMEDOUT)
		return;
	if (rc) {
		ring->rc = rc == -EPIPE ? 0 : rc;
		ring_end(ring);
		return;
	}
	ring_pass(ring, (const uint64_t[]){tensor->cuda, r->id << 8, r->bytes_present << 8,
					   (uint64_t)tensor->buffer << 24 | r->cause << 16 |
						   r->state << 8});
	ring->head++;
}

/* Gives back the objects before `until`. */
static void ring_return(struct spw_tensor_ring *ring, uint64_t until)
{
	for (; ring->tail < SPW_MIN(until, ring->head); ring->tail++)
		spw_tensor_release(ring->stream,
				   &ring->held[ring->tail & ((1u << ring->dev.entry_log2) - 1)]);
}

/* `done` words are the GPU's: one that is beyond head gives back no more than was passed on. */
static void ring_reap(struct spw_tensor_ring *ring)
{
	uint64_t done = UINT64_MAX;

	for (uint32_t r = 0; r < ring->dev.reader_cnt; r++) {
		const uint64_t *word = ring_word(ring, r, SPW_TENSOR_BEAT_BYTES);
		const uint64_t of_reader = spw_gpu_load_acq64(word); /* [TE5 acquire] */

		done = SPW_MIN(done, of_reader);
	}
	ring_return(ring, done);
}

/* After the end it goes on: readers still release what they have, and a kernel that is in its last
 * object must not find its host silent. */
static void *ring_run(void *arg)
{
	struct spw_tensor_ring *ring = arg;

	while (!spw_thr_load_acq(&ring->quit)) {
		ring->beat++;
		for (uint32_t r = 0; r < ring->dev.reader_cnt; r++)
			spw_gpu_store_rlx64(ring_word(ring, r, 0), ring->beat);
		ring_reap(ring);
		if (!ring->ended && spw_thr_load_acq(&ring->stop))
			ring_end(ring);
		if (ring->ended)
			tensor_sleep_ns(TAKE_NS);
		else
			ring_take(ring);
	}
	ring_return(ring, UINT64_MAX);
	if (!ring->ended)
		ring_end(ring);
	return NULL;
}

/* Pages of its own: what is registered with CUDA is pinned as a whole. Zero is the lap of no entry.
 */
static int ring_memory(struct spw_tensor_ring *ring)
{
	const size_t bytes =
		SPW_ALIGN_UP(ring->dev.reader_cnt * ring->dev.reader_bytes, PAGE_BYTES);

	ring->memory = aligned_alloc(PAGE_BYTES, bytes);
	if (!ring->memory)
		return spw_err(ENOMEM, "no memory for the entries of %u readers",
			       ring->dev.reader_cnt);
	memset(ring->memory, 0, bytes);
	return tensor_cuda_map(&ring->stream->cuda, ring->memory, bytes, &ring->dev.base);
}

static void ring_drop(struct spw_tensor_ring *ring)
{
	if (ring->dev.base)
		tensor_cuda_unmap(&ring->stream->cuda, ring->memory);
	free(ring->memory);
	free(ring);
}

int spw_tensor_ring_open(struct spw_tensor_stream *stream, uint32_t reader_cnt,
			 struct spw_tensor_ring **ring_out)
{
	const uint32_t entries = spw_pow2_ceil32(stream->page->buffer_cnt + 1);
	struct spw_tensor_ring *ring;
	int rc;

	if (!stream->cuda.calls)
		return spw_err(ENOTSUP, "stream %s is read by the CPU alone: open it for a GPU",
			       stream->page->name);
	if (!spw_in_range(reader_cnt, 1, SPW_TENSOR_READER_MAX))
		return spw_err(ERANGE, "%u readers: 1 .. %u", reader_cnt, SPW_TENSOR_READER_MAX);
	ring = calloc(1, sizeof(*ring) + entries * sizeof(ring->held[0]));
	if (!ring)
		return spw_err(ENOMEM, "no memory for %u objects", entries);
	ring->stream = stream;
	ring->dev = (struct spw_tensor_ring_dev){
		.reader_bytes = SPW_ALIGN_UP(
			SPW_TENSOR_READER_BYTES + entries * sizeof(struct spw_tensor_entry), 128),
		.beat_timeout_ns = BEAT_TIMEOUT_NS,
		.reader_cnt = reader_cnt,
		.entry_log2 = (uint32_t)__builtin_ctz(entries),
	};
	rc = ring_memory(ring);
	if (!rc) {
		rc = pthread_create(&ring->thread, NULL, ring_run, ring);
		rc = rc ? spw_err(rc, "no thread for the ring: %s", strerror(rc)) : 0;
	}
	if (rc) {
		ring_drop(ring);
		return rc;
	}
	*ring_out = ring;
	return 0;
}

struct spw_tensor_ring_dev spw_tensor_ring_device(const struct spw_tensor_ring *ring)
{
	return ring->dev;
}

void spw_tensor_ring_stop(struct spw_tensor_ring *ring)
{
	spw_thr_store_rel(&ring->stop, 1u);
}

int spw_tensor_ring_close(struct spw_tensor_ring *ring)
{
	int rc;

	if (!ring)
		return 0;
	spw_thr_store_rel(&ring->quit, 1u);
	pthread_join(ring->thread, NULL);
	rc = ring->rc;
	if (rc)
		spw_err(-rc, "stream %s: spinwire (pid %d) died, or its objects cannot be taken",
			ring->stream->page->name, ring->stream->owner_pid);
	ring_drop(ring);
	return rc;
}
