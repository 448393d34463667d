/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * RC responder: requests of the peer in PSN order into memory, and the answers to them.
 *
 *   PSN of the request   what rc_rsp_rx() does
 *   = epsn               carry it out; epsn moves by one, for a READ by the packets of its response
 *   > epsn               one NAK "PSN sequence error"; the requester goes back to epsn
 *   < epsn               duplicate: the ACK again, or the answer to a READ or atomic (rc_rd.c)
 *
 *   no receive WQE       RNR NAK; epsn stays, the requester repeats after min_rnr_timer
 *   refused              NAK (invalid request, access, operation), QP to ERR
 *
 * ACKs are collected: rc_rsp_tx() sends one per burst, for the last request that asked. Answers to
 * READs and atomics go out first (rc_rd.c), so an ACK never overtakes them.
 *
 * Source: InfiniBand Architecture Specification 1.3, 9.7.4 (validation), 9.7.5 (responses).
 */
#include "softhca/inject/inject.h"
#include "softhca/kernel/kernel.h"
#include "softhca/nic/port/port.h"
#include "softhca/nic/transport/qp.h"

/* One NAK is pending at a time: a newer one replaces it, and names the PSN that is expected now. */
static void rsp_nak(struct nic_qp *q, uint8_t syndrome)
{
	q->nak_pending = true;
	q->nak_syndrome = syndrome;
	q->nak_psn = q->epsn;
	qp_activate(q);
}

/* The request cannot be carried out: NAK, QP to ERR. The receive CQE reports a local fault. */
void rc_rsp_fail(struct nic_qp *q, uint8_t syndrome)
{
	rsp_nak(q, syndrome);
	if (syndrome == WIRE_NAK_ACCESS) {
		NIC_CNT(q->nd, resp_remote_access_errors);
		hca_event_qp(q->qp, HCA_EVENT_QP_ACCESS_ERR);
	} else if (syndrome == WIRE_NAK_INV_REQ) {
		hca_event_qp(q->qp, HCA_EVENT_QP_REQ_ERR);
	}
	qp_to_err(q);
}

/* The QP goes although requests still wait for their answers: the NAK names the oldest of them, so
 * the requester fails what has no answer and nothing before it. The NAK is overwritten for that.
 */
void rc_rsp_gone(struct nic_qp *q, uint8_t syndrome)
{
	const struct nic_rd *rd = &q->rd[q->rd_head % NIC_RD_MAX];
	const bool reads = q->rd_head != q->rd_tail;
	const uint32_t psn = reads ? (rd->psn + q->rd_sent) & WIRE_PSN_MASK : q->epsn;

	rc_rsp_fail(q, syndrome);
	q->nak_psn = psn; /* the oldest request without an answer */
}

/* For SENDs, and for WRITEs with immediate, which use up a receive WQE without touching its
 * memory. */
void resp_recv_cqe(struct nic_qp *q, const struct wire_pkt *k, bool write_imm)
{
	struct nic_cqe e;
	uint8_t op = SPW_PRM_CQE_RESP_SEND;

	if (spw_unlikely(q->adv_writes != NULL))
		adv_writes_settle(q); /* a receive shows what was written before it */
	cq_start(&e);
	if (k->hdrs & WIRE_H_IMM) {
		spw_prm_cqe64_set_imm_inval_pkey(&e, k->imm);
		op = write_imm ? SPW_PRM_CQE_RESP_WR_IMM : SPW_PRM_CQE_RESP_SEND_IMM;
	}
	spw_prm_cqe64_set_flags_rqpn(&e, q->qp->attr.dest_qpn);
	spw_prm_cqe64_set_uidx(&e, q->rq.uidx);
	spw_prm_cqe64_set_byte_cnt(&e, write_imm ? q->wr_len : q->msg_len);
	spw_prm_cqe64_set_timestamp(&e, q->nd->stamp);
	spw_prm_cqe64_set_sop_drop_qpn(&e, q->qp->qpn);
	spw_prm_cqe64_set_wqe_counter(&e, q->rwqe.idx);
	cq_reuse_check(q->rq.cq, &q->rq, (uint16_t)q->rwqe.idx);
	cq_put(q->rq.cq, &e, op, k->se, 1);
}

