/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * An RC queue and its peers laid over their memory: checks of every size, first contents of the
 * rings, state changes, and where the slots are (queue.h has the contracts). Called at set-up by
 * port.c and obj.c, and by turn.c and recover.c outside the bursts.
 *
 * What this file guarantees, and the bursts rely on without looking again:
 *
 *   every ring is a power of 2            positions run freely and are masked
 *   CQ >= all that can be posted to it    a CQ never overruns: no burst looks for that
 *   SRQ >= receives of all peers + 1      its last free WQE is never posted
 *   qpn -> peer in one multiplication     mlx5_rc_find_build; unknown QPs find the nobody peer
 *   a WQE's constant fields are written   a refill stores the address only
 *
 * What this file does to a peer, between the states of spw_peer_side.h:
 *
 *   mlx5_rc_attach   once: its rings, tables, slots          side DOWN
 *   mlx5_rc_post     keys, credits; receives posted          DOWN -> POSTED
 *   mlx5_rc_up       the peer's limits, its first grants     POSTED -> UP
 *   mlx5_rc_reset    (err.c) back to empty rings             any -> DOWN
 *
 * The last entry of peer[] is the nobody peer: never UP, without slots or rings. It saves the
 * bursts a test for "no such peer" at each CQE and each descriptor.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "port/mlx5/rc/inline.h"

/* ---- shape ---- */

static int mlx5_rc_check_ring(const char *what, uint32_t cnt, uint32_t min, uint32_t max)
{
	if (!SPW_IS_POW2(cnt) || cnt < min || cnt > max)
		return spw_err(EINVAL,
			       "mlx5 rc: %s of %u entries is not a power of 2 from %u to %u", what,
			       cnt, min, max);
	return 0;
}

/* Sizes come from rdma-core, which the environment can change (MLX5_CQE_SIZE), or from a test:
 * nothing is taken for granted that would make a burst leave its memory. */
static int mlx5_rc_check_queue(const struct mlx5_rc_queue_conf *conf)
{
	int rc = mlx5_rc_check_ring("receive completion queue", conf->cq.cnt, 1, 1u << 22);

	if (!rc)
		rc = mlx5_rc_check_ring("send completion queue", conf->tx_cq.cnt, 1, 1u << 22);
	if (!rc && (conf->cq.stride != MLX5_CQE_BYTES || conf->tx_cq.stride != MLX5_CQE_BYTES))
		rc = spw_err(EINVAL,
			     "mlx5 rc: completion entries must be 64 bytes; unset MLX5_CQE_SIZE");
	if (!rc && !mlx5_rc_rx_variant(conf->flags))
		rc = spw_err(EINVAL, "mlx5 rc: no receive variant has the flags 0x%x", conf->flags);
	if (!rc && (conf->peer_cnt == 0 || conf->peer_cnt > MLX5_RC_PEER_MAX))
		rc = spw_err(EINVAL, "mlx5 rc: %u peers on a queue are not 1 .. %u", conf->peer_cnt,
			     MLX5_RC_PEER_MAX);
	if (!rc && conf->flags & MLX5_RC_SRQ)
		rc = mlx5_rc_check_ring("shared receive queue", conf->srq.cnt, 2, 1u << 15);
	if (!rc && conf->flags & MLX5_RC_SRQ && conf->srq.stride < 32)
		rc = spw_err(EINVAL, "mlx5 rc: shared receive entries of %u bytes hold no buffer",
			     conf->srq.stride);
	if (!rc && conf->flags & MLX5_RC_SRQ && conf->cq.cnt < conf->srq.cnt)
		rc = spw_err(EINVAL,
			     "mlx5 rc: a completion queue of %u entries can overrun: %u receives "
			     "may be posted",
			     conf->cq.cnt, conf->srq.cnt);
	return rc;
}

