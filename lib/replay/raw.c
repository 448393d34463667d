/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Raw completions of a recorded lane: each burst's go through the burst function that read them in
 * the run (port/spw_port_raw.h). What comes out are the frames of the POLL that has them; their
 * number and the sums of their fields are compared with the recorded ones. A RAW is of a burst
 * without frames.
 *
 * open.c opens the reader, replay_frames asks it for the frames of a POLL. Raw bytes come from a
 * file, so the reader may refuse them: the burst then has no frames.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "replay/replay.h"
#include "port/spw_port_raw.h"

/* A port without raw completions has no reader; frames are then those that the POLL lists. */
int replay_raw_open(struct spw_replay *r)
{
	struct spw_port_raw_shape shape;

	memcpy(&shape, r->lane->conf->raw_shape, sizeof(shape));
	return shape.kind == SPW_PORT_RAW_NONE ? 0 : spw_port_raw_open(&shape, &r->raw_reader);
}

static void raw_differ(struct spw_replay *r, const char *what, uint64_t here, uint64_t recorded)
{
	struct spw_replay_result *res = &r->result;

	if (res->raw_differs++ == 0)
		snprintf(res->raw_first, sizeof(res->raw_first),
			 "lcore %u, batch %" PRIu64 ": %s %" PRIu64 ", recorded %" PRIu64,
			 r->lane->conf->lcore, r->pipe->ring->head_seq, what, here, recorded);
}

/* Returns: frames; bytes that no burst writes have none. */
static uint32_t raw_run(struct spw_replay *r, const void *raw, uint32_t bytes,
			struct spw_desc *desc)
{
	int n = r->raw_reader ? spw_port_raw_run(r->raw_reader, raw, bytes, desc) : 0;

	return n < 0 ? 0 : (uint32_t)n;
}

/* The completions stand after the sums. */
uint32_t replay_raw_frames(struct spw_replay *r, const struct spw_flight_poll *poll,
			   struct spw_desc *desc)
{
	const struct spw_flight_sums *sums = (const void *)(poll + 1);

	return raw_run(r, sums + 1, poll->rec.bytes - (uint32_t)(sizeof(*poll) + sizeof(*sums)),
		       desc);
}

/* Slots are the queue's own matter and in no completion. */
void replay_raw_check(struct spw_replay *r, const struct spw_flight_poll *poll,
		      const struct spw_desc *desc, uint32_t got)
{
	const struct spw_flight_sums *was = (const void *)(poll + 1);
	struct spw_flight_sums here;

	r->result.raw_bursts++;
	spw_flight_sum(desc, got, &here);
	if (got != poll->rec.cnt)
		raw_differ(r, "frames in the burst:", got, poll->rec.cnt);
	else if (here.lens != was->lens)
		raw_differ(r, "sum of lengths", here.lens, was->lens);
	else if (here.metas != was->metas)
		raw_differ(r, "sum of hashes", here.metas, was->metas);
	else if (here.flags != was->flags)
		raw_differ(r, "sum of flags", here.flags, was->flags);
	else if (here.stamps != was->stamps)
		raw_differ(r, "sum of NIC stamps", here.stamps, was->stamps);
}

void replay_raw_take(struct spw_replay *r, const struct spw_flight_raw *raw)
{
	struct spw_desc desc[SPW_BURST_MAX];
	uint32_t got = raw_run(r, raw + 1, raw->rec.bytes - (uint32_t)sizeof(*raw), desc);

	r->result.raw_bursts++;
	if (got)
		raw_differ(r, "frames in the burst:", got, 0);
}
