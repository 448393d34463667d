/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * An RC queue and its peers laid over their memory: checks of every size, and the first contents of
 * the rings (queue.h has the contracts). Called at set-up by port.c and obj.c, and by recover.c.
 *
 * What this file guarantees, and the bursts rely on without looking again:
 *
 *   every ring is a power of 2            positions run freely and are masked
 *   CQ >= all that can be posted to it    a CQ never overruns: no burst looks for that
 *   SRQ >= receives of all peers + 1      its last free WQE is never posted
 *   qpn -> peer in one multiplication     mlx5_rc_find_build; unknown QPs find the nobody peer
 *   a WQE's constant fields are written   a refill stores the address only
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
	const bool srq = conf->rc.flags & PORT_RC_SRQ;
	int rc = mlx5_rc_check_ring("receive completion queue", conf->cq.cnt, 1, 1u << 22);

	if (!rc)
		rc = mlx5_rc_check_ring("send completion queue", conf->tx_cq.cnt, 1, 1u << 22);
	if (!rc && (conf->cq.stride != MLX5_CQE_BYTES || conf->tx_cq.stride != MLX5_CQE_BYTES))
		rc = spw_err(EINVAL,
			     "mlx5 rc: completion entries must be 64 bytes; unset MLX5_CQE_SIZE");
	if (!rc && !mlx5_rc_rx_variant(conf->rc.flags))
		rc = spw_err(EINVAL, "mlx5 rc: no receive variant has the flags 0x%x",
			     conf->rc.flags);
	if (!rc && srq)
		rc = mlx5_rc_check_ring("shared receive queue", conf->srq.cnt, 2, 1u << 15);
	if (!rc && srq && conf->srq.stride < 32)
		rc = spw_err(EINVAL, "mlx5 rc: shared receive entries of %u bytes hold no buffer",
			     conf->srq.stride);
	if (!rc && srq && conf->cq.cnt < conf->srq.cnt)
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
	bool srq = q->rc.flags & PORT_RC_SRQ;
	uint32_t rx = srq ? mem->rc.credits + SPW_PEER_CTRL_RESERVE : mem->rq.cnt,
		 tx = mem->rc.sq_limit, room = srq ? q->srq_mask : q->cq_mask + 1;

	for (uint32_t i = 0; i < q->rc.peer_cnt; i++) {
		const struct mlx5_rc_peer *p = mlx5_rc_peer_at(q, i);

		if (i == local || p->qpn == UINT32_MAX)
			continue;
		rx += srq ? p->rc.credits + SPW_PEER_CTRL_RESERVE : p->rc.rq_mask + 1;
		tx += p->rc.sq_limit;
	}
	if (rx > room)
		return spw_err(EINVAL, "mlx5 rc: %u receives of all peers exceed the %u of the %s",
			       rx, room, srq ? "shared receive queue" : "completion queue");
	if (tx > q->tx_cq_mask + 1)
		return spw_err(EINVAL,
			       "mlx5 rc: %u sends of all peers exceed the completion queue of %u",
			       tx, q->tx_cq_mask + 1);
	return 0;
}

static int mlx5_rc_check_peer(const struct mlx5_rc_queue *q, uint32_t local,
			      const struct mlx5_rc_peermem *mem)
{
	int rc = mlx5_rc_check_ring("send queue", mem->sq.cnt, 64, 1u << 15);

	if (!rc && !(q->rc.flags & PORT_RC_SRQ))
		rc = mlx5_rc_check_ring("receive queue", mem->rq.cnt, 1, 1u << 15);
	if (!rc && mem->sq.qpn >> 24)
		rc = spw_err(EINVAL, "mlx5 rc: peer %u has a QP 0x%x", local, mem->sq.qpn);
	return rc ? rc : mlx5_rc_check_sum(q, local, mem);
}

/* ---- queue ---- */

/* An SRQ is a list: the NIC follows the index in each WQE's next segment, so a WQE that was
 * consumed out of order can be linked in again at the tail. The tail itself stays free, because
 * linking after it would change a WQE that the NIC owns. WRITE: no WQE has a buffer. */
static void mlx5_rc_init_srq(struct mlx5_rc_queue *q, const struct mlx5_rqmem *srq)
{
	bool write = q->rc.flags & PORT_RC_WRITE;

	q->srq = srq->buf;
	q->srq_db = srq->dbrec;
	q->srq_mask = srq->cnt - 1;
	q->srq_shift = spw_log2_floor64(srq->stride);
	q->srq_tail = q->srq_mask;
	for (uint32_t i = 0; i < srq->cnt; i++) {
		uint8_t *wqe = mlx5_rc_srq_wqe(q, i);

		memset(wqe, 0, srq->stride);
		q->srq_next[i] = (uint16_t)((i + 1) & q->srq_mask);
		q->srq_slot[i] = PORT_RC_NO_SLOT;
		spw_prm_wqe_srq_next_set_next_wqe_index(wqe, q->srq_next[i]);
		spw_prm_wqe_data_set_byte_count(wqe + 16, write ? 0 : q->rc.room_bytes);
		spw_prm_wqe_data_set_lkey(wqe + 16, write ? SPW_PRM_INVALID_LKEY : srq->lkey);
		if (!write && srq->stride > 32)
			spw_prm_wqe_data_set_lkey(wqe + 32, SPW_PRM_INVALID_LKEY);
	}
}

