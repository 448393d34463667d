/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The shared-memory switch: sending and receiving (shm.h shows a ring). The NIC thread calls these
 * through shm_ops in each round; joining and leaving are shm_join.c's.
 *
 * Sending picks the rings by destination MAC, and by QPN where processes share it: one port, or all
 * others for groups and unknown addresses. A frame to one port is written in place; a group frame
 * is written to `scratch` and copied into each ring at commit. Receiving polls all known rings in
 * turn and lends records where they lie.
 *
 * What to know before changing it: the other side is a different process, and its ring may hold
 * anything. Lengths and tails are read once, checked against the ring, and then used; what does not
 * add up empties the ring and counts rx_bad.
 *
 * A frame's path between two processes, and what each side writes:
 *
 *   sender    room? (reserve)   record written in place (commit)   tail (flush, N1)
 *   receiver  tail (N2)         record lent where it lies          head (release, N3)
 *   sender    head (N4), read again only when the ring looks full
 *
 * Nothing is copied for one receiver, and no side ever waits for the other: a ring that is full is
 * tried again in the next round.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/spw_log.h"
#include "softhca/cable/shm_impl.h"

#define RETRY_NS    1000000000ull
#define AHEAD       6u    /* records whose headers are prefetched */
#define AHEAD_BYTES 1024u /* shorter ones are few lines from one another */

/* Addresses are compared as words, in the form that struct shm_port has them. */
static uint64_t mac_word(const uint8_t *mac)
{
	uint64_t v = 0;

	memcpy(&v, mac, 6);
	return v;
}

/* Of several ports of one function: the QP's, or all that are used, or all. */
static uint32_t shm_which(uint32_t hit, uint32_t used, uint32_t dqpn)
{
	const uint32_t own = dqpn >> 16 < SHM_PORTS ? 1u << (dqpn >> 16) : 0;

	return dqpn && hit & own ? own : hit & used ? hit & used : hit;
}

/* The ports that a frame goes to, as bits. Unknown and group addresses go everywhere else. */
static uint32_t shm_targets(struct cable_shm *s, const uint8_t *dmac, uint32_t dqpn)
{
	const uint64_t mac = mac_word(dmac), want = mac | (uint64_t)(dqpn ? 1 + (dqpn >> 16) : 0)
								  << 48;
	const uint32_t epoch = spw_thr_load_acq(&s->hdr->epoch);
	uint32_t hit = 0, all = 0, used = 0;

	/* A NIC sends burst after burst to one address: the last answer is valid until the epoch
	 * changes. */
	if (spw_likely(s->last_to == want && s->last_epoch == epoch))
		return s->last_targets;
	for (uint32_t p = 0; p < SHM_PORTS; p++) {
		if (!spw_thr_load_rlx(&s->hdr->port[p].live))
			continue;
		all |= 1u << p;
		used |= spw_thr_load_rlx(&s->hdr->port[p].used) << p;
		if (spw_thr_load_rlx(&s->hdr->port[p].mac) == mac)
			hit |= 1u << p;
	}
	/* An unknown address floods, as a switch does until it has learnt it. */
	s->last_targets = hit ? shm_which(hit, used, dqpn) : all & ~(1u << s->id.port);
	s->last_to = want;
	s->last_epoch = epoch;
	return s->last_targets;
}

/* Every ring has its place in the file, used or not: the file is sparse. */
static struct shm_ring *shm_ring_at(struct cable_shm *s, uint32_t rx, uint32_t tx)
{
	return (struct shm_ring *)(s->base + SHM_RING_AT(rx, tx));
}

/* Asks for the ring's memory, once a second while there is none. Returns: whether there is. */
static bool shm_ring_alloc(struct cable_shm *s, struct shm_tx *t, uint32_t p)
{
	int error;

	if (t->refused && s->now_ns - t->refused_ns < RETRY_NS)
		return false;
	error = posix_fallocate(s->fd, (off_t)SHM_RING_AT(p, s->id.port), (off_t)SHM_RING_SPAN);
	if (error && !t->refused)
		spw_warn("cable %s: no memory for frames to port %u: %s; they are lost until "
			 "/dev/shm has %u KiB more (docker: --shm-size)",
			 s->path, p, strerror(error), (uint32_t)(SHM_RING_SPAN >> 10) + 1);
	t->refused = error != 0;
	t->refused_ns = s->now_ns;
	return !error;
}

