/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * RC requester, sending side: packets of send WQEs, the window, going back.
 *
 * rc_req_tx() runs in each round in which the QP has work; what comes back is rc_ack.c's. Together
 * they are go-back-N:
 *
 *   una_psn              snd_psn                max_psn
 *   | sent, not acked    | sent before a loss,  | never sent
 *                          to be repeated
 *   ACK(p)       una_psn = p + 1, WQEs up to p complete                          (rc_ack.c)
 *   NAK, timer   snd_psn = una_psn, window / 2; rc_seek() finds the position     (rc_goback)
 *   RNR NAK      the same from the PSN that it names, after the time that it names
 *
 * A READ takes as many PSNs as its response has packets, so one request moves snd_psn by all of
 * them; going back into the middle of a READ asks for the rest only.
 *
 * A new opcode is allowed by sq_op_allowed and parsed by sq_data_offset and sq_wqe_parse (sq.c),
 * gets its packets here (rc_op, rc_put_ext) with their headers in port/wire.c, and is carried out
 * by the peer's rc_rsp.c; rc_ack.c and complete.c end it. Number and segments: prm/spw_prm.h.
 *
 * Source: InfiniBand Architecture Specification 1.3, 9.7.2 (PSN), 9.7.3 (requests), 9.7.5-9.7.8.
 */
#include "softhca/nic/port/port.h"
#include "softhca/nic/transport/copy.h"
#include "softhca/nic/transport/qp.h"

#define RTO_MIN_NS   1000000ull
#define RTO_LOG2_MAX 2
/* An ACK is requested this often inside long messages too, so that the window moves. */
#define ACK_EVERY 32u

/* A card detects a time-out after one to four times the interval (9.7.6.1.3). The first time-out
 * takes the shortest; the next ones take the longest, because a peer that still does not answer may
 * only have lost its core. */
static uint64_t rc_rto_ns(const struct nic_qp *q)
{
	const uint8_t t = q->qp->attr.timeout & 31;

	return t ? SPW_MAX(4096ull << t, RTO_MIN_NS) << (q->retries ? RTO_LOG2_MAX : 0) : 0;
}

/* The timer runs while anything is not acknowledged; each progress restarts it. */
void rc_timer_start(struct nic_qp *q)
{
	const uint64_t rto = rc_rto_ns(q);

	q->late = NIC_LATE_NOT;
	q->deadline_ns = 0;
	if (rto && q->una_psn != q->max_psn) {
		q->deadline_ns = q->nd->now_ns + rto;
		nic_timer_at(q->nd, q->deadline_ns);
	}
}

/* The next packet is the first of WQE swr_cur. */
static void rc_cursor_to_start(struct nic_qp *q)
{
	const struct nic_swr *w = sq_swr(q, q->swr_cur);

	q->cur_pkt = 0;
	q->g.seg = w->seg_off;
	q->g.seg_at = 0;
	q->g.at = 0;
}

/* Moves the gather position over bytes that were sent before. */
static void rc_gather_skip(struct nic_qp *q, const struct nic_swr *w, uint64_t bytes)
{
	while (bytes && q->g.seg < w->ds * 16u) {
		const struct nic_seg s = sq_seg(q, w, q->g.seg);

		if (bytes < s.len) {
			q->g.seg_at = (uint32_t)bytes;
			return;
		}
		bytes -= s.len;
		q->g.seg += s.span;
	}
}

/* Sets the sending position to a PSN: finds its WQE and, within it, the packet and the byte. */
void rc_seek(struct nic_qp *q, uint32_t psn)
{
	q->snd_psn = psn;
	for (q->swr_cur = q->swr_head; q->swr_cur != q->swr_tail; q->swr_cur++) {
		const struct nic_swr *w = sq_swr(q, q->swr_cur);
		const int32_t at = wire_psn_diff(psn, w->psn);

		if (w->pkts && at >= (int32_t)w->pkts)
			continue;
		if (w->pkts == 0 && at > 0)
			continue;
		rc_cursor_to_start(q);
		if (at > 0 && !w->is_rd) {
			q->cur_pkt = (uint32_t)at;
			rc_gather_skip(q, w, (uint64_t)at << q->mtu_log2);
		}
		return;
	}
	q->cur_pkt = 0;
}