/* The rings that peers share must hold everything that all of them may have posted. */
static int mlx5_rc_check_sum(const struct mlx5_rc_queue *q, uint32_t local,
			     const struct mlx5_rc_peermem *mem)
{
	bool srq = q->flags & MLX5_RC_SRQ;
	uint32_t rx = srq ? mem->credits + SPW_PEER_CTRL_RESERVE : mem->rq.cnt, tx = mem->sq_limit;
	uint32_t room = srq ? q->srq_mask : q->cq_mask + 1;

	for (uint32_t i = 0; i < q->peer_cnt; i++) {
		const struct mlx5_rc_peer *p = &q->peer[i];

		if (i == local || p->qpn == UINT32_MAX)
			continue;
		rx += srq ? p->credits + SPW_PEER_CTRL_RESERVE : p->rq_mask + 1;
		tx += p->sq_limit;
	}
	if (rx > room)
		return spw_err(EINVAL, "mlx5 rc: %u receives of all peers exceed the %u of the %s",
			       rx, room, srq ? "shared receive queue" : "completion queue");
	if (tx > q->tx_cq_mask + 1)
		return spw_err(EINVAL,
			       "mlx5 rc: %u sends of all peers exceed the completion queue of %u",
			       tx, q->tx_cq_mask + 1);
	if (mem->sq_limit < 64 || mem->sq_limit > mem->sq.cnt)
		return spw_err(EINVAL, "mlx5 rc: %u sends of a peer are not 64 .. %u",
			       mem->sq_limit, mem->sq.cnt);
	return mlx5_rc_check_ring("send queue", mem->sq.cnt, 64, 1u << 15);
}

/* slot_cnt exceeds the credits by SPW_PEER_CTRL_RESERVE with op=send, where a control message takes
 * a receive and so a slot; with op=write it takes a receive without a slot. The range check is
 * written so that slot_first + slot_cnt cannot wrap. */
static int mlx5_rc_check_peer(const struct mlx5_rc_queue *q, uint32_t local,
			      const struct mlx5_rc_peermem *mem)
{
	uint32_t reserve = q->flags & MLX5_RC_WRITE ? 0 : SPW_PEER_CTRL_RESERVE;

	if (local >= q->peer_cnt || mem->index >= q->index_cnt || mem->sq.qpn >> 24)
		return spw_err(EINVAL, "mlx5 rc: peer %u as %u with QP 0x%x is none of this queue",
			       local, mem->index, mem->sq.qpn);
	if (mem->credits == 0 || mem->credits > SPW_PEER_CREDIT_MAX ||
	    mem->credits + reserve > mem->slot_cnt || mem->slot_cnt > q->pool->slot_cnt ||
	    mem->slot_first > q->pool->slot_cnt - mem->slot_cnt)
		return spw_err(EINVAL, "mlx5 rc: %u credits do not fit slots %u + %u of %u",
			       mem->credits, mem->slot_first, mem->slot_cnt, q->pool->slot_cnt);
	if (q->flags & MLX5_RC_WRITE &&
	    (!mem->ring_in || !mem->ring_out || mem->slot_cnt != mem->credits))
		return spw_err(EINVAL,
			       "mlx5 rc: op=write wants grant rings, and a credit for each slot");
	if (!(q->flags & MLX5_RC_SRQ) && mem->rq.cnt < mem->credits + SPW_PEER_CTRL_RESERVE)
		return spw_err(EINVAL,
			       "mlx5 rc: a receive queue of %u entries is too small for %u credits "
			       "and %u more",
			       mem->rq.cnt, mem->credits, SPW_PEER_CTRL_RESERVE);
	return mlx5_rc_check_sum(q, local, mem);
}

/* ---- queue ---- */

/* An SRQ is a list: the NIC follows the index in each WQE's next segment, so a WQE that was
 * consumed out of order can be linked in again at the tail. The tail itself stays free, because
 * linking after it would change a WQE that the NIC owns. WRITE: no WQE has a buffer. */
