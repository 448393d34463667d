/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The hooks of the flight recorder (flight/spw_flight_turn.h) in a turn of pipe.c: a poll, a push,
 * a settled batch. They are empty in the variants without SPW_PIPE_FLIGHT.
 */
#ifndef PIPE_FLIGHT_H
#define PIPE_FLIGHT_H

#include "flight/spw_flight_turn.h"
#include "pipe/pipe_impl.h"

/* pipe_flight.c. Purpose: leaves a ripe segment if no batch is in flight, a full one in any case,
 * and begins the next with a STATE.
 * Thread: owner, between two turns. */
void pipe_flight_ripe(struct spw_pipe *pipe) SPW_COLD;
/* pipe_flight.c. Purpose: writes a STATE, the last one if the lane has ended; after a change of
 * backend before any other record. Nothing without a recorder. Thread: owner. */
void pipe_flight_state(struct spw_pipe *pipe, bool ended) SPW_COLD;

/* Before the poll. */
SPW_INLINE void pipe_flight_before(const unsigned int flags, struct spw_pipe *pipe)
{
	if (flags & SPW_PIPE_FLIGHT)
		spw_flight_before(pipe->flight, pipe->queue->raw);
}

/* After a poll that brought nothing. */
SPW_INLINE void pipe_flight_empty(const unsigned int flags, struct spw_pipe *pipe)
{
	if (flags & SPW_PIPE_FLIGHT)
		spw_flight_empty(pipe->flight, pipe->queue->raw);
}

/* After a poll that brought a batch. full: as many frames as it could. */
SPW_INLINE void pipe_flight_polled(const unsigned int flags, struct spw_pipe *pipe,
				   const struct spw_gring_batch *batch, bool full)
{
	uint32_t what;

	if (!(flags & SPW_PIPE_FLIGHT))
		return;
	what = (full ? SPW_FLIGHT_FULL : 0) | (batch == &pipe->spill ? SPW_FLIGHT_SPILL : 0);
	spw_flight_poll(pipe->flight, pipe->queue->raw, batch, pipe->ring, what, pipe->exec_busy);
	if (spw_unlikely(pipe->flight->snap_bytes) && !(what & SPW_FLIGHT_SPILL))
		spw_flight_snap(pipe->flight, pipe->slow.frames, batch);
}

/* After the push, or the spill. */
SPW_INLINE void pipe_flight_pushed(const unsigned int flags, struct spw_pipe *pipe, uint64_t tsc)
{
	if (flags & SPW_PIPE_FLIGHT)
		spw_flight_pushed(pipe->flight, tsc);
}

/* Once a batch is settled. */
SPW_INLINE void pipe_flight_done(const unsigned int flags, struct spw_pipe *pipe,
				 const struct spw_gring_batch *batch, uint32_t sent,
				 uint64_t tx_tsc, uint64_t refill_tsc)
{
	if (flags & SPW_PIPE_FLIGHT)
		spw_flight_done(pipe->flight, pipe->ring, batch, sent, tx_tsc, refill_tsc);
}

/* Between two turns. */
SPW_INLINE void pipe_flight_turn_end(const unsigned int flags, struct spw_pipe *pipe)
{
	if ((flags & SPW_PIPE_FLIGHT) && spw_unlikely(spw_flight_is_ripe(pipe->flight)))
		pipe_flight_ripe(pipe);
}

#endif