/* Until a peer is attached every QP number finds the nobody peer. A failed allocation leaves the
 * others to mlx5_rc_queue_fini. */
static int mlx5_rc_init_tables(struct mlx5_rc_queue *q, uint32_t srq_cnt)
{
	q->srq_slot = calloc(srq_cnt + 1, sizeof(*q->srq_slot));
	q->srq_next = calloc(srq_cnt + 1, sizeof(*q->srq_next));
	q->find.peer = calloc(2, sizeof(struct mlx5_rc_peer *));
	if (!q->srq_slot || !q->srq_next || !q->find.peer)
		return spw_err(ENOMEM, "mlx5 rc: no memory for the tables of queue %u",
			       q->rc.index);
	for (uint32_t i = 0; i <= q->rc.peer_cnt; i++)
		mlx5_rc_peer_at(q, i)->qpn = UINT32_MAX;
	q->find.shift = 31;
	q->find.peer[0] = q->find.peer[1] = mlx5_rc_peer_at(q, q->rc.peer_cnt);
	return 0;
}

static void mlx5_rc_lay_cqs(struct mlx5_rc_queue *q, const struct mlx5_rc_queue_conf *conf)
{
	q->cqe = conf->cq.buf;
	q->cq_mask = conf->cq.cnt - 1;
	q->cq_log2 = spw_log2_floor64(conf->cq.cnt);
	q->cq_db = conf->cq.dbrec ? conf->cq.dbrec : &q->db_ignored[0];
	q->tx_cqe = conf->tx_cq.buf;
	q->tx_cq_mask = conf->tx_cq.cnt - 1;
	q->tx_cq_log2 = spw_log2_floor64(conf->tx_cq.cnt);
	q->tx_cq_db = conf->tx_cq.dbrec ? conf->tx_cq.dbrec : &q->db_ignored[1];
}

/* *q is cleared but for what port_rc_queue_renew keeps, so that mlx5_rc_queue_fini may follow a
 * failure. A CQ without a doorbell record (a test's) stores its index into db_ignored: the bursts
 * have no branch for it. */
int mlx5_rc_queue_init(struct mlx5_rc_queue *q, const struct mlx5_rc_queue_conf *conf)
{
	struct port_rc_queue_conf rc_conf = conf->rc;
	int rc = mlx5_rc_check_queue(conf);

	*q = (struct mlx5_rc_queue){.rc = q->rc};
	port_rc_queue_renew(&q->rc);
	if (rc)
		return rc;
	rc_conf.ops = &mlx5_rc_ops;
	rc_conf.peer_bytes = sizeof(struct mlx5_rc_peer);
	rc = port_rc_queue_init(&q->rc, &rc_conf);
	rc = rc ? rc : mlx5_rc_init_tables(q, conf->srq.cnt);
	if (rc) {
		mlx5_rc_queue_fini(q);
		return rc;
	}
	mlx5_rc_lay_cqs(q, conf);
	if (q->rc.flags & PORT_RC_SRQ)
		mlx5_rc_init_srq(q, &conf->srq);
	return 0;
}

/* ---- peers ---- */

/* Fills table with one multiplier; false if two QPs fall into one entry. */
static bool mlx5_rc_find_fits(struct mlx5_rc_queue *q, struct mlx5_rc_peer **table, uint32_t mul,
			      uint32_t shift)
{
	struct mlx5_rc_peer *nobody = mlx5_rc_peer_at(q, q->rc.peer_cnt);

	for (uint32_t i = 0; i < 1u << (32 - shift); i++)
		table[i] = nobody;
	for (uint32_t i = 0; i < q->rc.peer_cnt; i++) {
		struct mlx5_rc_peer *p = mlx5_rc_peer_at(q, i),
				    **entry = &table[(p->qpn * mul) >> shift];

		if (p->qpn == UINT32_MAX)
			continue;
		if (*entry != nobody)
			return false;
		*entry = p;
	}
	return true;
}

/* Tries multipliers until no two QP numbers collide. With at least four entries per peer the search
 * is short. */
static int mlx5_rc_find_build(struct mlx5_rc_queue *q)
{
	uint32_t mul = 0x9e3779b1u; /* odd, about 2^32 / golden ratio */

	for (uint32_t bits = spw_log2_floor64(q->rc.peer_cnt) + 3; bits <= 16; bits++) {
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
		       q->rc.index);
}