static void mlx5_rc_init_srq(struct mlx5_rc_queue *q, const struct mlx5_rqmem *srq)
{
	bool write = q->flags & MLX5_RC_WRITE;

	q->srq = srq->buf;
	q->srq_db = srq->dbrec;
	q->srq_mask = srq->cnt - 1;
	q->srq_shift = spw_log2_floor64(srq->stride);
	q->srq_free = srq->cnt;
	q->srq_tail = q->srq_mask;
	for (uint32_t i = 0; i < srq->cnt; i++) {
		uint8_t *wqe = mlx5_rc_srq_wqe(q, i);

		memset(wqe, 0, srq->stride);
		q->srq_next[i] = (uint16_t)((i + 1) & q->srq_mask);
		q->srq_slot[i] = MLX5_RC_NO_SLOT;
		spw_prm_wqe_srq_next_set_next_wqe_index(wqe, q->srq_next[i]);
		spw_prm_wqe_data_set_byte_count(wqe + 16, write ? 0 : q->room_bytes);
		spw_prm_wqe_data_set_lkey(wqe + 16, write ? SPW_PRM_INVALID_LKEY : srq->lkey);
		if (!write && srq->stride > 32)
			spw_prm_wqe_data_set_lkey(wqe + 32, SPW_PRM_INVALID_LKEY);
	}
}

/* slot_state and owner are by slot of the whole pool, so that a slot number of a release needs no
 * translation. Until a peer is attached every QP number and every index finds the nobody peer. A
 * failed allocation leaves the others to mlx5_rc_queue_fini. */
static int mlx5_rc_init_tables(struct mlx5_rc_queue *q, const struct mlx5_rc_queue_conf *conf)
{
	uint32_t slots = conf->pool->slot_cnt;

	q->peer = aligned_alloc(64, (q->peer_cnt + 1) * sizeof(*q->peer));
	q->by_index = calloc(q->index_cnt, sizeof(struct mlx5_rc_peer *));
	q->todo = calloc(q->peer_cnt + 1, sizeof(struct mlx5_rc_peer *));
	q->owner = malloc(slots * sizeof(*q->owner));
	q->slot_state = calloc(slots, 1);
	q->stack.slot = calloc(slots, sizeof(*q->stack.slot));
	q->srq_slot = calloc(conf->srq.cnt + 1, sizeof(*q->srq_slot));
	q->srq_next = calloc(conf->srq.cnt + 1, sizeof(*q->srq_next));
	q->find.peer = calloc(2, sizeof(struct mlx5_rc_peer *));
	if (!q->peer || !q->by_index || !q->todo || !q->owner || !q->slot_state || !q->stack.slot ||
	    !q->srq_slot || !q->srq_next || !q->find.peer)
		return spw_err(ENOMEM, "mlx5 rc: no memory for the tables of queue %u", q->index);
	memset(q->peer, 0, (q->peer_cnt + 1) * sizeof(*q->peer));
	memset(q->owner, 0xff, slots * sizeof(*q->owner));
	for (uint32_t i = 0; i <= q->peer_cnt; i++) {
		q->peer[i].qpn = UINT32_MAX;
		q->peer[i].stack = conf->flags & MLX5_RC_SRQ ? &q->stack : &q->peer[i].own;
	}
	for (uint32_t i = 0; i < q->index_cnt; i++)
		q->by_index[i] = &q->peer[q->peer_cnt];
	q->find.shift = 31;
	q->find.peer[0] = q->find.peer[1] = &q->peer[q->peer_cnt];
	return 0;
}

/* *q is cleared in any case, so that mlx5_rc_queue_fini may follow a failure. A CQ without a
 * doorbell record (a test's) stores its index into db_ignored: the bursts have no branch for it. */
