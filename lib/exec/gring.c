/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The executor ring on the host: the owner's side, and at the end the executor's on a CPU;
 * exec/spw_gring.h has the contract. lib/pipe calls next, push, reap and retire once per batch, the
 * inline and the cpu executor spw_exec_run_one. A change to a word here needs the same change in
 * spwd_kernel.cuh and in SPW_HANDLER_ABI.
 *
 * The hand-off of one batch of n frames, in time:
 *
 *   owner (lcore)                                executor's unit
 *   next: record b is free
 *   rx_burst fills batch[b]
 *   push: scrub entry; entries n-1 .. 1;
 *         entry 0 hi, then lo  ── G1 release ──> polls desc[b][0].lo: tag of this lap?
 *                                                acquire; cnt from hi; entries 1 .. n-1, payload
 *                                                runs the handler on each frame
 *   reap: polls done[b].w[0] <── G2 ──────────── w[7] .. w[1], then w[0], all with this lap's tag
 *         all 8 tags? decode, check
 *   act on verdicts, record stamps
 *   retire: record b is free again
 *
 * Nothing is ever written back to a descriptor: the tag of the next lap makes it new, so the
 * owner's stores are the only traffic in that direction.
 */
#include <stddef.h>
#include <string.h>

#include "exec/exec.h"

#define REAP_AHEAD 2u /* completion lines read ahead of the one at work */

static const struct spw_enum_word bad_word[] = {SPW_ENUM_WORDS(SPW_BAD)};

const char *spw_bad_text(enum spw_bad reason)
{
	return SPW_ENUM_TEXT(bad_word, reason);
}

const char *spw_bad_name(enum spw_bad reason)
{
	return SPW_ENUM_NAME(bad_word, reason);
}

void spw_gring_bind(struct spw_gring *ring, const struct spw_pool *pool)
{
	ring->slot_base = pool->region_offset;
	ring->slot_bytes = pool->slot_bytes;
}

/* Entries are written from the last to the first, so that a unit which finds entry 0 finds all
 * others in place; each store is a release of its own, as units read the others with acquire too.
 * The scrub rewrites one entry that this batch does not use (spw_gring.h says why). */
static void gring_push_one(struct spw_gring *ring, struct spw_gring_batch *batch)
{
	uint64_t seq = ring->head_seq, tag = spw_gring_tag(seq, ring->batch_log2);
	struct spw_gring_desc *entry = &ring->desc[(seq & ring->batch_mask) * SPW_GRING_FRAME_MAX];
	uint32_t n = batch->cnt, scrub = (uint32_t)(seq >> ring->batch_log2) % SPW_GRING_FRAME_MAX;

	if (spw_unlikely(ring->flush))
		ring->flush(ring);
	batch->seq = seq;
	if (scrub >= n) {
		spw_gpu_store_rlx64(&entry[scrub].lo, tag);
		spw_gpu_store_rlx64(&entry[scrub].hi, tag);
	}
	/* [G1 release, pairs with the acquire of entry 0: spwd_kernel.cuh, spw_exec_run_one] */
	for (uint32_t i = n; i-- > 0;) {
		const struct spw_desc *d = &batch->desc[i];
		uint64_t offset = ring->slot_base + d->slot * ring->slot_bytes + d->offset;

		spw_gpu_store_rel64(&entry[i].hi, spw_gring_hi(tag, d->len, d->meta, d->flags,
							       d->region, i ? 1 : n));
		spw_gpu_store_rel64(&entry[i].lo, spw_gring_lo(tag, offset, d->meta));
	}
	spw_thr_store_rlx(&ring->head_seq, seq + 1);
	spw_thr_store_rlx(&ring->in_exec_frames, ring->in_exec_frames + n);
	if (ring->kick)
		ring->kick(ring);
}

/* How many units shall work on the batch: no more than are idle, have a frame of it, and find a
 * record. Batch seq goes to unit seq % unit_cnt, so the records behind it belong to the units that
 * have been idle for longest. */
static uint32_t gring_sharers(const struct spw_gring *ring, const struct spw_gring_batch *batch)
{
	uint64_t busy = ring->head_seq - ring->tail_seq, bytes = 0, most;

	if (!ring->share_log2 || batch->cnt == 1 || busy + 1 >= ring->unit_cnt)
		return 1;
	for (uint32_t i = 0; i < batch->cnt; i++)
		bytes += batch->desc[i].len;
	most = ring->retired_seq + ring->batch_mask + 1 - ring->head_seq;
	most = SPW_MIN(most, SPW_MIN(ring->unit_cnt - busy, (uint64_t)batch->cnt));
	return (uint32_t)SPW_MIN(SPW_MAX(bytes >> ring->share_log2, 1ull), most);
}

/* Cuts the batch into parts of as many frames each, give or take one, and pushes each as soon as it
 * is cut: the first unit reads while the last part is not there yet. The first part stays in the
 * batch's record. */