/* Half the window, as after any loss; READs that are sent again do not count twice. */
void rc_goback(struct nic_qp *q, uint32_t psn)
{
	rc_seek(q, psn);
	q->window = SPW_MAX(q->window / 2, NIC_WINDOW_MIN);
	q->rd_out = 0;
	for (uint32_t n = q->swr_head; n != q->swr_cur; n++)
		q->rd_out += sq_swr(q, n)->is_rd && !sq_swr(q, n)->done;
	qp_activate(q);
}

/* First, middle, last or only: the opcode of a packet by its place in the message. */
static uint8_t rc_op(const struct nic_swr *w, bool first, bool last)
{
	switch (w->opcode) {
	case SPW_PRM_OP_RDMA_WRITE:
	case SPW_PRM_OP_RDMA_WRITE_IMM:
		if (!last)
			return first ? WIRE_WRITE_FIRST : WIRE_WRITE_MIDDLE;
		if (w->opcode == SPW_PRM_OP_RDMA_WRITE_IMM)
			return first ? WIRE_WRITE_ONLY_IMM : WIRE_WRITE_LAST_IMM;
		return first ? WIRE_WRITE_ONLY : WIRE_WRITE_LAST;
	case SPW_PRM_OP_RDMA_READ:
		return WIRE_READ_REQ;
	case SPW_PRM_OP_ATOMIC_CS:
		return WIRE_CMP_SWAP;
	case SPW_PRM_OP_ATOMIC_FA:
		return WIRE_FETCH_ADD;
	default:
		if (!last)
			return first ? WIRE_SEND_FIRST : WIRE_SEND_MIDDLE;
		if (w->opcode == SPW_PRM_OP_SEND_IMM)
			return first ? WIRE_SEND_ONLY_IMM : WIRE_SEND_LAST_IMM;
		if (w->opcode == SPW_PRM_OP_SEND_INVAL)
			return first ? WIRE_SEND_ONLY_INV : WIRE_SEND_LAST_INV;
		return first ? WIRE_SEND_ONLY : WIRE_SEND_LAST;
	}
}

/* Extended headers of packet `pkt`; returns where the payload starts. */
static uint8_t *rc_put_ext(struct nic_qp *q, const struct nic_swr *w, uint8_t op, uint8_t *p)
{
	const uint16_t hdrs = wire_op_hdrs[op];

	if (hdrs & WIRE_H_RETH) {
		const uint32_t done = w->is_rd ? w->rd_got << q->mtu_log2 : 0;

		spw_prm_st64(p, w->raddr + done);
		spw_prm_st32(p + 8, w->rkey);
		spw_prm_st32(p + 12, w->len - done);
		p += WIRE_RETH_BYTES;
	} else if (hdrs & WIRE_H_ATOMIC) {
		const uint8_t *seg = sq_bytes(q, w->idx, 32);

		spw_prm_st64(p, w->raddr);
		spw_prm_st32(p + 8, w->rkey);
		spw_prm_st64(p + 12, spw_prm_wqe_atomic_get_swap_add(seg));
		spw_prm_st64(p + 20, spw_prm_wqe_atomic_get_compare(seg));
		p += WIRE_ATOMIC_BYTES;
	}
	if (hdrs & (WIRE_H_IMM | WIRE_H_INV)) {
		spw_prm_st32(p, w->imm);
		p += WIRE_IMM_BYTES;
	}
	return p;
}

/* False: the cable has no room, and the same packet is built again in the next round. transport:
 * RC, or UC which asks for no ACKs. */
