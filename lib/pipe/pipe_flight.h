/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What the loop writes into the flight recorder (flight/spw_flight.h), in the order of a batch: a
 * POLL with its frames, or with the raw completions that they come of, later a DONE with its
 * completion. Called by pipe.c in the variants with SPW_PIPE_FLIGHT. The cold records are in
 * pipe_flight.c.
 */
#ifndef PIPE_FLIGHT_H
#define PIPE_FLIGHT_H

#include "pipe/pipe_impl.h"
#include "port/spw_port_raw.h"
#include "flight/spw_flight.h"

/* pipe_flight.c. Purpose: a record of its own for the raw completions of a burst without frames.
 * Thread: owner. */
void pipe_flight_raw(struct spw_pipe *pipe) SPW_NOINLINE;
/* pipe_flight.c. Purpose: writes the POLL of a batch that will be pushed, or spilled; the push adds
 * its stamp.
 * Thread: owner. */
void pipe_flight_poll(struct spw_pipe *pipe, const struct spw_gring_batch *batch, bool full);
/* pipe_flight.c. Purpose: writes the first bytes of each frame.
 * Thread: owner. */
void pipe_flight_snap(struct spw_pipe *pipe, const struct spw_gring_batch *batch) SPW_COLD;
/* pipe_flight.c. Purpose: leaves a ripe segment if no batch is in flight, a full one in any case,
 * and begins the next with a STATE.
 * Thread: owner, between two turns. */
void pipe_flight_ripe(struct spw_pipe *pipe) SPW_COLD;
/* pipe_flight.c. Purpose: writes a STATE, the last one if the lane has ended; after a change of way
 * before any other record. Nothing without a recorder.
 * Thread: owner. */
void pipe_flight_state(struct spw_pipe *pipe, bool ended) SPW_COLD;

/* Before a burst: the port writes its raw completions where the POLL will have them. */
SPW_INLINE void pipe_flight_before(struct spw_pipe *pipe)
{
	struct spw_port_raw *raw = pipe->queue->raw;

	if (raw)
		raw->to = pipe->flight->at + sizeof(struct spw_flight_poll) +
			  sizeof(struct spw_flight_sums);
}

/* After a burst without frames, which may have read completions that are none. */
SPW_INLINE void pipe_flight_empty(struct spw_pipe *pipe)
{
	if (pipe->queue->raw && spw_unlikely(pipe->queue->raw->bytes))
		pipe_flight_raw(pipe);
}

/* Writes the DONE of a settled batch before its place in the ring is freed. sent: frames that
 * tx_burst took. */
SPW_INLINE void pipe_flight_done(struct spw_pipe *pipe, const struct spw_gring_batch *batch,
				 uint32_t sent, uint64_t tx_tsc, uint64_t refill_tsc)
{
	const struct spw_gring_done *from = &pipe->ring->done[batch->seq & pipe->ring->batch_mask];
	struct spw_flight_done *done =
		spw_flight_take(pipe->flight, SPW_FLIGHT_DONE, 0, (uint16_t)sent, sizeof(*done));

	done->reaped = batch->reaped_tsc;
	done->tx = tx_tsc;
	done->refill = refill_tsc;
	for (uint32_t i = 0; i < SPW_ARRAY_CNT(done->w); i++)
		done->w[i] = spw_gpu_load_rlx64(&from->w[i]);
}

#endif
