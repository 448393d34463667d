/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A queue of mode=rc and its peers (rc_queue.h has the contracts): tables, the states of a peer,
 * and what happens to its slots. Called by the drivers at set-up and from their bursts, by
 * rc_turn.c and rc_port.c outside them.
 *
 * What this file guarantees, and the bursts rely on without looking again:
 *
 *   every ring is a power of 2           positions run freely and are masked
 *   slots of a peer are within the pool  a slot number that passed the checks is an index
 *   the peer's limits were checked       they index our memory
 */
#include "port/rc_queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "port/rc_inline.h"

/* ---- tables ---- */

/* slot_state and owner are by slot of the whole pool, so that a slot number of a release needs no
 * translation. A failed allocation leaves the others to port_rc_queue_fini. */
static int port_rc_init_tables(struct port_rc_queue *q)
{
	uint32_t slots = q->pool->slot_cnt;

	q->peer = aligned_alloc(64, (q->peer_cnt + 1) * (size_t)q->peer_bytes);
	q->by_index = calloc(q->index_cnt, sizeof(struct port_rc_peer *));
	q->todo = calloc(q->peer_cnt + 1, sizeof(struct port_rc_peer *));
	q->owner = calloc(slots, sizeof(struct port_rc_peer *));
	q->slot_state = calloc(slots, 1);
	q->stack.slot = calloc(slots, sizeof(*q->stack.slot));
	if (!q->peer || !q->by_index || !q->todo || !q->owner || !q->slot_state || !q->stack.slot)
		return spw_err(ENOMEM, "mode=rc: no memory for the tables of queue %u", q->index);
	memset(q->peer, 0, (q->peer_cnt + 1) * (size_t)q->peer_bytes);
	for (uint32_t i = 0; i < q->index_cnt; i++)
		q->by_index[i] = port_rc_peer_at(q, q->peer_cnt);
	for (uint32_t i = 0; i <= q->peer_cnt; i++) {
		struct port_rc_peer *p = port_rc_peer_at(q, i);

		p->stack = q->flags & PORT_RC_SRQ ? &q->stack : &p->own;
	}
	return 0;
}

void port_rc_queue_renew(struct port_rc_queue *q)
{
	const struct port_rc_queue was = *q;

	*q = (struct port_rc_queue){
		.lent_cnt = was.lent_cnt,
		.stat = was.stat,
		.control_rx = was.control_rx,
		.control_tx = was.control_tx,
		.port = was.port,
		.pool = was.pool,
		.slot_first = was.slot_first,
		.share = was.share,
		.lkey = was.lkey,
		.index = was.index,
		.slots_at = was.slots_at,
		.failed = was.failed,
	};
	memcpy(q->error, was.error, sizeof(q->error));
}

int port_rc_queue_init(struct port_rc_queue *q, const struct port_rc_queue_conf *conf)
{
	int rc;

	if (conf->peer_cnt == 0 || conf->peer_cnt > PORT_RC_PEER_MAX)
		return spw_err(EINVAL, "mode=rc: %u peers on a queue are not 1 .. %u",
			       conf->peer_cnt, PORT_RC_PEER_MAX);
	q->pool = conf->pool;
	q->ops = conf->ops;
	q->flags = conf->flags;
	q->index = conf->index;
	q->peer_bytes = conf->peer_bytes;
	q->peer_cnt = conf->peer_cnt;
	q->index_cnt = conf->index_cnt;
	q->room_bytes = (uint32_t)SPW_MIN(conf->pool->slot_bytes, (size_t)SPW_DESC_LEN_MAX);
	q->desc_tail = conf->pool->region->id | (uint64_t)conf->port << 16;
	rc = port_rc_init_tables(q);
	if (rc)
		port_rc_queue_fini(q);
	return rc;
}

/* slot_cnt exceeds the credits by SPW_PEER_CTRL_RESERVE with op=send, where a control message takes
 * a receive and so a slot; with op=write it takes a receive without a slot. The range check is
 * written so that slot_first + slot_cnt cannot wrap. */