int mlx5_rc_queue_init(struct mlx5_rc_queue *q, const struct mlx5_rc_queue_conf *conf)
{
	int rc = mlx5_rc_check_queue(conf);

	*q = (struct mlx5_rc_queue){.flags = conf->flags, .index = conf->index};
	if (rc)
		return rc;
	q->cqe = conf->cq.buf;
	q->cq_mask = conf->cq.cnt - 1;
	q->cq_log2 = spw_log2_floor64(conf->cq.cnt);
	q->cq_db = conf->cq.dbrec ? conf->cq.dbrec : &q->db_ignored[0];
	q->tx_cqe = conf->tx_cq.buf;
	q->tx_cq_mask = conf->tx_cq.cnt - 1;
	q->tx_cq_log2 = spw_log2_floor64(conf->tx_cq.cnt);
	q->tx_cq_db = conf->tx_cq.dbrec ? conf->tx_cq.dbrec : &q->db_ignored[1];
	q->pool = conf->pool;
	q->room_bytes = (uint32_t)SPW_MIN(conf->pool->slot_bytes, (size_t)SPW_DESC_LEN_MAX);
	q->desc_tail = conf->pool->region->id | (uint64_t)conf->port << 16;
	q->peer_cnt = conf->peer_cnt;
	q->index_cnt = conf->index_cnt;
	rc = mlx5_rc_init_tables(q, conf);
	if (rc)
		mlx5_rc_queue_fini(q);
	else if (q->flags & MLX5_RC_SRQ)
		mlx5_rc_init_srq(q, &conf->srq);
	return rc;
}

/* ---- peers ---- */

/* Fills table with one multiplier; false if two QPs fall into one entry. */
static bool mlx5_rc_find_fits(struct mlx5_rc_queue *q, struct mlx5_rc_peer **table, uint32_t mul,
			      uint32_t shift)
{
	struct mlx5_rc_peer *nobody = &q->peer[q->peer_cnt];

	for (uint32_t i = 0; i < 1u << (32 - shift); i++)
		table[i] = nobody;
	for (uint32_t i = 0; i < q->peer_cnt; i++) {
		struct mlx5_rc_peer **entry = &table[(q->peer[i].qpn * mul) >> shift];

		if (q->peer[i].qpn == UINT32_MAX)
			continue;
		if (*entry != nobody)
			return false;
		*entry = &q->peer[i];
	}
	return true;
}

/* Tries multipliers until no two QP numbers collide. With at least four entries per peer the search
 * is short. */
static int mlx5_rc_find_build(struct mlx5_rc_queue *q)
{
	uint32_t mul = 0x9e3779b1u; /* odd, about 2^32 / golden ratio */

	for (uint32_t bits = spw_log2_floor64(q->peer_cnt) + 3; bits <= 16; bits++) {
		struct mlx5_rc_peer **table =
			calloc((size_t)1 << bits, sizeof(struct mlx5_rc_peer *));

		if (!table)
			break;
		for (uint32_t i = 0; i < 256; i++, mul = mul * 1664525u + 1013904222u) {
			if (!mlx5_rc_find_fits(q, table, mul | 1u, 32 - bits))
				continue;
			free(q->find.peer);
			q->find = (struct mlx5_rc_find){mul | 1u, 32 - bits, table};
			return 0;
		}
		free(table);
	}
	return spw_err(ENOMEM, "mlx5 rc: no memory for the table of QP numbers of queue %u",
		       q->index);
}

/* Sets the constant fields of each receive WQE. WRITE: a WQE has no buffer. */
static int mlx5_rc_attach_rq(struct mlx5_rc_queue *q, struct mlx5_rc_peer *p,
			     const struct mlx5_rqmem *rq)
{
	bool write = q->flags & MLX5_RC_WRITE;

	p->wqe = rq->buf;
	p->rq_db = rq->dbrec;
	p->rq_mask = rq->cnt - 1;
	p->rq_shift = spw_log2_floor64(rq->stride);
	for (uint32_t i = 0; i < rq->cnt; i++) {
		uint8_t *seg = p->wqe + (size_t)i * rq->stride;

		memset(seg, 0, rq->stride);
		spw_prm_wqe_data_set_byte_count(seg, write ? 0 : q->room_bytes);
		spw_prm_wqe_data_set_lkey(seg, SPW_PRM_INVALID_LKEY);
		if (!write && rq->stride > 16)
			spw_prm_wqe_data_set_lkey(seg + 16, SPW_PRM_INVALID_LKEY);
	}
	p->slot_of = calloc(rq->cnt, sizeof(*p->slot_of));
	return mlx5_rc_check_ring("receive queue", rq->cnt, 1, 1u << 15);
}

