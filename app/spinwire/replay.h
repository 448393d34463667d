/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What the files of --replay share. It prints with the functions of a run's own report, so it fills
 * the parts of struct app and struct app_result that they read.
 */
#ifndef APP_REPLAY_H
#define APP_REPLAY_H

#include "replay/spw_replay.h"
#include "report_slow.h"

struct replay {
	struct spw_flight_read file;
	struct spw_replay *lane[SPW_FLIGHT_LANE_MAX];
	struct spw_rec_view *view;
	const struct spw_handler *handler; /* runs again; NULL: verdicts are as recorded */
	struct spw_replay_result sum; /* over lanes; from_tsc the earliest, to_tsc the latest */
	struct app app;               /* its clock and its threshold */
	struct app_result result;
};

/* replay_lanes.c: reads the file and runs every lane. handler: as --handler of a run; NULL: the
 * file's, if it is built in. A plug-in that a file names is code of somebody's choice, so it must
 * be given. Errors:  those of spw_flight_read_open, spw_replay_open and spw_handler_open. */
int app_replay_open(struct replay *replay, const char *path, const char *handler);
void app_replay_close(struct replay *replay);
/* Returns: how often something came out otherwise than recorded. */
uint64_t app_replay_differs(const struct replay *replay);
/* Whether a lane of the recording has raw completions. */
bool app_replay_has_cqes(const struct replay *replay);
/* Whether the ledger is that of a whole run, so that a balance can be drawn. */
bool app_replay_is_whole(const struct replay *replay);

/* replay_explain.c: prints one batch of the worst list, by flow and number of its oldest frame.
 * Errors:  -ENOENT with those that are there. */
int app_replay_explain(const struct replay *replay, const char *frame);

#endif