/* Allocates the ring at first use, so that a full /dev/shm is an error here, not a SIGBUS later. */
static bool shm_tx_ready(struct cable_shm *s, uint32_t p)
{
	struct shm_tx *t = &s->tx[p];

	if (spw_likely(t->ring))
		return true;
	if (!shm_ring_alloc(s, t, p))
		return false;
	t->ring = shm_ring_at(s, p, s->id.port);
	/* Where the last owner of this port stopped: the receiver may still be reading what it
	 * sent. */
	t->tail = spw_thr_load_acq(&t->ring->tail) & ~15ull;
	t->head = spw_thr_load_acq(&t->ring->head);
	return true;
}

/* Room for one record of `need` bytes without wrapping; fills the end with a skip record. */
static struct shm_rec *shm_tx_room(struct cable_shm *s, struct shm_tx *t, uint32_t need)
{
	uint32_t at = (uint32_t)(t->tail & (SHM_RING_BYTES - 1));
	uint32_t skip = at + need > SHM_RING_BYTES ? SHM_RING_BYTES - at : 0;

	if (spw_unlikely(t->tail - t->head + skip + need > SHM_RING_BYTES)) {
		t->head = spw_thr_load_acq(&t->ring->head); /* [N4 acquire, pairs with N3] */
		if (spw_unlikely(t->tail - t->head > SHM_RING_BYTES))
			t->head = t->tail - SHM_RING_BYTES; /* out of range: as if full */
		if (t->tail - t->head + skip + need > SHM_RING_BYTES)
			return NULL;
	}
	if (spw_unlikely(skip)) {
		((struct shm_rec *)&t->ring->data[at])->len = SHM_SKIP;
		t->tail += skip;
		s->dirty |= 1u << (t - s->tx);
		at = 0;
	}
	t->full = (struct cable_full){0};
	return (struct shm_rec *)&t->ring->data[at];
}

/* NULL: wait. scratch: the frame goes to several ports, or is dropped because its receiver is
 * stuck. */
static uint8_t *shm_tx_reserve(struct cable *c, const uint8_t *dmac, uint32_t dqpn, uint32_t len)
{
	struct cable_shm *s = (struct cable_shm *)c;
	const uint32_t need = SPW_ALIGN_UP(len + (uint32_t)sizeof(struct shm_rec), 16u);
	const uint32_t to = shm_targets(s, dmac, dqpn);
	const uint32_t p = (uint32_t)__builtin_ctz(to | 1u << SHM_PORTS);

	s->tx_len = len;
	s->tx_to = 0;
	if (spw_likely(to && !(to & (to - 1)) && shm_tx_ready(s, p))) {
		s->tx_rec = shm_tx_room(s, &s->tx[p], need);
		if (spw_likely(s->tx_rec != NULL)) {
			s->tx_to = to;
			return (uint8_t *)(s->tx_rec + 1);
		}
		if (cable_waits(&s->tx[p].full, s->now_ns)) {
			c->stat.tx_wait++;
			return NULL;
		}
		c->stat.tx_dropped++;
		return s->scratch;
	}
	s->tx_rec = NULL;
	s->tx_to = to;
	return s->scratch;
}

/* The record is complete; the receiver learns of it with the next flush. */
static void shm_commit_one(struct cable_shm *s, struct shm_tx *t, struct shm_rec *rec,
			   uint32_t flags)
{
	rec->len = s->tx_len;
	rec->flags = flags;
	t->tail += SPW_ALIGN_UP(s->tx_len + (uint32_t)sizeof(*rec), 16u);
	s->dirty |= 1u << (t - s->tx);
}

static void shm_tx_commit(struct cable *c, uint32_t flags)
{
	struct cable_shm *s = (struct cable_shm *)c;
	uint32_t to = s->tx_to;

	/* One receiver: the frame is in its ring already. */
	if (spw_likely(s->tx_rec && to)) {
		shm_commit_one(s, &s->tx[__builtin_ctz(to)], s->tx_rec, flags);
		return;
	}
	for (; to;
	     to &= to - 1) { /* a group: a copy each; a full ring drops it, as a switch does */
		const uint32_t p = (uint32_t)__builtin_ctz(to);
		struct shm_rec *rec = NULL;

		if (shm_tx_ready(s, p))
			rec = shm_tx_room(s, &s->tx[p],
					  SPW_ALIGN_UP(s->tx_len + (uint32_t)sizeof(*rec), 16u));
		if (!rec) {
			c->stat.tx_dropped++;
			continue;
		}
		memcpy(rec + 1, s->scratch, s->tx_len);
		shm_commit_one(s, &s->tx[p], rec, flags);
	}
}

