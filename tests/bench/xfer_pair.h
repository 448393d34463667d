/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Two ends in one thread for bench_xfer.c, joined twice: by a connection of lib/xfer, and by a
 * queue pair of plain verbs, as perftest has it.
 *
 *   bytes   | send half | receive half | a line for flags |     PAIR_HALF each
 *                       <----------- window ------------->
 */
#ifndef SPW_BENCH_XFER_PAIR_H
#define SPW_BENCH_XFER_PAIR_H

#include "hand_qp.h"
#include "xfer/spw_xfer.h"

#define PAIR_HALF  ((size_t)8 << 20)
#define PAIR_LINE  64u
#define PAIR_BYTES (2 * PAIR_HALF + 4096u)
#define PAIR_DEPTH 8u /* under way, as NCCL has them */

struct pair_end {
	uint8_t *bytes; /* PAIR_BYTES, of the caller */
	/* lib/xfer */
	struct spw_xfer *x;
	struct spw_xfer_mem *mem;
	struct spw_xfer_conn *conn;
	struct spw_xfer_window *there;
	/* by hand */
	struct hand_qp hand;
};

/* Purpose: opens both ends and joins them. end[].bytes are set, everything else is zero.
 * Errors:  -errno with a text.
 * Owner:   pair_close, also after an error.
 * Thread:  setup. */
int pair_open(struct pair_end end[2], const char *const device[2]);
void pair_close(struct pair_end end[2]);

/* By hand: a signaled WRITE of `len` bytes, in the WQE if it fits. Returns: false: not taken. */
bool pair_write(struct pair_end *end, const uint8_t *from, uint64_t to_offset, uint32_t len);
/* Returns: WRITEs that were acknowledged since the last call; -1: one failed. */
int pair_written(struct pair_end *end);

#endif
