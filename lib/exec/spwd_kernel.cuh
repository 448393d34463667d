/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The kernels of the executor ring, as templates over a handler's body, and the host functions that
 * launch them.
 *
 * A CTA of the persistent kernel is one unit. Its first two warps take turns at polling the
 * descriptors of the unit's next batch: the one that finds a batch copies it into one of
 * SPWD_SLOT_CNT slots in shared memory, while the other already polls for the next. The worker
 * warps go through the slots in order, each at its own pace: one frame per warp, or, when frames
 * are few and large, one per team of warps. The warp that finishes last in a batch writes its
 * completion line, 64 bytes by 8 lanes. A batch of one small frame is handled by the poller itself.
 * No warp waits for a whole CTA, so reading the next descriptors, payload reads of two batches and
 * the completion of a third overlap.
 *
 *   warp 0, 1   poll ─ take k ─ poll ──── take k + 2 ─ ...     pollers, slot k % SPWD_SLOT_CNT
 *   warp 2 .. n         └─> frames of k ─ frames of k + 1 ─ ...     workers
 *   last worker of k                  └─> completion of k
 *
 *   slot.gate     opens once the unit's batch k lies in the slot
 *                   poller -> workers   release, acquire (D1)
 *   slot.ready    k + 1 from then on
 *                   poller -> poller    release, acquire
 *   slot.arrived  warps whose share of it is done
 *                   worker -> worker    acq_rel add (D2); within one team its barrier
 *   slot.passed   warps that no longer need the slot
 *                   worker -> poller    acq_rel add (D3)
 *
 * G2 in this code: a warp's payload reads come before __syncwarp and its D2 addition; the
 * completing warp has acquired all additions, so its stores come after every read of the batch. For
 * a handler that writes, the fence of the completing warp covers the other warps' writes too, since
 * D2 has made them visible to it. */
#ifndef SPWD_KERNEL_CUH
#define SPWD_KERNEL_CUH

#include "exec/spwd_batch.cuh"

/* ---- the pollers ---- */

struct spwd_watch {
	uint64_t stop, beat; /* as read last */
	uint64_t beat_at;    /* when the beat last changed */
	uint64_t begin;
};

static __device__ __forceinline__ uint64_t spwd_watch_left(const struct spw_kernel_ring &ring,
							   const struct spwd_watch *w, uint64_t now)
{
	if (w->stop == SPW_KERNEL_STOP_NOW)
		return SPW_KERNEL_LEFT_STOP;
	if (ring.beat_timeout_ns && now > w->beat_at + ring.beat_timeout_ns)
		return SPW_KERNEL_LEFT_BEAT;
	if (ring.life_ns && now > w->begin + ring.life_ns)
		return SPW_KERNEL_LEFT_LIFE;
	return SPW_KERNEL_LEFT_NOT;
}

static __device__ __forceinline__ void spwd_watch_take(struct spwd_watch *w, uint64_t stop,
						       uint64_t beat, uint64_t now)
{
	if (beat != w->beat)
		w->beat_at = now;
	w->stop = stop;
	w->beat = beat;
}

/* Unit 0 passes on what it reads of ctl (G3: acquire, then release at device scope). */
static __device__ __noinline__ void spwd_relay(const struct spw_kernel_ring &ring,
					       uint64_t known_stop)
{
	uint64_t stop, beat;

	if ((threadIdx.x & 31) == 0) {
		spwd_sys_load_acq2(ring.ctl, &stop, &beat);
		spwd_gpu_store_rlx(&ring.relay->beat, beat);
		if (stop != known_stop)
			spwd_gpu_store_rel(&ring.relay->stop, stop);
	}
	__syncwarp();
}

/* The relaying warp records a pause of its own [G6]. */
static __device__ __noinline__ void spwd_pause_add(struct spw_pauses *pauses, uint64_t begin,
						   uint64_t end)
{
	if ((threadIdx.x & 31) == 0) {
		uint64_t k = pauses->cnt++, *w = pauses->at[k % SPW_PAUSE_CNT].w;

		spwd_sys_store_rlx(&w[0], spw_pause_word(k, begin));
		spwd_sys_store_rlx(&w[1], spw_pause_word(k, end));
	}
	__syncwarp();
}

