/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Housekeeping: everything that is not a frame, one slice at a time. The distance is random so that it keeps no step
 * with what it would disturb; at 20 ns a turn it comes every 2 µs or so when idle.
 */
#include "pipe/pipe_impl.h"

#define HOUSE_TURNS_MIN 64u
#define HOUSE_TURNS_SPREAD 128u /* a power of 2 */

static uint32_t house_random(struct spw_pipe *pipe)
{
	uint32_t x = pipe->house_rng; /* xorshift32 (Marsaglia 2003) */

	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	return pipe->house_rng = x;
}

/* A link that is down takes no echoes; the counter says which it was. */
static void house_link(struct spw_pipe *pipe, const struct spw_port_event *event)
{
	if (event->kind == SPW_PORT_EVENT_LINK_DOWN && pipe->tx_drop == SPW_DROP_tx_full)
		pipe->tx_drop = SPW_DROP_tx_down;
	else if (event->kind == SPW_PORT_EVENT_LINK_UP && pipe->can_tx)
		pipe->tx_drop = SPW_DROP_tx_full;
}

static void house_events(struct spw_pipe *pipe)
{
	struct spw_pipe_events *to = &pipe->events;
	struct spw_port_event event[4];
	uint16_t cnt = spw_port_events(pipe->queue, event, SPW_ARRAY_CNT(event));

	for (uint16_t i = 0; i < cnt; i++) {
		house_link(pipe, &event[i]);
		if (to->head - spw_thr_load_acq(&to->tail) == SPW_PIPE_EVENT_CNT) { /* [Q6 acquire, pairs with Q5] */
			spw_thr_count(&to->lost, 1);
			continue;
		}
		to->event[to->head % SPW_PIPE_EVENT_CNT] = event[i];
		spw_thr_store_rel(&to->head, to->head + 1); /* [Q1 release, pairs with Q2 in spw_pipe_event] */
	}
}

bool spw_pipe_event(struct spw_pipe *pipe, struct spw_port_event *event_out)
{
	struct spw_pipe_events *from = &pipe->events;

	if (from->tail == spw_thr_load_acq(&from->head)) /* [Q2 acquire, pairs with Q1] */
		return false;
	*event_out = from->event[from->tail % SPW_PIPE_EVENT_CNT];
	spw_thr_store_rel(&from->tail, from->tail + 1); /* [Q5 release, pairs with Q6 in house_events] */
	return true;
}

void pipe_housekeep(struct spw_pipe *pipe)
{
	switch (pipe->house_slice++ % 3) {
	case 0:
		house_events(pipe);
		break;
	case 1:
		if (pipe->exec)
			spw_exec_beat(pipe->exec, pipe->exec_ring);
		break;
	default:
		spw_gring_clock(pipe->ring);
		spw_rec_clocks(&pipe->rec, pipe->exec_clock, pipe->nic_clock);
		spw_rec_flip(&pipe->rec);
		pipe_slow_dry(pipe);
		pipe_slow_judge(pipe, false);
	}
	pipe->house_turns = HOUSE_TURNS_MIN + house_random(pipe) % HOUSE_TURNS_SPREAD;
}
