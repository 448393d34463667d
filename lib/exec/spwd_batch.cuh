/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * One batch inside a CTA: its slot in shared memory, the workers' shares, the completion line.
 * spwd_kernel.cuh describes how the warps work together. */
#ifndef SPWD_BATCH_CUH
#define SPWD_BATCH_CUH

#include <cuda_runtime.h>

#include "exec/spw_handler.h"
#include "exec/spw_kernel.h"
#include "exec/spwd_order.cuh"

#define SPWD_SLOT_CNT     4u
#define SPWD_POLL_WARPS   2u
#define SPWD_CTL_EVERY_NS 20000u /* how often unit 0 reads stop and beat */
#define SPWD_PATIENCE     8u     /* empty polls before a poll reads only the first two entries */
#define SPWD_WIDTH_MAX    31u    /* entries one poll reads at most; lane 31 is for the relay */
#define SPWD_TEAM_FRAMES  8u     /* at most so many frames, one of them over .. */
#define SPWD_TEAM_BYTES   4096u  /* .. so many bytes: the workers form teams, one a frame */
#define SPWD_TEAM_SPLITS  4u     /* into 1, 2, 4 or 8 teams */
#define SPWD_SELF_BYTES   2048u  /* one frame up to this: the poller handles it itself */
#define SPWD_FULL         0xffffffffu

struct spwd_slot {
	uint64_t lo[SPW_GRING_FRAME_MAX], hi[SPW_GRING_FRAME_MAX];
	uint64_t gate;
	uint64_t ready;
	uint64_t seq;
	uint64_t start_ns;
	unsigned long long verdict[3], bad, digest;
	uint32_t cnt;
	uint32_t teams;      /* that the workers form; 0: one warp per frame */
	uint32_t first_warp; /* worker of frame 0: so that remainders go round */
	uint32_t expect;     /* workers with a share */
	uint32_t frames;     /* executed, as counted by those who did it */
	uint32_t arrived;
	uint32_t passed;
};

struct spwd_cta {
	struct spwd_slot slot[SPWD_SLOT_CNT];
	uint64_t scratch[SPWD_TEAM_SPLITS][32];
	uint64_t first_seq;
	uint64_t taken;      /* batches taken by this CTA */
	uint64_t leaving;    /* enum spw_kernel_left */
	uint64_t final;      /* taken, once it will not grow any more */
	uint32_t polls_left; /* pollers that have left */
	uint32_t frames;     /* executed by the unit, modulo 2^32: a 64-bit sum is a loop here */
};

/* ---- one batch ---- */

/* The lanes of the team that a worker belongs to. Workers go from batch to batch each at its own
 * pace, so teams of two batches can be at work at once: those of one split into teams always have
 * the same warps, and each team of each split has a barrier and scratch of its own.
 *
 *   teams    barriers    warps of 26
 *   1        1           0..25
 *   2        2, 3        0..12          13..25
 *   4        4 .. 7      0..5   6..11   12..17   18..23
 *   8        8 .. 15     0..2 3..5 ...           21..23 */
static __device__ __forceinline__ struct spw_lanes spwd_team(const struct spw_kernel_ring &ring,
							     struct spwd_cta *cta, uint32_t teams,
							     uint32_t warp, uint32_t workers)
{
	const uint32_t warps = workers / teams, team = warp / warps, lane = threadIdx.x & 31;

	return {(warp - team * warps) * 32 + lane,
		warps * 32,
		&cta->scratch[31 - __clz((int)teams)][team * warps],
		teams + team,
		ring.state,
		ring.region_base};
}

/* A team's share of the batch: every teams-th frame. */
template <class Body>
static __device__ __forceinline__ struct spw_tally spwd_share_team(
	const struct spw_kernel_ring &ring, struct spwd_cta *cta, struct spwd_slot *slot,
	uint32_t warp, uint32_t workers)
{
	const struct spw_lanes lanes = spwd_team(ring, cta, slot->teams, warp, workers);
	const uint32_t teams = slot->teams;
	struct spw_tally tally = {{0, 0, 0}, 0, 0, 0};

	for (uint32_t i = lanes.bar - teams; i < slot->cnt; i += teams) {
		struct spw_frame frame = spw_frame_of(slot->lo[i], slot->hi[i], ring.region_base);
		struct spw_result r = Body::run(&frame, lanes);

		if (lanes.idx < 32)
			spw_tally_add(&tally, i, r);
	}
	return tally;
}

