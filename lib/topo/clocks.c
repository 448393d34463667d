/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The foreign clocks of a topology: a GPU's, and those of ports that stamp frames (struct
 * spw_clock_feed of time/spw_time.h). Opened by spw_topo_open, then kept accurate by the control
 * thread; each lane takes the newest map over in its housekeeping.
 *
 * A clock is paired (both read at one moment), and lib/time fits a line through the pairs. Pairs
 * come 50 times a second at most, since each costs a read of a device.
 *
 *   spw_topo_clocks_pair (control) ─► feed: pairs, fit ─► box ─► the lane's housekeeping
 */
#include "port/spw_port_clock.h"
#include "topo.h"

static int topo_pair_exec(struct spw_topo *topo, struct spw_topo_backend *backend)
{
	struct spw_clock_pair pair;
	uint64_t unc_ns;
	int rc = spw_exec_pair_clock(backend->exec, &pair.other, &pair.ref, &unc_ns);

	if (rc < 0)
		return rc;
	pair.unc = spw_tsc_from_ns(&topo->conf.tsc, unc_ns);
	spw_clock_feed_add(&backend->clock, &pair);
	return 0;
}

/* An executor on a core stamps with the lcore's own clock and needs no feed. */
static int topo_open_exec(struct spw_topo *topo, struct spw_topo_backend *backend)
{
	int rc;

	if (!topo_backend_is_gpu(backend))
		return 0;
	rc = spw_clock_feed_open(&backend->clock, spw_exec_clock_hz(backend->exec),
				 topo->conf.tsc.hz);
	return rc < 0 ? rc : topo_pair_exec(topo, backend);
}

/* A port without a clock leaves its feed off, which is no error. */
int topo_clocks_open(struct spw_topo *topo)
{
	int rc = 0;

	for (uint32_t p = 0; p < topo->port_cnt && rc == 0; p++)
		rc = spw_port_clock_open(&topo->nic_clock[p], topo->port[p], &topo->conf.tsc);
	for (uint32_t w = 0; w < topo->backend_cnt && rc == 0; w++)
		rc = topo_open_exec(topo, &topo->backend[w]);
	return rc;
}

void spw_topo_clocks_pair(struct spw_topo *topo)
{
	for (uint32_t p = 0; p < topo->port_cnt; p++)
		if (topo->nic_clock[p].on && spw_clock_feed_due(&topo->nic_clock[p]))
			spw_port_clock_pair(&topo->nic_clock[p], topo->port[p], &topo->conf.tsc);
	for (uint32_t w = 0; w < topo->backend_cnt; w++)
		if (topo_backend_is_gpu(&topo->backend[w]) &&
		    spw_clock_feed_due(&topo->backend[w].clock))
			topo_pair_exec(topo, &topo->backend[w]);
}
