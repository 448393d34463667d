/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * RC requester, receiving side: ACKs, NAKs, READ and atomic responses, the retransmission timer.
 *
 * rx.c hands every response packet to rc_req_rx(). A response is valid from una_psn up to max_psn,
 * what was sent and not yet acknowledged; anything else is dropped.
 *
 *   response          effect
 *   ACK p             WQEs up to p complete, oldest first. A READ or atomic completes only by its
 *                     own response, so an ACK beyond an open one is an implied NAK for it.
 *   READ response     in order into the local buffer; a gap is an implied NAK
 *   NAK p, sequence   WQEs before p complete, go back; counts against retry_cnt
 *   NAK p, other      the oldest open WQE fails with the NAK's syndrome, QP to ERR
 *   RNR NAK p         wait as long as the code says, then repeat from p; counts against rnr_retry
 *   (nothing)         the timer expires: go back to una_psn; counts against retry_cnt. First both
 *                     NIC threads must have run since (rc_answer_may_come)
 *
 * Progress resets both counts. An implied NAK goes back once (the flag implied_nak) until
 * progress, a NAK or the timer clears it.
 *
 * Source: InfiniBand Architecture Specification 1.3, 9.7.5 (ACK, NAK, RNR timer), 9.7.6
 * (responses).
 */
#include "softhca/nic/port/port.h"
#include "softhca/nic/transport/qp.h"

/* Vendor syndromes of a ConnectX, as its error CQEs show them. */
#define VENDOR_RETRY_EXC     0x81
#define VENDOR_REMOTE_ACCESS 0x88

enum { NAK_SEQUENCE, NAK_INVALID_REQUEST, NAK_ACCESS, NAK_OPERATION }; /* 9.7.5.2 */

/* The peer has carried out everything up to psn. Returns false if an open READ or atomic precedes
 * it.
 */
static bool rc_ack_to(struct nic_qp *q, uint32_t psn)
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
		q->swr_head++; /* before the CQE: it may overrun the CQ, which flushes this queue */
		sq_complete(q, w);
	}
	if (spw_unlikely(wire_psn_diff(q->una_psn, q->snd_psn) > 0 ||
			 (int32_t)(q->swr_head - q->swr_cur) > 0))
		rc_seek(q, q->una_psn);
	return whole;
}

/* One packet more in the window for each step forward, up to NIC_WINDOW_MAX. */
static void rc_ack_progress(struct nic_qp *q)
{
	q->implied_nak = false;
	if (q->window < NIC_WINDOW_MAX)
		q->window++;
	rc_timer_start(q);
	qp_activate(q);
}

/* The oldest READ or atomic whose response is not complete. */
static struct nic_swr *rc_first_rd(struct nic_qp *q)
{
	for (uint32_t n = q->swr_head; n != q->swr_tail; n++)
		if (sq_swr(q, n)->is_rd && !sq_swr(q, n)->done)
			return sq_swr(q, n);
	return NULL;
}

/* A response beyond the expected one: what was skipped is asked for again, once. */
static void rc_implied_nak(struct nic_qp *q)
{
	const struct nic_swr *w = rc_first_rd(q);

	if (q->implied_nak || !w)
		return;
	NIC_CNT(q->nd, implied_nak_seq_err);
	q->implied_nak = true;
	rc_goback(q, (w->psn + w->rd_got) & WIRE_PSN_MASK);
}

/* In order only. A response also acknowledges everything before its request. */
static void rc_rx_rd_response(struct nic_qp *q, const struct wire_pkt *k)
{
	struct nic_swr *w = rc_first_rd(q);
	const bool atomic = w && w->opcode != SPW_PRM_OP_RDMA_READ;
	uint32_t want, left;
	uint8_t syn;

	if (!w)
		return;
	want = (w->psn + w->rd_got) & WIRE_PSN_MASK;
	if (k->psn != want) {
		if (wire_psn_diff(k->psn, want) > 0)
			rc_implied_nak(q);
		return;
	}
	rc_ack_to(q, (w->psn - 1) & WIRE_PSN_MASK);
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
		rc_ack_to(q, k->psn);
	}
	rc_ack_progress(q);
}

/* Table 45, in units of 10 us. */
static uint64_t rc_rnr_ns(uint8_t code)
{
	static const uint16_t us10[32] = {
		65536u - 1, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
		48,         64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
		2048,       3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};

	return us10[code & 31] * 10000ull;
}

/* The responder had no receive: wait as long as it says, then repeat from that packet. rnr_retry 7
 * repeats for ever. */
