/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Pairs the clock of a port's NIC with the CPU's counter (spw_port_clock.h). Called by lib/topo and
 * spinwire-gen; the driver reads the two clocks, time/feed.c makes a map of the pairs.
 */
#include "port/spw_port_clock.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/spw_err.h"
#include "base/spw_log.h"

#define FIRST_PAIRS   8u
#define READ_PAUSE_NS 50000 /* between two first readings */

/* A second of first readings: a software NIC publishes its clock only while it has a core, every 2
 * ms if idle. */
#define FIRST_READS 5000u

/* -ETIME: the clock has not moved since the last reading; the caller tries again. */
int spw_port_clock_pair(struct spw_clock_feed *feed, struct spw_port *port,
			const struct spw_tsc *tsc)
{
	struct spw_clock_pair pair;
	uint64_t unc_ns;
	int rc = spw_port_pair_clock(port, &pair.other, &pair.ref, &unc_ns);

	if (rc < 0)
		return rc;
	pair.unc = spw_tsc_from_ns(tsc, unc_ns);
	spw_clock_feed_add(feed, &pair);
	return 0;
}

/* Errors: of the map only. A clock that cannot be read is a warning, and the feed stays off. */
int spw_port_clock_open(struct spw_clock_feed *feed_out, struct spw_port *port,
			const struct spw_tsc *tsc)
{
	const struct timespec pause = {.tv_nsec = READ_PAUSE_NS};
	int rc;

	memset(feed_out, 0, sizeof(*feed_out));
	if (!port->caps.nic_clock_hz)
		return 0;
	rc = spw_clock_feed_open(feed_out, port->caps.nic_clock_hz, tsc->hz);
	if (rc < 0)
		return rc;
	for (uint32_t read = 0;
	     feed_out->fit.cnt < FIRST_PAIRS && read < FIRST_READS && (rc == 0 || rc == -ETIME);
	     read++) {
		rc = spw_port_clock_pair(feed_out, port, tsc);
		if (rc < 0)
			nanosleep(&pause, NULL);
	}
	if (!feed_out->on)
		spw_warn("port %s: its clock cannot be read, frames go without its stamps: %s",
			 port->name, spw_err_text());
	return 0;
}
