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
#define SPWD_BAR_POLL     2u
#define SPWD_CTL_EVERY_NS 20000u /* how often unit 0 reads stop and beat */
#define SPWD_PATIENCE     8u     /* empty polls before a poll reads only the first two entries */
#define SPWD_WIDTH_MAX    31u    /* entries one poll reads at most; lane 31 is for the relay */
#define SPWD_TEAM_FRAMES  8u     /* at most so many frames, one of them over .. */
#define SPWD_TEAM_BYTES   4096u  /* .. so many bytes: all workers share each frame */
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
	uint32_t team;       /* all workers share each frame */
	uint32_t first_warp; /* worker of frame 0: so that remainders go round */
	uint32_t expect;     /* workers with a share */
	uint32_t frames;     /* executed, as counted by those who did it */
	uint32_t arrived;
	uint32_t passed;
};

struct spwd_cta {
	struct spwd_slot slot[SPWD_SLOT_CNT];
	uint64_t scratch[32];
	uint64_t first_seq;
	uint64_t taken;   /* batches taken by this CTA */
	uint64_t leaving; /* enum spw_kernel_left */
	uint64_t final;   /* taken, once it will not grow any more */
	unsigned long long frames;
};

/* ---- one batch ---- */

template <class Body>
static __device__ __forceinline__ struct spw_tally spwd_share(const struct spw_kernel_ring &ring,
							      struct spwd_cta *cta,
							      struct spwd_slot *slot, uint32_t warp,
							      uint32_t workers)
{
	struct spw_tally tally = {{0, 0, 0}, 0, 0, 0};
	uint32_t lane = threadIdx.x & 31, cnt = slot->cnt;
	struct spw_lanes one = {lane, 32, NULL},
			 all = {warp * 32 + lane, workers * 32, cta->scratch};

	if (slot->team) {
		for (uint32_t i = 0; i < cnt; i++) {
			struct spw_frame frame =
				spw_frame_of(slot->lo[i], slot->hi[i], ring.region_base);
			struct spw_result r = Body::run(&frame, all);

			if (warp == 0)
				spw_tally_add(&tally, i, r);
		}
		return tally;
	}
	for (uint32_t i = warp + (warp < slot->first_warp ? workers : 0) - slot->first_warp;
	     i < cnt; i += workers) {
		struct spw_frame frame = spw_frame_of(slot->lo[i], slot->hi[i], ring.region_base);

		spw_tally_add(&tally, i, Body::run(&frame, one));
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
	uint64_t v = 0, total = 0;
	struct spw_gring_done *done = &ring.done[seq & ((1u << ring.batch_log2) - 1)];

	if (lane == 0)
		total = atomicAdd(&cta->frames, (unsigned long long)t.frames) + t.frames;
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
	uint32_t lane = threadIdx.x & 31, old = 0;
	uint32_t turn = warp + (warp < slot->first_warp ? workers : 0) - slot->first_warp;
	struct spw_tally tally;

	if (!slot->team && turn >= slot->cnt)
		return;
	tally = spwd_share<Body>(ring, cta, slot, warp, workers);
	__syncwarp(); /* this warp's reads and writes of the frames are done */
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
						       uint64_t start_ns, uint32_t cnt, bool team,
						       uint32_t first_warp, uint32_t workers)
{
	slot->seq = seq;
	slot->start_ns = start_ns;
	slot->verdict[0] = slot->verdict[1] = slot->verdict[2] = slot->bad = slot->digest = 0;
	slot->cnt = cnt;
	slot->team = team;
	slot->first_warp = first_warp;
	slot->expect = team ? workers : SPW_MIN(cnt, workers);
	slot->frames = 0;
	slot->arrived = 0;
	slot->passed = 0;
}

/* Every lane has its own entry's hi word. */
static __device__ __forceinline__ bool spwd_wants_team(uint32_t cnt, uint64_t hi)
{
	uint32_t lane = threadIdx.x & 31;
	bool large = lane < cnt && spw_gring_hi_len(hi) > SPWD_TEAM_BYTES;

	return cnt <= SPWD_TEAM_FRAMES && __any_sync(SPWD_FULL, large);
}

#endif