/* bf_toggle is 0 unless the register belongs to this queue alone (obj.c): a BlueFlame write by two
 * threads would mix their WQEs. */
static void mlx5_rc_attach_sq(struct mlx5_rc_peer *p, const struct mlx5_sqmem *sq, uint32_t limit)
{
	p->sq = sq->buf;
	p->sq_db = sq->dbrec;
	p->sq_mask = sq->cnt - 1;
	p->sq_limit = limit;
	p->qpn = sq->qpn;
	p->bf = sq->bf;
	p->bf_toggle = sq->bf_bytes;
	p->sent = calloc(sq->cnt, sizeof(*p->sent));
}

/* The slots are pushed from the last to the first, so the first receive takes the first slot.
 * WRITE: none is pushed, since slots are granted, not posted. */
static int mlx5_rc_attach_slots(struct mlx5_rc_queue *q, struct mlx5_rc_peer *p,
				const struct mlx5_rc_peermem *mem)
{
	p->slot_first = mem->slot_first;
	p->slot_cnt = mem->slot_cnt;
	p->credits = mem->credits;
	p->own.slot = calloc(p->slot_cnt, sizeof(*p->own.slot));
	p->wait_mask = spw_pow2_ceil32(p->slot_cnt) - 1;
	p->wait = calloc(p->wait_mask + 1, sizeof(*p->wait));
	if (!p->own.slot || !p->wait)
		return -ENOMEM;
	for (uint32_t slot = p->slot_first + p->slot_cnt; slot-- > p->slot_first;) {
		q->owner[slot] = (uint16_t)(p - q->peer);
		if (!(q->flags & MLX5_RC_WRITE))
			p->stack->slot[p->stack->cnt++] = slot;
	}
	return 0;
}

/* After an error some tables of the peer may exist; mlx5_rc_queue_fini frees them. */
int mlx5_rc_attach(struct mlx5_rc_queue *q, uint32_t local, const struct mlx5_rc_peermem *mem)
{
	int rc = mlx5_rc_check_peer(q, local, mem);

	if (rc)
		return rc;
	struct mlx5_rc_peer *p = &q->peer[local];

	mlx5_rc_attach_sq(p, &mem->sq, mem->sq_limit);
	if (!(q->flags & MLX5_RC_SRQ))
		rc = mlx5_rc_attach_rq(q, p, &mem->rq);
	p->ring_out = mem->ring_out;
	p->ring_in = mem->ring_in;
	p->index = mem->index;
	if (rc || !p->sent || (!(q->flags & MLX5_RC_SRQ) && !p->slot_of) ||
	    mlx5_rc_attach_slots(q, p, mem))
		return rc ? rc
			  : spw_err(ENOMEM, "mlx5 rc: no memory for the tables of peer %u",
				    mem->index);
	q->by_index[mem->index] = p;
	return mlx5_rc_find_build(q);
}

/* The shared receives are posted without a peer: settling refills the SRQ from the stack of all
 * peers. */
void mlx5_rc_post_shared(struct mlx5_rc_queue *q)
{
	mlx5_rc_settle(q);
}

/* Both keys may change between two connections (peer_link_rekey, or a revoked key). WQEs hold the
 * key, so it is stored into every receive WQE here; a refill never does. The peers of an SRQ share
 * one key. */