SPW_COLD static void gring_push_shared(struct spw_gring *ring, struct spw_gring_batch *batch,
				       uint32_t parts)
{
	const uint32_t cnt = batch->cnt;

	for (uint32_t i = 0; i < parts; i++) {
		struct spw_gring_batch *part = spw_gring_next(ring);
		const uint32_t from = i * cnt / parts, to = (i + 1) * cnt / parts;

		if (i > 0) {
			memcpy(part, batch, offsetof(struct spw_gring_batch, desc));
			memcpy(part->desc, &batch->desc[from],
			       (to - from) * sizeof(batch->desc[0]));
		}
		part->cnt = to - from;
		gring_push_one(ring, part);
	}
}

uint32_t spw_gring_push(struct spw_gring *ring, struct spw_gring_batch *batch)
{
	const uint32_t parts = gring_sharers(ring, batch);

	if (spw_likely(parts == 1))
		gring_push_one(ring, batch);
	else
		gring_push_shared(ring, batch, parts);
	return parts;
}

/* Gathers one bit of each 2-bit verdict: bit i of the result is bit 2i of v. */
static uint64_t gring_every_other_bit(uint64_t v)
{
	v &= 0x5555555555555555ull;
	v = (v | v >> 1) & 0x3333333333333333ull;
	v = (v | v >> 2) & 0x0f0f0f0f0f0f0f0full;
	v = (v | v >> 4) & 0x00ff00ff00ff00ffull;
	v = (v | v >> 8) & 0x0000ffff0000ffffull;
	return (v | v >> 16) & 0x00000000ffffffffull;
}

/* Gathers one of the two bits of each verdict from the three words: 28 frames in w[0], 28 in w[1],
 * 8 in w[2]. */
static uint64_t gring_verdict_bits(const uint64_t *w, uint32_t shift)
{
	return gring_every_other_bit((w[0] & SPW_GRING_VALUE_MASK) >> shift) |
	       gring_every_other_bit((w[1] & SPW_GRING_VALUE_MASK) >> shift) << 28 |
	       gring_every_other_bit((w[2] & 0xffff) >> shift) << 56;
}

SPW_INLINE uint32_t gring_results_decode(struct spw_gring_batch *batch, const uint64_t *w)
{
	const uint64_t reasons = w[5] & SPW_GRING_VALUE_MASK;
	uint32_t sum = 0;

	batch->verdict[0] = gring_verdict_bits(w, 0);
	batch->verdict[1] = gring_verdict_bits(w, 1);
	batch->digest = w[6] & SPW_GRING_VALUE_MASK;
	memset(batch->bad, 0, sizeof(batch->bad));
	for (uint32_t i = 0; spw_unlikely(reasons) && i < SPW_GRING_REASON_MAX; i++)
		sum += batch->bad[i] = (uint8_t)(reasons >> (7 * i) & 0x7f);
	return sum;
}

uint32_t spw_gring_results(struct spw_gring_batch *batch, const uint64_t *w)
{
	return gring_results_decode(batch, w);
}

/* Whether the completion fits the batch. What is decoded from it indexes arrays and moves slots, so
 * a damaged one must not be used. */
static bool done_is_sound(const struct spw_gring *ring, const struct spw_gring_batch *batch,
			  uint32_t cnt, uint32_t reasons)
{
	uint64_t echo = batch->verdict[0], bad = batch->verdict[1],
		 beyond = ~0ull << 1 << (batch->cnt - 1);

	return batch->unit < ring->unit_cnt && cnt == batch->cnt && !((echo | bad) & beyond) &&
	       !(echo & bad) &&
	       reasons == (spw_likely(!bad) ? 0 : (uint32_t)__builtin_popcountll(bad));
}

/* Uses nothing of the completion: every frame is bad, so that its slot is recycled and the ledger
 * balances. */
SPW_COLD static void done_reject(struct spw_gring *ring, struct spw_gring_batch *batch)
{
	spw_thr_count(&ring->fault_cnt, 1);
	memset(batch->bad, 0, sizeof(batch->bad));
	batch->bad[SPW_BAD_verdict] = (uint8_t)batch->cnt;
	batch->verdict[0] = 0;
	batch->verdict[1] = ~(~0ull << 1 << (batch->cnt - 1));
	batch->unit = (uint16_t)(batch->seq % ring->unit_cnt);
	batch->digest = 0;
	batch->exec_start = batch->exec_end;
}

/* Stamps carry 56 bits. The missing 8 come from the end of the last batch, which is never more than
 * 2^55 ticks away (spw_gring_clock). */
