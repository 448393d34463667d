/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What the bursts of both RC drivers share inline: credits, and slots on their way. `flags` are
 * constants in mlx5's variants.
 */
#ifndef SPW_PORT_RC_INLINE_H
#define SPW_PORT_RC_INLINE_H

#include "port/rc_queue.h"

/* Peer `local` of the queue; peer_cnt: nobody. The driver's struct begins there. */
SPW_INLINE struct port_rc_peer *port_rc_peer_at(const struct port_rc_queue *q, uint32_t local)
{
	return (void *)(q->peer + (size_t)local * q->peer_bytes);
}

/* POSTED or UP: its receives may be posted. */
SPW_INLINE bool port_rc_is_live(const struct port_rc_peer *p)
{
	return p->side == SPW_PEER_SIDE_UP || p->side == SPW_PEER_SIDE_POSTED;
}

/* Puts the peer on the list, once: it may need a refill or credits (port_rc_ops.settle). */
SPW_INLINE void port_rc_enlist(struct port_rc_queue *q, struct port_rc_peer *p)
{
	if (p->todo)
		return;
	p->todo = 1;
	q->todo[q->todo_cnt++] = p;
}

SPW_INLINE void port_rc_count_err(struct port_rc_queue *q, enum spw_port_err what, uint64_t n)
{
	spw_thr_count(&q->stat.err[what], n);
}

SPW_INLINE void port_rc_count_drop(struct port_rc_queue *q, enum spw_port_drop why, uint64_t n)
{
	spw_thr_count(&q->stat.dropped[why], n);
}

/* An error completion. */
SPW_INLINE void port_rc_count_cqe_error(struct port_rc_queue *q, uint32_t code)
{
	port_rc_count_err(q, SPW_PORT_ERR_cqe_error, 1);
	spw_thr_count(&q->error[code < PORT_RC_ERROR_CNT ? code : 0], 1);
}

/* Returns a slot that was lent or in TX to its peer. SEND: it can be posted again; WRITE: it can be
 * granted again. */
SPW_INLINE void port_rc_recycle(struct port_rc_queue *q, uint32_t slot, const unsigned flags)
{
	struct port_rc_peer *p = q->owner[slot];

	if (spw_unlikely(!p)) {
		spw_pool_put(q->pool, &slot, 1);
		return;
	}
	if (flags & PORT_RC_WRITE) {
		q->slot_state[slot] = PORT_RC_FREE;
		p->ring_out[p->rx.returned & (SPW_PEER_CREDIT_MAX - 1)] =
			spw_cpu_to_be32(slot - p->slot_first);
	} else {
		p->stack->slot[p->stack->cnt++] = slot;
	}
	p->rx.returned++;
	p->out--;
	port_rc_enlist(q, p);
}

/* ---- receive ---- */

/* SEND: a message that fits and has a credit. */
SPW_INLINE bool port_rc_rx_sent(struct port_rc_queue *q, struct port_rc_peer *p, uint32_t slot,
				uint32_t len, const unsigned flags)
{
	if (spw_unlikely(!spw_in_1_to(len, q->room_bytes) || !spw_peer_rx_credit_take(&p->rx)))
		return false;
	if (flags & PORT_RC_SRQ)
		q->owner[slot] = p;
	p->out++;
	return true;
}

/* WRITE: a message in the slot that its immediate names, which the peer was granted. */
SPW_INLINE bool port_rc_rx_written(struct port_rc_queue *q, struct port_rc_peer *p, uint32_t imm,
				   uint32_t len, uint32_t *slot_out)
{
	uint32_t slot = p->slot_first + imm;

	if (spw_unlikely(!spw_in_1_to(len, q->room_bytes) || imm >= p->slot_cnt ||
			 q->slot_state[slot] != PORT_RC_GRANTED ||
			 !spw_peer_rx_credit_take(&p->rx)))
		return false;
	p->out++;
	q->slot_state[slot] = PORT_RC_LENT;
	*slot_out = slot;
	return true;
}

/* ---- send ---- */

SPW_INLINE struct port_rc_peer *port_rc_tx_peer(const struct port_rc_queue *q, uint32_t index)
{
	return spw_likely(index < q->index_cnt) ? q->by_index[index]
						: port_rc_peer_at(q, q->peer_cnt);
}

/* Whether a message may go: a credit is left (never unless UP), and the send ring has room. */
SPW_INLINE bool port_rc_tx_has_room(const struct port_rc_peer *p)
{
	return p->tx.limit != p->tx.used && p->sq_pi - p->sq_ci < p->sq_limit - PORT_RC_SQ_RESERVE;
}

