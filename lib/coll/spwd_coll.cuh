/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Collectives inside a kernel of your own; spw_coll_launch is the same in a kernel of ours. Any
 * number of calls between begin and end:
 *
 *   __global__ void step(const __grid_constant__ struct spw_coll_dev dev, float *x, uint64_t n)
 *   {
 *           __shared__ struct spwd_coll coll;
 *
 *           spwd_coll_begin(&coll, dev, blockIdx.x, gridDim.x);
 *           ...                                      x is this rank's contribution
 *           if (!spwd_coll_all_reduce<SPW_COLL_F32, SPW_COLL_SUM>(&coll, dev, x, x, n))
 *                   ...                              the group has ended: spw_coll_error
 *           spwd_coll_end(&coll, dev);
 *   }
 *
 * CTAs 0 .. cta_cnt - 1 take part, all threads of each, in every call alike; 32 or more threads
 * each. They must be able to run at the same time: up to one for each multiprocessor. A call is no
 * barrier between CTAs: each returns when its own share of the output is written, and what one CTA
 * wrote into `in` is the share that this CTA stages (cells of 16 bytes, dealt out in turn); order
 * the CTAs yourself (cooperative groups) where another CTA produced it. One kernel of a group runs
 * at a time.
 *
 * A round as the CTAs see it:
 *
 *   CTA 0    stage ─┐                   ┌ poll flags ─┬ read heads, a cell ─ judge ─┬ write, rest
 *   CTA 1    stage ─┼─ last one: post ─►│  (relay)    ├ read a cell         (relay) ├ write, rest
 *   CTA 2    stage ─┘   (to the proxy)  └ wait        └ read a cell           wait  └ write, rest
 *
 * Only CTA 0 polls host memory: CTAs that read one address of it wait for each other. Each thread
 * has the sum of its first cell when the heads have been judged, which is a trip over PCIe less;
 * nothing is written before that. Every wait ends: by the group's deadline, by a word of the host,
 * or by a connection that ended.
 *
 * Labels: CO1 to CO4 of docs/040-ordering.md.
 */
#ifndef SPWD_COLL_CUH
#define SPWD_COLL_CUH

#include "coll/spw_coll_reduce.h"
#include "exec/spwd_order.cuh"

#define SPW_COLL_HEAD_CELLS (SPW_COLL_HEAD_BYTES / SPW_COLL_CELL)

/* A kernel's place in its group, in shared memory. */
struct spwd_coll {
	uint64_t round;  /* last one that is complete */
	uint64_t failed; /* not 0: every call returns false at once */
	uint32_t cta, cta_cnt;
};

/* ---- begin and end ---- */

/* Thread: all of the CTA. */
SPWD void spwd_coll_begin(struct spwd_coll *c, const struct spw_coll_dev &d, uint32_t cta,
			  uint32_t cta_cnt)
{
	if (threadIdx.x == 0) {
		c->round = spwd_gpu_load_acq(&d.state->round);
		c->failed = spwd_gpu_load_acq(&d.state->failed);
		c->cta = cta;
		c->cta_cnt = cta_cnt;
	}
	__syncthreads();
}

/* The last CTA to end writes the round for the next kernel: none reads the old one any more. */
SPWD void spwd_coll_end(struct spwd_coll *c, const struct spw_coll_dev &d)
{
	__syncthreads();
	if (threadIdx.x == 0 && spwd_gpu_add(&d.state->left, 1) + 1 == c->cta_cnt) {
		spwd_gpu_store_rlx(&d.state->left, 0);
		spwd_gpu_store_rel(&d.state->round, c->round);
	}
}

/* ---- stage ---- */

