/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The run-to-completion loop: what every frame goes through, top to bottom.
 *
 * spw_pipe_run() is called once per lcore by the program and calls one turn after the other. A turn
 * calls the port (rx_burst, tx_burst, release_burst), the executor ring (next, push, reap, retire)
 * and the recorder; it calls nothing else except, now and then, housekeeping (pipe_house.c) and the
 * description of a slow batch (pipe_slow.c).
 *
 *   pipe_turn   pipe_next ─ pipe_poll ─ pipe_push            at most one batch in
 *               pipe_settle: up to two batches out, each     pipe_reap ─ pipe_sort ─ pipe_echo ─
 *                                                            pipe_recycle ─ pipe_record ─ retire
 *               pipe_end_turn
 *
 * A slot's path through a turn. The pipe never owns one: it borrows from the port and owes it back.
 *
 *   port ─rx_burst─► record ─push─► executor ─reap─┬─ consume, bad ─► release_burst ─► port
 *                      │ ring full                 └─ echo ─ tx_burst ─┬─ taken ─► port, when sent
 *                      └─► spill ─► release_burst                      └─ refused ─► release_burst
 *
 * Before changing it: `flags` is a constant in every instantiation, so `if (flags & ...)` costs
 * nothing and everything here must stay inlined. A slot that pipe_poll borrowed is returned
 * exactly once, by pipe_spill, pipe_recycle or an accepted transmit in pipe_echo (or, after run, by
 * spw_pipe_reclaim).
 */
#include <errno.h>
#include <string.h>

#include "base/spw_err.h"
#include "pipe/pipe_flight.h"
#include "pipe/pipe_impl.h"
#include "pipe/pipe_obj.h"

/* Batches settled per turn at most. A turn pushes one, or one for each idle unit that shares it, so
 * a backlog shrinks. */
#define SETTLE_MAX 2

/* A settled batch: the slots to recycle, and the frames to send back. */
struct pipe_split {
	uint16_t slot_cnt, tx_cnt;
	uint32_t slot[SPW_BURST_MAX];
	struct spw_desc *tx[SPW_BURST_MAX];
};

/* ---- the steps of a turn, in the order in which a frame meets them ---- */

/* Returns the record that the next burst is written into: the executor ring's next one, or the
 * spill record if the ring is full. */
SPW_INLINE struct spw_gring_batch *pipe_next(const unsigned int flags, struct spw_pipe *pipe)
{
	struct spw_gring_batch *batch = spw_gring_next(pipe->ring);

	if ((flags & SPW_PIPE_OBJECTS) && spw_unlikely(!pipe_obj_has_room(pipe)))
		return &pipe->spill;
	return spw_likely(batch) ? batch : &pipe->spill;
}

/* Stamps the batch. `full`: the burst brought as many frames as it could, so that more may wait in
 * the port. The NIC stamp of frame 0, the oldest, replaces the poll's own estimate of when waiting
 * began. */
SPW_INLINE void pipe_note_poll(const unsigned int flags, struct spw_pipe *pipe,
			       struct spw_gring_batch *batch, bool full)
{
	struct spw_rec_poll poll = {0};

	if (!(flags & SPW_REC_ON))
		return;
	spw_rec_polled(flags, &pipe->rec, full, &poll);
	if (flags & SPW_PIPE_OBJECTS)
		pipe->obj.empty_tsc = poll.empty;
	if ((flags & SPW_PIPE_OBJECTS) && pipe->obj.waiting)
		return;
	if ((flags & SPW_PIPE_NIC_STAMPS) && batch->desc[0].flags & SPW_DESC_NIC_STAMP)
		poll.since = spw_rec_nic_since(&pipe->rec, batch->desc[0].nic_stamp, poll.polled);
	batch->polled_tsc = poll.polled;
	batch->since_tsc = poll.since;
	batch->empty_tsc = poll.empty;
	batch->before = poll.before;
	batch->turn_tsc = poll.turn;
}

/* Borrows up to a burst of frames from the port; their descriptors are written straight into the
 * record, behind those of objects that wait in it. Returns the number of frames. */
