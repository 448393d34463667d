/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A port of one queue over the completion queue of a cq_ring: lib/port/mlx5 as it polls, without a
 * device behind it. What it receives is laid out by cq_ring_lay(); the receive WQEs that it posts
 * lie in memory of their own, which no NIC reads. Opened for each case by bench_cq.c, which hands
 * it to lib/topo.
 */
#ifndef SPW_BENCH_CQ_PORT_H
#define SPW_BENCH_CQ_PORT_H

#include "cq_ring.h"
#include "port/mlx5/eth/queue.h"

#define CQ_SLOT_BYTES 2048u

struct cq_port {
	struct spw_port base;
	struct mlx5_eth_queue queue;
	struct cq_ring *ring;
	unsigned flags;      /* enum mlx5_flag */
	uint32_t refill_min; /* holes from which on WQEs are posted */
	uint8_t *wqe;
	spw_be32 db[2];
};

/* Purpose: makes port a port over ring.
 * Shape:   clock_hz: of the stamps in the ring, which are then the CPU's ticks; 0: they are none.
 * Owner:   the caller; ring outlives it, and nothing is to be freed once the port has stopped. */
void cq_port_init(struct cq_port *port, struct cq_ring *ring, unsigned flags, uint32_t refill_min,
		  uint64_t clock_hz);

#endif