/* Whether slot k % SPWD_SLOT_CNT is free for batch k: all workers have passed its last batch [D3
 * acquire, pairs with the addition in spwd_persistent]. */
static __device__ __forceinline__ bool spwd_slot_free(const struct spwd_slot *slot, uint64_t k,
						      uint32_t workers)
{
	if (k < SPWD_SLOT_CNT)
		return spwd_cta_load_acq(&slot->ready) == 0;
	return spwd_cta_load_acq(&slot->ready) == k - SPWD_SLOT_CNT + 1 &&
	       spwd_cta_load_acq32(&slot->passed) == workers;
}

/* A batch of one small frame is handled by the warp that found it, which saves waking a worker. */
template <class Body, bool Writes>
static __device__ __forceinline__ void spwd_self(const struct spw_kernel_ring &ring,
						 struct spwd_cta *cta, uint64_t seq, uint64_t lo,
						 uint64_t hi, uint64_t now)
{
	struct spw_lanes one = {threadIdx.x & 31, 32, NULL, 0, ring.state, ring.region_base};
	struct spw_tally tally = {{0, 0, 0}, 0, 0, 0};
	struct spw_frame frame;

	frame = spw_frame_of(__shfl_sync(SPWD_FULL, lo, 0), __shfl_sync(SPWD_FULL, hi, 0),
			     ring.region_base);
	spw_tally_add(&tally, 0, Body::run(&frame, one));
	__syncwarp(); /* the reads and writes of all lanes are done */
	spwd_done_store<Writes>(ring, cta, seq, 1, now, tally, blockIdx.x);
}

/* A batch that a poll has found: the unit's k-th since launch, seq in the ring. */
struct spwd_hit {
	const struct spw_gring_desc *desc; /* its entries */
	uint64_t k, seq, tag;
	uint64_t lo, hi; /* of this lane's entry, as far as the poll read it */
	uint64_t now;    /* ns at which it was found */
};

/* Takes the batch if this warp is the first to claim it. */
template <class Body, bool Writes>
static __device__ __forceinline__ void spwd_take(const struct spw_kernel_ring &ring,
						 struct spwd_cta *cta, const struct spwd_hit &hit,
						 bool may_self, uint32_t workers)
{
	const uint64_t k = hit.k;
	struct spwd_slot *slot = &cta->slot[k % SPWD_SLOT_CNT];
	uint32_t lane = threadIdx.x & 31, cnt = spw_gring_hi_cnt(__shfl_sync(SPWD_FULL, hit.hi, 0));
	uint64_t old = 0;
	uint32_t teams;

	if (lane == 0)
		old = spwd_cta_cas(&cta->taken, k, k + 1);
	if (__shfl_sync(SPWD_FULL, old, 0) != k)
		return;
	if (may_self && cnt == 1 &&
	    spw_gring_hi_len(__shfl_sync(SPWD_FULL, hit.hi, 0)) <= SPWD_SELF_BYTES) {
		spwd_self<Body, Writes>(ring, cta, hit.seq, hit.lo, hit.hi, hit.now);
		cnt = 0; /* the workers pass an empty batch */
	}
	if (!spwd_lay(hit.desc, slot, cnt, hit.tag, hit.lo, hit.hi)) {
		spwd_cta_cas(&cta->leaving, SPW_KERNEL_LEFT_NOT, SPW_KERNEL_LEFT_FAULT);
		cnt = 0;
	}
	__syncwarp();
	teams = spwd_teams(cnt, lane < cnt ? slot->hi[lane] : 0, workers);
	if (lane == 0)
		spwd_slot_start(slot, hit.seq, hit.now, cnt, teams, ((uint32_t)k & 7) * workers / 8,
				workers);
	__syncwarp();
	if (lane == 0) {
		spwd_cta_store_rel(&slot->ready, k + 1);
		spwd_gate_open(&slot->gate); /* [D1 release, pairs with spwd_gate_try in
						spwd_persistent] */
	}
}

/* Whether the relaying warp stood still between two of its own times: between two turns, or between
 * a load and its answer, where most of the time is spent. */
static __device__ __forceinline__ void spwd_pause_note(const struct spw_kernel_ring &ring,
						       bool relays, uint64_t last, uint64_t now)
{
	if (relays && now > last + SPW_PAUSE_NS)
		spwd_pause_add(ring.pauses, last, now);
}

