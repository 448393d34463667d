/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Runs a lane again from a recording (flight/spw_flight.h): the loop of pipe.c, the recorder and
 * the ledger are the ones that ran; port, executor ring and clock give what was recorded.
 *
 *   file ── RAW  ──► the port's own burst function, on memory: the same frames as the POLL's?
 *        ── POLL ──► port queue   rx_burst lends the recorded frames
 *        ── DONE ──► completions  reap decodes the recorded words; tx_burst takes as many
 *        ── stamps ► spw_rec.script                                        │
 *        ── STATE ─► the backend: which executor ring the records after it are of
 *        ── GAP, DRY, CLOCK, JUDGED: what the machine did                  ▼
 *                                                     spw_pipe_turn_again: ledger, causes, worst
 *
 * The run checks itself: what it computes is compared with what was recorded beside it.
 *
 * Thread: one, any.
 */
#ifndef SPW_REPLAY_H
#define SPW_REPLAY_H

#include "pipe/spw_pipe.h"
#include "flight/spw_flight.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What was run, and how often it came out otherwise than recorded. */
struct spw_replay_result {
	union {
		struct {
			uint64_t polls, frames, settled;
			/* bursts that would have begun to wait at another time */
			uint64_t since_differs;
			uint64_t described; /* batches that were judged */
			/* of them: another cause, length or number of slow frames */
			uint64_t cause_differs;
			/* judgements of batches that were described before the window */
			uint64_t before;
			/* segments' ends at which the counters were compared */
			uint64_t states;
			uint64_t ledger_differs;
			uint64_t backend_changes; /* to another executor */
			/* described, but the recording ends before their judgement */
			uint64_t unjudged;
			/* batches that were in the executor when the window began */
			uint64_t lead_in;
			/* of them: pushed before the recording; counted, but not judged */
			uint64_t unknown;
			/* segments before the window, which serve the lead-in */
			uint64_t skipped;
			/* bursts whose raw completions were read again */
			uint64_t raw_bursts;
			/* of them: with other frames than recorded */
			uint64_t raw_differs;
			/* with spw_replay_handler: frames that it was given again */
			uint64_t verdicts;
			/* of them: with another verdict */
			uint64_t verdict_differs;
			/* batches with the same verdicts, but another digest or reason */
			uint64_t digest_differs;
			/* frames not kept whole: their verdicts are the recorded ones */
			uint64_t as_recorded;
		};
		uint64_t count[20]; /* all of them: lanes are added up */
	};
	char raw_first[128];     /* the first of raw_differs; "" if there is none */
	char verdict_first[128]; /* the first of verdict_differs; "" if none does */
	uint64_t from_tsc, to_tsc;
	bool from_start; /* the window begins with the run */
	bool ended;      /* the lane had ended */
};
SPW_ASSERT_OFFSET(struct spw_replay_result, raw_first, 20 * sizeof(uint64_t));

struct spw_replay;  /* opaque */
struct spw_handler; /* exec/spw_handler.h */

/* Purpose: makes the pipe of a recorded lane.
 * Owner:   the caller, until spw_replay_close; lane (of a struct spw_flight_read) outlives it.
 * Errors:  -ENOMEM; -EPROTO: nothing is recorded. With a text.
 * Thread:  any */
int spw_replay_open(const struct spw_flight_read_lane *lane, struct spw_replay **replay_out);

/* Purpose: from now on the handler runs again on frames that were kept whole.
 * Shape:   once, before the run. handler: outlives replay.
 * Errors:  -ENOMEM.
 * Thread:  any */
int spw_replay_handler(struct spw_replay *replay, const struct spw_handler *handler);

/* Purpose: runs the whole window.
 * Errors:  -EPROTO: a completion does not belong to the oldest batch. With a text.
 * Thread:  any */
int spw_replay_run(struct spw_replay *replay);

/* Returns: what came of it; the pipe, for spw_pipe_summary and spw_pipe_collect_rest; frames by the
 * executor's own count. Lifetime: until spw_replay_close. Thread: any */
const struct spw_replay_result *spw_replay_result(const struct spw_replay *replay);
struct spw_pipe *spw_replay_pipe(struct spw_replay *replay);
uint64_t spw_replay_executed(const struct spw_replay *replay);

/* Purpose: frees it; NULL is allowed. Thread: any */
void spw_replay_close(struct spw_replay *replay);

#ifdef __cplusplus
}
#endif
#endif
