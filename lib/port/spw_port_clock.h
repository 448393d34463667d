/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The clock of a port's NIC in ticks of the CPU's counter (struct spw_clock_feed of
 * time/spw_time.h): opened before the first frame, then kept accurate by the program's control
 * thread. Owners translate stamps by the map in the feed's box.
 */
#ifndef SPW_PORT_CLOCK_H
#define SPW_PORT_CLOCK_H

#include "port/spw_port.h"
#include "time/spw_time.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Purpose: the first pairs, so that the first frame finds a map. feed_out->on: there is a clock,
 *          and it could be read; else frames go without its stamps, with a warning if it should be
 *          there. Waits for a software NIC that has no core, at most about a second.
 * Shape:   tsc: calibrated. Queues are set up: a port may lose its clock there.
 * Thread:  setup
 * Errors:  -ERANGE: a rate that no clock has. */
int spw_port_clock_open(struct spw_clock_feed *feed_out, struct spw_port *port,
			const struct spw_tsc *tsc);

/* Purpose: one more pair. A reading that fails changes nothing: the map fades by itself.
 * Shape:   a feed that is on.
 * Thread:  control
 * Errors:  those of spw_port_pair_clock. */
int spw_port_clock_pair(struct spw_clock_feed *feed, struct spw_port *port,
			const struct spw_tsc *tsc);

#ifdef __cplusplus
}
#endif
#endif