static int port_rc_check_peer(const struct port_rc_queue *q, uint32_t local,
			      const struct port_rc_peer_conf *c)
{
	uint32_t reserve = q->flags & PORT_RC_WRITE ? 0 : SPW_PEER_CTRL_RESERVE;

	if (local >= q->peer_cnt || c->index >= q->index_cnt)
		return spw_err(EINVAL, "mode=rc: peer %u as %u is none of this queue", local,
			       c->index);
	if (c->credits == 0 || c->credits > SPW_PEER_CREDIT_MAX ||
	    c->credits + reserve > c->slot_cnt || c->slot_cnt > q->pool->slot_cnt ||
	    c->slot_first > q->pool->slot_cnt - c->slot_cnt)
		return spw_err(EINVAL, "mode=rc: %u credits do not fit slots %u + %u of %u",
			       c->credits, c->slot_first, c->slot_cnt, q->pool->slot_cnt);
	if (q->flags & PORT_RC_WRITE && (!c->ring_in || !c->ring_out || c->slot_cnt != c->credits))
		return spw_err(EINVAL,
			       "mode=rc: op=write wants grant rings, and a credit for each slot");
	if (!(q->flags & PORT_RC_SRQ) && c->rq_cnt < c->credits + SPW_PEER_CTRL_RESERVE)
		return spw_err(EINVAL,
			       "mode=rc: a receive queue of %u entries is too small for %u credits "
			       "and %u more",
			       c->rq_cnt, c->credits, SPW_PEER_CTRL_RESERVE);
	if (c->sq_limit < 4 * PORT_RC_SQ_RESERVE || c->sq_limit > c->sq_cnt)
		return spw_err(EINVAL, "mode=rc: %u sends of a peer are not %u .. %u", c->sq_limit,
			       4 * PORT_RC_SQ_RESERVE, c->sq_cnt);
	return 0;
}

/* The slots are pushed from the last to the first, so the first receive takes the first slot.
 * WRITE: none is pushed, since slots are granted, not posted. */
static void port_rc_attach_slots(struct port_rc_queue *q, struct port_rc_peer *p,
				 const struct port_rc_peer_conf *c)
{
	p->slot_first = c->slot_first;
	p->slot_cnt = c->slot_cnt;
	for (uint32_t slot = p->slot_first + p->slot_cnt; slot-- > p->slot_first;) {
		q->owner[slot] = p;
		if (!(q->flags & PORT_RC_WRITE))
			p->stack->slot[p->stack->cnt++] = slot;
	}
}

int port_rc_attach(struct port_rc_queue *q, uint32_t local, const struct port_rc_peer_conf *c)
{
	struct port_rc_peer *p = port_rc_peer_at(q, local);
	int rc = port_rc_check_peer(q, local, c);

	if (rc)
		return rc;
	p->index = c->index;
	p->ring_in = c->ring_in;
	p->ring_out = c->ring_out;
	p->credits = c->credits;
	p->sq_mask = c->sq_cnt - 1;
	p->sq_limit = c->sq_limit;
	p->rq_mask = c->rq_cnt - 1;
	p->wait_mask = spw_pow2_ceil32(c->slot_cnt) - 1;
	p->sent = calloc(c->sq_cnt, sizeof(*p->sent));
	p->slot_of = calloc(c->rq_cnt + 1, sizeof(*p->slot_of));
	p->own.slot = calloc(c->slot_cnt, sizeof(*p->own.slot));
	p->wait = calloc(p->wait_mask + 1, sizeof(*p->wait));
	if (!p->sent || !p->slot_of || !p->own.slot || !p->wait)
		return spw_err(ENOMEM, "mode=rc: no memory for the tables of peer %u", c->index);
	port_rc_attach_slots(q, p, c);
	q->by_index[c->index] = p;
	return 0;
}

void port_rc_queue_fini(struct port_rc_queue *q)
{
	for (uint32_t i = 0; q->peer && i < q->peer_cnt; i++) {
		struct port_rc_peer *p = port_rc_peer_at(q, i);

		free(p->sent);
		free(p->slot_of);
		free(p->own.slot);
		free(p->wait);
	}
	free(q->peer);
	free(q->by_index);
	free(q->todo);
	free(q->owner);
	free(q->slot_state);
	free(q->stack.slot);
	q->peer = q->slot_state = NULL;
	q->by_index = q->todo = q->owner = NULL;
	q->stack = (struct port_rc_stack){0};
}

/* ---- the states of a peer ---- */

/* The first credits are slots 0 .. credits - 1, in this order, at both ends. Keys may change
 * between two connections (peer_link_rekey, or a revoked key). */
void port_rc_post(struct port_rc_queue *q, struct port_rc_peer *p, uint32_t lkey,
		  uint32_t ring_lkey)
{
	p->lkey = lkey;
	p->ring_lkey = ring_lkey;
	if (q->ops->begin)
		q->ops->begin(q, p);
	spw_peer_rx_credit_start(&p->rx, p->credits);
	if (q->flags & PORT_RC_WRITE)
		memset(&q->slot_state[p->slot_first], PORT_RC_GRANTED, p->slot_cnt);
	p->side = SPW_PEER_SIDE_POSTED;
	port_rc_enlist(q, p);
	q->ops->settle(q);
}

