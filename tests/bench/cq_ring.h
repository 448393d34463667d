/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A completion queue that a NIC has filled once, laid out again and again: what a poller costs when
 * it never waits.
 *
 * Two devices on one cable: one sends a frame for every entry, the other receives them, and its CQ
 * memory is saved as the NIC left it. cq_ring_lay() restores it with the owner bits of any lap, so
 * that libmlx5 and lib/port/mlx5 poll the same bytes in the same memory:
 *
 *   saved     [ CQE 0 | CQE 1 | ... | CQE n-1 ]    written by the NIC once
 *   lap 0     owner bits 0  ── poll all ──  lap 1  owner bits 1  ── poll all ──  ...
 */
#ifndef SPW_BENCH_CQ_RING_H
#define SPW_BENCH_CQ_RING_H

#include <infiniband/mlx5dv.h>

#include "raw_side.h"

struct cq_ring {
	struct raw_side rx, tx;
	struct mlx5dv_cq mem; /* of rx.cq */
	uint8_t *kept;        /* its bytes as the NIC wrote it, in lap 0 */
	uint32_t cnt;         /* entries, and frames in it; a power of 2 */
	uint32_t sessions;    /* compressed blocks among them */
};

/* Purpose: makes the devices' objects and lets the NIC fill the ring.
 * Shape:   cnt a power of 2, 64 .. 8192.
 * Errors:  0, 2 the machine cannot do it, 3 the NIC did not do what was asked; a text is on
 *          stderr. */
int cq_ring_open(struct cq_ring *r, const char *rx, const char *tx, uint32_t cnt, bool compressed);

/* Purpose: gives every frame a different stamp, as a card does: base + step, base + 2 * step ...
 * (The software ConnectX reads its clock once for several frames.) */
void cq_ring_stamps(struct cq_ring *r, uint64_t base, uint64_t step);

/* Purpose: writes the ring as the NIC would have written it in this lap.
 * Shape:   lap counts up by one from 0. */
void cq_ring_lay(struct cq_ring *r, uint32_t lap);

/* Purpose: frees everything. A zeroed ring is fine. */
void cq_ring_close(struct cq_ring *r);

#endif
