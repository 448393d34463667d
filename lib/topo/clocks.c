/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The foreign clocks of a topology: a GPU's, and those of ports that stamp frames. Opened by
 * spw_topo_open, then kept accurate by the control thread: each clock is read beside the CPU's
 * counter again and again, the line through the best pairs (time/spw_time.h) is published in a box,
 * and each lane takes the newest line over in its housekeeping.
 *
 *   control   read clock and TSC ── fit ── box put     every 20 ms; 100 ms once the window is full
 *   lane                                   box get ──► recorder's map
 */
#include <errno.h>
#include <time.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "topo.h"

#define NOMINAL_PPB \
	1000000u /* how far a stated rate may be off before the first pairs correct it */
#define WANDER_PPB  100u
#define FIRST_PAIRS 8u
#define READ_NAP_NS 50000 /* between two first readings */

/* A second of first readings: a software NIC publishes its clock only while it has a core, every 2
 * ms if idle. */
#define FIRST_READS 5000u

/* Turns between pairs once the window is full: a wander of 100 ppb is 10 ns after 100 ms. */
#define REST_TURNS 4u

static void pair_add(const struct spw_topo *topo, struct spw_topo_clock *clock, uint64_t other,
		     uint64_t tsc, uint64_t unc_ns)
{
	struct spw_clock_pair pair = {other, tsc, spw_tsc_from_ns(&topo->conf.tsc, unc_ns)};

	spw_clock_fit_add(&clock->fit, &pair);
	spw_clock_box_put(
		&clock->box,
		&clock->fit.map); /* with a wider uncertainty if the line cannot explain the pair */
}

static int pair_exec(struct spw_topo *topo, struct spw_topo_way *way)
{
	uint64_t other, tsc, unc_ns;
	int rc = spw_exec_pair_clock(way->exec, &other, &tsc, &unc_ns);

	if (rc == 0)
		pair_add(topo, &way->clock, other, tsc, unc_ns);
	return rc;
}

static int pair_port(struct spw_topo *topo, uint32_t p)
{
	uint64_t other, tsc, unc_ns;
	int rc = spw_port_pair_clock(topo->port[p], &other, &tsc, &unc_ns);

	if (rc == 0)
		pair_add(topo, &topo->nic_clock[p], other, tsc, unc_ns);
	return rc;
}

/* A port whose clock cannot be read is used without its stamps. */
static int open_port(struct spw_topo *topo, uint32_t p)
{
	const struct timespec nap = {.tv_nsec = READ_NAP_NS};
	struct spw_topo_clock *nic = &topo->nic_clock[p];
	uint64_t hz = topo->port[p]->caps.nic_clock_hz;
	int rc;

	if (!hz)
		return 0;
	if ((rc = spw_clock_fit_init(&nic->fit, hz, topo->conf.tsc.hz, NOMINAL_PPB, WANDER_PPB)) <
	    0)
		return rc;
	for (uint32_t read = 0;
	     nic->fit.cnt < FIRST_PAIRS && read < FIRST_READS && (rc == 0 || rc == -ETIME);
	     read++) {
		rc = pair_port(topo, p);
		if (rc < 0)
			nanosleep(&nap, NULL);
	}
	nic->on = nic->fit.valid;
	if (!nic->on)
		spw_warn("port %s: its clock cannot be read, frames go without its stamps: %s",
			 topo->port[p]->name, spw_err_text());
	return 0;
}

static int open_exec(struct spw_topo *topo, struct spw_topo_way *way)
{
	int rc;

	if (!topo_way_is_gpu(way))
		return 0;
	rc = spw_clock_fit_init(&way->clock.fit, spw_exec_clock_hz(way->exec), topo->conf.tsc.hz,
				NOMINAL_PPB, WANDER_PPB);
	return rc < 0 ? rc : pair_exec(topo, way);
}

int topo_clocks_open(struct spw_topo *topo)
{
	int rc = 0;

	for (uint32_t p = 0; p < topo->port_cnt && rc == 0; p++)
		rc = open_port(topo, p);
	for (uint32_t w = 0; w < topo->way_cnt && rc == 0; w++)
		rc = open_exec(topo, &topo->way[w]);
	return rc;
}

/* A clock with a full window of pairs is read less often, because a reading costs a bus transaction
 * or another core. */
static bool due(struct spw_topo_clock *clock)
{
	if (clock->fit.cnt < SPW_CLOCK_FIT_PAIRS || clock->rest == 0) {
		clock->rest = REST_TURNS;
		return true;
	}
	clock->rest--;
	return false;
}

void spw_topo_clocks_pair(struct spw_topo *topo)
{
	for (uint32_t p = 0; p < topo->port_cnt; p++)
		if (topo->nic_clock[p].on && due(&topo->nic_clock[p]))
			pair_port(topo, p);
	for (uint32_t w = 0; w < topo->way_cnt; w++)
		if (topo_way_is_gpu(&topo->way[w]) && due(&topo->way[w].clock))
			pair_exec(topo, &topo->way[w]);
}