static void done_decode(struct spw_gring *ring, struct spw_gring_batch *batch, const uint64_t *w)
{
	uint32_t reasons = gring_results_decode(batch, w);
	int32_t more;

	if (spw_unlikely(!ring->stamp_ref))
		spw_gring_clock(ring);
	batch->unit = (uint16_t)(w[2] >> 40);
	batch->exec_start = spw_gring_stamp(w[3] & SPW_GRING_VALUE_MASK, ring->stamp_ref);
	batch->exec_end = ring->stamp_ref =
		spw_gring_stamp(w[4] & SPW_GRING_VALUE_MASK, ring->stamp_ref);
	if (spw_unlikely(!done_is_sound(ring, batch, (uint32_t)(w[2] >> 16) & 0x7f, reasons))) {
		done_reject(ring, batch);
		return;
	}
	spw_thr_count(&ring->digest, batch->digest);
	more = (int32_t)((uint32_t)w[7] - (uint32_t)ring->unit_frames[batch->unit]);
	if (more > 0) /* a unit may finish its batches out of order; its count only grows */
		ring->unit_frames[batch->unit] += (uint32_t)more;
}

/* In order: if the oldest batch is not finished, nothing is taken, even if a later one is. */
struct spw_gring_batch *spw_gring_reap(struct spw_gring *ring)
{
	uint64_t seq = ring->tail_seq, tag = spw_gring_tag(seq, ring->batch_log2), w[8];
	const struct spw_gring_done *done = &ring->done[seq & ring->batch_mask];
	struct spw_gring_batch *batch = &ring->batch[seq & ring->batch_mask];

	if (seq == ring->head_seq)
		return NULL;
	/* [G2 acquire, pairs with the completion stores in spwd_batch.cuh and
	 * cpu_done_write] */
	for (uint32_t i = 0; i < SPW_ARRAY_CNT(w); i++) {
		w[i] = spw_gpu_load_acq64(&done->w[i]);
		if (!spw_gring_has_tag(w[i], tag))
			return NULL;
	}
	/* Batches of several units end together: their lines come out of memory side by side. */
	spw_prefetch_read(&ring->done[(seq + REAP_AHEAD) & ring->batch_mask]);
	done_decode(ring, batch, w);
	spw_thr_store_rlx(&ring->tail_seq, seq + 1);
	return batch;
}

/* The record may be reused by the next push only from here on. */
void spw_gring_retire(struct spw_gring *ring, struct spw_gring_batch *batch)
{
	ring->retired_seq++;
	spw_thr_store_rlx(&ring->in_exec_frames, ring->in_exec_frames - batch->cnt);
}

uint64_t spw_gring_executed(const struct spw_gring *ring)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < ring->unit_cnt; i++)
		sum += ring->unit_frames[i];
	return sum;
}

uint64_t spw_gring_digest(const struct spw_gring *ring)
{
	return spw_thr_load_rlx(&ring->digest) & SPW_GRING_VALUE_MASK;
}

/* ---- the executor on a CPU: inline from push, cpu from its thread ---- */

/* [G2 release, pairs with spw_gring_reap: the payload reads, and the writes of an echo, come before
 * w[0]] */
static void cpu_done_write(struct spw_gring_done *done, uint64_t tag, const uint64_t *w)
{
	for (uint32_t i = SPW_ARRAY_CNT(done->w); i-- > 1;)
		spw_gpu_store_rlx64(&done->w[i], tag | (w[i] & SPW_GRING_VALUE_MASK));
	spw_gpu_store_rel64(&done->w[0], tag | (w[0] & SPW_GRING_VALUE_MASK));
}

/* Polls one word: entry 0's lo of the next batch. The completion is written with w[0] last and
 * released, since the owner polls w[0] first. */
bool spw_exec_run_one(const struct spw_gring *ring, struct spw_exec_cpu_unit *unit,
		      uint64_t start_tsc)
{
	uint64_t seq = unit->next_seq, tag = spw_gring_tag(seq, ring->batch_log2), hi;
	const struct spw_gring_desc *desc =
		&ring->desc[(seq & ring->batch_mask) * SPW_GRING_FRAME_MAX];
	struct spw_tally tally;
	uint32_t cnt;

	/* [G1 acquire, pairs with spw_gring_push: entry 0's lo word is stored last of all] */
	if (!spw_gring_has_tag(spw_gpu_load_acq64(&desc->lo), tag))
		return false;
	start_tsc = start_tsc ? start_tsc : spw_tsc_now();
	hi = spw_gpu_load_rlx64(&desc->hi);
	cnt = spw_gring_hi_cnt(hi);
	unit->run(desc, cnt, &unit->env, &tally);
	spw_thr_count(&unit->frames, tally.frames);
	spw_thr_store_rlx(&unit->next_seq, seq + 1);
	cpu_done_write(&ring->done[seq & ring->batch_mask], tag,
		       (const uint64_t[8]){tally.verdict[0], tally.verdict[1],
					   tally.verdict[2] | (uint64_t)cnt << 16, start_tsc,
					   spw_tsc_now(), tally.bad, tally.digest, unit->frames});
	return true;
}
