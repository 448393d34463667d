/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What a turn of the loop writes into the flight recorder (spw_flight.h), in the order of a batch:
 *
 *   before the poll   spw_flight_before    where the port keeps its raw completions
 *   after it          spw_flight_poll      POLL with its frames, or with the raw completions that
 *                     spw_flight_empty     they come of; RAW of a burst without frames
 *   push              spw_flight_pushed    adds its stamp to the POLL
 *   settled           spw_flight_done      DONE with the completion
 *
 * and, below, what housekeeping finds out. Called by lib/pipe in the variants of the loop that
 * record; the state of the pipe itself (STATE) is written by pipe/pipe_flight.c.
 */
#ifndef SPW_FLIGHT_TURN_H
#define SPW_FLIGHT_TURN_H

#include "exec/spw_gring.h"
#include "flight/spw_flight.h"
#include "port/spw_port_raw.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Purpose: before a burst: the port writes its raw completions where the POLL will have them.
 * Shape:   raw NULL: the port keeps none; here and below.
 * Thread:  owner. */
SPW_INLINE void spw_flight_before(const struct spw_flight *flight, struct spw_port_raw *raw)
{
	if (raw)
		raw->to = flight->at + sizeof(struct spw_flight_poll) +
			  sizeof(struct spw_flight_sums);
}

/* Private to spw_flight_empty. Thread: owner. */
void spw_flight_raw(struct spw_flight *flight, const struct spw_port_raw *raw) SPW_NOINLINE;

/* Purpose: after a burst without frames, which may have read completions that are none: a record of
 *          their own for these.
 * Thread:  owner. */
SPW_INLINE void spw_flight_empty(struct spw_flight *flight, const struct spw_port_raw *raw)
{
	if (raw && spw_unlikely(raw->bytes))
		spw_flight_raw(flight, raw);
}

/* Purpose: writes the POLL of a batch that will be pushed, or spilled; the push adds its stamp.
 * Shape:   ring: that it will be pushed to. what: SPW_FLIGHT_FULL, SPW_FLIGHT_SPILL. exec_busy: the
 *          executions settled so far.
 * Thread:  owner. */
void spw_flight_poll(struct spw_flight *flight, const struct spw_port_raw *raw,
		     const struct spw_gring_batch *batch, const struct spw_gring *ring,
		     uint32_t what, uint64_t exec_busy);

/* Purpose: writes the first bytes of each frame, behind its POLL.
 * Shape:   pool NULL: the host cannot read them; nothing is written.
 * Thread:  owner. */
void spw_flight_snap(struct spw_flight *flight, const struct spw_pool *pool,
		     const struct spw_gring_batch *batch) SPW_NOINLINE;

/* Purpose: the stamp of the push, or of the spill, of the batch whose POLL was written last.
 * Thread:  owner. */
SPW_INLINE void spw_flight_pushed(struct spw_flight *flight, uint64_t tsc)
{
	flight->noted->pushed = tsc;
}

/* Purpose: writes the DONE of a settled batch before its place in the ring is freed.
 * Shape:   sent: frames that tx_burst took. tx_tsc, refill_tsc: 0: that step was not made.
 * Thread:  owner. */
SPW_INLINE void spw_flight_done(struct spw_flight *flight, const struct spw_gring *ring,
				const struct spw_gring_batch *batch, uint32_t sent, uint64_t tx_tsc,
				uint64_t refill_tsc)
{
	const struct spw_gring_done *from = &ring->done[batch->seq & ring->batch_mask];
	struct spw_flight_done *done = (struct spw_flight_done *)spw_flight_take(
		flight, SPW_FLIGHT_DONE, 0, (uint16_t)sent, sizeof(*done));

	done->reaped = batch->reaped_tsc;
	done->tx = tx_tsc;
	done->refill = refill_tsc;
	for (uint32_t i = 0; i < SPW_ARRAY_CNT(done->w); i++)
		done->w[i] = spw_gpu_load_rlx64(&from->w[i]);
}

/* ---- housekeeping ---- */

/* Purpose: notes the clock maps of rec if they changed.
 * Thread:  owner. */
void spw_flight_clocks(struct spw_flight *flight, const struct spw_rec *rec) SPW_COLD;

/* Purpose: fills in the clock maps of rec.
 * Thread:  owner. */
void spw_flight_clock_fill(const struct spw_rec *rec, struct spw_flight_clock *clock);

/* Purpose: notes an event of the port, after which refused echoes count under tx_drop; that the
 * port had no slots; who the oldest frame of batch seq is, which is reaped next. Thread:  owner. */
void spw_flight_event(struct spw_flight *flight, const struct spw_port_event *event,
		      uint32_t tx_drop) SPW_COLD;
void spw_flight_dry(struct spw_flight *flight, uint64_t from, uint64_t to) SPW_COLD;
void spw_flight_ident(struct spw_flight *flight, uint64_t seq,
		      const struct spw_ident *ident) SPW_COLD;

/* Purpose: notes that a slow batch has its cause, and spw_rec.keep_tsc afterwards.
 * Shape:   slow still has its place among the described.
 * Thread:  owner. */
void spw_flight_judged(struct spw_flight *flight, const struct spw_rec_slow *slow,
		       uint64_t keep_tsc) SPW_COLD;

#ifdef __cplusplus
}
#endif
#endif