static void rc_rx_rnr(struct nic_qp *q, const struct wire_pkt *k)
{
	rc_ack_to(q, (k->psn - 1) & WIRE_PSN_MASK);
	if (q->rnr_wait || q->swr_head == q->swr_tail)
		return;
	if (q->qp->attr.rnr_retry != 7 && q->rnr_retries++ >= q->qp->attr.rnr_retry) {
		NIC_CNT(q->nd, req_rnr_retries_exceeded);
		sq_fail(q, SPW_PRM_SYN_RNR_RETRY_EXC_ERR, 0);
		return;
	}
	NIC_CNT(q->nd, rnr_nak_retry_err);
	q->retries = 0;
	rc_goback(q, k->psn);
	q->rnr_wait = true;
	q->deadline_ns = q->nd->now_ns + rc_rnr_ns(k->syndrome & WIRE_SYN_VALUE);
	nic_timer_at(q->nd, q->deadline_ns);
}

/* Nothing came, or something came out of order: repeats everything that is not acknowledged, or
 * fails the QP when retry_cnt has been used up. *cause counts what was repeated. */
static void rc_retry(struct nic_qp *q, uint64_t *cause)
{
	if (q->retries++ >= q->qp->attr.retry_cnt) {
		NIC_CNT(q->nd, req_transport_retries_exceeded);
		sq_fail(q, SPW_PRM_SYN_TRANSPORT_RETRY_EXC_ERR, VENDOR_RETRY_EXC);
		return;
	}
	spw_thr_count(cause, 1u);
	q->implied_nak = false;
	rc_goback(q, q->una_psn);
	rc_timer_start(q);
}

/* A sequence NAK repeats; any other ends the QP with the NAK's reason. */
static void rc_rx_nak(struct nic_qp *q, const struct wire_pkt *k)
{
	static const uint8_t syndrome[] = {[1] = SPW_PRM_SYN_REMOTE_INVAL_REQ_ERR,
					   [2] = SPW_PRM_SYN_REMOTE_ACCESS_ERR,
					   [3] = SPW_PRM_SYN_REMOTE_OP_ERR};
	const uint8_t code = k->syndrome & WIRE_SYN_VALUE;

	rc_ack_to(q, (k->psn - 1) & WIRE_PSN_MASK);
	if (q->swr_head == q->swr_tail)
		return;
	if (code == NAK_SEQUENCE) {
		rc_retry(q, &q->nd->dev->cnt.packet_seq_err);
	} else if (code < SPW_ARRAY_CNT(syndrome)) {
		if (code == NAK_ACCESS)
			NIC_CNT(q->nd, req_remote_access_errors);
		if (code == NAK_INVALID_REQUEST)
			NIC_CNT(q->nd, req_remote_invalid_request);
		sq_fail(q, syndrome[code], code == NAK_ACCESS ? VENDOR_REMOTE_ACCESS : 0);
	}
}

void rc_req_rx(struct nic_qp *q, const struct wire_pkt *k)
{
	if (q->qp->state < HCA_QPS_RTS)
		return;
	/* Only packets that were sent can be answered. */
	if (wire_psn_diff(k->psn, q->una_psn) < 0 || wire_psn_diff(k->psn, q->max_psn) >= 0)
		return;
	if (k->op != WIRE_ACK) {
		rc_rx_rd_response(q, k);
		return;
	}
	switch (k->syndrome & WIRE_SYN_KIND) {
	case WIRE_SYN_ACK:
		if (rc_ack_to(q, k->psn))
			rc_ack_progress(q);
		else
			rc_implied_nak(q);
		break;
	case WIRE_SYN_RNR:
		rc_rx_rnr(q, k);
		break;
	case WIRE_SYN_NAK:
		rc_rx_nak(q, k);
		break;
	default:
		break;
	}
	if (q->qp->state == HCA_QPS_RTS && q->swr_cur == q->swr_head && q->swr_head != q->swr_tail)
		qp_activate(q); /* a WQE that was waiting to fail, or for the fence */
}

/* A card answers at once, a NIC thread that lost its core does not. So a time-out takes effect only
 * when the peer's thread has taken a whole turn since, and this one has then read all that had
 * come. */
static bool rc_answer_may_come(struct nic_qp *q)
{
	const uint64_t turns = cable_turns(q->nd->cable, q->tmpl.hdr, q->qp->attr.dest_qpn);

	switch (q->late) {
	case NIC_LATE_NOT:
		q->late_turns = turns;
		q->late = NIC_LATE_PEER;
		return true;
	case NIC_LATE_PEER:
		if (!turns || turns - q->late_turns >= 2)
			q->late = NIC_LATE_LOOK;
		return true;
	default:
		return q->nd->rx_more;
	}
}

/* Expired: go back to the oldest packet that is not acknowledged. */
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
		qp_activate(q);
		return;
	}
	if (q->swr_head == q->swr_tail)
		return;
	if (rc_answer_may_come(q)) {
		q->deadline_ns = now_ns;
		nic_timer_at(q->nd, now_ns);
		return;
	}
	rc_retry(q, &q->nd->dev->cnt.local_ack_timeout_err);
}
