/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Verdicts of a recorded lane, found again: where a SNAP kept a frame whole, the handler runs on
 * its bytes once more, in an inline executor, and its verdict is compared with the recorded one.
 * Frames of which less was kept have the recorded verdict, and are counted so. If all frames of a
 * batch are whole its reasons and its digest are compared too. A handler with a state begins with a
 * new one and counts the whole frames of the recording only: what it decides by its state agrees if
 * the recording begins with the run and has every frame.
 *
 *   POLL, SNAP   which bytes each batch was pushed with       note[seq]
 *   DONE         the batch's whole frames ► handler ► verdicts ── compared with the DONE's
 *
 * app/spinwire sets the handler (spw_replay_handler) between open and run, and replay.c passes on
 * each POLL, SNAP and DONE as it comes to it. Without a handler all calls return at once.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "exec/spw_handler.h"
#include "replay/replay.h"

#define LINE_MASK  (SPW_CACHE_LINE - 1u) /* a frame begins as far into a line as it did */
#define SLOT_BYTES SPW_ALIGN_UP(SPW_FLIGHT_SNAP_MAX + LINE_MASK, SPW_CACHE_LINE)

/* Where the bytes of a batch are. */
struct note {
	const struct spw_flight_poll *poll;
	const struct spw_flight_rec *snap; /* NULL: nothing was kept */
	uint32_t first;                    /* of the POLL's frames, the batch's first */
};

struct replay_handler {
	const struct spw_handler *handler;
	uint8_t *frames;    /* [SPW_GRING_FRAME_MAX][SLOT_BYTES] */
	void *state;        /* the handler's, of this lane; NULL: it has none */
	uint64_t from, to;  /* batches [from, to) are of the newest POLL */
	struct note note[]; /* by number of the batch, as in the executor ring */
};

/* ---- set-up ---- */

/* Frames are copied into slots of one region, each as far into a cache line as it was. */
int spw_replay_handler(struct spw_replay *r, const struct spw_handler *handler)
{
	const struct spw_flight_lane *lane = r->lane->conf;
	struct replay_handler *again;
	uint32_t log2 = 0;

	/* As many notes as the largest ring has places: the backends take turns, one at a time. */
	for (uint32_t i = 0; i < lane->backend_cnt; i++)
		log2 = SPW_MAX(log2, lane->backend[i].batch_log2);
	again = calloc(1, sizeof(*again) + ((size_t)1 << log2) * sizeof(struct note));
	r->handler = again;
	if (again)
		again->frames = aligned_alloc(SPW_CACHE_LINE, SPW_GRING_FRAME_MAX * SLOT_BYTES);
	if (again && handler->state)
		again->state = malloc(handler->state->bytes);
	if (!again || !again->frames || (handler->state && !again->state))
		return spw_err(ENOMEM, "no memory to run the handler again");
	if (handler->state)
		memcpy(again->state, handler->initial, handler->state->bytes);
	again->handler = handler;
	return 0;
}

void replay_handler_close(struct replay_handler *again)
{
	if (!again)
		return;
	if (again->state && again->handler)
		spw_handler_counters_add(again->handler, again->state, again->handler->total);
	free(again->state);
	free(again->frames);
	free(again);
}

/* ---- notes ---- */

/* By the number of the batch, as the ring's own places are. */
static struct note *handler_note(struct spw_replay *r, uint64_t seq)
{
	return &r->handler->note[seq & r->pipe->ring->batch_mask];
}

/* The batches that this POLL was pushed as: [from, head_seq) of the ring. */
void replay_handler_poll(struct spw_replay *r, const struct spw_flight_poll *poll, uint64_t from)
{
	uint32_t first = 0;

	if (!r->handler)
		return;
	r->handler->from = from;
	r->handler->to = r->pipe->ring->head_seq;
	for (; from < r->handler->to; from++) {
		*handler_note(r, from) = (struct note){.poll = poll, .first = first};
		first += spw_gring_at(r->pipe->ring, from)->cnt;
	}
}

/* A SNAP follows its POLL; another count of frames means that it belongs to something else. */
void replay_handler_snap(struct spw_replay *r, const struct spw_flight_rec *snap)
{
	if (!r->handler)
		return;
	for (uint64_t seq = r->handler->from; seq < r->handler->to; seq++) {
		struct note *note = handler_note(r, seq);

		note->snap = note->poll && note->poll->rec.cnt == snap->cnt ? snap : NULL;
	}
}

/* ---- a batch ---- */

/* The bytes of each whole frame of the batch, NULL for the others. Returns: how many are whole. */
static uint32_t handler_bytes_find(struct spw_replay *r, const struct note *note,
				   const struct spw_gring_batch *was, const uint8_t **bytes)
{
	uint32_t most = r->lane->conf->snap_bytes, whole = 0, at = 0, left;
	struct spw_desc desc[SPW_FLIGHT_FRAME_MAX];

	left = note->snap->bytes - (uint32_t)sizeof(*note->snap);
	replay_frames(r, note->poll, false, desc);
	for (uint32_t i = 0; i < note->first + was->cnt; i++) {
		uint32_t len = SPW_MIN(desc[i].len, most), room = SPW_ALIGN_UP(len, 8u);
		bool has = desc[i].len && desc[i].len <= most && room <= left - at;

		if (i >= note->first) {
			has = has && desc[i].len == was->desc[i - note->first].len;
			bytes[i - note->first] = has ? (const uint8_t *)(note->snap + 1) + at
						     : NULL;
			whole += has;
		}
		at += SPW_MIN(room, left - at);
	}
	return whole;
}

