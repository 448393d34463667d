/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Private to lib/port/fault, and to the tests that compare injected faults with reported causes.
 */
#ifndef FAULT_IMPL_H
#define FAULT_IMPL_H

#include "base/spw_enum.h"
#include "port/port.h"

/* name, meaning */
#define FAULT_LIST(X, P)                                                                     \
	X(P, rx_hold, "polls return nothing: frames wait in the port although it is polled") \
	X(P, rx_spin, "one receive burst takes so long")                                     \
	X(P, refill_hold, "released slots are held back: the port runs out of buffers")      \
	X(P, refill_spin, "one release burst takes so long")                                 \
	X(P, tx_spin, "one transmit burst takes so long")                                    \
	X(P, tx_refuse, "transmit bursts take nothing")

enum fault_kind { SPW_ENUM(FAULT) };

#define FAULT_WINDOW_MAX 4096u /* recorded; later ones still happen */

/* When a fault was active, ticks. */
struct fault_window {
	uint64_t from, to;
};

struct fault_queue {
	struct spw_port_queue *inner;
	enum fault_kind kind;
	uint64_t for_tsc, every_tsc;
	uint64_t due_tsc;   /* begin of the next one */
	uint64_t begin_tsc; /* of the one that is on; 0: none is */
	uint64_t left;      /* how many are still to come */
	uint32_t *kept;     /* slots that refill_hold keeps */
	uint32_t kept_cnt;
	uint32_t window_cnt;
	struct fault_window window[FAULT_WINDOW_MAX];
};

/* Purpose: the faults of a queue.
 * Thread:  setup, after stop; or the owner */
const struct fault_queue *fault_queue_of(const struct spw_port *port, uint16_t queue);

#endif