/* The last poller to leave knows that no batch will be taken any more. */
static __device__ __forceinline__ void spwd_poll_end(const struct spw_kernel_ring &ring,
						     struct spwd_cta *cta)
{
	if ((threadIdx.x & 31) == 0 && spwd_cta_add(&cta->polls_left, 1) + 1 == SPWD_POLL_WARPS) {
		spwd_cta_store_rel(&cta->final, cta->taken);
		spwd_gate_open(&cta->slot[cta->taken % SPWD_SLOT_CNT]
					.gate); /* where the workers come next, and see final */
		if (blockIdx.x == 0 && cta->leaving != SPW_KERNEL_LEFT_STOP)
			spwd_gpu_store_rel(&ring.relay->stop,
					   SPW_KERNEL_STOP_NOW); /* nobody relays any more */
	}
}

template <class T> static __device__ __forceinline__ T spwd_lane0(T v)
{
	return __shfl_sync(SPWD_FULL, v, 0);
}

template <class Body, bool Writes>
static __device__ __forceinline__ void spwd_poll(const struct spw_kernel_ring &ring,
						 struct spwd_cta *cta, uint32_t workers)
{
	const uint32_t lane = threadIdx.x & 31, mask = (1u << ring.batch_log2) - 1;
	const bool relays = blockIdx.x == 0 && threadIdx.x < 32;
	struct spwd_watch watch = {0, 0, spwd_now_ns(), spwd_now_ns()};
	uint32_t width = 2, misses = 0;
	uint64_t relay_at = 0, last = watch.begin;

	while (__all_sync(SPWD_FULL, spwd_cta_load_acq(&cta->leaving) == SPW_KERNEL_LEFT_NOT)) {
		uint64_t k = spwd_cta_load_acq(&cta->taken),
			 seq = cta->first_seq + k * ring.unit_cnt;
		uint64_t tag = spw_gring_tag(seq, ring.batch_log2), lo = ~tag, hi = ~tag, left;
		uint64_t now = spwd_lane0(spwd_now_ns());
		const struct spw_gring_desc *desc = &ring.desc[(seq & mask) * SPW_GRING_FRAME_MAX];
		bool free = spwd_slot_free(&cta->slot[k % SPWD_SLOT_CNT], k, workers),
		     was_stopping = watch.stop, hit;

		free = spwd_lane0(free);
		spwd_pause_note(ring, relays, last, now);
		last = now;
		if (!__all_sync(SPWD_FULL, k == spwd_lane0(k)))
			continue; /* the other warp took a batch between two lanes' loads */
		if (relays && now > relay_at + SPWD_CTL_EVERY_NS) {
			spwd_relay(ring, watch.stop);
			relay_at = now;
		}
		/* one instruction: entries by the low lanes, the relay by lane 31 [G1] [G3] */
		if ((free && lane < width) || lane == 31)
			spwd_sys_load_acq2(lane == 31 ? (const void *)ring.relay
						      : (const void *)(desc + lane),
					   &lo, &hi);
		__syncwarp();
		spwd_watch_take(&watch, __shfl_sync(SPWD_FULL, lo, 31),
				__shfl_sync(SPWD_FULL, hi, 31), now);
		if (lane == 31)
			lo = hi = ~tag;
		hit = spwd_lane0(spw_gring_has_tag(lo, tag) && spw_gring_has_tag(hi, tag));
		left = spwd_watch_left(ring, &watch, now);
		if (!left && !hit && free && was_stopping)
			left = SPW_KERNEL_LEFT_STOP;
		if (left) {
			if (lane == 0)
				spwd_cta_cas(&cta->leaving, SPW_KERNEL_LEFT_NOT, left);
			break;
		}
		if (hit) {
			width = SPW_MIN(spw_gring_hi_cnt(spwd_lane0(hi)), SPWD_WIDTH_MAX);
			now = spwd_lane0(spwd_now_ns());
			spwd_pause_note(ring, relays, last, now);
			spwd_take<Body, Writes>(ring, cta, {desc, k, seq, tag, lo, hi, now}, true,
						workers);
			misses = 0;
			last = spwd_lane0(spwd_now_ns()); /* a handler's time is no pause */
		} else if (++misses > SPWD_PATIENCE) {
			width = 2;
		}
	}
	spwd_poll_end(ring, cta);
}

