/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#include "rc_hand.h"

#include <stdlib.h>
#include <string.h>

const unsigned rch_variants[RCH_VARIANT_CNT] = {
	0,
	MLX5_RC_STAMP,
	PORT_RC_SRQ,
	PORT_RC_SRQ | MLX5_RC_STAMP,
	PORT_RC_WRITE,
	PORT_RC_WRITE | MLX5_RC_STAMP,
	PORT_RC_WRITE | PORT_RC_SRQ,
	PORT_RC_WRITE | PORT_RC_SRQ | MLX5_RC_STAMP,
	MLX5_RC_COMPRESSED,
	MLX5_RC_COMPRESSED | PORT_RC_SRQ,
};

/* ---- set-up ---- */

static uint8_t *ring_new(size_t bytes)
{
	uint8_t *p = aligned_alloc(4096, SPW_ALIGN_UP(bytes + 1, (size_t)4096));

	memset(p, 0xa5, bytes); /* whatever was there before */
	return p;
}

static uint8_t *cq_new(uint32_t cnt)
{
	uint8_t *cq = ring_new((size_t)cnt * 64);

	for (uint32_t i = 0; i < cnt; i++)
		cq[i * 64 + 63] = 0xf0;
	return cq;
}

static uint32_t qp_slots(const struct rch_conf *c)
{
	return c->credits + (c->flags & PORT_RC_WRITE ? 0 : SPW_PEER_CTRL_RESERVE);
}

static int peer_open(struct rch *h, uint32_t i)
{
	const struct rch_conf *c = &h->conf;
	struct rch_qp *qp = &h->qp[i];
	struct mlx5_rc_peermem mem;

	qp->qpn = (c->qpn ? c->qpn : 0xabc000u) + i * 0x1001u;
	qp->sq = ring_new((size_t)c->sq_cnt * 64);
	qp->rq = ring_new((size_t)c->rq_cnt * 16);
	qp->ring_in = (void *)ring_new(SPW_PEER_CREDIT_MAX * 4);
	qp->ring_out = (void *)ring_new(SPW_PEER_CREDIT_MAX * 4);
	mem = (struct mlx5_rc_peermem){
		.rq = {qp->rq, &qp->db[0], c->rq_cnt, 16, RCH_LKEY, 0},
		.sq = {qp->sq, &qp->db[1], c->sq_cnt, qp->qpn, RCH_LKEY, h->uar + 0x800,
		       c->bf_bytes},
		.rc = {.ring_out = qp->ring_out,
		       .ring_in = qp->ring_in,
		       .sq_limit = c->sq_cnt,
		       .index = i * 2 + 1,
		       .slot_first = i * qp_slots(c),
		       .slot_cnt = qp_slots(c),
		       .credits = c->credits},
	};
	return mlx5_rc_attach(h->q, i, &mem);
}

static void take_slots(struct rch *h)
{
	uint32_t cnt = h->conf.peer_cnt * qp_slots(&h->conf), total = h->pool.slot_cnt;
	uint32_t *slot = calloc(total, sizeof(*slot)), back = 0;

	spw_pool_get(&h->pool, slot, total);
	for (uint32_t i = 0; i < total; i++)
		if (slot[i] >= cnt)
			slot[back++] = slot[i];
	spw_pool_put(&h->pool, slot, back);
	free(slot);
}

static int queue_open(struct rch *h)
{
	const struct rch_conf *c = &h->conf;
	struct mlx5_rc_queue_conf qc = {
		.cq = {h->cq, &h->db[0], c->cq_cnt, 64},
		.tx_cq = {h->tx_cq, &h->db[1], c->sq_cnt * 8, 64},
		.srq = {h->srq, &h->db[2], c->srq_cnt, 32, RCH_LKEY, 0},
		.rc = {.pool = &h->pool,
		       .flags = c->flags,
		       .peer_cnt = c->peer_cnt,
		       .index_cnt = c->peer_cnt * 2,
		       .index = 3,
		       .port = 5},
	};

	return mlx5_rc_queue_init(h->q, &qc);
}

