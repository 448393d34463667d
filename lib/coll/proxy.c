/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The proxy: it turns a post of the executor into one put for each peer, and nothing else happens
 * on the CPU while a kernel reduces. It has the endpoint, so it also watches the connections.
 *
 *   executor   stage ── post r ──┐                              ┌─ staging of r is free
 *   proxy                        └─ put, put, put ── test ── acked = r
 *
 * Its thread spins while there is something to do, yields after IDLE_SPINS empty turns, and naps
 * when the group was idle for IDLE_NS: then the first call of a group pays up to NAP_NS.
 *
 * Called by coll.c (close), by the executor's owner with SPW_COLL_CALLER (spw_coll_progress), or by
 * its own thread: one of them at a time has the endpoint. Turns make no system call while data
 * moves, apart from the house of lib/xfer once a millisecond.
 */
#include <sched.h>
#include <string.h>
#include <time.h>

#include "base/spw_err.h"
#include "base/spw_monotonic.h"
#include "base/spw_order.h"
#include "coll/coll.h"

#define IDLE_SPINS 1024u
#define IDLE_NS    100000000u
#define NAP_NS     50000u
#define ROUND_MASK ((1ull << SPW_COLL_ROUND_BITS) - 1)
#define POST_BYTES ((1u << 24) - 1)

/* ---- posts ---- */

/* No put of this slot is under way: NICs have read its staging. */
static bool slot_is_free(const struct spw_coll *c, uint32_t slot)
{
	for (uint32_t i = 0; i < c->rank_cnt; i++)
		if (c->peer[i].req[slot])
			return false;
	return true;
}

static void proxy_lose(struct spw_coll *c, uint32_t rank)
{
	struct coll_peer *p = &c->peer[rank];

	if (p->gone)
		return;
	p->gone = true;
	/* [CO3 release, pairs with the executor's acquire: it polls the flags once more] */
	spw_gpu_store_rel64(&c->words->gone, c->words->gone | 1ull << rank);
}

/* What cannot be put to a peer counts as that peer's end: the executor then names it. */
static void proxy_put(struct spw_coll *c, uint32_t rank, uint32_t window,
		      const struct spw_xfer_access *a)
{
	struct coll_peer *p = &c->peer[rank];
	struct spw_xfer_access access = *a;

	if (p->gone || p->req[window])
		return;
	access.window = p->window[window];
	access.mem = c->mem;
	if (spw_xfer_put(p->conn, &access, &p->req[window]) < 0)
		proxy_lose(c, rank);
}

/* Peers are served from the next rank on, so that not all ranks put to rank 0 first. */
static bool take_post(struct spw_coll *c)
{
	const uint64_t round = c->proxy.next;
	const uint32_t slot = spw_coll_slot(round);
	/* [CO1 acquire, pairs with the executor's release] */
	const uint64_t word = spw_gpu_load_acq64(&c->words->post[slot]);
	const uint32_t bytes = (uint32_t)word & POST_BYTES;

	if (word >> 24 != (round & ROUND_MASK) || !slot_is_free(c, slot))
		return false;
	c->proxy.next = round + 1;
	if (!spw_in_range(bytes, SPW_COLL_HEAD_BYTES, SPW_COLL_HEAD_BYTES + c->slot_bytes)) {
		coll_end(c, spw_coll_end_word(round, SPW_COLL_BREACH, 1u << c->rank));
		return true;
	}
	for (uint32_t i = 1; i < c->rank_cnt; i++)
		proxy_put(c, (c->rank + i) % c->rank_cnt, slot,
			  &(struct spw_xfer_access){.offset = SPW_COLL_FLAG_BYTES,
						    .addr = c->stage[slot],
						    .bytes = bytes,
						    .flag = spw_coll_flag(c->session, round)});
	return true;
}

/* ---- puts ---- */

/* A put that failed is done, too: its rank is lost, and its slot must not stay occupied. */
static uint32_t test_puts(struct spw_coll *c)
{
	uint32_t done_cnt = 0;

	for (uint32_t i = 0; i < c->rank_cnt; i++)
		for (uint32_t w = 0; w < COLL_WINDOW_CNT; w++) {
			struct coll_peer *p = &c->peer[i];
			bool done;

			if (!p->req[w])
				continue;
			if (spw_xfer_test(p->req[w], &done, NULL) < 0)
				proxy_lose(c, i);
			if (!done)
				continue;
			p->req[w] = NULL;
			done_cnt++;
		}
	return done_cnt;
}

