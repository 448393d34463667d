/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The steps of a turn, in the order in which a frame meets them. `flags` is a constant in every instantiation.
 */
#ifndef PIPE_IMPL_H
#define PIPE_IMPL_H

#include "pipe/spw_pipe.h"

/* Beside enum spw_rec_flag. */
#define PIPE_NIC_STAMPS (1u << 8) /* a batch counts from its oldest frame's stamp */
#define PIPE_NIC_FRAMES (1u << 9) /* and each of its frames is recorded by its own */

/* A settled batch, sorted by where its slots go. */
struct pipe_split {
	uint16_t slot_cnt, tx_cnt;
	uint32_t slot[SPW_BURST_MAX];
	struct spw_desc *tx[SPW_BURST_MAX];
};

/* Events, heartbeat, maps and intervals: one of them a time, at random distances. */
void pipe_housekeep(struct spw_pipe *pipe) SPW_COLD;

/* pipe_slow.c: a batch that is slow, or among the longest. The first two while its slots are still lent. */
void pipe_slow_ident(struct spw_pipe *pipe, const struct spw_gring_batch *batch) SPW_COLD;
void pipe_slow_take(const unsigned int flags, struct spw_pipe *pipe, const struct spw_gring_batch *batch,
		    const struct spw_rec_stamps *at, bool sent_tx) SPW_COLD;
/* Judges some of those whose time has come; all: every one. */
void pipe_slow_judge(struct spw_pipe *pipe, bool all) SPW_COLD;
/* Has the port run dry since the last look? */
void pipe_slow_dry(struct spw_pipe *pipe) SPW_COLD;

/* Where the next burst goes: the ring's record, or the spill when the ring is full. */
SPW_INLINE struct spw_gring_batch *pipe_next(struct spw_pipe *pipe)
{
	struct spw_gring_batch *batch = spw_gring_next(pipe->ring);

	return spw_likely(batch) ? batch : &pipe->spill;
}

SPW_INLINE void pipe_note_poll(const unsigned int flags, struct spw_pipe *pipe, struct spw_gring_batch *batch, bool full)
{
	struct spw_rec_poll poll = {0};

	if (!(flags & SPW_REC_ON))
		return;
	spw_rec_polled(flags, &pipe->rec, full, &poll);
	if ((flags & PIPE_NIC_STAMPS) && batch->desc[0].flags & SPW_DESC_NIC_STAMP)
		poll.since = spw_rec_nic_since(&pipe->rec, batch->desc[0].nic_stamp, poll.polled);
	batch->polled_tsc = poll.polled;
	batch->since_tsc = poll.since;
	batch->empty_tsc = poll.empty;
	batch->before = poll.before;
	batch->turn_tsc = poll.turn;
}

SPW_INLINE uint16_t pipe_poll(const unsigned int flags, struct spw_pipe *pipe, struct spw_gring_batch *batch)
{
	uint16_t want = (uint16_t)SPW_MIN((uint64_t)pipe->burst, pipe->frames_left);
	uint16_t cnt = spw_port_rx_burst(pipe->queue, batch->desc, want);

	batch->cnt = cnt;
	if (cnt == 0)
		return 0;
	pipe_note_poll(flags, pipe, batch, cnt == want);
	pipe->frames_left -= cnt;
	spw_ledger_add(&pipe->ledger.polled_frames, cnt);
	return cnt;
}

/* The executor is behind: the frames go home unread. */
SPW_COLD static void pipe_spill(struct spw_pipe *pipe)
{
	struct spw_gring_batch *batch = &pipe->spill;
	uint32_t slot[SPW_BURST_MAX];

	for (uint32_t i = 0; i < batch->cnt; i++)
		slot[i] = batch->desc[i].slot;
	spw_port_release_burst(pipe->queue, slot, (uint16_t)batch->cnt);
	spw_ledger_add(&pipe->ledger.dropped[SPW_DROP_ring_full], batch->cnt);
}

SPW_INLINE void pipe_push(const unsigned int flags, struct spw_pipe *pipe, struct spw_gring_batch *batch)
{
	if (spw_unlikely(batch == &pipe->spill)) {
		pipe_spill(pipe);
		spw_rec_mark(flags, &pipe->rec, SPW_REGIME_refill);
		return;
	}
	spw_ledger_add(&pipe->ledger.pushed_batches, 1);
	spw_ledger_add(&pipe->ledger.pushed_frames, batch->cnt);
	if (flags & SPW_REC_ON) {
		batch->ahead = (uint32_t)(pipe->ring->head_seq - pipe->ring->tail_seq);
		batch->exec_busy = pipe->exec_busy;
	}
	spw_gring_push(pipe->ring, batch);
	if (!(flags & SPW_REC_INLINE))
		batch->pushed_tsc = spw_rec_mark(flags, &pipe->rec, SPW_REGIME_push);
}

