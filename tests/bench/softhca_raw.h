/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Raw Ethernet frames through direct verbs, as fast as one core can: writes WQEs and reads CQEs in
 * place, and uses rdma-core for set-up only. Two processes: one sends numbered frames, one counts
 * and checks.
 */
#ifndef SPW_BENCH_SOFTHCA_RAW_H
#define SPW_BENCH_SOFTHCA_RAW_H

#include "base/spw_types.h"

struct softhca_raw_opt {
	uint64_t frames;      /* to send; rx ends after as many */
	uint32_t frame_bytes; /* 60 .. 1514, without FCS */
	uint32_t idle_ms;     /* rx ends after so long without a frame, but waits for the first */
};

struct softhca_raw_result {
	uint64_t frames; /* sent, or received complete and correct */
	uint64_t bad;    /* rx: wrong bytes or length, error CQEs */
	uint64_t lost;   /* rx: numbers that never arrived */
	double seconds;  /* from the first frame to the last */
};

/* Purpose: one side of the measurement on the first RDMA device. rx prints "ready\n" when its
 *          steering is in place.
 * Errors:  0, or 1 with a text on stderr.
 * Thread:  the calling one spins until the end. */
int softhca_raw_tx(const struct softhca_raw_opt *opt, struct softhca_raw_result *res);
int softhca_raw_rx(const struct softhca_raw_opt *opt, struct softhca_raw_result *res);

/* Purpose: the two as a program: NAME tx|rx [FRAMES [BYTES [IDLE_MS]]]; prints "frames N bad N lost
 * N seconds S". */
int softhca_raw_main(int argc, char **argv);

#endif