static void mlx5_rc_set_keys(struct mlx5_rc_queue *q, struct mlx5_rc_peer *p, uint32_t lkey,
			     uint32_t ring_lkey)
{
	p->lkey = lkey;
	p->ring_lkey = ring_lkey;
	if (q->flags & MLX5_RC_WRITE)
		return;
	for (uint32_t i = 0; p->wqe && i <= p->rq_mask; i++)
		spw_prm_wqe_data_set_lkey(p->wqe + ((size_t)i << p->rq_shift), lkey);
	for (uint32_t i = 0; q->srq && i <= q->srq_mask; i++)
		spw_prm_wqe_data_set_lkey(mlx5_rc_srq_wqe(q, i) + 16, lkey);
}

/* The first credits are slots 0 .. credits - 1, in this order, at both ends. */
void mlx5_rc_post(struct mlx5_rc_queue *q, struct mlx5_rc_peer *p, uint32_t lkey,
		  uint32_t ring_lkey)
{
	mlx5_rc_set_keys(q, p, lkey, ring_lkey);
	spw_peer_rx_credit_start(&p->rx, p->credits);
	if (q->flags & MLX5_RC_WRITE)
		memset(&q->slot_state[p->slot_first], MLX5_RC_GRANTED, p->slot_cnt);
	p->side = SPW_PEER_SIDE_POSTED;
	mlx5_rc_enlist(q, p);
	mlx5_rc_settle(q);
}

/* The peer's limits are checked again, although message.c has: they index our memory. The first W
 * grants are 0 .. W-1 by definition and are written here by this side. The peer cannot write into
 * the ring at the same time: it grants again only what we have used, and nothing has been sent
 * yet. */
int mlx5_rc_up(struct mlx5_rc_queue *q, struct mlx5_rc_peer *p, const struct mlx5_rc_remote *remote)
{
	if (remote->credits == 0 || remote->credits > SPW_PEER_CREDIT_MAX)
		return spw_err(EPROTO, "mlx5 rc: peer %u grants %u credits, not 1 .. %u", p->index,
			       remote->credits, SPW_PEER_CREDIT_MAX);
	if (q->flags & MLX5_RC_WRITE &&
	    (!SPW_IS_POW2(remote->ring_cnt) || remote->ring_cnt < p->credits ||
	     remote->ring_cnt > SPW_PEER_CREDIT_MAX))
		return spw_err(EPROTO,
			       "mlx5 rc: peer %u has a grant ring of %u entries for %u credits",
			       p->index, remote->ring_cnt, p->credits);
	for (uint32_t i = 0; q->flags & MLX5_RC_WRITE && i < remote->credits; i++)
		p->ring_in[i] = spw_cpu_to_be32(i);
	p->raddr = remote->slot_addr;
	p->rstride = remote->slot_stride;
	p->rkey = remote->slot_rkey;
	p->ring_raddr = remote->ring_addr;
	p->ring_rkey = remote->ring_rkey;
	p->ring_rmask = remote->ring_cnt - 1;
	p->msg_max = remote->msg_max;
	spw_peer_tx_credit_start(&p->tx, remote->credits);
	mlx5_rc_wait_return(q, p, p->msg_max); /* accepted before the limit was known */
	p->side = SPW_PEER_SIDE_UP;
	mlx5_rc_enlist(q, p);
	return 0;
}

/* ---- slots ---- */

/* SEND: reset moves a peer's posted slots to its own stack, and an SRQ's slots are taken out here.
 * WRITE: slots that are granted are no receive's, so they are found by their state. With slot_cnt 0
 * and owner NOBODY, a slot that is still lent goes to the pool when it is released. */
