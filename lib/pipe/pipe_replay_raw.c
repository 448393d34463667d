/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Raw completions of a recorded lane: each burst's go through the burst function that read them in
 * the run (port/spw_port_raw.h), and what comes out is compared with the frames recorded beside
 * them. A RAW precedes the POLL of its burst; without frames it has none.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/spw_err.h"
#include "pipe/pipe_replay.h"
#include "port/spw_port_raw.h"

int replay_raw_open(struct spw_pipe_replay *r)
{
	struct spw_port_raw_shape shape;

	memcpy(&shape, r->lane->conf->raw_shape, sizeof(shape));
	return shape.kind == SPW_PORT_RAW_NONE ? 0 : spw_port_raw_open(&shape, &r->raw_reader);
}

static void differs(struct spw_pipe_replay *r, uint32_t frame, const char *what, uint64_t here,
		    uint64_t recorded)
{
	struct spw_pipe_replay_result *res = &r->result;

	if (res->raw_differs++ == 0)
		snprintf(res->raw_first, sizeof(res->raw_first),
			 "lcore %u, batch %" PRIu64 ", frame %u: %s %" PRIu64 ", recorded %" PRIu64,
			 r->lane->conf->lcore, r->pipe->ring->head_seq, frame, what, here,
			 recorded);
}

/* Slots are the queue's own matter and in no completion. */
static void frame_check(struct spw_pipe_replay *r, uint32_t i, const struct spw_desc *here,
			const struct spw_desc *was)
{
	if (here->len != was->len)
		differs(r, i, "length", here->len, was->len);
	else if (here->meta != was->meta)
		differs(r, i, "hash", here->meta, was->meta);
	else if (here->flags != was->flags)
		differs(r, i, "flags", here->flags, was->flags);
	else if (here->flags & SPW_DESC_NIC_STAMP && here->nic_stamp != was->nic_stamp)
		differs(r, i, "NIC stamp", here->nic_stamp, was->nic_stamp);
}

/* poll: with frames that are recorded one by one, or NULL: only their number is. */
static void burst_check(struct spw_pipe_replay *r, const struct spw_flight_raw *raw,
			const struct spw_flight_poll *poll, uint32_t cnt)
{
	struct spw_desc here[SPW_BURST_MAX], was[SPW_FLIGHT_FRAME_MAX];
	int n = spw_port_raw_run(r->raw_reader, (const uint8_t *)(raw + 1),
				 raw->rec.bytes - (uint32_t)sizeof(*raw), here);
	uint32_t got = n < 0 ? 0 : (uint32_t)n;

	r->result.raw_frames += cnt;
	if (poll)
		replay_frames(poll, was);
	for (uint32_t i = 0; poll && i < SPW_MIN(got, cnt); i++)
		frame_check(r, i, &here[i], &was[i]);
	for (uint32_t i = SPW_MIN(got, cnt); i < SPW_MAX(got, cnt); i++)
		differs(r, i, "frames in the burst:", got, cnt);
	if (n < 0 && !cnt)
		differs(r, 0, "bytes that no burst writes; frames:", 0, 0);
}

void replay_raw_take(struct spw_pipe_replay *r, const struct spw_flight_raw *raw)
{
	if (!r->raw_reader)
		return;
	if (raw->rec.cnt)
		r->raw = raw;
	else
		burst_check(r, raw, NULL, 0);
}

void replay_raw_poll(struct spw_pipe_replay *r, const struct spw_flight_poll *poll)
{
	bool spill = poll->rec.what & SPW_FLIGHT_SPILL;

	if (r->raw)
		burst_check(r, r->raw, spill ? NULL : poll, poll->rec.cnt);
	r->raw = NULL;
}