/* WRITE: the slot that the peer granted next, from the ring that the peer writes. A number out of
 * range is a breach of the protocol. Returns: false: the peer is BROKEN now. */
SPW_INLINE bool port_rc_tx_slot(struct port_rc_queue *q, struct port_rc_peer *p, uint32_t *slot_out,
				const unsigned flags)
{
	if (!(flags & PORT_RC_WRITE))
		return true;
	*slot_out =
		spw_be32_to_cpu(spw_dma_load(&p->ring_in[p->tx.used & (SPW_PEER_CREDIT_MAX - 1)]));
	return spw_likely(*slot_out < p->tx.window) || port_rc_breach(q, p);
}

/* The next position of the send ring has this slot: PORT_RC_NO_SLOT: a control message. */
SPW_INLINE void port_rc_tx_posted(struct port_rc_peer *p, uint32_t slot, uint32_t len)
{
	p->sent[p->sq_pi++ & p->sq_mask] = (struct port_rc_sent){slot, len};
}

/* The sends before end are done: their slots return. */
SPW_INLINE void port_rc_tx_return(struct port_rc_queue *q, struct port_rc_peer *p, uint32_t end,
				  const unsigned flags)
{
	uint64_t bytes = 0;
	uint32_t cnt = 0;

	for (; p->sq_ci != end; p->sq_ci++) {
		const struct port_rc_sent *sent = &p->sent[p->sq_ci & p->sq_mask];

		if (sent->slot == PORT_RC_NO_SLOT)
			continue;
		port_rc_recycle(q, sent->slot, flags);
		bytes += sent->len;
		cnt++;
	}
	q->in_tx_cnt -= cnt;
	spw_thr_count(&q->stat.tx_frames, cnt);
	spw_thr_count(&q->stat.tx_bytes, bytes);
}

/* ---- credits ---- */

typedef void port_rc_peer_fn(struct port_rc_queue *q, struct port_rc_peer *p);

/* A grant takes up to three entries: the list, in two parts where its ring wraps, and the
 * message. */
SPW_INLINE bool port_rc_can_grant(const struct port_rc_peer *p)
{
	return p->sq_limit - (p->sq_pi - p->sq_ci) >= 3;
}

/* Serves the peers on the list, after their receives were posted. One stays on it only if credits
 * are due and its send ring is full. Serving one may break it, and what waited for it returns to
 * others: these join the list meanwhile, which holds nobody twice. */
SPW_INLINE void port_rc_serve(struct port_rc_queue *q, port_rc_peer_fn *send_waiting,
			      port_rc_peer_fn *grant)
{
	for (uint32_t i = 0; i < q->todo_cnt;) {
		struct port_rc_peer *p = q->todo[i];
		bool due = p->side == SPW_PEER_SIDE_UP && spw_peer_rx_credit_due(&p->rx);

		if (spw_unlikely(p->wait_ci != p->wait_pi))
			send_waiting(q, p);
		if (due && port_rc_can_grant(p)) {
			grant(q, p);
			due = false;
		}
		p->todo = due;
		if (spw_unlikely(due))
			i++;
		else
			q->todo[i] = q->todo[--q->todo_cnt];
	}
}

/* Sends cnt slot numbers of ring_out, from `first` on, which lie in one piece at the peer too.
 * Calls port_rc_grant_slots. */
typedef void port_rc_list_fn(struct port_rc_queue *q, struct port_rc_peer *p, uint32_t first,
			     uint32_t cnt);

SPW_INLINE void port_rc_grant_slots(struct port_rc_queue *q, const struct port_rc_peer *p,
				    const spw_be32 *list, uint32_t cnt)
{
	uint8_t *state = &q->slot_state[p->slot_first];

	for (uint32_t i = 0; i < cnt; i++)
		state[spw_be32_to_cpu(list[i])] = PORT_RC_GRANTED;
}

/* Grants all that was returned. WRITE: the list of slots goes first: on one QP the count arrives
 * after it. The greeting may grant nothing new. The caller then sends the count, rx.advertised, and
 * counts that message. */
SPW_INLINE void port_rc_grant_lists(struct port_rc_queue *q, struct port_rc_peer *p,
				    port_rc_list_fn *send)
{
	uint32_t first = p->rx.advertised, cnt = p->rx.returned - first, ring = p->remote.ring_cnt,
		 part = SPW_MIN(cnt, ring - (first & (ring - 1)));

	if (q->flags & PORT_RC_WRITE && cnt) {
		send(q, p, first, part);
		if (part < cnt)
			send(q, p, first + part, cnt - part);
	}
	p->rx.advertised = p->rx.returned;
}

#endif