/* Sets the constant fields of each receive WQE. WRITE: a WQE has no buffer. */
static void mlx5_rc_attach_rq(struct mlx5_rc_queue *q, struct mlx5_rc_peer *p,
			      const struct mlx5_rqmem *rq)
{
	bool write = q->rc.flags & PORT_RC_WRITE;

	p->wqe = rq->buf;
	p->rq_db = rq->dbrec;
	p->rq_shift = spw_log2_floor64(rq->stride);
	for (uint32_t i = 0; i < rq->cnt; i++) {
		uint8_t *seg = p->wqe + (size_t)i * rq->stride;

		memset(seg, 0, rq->stride);
		spw_prm_wqe_data_set_byte_count(seg, write ? 0 : q->rc.room_bytes);
		spw_prm_wqe_data_set_lkey(seg, SPW_PRM_INVALID_LKEY);
		if (!write && rq->stride > 16)
			spw_prm_wqe_data_set_lkey(seg + 16, SPW_PRM_INVALID_LKEY);
	}
}

/* bf_toggle is 0 unless the register belongs to this queue alone (obj.c): a BlueFlame write by two
 * threads would mix their WQEs. */
static void mlx5_rc_attach_sq(struct mlx5_rc_peer *p, const struct mlx5_sqmem *sq)
{
	p->sq = sq->buf;
	p->sq_db = sq->dbrec;
	p->qpn = sq->qpn;
	p->bf = sq->bf;
	p->bf_toggle = sq->bf_bytes;
}

/* After an error some tables of the peer may exist; mlx5_rc_queue_fini frees them. */
int mlx5_rc_attach(struct mlx5_rc_queue *q, uint32_t local, const struct mlx5_rc_peermem *mem)
{
	struct port_rc_peer_conf conf = mem->rc;
	int rc = mlx5_rc_check_peer(q, local, mem);

	conf.sq_cnt = mem->sq.cnt;
	conf.rq_cnt = q->rc.flags & PORT_RC_SRQ ? 0 : mem->rq.cnt;
	rc = rc ? rc : port_rc_attach(&q->rc, local, &conf);
	if (rc)
		return rc;
	mlx5_rc_attach_sq(mlx5_rc_peer_at(q, local), &mem->sq);
	if (!(q->rc.flags & PORT_RC_SRQ))
		mlx5_rc_attach_rq(q, mlx5_rc_peer_at(q, local), &mem->rq);
	return mlx5_rc_find_build(q);
}

/* WQEs hold the key, so it is stored into every receive WQE here; a refill never does. The peers of
 * an SRQ share one key. */
static void mlx5_rc_begin(struct port_rc_queue *rc, struct port_rc_peer *peer)
{
	struct mlx5_rc_queue *q = mlx5_rc_queue_of(rc);
	struct mlx5_rc_peer *p = mlx5_rc_peer_of(peer);

	p->sq_rung = peer->sq_pi;
	if (rc->flags & PORT_RC_WRITE)
		return;
	for (uint32_t i = 0; p->wqe && i <= peer->rq_mask; i++)
		spw_prm_wqe_data_set_lkey(p->wqe + ((size_t)i << p->rq_shift), peer->lkey);
	for (uint32_t i = 0; q->srq && i <= q->srq_mask; i++)
		spw_prm_wqe_data_set_lkey(mlx5_rc_srq_wqe(q, i) + 16, peer->lkey);
}

static void mlx5_rc_srq_empty(struct port_rc_queue *rc)
{
	struct mlx5_rc_queue *q = mlx5_rc_queue_of(rc);

	for (uint32_t idx = 0; idx <= q->srq_mask; idx++)
		if (mlx5_rc_srq_is_posted(q, idx))
			rc->stack.slot[rc->stack.cnt++] = mlx5_rc_srq_take(q, idx);
}

const struct port_rc_ops mlx5_rc_ops = {
	.settle = mlx5_rc_settle,
	.reap = mlx5_rc_reap,
	.grant = mlx5_rc_grant,
	.mark = mlx5_rc_mark,
	.has_unread = mlx5_rc_has_unread,
	.begin = mlx5_rc_begin,
	.srq_empty = mlx5_rc_srq_empty,
};

void mlx5_rc_queue_fini(struct mlx5_rc_queue *q)
{
	port_rc_queue_fini(&q->rc);
	free(q->srq_slot);
	free(q->srq_next);
	free(q->find.peer);
	*q = (struct mlx5_rc_queue){0};
}

void mlx5_rc_queue_calls(struct mlx5_rc_queue *q, struct spw_port_queue *pq)
{
	*pq = (struct spw_port_queue){
		.rx_burst = mlx5_rc_rx_variant(q->rc.flags),
		.release_burst = port_rc_release,
		.tx_burst = mlx5_rc_tx_variant(q->rc.flags),
		.lend_burst = port_rc_lend,
		.q = q,
	};
}