int rch_open(struct rch *h, const struct rch_conf *conf)
{
	uint32_t slots = conf->peer_cnt * qp_slots(conf) + conf->slot_extra;
	size_t bytes = (size_t)conf->slot_bytes * slots;
	int rc;

	*h = (struct rch){.conf = *conf, .pi = conf->start, .tx_pi = conf->start, .clock = 1000};
	h->region = (struct spw_region){.host_va = ring_new(bytes),
					.bytes = bytes,
					.page_bytes = 4096,
					.id = 6,
					.kind = SPW_MEM_HOST};
	h->cq = cq_new(conf->cq_cnt);
	h->tx_cq = cq_new(conf->sq_cnt * 8);
	h->srq = ring_new((size_t)conf->srq_cnt * 32);
	h->uar = ring_new(4096);
	memset(h->uar, 0, 4096);
	h->q = aligned_alloc(64, sizeof(*h->q));
	memset(h->q, 0, sizeof(*h->q));
	spw_pool_init(&h->pool, &h->region, 0, conf->slot_bytes, slots);
	take_slots(h);
	rc = queue_open(h);
	for (uint32_t i = 0; i < conf->peer_cnt && !rc; i++)
		rc = peer_open(h, i);
	if (rc)
		return rc;
	h->q->cq_ci = h->q->tx_cq_ci = conf->start;
	h->q->srq_pi = h->srq_ci = conf->wqe_start;
	mlx5_rc_queue_calls(h->q, &h->pq);
	if (conf->flags & PORT_RC_SRQ)
		mlx5_rc_settle(&h->q->rc);
	for (uint32_t i = 0; i < conf->peer_cnt; i++) {
		rch_peer(h, i)->rc.rq_ci = rch_peer(h, i)->rc.rq_pi = h->qp[i].rq_ci =
			conf->wqe_start;
		rch_peer(h, i)->rc.sq_ci = rch_peer(h, i)->rc.sq_pi = h->qp[i].sq_ci =
			conf->wqe_start;
		rch_peer(h, i)->sq_rung = rch_peer(h, i)->rc.sq_signal = conf->wqe_start;
		h->qp[i].db[1] = spw_cpu_to_be32(conf->wqe_start);
		rch_up(h, i);
	}
	return 0;
}

uint32_t rch_close(struct rch *h)
{
	if (h->q->rc.pool)
		port_rc_return_slots(&h->q->rc);
	mlx5_rc_queue_fini(h->q);
	free(h->q);
	for (uint32_t i = 0; i < h->conf.peer_cnt; i++) {
		free(h->qp[i].sq);
		free(h->qp[i].rq);
		free(h->qp[i].ring_in);
		free(h->qp[i].ring_out);
	}
	free(h->cq);
	free(h->tx_cq);
	free(h->srq);
	free(h->uar);
	uint32_t leaked = spw_pool_fini(&h->pool);

	free(h->region.host_va);
	return leaked;
}

bool rch_balanced(const struct rch *h, uint32_t lent)
{
	struct spw_port_slots s;

	port_rc_queue_slots(&h->q->rc, &s);
	return s.lent == lent && h->pool.free_cnt + s.in_rx + s.lent + s.in_tx == h->pool.slot_cnt;
}

bool rch_clean(const struct rch *h)
{
	for (uint32_t i = 0; i < h->conf.peer_cnt; i++)
		if (h->qp[i].violations || mlx5_rc_peer_at(h->q, i)->rc.side != SPW_PEER_SIDE_UP)
			return false;
	return !h->q->rc.stat.err[SPW_PORT_ERR_cqe_error] &&
	       !h->q->rc.stat.err[SPW_PORT_ERR_protocol];
}

struct mlx5_rc_peer *rch_peer(struct rch *h, uint32_t peer)
{
	return mlx5_rc_peer_at(h->q, peer);
}

void rch_up(struct rch *h, uint32_t peer)
{
	struct rch_qp *qp = &h->qp[peer];
	struct spw_peer_remote remote = {
		.credit_cnt = h->conf.remote_credits,
		.slot_bytes = h->conf.slot_bytes,
		.slot_addr = RCH_SLOT_ADDR,
		.slot_stride = RCH_STRIDE,
		.slot_rkey = RCH_RKEY,
		.ring_addr = RCH_RING_ADDR,
		.ring_rkey = RCH_RING_RKEY,
		.ring_cnt = spw_pow2_ceil32(h->conf.credits),
	};

	for (uint32_t i = 0; i < h->conf.credits; i++)
		qp->ring[i] = spw_cpu_to_be32(i);
	spw_peer_tx_credit_start(&qp->tx, h->conf.credits);
	qp->granted = h->conf.remote_credits;
	qp->got = 0;
	port_rc_post(&h->q->rc, &rch_peer(h, peer)->rc, RCH_LKEY, RCH_RING_LKEY);
	port_rc_up(&h->q->rc, &rch_peer(h, peer)->rc, &remote);
}