/* One release per ring and flush, for all records since the last one. */
static void shm_tx_flush(struct cable *c)
{
	struct cable_shm *s = (struct cable_shm *)c;

	for (uint32_t d = s->dirty; d; d &= d - 1) {
		struct shm_tx *t = &s->tx[__builtin_ctz(d)];

		spw_thr_store_rel(&t->ring->tail, t->tail); /* [N1 release, pairs with N2] */
	}
	s->dirty = 0;
}

/* The headers of a record lie in two cache lines that the sender wrote. Where a record begins is
 * only known from the one before it, so a burst would wait for one after the other; but those of a
 * message have one length. */
SPW_INLINE void shm_prefetch_ahead(const struct shm_rx *r, uint32_t span)
{
	const uint8_t *data = r->ring->data;
	const uint64_t at = r->pos + AHEAD * (uint64_t)span;

	if (span < AHEAD_BYTES || at >= r->tail) {
		spw_prefetch_read(&data[r->pos & (SHM_RING_BYTES - 1)]);
		return;
	}
	spw_prefetch_read(&data[at & (SHM_RING_BYTES - 1)]);
	spw_prefetch_read(&data[(at + 64) & (SHM_RING_BYTES - 1)]);
}

/* The next record of the ring; false: none. A malformed record empties the ring. */
static bool shm_rx_next(struct cable_shm *s, struct shm_rx *r, struct cable_frame *f)
{
	for (;;) {
		const uint64_t left = r->tail - r->pos;
		const uint32_t at = (uint32_t)(r->pos & (SHM_RING_BYTES - 1));
		const struct shm_rec *rec = (const struct shm_rec *)&r->ring->data[at];
		uint32_t len, span;

		if (left == 0)
			return false;
		/* Read once: the sender could change it between the check and the use. */
		len = spw_thr_load_rlx(&rec->len);
		span = len == SHM_SKIP ? SHM_RING_BYTES - at
				       : SPW_ALIGN_UP(len + (uint32_t)sizeof(*rec), 16u);
		if (spw_unlikely(span > left ||
				 (len != SHM_SKIP &&
				  (len > CABLE_FRAME_MAX || at + span > SHM_RING_BYTES)))) {
			s->c.stat.rx_bad++;
			r->pos = r->tail;
			return false;
		}
		r->pos += span;
		if (len == SHM_SKIP)
			continue;
		f->data = (const uint8_t *)(rec + 1);
		f->len = len;
		f->flags = spw_thr_load_rlx(&rec->flags);
		f->from = r->from;
		shm_prefetch_ahead(r, span);
		return true;
	}
}

/* Starts at another ring each time, so that no sender starves the others. */
static uint32_t shm_rx_burst(struct cable *c, struct cable_frame *f, uint32_t max)
{
	struct cable_shm *s = (struct cable_shm *)c;
	const uint32_t epoch = spw_thr_load_acq(&s->hdr->epoch);
	uint32_t n = 0;

	if (spw_unlikely(epoch != s->rx_epoch))
		shm_rx_refresh(s, epoch);
	if (spw_unlikely(!s->turns))
		shm_use(s);
	/* [N15 release, pairs with N16] */
	spw_thr_store_rel(&s->hdr->port[s->id.port].turns, ++s->turns);
	s->lent_cnt = 0;
	for (uint32_t i = 0; i < s->rx_cnt && n < max; i++) {
		struct shm_rx *r = &s->rx[(s->rx_turn + i) % s->rx_cnt];
		/* [N2 acquire, pairs with N1] */
		const uint64_t tail = spw_thr_load_acq(&r->ring->tail);

		if (tail == r->head)
			continue;
		r->tail = tail;
		if (spw_unlikely(tail - r->head > SHM_RING_BYTES || (tail & 15))) {
			c->stat.rx_bad++;
			r->head = tail & ~15ull;
			spw_thr_store_rel(&r->ring->head, r->head);
			continue;
		}
		r->pos = r->head;
		while (n < max && shm_rx_next(s, r, &f[n])) {
			s->lent[n].rx = r;
			s->lent[n].pos = r->pos;
			n++;
		}
		if (spw_unlikely(n == 0 ||
				 s->lent[n - 1].rx != r)) { /* only skip or malformed records */
			r->head = r->pos;
			spw_thr_store_rel(&r->ring->head, r->head);
		}
	}
	s->lent_cnt = n;
	s->rx_turn++;
	return n;
}