SPW_INLINE uint16_t pipe_poll(const unsigned int flags, struct spw_pipe *pipe,
			      struct spw_gring_batch *batch)
{
	const uint16_t at = flags & SPW_PIPE_OBJECTS ? (uint16_t)pipe->obj.waiting : 0;
	uint16_t want = (uint16_t)SPW_MIN((uint64_t)pipe->burst, pipe->frames_left);
	uint16_t cnt;

	if (flags & SPW_PIPE_OBJECTS)
		want = (uint16_t)SPW_MIN(want, SPW_BURST_MAX - at);
	pipe_flight_before(flags, pipe);
	cnt = spw_port_rx_burst(pipe->queue, batch->desc + at, want);
	batch->cnt = at + cnt;
	if (cnt == 0) {
		spw_rec_empty(flags, &pipe->rec);
		pipe_flight_empty(flags, pipe);
		return 0;
	}
	pipe_note_poll(flags, pipe, batch, cnt == want);
	pipe_flight_polled(flags, pipe, batch, cnt == want);
	pipe->frames_left -= cnt;
	spw_ledger_add(&pipe->ledger.polled_frames, cnt);
	return cnt;
}

/* The executor ring is full: returns the slots to the port unread, counted ring_full. Waiting would
 * only move the loss into the NIC, where nothing counts it by reason. */
SPW_COLD static void pipe_spill(struct spw_pipe *pipe)
{
	struct spw_gring_batch *batch = &pipe->spill;
	uint32_t slot[SPW_BURST_MAX];

	for (uint32_t i = 0; i < batch->cnt; i++)
		slot[i] = batch->desc[i].slot;
	spw_port_release_burst(pipe->queue, slot, (uint16_t)batch->cnt);
	spw_ledger_add(&pipe->ledger.dropped[SPW_DROP_ring_full], batch->cnt);
}

/* Hands the batch to the executor. Never waits. */
SPW_INLINE void pipe_push(const unsigned int flags, struct spw_pipe *pipe,
			  struct spw_gring_batch *batch)
{
	uint64_t spilled;
	uint32_t parts;

	if (spw_unlikely(batch == &pipe->spill)) {
		pipe_spill(pipe);
		spilled = spw_rec_mark(flags, &pipe->rec, SPW_REGIME_refill);
		pipe_flight_pushed(flags, pipe, spilled);
		return;
	}
	spw_ledger_add(&pipe->ledger.pushed_frames, batch->cnt);
	if (flags & SPW_REC_ON) {
		batch->ahead = (uint32_t)(pipe->ring->head_seq - pipe->ring->tail_seq);
		batch->exec_busy = pipe->exec_busy;
	}
	parts = spw_gring_push(pipe->ring, batch);
	spw_ledger_add(&pipe->ledger.pushed_batches, parts);
	if (flags & SPW_REC_INLINE)
		return;
	batch->pushed_tsc = spw_rec_mark(flags, &pipe->rec, SPW_REGIME_push);
	pipe_flight_pushed(flags, pipe, batch->pushed_tsc);
	for (uint32_t i = 1; spw_unlikely(i < parts); i++)
		spw_gring_at(pipe->ring, batch->seq + i)->pushed_tsc = batch->pushed_tsc;
}

/* Takes the oldest batch that the executor has finished; NULL if there is none. With an inline
 * executor the batch ran inside the push, and the end of its execution is the stamp of both push
 * and reap. A slow batch is identified here, while its slots are still lent and their bytes intact.
 */
SPW_INLINE struct spw_gring_batch *pipe_reap(const unsigned int flags, struct spw_pipe *pipe)
{
	struct spw_gring_batch *batch = spw_gring_reap(pipe->ring);

	if (!batch)
		return NULL;
	if ((flags & SPW_PIPE_OBJECTS) && batch->fill) {
		spw_rec_mark(flags, &pipe->rec, SPW_REGIME_reap);
		return batch;
	}
	if (flags & SPW_REC_INLINE)
		batch->pushed_tsc = batch->reaped_tsc =
			spw_rec_mark_at(flags, &pipe->rec, SPW_REGIME_push, batch->exec_end);
	else
		batch->reaped_tsc = spw_rec_mark(flags, &pipe->rec, SPW_REGIME_reap);
	if ((flags & SPW_REC_ON) &&
	    spw_unlikely(batch->reaped_tsc - batch->since_tsc > pipe->rec.cold_tsc))
		pipe_slow_ident(pipe, batch);
	spw_ledger_add(&pipe->ledger.reaped_batches, 1);
	spw_ledger_add(&pipe->ledger.reaped_frames, batch->cnt);
	return batch;
}