/* ---- receive ---- */

uint32_t rch_posted(const struct rch *h, uint32_t peer)
{
	if (h->conf.flags & PORT_RC_SRQ)
		return (uint16_t)(spw_be32_to_cpu(h->db[2]) - h->srq_ci);
	return (uint16_t)(spw_be32_to_cpu(h->qp[peer].db[0]) - h->qp[peer].rq_ci);
}

static uint8_t *wqe_addr(const uint8_t *seg)
{
	if (spw_prm_wqe_data_get_lkey(seg) == SPW_PRM_INVALID_LKEY ||
	    spw_prm_wqe_data_get_byte_count(seg) == 0)
		return NULL;
	return (uint8_t *)(uintptr_t)spw_prm_wqe_data_get_addr(seg);
}

/* The list of an SRQ is followed as the NIC does: by the link in the WQE just used up. */
uint32_t rch_take(struct rch *h, uint32_t peer, uint8_t **addr_out)
{
	struct rch_qp *qp = &h->qp[peer];
	uint32_t idx;

	if (h->conf.flags & PORT_RC_SRQ) {
		idx = h->srq_cur;
		*addr_out = wqe_addr(h->srq + (size_t)idx * 32 + 16);
		h->srq_cur = spw_prm_wqe_srq_next_get_next_wqe_index(h->srq + (size_t)idx * 32);
		h->srq_ci++;
		return idx;
	}
	idx = qp->rq_ci++;
	*addr_out = wqe_addr(qp->rq + (size_t)(idx & (h->conf.rq_cnt - 1)) * 16);
	return idx & 0xffff;
}

static void own(uint8_t *cqe, uint32_t pi, uint32_t cnt, uint32_t opcode)
{
	spw_dma_store(&cqe[63], (uint8_t)(opcode << 4 | (pi / cnt & 1)));
}

void rch_cqe(struct rch *h, uint32_t qpn, uint32_t opcode, uint32_t wqe, uint32_t len, uint32_t imm)
{
	uint8_t *cqe = h->cq + (size_t)(h->pi & (h->conf.cq_cnt - 1)) * 64;

	memset(cqe, 0x5a, 62);
	h->clock += 7;
	spw_prm_cqe64_set_sop_drop_qpn(cqe, 0x99000000u | qpn);
	spw_prm_cqe64_set_srqn_uidx(cqe, qpn & 0xfff);
	spw_prm_cqe64_set_wqe_counter(cqe, wqe);
	spw_prm_cqe64_set_byte_cnt(cqe, len);
	spw_prm_cqe64_set_imm_inval_pkey(cqe, imm);
	spw_prm_cqe64_set_timestamp(cqe, h->clock);
	if (opcode == SPW_PRM_CQE_RESP_ERR)
		spw_prm_cqe_err_set_syndrome(cqe, imm);
	own(cqe, h->pi++, h->conf.cq_cnt, opcode);
}

/* May b follow a in a session? All but length and time agree, and the WQEs count on. */
static bool goes_on(const uint8_t *a, const uint8_t *b)
{
	return !memcmp(a + 32, b + 32, 12) && !memcmp(a + 56, b + 56, 4) && a[63] == b[63] &&
	       (uint16_t)(spw_prm_cqe64_get_wqe_counter(a) + 1) == spw_prm_cqe64_get_wqe_counter(b);
}

/* cnt completions from slot `first` of the ring on; they stand whole in cqe. */
static void session_write(struct rch *h, uint32_t first, const uint8_t *cqe, uint32_t cnt)
{
	uint32_t mask = h->conf.cq_cnt - 1;
	uint8_t *title = h->cq + (size_t)(first & mask) * 64;

	for (uint32_t i = 0; i < cnt; i++) /* as a whole CQE of an earlier lap */
		h->cq[(size_t)((first + i) & mask) * 64 + 63] ^= 1;
	for (uint32_t i = 0; i < cnt; i++) {
		uint8_t *mini =
			h->cq + (size_t)((first + (i < 8 ? 1 : i & ~7u)) & mask) * 64 + (i & 7) * 8;

		memset(mini, 0xee, 4);
		memcpy(mini + 4, cqe + i * 64 + 44, 4);
	}
	memcpy(title, cqe, 64);
	spw_prm_cqe64_set_byte_cnt(title, cnt);
	title[63] |= SPW_PRM_CQE_FORMAT_COMPRESSED << 2;
	h->sessions++;
}

