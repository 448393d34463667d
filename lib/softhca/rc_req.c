/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * RC requester: packets of send WQEs, what comes back for them, go-back-N.
 * Source: InfiniBand Architecture Specification 1.3, 9.7.5 to 9.7.8. */
#include "softhca/nic_impl.h"

#define RTO_MIN_NS 1000000ull
#define RTO_LOG2_MAX 2
/* Asks for an ACK inside long messages too, so that the window moves. */
#define ACK_EVERY 32u

/* A card detects a time-out after one to four times the interval (9.7.6.1.3). The first is the shortest; if nothing has come since,
 * the peer's thread may just have no core, and gets the longest. */
static uint64_t rto_ns(const struct nic_qp *q)
{
	const uint8_t t = q->qp->attr.timeout & 31;

	return t ? SPW_MAX(4096ull << t, RTO_MIN_NS) << (q->retries ? RTO_LOG2_MAX : 0) : 0;
}

static void timer_start(struct nic_qp *q)
{
	const uint64_t rto = rto_ns(q);

	q->deadline_ns = 0;
	if (rto && q->una_psn != q->max_psn) {
		q->deadline_ns = q->nd->now_ns + rto;
		nic_timer_at(q->nd, q->deadline_ns);
	}
}

static void cursor_to_start(struct nic_qp *q)
{
	const struct nic_swr *w = sq_swr(q, q->swr_cur);

	q->cur_pkt = 0;
	q->g.seg = w->seg_off;
	q->g.seg_at = 0;
	q->g.at = 0;
}

/* Steps the gather position over bytes that were sent before. */
static void gather_skip(struct nic_qp *q, const struct nic_swr *w, uint64_t bytes)
{
	while (bytes && q->g.seg < w->ds * 16u) {
		const uint32_t word = spw_prm_ld32(sq_bytes(q, w->idx, q->g.seg));
		const uint32_t len = word >> 31 ? word & 0x3ff : word;

		if (bytes < len) {
			q->g.seg_at = (uint32_t)bytes;
			return;
		}
		bytes -= len;
		q->g.seg += word >> 31 ? SPW_ALIGN_UP(4 + len, 16u) : 16;
	}
}

/* Puts the sending cursor where psn is. */
static void seek(struct nic_qp *q, uint32_t psn)
{
	q->snd_psn = psn;
	for (q->swr_cur = q->swr_head; q->swr_cur != q->swr_tail; q->swr_cur++) {
		const struct nic_swr *w = sq_swr(q, q->swr_cur);
		const int32_t at = wire_psn_diff(psn, w->psn);

		if (w->pkts && at >= (int32_t)w->pkts)
			continue;
		if (w->pkts == 0 && at > 0)
			continue;
		cursor_to_start(q);
		if (at > 0 && !w->is_rd) {
			q->cur_pkt = (uint32_t)at;
			gather_skip(q, w, (uint64_t)at << q->mtu_log2);
		}
		return;
	}
	q->cur_pkt = 0;
}

void rc_goback(struct nic_qp *q, uint32_t psn)
{
	seek(q, psn);
	q->window = SPW_MAX(q->window / 2, NIC_WINDOW_MIN);
	q->rd_out = 0;
	for (uint32_t n = q->swr_head; n != q->swr_cur; n++)
		q->rd_out += sq_swr(q, n)->is_rd && !sq_swr(q, n)->done;
	nic_activate(q);
}

static uint8_t op_of(const struct nic_swr *w, bool first, bool last)
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
static uint8_t *put_ext(struct nic_qp *q, const struct nic_swr *w, uint8_t op, uint8_t *p)
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

/* One packet of swr_cur (shared with UC). false: the cable has no room. On a bad lkey the WQE gets its
 * syndrome and true comes back. */
bool rc_send_packet(struct nic_qp *q, struct nic_swr *w, uint8_t transport)
{
	const bool rd = w->is_rd;
	const bool first = q->cur_pkt == 0, last = rd || q->cur_pkt + 1 == w->pkts;
	const uint8_t op = op_of(w, first, last);
	const uint32_t psn = rd ? (w->psn + w->rd_got) & WIRE_PSN_MASK : (w->psn + q->cur_pkt) & WIRE_PSN_MASK;
	const uint32_t payload = rd ? 0 : last ? w->len - (q->cur_pkt << q->mtu_log2) : q->mtu;
	const uint32_t bytes = wire_frame_bytes(&q->tmpl, wire_op_ext_bytes[op], payload);
	uint32_t flags = last && w->se ? WIRE_F_SE : 0;
	uint8_t *frame, *p;

	frame = nic_tx_reserve(q->nd, q->tmpl.hdr, bytes, q->qp->attr.dest_qpn);
	if (spw_unlikely(!frame))
		return false;
	/* The last that the window allows as well: it may be smaller than ACK_EVERY after losses. */
	if (transport == WIRE_RC && (last || psn % ACK_EVERY == ACK_EVERY - 1 ||
				     (uint32_t)wire_psn_diff(psn, q->una_psn) + 1 >= q->window))
		flags |= WIRE_F_ACK_REQ;
	p = wire_start(&q->tmpl, frame, bytes, transport | op, q->qp->attr.dest_qpn, psn, payload, flags);
	p = put_ext(q, w, op, p);
	if (payload) {
		w->syndrome = sq_gather(q, w, &q->g, p, payload);
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
		cursor_to_start(q);
	}
	return true;
}

