/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A rig whose lane is recorded: the recorder, its file, and that file run again and compared with
 * what the lane itself came to.
 */
#ifndef FLIGHT_KIT_H
#define FLIGHT_KIT_H

#include "replay/spw_replay.h"
#include "pipe_rig.h"

#define SMALL ((size_t)8 << 20)

/* What a run left: its own counters and causes, and its executors' count, for comparison. */
struct outcome {
	struct spw_ledger_lcore ledger;
	uint64_t executed;
	struct spw_rec_view *view; /* the caller frees it; NULL: not to be compared */
};

extern struct spw_flight flight; /* aligned, and too large for a stack under a sanitizer */

/* Purpose: a name of this process's own. */
void flight_file_name(char *path, size_t bytes, const char *name);
/* Purpose: conf with the recorder; backends that do not say how they learn of a batch poll for it.
 */
struct spw_pipe_conf flight_conf(struct spw_pipe_conf conf);
/* Purpose: what the recorder has frozen, as a file. */
void flight_file_write(const struct rig *rig, const char *path);
/* Purpose: what a lane that has ended came to. */
struct outcome outcome_of(const struct rig *rig);
/* Purpose: runs the file again; fails unless everything that the replay compares is alike, and what
 * comes of it is `out`, if given. */
struct spw_replay_result flight_again(const char *path, const struct outcome *out);

#endif
