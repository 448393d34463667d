/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The timed part of bench_cq.c: the pollers under test over one ring of completions that the NIC
 * wrote once (cq_ring.h).
 */
#ifndef CQ_LAP_H
#define CQ_LAP_H

#include "cq_port.h"
#include "topo/spw_topo.h"

struct cq_bench {
	struct cq_ring plain, mini; /* CQEs alone; titles with mini-CQE arrays */
	struct spw_tsc tsc;
	const struct spw_handler *null, *sum;
	struct spw_flight flight;
	/* of the case that runs */
	struct cq_port port;
	struct spw_topo topo;
	uint32_t lap;       /* laps of the ring since it was opened */
	uint32_t verbs_lap; /* of the plain ring, as libmlx5 counts */
	uint64_t sink;      /* what was read, so that it is read */
};

/* Opens both rings.
 * Returns: an exit status, with a message unless 0. cq_lap_close undoes any of it. */
int cq_lap_open(struct cq_bench *b, const char *rx, const char *tx, uint32_t cnt);
void cq_lap_close(struct cq_bench *b);

/* One lap each: lays the ring out again, then polls all of it. Those of ours poll the port of the
 * case, or run the pipe of its topology.
 * Returns: ticks of the polling alone; 0 when the ring was not drained. */
double cq_lap_verbs(struct cq_bench *b);
double cq_lap_verbs_ex(struct cq_bench *b);
double cq_lap_stamped(struct cq_bench *b);
double cq_lap_compressed(struct cq_bench *b);
double cq_lap_piped(struct cq_bench *b);

#endif
