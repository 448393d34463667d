/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Private to lib/port/rails: one stream over several ports of this process.
 *
 *            ┌─ rail 0: any port ─┐   rx   tag read, reorder window (window.h) ──► lent
 *   rails ───┼─ rail 1            ├── tx   by flow, or frame by frame; an echo over its own rail
 *            └─ ... rail 3       ─┘   one pool: rail r may reserve the r-th part of it
 *
 *   rails:mlx5:mlx5_0,mode=eth+mlx5:mlx5_1,mode=eth,rails_order=flow
 *
 * Queue i of rails is queue i of every rail; all of them have one owner and get slots from, and put
 * slots into, one pool. `home` has the rail from which a slot was received: there it is released,
 * and there an echo goes. A slot without a home was lent empty by rails itself; it goes over any
 * rail, and the rail that took it puts it back into the pool when it was sent.
 */
#ifndef RAILS_H
#define RAILS_H

#include "port/port.h"
#include "port/rails/window.h"

#define RAILS_KEY     "rails_"
#define RAILS_HOME_NO SPW_PORT_RAIL_MAX /* lent empty */
#define RAILS_BUCKETS 64u               /* of flows, a power of 2 */
#define RAILS_PEERS   256u /* peers whose rails are watched; beyond them all rails are tried */
#define RAILS_MASKS   (1u << SPW_PORT_RAIL_MAX)

enum rails_order { RAILS_ORDER_NONE, RAILS_ORDER_FLOW, RAILS_ORDER_STREAM };

struct rails_conf {
	struct spw_port_spec rail[SPW_PORT_RAIL_MAX];
	uint32_t rail_cnt;
	enum rails_order order;
	bool by_frame; /* spread frame by frame, else by flow */
	uint64_t window, wait_us;
};

/* What one queue counts of one rail. Written by the owner, sampled by others. */
struct rails_count {
	uint64_t polled;
	uint64_t late, duplicate, flushed; /* received there, and not lent */
	uint64_t dropped_bytes;
	uint64_t moved;   /* sent there because their own rail was down */
	uint64_t outages; /* times that its link, its device or a peer's connection ended */
};

struct rails_port;

struct rails_queue {
	/* read in every burst */
	struct spw_port_queue *rail[SPW_PORT_RAIL_MAX];
	uint32_t rail_cnt;
	uint32_t poll_next, tx_next; /* the rail that is polled, or sent to, next */
	uint32_t full_cnt; /* full bursts, while numbers are waited for, since one gave up late ones
			    */
	struct spw_pool *pool;
	uint8_t *home; /* [slot_cnt]: RAILS_HOME_NO or the rail */
	struct rails_port *port;
	uint32_t lent_cnt; /* slots without a home that are lent, minus those that a rail took */
	bool by_frame, messages, readable;
	struct rails_window window;
	/* written by the owner, sampled by others */
	uint64_t rx_frames, untagged;
	uint64_t no_slot; /* sum of the rails' */
	struct rails_count count[SPW_PORT_RAIL_MAX];
	/* messages: rails over which a peer of this queue can be reached, a bit each */
	uint8_t peer_up[RAILS_PEERS], peer_was_up[RAILS_PEERS];
	uint32_t event_next;
	uint16_t index;
} SPW_ALIGNED(2 * SPW_CACHE_LINE);

struct rails_port {
	struct spw_port base;
	/* rails whose link is up, a bit each. Written by the owner of queue 0, or under EAL's link
	 * events by every owner alike; read by all owners. */
	uint32_t up SPW_ALIGNED(SPW_CACHE_LINE);
	uint32_t was_up, gone; /* owner of queue 0: all have been up; devices that left */
	/* constant after open, read in every burst */
	uint8_t rail_of[RAILS_MASKS][RAILS_BUCKETS] SPW_ALIGNED(SPW_CACHE_LINE);
	uint8_t rail_after[RAILS_MASKS][SPW_PORT_RAIL_MAX];
	uint32_t all; /* bits of all rails */
	struct rails_conf conf;
	uint64_t wait_tsc; /* conf.wait_us in ticks */
	struct spw_port *rail[SPW_PORT_RAIL_MAX];
	struct rails_queue *queue;
};

SPW_INLINE struct rails_port *rails_of(const struct spw_port *port)
{
	return spw_container_of((struct spw_port *)(uintptr_t)port, struct rails_port, base);
}

/* The rails over which a frame may go: those that are up, or all if none is. */
SPW_INLINE uint32_t rails_mask(const struct rails_queue *q, const struct spw_desc *desc)
{
	uint32_t up = spw_thr_load_rlx(&q->port->up);

	if (q->messages)
		up &= desc->peer < RAILS_PEERS ? q->peer_up[desc->peer] : 0;
	return up ? up : q->port->all;
}

/* ---- spec.c ---- */

#define RAILS_FORM "rails:PORT+PORT..., 2 to 4 ports"
extern const struct spw_port_keys *const rails_sets[];

/* Purpose: splits a specification into those of its rails, and reads the keys of rails itself.
 * Thread:  any
 * Errors:  -EINVAL, -ERANGE. */
int rails_spec_parse(const struct spw_port_spec *spec, struct rails_conf *conf_out);

/* ---- rx.c, tx.c, event.c ---- */

/* Purpose: spw_port_queue.rx_burst for an order and a spread, for frames or messages.
 * Thread:  setup; what it returns: owner */
typedef uint16_t rails_rx_fn(void *q, struct spw_desc *desc, uint16_t cnt);
rails_rx_fn *rails_rx_choose(const struct rails_conf *conf, bool messages);
/* Purpose: returns what is parked or ready to its rails, counted as flushed.
 * Thread:  setup, after the owner's last burst */
void rails_rx_flush(struct rails_queue *q);
/* Purpose: spw_port_queue.release_burst, .tx_burst, .lend_burst, .events.
 * Thread:  owner */
void rails_release(void *queue, const uint32_t *slot, uint16_t cnt);
uint16_t rails_tx(void *queue, struct spw_desc **desc, uint16_t cnt);
uint16_t rails_lend(void *queue, uint32_t *slot, uint16_t cnt);
uint16_t rails_events(void *queue, struct spw_port_event *event, uint16_t cnt);

#endif
