/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Housekeeping: everything in the loop that is not a frame.
 *
 * pipe_end_turn() calls pipe_housekeep() every 64 to 191 turns; each call runs one of three slices,
 * so that no turn gets long. The distance is random so that housekeeping does not fall into step
 * with a periodic load; at 20 ns per idle turn it comes about every 2 µs.
 *
 * Port events pass from the lcore to the control thread through a ring of lib/ring (R1 to R4 of
 * docs/040-ordering). An event that finds it full is counted and dropped, except that the last
 * entry is reserved for DEVICE_GONE, which ends the run.
 */
#include "flight/spw_flight_turn.h"
#include "pipe/pipe_impl.h"

#define HOUSE_TURNS_MIN    64u
#define HOUSE_TURNS_SPREAD 128u /* a power of 2 */

static uint32_t house_random(struct spw_pipe *pipe)
{
	uint32_t x = pipe->house_rng; /* xorshift32 (Marsaglia 2003) */

	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	return pipe->house_rng = x;
}

/* Chooses the reason under which refused echoes are counted: no room, or no link. */
static void house_link(struct spw_pipe *pipe, const struct spw_port_event *event)
{
	if (event->kind == SPW_PORT_EVENT_LINK_DOWN && pipe->tx_drop == SPW_DROP_tx_full)
		pipe->tx_drop = SPW_DROP_tx_down;
	else if (event->kind == SPW_PORT_EVENT_LINK_UP && pipe->can_tx)
		pipe->tx_drop = SPW_DROP_tx_full;
}

/* ---- port events ---- */

static void house_event_put(struct spw_pipe_events *events, const struct spw_port_event *event)
{
	uint32_t reserved = event->kind != SPW_PORT_EVENT_DEVICE_GONE;

	if (spw_ring_room(&events->ring, 1 + reserved) <= reserved) {
		spw_thr_count(&events->lost, 1);
		return;
	}
	events->event[spw_ring_write_pos(&events->ring) % SPW_PIPE_EVENT_CNT] = *event;
	spw_ring_publish(&events->ring, 1);
}

static void house_events(struct spw_pipe *pipe)
{
	struct spw_port_event event[4];
	uint16_t cnt = spw_port_events(pipe->queue, event, SPW_ARRAY_CNT(event));

	pipe_trail_done(pipe);
	for (uint16_t i = 0; i < cnt; i++) {
		house_link(pipe, &event[i]);
		if (pipe->flight)
			spw_flight_event(pipe->flight, &event[i], pipe->tx_drop);
		house_event_put(&pipe->events, &event[i]);
	}
}

/* ---- executors ---- */

/* Of the executors that are not in use, too: they may have been started for a change. */
static void house_beats(struct spw_pipe *pipe)
{
	for (uint32_t i = 0; i < pipe->backend_cnt; i++)
		if (pipe->backend[i].exec)
			spw_exec_beat(pipe->backend[i].exec, pipe->backend[i].exec_ring);
}

/* ---- the slices ---- */

void pipe_housekeep(struct spw_pipe *pipe)
{
	switch (pipe->house_slice++ % 3) {
	case 0:
		house_events(pipe);
		break;
	case 1:
		house_beats(pipe);
		pipe_backend_follow(pipe);
		break;
	default:
		spw_gring_clock(pipe->ring);
		spw_rec_clocks(&pipe->rec, pipe->exec_clock, pipe->nic_clock);
		spw_rec_flip(&pipe->rec);
		pipe_slow_dry(pipe);
		spw_pipe_slow_judge(pipe, false);
		pipe_flight_house(pipe);
		if (pipe->obj.obj)
			spw_obj_beat(pipe->obj.obj);
	}
	pipe->house_turns = HOUSE_TURNS_MIN + house_random(pipe) % HOUSE_TURNS_SPREAD;
}