/* Counts the verdicts and splits the slots into echoes and those to recycle. A batch without
 * echoes, as in any sink, takes the short loop; the other loop has no branch per frame either. */
SPW_INLINE void pipe_sort(struct spw_pipe *pipe, struct spw_gring_batch *batch,
			  struct pipe_split *split)
{
	uint64_t echo = batch->verdict[0], bad = batch->verdict[1];
	uint32_t bad_cnt = (uint32_t)__builtin_popcountll(bad);
	uint16_t tx = 0, back = 0;

	if (spw_unlikely(bad)) {
		spw_ledger_add(&pipe->ledger.bad_frames, bad_cnt);
		for (uint32_t i = 0; i < SPW_BAD_CNT; i++)
			spw_ledger_add(&pipe->bad[i], batch->bad[i]);
	}
	if (echo == 0) {
		for (; back < batch->cnt; back++)
			split->slot[back] = batch->desc[back].slot;
	} else {
		for (uint32_t i = 0; i < batch->cnt; i++) {
			uint16_t is_echo = echo >> i & 1;

			split->tx[tx] = &batch->desc[i];
			split->slot[back] = batch->desc[i].slot;
			tx = (uint16_t)(tx + is_echo);
			back = (uint16_t)(back + !is_echo);
		}
	}
	split->tx_cnt = tx;
	split->slot_cnt = back;
	spw_ledger_add(&pipe->ledger.consumed_frames, back - bad_cnt);
}

/* Sends the echoes from their own slots; the port recycles those slots when the NIC has sent them.
 * Echoes that the port refuses are counted and join the slots to recycle. The bytes that a GPU
 * wrote were acquired when the batch was reaped (G2); the driver orders them before its doorbell
 * (docs/040-ordering, the echo chain). */
SPW_INLINE uint64_t pipe_echo(const unsigned int flags, struct spw_pipe *pipe,
			      struct pipe_split *split)
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

/* Returns all other slots to the port. Returns the stamp of the batch's last step. */
SPW_INLINE uint64_t pipe_recycle(const unsigned int flags, struct spw_pipe *pipe,
				 const struct pipe_split *split, uint64_t sent_tsc)
{
	if (split->slot_cnt == 0)
		return sent_tsc;
	spw_port_release_burst(pipe->queue, split->slot, split->slot_cnt);
	return spw_rec_mark(flags, &pipe->rec, SPW_REGIME_refill);
}

/* Records the batch's stages, and describes it if it was slow or is among the longest. exec_busy
 * and exec_last_end let a later slow batch find out how long it waited for earlier ones. */
SPW_INLINE void pipe_record(const unsigned int flags, struct spw_pipe *pipe,
			    const struct spw_gring_batch *batch, uint64_t sent_tsc, bool sent_tx)
{
	struct spw_rec_stamps at = {
		.since = batch->since_tsc,
		.polled = batch->polled_tsc,
		.pushed = batch->pushed_tsc,
		.exec_start = batch->exec_start,
		.exec_end = batch->exec_end,
		.reaped = batch->reaped_tsc,
		.sent = sent_tsc,
	};

	if (spw_unlikely(spw_rec_batch(flags, &pipe->rec, &at, batch->cnt)))
		pipe_slow_take(flags, pipe, batch, &at, sent_tx);
	if (flags & SPW_REC_ON) {
		pipe->exec_busy += batch->exec_end - batch->exec_start;
		pipe->exec_last_end = SPW_MAX(pipe->exec_last_end, batch->exec_end);
	}
	if (flags & SPW_PIPE_NIC_FRAMES)
		spw_rec_nic(flags, &pipe->rec, batch->desc, batch->cnt, &at);
}