/* 9.7.4.1.4: first, middle and last in order, each of the length that it must have. */
static bool rsp_sequence_ok(const struct nic_qp *q, const struct wire_pkt *k)
{
	const uint16_t kind = k->hdrs & (WIRE_H_SEND | WIRE_H_WRITE);

	if (k->hdrs & WIRE_H_FIRST ? q->msg != 0 : (kind == 0 || q->msg != kind))
		return false;
	if (!kind)
		return true;
	if (!(k->hdrs & WIRE_H_LAST))
		return k->payload_len == q->mtu;
	return k->payload_len <= q->mtu && (k->payload_len || (k->hdrs & WIRE_H_FIRST));
}

/* false: the packet is not taken (RNR NAK, or the QP failed). */
static bool rsp_take_rwqe(struct nic_qp *q)
{
	switch (inject_rnr(q->nd) ? RQ_EMPTY : rq_take(&q->rq, &q->rwqe)) {
	case RQ_OK:
		return true;
	case RQ_EMPTY:
		NIC_CNT(q->nd, out_of_buffer);
		q->nak_sent =
			true; /* the packets that follow are out of sequence because of this */
		rsp_nak(q, WIRE_SYN_RNR | (q->qp->attr.min_rnr_timer & WIRE_SYN_VALUE));
		return false;
	default:
		rc_rsp_fail(q, WIRE_NAK_OP);
		return false;
	}
}

/* Only memory windows and fast-registered regions may be invalidated by a peer, and there are none:
 * every such key is refused. The receive fails and the QP with it; no NAK goes out (9.9.3, class J,
 * as rdma_rxe does). */
static void rsp_refuse_inval(struct nic_qp *q)
{
	q->msg = 0;
	rq_complete_err(q->nd, &q->rq, q->qp->qpn, q->rwqe.idx, SPW_PRM_SYN_REMOTE_INVAL_REQ_ERR);
	qp_to_err(q);
}

/* A message may have many packets: rwqe and msg_len keep the place between them. The CQE comes with
 * the last packet, after its payload was stored. An error completes the WQE itself with its reason;
 * those behind it are flushed. */
static bool rsp_send(struct nic_qp *q, const struct wire_pkt *k)
{
	uint8_t syn;

	if (k->hdrs & WIRE_H_FIRST) {
		if (!rsp_take_rwqe(q))
			return false;
		q->msg = WIRE_H_SEND;
		q->msg_len = 0;
	}
	syn = rq_scatter(q->nd, &q->rq, &q->rwqe, k->payload, k->payload_len);
	if (spw_unlikely(syn)) {
		if (syn == SPW_PRM_SYN_LOCAL_LENGTH_ERR)
			NIC_CNT(q->nd, resp_local_length_error);
		rq_complete_err(q->nd, &q->rq, q->qp->qpn, q->rwqe.idx, syn);
		q->msg = 0;
		rc_rsp_fail(q,
			    syn == SPW_PRM_SYN_LOCAL_LENGTH_ERR ? WIRE_NAK_INV_REQ : WIRE_NAK_OP);
		return false;
	}
	q->msg_len += k->payload_len;
	if (spw_unlikely(k->hdrs & WIRE_H_INV)) {
		rsp_refuse_inval(q);
		return false;
	}
	if (k->hdrs & WIRE_H_LAST) {
		q->msg = 0;
		resp_recv_cqe(q, k, false);
	}
	return true;
}

/* The receive WQE for an immediate is taken before anything is stored: without one the packet is
 * refused as a whole and repeated later. */
static bool rsp_write(struct nic_qp *q, const struct wire_pkt *k)
{
	uint8_t why;

	if ((k->hdrs & WIRE_H_IMM) && !rsp_take_rwqe(q))
		return false;
	if (k->hdrs & WIRE_H_FIRST)
		NIC_CNT(q->nd, rx_write_requests);
	if (spw_unlikely(!resp_write(q, k, &why))) {
		/* The receive WQE for the immediate is flushed like the others. */
		if (k->hdrs & WIRE_H_IMM)
			rq_complete_err(q->nd, &q->rq, q->qp->qpn, q->rwqe.idx,
					SPW_PRM_SYN_WR_FLUSH_ERR);
		rc_rsp_fail(q, why);
		return false;
	}
	q->msg = k->hdrs & WIRE_H_LAST ? 0 : WIRE_H_WRITE;
	if (k->hdrs & WIRE_H_IMM)
		resp_recv_cqe(q, k, true);
	return true;
}