SPWD void spwd_coll_stage(const struct spwd_coll *c, const struct spw_coll_dev &d,
			  const struct spw_coll_head &head, const void *in, uint64_t count,
			  uint32_t elem_bytes)
{
	const uint32_t slot = spw_coll_slot(head.round), per_cell = SPW_COLL_CELL / elem_bytes;
	const uint64_t step = (uint64_t)c->cta_cnt * blockDim.x;
	struct spw_coll_parts own;
	uint32_t w[4];

	own.at[0] = (const uint8_t *)in;
	own.own = 0;
	own.count = count;
	for (uint64_t cell = (uint64_t)c->cta * blockDim.x + threadIdx.x; cell * per_cell < count;
	     cell += step) {
		spw_coll_cell_load(&own, 0, cell, spw_coll_cell_elems(&own, cell, per_cell),
				   elem_bytes, w);
		spwd_store_16(d.stage[slot] + SPW_COLL_HEAD_BYTES + cell * SPW_COLL_CELL, w);
	}
	if (c->cta == 0 && threadIdx.x == 0)
#pragma unroll
		for (uint32_t i = 0; i < SPW_COLL_HEAD_CELLS; i++)
			spwd_store_16(d.stage[slot] + i * SPW_COLL_CELL,
				      (const uint32_t *)&head + i * 4);
}

/* The last CTA to come posts the round. Each fences for its own stores, which go to host memory,
 * before it adds itself. */
SPWD void spwd_coll_post(const struct spwd_coll *c, const struct spw_coll_dev &d,
			 const struct spw_coll_head &head, uint64_t bytes)
{
	const uint32_t slot = spw_coll_slot(head.round);
	const uint64_t round = head.round & ((1ull << SPW_COLL_ROUND_BITS) - 1);

	__syncthreads();
	if (threadIdx.x)
		return;
	if (c->cta_cnt > 1) { /* else the release alone does it */
		spwd_sys_fence();
		if (spwd_gpu_add(&d.state->arrived[slot], 1) + 1 != c->cta_cnt)
			return;
		spwd_gpu_store_rlx(&d.state->arrived[slot], 0);
	}
	/* [CO1 release, pairs with take_post: staged by all CTAs, and the round before was read] */
	spwd_sys_store_rel(&d.words->post[slot],
			   spw_coll_post_word(round, SPW_COLL_HEAD_BYTES + (uint32_t)bytes));
}

/* ---- wait ---- */

/* Lanes 0 .. 7 of a warp look after a peer each, lane 8 after acked and gone, lane 9 after ended.
 * gone and ended are taken from the turn before: what arrived before them is found in this one.
 * Returns: 0, or the word of the end; to all lanes. */
SPWD uint64_t spwd_coll_poll(const struct spw_coll_dev &d, uint64_t round)
{
	const uint32_t lane = threadIdx.x & 31, slot = spw_coll_slot(round);
	const uint64_t flag = spw_coll_flag(d.session, round), begin = spwd_now_ns();
	const bool is_peer = lane < d.rank_cnt && lane != d.rank;
	const uint64_t *at = is_peer     ? (const uint64_t *)d.window[lane][slot]
			     : lane == 8 ? &d.words->acked
					 : &d.words->ended;
	uint64_t w[4] = {0, 0, 0, 0}, gone = 0, ended = 0;
	bool seen = !is_peer;

	for (;;) {
		/* Flags: acquired from the NIC, as X1 of lib/xfer. [CO2 acquire, pairs with ack]
		 * [CO3 acquire, pairs with lose] */
		if ((is_peer && !seen) || lane == 8 || lane == 9)
			spwd_sys_load_acq2(at, &w[0], &w[1]);
		if (is_peer && !seen && d.rail_cnt > 2) /* another trip to host memory */
			spwd_sys_load_acq2(at + 2, &w[2], &w[3]);
		if (is_peer && !seen)
			seen = spw_coll_flag_is(w, flag);
		if (lane == 8)
			seen = w[0] + 1 >= round;

		const uint32_t left = ~__ballot_sync(0xffffffffu, seen);
		const uint32_t ranks = left & 0xffu;

		if (!left)
			return 0;
		if (ranks & (uint32_t)gone)
			return spw_coll_end_word(round, SPW_COLL_LOST, ranks & (uint32_t)gone);
		if (ended)
			return ended;
		if (__any_sync(0xffffffffu, spwd_now_ns() - begin > d.timeout_ns))
			return spw_coll_end_word(round, SPW_COLL_TIMEOUT, ranks);
		gone = __shfl_sync(0xffffffffu, w[1], 8);
		ended = __shfl_sync(0xffffffffu, w[0], 9);
	}
}