/* Ends the turn. A turn that neither polled nor reaped anything was idle: its only clock reading is
 * here. Housekeeping takes one of its three slices every 64 to 191 turns. */
SPW_INLINE void pipe_end_turn(const unsigned int flags, struct spw_pipe *pipe, bool idle)
{
	if (idle)
		spw_rec_mark(flags, &pipe->rec, SPW_REGIME_idle_poll);
	spw_rec_turn(flags, &pipe->rec);
	if (spw_unlikely(--pipe->house_turns == 0)) {
		pipe_housekeep(pipe);
		spw_rec_mark(flags, &pipe->rec, SPW_REGIME_housekeeping);
	}
	pipe_flight_turn_end(flags, pipe);
}

/* ---- turns ---- */

/* Acts on a batch's verdicts and records it. */
SPW_INLINE void pipe_settle_one(const unsigned int flags, struct spw_pipe *pipe,
				struct spw_gring_batch *done)
{
	struct pipe_split split;
	uint64_t tx_tsc, sent_tsc;

	pipe_sort(pipe, done, &split);
	tx_tsc = pipe_echo(flags, pipe, &split);
	sent_tsc = pipe_recycle(flags, pipe, &split, tx_tsc);
	pipe_record(flags, pipe, done, sent_tsc, split.tx_cnt != 0);
	pipe_flight_done(flags, pipe, done, done->cnt - split.slot_cnt, tx_tsc,
			 split.slot_cnt ? sent_tsc : 0);
}

/* Finishes up to SETTLE_MAX batches that the executor has done. Returns their number. */
SPW_INLINE int pipe_settle(const unsigned int flags, struct spw_pipe *pipe)
{
	int settled = 0;

	for (; settled < SETTLE_MAX; settled++) {
		struct spw_gring_batch *done = pipe_reap(flags, pipe);

		if (!done)
			break;
		if ((flags & SPW_PIPE_OBJECTS) && done->fill)
			pipe_obj_filled(pipe, done);
		else
			pipe_settle_one(flags, pipe, done);
		if (flags & SPW_PIPE_OBJECTS)
			pipe_obj_retire(pipe, done);
		spw_gring_retire(pipe->ring, done);
		if (flags & SPW_PIPE_OBJECTS)
			pipe_obj_retired(pipe, done);
	}
	return settled;
}

/* Pushes the batch; one with objects takes its moves along. */
SPW_INLINE void pipe_push_objects(const unsigned int flags, struct spw_pipe *pipe,
				  struct spw_gring_batch *batch)
{
	if (flags & SPW_PIPE_OBJECTS)
		pipe_obj_push(pipe, batch);
	pipe_push(flags, pipe, batch);
	if (flags & SPW_PIPE_OBJECTS)
		pipe_obj_pushed(pipe, batch);
}

/* One turn of the loop. Returns the number of frames polled. */
SPW_INLINE uint16_t pipe_turn(const unsigned int flags, struct spw_pipe *pipe)
{
	struct spw_gring_batch *batch = pipe_next(flags, pipe);
	uint16_t polled = pipe_poll(flags, pipe, batch);
	int settled;

	if ((flags & SPW_PIPE_OBJECTS) && polled)
		pipe_obj_place(pipe, batch);
	if (flags & SPW_PIPE_OBJECTS ? pipe_obj_is_due(pipe) : polled)
		pipe_push_objects(flags, pipe, batch);
	if (flags & SPW_PIPE_OBJECTS)
		pipe_obj_fill(pipe);
	settled = pipe_settle(flags, pipe);
	pipe_end_turn(flags, pipe, !polled && !settled);
	return polled;
}

/* ---- variants: one body, constant flags, chosen at set-up ---- */