/* Messages that waited and are longer than the peer takes; max 0: all of them. */
static void port_rc_wait_return(struct port_rc_queue *q, struct port_rc_peer *p, uint32_t max)
{
	uint32_t kept = p->wait_ci, cnt;

	for (uint32_t i = p->wait_ci; i != p->wait_pi; i++) {
		const struct port_rc_wait *w = &p->wait[i & p->wait_mask];

		if (w->len - 1 < max)
			p->wait[kept++ & p->wait_mask] = *w;
		else
			port_rc_recycle(q, w->slot, q->flags);
	}
	cnt = p->wait_pi - kept;
	p->wait_pi = kept;
	q->in_tx_cnt -= cnt;
	spw_thr_count(&q->stat.tx_flushed, cnt);
}

/* The peer's limits are checked again, although peer/message.c has: they index our memory. The
 * first W grants are 0 .. W-1 by definition and are written here by this side. The peer cannot
 * write into the ring at the same time: it grants again only what we have used, and nothing has
 * been sent yet. */
int port_rc_up(struct port_rc_queue *q, struct port_rc_peer *p,
	       const struct spw_peer_remote *remote)
{
	if (remote->credit_cnt == 0 || remote->credit_cnt > SPW_PEER_CREDIT_MAX)
		return spw_err(EPROTO, "mode=rc: peer %u grants %u credits, not 1 .. %u", p->index,
			       remote->credit_cnt, SPW_PEER_CREDIT_MAX);
	if (q->flags & PORT_RC_WRITE &&
	    (!SPW_IS_POW2(remote->ring_cnt) || remote->ring_cnt < p->credits ||
	     remote->ring_cnt > SPW_PEER_CREDIT_MAX))
		return spw_err(EPROTO,
			       "mode=rc: peer %u has a grant ring of %u entries for %u credits",
			       p->index, remote->ring_cnt, p->credits);
	for (uint32_t i = 0; q->flags & PORT_RC_WRITE && i < remote->credit_cnt; i++)
		p->ring_in[i] = spw_cpu_to_be32(i);
	p->remote = *remote;
	spw_peer_tx_credit_start(&p->tx, remote->credit_cnt);
	port_rc_wait_return(q, p, remote->slot_bytes); /* accepted before the limit was known */
	p->side = SPW_PEER_SIDE_UP;
	port_rc_enlist(q, p);
	return 0;
}

/* With limit = used no message may go, so the burst needs no test of its own. */
void port_rc_break(struct port_rc_queue *q, struct port_rc_peer *p, enum spw_peer_why why,
		   uint32_t code)
{
	if (!port_rc_is_live(p))
		return;
	p->side = SPW_PEER_SIDE_BROKEN;
	p->tx.limit = p->tx.used;
	p->tx.window = 0;
	p->why = why;
	p->code = code;
	port_rc_wait_return(q, p, 0);
}

/* SRQ: all completions are in the CQ, since the last-WQE event of the QP has arrived. */
bool port_rc_is_drained(struct port_rc_queue *q, struct port_rc_peer *p)
{
	if (p->out || p->sq_ci != p->sq_pi)
		return false;
	return q->flags & PORT_RC_SRQ ? !q->ops->has_unread(q, p) : p->rq_ci == p->rq_pi;
}

void port_rc_reset(struct port_rc_queue *q, struct port_rc_peer *p)
{
	port_rc_wait_return(q, p, 0);
	port_rc_tx_lost(q, p, p->sq_pi);
	for (; p->rq_ci != p->rq_pi; p->rq_ci++)
		if (!(q->flags & PORT_RC_WRITE))
			p->own.slot[p->own.cnt++] = p->slot_of[p->rq_ci & p->rq_mask];
	p->rq_ci = p->rq_pi = 0;
	p->sq_pi = p->sq_ci = p->sq_signal = 0;
	p->tx = (struct spw_peer_tx_credit){0};
	p->drain = (struct rdma_drain){0};
	p->side = SPW_PEER_SIDE_DOWN;
}

/* ---- slots ---- */

void port_rc_release(void *vq, const uint32_t *slot, uint16_t cnt)
{
	struct port_rc_queue *q = vq;

	for (uint16_t i = 0; i < cnt; i++)
		port_rc_recycle(q, slot[i], q->flags);
	q->lent_cnt -= cnt;
}

/* From the pool only: slots of peers are for their messages and never serve a message that this
 * side starts. */
