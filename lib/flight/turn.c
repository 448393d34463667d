/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The records of a turn and of housekeeping (spw_flight_turn.h). lib/pipe calls these in the
 * variants of its turn that record; all of it runs on the lcore, so it takes a place in the ring
 * (spw_flight_take) and fills it, and never waits.
 *
 *   ring   ... │ POLL head │ columns, or sums + raw completions │ SNAP │ ... │ DONE │ CLOCK ...
 *                          └ written before the head, which states their length
 *
 * The port may have written its raw completions to where they belong already (spw_port_raw.to):
 * then they are not copied.
 */
#include <string.h>

#include "flight/spw_flight_turn.h"

/* ---- frames ---- */

/* A burst without frames: its completions alone. */
void spw_flight_raw(struct spw_flight *flight, const struct spw_port_raw *raw)
{
	struct spw_flight_raw *to = spw_flight_take(
		flight, SPW_FLIGHT_RAW, 0, 0, (uint32_t)sizeof(struct spw_flight_raw) + raw->bytes);

	memmove(to + 1, raw->to, raw->bytes);
}

/* The head, which comes behind its frames, since their bytes are known only then. */
SPW_INLINE void turn_poll_head(struct spw_flight *flight, const struct spw_gring_batch *batch,
			       const struct spw_gring *ring, uint32_t what, uint64_t exec_busy,
			       uint32_t bytes)
{
	struct spw_flight_poll *poll = spw_flight_take(flight, SPW_FLIGHT_POLL, (uint8_t)batch->cnt,
						       (uint16_t)what,
						       (uint32_t)sizeof(*poll) + bytes);

	poll->seq = what & SPW_FLIGHT_SPILL ? 0 : ring->head_seq;
	poll->polled = batch->polled_tsc;
	poll->pushed = 0;
	poll->since = batch->since_tsc;
	poll->empty = batch->empty_tsc;
	poll->before = batch->before;
	poll->turn = batch->turn_tsc;
	poll->exec_busy = exec_busy;
	poll->ahead = (uint32_t)(ring->head_seq - ring->tail_seq);
	poll->reserved = 0;
	flight->noted = poll;
}

/* The poll itself may have been a gap, whose record comes first and lies where the POLL would have
 * begun; the raw completions behind it are whole. */
_Static_assert(sizeof(struct spw_flight_gap) <=
		       sizeof(struct spw_flight_poll) + sizeof(struct spw_flight_sums),
	       "a gap has room before them");

void spw_flight_poll(struct spw_flight *flight, const struct spw_port_raw *raw,
		     const struct spw_gring_batch *batch, const struct spw_gring *ring,
		     uint32_t what, uint64_t exec_busy)
{
	uint8_t *at = flight->at + sizeof(struct spw_flight_poll);
	uint32_t bytes;

	if (raw && raw->bytes) {
		what |= SPW_FLIGHT_CQES;
		bytes = (uint32_t)sizeof(struct spw_flight_sums) + raw->bytes;
		if (spw_unlikely(raw->to != at + sizeof(struct spw_flight_sums)))
			memmove(at + sizeof(struct spw_flight_sums), raw->to, raw->bytes);
		spw_flight_sum(batch->desc, batch->cnt, (void *)at);
	} else {
		uint32_t widths = spw_columns_put(spw_flight_row, batch->desc,
						  sizeof(struct spw_desc) / 8, batch->cnt,
						  (void *)at);

		what |= widths << SPW_FLIGHT_WIDTHS_SHIFT;
		bytes = spw_columns_bytes(widths, batch->cnt);
	}
	turn_poll_head(flight, batch, ring, what, exec_busy, bytes);
}

/* Of each frame the first bytes, padded to 8: the next record must be aligned. pool NULL: no
 * payload is kept. */
