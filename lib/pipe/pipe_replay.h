/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What the two halves of a replay share: pipe_replay_open.c (its parts, and where the window
 * begins) and pipe_replay.c (the run).
 */
#ifndef PIPE_REPLAY_H
#define PIPE_REPLAY_H

#include "pipe/pipe_impl.h"
#include "pipe/spw_pipe_replay.h"

#define SCRIPT_CNT 8 /* more than a turn reads */

struct spw_pipe_replay {
	struct spw_pipe *pipe;
	struct spw_gring ring;
	struct spw_port_queue queue;
	struct spw_pool pool;
	const struct spw_flight_read_lane *lane;
	const struct spw_flight_poll *poll; /* what rx_burst lends; NULL: nothing */
	uint32_t sent;                      /* what tx_burst takes */
	uint64_t script[SCRIPT_CNT];
	uint32_t first;     /* the window's first segment */
	uint64_t known_seq; /* batches before it are in flight, and their POLLs are not there */
	struct spw_pipe_replay_result result;
};

/* pipe_replay.c. Purpose: the clock maps from here on. */
void replay_clock(struct spw_rec *rec, const struct spw_flight_clock *clock);

#endif