/* ---- kernels ---- */

static __device__ __forceinline__ void spwd_cta_init(struct spwd_cta *cta,
						     const struct spw_kernel_unit *unit)
{
	if (threadIdx.x < SPWD_SLOT_CNT) {
		cta->slot[threadIdx.x].ready = 0;
		spwd_gate_init(&cta->slot[threadIdx.x].gate);
	}
	if (threadIdx.x == 0) {
		cta->first_seq = unit->next_seq;
		cta->frames = (uint32_t)unit->frames;
		cta->taken = 0;
		cta->leaving = SPW_KERNEL_LEFT_NOT;
		cta->polls_left = 0;
		cta->final = ~0ull;
	}
	__syncthreads();
}

static __device__ __forceinline__ void spwd_unit_save(struct spw_kernel_unit *unit,
						      const struct spwd_cta *cta, uint32_t unit_cnt)
{
	__syncthreads();
	if (threadIdx.x == 0) {
		unit->next_seq = cta->first_seq + cta->taken * unit_cnt;
		unit->frames = cta->frames;
		spwd_sys_store_rlx(
			&unit->left,
			cta->leaving); /* G4: the host may read it before the kernel has ended */
	}
}

/* The resident kernel: one CTA per unit, until ctl makes it leave. */
template <class Body, bool Writes>
static __global__ void __launch_bounds__(SPW_KERNEL_THREADS, 1)
	spwd_persistent(const __grid_constant__ struct spw_kernel_ring ring)
{
	__shared__ struct spwd_cta cta;
	const uint32_t warp = threadIdx.x >> 5, workers = (blockDim.x >> 5) - SPWD_POLL_WARPS;

	spwd_cta_init(&cta, &ring.unit[blockIdx.x]);
	if (warp < SPWD_POLL_WARPS) {
		spwd_poll<Body, Writes>(ring, &cta, workers);
	} else {
		for (uint64_t k = 0;; k++) {
			struct spwd_slot *slot = &cta.slot[k % SPWD_SLOT_CNT];

			/* [D1 acquire, pairs with spwd_gate_open in spwd_take] */
			while (!__all_sync(SPWD_FULL,
					   spwd_gate_try(&slot->gate, k / SPWD_SLOT_CNT)))
				;
			if (__all_sync(SPWD_FULL, spwd_cta_load_acq(&cta.final) <= k))
				break;
			spwd_work<Body, Writes>(ring, &cta, slot, blockIdx.x,
						warp - SPWD_POLL_WARPS, workers);
			__syncwarp();
			if ((threadIdx.x & 31) == 0)
				spwd_cta_add(&slot->passed,
					     1); /* [D3 release, pairs with spwd_slot_free] */
		}
	}
	spwd_unit_save(&ring.unit[blockIdx.x], &cta, ring.unit_cnt);
}

/* One CTA for one batch, the unit's next, which has been pushed. */
template <class Body, bool Writes>
static __global__ void __launch_bounds__(SPW_KERNEL_THREADS, 1)
	spwd_batch(const __grid_constant__ struct spw_kernel_ring ring, uint32_t unit)
{
	__shared__ struct spwd_cta cta;
	struct spwd_slot *slot = &cta.slot[0];
	const uint32_t lane = threadIdx.x & 31, mask = (1u << ring.batch_log2) - 1,
		       workers = blockDim.x >> 5;

	spwd_cta_init(&cta, &ring.unit[unit]);
	if (threadIdx.x < 32) {
		uint64_t seq = cta.first_seq, tag = spw_gring_tag(seq, ring.batch_log2), lo = ~tag,
			 hi = ~tag;
		uint64_t now = spwd_now_ns();
		const struct spw_gring_desc *desc = &ring.desc[(seq & mask) * SPW_GRING_FRAME_MAX];
		bool hit = false;

		for (uint32_t tries = 0; !hit && tries < 1000000; tries++) {
			spwd_sys_load_acq2(desc + lane, &lo, &hi);
			hit = __shfl_sync(SPWD_FULL,
					  spw_gring_has_tag(lo, tag) && spw_gring_has_tag(hi, tag),
					  0);
		}
		__syncwarp();
		if (hit)
			spwd_take<Body, Writes>(ring, &cta, {desc, 0, seq, tag, lo, hi, now}, false,
						workers);
		else if (lane == 0)
			cta.leaving = SPW_KERNEL_LEFT_FAULT;
	}
	__syncthreads();
	if (cta.leaving == SPW_KERNEL_LEFT_NOT)
		spwd_work<Body, Writes>(ring, &cta, slot, unit, threadIdx.x >> 5, workers);
	spwd_unit_save(&ring.unit[unit], &cta, ring.unit_cnt);
}