/* NOPs and what older WQEs held back. */
static void complete_idle(struct nic_qp *q)
{
	while (q->swr_head != q->swr_cur) {
		struct nic_swr *w = sq_swr(q, q->swr_head);

		if (w->pkts)
			return;
		q->swr_head++;
		sq_complete(q, w);
	}
}

bool rc_req_tx(struct nic_qp *q)
{
	if (q->rnr_wait)
		return false;
	for (uint32_t budget = NIC_QP_BUDGET; budget; budget--) {
		struct nic_swr *w;

		if (q->swr_cur == q->swr_tail) {
			if (q->qp->state != HCA_QPS_RTS || !sq_fetch(q))
				return false;
			cursor_to_start(q);
		}
		w = sq_swr(q, q->swr_cur);
		if (spw_unlikely(w->syndrome)) {
			if (q->swr_cur == q->swr_head)
				sq_fail(q, w->syndrome, 0);
			return false;
		}
		if (spw_unlikely(w->pkts == 0)) {
			q->swr_cur++;
			cursor_to_start(q);
			complete_idle(q);
			continue;
		}
		if (w->fence && q->rd_out)
			return false;
		if (w->is_rd && q->rd_out >= q->qp->attr.max_rd_atomic) {
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
			timer_start(q);
	}
	return true;
}

/* Everything up to psn has arrived there. false: an unfinished READ or atomic lies before it. */
static bool ack_to(struct nic_qp *q, uint32_t psn)
{
	bool whole = true;

	while (q->swr_head != q->swr_tail) {
		struct nic_swr *w = sq_swr(q, q->swr_head);

		if (w->is_rd && !w->done) {
			whole = wire_psn_diff(psn, w->psn) < 0;
			break;
		}
		if (w->pkts == 0 ? wire_psn_diff(psn, w->psn) < -1
				 : wire_psn_diff(psn, w->psn + w->pkts - 1) < 0) {
			if (wire_psn_diff(psn + 1, q->una_psn) > 0) {
				q->una_psn = (psn + 1) & WIRE_PSN_MASK;
				q->retries = q->rnr_retries = 0;
			}
			break;
		}
		if (w->pkts == 0 && (int32_t)(q->swr_cur - q->swr_head) <= 0)
			break; /* a NOP whose turn has not come */
		if (w->pkts) {
			q->una_psn = (w->psn + w->pkts) & WIRE_PSN_MASK;
			q->retries = q->rnr_retries = 0;
		}
		q->swr_head++; /* first: a CQE may overrun the CQ, and the queue is flushed in here */
		sq_complete(q, w);
	}
	if (spw_unlikely(wire_psn_diff(q->una_psn, q->snd_psn) > 0 || (int32_t)(q->swr_head - q->swr_cur) > 0))
		seek(q, q->una_psn);
	return whole;
}

static void progressed(struct nic_qp *q)
{
	q->nak_seen = false;
	if (q->window < NIC_WINDOW_MAX)
		q->window++;
	timer_start(q);
	nic_activate(q);
}

/* The first READ or atomic without its whole answer. */
static struct nic_swr *first_rd(struct nic_qp *q)
{
	for (uint32_t n = q->swr_head; n != q->swr_tail; n++)
		if (sq_swr(q, n)->is_rd && !sq_swr(q, n)->done)
			return sq_swr(q, n);
	return NULL;
}

static void implied_nak(struct nic_qp *q)
{
	const struct nic_swr *w = first_rd(q);

	if (q->nak_seen || !w)
		return;
	NIC_CNT(q->nd, implied_nak_seq_err);
	q->nak_seen = true;
	rc_goback(q, (w->psn + w->rd_got) & WIRE_PSN_MASK);
}

static void rx_rd_response(struct nic_qp *q, const struct wire_pkt *k)
{
	struct nic_swr *w = first_rd(q);
	const bool atomic = w && w->opcode != SPW_PRM_OP_RDMA_READ;
	uint32_t want, left;
	uint8_t syn;

	if (!w)
		return;
	want = (w->psn + w->rd_got) & WIRE_PSN_MASK;
	if (k->psn != want) {
		if (wire_psn_diff(k->psn, want) > 0)
			implied_nak(q);
		return;
	}
	ack_to(q, (w->psn - 1) & WIRE_PSN_MASK);
	left = w->len - (w->rd_got << q->mtu_log2);
	if (atomic != (k->op == WIRE_ATOMIC_ACK) ||
	    (!atomic && k->payload_len != SPW_MIN(left, q->mtu))) {
		if (w == sq_swr(q, q->swr_head))
			sq_fail(q, SPW_PRM_SYN_BAD_RESP_ERR, 0);
		return;
	}
	syn = atomic ? sq_scatter(q, w, 0, (const uint8_t *)&k->orig, 8)
		     : sq_scatter(q, w, w->rd_got << q->mtu_log2, k->payload, k->payload_len);
	if (syn) {
		if (w == sq_swr(q, q->swr_head))
			sq_fail(q, SPW_PRM_SYN_LOCAL_PROT_ERR, 0);
		return;
	}
	w->rd_got++;
	q->una_psn = (want + 1) & WIRE_PSN_MASK;
	q->retries = q->rnr_retries = 0;
	if (w->rd_got == w->pkts) {
		w->done = true;
		q->rd_out -= q->rd_out != 0;
		ack_to(q, k->psn);
	}
	progressed(q);
}

/* Table 45 of the specification, 1/100 ms. */
static uint64_t rnr_ns(uint8_t code)
{
	static const uint16_t us10[32] = {65536u - 1, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384,
					  512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576,
					  32768, 49152};

	return us10[code & 31] * 10000ull;
}

static void rx_rnr(struct nic_qp *q, const struct wire_pkt *k)
{
	ack_to(q, (k->psn - 1) & WIRE_PSN_MASK);
	if (q->rnr_wait || q->swr_head == q->swr_tail)
		return;
	if (q->qp->attr.rnr_retry != 7 && q->rnr_retries++ >= q->qp->attr.rnr_retry) {
		NIC_CNT(q->nd, rnr_nak_retry_err);
		sq_fail(q, SPW_PRM_SYN_RNR_RETRY_EXC_ERR, 0);
		return;
	}
	q->retries = 0;
	rc_goback(q, k->psn);
	q->rnr_wait = true;
	q->deadline_ns = q->nd->now_ns + rnr_ns(k->syndrome & 0x1f);
	nic_timer_at(q->nd, q->deadline_ns);
}

static void rx_nak(struct nic_qp *q, const struct wire_pkt *k)
{
	static const uint8_t syndrome[] = {[1] = SPW_PRM_SYN_REMOTE_INVAL_REQ_ERR, [2] = SPW_PRM_SYN_REMOTE_ACCESS_ERR,
					   [3] = SPW_PRM_SYN_REMOTE_OP_ERR};
	const uint8_t code = k->syndrome & 0x1f;

	ack_to(q, (k->psn - 1) & WIRE_PSN_MASK);
	if (q->swr_head == q->swr_tail)
		return;
	if (code == 0) {
		NIC_CNT(q->nd, packet_seq_err);
		if (q->retries++ >= q->qp->attr.retry_cnt) {
			sq_fail(q, SPW_PRM_SYN_TRANSPORT_RETRY_EXC_ERR, 0x81);
			return;
		}
		q->nak_seen = false;
		rc_goback(q, q->una_psn);
		timer_start(q);
	} else if (code < SPW_ARRAY_CNT(syndrome)) {
		if (code == 2)
			NIC_CNT(q->nd, req_remote_access_errors);
		if (code == 1)
			NIC_CNT(q->nd, req_remote_invalid_request);
		sq_fail(q, syndrome[code], code == 2 ? 0x88 : 0);
	}
}

void rc_req_rx(struct nic_qp *q, const struct wire_pkt *k)
{
	if (q->qp->state < HCA_QPS_RTS)
		return;
	/* Only what was sent can be answered. */
	if (wire_psn_diff(k->psn, q->una_psn) < 0 || wire_psn_diff(k->psn, q->max_psn) >= 0)
		return;
	if (k->op != WIRE_ACK) {
		rx_rd_response(q, k);
		return;
	}
	switch (k->syndrome & WIRE_SYN_KIND) {
	case WIRE_SYN_ACK:
		if (ack_to(q, k->psn))
			progressed(q);
		else
			implied_nak(q);
		break;
	case WIRE_SYN_RNR:
		rx_rnr(q, k);
		break;
	case WIRE_SYN_NAK:
		rx_nak(q, k);
		break;
	default:
		break;
	}
	if (q->qp->state == HCA_QPS_RTS && q->swr_cur == q->swr_head && q->swr_head != q->swr_tail)
		nic_activate(q); /* a WQE that waited to fail, or for the fence */
}

void rc_timer(struct nic_qp *q, uint64_t now_ns)
{
	if (!q->deadline_ns)
		return;
	if (now_ns < q->deadline_ns) {
		nic_timer_at(q->nd, q->deadline_ns);
		return;
	}
	q->deadline_ns = 0;
	if (q->rnr_wait) {
		q->rnr_wait = false;
		nic_activate(q);
		return;
	}
	if (q->swr_head == q->swr_tail)
		return;
	NIC_CNT(q->nd, local_ack_timeout_err);
	if (q->retries++ >= q->qp->attr.retry_cnt) {
		sq_fail(q, SPW_PRM_SYN_TRANSPORT_RETRY_EXC_ERR, 0x81);
		return;
	}
	q->nak_seen = false;
	rc_goback(q, q->una_psn);
	timer_start(q);
}