void rch_compress(struct rch *h, uint32_t cnt)
{
	uint32_t mask = h->conf.cq_cnt - 1, first = h->pi - cnt;
	uint8_t *cqe = malloc((size_t)cnt * 64);

	for (uint32_t i = 0; i < cnt; i++)
		memcpy(cqe + (size_t)i * 64, h->cq + (size_t)((first + i) & mask) * 64, 64);
	for (uint32_t i = 0, n; i < cnt; i += n) {
		for (n = 1; i + n < cnt && (first + i + n) & mask &&
			    goes_on(cqe + (size_t)(i + n - 1) * 64, cqe + (size_t)(i + n) * 64);)
			n++;
		if (n > 1)
			session_write(h, first + i, cqe + (size_t)i * 64, n);
	}
	free(cqe);
}

bool rch_message(struct rch *h, uint32_t peer, uint32_t len, const uint32_t *imm,
		 uint8_t **addr_out)
{
	struct rch_qp *qp = &h->qp[peer];
	uint32_t opcode = imm ? SPW_PRM_CQE_RESP_SEND_IMM : SPW_PRM_CQE_RESP_SEND, wqe, slot;

	if (!spw_peer_tx_credit_left(&qp->tx))
		return false;
	qp->violations += rch_posted(h, peer) == 0; /* a credit must have a receive behind it */
	wqe = rch_take(h, peer, addr_out);
	if (h->conf.flags & PORT_RC_WRITE) {
		slot = spw_be32_to_cpu(
			qp->ring[qp->tx.used & (spw_pow2_ceil32(h->conf.credits) - 1)]);
		qp->violations += slot >= h->conf.credits || *addr_out;
		*addr_out = spw_pool_slot_addr(&h->pool, rch_peer(h, peer)->rc.slot_first + slot);
		rch_cqe(h, qp->qpn, SPW_PRM_CQE_RESP_WR_IMM, wqe, len, slot);
	} else {
		rch_cqe(h, qp->qpn, opcode, wqe, len, imm ? *imm : 0x11223344);
	}
	qp->tx.used++;
	return true;
}

void rch_control(struct rch *h, uint32_t peer, uint32_t count)
{
	struct rch_qp *qp = &h->qp[peer];
	uint8_t *addr;

	qp->violations += rch_posted(h, peer) == 0;
	if (count - qp->granted <= h->conf.remote_credits)
		for (uint32_t i = qp->granted; i != count; i++)
			qp->ring_in[i & (SPW_PEER_CREDIT_MAX - 1)] =
				spw_cpu_to_be32(i % h->conf.remote_credits);
	qp->granted = count;
	rch_cqe(h, h->qp[peer].qpn, SPW_PRM_CQE_RESP_SEND_IMM, rch_take(h, peer, &addr), 0, count);
}

void rch_rx_error(struct rch *h, uint32_t peer, uint32_t syndrome)
{
	uint8_t *addr;

	rch_cqe(h, h->qp[peer].qpn, SPW_PRM_CQE_RESP_ERR, rch_take(h, peer, &addr), 0, syndrome);
}

void rch_rx_flush(struct rch *h, uint32_t peer)
{
	for (uint32_t n = h->conf.flags & PORT_RC_SRQ ? 0 : rch_posted(h, peer); n > 0; n--)
		rch_rx_error(h, peer, SPW_PRM_SYN_WR_FLUSH_ERR);
}

/* ---- send ---- */

/* The data segment, or the bytes themselves. */
static const uint8_t *payload(struct rch_qp *qp, const uint8_t *seg, const uint8_t *end,
			      struct rch_msg *msg)
{
	if (seg >= end)
		return NULL;
	msg->len = spw_prm_wqe_data_get_byte_count(seg);
	msg->is_inline = spw_prm_wqe_data_get_inline_seg(seg);
	qp->violations += msg->is_inline && seg + 4 + msg->len > end;
	if (msg->is_inline)
		return seg + 4;
	qp->violations += spw_prm_wqe_data_get_lkey(seg) != RCH_LKEY &&
			  spw_prm_wqe_data_get_lkey(seg) != RCH_RING_LKEY;
	return (const uint8_t *)(uintptr_t)spw_prm_wqe_data_get_addr(seg);
}

