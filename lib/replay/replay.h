/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What the files of a replay share: open.c (its parts, and where the window begins),
 * replay.c (the run), raw.c (raw completions) and handler.c
 * (verdicts).
 */
#ifndef REPLAY_H
#define REPLAY_H

#include "pipe/spw_pipe_again.h"
#include "replay/spw_replay.h"

#define SCRIPT_CNT 8 /* more than a turn reads */

struct spw_replay {
	struct spw_pipe *pipe;
	struct spw_gring ring[SPW_PIPE_BACKEND_MAX]; /* by backend; the one in use is pipe->ring */
	uint64_t elsewhere_frames;                   /* counted by the executors not in use */
	struct spw_port_queue queue;
	struct spw_pool pool;
	const struct spw_flight_read_lane *lane;
	const struct spw_flight_poll *poll;     /* what rx_burst lends; NULL: nothing */
	struct spw_port_raw_reader *raw_reader; /* NULL: the port kept no raw completions */
	struct replay_handler *handler;         /* NULL: verdicts are taken as recorded */
	uint32_t sent;                          /* what tx_burst takes */
	uint64_t script[SCRIPT_CNT];
	uint32_t first;     /* the window's first segment */
	uint64_t known_seq; /* batches of the window's first backend before it are in flight, and
			       their POLLs are not there; 0 once that backend was left */
	struct spw_replay_result result;
};

/* open.c. Purpose: the frames of a POLL, as many as it says. check: counts it if its
 * raw completions come to others. desc: room for SPW_FLIGHT_FRAME_MAX. Returns: how many. */
uint32_t replay_frames(struct spw_replay *r, const struct spw_flight_poll *poll, bool check,
		       struct spw_desc *desc);

/* raw.c. Purpose: open makes the reader of the lane's raw completions, if it has some;
 * frames reads those of a POLL with SPW_FLIGHT_CQES, and returns how many frames they have; check
 * compares these with what is recorded of them; take is given each RAW.
 * Errors: those of spw_port_raw_open. */
int replay_raw_open(struct spw_replay *r);
uint32_t replay_raw_frames(struct spw_replay *r, const struct spw_flight_poll *poll,
			   struct spw_desc *desc);
void replay_raw_check(struct spw_replay *r, const struct spw_flight_poll *poll,
		      const struct spw_desc *desc, uint32_t got);
void replay_raw_take(struct spw_replay *r, const struct spw_flight_raw *raw);

/* handler.c. Purpose: poll is given each POLL whose batches [from, head_seq) were
 * pushed, snap the SNAP after it, done each batch that was settled, whose place in the ring is not
 * used again yet. Without a handler they do nothing. close: NULL is allowed. */
void replay_handler_poll(struct spw_replay *r, const struct spw_flight_poll *poll, uint64_t from);
void replay_handler_snap(struct spw_replay *r, const struct spw_flight_rec *snap);
void replay_handler_done(struct spw_replay *r, uint64_t seq);
void replay_handler_close(struct replay_handler *handler);

/* open.c. Purpose: from a STATE on, the backend that it names, its ring and its clock. */
void replay_backend(struct spw_replay *r, const struct spw_flight_state *s);

/* replay.c. Purpose: the clock maps from here on. */
void replay_clock(struct spw_rec *rec, const struct spw_flight_clock *clock);

#endif
