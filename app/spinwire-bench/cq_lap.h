/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 *
 * The timed part of bench_cq.c: the pollers under test over one ring of completions that the NIC
 * wrote once (cq_ring.h).
 */
#ifndef CQ_LAP_H
#define CQ_LAP_H

#include "cq_ring.h"
#include "exec/spw_handler.h"
#include "pipe/spw_pipe.h"
#include "port/mlx5/eth/queue.h"
#include "time/spw_time.h"

/* lib/port/mlx5 over the ring's memory; its receive WQEs lie in memory of their own, which no NIC
 * reads. */
struct cq_ours {
	struct mlx5_eth_queue q;
	struct spw_port_queue pq;
	struct spw_pool pool;
	uint8_t *wqe;
	spw_be32 db[2];
	uint32_t lap;
};

struct cq_bench {
	struct cq_ring plain, mini; /* CQEs alone; titles with mini-CQE arrays */
	struct spw_region region;
	struct cq_ours stamped, compressed, piped;
	struct spw_tsc tsc;
	struct spw_clock_box nic_clock;
	uint32_t verbs_lap; /* of the plain ring, as libmlx5 counts */
	const struct spw_handler *handler;
	uint64_t sink; /* what was read, so that it is read */
};

/* Opens both rings, memory and queues.
 * Returns: an exit status, with a message unless 0. cq_lap_close undoes any of it. */
int cq_lap_open(struct cq_bench *b, const char *rx, const char *tx, uint32_t cnt);
void cq_lap_close(struct cq_bench *b);

/* One lap each: lays the ring out again, then polls all of it.
 * Returns: ticks of the polling alone; 0 when the ring was not drained. pipe: of cq_lap_piped
 *          only. */
double cq_lap_verbs(struct cq_bench *b, struct spw_pipe *pipe);
double cq_lap_verbs_ex(struct cq_bench *b, struct spw_pipe *pipe);
double cq_lap_stamped(struct cq_bench *b, struct spw_pipe *pipe);
double cq_lap_compressed(struct cq_bench *b, struct spw_pipe *pipe);
double cq_lap_piped(struct cq_bench *b, struct spw_pipe *pipe);

#endif