/* A request that was carried out before gets its ACK or its answer again. */
static void rsp_rx_duplicate(struct nic_qp *q, const struct wire_pkt *k)
{
	NIC_CNT(q->nd, duplicate_request);
	if (k->hdrs & (WIRE_H_SEND | WIRE_H_WRITE)) {
		q->ack_pending = true;
		q->ack_psn = (q->epsn - 1) & WIRE_PSN_MASK;
	} else {
		rc_rd_repeat(q, k);
	}
	qp_activate(q);
}

/* The table at the top of the file, in this order. nak_sent stops a second NAK for the same gap:
 * the packets behind a lost one all arrive out of sequence. */
void rc_rsp_rx(struct nic_qp *q, const struct wire_pkt *k)
{
	const int32_t ahead = wire_psn_diff(k->psn, q->epsn);
	uint32_t pkts = 1;
	bool ok;

	if (spw_unlikely(ahead > 0)) {
		NIC_CNT(q->nd, out_of_sequence);
		if (!q->nak_sent) {
			q->nak_sent = true;
			rsp_nak(q, WIRE_NAK_PSN);
		}
		return;
	}
	if (spw_unlikely(ahead < 0)) {
		rsp_rx_duplicate(q, k);
		return;
	}
	q->nak_sent = false;
	if (spw_unlikely(!rsp_sequence_ok(q, k))) {
		rc_rsp_fail(q, WIRE_NAK_INV_REQ);
		return;
	}
	if (k->hdrs & WIRE_H_SEND)
		ok = rsp_send(q, k);
	else if (k->hdrs & WIRE_H_WRITE)
		ok = rsp_write(q, k);
	else
		ok = rc_rd_rx(q, k, &pkts);
	if (spw_unlikely(!ok))
		return;
	q->epsn = (q->epsn + pkts) & WIRE_PSN_MASK;
	if (k->hdrs & WIRE_H_LAST)
		q->msn = (q->msn + 1) & 0xffffff;
	if (k->hdrs & (WIRE_H_SEND | WIRE_H_WRITE)) {
		q->ack_pending |= k->ack_req;
		q->ack_psn = k->psn;
		if (!k->ack_req)
			return;
	}
	qp_activate(q);
}

/* ---- answers ---- */

/* ACK, NAK and the answer to an atomic differ in syndrome and in the 8 bytes behind. False: the
 * cable is full; the caller stays active and tries again in the next round. */
bool rc_rsp_aeth(struct nic_qp *q, uint8_t op, uint32_t psn, uint8_t syndrome, uint64_t orig)
{
	const uint32_t bytes = wire_frame_bytes(&q->tmpl, wire_op_ext_bytes[op], 0);
	uint8_t *frame = nic_tx_reserve(q->nd, q->tmpl.hdr, q->qp->attr.dest_qpn, bytes);
	uint8_t *p;

	if (!frame)
		return false;
	p = wire_start(&q->tmpl, frame, bytes, 0,
		       (struct wire_bth){
			       .opcode = WIRE_RC | op, .dqpn = q->qp->attr.dest_qpn, .psn = psn});
	spw_prm_st32(p, (uint32_t)syndrome << 24 | q->msn);
	if (op == WIRE_ATOMIC_ACK)
		spw_prm_st64(p + 4, orig);
	nic_tx_commit(q->nd, frame, bytes, true, q->tmpl.l3_off, q->tmpl.ipv6, 0);
	return true;
}

/* Returns: true: more to send. */
bool rc_rsp_tx(struct nic_qp *q)
{
	if (q->rd_head != q->rd_tail && rc_rd_tx(q))
		return true;
	if (q->ack_pending) {
		if (!rc_rsp_aeth(q, WIRE_ACK, q->ack_psn, WIRE_ACK_NO_CREDIT, 0))
			return true;
		q->ack_pending = false;
	}
	if (q->nak_pending) {
		if (!rc_rsp_aeth(q, WIRE_ACK, q->nak_psn, q->nak_syndrome, 0))
			return true;
		q->nak_pending = false;
	}
	return false;
}