/* A warp's share of the batch: every workers-th frame. */
template <class Body>
static __device__ __forceinline__ struct spw_tally spwd_share_warp(
	const struct spw_kernel_ring &ring, struct spwd_slot *slot, uint32_t turn, uint32_t workers)
{
	const struct spw_lanes lanes = {threadIdx.x & 31, 32, NULL, 0, ring.state,
					ring.region_base};
	struct spw_tally tally = {{0, 0, 0}, 0, 0, 0};

	for (uint32_t i = turn; i < slot->cnt; i += workers) {
		struct spw_frame frame = spw_frame_of(slot->lo[i], slot->hi[i], ring.region_base);

		spw_tally_add(&tally, i, Body::run(&frame, lanes));
	}
	return tally;
}

static __device__ __forceinline__ void spwd_slot_add(struct spwd_slot *slot,
						     const struct spw_tally &t)
{
	if (!t.frames)
		return;
	for (int i = 0; i < 3; i++)
		if (t.verdict[i])
			atomicOr(&slot->verdict[i], (unsigned long long)t.verdict[i]);
	if (t.bad)
		atomicAdd(&slot->bad, (unsigned long long)t.bad);
	if (t.digest)
		atomicAdd(&slot->digest, (unsigned long long)t.digest);
	atomicAdd(&slot->frames, (uint32_t)t.frames);
}

/* The completion line [G2], by one whole warp, after it has acquired that the batch is done. */
template <bool Writes>
static __device__ __forceinline__ void spwd_done_store(const struct spw_kernel_ring &ring,
						       struct spwd_cta *cta, uint64_t seq,
						       uint32_t cnt, uint64_t start_ns,
						       struct spw_tally t, uint32_t unit)
{
	uint32_t lane = threadIdx.x & 31;
	uint32_t total = 0;
	uint64_t v = 0;
	struct spw_gring_done *done = &ring.done[seq & ((1u << ring.batch_log2) - 1)];

	if (lane == 0)
		total = atomicAdd(&cta->frames, (uint32_t)t.frames) + (uint32_t)t.frames;
	total = __shfl_sync(SPWD_FULL, total, 0);
	if (lane >= 8)
		return;
	v = lane == 0 ? t.verdict[0] : v;
	v = lane == 1 ? t.verdict[1] : v;
	v = lane == 2 ? t.verdict[2] | (uint64_t)cnt << 16 | (uint64_t)unit << 40 : v;
	v = lane == 3 ? start_ns : v;
	v = lane == 4 ? spwd_now_ns() : v;
	v = lane == 5 ? t.bad : v;
	v = lane == 6 ? t.digest : v;
	v = lane == 7 ? total : v;
	if (Writes)
		spwd_sys_fence();
	spwd_sys_store_rlx(&done->w[lane],
			   spw_gring_tag(seq, ring.batch_log2) | (v & SPW_GRING_VALUE_MASK));
}

template <bool Writes>
static __device__ __forceinline__ void spwd_complete(const struct spw_kernel_ring &ring,
						     struct spwd_cta *cta,
						     const struct spwd_slot *slot, uint32_t unit)
{
	struct spw_tally t = {{slot->verdict[0], slot->verdict[1], slot->verdict[2]},
			      slot->bad,
			      slot->digest,
			      slot->frames};

	spwd_done_store<Writes>(ring, cta, slot->seq, slot->cnt, slot->start_ns, t, unit);
}

/* A warp's part in one batch. */
template <class Body, bool Writes>
static __device__ __forceinline__ void spwd_work(const struct spw_kernel_ring &ring,
						 struct spwd_cta *cta, struct spwd_slot *slot,
						 uint32_t unit, uint32_t warp, uint32_t workers)
{
	const bool teamed = slot->teams != 0;
	const uint32_t lane = threadIdx.x & 31,
		       turn = teamed ? warp
				     : warp + (warp < slot->first_warp ? workers : 0) -
					       slot->first_warp;
	struct spw_tally tally;
	uint32_t old = 0;

	if (turn >= slot->expect)
		return;
	tally = teamed ? spwd_share_team<Body>(ring, cta, slot, warp, workers)
		       : spwd_share_warp<Body>(ring, slot, turn, workers);
	__syncwarp();                   /* this warp's reads and writes of the frames are done */
	if (teamed && slot->cnt == 1) { /* one team has it all: its barrier does for D2 */
		spwd_bar_sync(slot->teams, slot->expect * 32);
		if (turn == 0)
			spwd_done_store<Writes>(ring, cta, slot->seq, 1, slot->start_ns, tally,
						unit);
		return;
	}
	if (lane == 0) {
		spwd_slot_add(slot, tally);
		old = spwd_cta_add(
			&slot->arrived,
			1); /* [D2 acquire and release, pairs with itself in the other warps] */
	}
	old = __shfl_sync(SPWD_FULL, old, 0);
	if (old + 1 != slot->expect)
		return;
	__syncwarp(); /* the other lanes know what lane 0 knows */
	spwd_complete<Writes>(ring, cta, slot, unit);
}