/* The peers' heads: a cell a lane, SPW_COLL_HEAD_CELLS lanes a rank. */
SPWD void spwd_coll_heads_load(const struct spw_coll_dev &d, uint64_t round, uint32_t *w)
{
	const uint32_t lane = threadIdx.x & 31, rank = lane / SPW_COLL_HEAD_CELLS;

	static_assert(SPW_COLL_RANK_MAX * SPW_COLL_HEAD_CELLS <= 32, "a warp loads all heads");
	if (rank < d.rank_cnt && rank != d.rank)
		spwd_load_16(d.window[rank][spw_coll_slot(round)] + SPW_COLL_FLAG_BYTES +
				     lane % SPW_COLL_HEAD_CELLS * SPW_COLL_CELL,
			     w);
}

/* The first lane of each rank judges its head, of which all that counts is in two cells: one copy,
 * which does not change any more. Returns: 0, or the word of the end; to all lanes of the warp. */
SPWD uint64_t spwd_coll_judge(const struct spw_coll_dev &d, const struct spw_coll_head &own,
			      const uint32_t *cell)
{
	const uint32_t lane = threadIdx.x & 31, rank = lane / SPW_COLL_HEAD_CELLS;
	enum spw_coll_status status = SPW_COLL_OK;
	struct spw_coll_head theirs = {};
	uint32_t w[8];

	static_assert(offsetof(struct spw_coll_head, reserved) == sizeof(w), "two cells of a head");
#pragma unroll
	for (uint32_t i = 0; i < 4; i++) {
		w[i] = cell[i];
		w[4 + i] = __shfl_down_sync(0xffffffffu, cell[i], 1);
	}
	memcpy(&theirs, w, sizeof(w));
	if (lane % SPW_COLL_HEAD_CELLS == 0 && rank < d.rank_cnt && rank != d.rank)
		status = spw_coll_head_judge(&own, &theirs, rank);

	const uint32_t breach = __ballot_sync(0xffffffffu, status == SPW_COLL_BREACH);
	const uint32_t differs = __ballot_sync(0xffffffffu, status == SPW_COLL_DIFFERS);
	const uint32_t bad = breach ? breach : differs;

	if (!bad)
		return 0;
	return spw_coll_end_word(own.round, breach ? SPW_COLL_BREACH : SPW_COLL_DIFFERS,
				 1u << (uint32_t)(__ffs((int)bad) - 1) / SPW_COLL_HEAD_CELLS);
}

/* The group has ended: no later kernel waits, the host learns why. */
SPWD void spwd_coll_fail(const struct spw_coll_dev &d, uint64_t end)
{
	spwd_gpu_store_rlx(&d.state->failed, end);
	/* [CO4 release, pairs with coll_ended: this round wrote no output] */
	spwd_sys_store_rel(&d.words->failed, end);
}

/* CTA 0's thread 0 has found that the round has come to this step, or its end. */
SPWD void spwd_coll_relay(struct spwd_coll *c, const struct spw_coll_dev &d, uint64_t round,
			  enum spw_coll_step step, uint64_t end)
{
	if (end)
		spwd_coll_fail(d, end);
	if (c->cta_cnt > 1)
		spwd_gpu_store_rel(&d.state->relay[spw_coll_slot(round)],
				   round << 8 | (end ? SPW_COLL_ENDED : step));
	c->failed = end;
}