void spw_flight_snap(struct spw_flight *flight, const struct spw_pool *pool,
		     const struct spw_gring_batch *batch)
{
	uint32_t most = flight->snap_bytes, bytes = sizeof(struct spw_flight_rec);
	struct spw_flight_rec *rec;
	uint8_t *to;

	if (!pool)
		return;
	for (uint32_t i = 0; i < batch->cnt; i++)
		bytes += (uint32_t)SPW_ALIGN_UP(SPW_MIN(batch->desc[i].len, most), 8u);
	rec = spw_flight_take(flight, SPW_FLIGHT_SNAP, (uint8_t)batch->cnt, 0, bytes);
	to = (uint8_t *)(rec + 1);
	for (uint32_t i = 0; i < batch->cnt; i++) {
		const struct spw_desc *d = &batch->desc[i];
		uint32_t len = SPW_MIN(d->len, most);

		memcpy(to, spw_pool_slot_addr(pool, d->slot) + d->offset, len);
		to += SPW_ALIGN_UP(len, 8u);
	}
}

/* ---- housekeeping ---- */

void spw_flight_clock_fill(const struct spw_rec *rec, struct spw_flight_clock *clock)
{
	clock->exec_map = rec->exec_map;
	clock->nic_map = rec->nic_map;
	clock->exec_unc = rec->exec_unc;
	clock->nic_unc = rec->nic_unc;
	clock->nic_step_2_32 = rec->nic_step_2_32;
}

/* Uncertainties grow all the time, but only frames need them: while nothing else is recorded the
 * newest CLOCK takes the place of the one before it, or an idle lane would fill its ring. */
static void turn_clock_put(struct spw_flight *flight, const struct spw_rec *rec)
{
	struct spw_flight_clock *clock = flight->noted_clock;

	if (!clock || (uint8_t *)clock + sizeof(*clock) != flight->at)
		clock = spw_flight_take(flight, SPW_FLIGHT_CLOCK, 0, 0, sizeof(*clock));
	flight->noted_clock = clock;
	spw_flight_clock_fill(rec, &flight->clock);
	flight->clock.rec = clock->rec;
	*clock = flight->clock;
}

/* Most turns change no clock, and then nothing is recorded. */
void spw_flight_clocks(struct spw_flight *flight, const struct spw_rec *rec)
{
	if (rec->nic_unc != flight->clock.nic_unc || rec->exec_unc != flight->clock.exec_unc ||
	    memcmp(&rec->nic_map, &flight->clock.nic_map, sizeof(rec->nic_map)) ||
	    memcmp(&rec->exec_map, &flight->clock.exec_map, sizeof(rec->exec_map)))
		turn_clock_put(flight, rec);
}

void spw_flight_event(struct spw_flight *flight, const struct spw_port_event *event,
		      uint32_t tx_drop)
{
	struct spw_flight_event *note =
		spw_flight_take(flight, SPW_FLIGHT_EVENT, 0, (uint16_t)tx_drop, sizeof(*note));

	note->event = *event;
}

void spw_flight_dry(struct spw_flight *flight, uint64_t from, uint64_t to)
{
	struct spw_flight_dry *note = spw_flight_take(flight, SPW_FLIGHT_DRY, 0, 0, sizeof(*note));

	note->from = from;
	note->to = to;
}

/* Which of the generator's frames a batch began with, for --explain. */
void spw_flight_ident(struct spw_flight *flight, uint64_t seq, const struct spw_ident *ident)
{
	struct spw_flight_ident *note =
		spw_flight_take(flight, SPW_FLIGHT_IDENT, 0, 0, sizeof(*note));

	note->seq = seq;
	note->ident = *ident;
}

/* The longest slow frame so far is what control looks at to write a file (worst_tsc). */
void spw_flight_judged(struct spw_flight *flight, const struct spw_rec_slow *slow,
		       uint64_t keep_tsc)
{
	const struct spw_cause_facts *facts = &slow->facts;
	uint64_t whole = spw_rec_slow_whole(slow);
	struct spw_flight_judged *note = spw_flight_take(
		flight, SPW_FLIGHT_JUDGED, 0,
		(uint16_t)(slow->cause | (facts->wait_relaunch ? SPW_FLIGHT_WAIT_RELAUNCH : 0) |
			   (facts->run_relaunch ? SPW_FLIGHT_RUN_RELAUNCH : 0)),
		sizeof(*note));

	note->seq = slow->seq;
	note->whole = whole;
	note->above = slow->above;
	note->wait_pause = facts->wait_pause;
	note->run_pause = facts->run_pause;
	note->reap_pause = facts->reap_pause;
	note->keep_tsc = keep_tsc;
	if (slow->above && whole > flight->worst_tsc)
		spw_thr_store_rlx(&flight->worst_tsc, whole);
}