SPW_INLINE struct spw_gring_batch *pipe_reap(const unsigned int flags, struct spw_pipe *pipe)
{
	struct spw_gring_batch *batch = spw_gring_reap(pipe->ring);

	if (!batch)
		return NULL;
	if (flags & SPW_REC_INLINE)
		batch->pushed_tsc = batch->reaped_tsc =
			spw_rec_mark_at(flags, &pipe->rec, SPW_REGIME_push, batch->exec_end);
	else
		batch->reaped_tsc = spw_rec_mark(flags, &pipe->rec, SPW_REGIME_reap);
	if ((flags & SPW_REC_ON) && spw_unlikely(batch->reaped_tsc - batch->since_tsc > pipe->rec.cold_tsc))
		pipe_slow_ident(pipe, batch);
	spw_ledger_add(&pipe->ledger.reaped_batches, 1);
	spw_ledger_add(&pipe->ledger.reaped_frames, batch->cnt);
	return batch;
}

/* Counts the verdicts and sorts the slots. A batch without echoes, the usual sink, takes the short way; the other way has
 * no branch per frame either. */
SPW_INLINE void pipe_sort(struct spw_pipe *pipe, struct spw_gring_batch *batch, struct pipe_split *split)
{
	uint64_t echo = batch->verdict[0], bad = batch->verdict[1];
	uint32_t bad_cnt = (uint32_t)__builtin_popcountll(bad);
	uint16_t tx = 0, home = 0;

	if (spw_unlikely(bad)) {
		spw_ledger_add(&pipe->ledger.bad_frames, bad_cnt);
		for (uint32_t i = 0; i < SPW_BAD_CNT; i++)
			spw_ledger_add(&pipe->bad[i], batch->bad[i]);
	}
	if (echo == 0) {
		for (; home < batch->cnt; home++)
			split->slot[home] = batch->desc[home].slot;
	} else {
		for (uint32_t i = 0; i < batch->cnt; i++) {
			uint16_t is_echo = echo >> i & 1;

			split->tx[tx] = &batch->desc[i];
			split->slot[home] = batch->desc[i].slot;
			tx = (uint16_t)(tx + is_echo);
			home = (uint16_t)(home + !is_echo);
		}
	}
	split->tx_cnt = tx;
	split->slot_cnt = home;
	spw_ledger_add(&pipe->ledger.consumed_frames, home - bad_cnt);
}

/* Sends the echoes from their own slots. What the port does not take goes home and is counted. The bytes that a GPU wrote
 * were acquired when the batch was reaped (G2); the driver orders them before its doorbell (docs/040-ordering, echo). */
SPW_INLINE uint64_t pipe_echo(const unsigned int flags, struct spw_pipe *pipe, struct pipe_split *split)
{
	uint16_t sent;

	if (split->tx_cnt == 0)
		return 0;
	sent = spw_port_tx_burst(pipe->queue, split->tx, split->tx_cnt);
	spw_ledger_add(&pipe->ledger.tx_frames, sent);
	if (spw_unlikely(sent < split->tx_cnt)) {
		spw_ledger_add(&pipe->ledger.dropped[pipe->tx_drop], split->tx_cnt - sent);
		for (uint16_t i = sent; i < split->tx_cnt; i++)
			split->slot[split->slot_cnt++] = split->tx[i]->slot;
	}
	return spw_rec_mark(flags, &pipe->rec, SPW_REGIME_tx);
}

SPW_INLINE uint64_t pipe_recycle(const unsigned int flags, struct spw_pipe *pipe, const struct pipe_split *split,
				 uint64_t sent_tsc)
{
	if (split->slot_cnt == 0)
		return sent_tsc;
	spw_port_release_burst(pipe->queue, split->slot, split->slot_cnt);
	return spw_rec_mark(flags, &pipe->rec, SPW_REGIME_refill);
}

SPW_INLINE void pipe_record(const unsigned int flags, struct spw_pipe *pipe, const struct spw_gring_batch *batch,
			    uint64_t sent_tsc, bool sent_tx)
{
	struct spw_rec_stamps at = {
		.since = batch->since_tsc, .polled = batch->polled_tsc, .pushed = batch->pushed_tsc,
		.exec_start = batch->exec_start, .exec_end = batch->exec_end, .reaped = batch->reaped_tsc,
		.sent = sent_tsc,
	};

	if (spw_unlikely(spw_rec_batch(flags, &pipe->rec, &at, batch->cnt)))
		pipe_slow_take(flags, pipe, batch, &at, sent_tx);
	if (flags & SPW_REC_ON) {
		pipe->exec_busy += batch->exec_end - batch->exec_start;
		pipe->exec_last_end = SPW_MAX(pipe->exec_last_end, batch->exec_end);
	}
	if (flags & PIPE_NIC_FRAMES)
		spw_rec_nic(flags, &pipe->rec, batch->desc, batch->cnt, &at);
}

/* The turn ends. A turn that neither polled nor reaped anything was idle: its one clock reading is here. */
SPW_INLINE void pipe_end_turn(const unsigned int flags, struct spw_pipe *pipe, bool idle)
{
	if (idle)
		spw_rec_mark(flags, &pipe->rec, SPW_REGIME_idle_poll);
	spw_rec_turn(flags, &pipe->rec);
	if (spw_unlikely(--pipe->house_turns == 0)) {
		pipe_housekeep(pipe);
		spw_rec_mark(flags, &pipe->rec, SPW_REGIME_housekeeping);
	}
}

#endif