/* Waits for what CTA 0 relays; gives up after twice the time of a round. Returns: 0, or the word of
 * the end. */
SPWD uint64_t spwd_coll_relayed(struct spwd_coll *c, const struct spw_coll_dev &d, uint64_t round,
				enum spw_coll_step step)
{
	const uint64_t begin = spwd_now_ns();
	uint64_t end = 0;

	while (!end) {
		const uint64_t word = spwd_gpu_load_acq(&d.state->relay[spw_coll_slot(round)]);

		const uint32_t at = word >> 8 == round ? (uint32_t)word & 0xffu : 0;

		if (at == SPW_COLL_ENDED)
			end = spw_coll_end_word(round, SPW_COLL_ABORTED, 0);
		else if (at >= step)
			break;
		else if (spwd_now_ns() - begin > 2 * d.timeout_ns) {
			end = spw_coll_end_word(round, SPW_COLL_TIMEOUT, 0);
			spwd_coll_fail(d, end);
		}
	}
	c->failed = end;
	return end;
}

/* All contributions are there. Returns: false: the group has ended. */
SPWD bool spwd_coll_arrived(struct spwd_coll *c, const struct spw_coll_dev &d, uint64_t round)
{
	uint64_t end = 0;

	if (c->cta == 0 && threadIdx.x < 32) {
		end = spwd_coll_poll(d, round);
		if (threadIdx.x == 0)
			spwd_coll_relay(c, d, round, SPW_COLL_ARRIVED, end);
	} else if (c->cta && threadIdx.x == 0) {
		end = spwd_coll_relayed(c, d, round, SPW_COLL_ARRIVED);
	}
	if (threadIdx.x == 0)
		c->round = round;
	return !__syncthreads_or(end != 0);
}

/* They are what this rank asks for, too. heads: spwd_coll_heads_load, in CTA 0's first warp.
 * Returns: false: the group has ended, and nothing may be written. */
SPWD bool spwd_coll_judged(struct spwd_coll *c, const struct spw_coll_dev &d,
			   const struct spw_coll_head &own, const uint32_t *heads)
{
	uint64_t end = 0;

	if (c->cta == 0 && threadIdx.x < 32) {
		end = spwd_coll_judge(d, own, heads);
		if (threadIdx.x == 0)
			spwd_coll_relay(c, d, own.round, SPW_COLL_JUDGED, end);
	} else if (c->cta && threadIdx.x == 0) {
		end = spwd_coll_relayed(c, d, own.round, SPW_COLL_JUDGED);
	}
	return !__syncthreads_or(end != 0);
}

/* ---- calls ---- */

/* Stages, posts, waits, and begins to read the heads. Returns: false: the group has ended. */
SPWD bool spwd_coll_round(struct spwd_coll *c, const struct spw_coll_dev &d,
			  struct spw_coll_head *head, const void *in, uint64_t count,
			  uint32_t *heads_out)
{
	const uint32_t elem_bytes = spw_coll_type_bytes(head->type);

	__syncthreads(); /* the call before has read the words that this one writes */
	if (c->failed)
		return false;
	head->session = d.session;
	head->round = c->round + 1;
	head->version = SPW_COLL_VERSION;
	head->rank = (uint8_t)d.rank;
	spwd_coll_stage(c, d, *head, in, count, elem_bytes);
	spwd_coll_post(c, d, *head, count * elem_bytes);
	if (!spwd_coll_arrived(c, d, head->round))
		return false;
	if (c->cta == 0 && threadIdx.x < 32)
		spwd_coll_heads_load(d, head->round, heads_out);
	return true;
}

SPWD struct spw_coll_parts spwd_coll_parts(const struct spw_coll_dev &d, const void *in,
					   uint64_t count, uint64_t round)
{
	struct spw_coll_parts parts;

	parts.cnt = d.rank_cnt;
	parts.own = d.rank;
	parts.count = count;
#pragma unroll
	for (uint32_t i = 0; i < SPW_COLL_RANK_MAX; i++)
		parts.at[i] = i == d.rank ? (const uint8_t *)in
					  : d.window[i][spw_coll_slot(round)] +
						    SPW_COLL_FLAG_BYTES + SPW_COLL_HEAD_BYTES;
	return parts;
}