bool rc_send_packet(struct nic_qp *q, struct nic_swr *w, uint8_t transport)
{
	const bool rd = w->is_rd;
	const bool first = q->cur_pkt == 0, last = rd || q->cur_pkt + 1 == w->pkts;
	const uint8_t op = rc_op(w, first, last);
	const uint32_t psn = rd ? (w->psn + w->rd_got) & WIRE_PSN_MASK
				: (w->psn + q->cur_pkt) & WIRE_PSN_MASK;
	const uint32_t payload = rd ? 0 : last ? w->len - (q->cur_pkt << q->mtu_log2) : q->mtu;
	const uint32_t bytes = wire_frame_bytes(&q->tmpl, wire_op_ext_bytes[op], payload);
	uint8_t flags = last && w->se ? WIRE_F_SE : 0;
	uint8_t *frame, *p;

	frame = nic_tx_reserve(q->nd, q->tmpl.hdr, q->qp->attr.dest_qpn, bytes);
	if (spw_unlikely(!frame))
		return false;
	/* The last packet that the window allows asks too: the window may be below ACK_EVERY. */
	if (transport == WIRE_RC && (last || psn % ACK_EVERY == ACK_EVERY - 1 ||
				     (uint32_t)wire_psn_diff(psn, q->una_psn) + 1 >= q->window))
		flags |= WIRE_F_ACK_REQ;
	p = wire_start(&q->tmpl, frame, bytes, payload,
		       (struct wire_bth){.opcode = transport | op,
					 .flags = flags,
					 .dqpn = q->qp->attr.dest_qpn,
					 .psn = psn});
	p = rc_put_ext(q, w, op, p);
	if (payload) {
		const bool shared = spw_unlikely(q->nd->copier != NULL) && transport == WIRE_RC;

		if (shared)
			copy_owner(q->nd->copier, q, frame);
		w->syndrome = sq_gather(q, w, &q->g, p, payload);
		if (shared)
			copy_owner(q->nd->copier, NULL, NULL);
		if (spw_unlikely(w->syndrome))
			return true;
	}
	nic_tx_commit(q->nd, frame, bytes, true, q->tmpl.l3_off, q->tmpl.ipv6, payload);
	q->snd_psn = (psn + (rd ? w->pkts - w->rd_got : 1)) & WIRE_PSN_MASK;
	if (wire_psn_diff(q->snd_psn, q->max_psn) > 0)
		q->max_psn = q->snd_psn;
	q->cur_pkt++;
	if (last) {
		q->rd_out += rd;
		q->swr_cur++;
		rc_cursor_to_start(q);
	}
	return true;
}

/* Completes the NOPs at the head of the queue. */
static void rc_complete_idle(struct nic_qp *q)
{
	while (q->swr_head != q->swr_cur) {
		struct nic_swr *w = sq_swr(q, q->swr_head);

		if (w->pkts)
			return;
		q->swr_head++;
		sq_complete(q, w);
	}
}

/* Stops at a fence, at the limit of open READs, and at the window. True: there is more to send. */
bool rc_req_tx(struct nic_qp *q)
{
	if (q->rnr_wait)
		return false;
	for (uint32_t budget = NIC_QP_BUDGET; budget; budget--) {
		struct nic_swr *w;

		if (q->swr_cur == q->swr_tail) {
			if (q->qp->state != HCA_QPS_RTS || !sq_fetch(q))
				return false;
			rc_cursor_to_start(q);
		}
		w = sq_swr(q, q->swr_cur);
		if (spw_unlikely(w->syndrome)) {
			if (q->swr_cur == q->swr_head)
				sq_fail(q, w->syndrome, 0);
			return false;
		}
		if (spw_unlikely(w->pkts == 0)) {
			q->swr_cur++;
			rc_cursor_to_start(q);
			rc_complete_idle(q);
			continue;
		}
		/* The WQE may send what a READ before it fetches. */
		if (w->fence && q->rd_out)
			return false;
		if (w->is_rd && q->rd_out >= q->qp->attr.max_rd_atomic) {
			/* 0: this QP can never send it. */
			if (q->qp->attr.max_rd_atomic)
				return false;
			w->syndrome = SPW_PRM_SYN_LOCAL_QP_OP_ERR;
			continue;
		}
		if ((uint32_t)wire_psn_diff(q->snd_psn, q->una_psn) >= q->window)
			return false;
		if (!rc_send_packet(q, w, WIRE_RC))
			return true;
		if (!q->deadline_ns)
			rc_timer_start(q);
	}
	return true;
}