/* A variant, the same with the flight recorder, and the same with objects. */
#define PIPE_BOTH(X, name, flags)                   \
	X(name, flags)                              \
	X(name##_flight, (flags) | SPW_PIPE_FLIGHT) \
	X(name##_objects, (flags) | SPW_PIPE_OBJECTS)

/* name, flags */
#define PIPE_VARIANT_LIST(X)                                                               \
	X(bare, 0)                                                                         \
	X(bare_objects, SPW_PIPE_OBJECTS)                                                  \
	PIPE_BOTH(X, rec, SPW_REC_ON)                                                      \
	PIPE_BOTH(X, rec_exec, SPW_REC_ON | SPW_REC_EXEC_CLOCK)                            \
	PIPE_BOTH(X, rec_nic, SPW_REC_ON | SPW_PIPE_NIC_STAMPS)                            \
	PIPE_BOTH(X, rec_frames, SPW_REC_ON | SPW_PIPE_NIC_STAMPS | SPW_PIPE_NIC_FRAMES)   \
	PIPE_BOTH(X, rec_inline, SPW_REC_ON | SPW_REC_INLINE)                              \
	PIPE_BOTH(X, rec_inline_nic, SPW_REC_ON | SPW_REC_INLINE | SPW_PIPE_NIC_STAMPS)    \
	PIPE_BOTH(X, rec_inline_frames,                                                    \
		  SPW_REC_ON | SPW_REC_INLINE | SPW_PIPE_NIC_STAMPS | SPW_PIPE_NIC_FRAMES) \
	PIPE_BOTH(X, rec_exec_nic, SPW_REC_ON | SPW_REC_EXEC_CLOCK | SPW_PIPE_NIC_STAMPS)  \
	PIPE_BOTH(X, rec_exec_frames,                                                      \
		  SPW_REC_ON | SPW_REC_EXEC_CLOCK | SPW_PIPE_NIC_STAMPS | SPW_PIPE_NIC_FRAMES)

#define X(name, flags)                                          \
	static uint16_t pipe_turn_##name(struct spw_pipe *pipe) \
	{                                                       \
		return pipe_turn(flags, pipe);                  \
	}
PIPE_VARIANT_LIST(X)
#undef X

static const struct pipe_variant pipe_variant[] = {
#define X(name, flags) {flags, pipe_turn_##name},
	PIPE_VARIANT_LIST(X)
#undef X
};

/* One variant for all recordings, since its speed does not matter: its flags are not constant. */
uint16_t spw_pipe_turn_again(struct spw_pipe *pipe)
{
	return pipe_turn((pipe->turn_flags & ~SPW_PIPE_OBJECTS) | SPW_REC_REPLAY, pipe);
}

/* The same for draining. */
void pipe_drain_turn(struct spw_pipe *pipe)
{
	const unsigned int flags = pipe->turn_flags | (pipe->flags & SPW_PIPE_FLIGHT);
	int settled;

	if ((flags & SPW_PIPE_OBJECTS) && pipe->obj.waiting)
		pipe_push_objects(flags, pipe, spw_gring_next(pipe->ring));
	if (flags & SPW_PIPE_OBJECTS)
		pipe_obj_fill(pipe);
	settled = pipe_settle(flags, pipe);
	pipe_end_turn(flags, pipe, !settled);
}

/* ---- set-up and run ---- */

const struct pipe_variant *pipe_variant_find(unsigned int flags)
{
	for (size_t i = 0; i < SPW_ARRAY_CNT(pipe_variant); i++)
		if (pipe_variant[i].flags == flags)
			return &pipe_variant[i];
	return NULL;
}

int spw_pipe_init(struct spw_pipe *pipe, const struct spw_pipe_conf *conf)
{
	int rc;

	if (!conf->queue || !conf->pool)
		return spw_err(EINVAL, "pipe: needs a port queue and its pool");
	if (conf->burst < 1 || conf->burst > SPW_BURST_MAX)
		return spw_err(EINVAL, "pipe: burst %u is not in 1 .. %u", conf->burst,
			       SPW_BURST_MAX);
	if (conf->flight && !conf->record)
		return spw_err(EINVAL, "pipe: a recording is made of stamps: turn them on");
	memset(pipe, 0, offsetof(struct spw_pipe, rec));
	rc = spw_ring_init(&pipe->events.ring, SPW_PIPE_EVENT_CNT);
	if (rc)
		return rc;
	spw_rec_init(&pipe->rec);
	if (conf->record && conf->slow_tsc)
		spw_rec_slow_above(&pipe->rec, conf->slow_tsc, conf->slow_wait_tsc);
	if (conf->record && conf->slow_tsc)
		spw_rec_quota(&pipe->rec, conf->quota_fd);
	if (conf->record && conf->slow_tsc)
		spw_rec_trail(&pipe->rec, conf->trail);
	if (pipe->rec.trail && conf->nic_stamps)
		pipe->trail.port.sent = conf->sent;
	pipe->slow.frames = conf->pool->head_region && conf->pool->head_region->host_va ? conf->pool
											: NULL;
	pipe->slow.lcore = conf->lcore;
	pipe->slow.queue = conf->queue_idx;
	pipe->slow.nic_stamps = conf->nic_stamps;
	pipe->flight = conf->flight;
	if (pipe->flight)
		spw_rec_gaps_to(&pipe->rec, spw_flight_gap, pipe->flight);
	pipe->queue = conf->queue;
	pipe->burst = conf->burst;
	pipe->frames_left = conf->frames_max ? conf->frames_max : UINT64_MAX;
	pipe->can_tx = conf->can_tx;
	pipe->tx_drop = conf->can_tx ? SPW_DROP_tx_full : SPW_DROP_tx_down;
	pipe->nic_clock = conf->nic_clock;
	pipe->drain_tsc = conf->drain_tsc;
	pipe->house_turns = 1;
	pipe->house_rng = conf->seed | 1;
	if (conf->record)
		pipe->flags = SPW_REC_ON | (conf->nic_stamps ? SPW_PIPE_NIC_STAMPS : 0) |
			      (conf->nic_stamps && conf->nic_frames ? SPW_PIPE_NIC_FRAMES : 0) |
			      (conf->flight ? SPW_PIPE_FLIGHT : 0);
	rc = pipe_obj_init(pipe, conf);
	return rc ? rc : pipe_backends_init(pipe, conf);
}

void spw_pipe_begin(struct spw_pipe *pipe)
{
	spw_rec_clocks(&pipe->rec, pipe->exec_clock, pipe->nic_clock);
	spw_rec_begin(&pipe->rec);
	pipe_flight_state(pipe, false);
}

void spw_pipe_end(struct spw_pipe *pipe)
{
	uint64_t drain_start = spw_tsc_now();

	if (pipe->obj.obj)
		spw_obj_stop(pipe->obj.obj);
	while ((pipe->ring->retired_seq != pipe->ring->head_seq || pipe_obj_is_pending(pipe)) &&
	       spw_tsc_now() - drain_start < pipe->drain_tsc)
		pipe_drain_turn(pipe);
	spw_pipe_slow_judge(pipe, true);
	pipe_flight_state(pipe, true);
	spw_rec_end(&pipe->rec);
	spw_thr_store_rel(&pipe->ended, 1); /* [Q3 release, pairs with Q4 in spw_pipe_ended] */
}

void spw_pipe_run(struct spw_pipe *pipe, const uint32_t *stop)
{
	spw_pipe_begin(pipe);
	while (!spw_thr_load_rlx(stop) && pipe->frames_left)
		pipe->turn(pipe);
	spw_pipe_end(pipe);
}

uint64_t spw_pipe_reclaim(struct spw_pipe *pipe)
{
	struct spw_gring *ring = pipe->ring;
	uint64_t lost = 0;

	while (pipe_settle(pipe->flags & SPW_PIPE_OBJECTS, pipe))
		;
	while (ring->retired_seq != ring->head_seq) {
		struct spw_gring_batch *batch = &ring->batch[ring->retired_seq & ring->batch_mask];
		const uint32_t frames = batch->fill ? 0 : batch->cnt;

		for (uint32_t i = 0; i < frames; i++)
			spw_port_release_burst(pipe->queue, &batch->desc[i].slot, 1);
		lost += frames;
		ring->tail_seq = ring->retired_seq + 1;
		spw_gring_retire(ring, batch);
	}
	spw_ledger_add(&pipe->ledger.dropped[SPW_DROP_exec_lost], lost);
	return lost;
}