/* Purpose: spw_coll_call of kind all-reduce.
 * Shape: count * element <= d.bytes_max, or the call fails; in and out are aligned to elements, and
 *   equal or apart. whole: elements of the call of which this is a piece; 0: it is all of it.
 * Returns: false: the group has ended, and out is as it was.
 * Thread: all of every CTA that takes part. */
template <enum spw_coll_type TYPE, enum spw_coll_op OP>
SPWD bool spwd_coll_all_reduce(struct spwd_coll *c, const struct spw_coll_dev &d, void *out,
			       const void *in, uint64_t count, uint64_t whole = 0)
{
	struct spw_coll_head head = {};
	float acc[SPW_COLL_CELL / 2] = {0};
	uint32_t heads[4] = {0, 0, 0, 0};

	head.kind = SPW_COLL_ALL_REDUCE;
	head.type = TYPE;
	head.op = OP;
	head.count = whole ? whole : count;
	if (count > d.bytes_max / spw_coll_type_bytes(TYPE) ||
	    !spwd_coll_round(c, d, &head, in, count, heads))
		return false;

	const struct spw_coll_parts parts = spwd_coll_parts(d, in, count, head.round);
	const uint64_t first = (uint64_t)c->cta * blockDim.x + threadIdx.x;
	const uint64_t step = (uint64_t)c->cta_cnt * blockDim.x;

	spw_coll_cell_reduce(&parts, first, TYPE, OP, acc);
	if (!spwd_coll_judged(c, d, head, heads))
		return false;
	spw_coll_cell_store(&parts, out, first, TYPE, acc);
	spw_coll_reduce(&parts, out, TYPE, OP, first + step, step);
	return true;
}

/* Purpose: spw_coll_call of kind all-gather; out has room for rank_cnt * count elements. The ranks'
 *   places in it are `whole` elements apart.
 * Shape, Returns: as spwd_coll_all_reduce; in may be this rank's place in out.
 * Thread: all of every CTA that takes part. */
template <enum spw_coll_type TYPE>
SPWD bool spwd_coll_all_gather(struct spwd_coll *c, const struct spw_coll_dev &d, void *out,
			       const void *in, uint64_t count, uint64_t whole = 0)
{
	const uint32_t size = TYPE == SPW_COLL_F32 ? 4 : 2, per_cell = SPW_COLL_CELL / size;
	struct spw_coll_head head = {};
	uint32_t heads[4] = {0, 0, 0, 0};

	head.kind = SPW_COLL_ALL_GATHER;
	head.type = TYPE;
	head.count = whole ? whole : count;
	if (count > d.bytes_max / size || !spwd_coll_round(c, d, &head, in, count, heads) ||
	    !spwd_coll_judged(c, d, head, heads))
		return false;

	const struct spw_coll_parts parts = spwd_coll_parts(d, in, count, head.round);
	const uint64_t cells = (count + per_cell - 1) / per_cell;

#pragma unroll
	for (uint32_t rank = 0; rank < SPW_COLL_RANK_MAX; rank++)
		for (uint64_t cell = (uint64_t)c->cta * blockDim.x + threadIdx.x;
		     rank < d.rank_cnt && cell < cells; cell += (uint64_t)c->cta_cnt * blockDim.x) {
			const uint32_t elems = spw_coll_cell_elems(&parts, cell, per_cell);
			uint32_t w[4];

			spw_coll_cell_load(&parts, rank, cell, elems, size, w);
			spw_coll_cell_write((uint8_t *)out +
						    (rank * head.count + cell * per_cell) * size,
					    elems, size, w);
		}
	return true;
}

#endif
