/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The cpu executor: the owner's thread does in spw_coll_test what a kernel does on a GPU
 * (spwd_coll.cuh), with the same words, the same heads and the same arithmetic.
 *
 *   start   head and data staged ─► post (CO1) ─► the proxy puts them to every peer
 *   test    flags of all peers (X1), puts of the round before acknowledged (CO2)?
 *             yes    heads compared ─► reduced, or gathered, into the caller's memory ─► done
 *             no     a peer is gone (CO3), the group has ended, or it is late? ─► the group ends
 *                    none of these: not done, called again
 *
 * Also here: what calls of both executors check (coll_check_call). Thread: the owner's, except the
 * proxy's turns with SPW_COLL_THREAD.
 */
#include <errno.h>
#include <sched.h>
#include <string.h>

#include "base/spw_err.h"
#include "base/spw_monotonic.h"
#include "base/spw_order.h"
#include "coll/coll.h"
#include "coll/spw_coll_reduce.h"

#define IDLE_SPINS 256u
#define COUNT_MAX  (1ull << 48) /* bytes of all ranks fit into 64 bits */

/* ---- begin ---- */

/* Whether the two pieces of memory have no byte in common. */
static bool parts_differ(const uint8_t *a, uint64_t a_bytes, const uint8_t *b, uint64_t b_bytes)
{
	return a + a_bytes <= b || b + b_bytes <= a;
}

/* The result is written while contributions are read, so in and out are the same memory or do not
 * touch. */
static int check_memory(const struct spw_coll *c, const struct spw_coll_call *call, uint32_t size)
{
	const uint64_t bytes = call->count * size;
	const bool gather = call->kind == SPW_COLL_ALL_GATHER;
	const uint8_t *in = call->in, *out = call->out;

	if (!bytes)
		return 0;
	if (!in || !out || ((uintptr_t)in | (uintptr_t)out) % size)
		return spw_err(EINVAL, "in %p, out %p: addresses of elements of %u bytes", call->in,
			       call->out, size);
	if (in == out + (gather ? c->rank * bytes : 0))
		return 0;
	if (!parts_differ(in, bytes, out, gather ? c->rank_cnt * bytes : bytes))
		return spw_err(EINVAL, "in overlaps out: it may be %s, or lie outside",
			       gather ? "this rank's place in it" : "the same");
	return 0;
}

/* Errors: that of a group that has ended; -EINVAL, -EMSGSIZE: this call alone, and the group goes
 * on. */
int coll_check_call(struct spw_coll *c, const struct spw_coll_call *call)
{
	const uint32_t size = spw_coll_type_bytes(call->type);
	int rc = coll_check_process(c);

	rc = rc ? rc : spw_coll_error(c);
	if (rc)
		return rc;
	if (!size || (uint32_t)call->kind > SPW_COLL_ALL_GATHER ||
	    (uint32_t)call->op > SPW_COLL_MAX)
		return spw_err(EINVAL, "kind %d, type %d, op %d: no such call", (int)call->kind,
			       (int)call->type, (int)call->op);
	if (call->count > COUNT_MAX)
		return spw_err(EMSGSIZE, "%llu elements: no memory has room for them",
			       (unsigned long long)call->count);
	return check_memory(c, call, size);
}

bool coll_piece_at(const struct spw_coll *c, const struct spw_coll_call *call, uint64_t idx,
		   struct spw_coll_call *piece_out)
{
	const uint32_t size = spw_coll_type_bytes(call->type);
	const uint64_t most = c->conf.bytes_max / size, first = idx * most;

	if (idx && first >= call->count)
		return false;
	*piece_out = *call;
	piece_out->count = SPW_MIN(call->count - first, most);
	piece_out->in = (const uint8_t *)call->in + first * size;
	piece_out->out = (uint8_t *)call->out + first * size;
	return true;
}

/* op is 0 for a gather, so that two ranks that differ in a field without meaning still agree. */
struct spw_coll_head coll_head_of(const struct spw_coll *c, const struct spw_coll_call *call,
				  uint64_t whole, uint64_t round)
{
	const bool reduce = call->kind == SPW_COLL_ALL_REDUCE;

	return (struct spw_coll_head){.session = c->session,
				      .round = round,
				      .count = whole,
				      .version = SPW_COLL_VERSION,
				      .rank = (uint8_t)c->rank,
				      .kind = (uint8_t)call->kind,
				      .type = (uint8_t)call->type,
				      .op = reduce ? (uint8_t)call->op : 0};
}