/* Grants reach the peer: first the list, then the count of the control message. */
static void peer_sees(struct rch *h, struct rch_qp *qp, const struct rch_msg *msg,
		      const uint8_t *data, uint32_t rkey)
{
	uint64_t at = (msg->raddr - RCH_RING_ADDR) / 4;

	if (msg->opcode == SPW_PRM_OP_RDMA_WRITE) {
		qp->violations += rkey != RCH_RING_RKEY ||
				  at + msg->len / 4 > spw_pow2_ceil32(h->conf.credits);
		memcpy(&qp->ring[at & (SPW_PEER_CREDIT_MAX - 1)], data, SPW_MIN(msg->len, 64u));
		if (msg->len > 64)
			memcpy((uint8_t *)&qp->ring[at & (SPW_PEER_CREDIT_MAX - 1)] + 64, data + 64,
			       msg->len - 64);
	} else if (msg->opcode == SPW_PRM_OP_SEND_IMM && !data) {
		qp->violations += !spw_peer_tx_credit_take(&qp->tx, msg->imm);
	} else {
		qp->got++;
		qp->violations += qp->got > qp->granted;
	}
}

bool rch_send_one(struct rch *h, uint32_t peer, struct rch_msg *msg_out)
{
	struct rch_qp *qp = &h->qp[peer];
	uint8_t *wqe = qp->sq + (size_t)(qp->sq_ci & (h->conf.sq_cnt - 1)) * 64;
	uint32_t ds = spw_prm_wqe_ctrl_get_ds(wqe), head = 16, rkey = 0;
	struct rch_msg msg = {.opcode = spw_prm_wqe_ctrl_get_opcode(wqe),
			      .imm = spw_prm_wqe_ctrl_get_imm(wqe)};
	const uint8_t *data;

	if ((uint16_t)qp->sq_ci == (uint16_t)spw_be32_to_cpu(qp->db[1]))
		return false;
	qp->violations += spw_prm_wqe_ctrl_get_wqe_index(wqe) != (qp->sq_ci & 0xffff) || ds > 4 ||
			  spw_prm_wqe_ctrl_get_qpn(wqe) != qp->qpn;
	if (msg.opcode == SPW_PRM_OP_RDMA_WRITE || msg.opcode == SPW_PRM_OP_RDMA_WRITE_IMM) {
		msg.raddr = spw_prm_wqe_raddr_get_raddr(wqe + 16);
		rkey = spw_prm_wqe_raddr_get_rkey(wqe + 16);
		head = 32;
	}
	data = payload(qp, wqe + head, wqe + (size_t)ds * 16, &msg);
	peer_sees(h, qp, &msg, data, rkey);
	qp->violations += msg.opcode == SPW_PRM_OP_RDMA_WRITE_IMM && rkey != RCH_RKEY;
	if (data)
		memcpy(msg.data, data, SPW_MIN(msg.len, sizeof(msg.data)));
	if (msg.opcode == SPW_PRM_OP_RDMA_WRITE)
		msg.len = 0;
	*msg_out = msg;
	if (spw_prm_wqe_ctrl_get_ce(wqe) == SPW_PRM_CTRL_CE_CQE)
		rch_sent(h, qp->qpn, (uint16_t)qp->sq_ci, 0);
	qp->sq_ci++;
	return true;
}

void rch_sent(struct rch *h, uint32_t qpn, uint16_t wqe_counter, uint32_t syndrome)
{
	uint32_t cnt = h->conf.sq_cnt * 8;
	uint8_t *cqe = h->tx_cq + (size_t)(h->tx_pi & (cnt - 1)) * 64;

	memset(cqe, 0x5a, 62);
	spw_prm_cqe64_set_wqe_counter(cqe, wqe_counter);
	spw_prm_cqe64_set_sop_drop_qpn(cqe, 0x0a000000u | qpn);
	if (syndrome)
		spw_prm_cqe_err_set_syndrome(cqe, syndrome);
	own(cqe, h->tx_pi++, cnt, syndrome ? SPW_PRM_CQE_REQ_ERR : SPW_PRM_CQE_REQ);
}

void rch_tx_flush(struct rch *h, uint32_t peer)
{
	struct rch_qp *qp = &h->qp[peer];

	for (; (uint16_t)qp->sq_ci != (uint16_t)spw_be32_to_cpu(qp->db[1]); qp->sq_ci++)
		rch_sent(h, qp->qpn, (uint16_t)qp->sq_ci, SPW_PRM_SYN_WR_FLUSH_ERR);
}
