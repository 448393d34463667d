/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Fuzzing recordings (flight/spw_flight.h): any bytes as a file. What the reader accepts runs again
 * without a fault, raw completions and handler included, on whatever stamps, words and slots it
 * holds; what comes out does not matter.
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz_port.h"
#include "exec/spw_handler.h"
#include "replay/spw_replay.h"

#define ECHO 3 /* of the built-in handlers, the one that writes into frames */

static void run(const struct spw_flight_read *file)
{
	struct spw_replay *replay;

	if (spw_replay_open(&file->lane[0], &replay))
		return;
	if (file->lane[0].conf->snap_bytes)
		fuzz_demand(spw_replay_handler(replay, spw_handler_builtin(ECHO)) == 0);
	spw_replay_run(replay);
	fuzz_demand(spw_replay_result(replay)->unknown <= spw_replay_result(replay)->lead_in);
	spw_replay_close(replay);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct spw_flight_file *head = malloc(size + 1); /* aligned, unlike data */
	struct spw_flight_read file;

	fuzz_demand(head);
	if (size)
		memcpy(head, data, size);
	if (size >= sizeof(*head))
		head->file_bytes = size; /* else nearly every mutation is only cut off */
	if (spw_flight_read_memory((const uint8_t *)head, size, &file) == 0)
		run(&file);
	free(head);
	return 0;
}