uint16_t port_rc_lend(void *vq, uint32_t *slot, uint16_t cnt)
{
	struct port_rc_queue *q = vq;
	uint32_t n = spw_pool_get(q->pool, slot, cnt);

	q->lent_cnt += n;
	return (uint16_t)n;
}

/* SEND: reset moves a peer's posted slots to its own stack, and srq_empty an SRQ's to the queue's.
 * WRITE: slots that are granted are no receive's, so they are found by their state. With slot_cnt 0
 * and no owner, a slot that is still lent goes to the pool when it is released. */
void port_rc_return_slots(struct port_rc_queue *q)
{
	for (uint32_t i = 0; q->peer && i < q->peer_cnt; i++) {
		struct port_rc_peer *p = port_rc_peer_at(q, i);

		port_rc_reset(q, p);
		spw_pool_put(q->pool, p->own.slot, p->own.cnt);
		p->own.cnt = 0;
		for (uint32_t slot = p->slot_first; slot < p->slot_first + p->slot_cnt; slot++)
			if (q->flags & PORT_RC_WRITE && q->slot_state[slot] != PORT_RC_LENT)
				spw_pool_put(q->pool, &slot, 1);
		p->slot_cnt = 0;
	}
	if (q->flags & PORT_RC_SRQ && !(q->flags & PORT_RC_WRITE) && q->peer)
		q->ops->srq_empty(q);
	if (q->pool && q->owner) {
		spw_pool_put(q->pool, q->stack.slot, q->stack.cnt);
		memset(q->owner, 0, q->pool->slot_cnt * sizeof(struct port_rc_peer *));
	}
	q->stack.cnt = q->todo_cnt = 0;
}

/* Free, posted and granted slots all count as in RX: each is the port's, and none is lent. WRITE
 * counts states, not receives, since a receive has no slot. */
void port_rc_queue_slots(const struct port_rc_queue *q, struct spw_port_slots *slots_out)
{
	const bool write = q->flags & PORT_RC_WRITE;
	uint32_t in_rx = q->stack.cnt + (write ? 0 : q->srq_posted);

	for (uint32_t i = 0; i < q->peer_cnt; i++) {
		const struct port_rc_peer *p = port_rc_peer_at(q, i);

		in_rx += p->own.cnt + (write ? 0 : p->rq_pi - p->rq_ci);
		for (uint32_t k = 0; write && k < p->slot_cnt; k++)
			in_rx += q->slot_state[p->slot_first + k] != PORT_RC_LENT;
	}
	*slots_out =
		(struct spw_port_slots){.in_rx = in_rx, .lent = q->lent_cnt, .in_tx = q->in_tx_cnt};
}

/* ---- messages ---- */

void port_rc_tx_lost(struct port_rc_queue *q, struct port_rc_peer *p, uint32_t end)
{
	for (; p->sq_ci != end; p->sq_ci++) {
		const struct port_rc_sent *sent = &p->sent[p->sq_ci & p->sq_mask];

		if (sent->slot == PORT_RC_NO_SLOT)
			continue;
		port_rc_recycle(q, sent->slot, q->flags);
		q->in_tx_cnt--;
		spw_thr_count(&q->stat.tx_flushed, 1);
	}
}

bool port_rc_tx_later(struct port_rc_peer *p, const struct spw_desc *d)
{
	if (!port_rc_is_live(p) || p->wait_pi - p->wait_ci > p->wait_mask ||
	    (p->side == SPW_PEER_SIDE_UP && !spw_in_1_to(d->len, p->remote.slot_bytes)))
		return false;
	p->wait[p->wait_pi++ & p->wait_mask] =
		(struct port_rc_wait){d->slot, d->offset, d->len, d->meta, d->flags};
	return true;
}

bool port_rc_breach(struct port_rc_queue *q, struct port_rc_peer *p)
{
	port_rc_count_err(q, SPW_PORT_ERR_protocol, 1);
	port_rc_break(q, p, SPW_PEER_WHY_PROTOCOL, 0);
	return false;
}

void port_rc_rx_control(struct port_rc_queue *q, struct port_rc_peer *p, uint32_t count)
{
	spw_thr_count(&q->control_rx, 1);
	if (p->side != SPW_PEER_SIDE_BROKEN && !spw_peer_tx_credit_take(&p->tx, count))
		port_rc_breach(q, p);
}

void port_rc_rx_unused(struct port_rc_queue *q, struct port_rc_peer *p, uint32_t slot)
{
	if (!(q->flags & PORT_RC_WRITE))
		p->stack->slot[p->stack->cnt++] = slot;
}