/* Records of one ring are released together: head is the position behind the last of them. */
static void shm_rx_release(struct cable *c, uint32_t cnt)
{
	struct cable_shm *s = (struct cable_shm *)c;

	for (uint32_t i = 0; i < cnt && i < s->lent_cnt; i++) {
		struct shm_rx *r = s->lent[i].rx;

		r->head = s->lent[i].pos;
		/* [N3 release, pairs with N4] */
		if (i + 1 == cnt || s->lent[i + 1].rx != r)
			spw_thr_store_rel(&r->ring->head, r->head);
	}
	s->lent_cnt = 0;
}

/* ARP without a frame: the port table has every address. Only live ports count. */
static bool shm_lookup(struct cable *c, const uint8_t ip[4], uint8_t mac_out[6])
{
	struct cable_shm *s = (struct cable_shm *)c;
	uint32_t want;

	memcpy(&want, ip, 4);
	for (uint32_t p = 0; p < SHM_PORTS; p++) {
		const struct shm_port *port = &s->hdr->port[p];

		if (spw_thr_load_acq(&port->live) && spw_thr_load_rlx(&port->ip) == want) {
			const uint64_t mac = spw_thr_load_rlx(&port->mac);

			memcpy(mac_out, &mac, 6);
			return true;
		}
	}
	return false;
}

/* Of one receiver only; for a group, or a receiver that does not move, there is nothing to wait
 * for. */
static uint64_t shm_turns(struct cable *c, const uint8_t *dmac, uint32_t dqpn)
{
	struct cable_shm *s = (struct cable_shm *)c;
	const uint32_t to = shm_targets(s, dmac, dqpn);
	struct shm_tx *t;
	uint64_t turns;

	if (!to || (to & (to - 1)))
		return 0;
	t = &s->tx[__builtin_ctz(to)];
	/* [N16 acquire, pairs with N15] */
	turns = spw_thr_load_acq(&s->hdr->port[__builtin_ctz(to)].turns);
	if (turns != t->turns_seen)
		t->no_turn = (struct cable_full){0};
	t->turns_seen = turns;
	return cable_waits(&t->no_turn, s->now_ns) ? turns : 0;
}

/* 0 is the value that turns() reports as unknown; the next burst writes the count again. */
static void shm_stalls(struct cable *c)
{
	struct cable_shm *s = (struct cable_shm *)c;

	spw_thr_store_rlx(&s->hdr->port[s->id.port].turns, 0ull);
}

/* For link-local addresses, which are valid only while that neighbour is there
 * (nic/port/neigh.c). */
static bool shm_has(struct cable *c, const uint8_t mac[6])
{
	struct cable_shm *s = (struct cable_shm *)c;

	for (uint32_t p = 0; p < SHM_PORTS; p++) {
		const struct shm_port *port = &s->hdr->port[p];
		const uint64_t live = spw_thr_load_acq(&port->live) ? port->mac : 0;

		if (live && !memcmp(&live, mac, 6))
			return true;
	}
	return false;
}

/* Ten times a second the locks of the other ports show who died. */
static void shm_tick(struct cable *c, uint64_t now_ns)
{
	struct cable_shm *s = (struct cable_shm *)c;

	s->now_ns = now_ns;
	if (now_ns - s->reaped_ns > 100000000ull) {
		s->reaped_ns = now_ns;
		shm_reap_dead(s);
	}
}

static void shm_forked(struct cable *c)
{
	struct cable_shm *s = (struct cable_shm *)c;

	close(s->fd); /* the open file description, and the port's lock with it, stays the parent's
		       */
	s->fd = -1;
}

const struct cable_ops shm_ops = {
	.tx_reserve = shm_tx_reserve,
	.tx_commit = shm_tx_commit,
	.tx_flush = shm_tx_flush,
	.rx_burst = shm_rx_burst,
	.rx_release = shm_rx_release,
	.tick = shm_tick,
	.lookup = shm_lookup,
	.turns = shm_turns,
	.stalls = shm_stalls,
	.has = shm_has,
	.link_up = shm_link_up,
	.link_set = shm_link_set,
	.leave = shm_leave,
	.close = shm_close,
	.forked = shm_forked,
};