/* In order: a round is acknowledged only with all rounds before it. */
static void proxy_ack(struct spw_coll *c)
{
	const uint64_t before = c->proxy.acked;

	while (c->proxy.acked + 1 < c->proxy.next &&
	       slot_is_free(c, spw_coll_slot(c->proxy.acked + 1)))
		c->proxy.acked++;
	if (c->proxy.acked != before)
		/* [CO2 release, pairs with the executor's acquire: the NIC has read the bytes] */
		spw_gpu_store_rel64(&c->words->acked, c->proxy.acked);
}

bool coll_puts_open(const struct spw_coll *c, uint32_t ranks)
{
	for (uint32_t i = 0; i < c->rank_cnt; i++)
		for (uint32_t w = 0; w < COLL_WINDOW_CNT; w++)
			if (ranks >> i & 1u && c->peer[i].req[w])
				return true;
	return false;
}

/* ---- the end ---- */

/* A note arrives before the connection of its writer ends, so it is looked for after that. */
static void proxy_watch(struct spw_coll *c)
{
	const uint64_t flag = spw_coll_flag(c->session, COLL_NO_ROUND);

	for (uint32_t i = 0; i < c->rank_cnt; i++) {
		struct coll_peer *p = &c->peer[i];
		const bool gone = i != c->rank && spw_xfer_conn_error(p->conn);

		if (i == c->rank)
			continue;
		if (spw_xfer_flag_seen((const uint64_t *)(const void *)p->mine[COLL_NOTE], flag))
			coll_end(c, spw_coll_end_word(0, SPW_COLL_NOTICE, 1u << i));
		if (gone)
			proxy_lose(c, i);
	}
}

/* Informs the peers, once. */
static void proxy_note(struct spw_coll *c)
{
	const uint64_t end = coll_ended(c);

	if (!end || c->proxy.noted)
		return;
	c->proxy.noted = true;
	coll_end(c, end);
	*c->note = coll_note_of(c, coll_ended(c));
	for (uint32_t i = 0; i < c->rank_cnt; i++)
		if (i != c->rank)
			proxy_put(c, i, COLL_NOTE,
				  &(struct spw_xfer_access){
					  .offset = SPW_COLL_FLAG_BYTES,
					  .addr = c->note,
					  .bytes = sizeof(*c->note),
					  .flag = spw_coll_flag(c->session, COLL_NO_ROUND)});
}

uint32_t coll_turn(struct spw_coll *c)
{
	uint32_t n = take_post(c);

	n += spw_xfer_progress(c->x);
	n += test_puts(c);
	proxy_ack(c);
	proxy_watch(c);
	proxy_note(c);
	return n;
}

uint32_t spw_coll_progress(struct spw_coll *coll)
{
	return coll->thread_runs ? 0 : coll_turn(coll);
}

/* ---- thread ---- */

static void *proxy_main(void *arg)
{
	const struct timespec nap = {.tv_nsec = NAP_NS};
	struct spw_coll *c = arg;
	uint64_t idle_since = 0;
	uint32_t idle = 0;

	/* A hint: what the owner does after it has joined this thread comes after all of it. */
	while (!spw_thr_load_rlx(&c->stop)) {
		if (coll_turn(c)) {
			idle = 0;
			continue;
		}
		spw_cpu_relax();
		if (++idle < IDLE_SPINS)
			continue;
		if (idle == IDLE_SPINS)
			idle_since = spw_monotonic_ns();
		if (spw_monotonic_ns() - idle_since < IDLE_NS)
			sched_yield();
		else
			nanosleep(&nap, NULL);
	}
	return NULL;
}

/* From here on spw_coll_progress does nothing: the thread has the endpoint. */
int coll_thread_start(struct spw_coll *c)
{
	int rc = pthread_create(&c->thread, NULL, proxy_main, c);

	if (rc)
		return spw_err(rc, "the proxy's thread: %s", strerror(rc));
	pthread_setname_np(c->thread, "spw-coll");
	c->thread_runs = true;
	return 0;
}

/* The thread ends after its turn; puts under way stay, and the caller goes on with them. */
void coll_thread_stop(struct spw_coll *c)
{
	if (!c->thread_runs)
		return;
	spw_thr_store_rlx(&c->stop, 1u);
	pthread_join(c->thread, NULL);
	c->thread_runs = false;
}
