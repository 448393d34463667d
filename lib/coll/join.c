/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * How ranks become a group. One exchange brings every rank the numbers and handles of all others;
 * then each pair connects, the lower rank to the higher one's listener. A listener is for one rank:
 * its handle holds a key that only the exchange carries, so a connection proves whose it is.
 *
 *   exchange ─► connect, accept ─► expose slot 0, slot 1, note ─► the peer's are known
 *
 * Called by spw_coll_open. Listeners open before the exchange, so no connection comes too early.
 * What the exchange brought is checked before anything connects: ranks that were started with
 * different numbers, sizes or versions end with a message that names them.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "base/spw_monotonic.h"
#include "base/spw_text.h"
#include "coll/coll.h"

#define MAGIC  0x434c4f43u /* "COLC"; another value: another byte order */
#define NAP_NS 20000u

/* What a rank reports to the others. It is exchanged as it lies in memory: magic finds a rank of
 * another byte order. */
struct hello {
	uint32_t magic, version;
	uint32_t rank, rank_cnt;
	uint32_t bytes_max, reserved;
	uint64_t nonce;
	char name[COLL_NAME_BYTES];
	struct spw_xfer_handle handle[SPW_COLL_RANK_MAX]; /* for lower ranks */
};

static int listen_for_lower(struct spw_coll *c, struct hello *mine)
{
	int rc = 0;

	for (uint32_t i = 0; i < c->rank && !rc; i++)
		rc = spw_xfer_listen(c->x, &mine->handle[i], &c->peer[i].listener);
	return rc;
}

/* The name is for messages only: host and process show a user where to look. */
static int hello_make(struct spw_coll *c, struct hello *mine)
{
	char host[32] = "?";

	*mine = (struct hello){.magic = MAGIC,
			       .version = SPW_COLL_VERSION,
			       .rank = c->rank,
			       .rank_cnt = c->rank_cnt,
			       .bytes_max = c->conf.bytes_max};
	if (getrandom(&mine->nonce, sizeof(mine->nonce), 0) != sizeof(mine->nonce))
		return spw_err(EIO, "no random number for the session");
	gethostname(host, sizeof(host) - 1);
	snprintf(mine->name, sizeof(mine->name), "%s, pid %d", host, (int)getpid());
	return listen_for_lower(c, mine);
}

/* The exchange may be the caller's own, so what it brought in place of a rank may be another's. */
static int hello_check(const struct spw_coll *c, const struct hello *h, uint32_t rank)
{
	if (h->magic != MAGIC || h->version != SPW_COLL_VERSION)
		return spw_err(EPROTO, "rank %u runs another version of this library", rank);
	if (h->rank != rank || h->rank_cnt != c->rank_cnt)
		return spw_err(
			EINVAL,
			"in place of rank %u of %u the exchange brought rank %u of %u: number "
			"the ranks alike",
			rank, c->rank_cnt, h->rank, h->rank_cnt);
	if (h->bytes_max != c->conf.bytes_max)
		return spw_err(EINVAL, "rank %u has bytes_max %u, this one %u: set both alike",
			       rank, h->bytes_max, c->conf.bytes_max);
	return 0;
}

