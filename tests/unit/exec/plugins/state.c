/* SPDX-License-Identifier: BSD-3-Clause
 * A plug-in with all that a state may have. With -DLIES one of its counters lies outside. */
#include <stdio.h>
#include <string.h>

#include "exec/spw_handler.h"

struct state {
	uint64_t step, hits[4], all;
	char file[64];
};

static const struct spw_handler_counter counter[] = {
	SPW_TABLE_FROM(struct state, hits, "remainder", 10, "frames by their first byte"),
	SPW_COUNTER(struct state, all, "all frames"),
#ifdef LIES
	{"beyond", "what is not there", "place", offsetof(struct state, file), 9, 0},
#endif
	{0}};
static const struct spw_handler_arg arg[] = {
	SPW_ARG(struct state, step, 1, 99, 1, "what a frame counts"),
	SPW_ARG_TEXT(struct state, file, "where the sum is written"),
	{0}};

static const char *state_init(void *block)
{
	const struct state *state = block;

	return state->step == 13 ? "13 is no good number" : NULL;
}

static void state_fini(void *block)
{
	const struct state *state = block;
	FILE *file = state->file[0] ? fopen(state->file, "w") : NULL;

	if (!file)
		return;
	fprintf(file, "all %lu, step %lu", (unsigned long)state->all, (unsigned long)state->step);
	fclose(file);
}

static const struct spw_handler_state declared = {sizeof(struct state), counter, arg, state_init,
						  state_fini};

SPW_HANDLER_BODY(state)(const struct spw_frame *frame, struct spw_lanes lanes)
{
	struct state *state = (struct state *)lanes.state;

	spw_count(lanes, &state->hits[spw_frame_u8(frame, 0) % 4], 1);
	spw_count(lanes, &state->all, state->step);
	return spw_consume(state->step);
}

SPW_HANDLER_PLUGIN_STATE(state, "counts by steps", 0, &declared)