/* Reads the entries that the poll did not bring, and lays the batch into its slot. Entry 0 has been
 * acquired (G1) and was stored last, so the others are there: relaxed loads, several in flight.
 * Returns false if one is not, ever. */
static __device__ __forceinline__ bool spwd_lay(const struct spw_gring_desc *desc,
						struct spwd_slot *slot, uint32_t cnt, uint64_t tag,
						uint64_t lo, uint64_t hi)
{
	uint32_t lane = threadIdx.x & 31;
	uint64_t lo1 = tag, hi1 = tag;
	bool need0 = lane < cnt && !(spw_gring_has_tag(lo, tag) && spw_gring_has_tag(hi, tag)),
	     need1 = lane + 32 < cnt;
	uint32_t tries = 0;

	while (__any_sync(SPWD_FULL, need0 || need1)) {
		if (++tries > 1000000)
			return false;
		if (need0)
			spwd_sys_load_rlx2(desc + lane, &lo, &hi);
		if (need1)
			spwd_sys_load_rlx2(desc + lane + 32, &lo1, &hi1);
		need0 = need0 && !(spw_gring_has_tag(lo, tag) && spw_gring_has_tag(hi, tag));
		need1 = need1 && !(spw_gring_has_tag(lo1, tag) && spw_gring_has_tag(hi1, tag));
	}
	if (lane < cnt) {
		slot->lo[lane] = lo;
		slot->hi[lane] = hi;
	}
	if (lane + 32 < cnt) {
		slot->lo[lane + 32] = lo1;
		slot->hi[lane + 32] = hi1;
	}
	return true;
}

static __device__ __forceinline__ void spwd_slot_start(struct spwd_slot *slot, uint64_t seq,
						       uint64_t start_ns, uint32_t cnt,
						       uint32_t teams, uint32_t first_warp,
						       uint32_t workers)
{
	slot->seq = seq;
	slot->start_ns = start_ns;
	slot->verdict[0] = slot->verdict[1] = slot->verdict[2] = slot->bad = slot->digest = 0;
	slot->cnt = cnt;
	slot->teams = teams;
	slot->first_warp = first_warp;
	slot->expect = teams ? SPW_MIN(cnt, teams) * (workers / teams) : SPW_MIN(cnt, workers);
	slot->frames = 0;
	slot->arrived = 0;
	slot->passed = 0;
}

/* Bytes of any frame that a team of so many warps reads in one turn, wherever the frame begins. */
static __device__ __forceinline__ uint32_t spwd_turn_bytes(uint32_t warps)
{
	return warps * 32 * 16 * SPW_WALK_DEPTH - SPW_WALK_LINE;
}

/* How many teams the workers form for the batch: a power of 2; 0: none. At least one a frame, and
 * more, so that teams are smaller, as long as one turn of a team still reads the longest frame: a
 * warp with nothing to read takes as much of the SM's time as the others. Teams without a frame
 * have no share. Every lane has its own entry's hi word. */
static __device__ __forceinline__ uint32_t spwd_teams(uint32_t cnt, uint64_t hi, uint32_t workers)
{
	const uint32_t lane = threadIdx.x & 31;
	const uint32_t most = spwd_warp_max(lane < cnt ? spw_gring_hi_len(hi) : 0);
	uint32_t teams = 1;

	if (cnt > SPWD_TEAM_FRAMES || most <= SPWD_TEAM_BYTES)
		return 0;
	while (teams < SPWD_TEAM_FRAMES && 2 * teams <= workers &&
	       (teams < cnt || most <= spwd_turn_bytes(workers / (2 * teams))))
		teams *= 2;
	return teams;
}

#endif
