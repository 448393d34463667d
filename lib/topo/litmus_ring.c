/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The litmus between CPU and executor: a few slots of the lane, borrowed from the port, go round
 * through the executor ring with new contents each time. Called by litmus.c for each lane.
 *
 *   slots      | in the executor: taken .. filled | free |       in order, as batches come back
 *
 *   odd blocks of BLOCK batches    one batch at a time: executor and CPU poll when the word arrives
 *   even blocks                    as many as there are slots: many lines are in flight
 *
 * The CPU writes a frame and pushes at once, so that only G1 stands between its last bytes and the
 * executor's poll; it reads the answer as soon as reap returns, so that only G2 orders it
 * back. A source keeps whole frames in its slots (port null), so each slot gets its bytes back.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "litmus.h"

#define BLOCK      64u  /* batches */
#define BATCH_MAX  8u   /* frames of a batch */
#define FRAMES_MIN 256u /* also on a machine that needs long for them */

struct ring_part {
	struct litmus *l;
	uint32_t slot[SPW_BURST_MAX];
	uint32_t cnt;           /* slots */
	uint32_t offset;        /* of the frame in its slot, a multiple of a line */
	uint32_t room;          /* of a frame */
	uint64_t filled, taken; /* frames that were pushed, came back */
	uint64_t batches;
};

/* ---- the slots ---- */

/* The frame begins on a line of its own, as a NIC would place it. */
static void litmus_ring_place(struct ring_part *part)
{
	const struct spw_topo_lane *lane = part->l->lane;

	part->offset = (uint32_t)SPW_ALIGN_UP(lane->port->caps.slot_headroom, SPW_CACHE_LINE);
	part->room = lane->slot_bytes < part->offset + SPW_LITMUS_BYTES_MIN
			     ? 0
			     : (uint32_t)SPW_MIN(lane->slot_bytes - part->offset,
						 (size_t)SPW_LITMUS_BYTES_MAX);
}

static uint8_t *litmus_ring_frame_of(const struct ring_part *part, uint32_t i)
{
	return spw_pool_slot_addr(&part->l->lane->pool, part->slot[i]) + part->offset;
}

/* All slots that were borrowed, in either direction. */
static void litmus_ring_copy_slots(const struct ring_part *part, uint8_t *saved, bool back)
{
	for (uint32_t i = 0; i < part->cnt; i++) {
		uint8_t *keep = saved + (size_t)i * part->room;

		memcpy(back ? litmus_ring_frame_of(part, i) : keep,
		       back ? keep : litmus_ring_frame_of(part, i), part->room);
	}
}

/* ---- out and back ---- */

/* Fills the next frames into free slots and pushes them as one batch. */
static bool litmus_ring_push(struct ring_part *part)
{
	struct spw_gring_batch *batch = spw_gring_next(part->l->ring);
	uint32_t out = (uint32_t)(part->filled - part->taken);
	uint32_t want = SPW_MIN(1 + (uint32_t)(part->batches * 5 % BATCH_MAX), part->cnt);
	bool alone = part->batches / BLOCK & 1;

	if (!batch || out + want > part->cnt || (alone && out))
		return false;
	for (uint32_t i = 0; i < want; i++, part->filled++) {
		uint32_t seq = (uint32_t)part->filled & 0xffff,
			 at = (uint32_t)(part->filled % part->cnt);
		uint32_t len = litmus_len(part->room, seq);

		batch->desc[i] = (struct spw_desc){
			.slot = part->slot[at],
			.offset = part->offset,
			.len = len,
			.meta = spw_litmus_meta(seq),
			.region = part->l->lane->pool.region->id,
		};
		litmus_fill(litmus_ring_frame_of(part, at), seq, len);
	}
	batch->cnt = want;
	part->batches++;
	spw_gring_push(part->l->ring, batch);
	return true;
}

/* The answers in a batch that the executor called good. */
static int litmus_ring_check_answers(struct ring_part *part, const struct spw_gring_batch *batch)
{
	struct litmus *l = part->l;

	for (uint32_t i = 0; i < batch->cnt; i++) {
		const struct spw_desc *d = &batch->desc[i];
		uint64_t seen = litmus_look(litmus_frame(l, d),
					    (d->meta & 0xffff) + SPW_LITMUS_STEP, d->len);

		if (seen >= SPW_LITMUS_OLD)
			return litmus_fail(l, SPW_LITMUS_answer, d, seen);
		l->out->bytes += d->len;
	}
	l->out->frames[SPW_LITMUS_publish] += batch->cnt;
	l->out->frames[SPW_LITMUS_descriptor] += batch->cnt;
	l->out->frames[SPW_LITMUS_answer] += batch->cnt;
	l->out->round_trips += batch->cnt;
	return 0;
}

/* Returns: batches that came back, or the error of one that is wrong. */
static int litmus_ring_reap(struct ring_part *part)
{
	struct litmus *l = part->l;
	struct spw_gring_batch *batch;
	int n = 0, rc;

	for (; (batch = spw_gring_reap(l->ring)); n++) {
		enum spw_litmus_pattern pattern;
		uint32_t i;

		if (!litmus_answered(batch, &pattern, &i))
			return litmus_fail(l, pattern, &batch->desc[i], batch->digest);
		rc = litmus_ring_check_answers(part, batch);
		if (rc)
			return rc;
		part->taken += batch->cnt;
		spw_gring_retire(l->ring, batch);
	}
	return n;
}

/* Ends with nothing in the executor, except after an error. */
static int litmus_ring_circulate(struct ring_part *part)
{
	struct litmus *l = part->l;
	uint64_t begin = spw_tsc_now();
	bool more = true;
	int n, rc;

	while (more || part->filled != part->taken) {
		bool pushed = more && litmus_ring_push(part);

		n = litmus_ring_reap(part);
		if (n < 0)
			return n;
		rc = litmus_turn(l, pushed || n);
		if (rc)
			return rc;
		more = spw_tsc_now() - begin < l->run_tsc || part->taken < FRAMES_MIN;
	}
	return 0;
}

/* Memory that the CPU cannot reach is no fault: litmus_wire reports it as not tested. */
int litmus_ring(struct litmus *l)
{
	struct ring_part part = {.l = l};
	uint8_t *saved;
	int rc;

	litmus_ring_place(&part);
	if (!l->lane->pool.region->host_va || !part.room) /* litmus_wire says why not */
		return 0;
	part.cnt = spw_port_lend_burst(l->queue, part.slot, SPW_BURST_MAX);
	if (!part.cnt)
		return spw_err(ENOSPC,
			       "litmus: port %s lends no slot before it starts: use more --slots, "
			       "or --litmus off",
			       l->lane->port->name);
	saved = malloc((size_t)part.cnt * part.room);
	if (!saved)
		return spw_err(ENOMEM, "litmus: no memory for the bytes of %u slots", part.cnt);
	litmus_ring_copy_slots(&part, saved, false);
	rc = litmus_ring_circulate(&part);
	litmus_ring_copy_slots(&part, saved, true);
	free(saved);
	spw_port_release_burst(l->queue, part.slot, (uint16_t)part.cnt);
	return rc;
}
