/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Events of the rails, as events of one port. A rail's link, its peer or its device may go while
 * the others carry on; only the last one is the port's own.
 *
 *   one of several goes   RAIL_DOWN
 *   the last one goes     LINK_DOWN or PEER_DOWN; DEVICE_GONE once all devices are gone
 *   one returns           LINK_UP or PEER_UP if there was none, else RAIL_UP
 *
 * At start the port is up when all rails are, so that a source which waits for the link begins with
 * every rail. Each text begins with the rail's name.
 */
#include <stdio.h>
#include <string.h>

#include "port/rails/rails.h"

/* What becomes of an event when the rails that are up change from `was` to `up`; *was_up: all have
 * been up once, or the port was. */
static enum spw_port_event_kind rails_kind_of(enum spw_port_event_kind kind, uint32_t was,
					      uint32_t up, bool *was_up, uint32_t all)
{
	bool first;

	if (kind == SPW_PORT_EVENT_LINK_UP || kind == SPW_PORT_EVENT_PEER_UP) {
		first = *was_up ? !was : up == all;
		*was_up |= first;
		return first ? kind : SPW_PORT_EVENT_RAIL_UP;
	}
	return up ? SPW_PORT_EVENT_RAIL_DOWN : kind;
}

static bool rails_is_up(enum spw_port_event_kind kind)
{
	return kind == SPW_PORT_EVENT_LINK_UP || kind == SPW_PORT_EVENT_PEER_UP;
}

/* Links and devices belong to the port. Ethernet ports report them on queue 0. */
static void rails_link_event(struct rails_queue *q, uint32_t r, struct spw_port_event *event)
{
	struct rails_port *rp = q->port;
	const uint32_t was = rp->up, bit = 1u << r;
	bool was_up = rp->was_up;

	if (event->kind == SPW_PORT_EVENT_DEVICE_GONE)
		rp->gone |= bit;
	spw_thr_store_rlx(&rp->up, rails_is_up(event->kind) ? was | bit : was & ~bit);
	if (!rails_is_up(event->kind) && was & bit)
		spw_thr_count(&q->count[r].outages, 1);
	if (event->kind == SPW_PORT_EVENT_DEVICE_GONE && rp->gone != rp->all)
		event->kind = rp->up ? SPW_PORT_EVENT_RAIL_DOWN : SPW_PORT_EVENT_LINK_DOWN;
	else
		event->kind = rails_kind_of(event->kind, was, rp->up, &was_up, rp->all);
	rp->was_up = was_up;
}

static void rails_peer_event(struct rails_queue *q, uint32_t r, struct spw_port_event *event)
{
	const uint32_t peer = event->code;
	uint8_t was;
	bool was_up;

	if (peer >= RAILS_PEERS)
		return;
	was = q->peer_up[peer];
	was_up = q->peer_was_up[peer];
	q->peer_up[peer] = (uint8_t)(rails_is_up(event->kind) ? was | 1u << r : was & ~(1u << r));
	if (!rails_is_up(event->kind) && was >> r & 1)
		spw_thr_count(&q->count[r].outages, 1);
	event->kind = rails_kind_of(event->kind, was, q->peer_up[peer], &was_up, q->port->all);
	q->peer_was_up[peer] = was_up;
}

static void rails_event_translate(struct rails_queue *q, uint32_t r, struct spw_port_event *event)
{
	char text[sizeof(event->text)];

	switch (event->kind) {
	case SPW_PORT_EVENT_LINK_UP:
	case SPW_PORT_EVENT_LINK_DOWN:
	case SPW_PORT_EVENT_DEVICE_GONE:
		rails_link_event(q, r, event);
		break;
	case SPW_PORT_EVENT_PEER_UP:
	case SPW_PORT_EVENT_PEER_DOWN:
		rails_peer_event(q, r, event);
		break;
	default:
		break;
	}
	memcpy(text, event->text, sizeof(text));
	snprintf(event->text, sizeof(event->text), "rail %.24s: %.120s", q->port->rail[r]->name,
		 text);
}

/* What the pipe reads when it asks whether the port ran out of slots. */
static void rails_sum_no_slot(struct rails_queue *q)
{
	uint64_t sum = 0;

	for (uint32_t r = 0; r < q->rail_cnt; r++)
		sum += q->rail[r]->no_slot ? spw_thr_load_rlx(q->rail[r]->no_slot) : 0;
	spw_thr_store_rlx(&q->no_slot, sum);
}

/* Every rail is asked in each call: what they do here includes TX completions and recovery. */
uint16_t rails_events(void *queue, struct spw_port_event *event, uint16_t cnt)
{
	struct rails_queue *q = queue;
	uint16_t n = 0;

	for (uint32_t k = 0; k < q->rail_cnt; k++) {
		const uint32_t r = q->event_next;
		const uint16_t got = spw_port_events(q->rail[r], event + n, (uint16_t)(cnt - n));

		q->event_next = r + 1 == q->rail_cnt ? 0 : r + 1;
		for (uint16_t i = 0; i < got; i++)
			rails_event_translate(q, r, &event[n + i]);
		n = (uint16_t)(n + got);
	}
	rails_sum_no_slot(q);
	return n;
}