/* ---- host side: through the CUDA runtime that this file is compiled with ---- */

template <class Body, bool Writes> struct spwd_launch {
	static int info_load(uint32_t threads, struct spw_kernel_info *info_out)
	{
		struct cudaFuncAttributes attr, batch_attr;
		int device, sms, per_sm;
		cudaError_t rc;

		if ((rc = cudaFuncGetAttributes(&attr, spwd_persistent<Body, Writes>)) !=
			    cudaSuccess ||
		    (rc = cudaFuncGetAttributes(&batch_attr, spwd_batch<Body, Writes>)) !=
			    cudaSuccess ||
		    (rc = cudaGetDevice(&device)) != cudaSuccess ||
		    (rc = cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device)) !=
			    cudaSuccess ||
		    (rc = cudaOccupancyMaxActiveBlocksPerMultiprocessor(
			     &per_sm, spwd_persistent<Body, Writes>, (int)threads, 0)) !=
			    cudaSuccess)
			return (int)rc;
		info_out->cta_max = (uint32_t)(per_sm * sms);
		info_out->threads_max =
			(uint32_t)SPW_MIN(attr.maxThreadsPerBlock, batch_attr.maxThreadsPerBlock);
		info_out->regs = (uint32_t)SPW_MAX(attr.numRegs, batch_attr.numRegs);
		info_out->local_bytes =
			(uint32_t)SPW_MAX(attr.localSizeBytes, batch_attr.localSizeBytes);
		return 0;
	}

	static int persistent_launch(const struct spw_kernel_ring *ring, uint32_t threads,
				     void *stream)
	{
		spwd_persistent<Body, Writes>
			<<<ring->unit_cnt, threads, 0, (cudaStream_t)stream>>>(*ring);
		return (int)cudaGetLastError();
	}

	static int batch_launch(const struct spw_kernel_ring *ring, uint32_t unit, uint32_t threads,
				void *stream)
	{
		spwd_batch<Body, Writes><<<1, threads, 0, (cudaStream_t)stream>>>(*ring, unit);
		return (int)cudaGetLastError();
	}

	static const char *error_text(int rc) { return cudaGetErrorString((cudaError_t)rc); }
};

#define SPWD_HANDLER_LAUNCH_TABLE(name, flag_bits)                                             \
	{                                                                                      \
		spwd_launch<struct spwd_fn_##name,                                             \
			    ((flag_bits)&SPW_HANDLER_WRITES) != 0>::info_load,                 \
			spwd_launch<struct spwd_fn_##name,                                     \
				    ((flag_bits)&SPW_HANDLER_WRITES) != 0>::persistent_launch, \
			spwd_launch<struct spwd_fn_##name,                                     \
				    ((flag_bits)&SPW_HANDLER_WRITES) != 0>::batch_launch,      \
			spwd_launch<struct spwd_fn_##name,                                     \
				    ((flag_bits)&SPW_HANDLER_WRITES) != 0>::error_text,        \
	}

#define SPWD_HANDLER_FUNCTOR(name)                                             \
	struct spwd_fn_##name {                                                \
		static __device__ __forceinline__ struct spw_result run(       \
			const struct spw_frame *frame, struct spw_lanes lanes) \
		{                                                              \
			return spw_body_##name(frame, lanes);                  \
		}                                                              \
	};

#define SPWD_HANDLER_LAUNCHERS(name, flag_bits)                \
	SPWD_HANDLER_FUNCTOR(name)                             \
	static const struct spw_handler_cuda spw_cuda_##name = \
		SPWD_HANDLER_LAUNCH_TABLE(name, flag_bits);

#endif