void mlx5_rc_return_slots(struct mlx5_rc_queue *q)
{
	for (uint32_t i = 0; i < q->peer_cnt; i++) {
		struct mlx5_rc_peer *p = &q->peer[i];

		mlx5_rc_reset(q, p);
		spw_pool_put(q->pool, p->own.slot, p->own.cnt);
		p->own.cnt = 0;
		for (uint32_t slot = p->slot_first; slot < p->slot_first + p->slot_cnt; slot++)
			if (q->flags & MLX5_RC_WRITE && q->slot_state[slot] != MLX5_RC_LENT)
				spw_pool_put(q->pool, &slot, 1);
		p->slot_cnt = 0;
	}
	for (uint32_t idx = 0; q->srq && idx <= q->srq_mask; idx++)
		if (mlx5_rc_srq_is_posted(q, idx) && !(q->flags & MLX5_RC_WRITE))
			q->stack.slot[q->stack.cnt++] = mlx5_rc_srq_take(q, idx);
	if (q->pool) {
		spw_pool_put(q->pool, q->stack.slot, q->stack.cnt);
		memset(q->owner, 0xff, q->pool->slot_cnt * sizeof(*q->owner));
	}
	q->stack.cnt = q->todo_cnt = 0;
}

void mlx5_rc_queue_fini(struct mlx5_rc_queue *q)
{
	for (uint32_t i = 0; q->peer && i < q->peer_cnt; i++) {
		free(q->peer[i].sent);
		free(q->peer[i].slot_of);
		free(q->peer[i].own.slot);
		free(q->peer[i].wait);
	}
	free(q->peer);
	free(q->by_index);
	free(q->todo);
	free(q->owner);
	free(q->slot_state);
	free(q->stack.slot);
	free(q->srq_slot);
	free(q->srq_next);
	free(q->find.peer);
	*q = (struct mlx5_rc_queue){0};
}

/* Free, posted and granted slots all count as in RX: each is the port's, and none is lent. WRITE
 * counts states, not receives, since a receive has no slot. */
void mlx5_rc_queue_slots(const struct mlx5_rc_queue *q, struct spw_port_slots *slots_out)
{
	uint32_t in_rx = q->stack.cnt;

	if (q->flags & MLX5_RC_SRQ && !(q->flags & MLX5_RC_WRITE))
		in_rx += mlx5_rc_srq_posted_cnt(q);
	for (uint32_t i = 0; i < q->peer_cnt; i++) {
		const struct mlx5_rc_peer *p = &q->peer[i];

		in_rx += p->own.cnt;
		if (!(q->flags & MLX5_RC_WRITE))
			in_rx += p->rq_pi - p->rq_ci;
		for (uint32_t k = 0; q->flags & MLX5_RC_WRITE && k < p->slot_cnt; k++)
			in_rx += q->slot_state[p->slot_first + k] != MLX5_RC_LENT;
	}
	*slots_out =
		(struct spw_port_slots){.in_rx = in_rx, .lent = q->lent_cnt, .in_tx = q->in_tx_cnt};
}

/* ---- slots by burst ---- */

/* A released slot makes a credit or a receive of its peer possible; the next rx_burst settles that.
 */
static void mlx5_rc_release(void *vq, const uint32_t *slot, uint16_t cnt)
{
	struct mlx5_rc_queue *q = vq;

	for (uint16_t i = 0; i < cnt; i++)
		mlx5_rc_recycle(q, slot[i], q->flags);
	q->lent_cnt -= cnt;
}

/* From the pool only: slots of peers are for their messages and never serve a message that this
 * side starts. */
static uint16_t mlx5_rc_lend(void *vq, uint32_t *slot, uint16_t cnt)
{
	struct mlx5_rc_queue *q = vq;
	uint32_t n = spw_pool_get(q->pool, slot, cnt);

	q->lent_cnt += n;
	return (uint16_t)n;
}

void mlx5_rc_queue_calls(struct mlx5_rc_queue *q, struct spw_port_queue *pq)
{
	*pq = (struct spw_port_queue){
		.rx_burst = mlx5_rc_rx_variant(q->flags),
		.release_burst = mlx5_rc_release,
		.tx_burst = mlx5_rc_tx_variant(q->flags),
		.lend_burst = mlx5_rc_lend,
		.q = q,
	};
}