/* Runs the whole frames as one batch, in their order, as spw_exec_run_one does. */
static void handler_batch_run(const struct replay_handler *again, const struct spw_gring_batch *was,
			      const uint8_t *const *bytes, struct spw_gring_batch *here_out)
{
	const struct spw_handler_env env = {{(uint64_t)(uintptr_t)again->frames}, again->state};
	struct spw_gring_desc entry[SPW_GRING_FRAME_MAX];
	struct spw_tally tally;
	uint32_t n = 0;

	for (uint32_t i = 0; i < was->cnt; i++) {
		const struct spw_desc *d = &was->desc[i];
		size_t at = n * SLOT_BYTES + (d->offset & LINE_MASK);

		if (!bytes[i])
			continue;
		memcpy(again->frames + at, bytes[i], d->len);
		entry[n].lo = spw_gring_lo(0, at, d->meta);
		entry[n++].hi = spw_gring_hi(0, d->len, d->meta, d->flags, 0, 1);
	}
	again->handler->host(entry, n, &env, &tally);
	const uint64_t w[8] = {tally.verdict[0], tally.verdict[1],
			       tally.verdict[2], [5] = tally.bad, [6] = tally.digest};
	spw_gring_results(here_out, w);
}

static const char *handler_verdict(const struct spw_gring_batch *batch, uint32_t i)
{
	if (batch->verdict[0] >> i & 1)
		return "echo";
	return batch->verdict[1] >> i & 1 ? "bad" : "consume";
}

/* As a completion has them. */
static uint64_t handler_reasons(const struct spw_gring_batch *batch)
{
	uint64_t w = 0;

	for (uint32_t i = 0; i < SPW_GRING_REASON_MAX; i++)
		w |= (uint64_t)batch->bad[i] << (7 * i);
	return w;
}

/* Only the first is described: it is where a reader starts. */
static void handler_differs(struct spw_replay *r, uint64_t seq, const char *what, const char *here,
			    const char *recorded)
{
	struct spw_replay_result *res = &r->result;

	if (!res->verdict_first[0])
		snprintf(res->verdict_first, sizeof(res->verdict_first),
			 "lcore %u, batch %" PRIu64 ", %s %s, recorded %s", r->lane->conf->lcore,
			 seq, what, here, recorded);
}

/* What a batch as a whole reports of frames whose verdicts agree. */
static void handler_sums_compare(struct spw_replay *r, const struct spw_gring_batch *now,
				 const struct spw_gring_batch *was)
{
	const bool same = now->digest == was->digest;
	char here[24], recorded[24];

	if (same && handler_reasons(now) == handler_reasons(was))
		return;
	snprintf(here, sizeof(here), "%" PRIx64, same ? handler_reasons(now) : now->digest);
	snprintf(recorded, sizeof(recorded), "%" PRIx64, same ? handler_reasons(was) : was->digest);
	r->result.digest_differs++;
	handler_differs(r, was->seq, same ? "reasons" : "digest", here, recorded);
}

/* Sums are compared only where all frames were run: digest and reasons are of the whole batch. */
static void handler_verdicts_compare(struct spw_replay *r, const struct spw_gring_batch *now,
				     const struct spw_gring_batch *was, const uint8_t *const *bytes)
{
	uint32_t n = 0, differ = 0;

	for (uint32_t i = 0; i < was->cnt; i++) {
		const char *recorded = handler_verdict(was, i), *here;
		char what[24];

		if (!bytes[i])
			continue;
		here = handler_verdict(now, n++);
		if (!strcmp(here, recorded))
			continue;
		snprintf(what, sizeof(what), "frame %u:", i);
		handler_differs(r, was->seq, what, here, recorded);
		differ++;
	}
	r->result.verdict_differs += differ;
	if (!differ && n == was->cnt)
		handler_sums_compare(r, now, was);
}

/* A batch whose completion was refused has no verdicts of the handler's. */
void replay_handler_done(struct spw_replay *r, uint64_t seq)
{
	const struct spw_gring_batch *was = spw_gring_at(r->pipe->ring, seq);
	const uint8_t *bytes[SPW_GRING_FRAME_MAX];
	struct spw_gring_batch now;
	struct note note;
	uint32_t whole;

	if (!r->handler)
		return;
	note = *handler_note(r, seq);
	*handler_note(r, seq) = (struct note){0};
	whole = note.snap && was->bad[SPW_BAD_verdict] == 0
			? handler_bytes_find(r, &note, was, bytes)
			: 0;
	r->result.as_recorded += was->cnt - whole;
	if (!whole)
		return;
	r->result.verdicts += whole;
	handler_batch_run(r->handler, was, bytes, &now);
	handler_verdicts_compare(r, &now, was, bytes);
}