static int cpu_check(struct spw_coll *coll, const struct spw_coll_call *call)
{
	if (coll->conf.exec != SPW_COLL_CPU)
		return spw_err(EINVAL, "this group has kernels: spw_coll_launch");
	if (coll->cpu.busy)
		return spw_err(EBUSY, "a call is under way: test it until it is done");
	return coll_check_call(coll, call);
}

/* `in` is copied to staging, from where the NIC reads. It is read once more when the round is
 * complete, as this rank's own contribution. */
static void cpu_begin(struct spw_coll *coll, const struct spw_coll_call *call, uint64_t whole)
{
	const uint64_t round = coll->cpu.round + 1;
	const uint32_t bytes = (uint32_t)call->count * spw_coll_type_bytes(call->type);
	uint8_t *stage = coll->stage[spw_coll_slot(round)];

	coll->cpu.call = *call;
	coll->cpu.head = coll_head_of(coll, call, whole, round);
	coll->cpu.round = round;
	coll->cpu.busy = true;
	coll->cpu.wait = coll_wait_of(spw_monotonic_ns(), coll->timeout_ns);
	memcpy(stage, &coll->cpu.head, SPW_COLL_HEAD_BYTES);
	if (bytes)
		memcpy(stage + SPW_COLL_HEAD_BYTES, call->in, bytes);
	/* [CO1 release, pairs with take_post: staged, and the round before was read] */
	spw_gpu_store_rel64(&coll->words->post[spw_coll_slot(round)],
			    spw_coll_post_word(round & ((1ull << SPW_COLL_ROUND_BITS) - 1),
					       SPW_COLL_HEAD_BYTES + bytes));
	spw_coll_progress(coll);
}

int spw_coll_start(struct spw_coll *coll, const struct spw_coll_call *call)
{
	int rc = cpu_check(coll, call);

	if (!rc && call->count > coll->conf.bytes_max / spw_coll_type_bytes(call->type))
		rc = spw_err(EMSGSIZE,
			     "%llu elements, and this group was opened for %u bytes: "
			     "spw_coll_run takes more",
			     (unsigned long long)call->count, coll->conf.bytes_max);
	if (!rc)
		cpu_begin(coll, call, call->count);
	return rc;
}

/* ---- wait ---- */

/* Ranks whose contribution is not there. */
static uint32_t cpu_missing(const struct spw_coll *c)
{
	const uint64_t flag = spw_coll_flag(c->session, c->cpu.round);
	const uint32_t slot = spw_coll_slot(c->cpu.round);
	uint32_t mask = 0;

	for (uint32_t i = 0; i < c->rank_cnt; i++)
		if (i != c->rank &&
		    !spw_xfer_flag_seen((const uint64_t *)(const void *)c->peer[i].mine[slot],
					flag))
			mask |= 1u << i;
	return mask;
}

/* Compares the heads of all that are there. Returns: 0, or the word of the end. */
static uint64_t cpu_judge(const struct spw_coll *c)
{
	const uint32_t slot = spw_coll_slot(c->cpu.round);

	for (uint32_t i = 0; i < c->rank_cnt; i++) {
		struct spw_coll_head theirs;
		enum spw_coll_status status;

		if (i == c->rank)
			continue;
		memcpy(&theirs, c->peer[i].mine[slot] + SPW_COLL_FLAG_BYTES, sizeof(theirs));
		status = spw_coll_head_judge(&c->cpu.head, &theirs, i);
		if (status != SPW_COLL_OK)
			return spw_coll_end_word(c->cpu.round, status, 1u << i);
	}
	return 0;
}

/* Whether the round is complete. late: nobody is waited for any longer. *end_out: 0, or why it
 * never will be. gone is read before the flags: what a rank sent before its end is found. */
