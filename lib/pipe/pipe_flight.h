/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What the loop writes into the flight recorder (rec/spw_flight.h), in the order of a batch: a RAW
 * where the port keeps raw completions, a POLL with its frames, later a DONE with its completion.
 * Called by pipe.c in the variants with PIPE_FLIGHT. The cold records are in pipe_flight.c.
 */
#ifndef PIPE_FLIGHT_H
#define PIPE_FLIGHT_H

#include "pipe/pipe_impl.h"
#include "port/spw_port_raw.h"
#include "rec/spw_flight.h"

/* pipe_flight.c. Purpose: writes the frames of a POLL as they are, since they differ in more than
 * the short form can say.
 * Thread: owner. */
void pipe_flight_wide(struct spw_pipe *pipe, const struct spw_gring_batch *batch) SPW_COLD;
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

/* Before a burst: the port writes its raw completions where their record will be. */
SPW_INLINE void pipe_flight_before(struct spw_pipe *pipe)
{
	struct spw_port_raw *raw = pipe->queue->raw;

	if (raw)
		raw->to = pipe->flight->at + sizeof(struct spw_flight_raw);
}

/* After the burst: they are a record, if there are any. */
SPW_INLINE void pipe_flight_raw(struct spw_pipe *pipe, uint16_t cnt)
{
	const struct spw_port_raw *raw = pipe->queue->raw;

	if (raw && raw->bytes)
		spw_flight_take(pipe->flight, SPW_FLIGHT_RAW, (uint8_t)cnt, 0,
				(uint32_t)sizeof(struct spw_flight_raw) + raw->bytes);
}

/* The frames in 16 bytes each. Returns: whether that was all there is to say of them. */
SPW_INLINE bool pipe_flight_frames(const struct spw_desc *desc, uint32_t cnt,
				   struct spw_flight_frame *frame)
{
	uint64_t odd = 0;

	for (uint32_t i = 0; i < cnt; i++) {
		const struct spw_desc *d = &desc[i];
		uint64_t stamp = d->nic_stamp - desc[0].nic_stamp;

		odd |= stamp >> 32 | (d->offset ^ desc[0].offset) | (d->peer ^ desc[0].peer) |
		       ((d->flags ^ desc[0].flags) & SPW_DESC_NIC_STAMP) |
		       (uint32_t)(d->region ^ desc[0].region);
		frame[i] = (struct spw_flight_frame){
			(uint32_t)stamp, d->slot,
			d->len | (d->flags & SPW_DESC_HANDLER_FLAGS) << 27, d->meta};
	}
	return !odd;
}

/* Writes the POLL of a batch that will be pushed, or spilled; the push adds its stamp. */
SPW_INLINE void pipe_flight_poll(struct spw_pipe *pipe, const struct spw_gring_batch *batch,
				 bool full)
{
	const struct spw_desc *first = &batch->desc[0];
	bool spill = batch == &pipe->spill;
	struct spw_flight_poll *poll = spw_flight_take(
		pipe->flight, SPW_FLIGHT_POLL, (uint8_t)batch->cnt,
		(uint16_t)((full ? SPW_FLIGHT_FULL : 0) | (spill ? SPW_FLIGHT_SPILL : 0) |
			   (first->flags & SPW_DESC_NIC_STAMP ? SPW_FLIGHT_STAMP : 0)),
		(uint32_t)(sizeof(*poll) +
			   (spill ? 0 : batch->cnt * sizeof(struct spw_flight_frame))));

	pipe->noted = poll;
	poll->seq = spill ? 0 : pipe->ring->head_seq;
	poll->polled = batch->polled_tsc;
	poll->pushed = 0;
	poll->since = batch->since_tsc;
	poll->empty = batch->empty_tsc;
	poll->before = batch->before;
	poll->turn = batch->turn_tsc;
	poll->exec_busy = pipe->exec_busy;
	poll->nic_base = first->nic_stamp;
	poll->ahead = (uint32_t)(pipe->ring->head_seq - pipe->ring->tail_seq);
	poll->offset = first->offset;
	poll->peer = first->peer;
	poll->region = first->region;
	poll->port = first->port;
	if (spw_unlikely(spill))
		return; /* nobody reads these frames */
	if (spw_unlikely(!pipe_flight_frames(batch->desc, batch->cnt, (void *)(poll + 1))))
		pipe_flight_wide(pipe, batch);
	if (spw_unlikely(pipe->flight->snap_bytes))
		pipe_flight_snap(pipe, batch);
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