/* Finalizer of splitmix64 (Steele, Lea, Flood 2014): all nonces take part in all bits. */
static uint64_t join_mix(uint64_t z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

/* All ranks mix the nonces in the order of ranks, and so get the same session. */
static int join_exchange(struct spw_coll *c)
{
	struct hello mine, all[SPW_COLL_RANK_MAX];
	int rc = hello_make(c, &mine);

	if (!rc) {
		memset(all, 0, sizeof(all));
		rc = c->conf.exchange(c->conf.exchange_arg, &mine, all, sizeof(mine));
		rc = rc ? spw_err_ctx(rc, "exchange") : 0;
	}
	for (uint32_t i = 0; i < c->rank_cnt && !rc; i++) {
		rc = hello_check(c, &all[i], i);
		c->session = join_mix(c->session ^ all[i].nonce) + i;
		c->peer[i].handle = all[i].handle[c->rank];
		all[i].name[COLL_NAME_BYTES - 1] = '\0';
		spw_text_show(all[i].name, c->peer[i].name, COLL_NAME_BYTES);
	}
	return rc;
}

/* ---- connections ---- */

/* In the order of window numbers, which is how the peer finds them. */
static int join_expose(struct spw_coll *c, struct coll_peer *p)
{
	const uint64_t bytes = SPW_COLL_FLAG_BYTES + SPW_COLL_HEAD_BYTES + c->slot_bytes;
	int rc = 0;

	for (uint32_t w = 0; w < COLL_WINDOW_CNT && !rc; w++)
		rc = spw_xfer_window_expose(p->conn, c->mem, p->mine[w],
					    w == COLL_NOTE ? COLL_NOTE_BYTES : bytes);
	return rc;
}

/* Called until it is not -EAGAIN; a listener has served its purpose with one connection. */
static int join_connect_turn(struct spw_coll *c, uint32_t rank)
{
	struct coll_peer *p = &c->peer[rank];
	int rc;

	if (rank > c->rank)
		return spw_xfer_connect(c->x, &p->handle, &p->conn);
	rc = spw_xfer_accept(p->listener, &p->conn);
	if (!rc) {
		spw_xfer_listener_close(p->listener);
		p->listener = NULL;
	}
	return rc;
}

/* The peer's windows, once all are known. */
static int join_windows_turn(struct spw_coll *c, struct coll_peer *p)
{
	for (uint32_t w = 0; w < COLL_WINDOW_CNT; w++) {
		const uint64_t bytes =
			w == COLL_NOTE ? COLL_NOTE_BYTES
				       : SPW_COLL_FLAG_BYTES + SPW_COLL_HEAD_BYTES + c->slot_bytes;
		int rc = p->window[w] ? 0 : spw_xfer_window_remote(p->conn, w, &p->window[w]);

		if (rc)
			return rc;
		if (spw_xfer_window_bytes(p->window[w]) != bytes)
			return spw_err(EPROTO, "window %u of %llu bytes instead of %llu", w,
				       (unsigned long long)spw_xfer_window_bytes(p->window[w]),
				       (unsigned long long)bytes);
	}
	return 0;
}

/* Returns: 0: this peer is ready; -EAGAIN: not yet. */
static int join_peer_turn(struct spw_coll *c, uint32_t rank, bool *exposed)
{
	struct coll_peer *p = &c->peer[rank];
	int rc;

	if (!*exposed) {
		rc = join_connect_turn(c, rank);
		rc = rc ? rc : join_expose(c, p);
		if (rc)
			return rc;
		*exposed = true;
	}
	return join_windows_turn(c, p);
}

/* All pairs advance side by side, because a peer connects to us in an order of its own. */
int coll_join(struct spw_coll *c)
{
	const struct timespec nap = {.tv_nsec = NAP_NS};
	bool exposed[SPW_COLL_RANK_MAX] = {false};
	uint32_t left = ((1u << c->rank_cnt) - 1u) & ~(1u << c->rank), rank;
	int rc = join_exchange(c);
	struct coll_wait wait;

	if (rc)
		return rc;
	wait = coll_wait_of(spw_monotonic_ns(), c->conf.join_ms * 1000000ull);
	while (left) {
		spw_xfer_progress(c->x);
		for (uint32_t todo = left; todo; todo &= todo - 1) {
			rank = (uint32_t)__builtin_ctz(todo);
			rc = join_peer_turn(c, rank, &exposed[rank]);
			if (rc && rc != -EAGAIN)
				return spw_err_ctx(rc, "rank %u (%s)", rank, c->peer[rank].name);
			left &= rc ? left : ~(1u << rank);
		}
		if (left && coll_wait_is_over(&wait, spw_monotonic_ns())) {
			rank = (uint32_t)__builtin_ctz(left);
			return spw_err(ETIMEDOUT, "rank %u (%s) did not join within %u ms", rank,
				       c->peer[rank].name, c->conf.join_ms);
		}
		if (left)
			nanosleep(&nap, NULL);
	}
	return 0;
}