static bool cpu_poll(const struct spw_coll *c, bool late, uint64_t *end_out)
{
	/* [CO3 acquire, pairs with lose] */
	const uint32_t gone = (uint32_t)spw_gpu_load_acq64(&c->words->gone);
	const uint64_t ended = coll_ended(c);
	const uint32_t left = cpu_missing(c);
	/* [CO2 acquire, pairs with ack: staging of the next round is free] */
	const bool acked = spw_gpu_load_acq64(&c->words->acked) + 1 >= c->cpu.round;

	*end_out = 0;
	if (!left && acked)
		return true;
	if (left & gone)
		*end_out = spw_coll_end_word(c->cpu.round, SPW_COLL_LOST, left & gone);
	else if (ended)
		*end_out = ended;
	else if (late)
		*end_out = spw_coll_end_word(c->cpu.round, SPW_COLL_TIMEOUT, left);
	return false;
}

/* ---- finish ---- */

/* Type and op are constants of each call, so the compiler makes a loop for each of them. */
static void cpu_reduce(const struct spw_coll *c, const struct spw_coll_parts *parts)
{
	const struct spw_coll_call *call = &c->cpu.call;
	const bool max = call->op == SPW_COLL_MAX;

#define REDUCE(type)                                                       \
	(max ? spw_coll_reduce(parts, call->out, type, SPW_COLL_MAX, 0, 1) \
	     : spw_coll_reduce(parts, call->out, type, SPW_COLL_SUM, 0, 1))
	switch (call->type) {
	case SPW_COLL_F32:
		REDUCE(SPW_COLL_F32);
		break;
	case SPW_COLL_BF16:
		REDUCE(SPW_COLL_BF16);
		break;
	case SPW_COLL_F16:
		REDUCE(SPW_COLL_F16);
		break;
	}
#undef REDUCE
}

/* memmove: with a gather in place a rank's own part lies already where it goes. */
static void cpu_finish(struct spw_coll *c)
{
	const struct spw_coll_call *call = &c->cpu.call;
	const uint32_t size = spw_coll_type_bytes(call->type), slot = spw_coll_slot(c->cpu.round);
	const uint64_t bytes = call->count * size;
	struct spw_coll_parts parts = {.cnt = c->rank_cnt, .own = c->rank, .count = call->count};

	if (!bytes)
		return;
	for (uint32_t i = 0; i < c->rank_cnt; i++)
		parts.at[i] = i == c->rank ? call->in
					   : c->peer[i].mine[slot] + SPW_COLL_FLAG_BYTES +
						     SPW_COLL_HEAD_BYTES;
	if (call->kind == SPW_COLL_ALL_REDUCE) {
		cpu_reduce(c, &parts);
		return;
	}
	for (uint32_t i = 0; i < c->rank_cnt; i++)
		memmove((uint8_t *)call->out + i * c->cpu.head.count * size, parts.at[i], bytes);
}

/* After the wait is over there is one more look at the flags (wait.h). */
int spw_coll_test(struct spw_coll *coll, bool *done_out)
{
	uint64_t end;
	int rc = coll_check_process(coll);
	bool late;

	*done_out = !rc && !coll->cpu.busy;
	if (rc || !coll->cpu.busy)
		return rc;
	late = coll_wait_is_over(&coll->cpu.wait, spw_monotonic_ns());
	spw_coll_progress(coll);
	if (cpu_poll(coll, late, &end))
		end = cpu_judge(coll);
	else if (!end)
		return 0;
	coll->cpu.busy = false;
	*done_out = true;
	if (!end) {
		cpu_finish(coll);
		return 0;
	}
	coll_end(coll, end);
	spw_coll_progress(coll);
	return spw_coll_error(coll);
}

/* Yields its core after IDLE_SPINS: ranks of one machine may share cores. */
static int cpu_finish_round(struct spw_coll *coll)
{
	uint32_t idle = 0;
	bool done = false;
	int rc = 0;

	while (!rc && !done) {
		rc = spw_coll_test(coll, &done);
		spw_cpu_relax();
		if (++idle > IDLE_SPINS)
			sched_yield();
	}
	return rc;
}

int spw_coll_run(struct spw_coll *coll, const struct spw_coll_call *call)
{
	int rc = cpu_check(coll, call);
	struct spw_coll_call piece;
	uint64_t idx = 0;

	while (!rc && coll_piece_at(coll, call, idx++, &piece)) {
		cpu_begin(coll, &piece, call->count);
		rc = cpu_finish_round(coll);
	}
	return rc;
}
