/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * UD and UC: unacknowledged transports. A WQE completes when its last packet is on the cable.
 *
 * UD sends one packet per WQE, to the address vector in the WQE. UC sends RC's packets
 * (rc_send_packet) and gets no answer. A receiver drops what does not fit:
 *
 *   UD   wrong Q_Key, no receive WQE    the datagram is lost
 *   UC   not the expected PSN           the open message is lost; its receive WQE serves the next
 *                                       message (rwqe_reuse)
 *
 * Source: InfiniBand Architecture Specification 1.3, 9.8 (UC 9.8.2, UD 9.8.3).
 *
 *   ud_tx   ud_next_wqe --> ud_template: the address vector --> headers, payload --> ud_sent: CQE
 *   ud_rx   Q_Key --> receive WQE --> 40 bytes of GRH, payload --> CQE
 *   uc_rx   PSN, place in the message --> resp_write, or WQE and payload --> CQE, with the last
 *
 * round_qp_tx (run/dev.c) and eth/rx.c call these.
 */
#include "softhca/nic/port/port.h"
#include "softhca/nic/transport/qp.h"

#define QKEY_FROM_QP  0x80000000u /* the Q_Key of the QP is sent in place of the WQE's */
#define PKEY_DEFAULT  0xffffu
#define PKT_TYPE_IPV6 1u
#define PKT_TYPE_IPV4 2u

/* The next valid WQE. Returns NULL if none is rung, or if the queue has just failed. */
static struct nic_swr *ud_next_wqe(struct nic_qp *q)
{
	struct nic_swr *w;

	if (q->swr_cur == q->swr_tail) {
		if (q->qp->state != HCA_QPS_RTS || !sq_fetch(q))
			return NULL;
		w = sq_swr(q, q->swr_cur);
		q->cur_pkt = 0;
		q->g = (struct nic_gather){.seg = w->seg_off};
	}
	w = sq_swr(q, q->swr_cur);
	if (w->syndrome) {
		sq_fail(q, w->syndrome, 0);
		return NULL;
	}
	return w;
}

/* Nothing is awaited from the peer, so a WQE is complete with its last packet. */
static void ud_sent(struct nic_qp *q, struct nic_swr *w)
{
	q->swr_cur = ++q->swr_head;
	sq_complete(q, w);
}

/* Makes the template for an address vector; most sends use the previous one again. */
static void ud_template(struct nic_qp *q, const uint8_t *av)
{
	struct wire_av a = {.hop_limit = spw_prm_wqe_av_get_hop_limit(av),
			    .tclass = spw_prm_wqe_av_get_tclass(av),
			    .sport = spw_prm_wqe_av_get_udp_sport(av),
			    .flow_label = spw_prm_wqe_av_get_flow_label(av)};
	const uint32_t sgid = spw_prm_wqe_av_get_src_addr_index(av);

	if (memcmp(q->ud_av, av + 8, 40) == 0 && q->dmac_known)
		return;
	memcpy(q->ud_av, av + 8, 40);
	memcpy(a.dgid, av + 32, 16);
	memcpy(a.sgid, q->nd->dev->gid[sgid < HCA_GID_CNT ? sgid : 0], 16);
	memcpy(a.smac, q->nd->dev->id.mac, 6);
	memcpy(a.dmac, av + 20, 6);
	q->dmac_known = !(a.dmac[0] & 1) || a.dgid[0] == 0xff || neigh_find(q->nd, a.dgid, a.dmac);
	if (!a.sport)
		a.sport = 0xc000;
	if (!a.hop_limit)
		a.hop_limit = 64;
	wire_tmpl_init(&q->tmpl, &a);
}

/* False: the cable is full, try again; true with w->syndrome: the WQE cannot be sent, and the next
 * look at it fails the queue. */
static bool ud_send(struct nic_qp *q, struct nic_swr *w)
{
	const uint8_t op = w->opcode == SPW_PRM_OP_SEND_IMM ? WIRE_SEND_ONLY_IMM : WIRE_SEND_ONLY;
	uint8_t av[48], *frame, *p;
	uint32_t bytes, dqpn, qkey;

	/* The 48 bytes never wrap: they follow the ctrl segment in the same WQEBB. */
	memcpy(av, sq_bytes(q, w->idx, 16), sizeof(av));
	ud_template(q, av);
	dqpn = spw_prm_wqe_av_get_dqpn(av);
	qkey = spw_prm_wqe_av_get_qkey(av);
	bytes = wire_frame_bytes(&q->tmpl, WIRE_DETH_BYTES + wire_op_ext_bytes[op], w->len);
	frame = nic_tx_reserve(q->nd, q->tmpl.hdr, dqpn, bytes);
	if (!frame)
		return false;
	p = wire_start(&q->tmpl, frame, bytes, w->len,
		       (struct wire_bth){.opcode = WIRE_UD | op,
					 .flags = w->se ? WIRE_F_SE : 0,
					 .dqpn = dqpn,
					 .psn = q->snd_psn});
	spw_prm_st32(p, qkey & QKEY_FROM_QP ? q->qp->attr.qkey : qkey);
	spw_prm_st32(p + 4, q->qp->qpn);
	p += WIRE_DETH_BYTES;
	if (op == WIRE_SEND_ONLY_IMM) {
		spw_prm_st32(p, w->imm);
		p += WIRE_IMM_BYTES;
	}
	w->syndrome = sq_gather(q, w, &q->g, p, w->len);
	if (w->syndrome)
		return true;
	nic_tx_commit(q->nd, frame, bytes, true, q->tmpl.l3_off, q->tmpl.ipv6, w->len);
	q->snd_psn = (q->snd_psn + 1) & WIRE_PSN_MASK;
	return true;
}

/* Returns: true: more to send, as uc_tx below. The budget gives other QPs their turn. */
bool ud_tx(struct nic_qp *q)
{
	for (uint32_t budget = NIC_QP_BUDGET; budget; budget--) {
		struct nic_swr *w = ud_next_wqe(q);

		if (!w)
			return false;
		if (w->opcode != SPW_PRM_OP_NOP && !ud_send(q, w))
			return true;
		if (!w->syndrome)
			ud_sent(q, w);
	}
	return true;
}

/* A message may take several rounds: cur_pkt and the gather position continue. */
bool uc_tx(struct nic_qp *q)
{
	for (uint32_t budget = NIC_QP_BUDGET; budget; budget--) {
		struct nic_swr *w = ud_next_wqe(q);
		const uint32_t at = q->swr_cur;

		if (!w)
			return false;
		if (w->opcode == SPW_PRM_OP_NOP)
			q->swr_cur++;
		else if (!rc_send_packet(q, w, WIRE_UC))
			return true;
		if (q->swr_cur != at)
			ud_sent(q, w);
	}
	return true;
}

/* ---- receiving ---- */

/* The 40 bytes before a datagram: the IPv6 header, or zeros and the IPv4 header. */
static void ud_grh_area(const struct wire_pkt *k, uint8_t grh[40])
{
	memset(grh, 0, 40);
	if (k->ipv6)
		memcpy(grh, k->l3, 40);
	else
		memcpy(grh + 20, k->l3, 20);
}

/* The receive buffer begins with 40 bytes for the GRH, over IPv4 too. A datagram that is too long
 * for its receive fails the QP, as a local length error does. */
void ud_rx(struct nic_qp *q, const struct wire_pkt *k)
{
	struct nic_cqe e;
	uint8_t grh[40], syn;

	if (k->qkey != q->qp->attr.qkey)
		return; /* silently dropped */
	switch (rq_take(&q->rq, &q->rwqe)) {
	case RQ_OK:
		break;
	case RQ_EMPTY:
		NIC_CNT(q->nd, out_of_buffer);
		return;
	default:
		qp_to_err(q);
		return;
	}
	ud_grh_area(k, grh);
	syn = rq_scatter(q->nd, &q->rq, &q->rwqe, grh, sizeof(grh));
	if (!syn)
		syn = rq_scatter(q->nd, &q->rq, &q->rwqe, k->payload, k->payload_len);
	if (syn) {
		if (syn == SPW_PRM_SYN_LOCAL_LENGTH_ERR)
			NIC_CNT(q->nd, resp_local_length_error);
		rq_complete_err(q->nd, &q->rq, q->qp->qpn, q->rwqe.idx, syn);
		qp_to_err(q);
		return;
	}
	cq_start(&e);
	if (k->hdrs & WIRE_H_IMM)
		spw_prm_cqe64_set_imm_inval_pkey(&e, k->imm);
	else
		spw_prm_cqe64_set_imm_inval_pkey(&e, PKEY_DEFAULT);
	spw_prm_cqe64_set_grh(&e, 1);
	spw_prm_cqe64_set_pkt_type(&e, k->ipv6 ? PKT_TYPE_IPV6 : PKT_TYPE_IPV4);
	spw_prm_cqe64_set_rqpn(&e, k->sqpn);
	spw_prm_cqe64_set_uidx(&e, q->rq.uidx);
	spw_prm_cqe64_set_byte_cnt(&e, k->payload_len + 40);
	spw_prm_cqe64_set_timestamp(&e, q->nd->stamp);
	spw_prm_cqe64_set_sop_drop_qpn(&e, q->qp->qpn);
	spw_prm_cqe64_set_wqe_counter(&e, q->rwqe.idx);
	cq_reuse_check(q->rq.cq, &q->rq, (uint16_t)q->rwqe.idx);
	cq_put(q->rq.cq, &e,
	       k->hdrs & WIRE_H_IMM ? SPW_PRM_CQE_RESP_SEND_IMM : SPW_PRM_CQE_RESP_SEND, k->se, 0);
}

/* The WQE of a message that was lost half-way serves the next one, from its start: the application
 * never learns of the loss. */
static bool uc_take(struct nic_qp *q)
{
	if (q->rwqe_reuse) {
		q->rwqe_reuse = false;
		q->rwqe.at_sge = q->rwqe.at_off = 0;
		return true;
	}
	if (rq_take(&q->rq, &q->rwqe) == RQ_OK)
		return true;
	NIC_CNT(q->nd, out_of_buffer);
	return false;
}

/* Bytes of a WRITE that were stored stay; a SEND's buffer is written again from its start. */
static void uc_lose(struct nic_qp *q)
{
	if (q->msg == WIRE_H_SEND)
		q->rwqe_reuse = true;
	q->msg = 0;
}

/* 9.8.2.2: a lost packet loses its message and nothing else. */
void uc_rx(struct nic_qp *q, const struct wire_pkt *k)
{
	const uint16_t kind = k->hdrs & (WIRE_H_SEND | WIRE_H_WRITE);
	uint8_t syn, why;

	/* A first packet ends whatever message was open. */
	if (k->psn != q->epsn || (k->hdrs & WIRE_H_FIRST))
		uc_lose(q);
	q->epsn = (k->psn + 1) & WIRE_PSN_MASK;
	if (!kind || k->payload_len > q->mtu ||
	    (!(k->hdrs & WIRE_H_LAST) && k->payload_len != q->mtu) ||
	    (!(k->hdrs & WIRE_H_FIRST) && q->msg != kind)) {
		uc_lose(q);
		return;
	}
	if (kind == WIRE_H_WRITE) {
		if (!resp_write(q, k, &why) || ((k->hdrs & WIRE_H_IMM) && !uc_take(q))) {
			q->msg = 0;
			return;
		}
		q->msg = k->hdrs & WIRE_H_LAST ? 0 : WIRE_H_WRITE;
		if (k->hdrs & WIRE_H_IMM)
			resp_recv_cqe(q, k, true);
		return;
	}
	if (k->hdrs & WIRE_H_FIRST) {
		if (!uc_take(q))
			return;
		q->msg = WIRE_H_SEND;
		q->msg_len = 0;
	}
	syn = rq_scatter(q->nd, &q->rq, &q->rwqe, k->payload, k->payload_len);
	if (syn) {
		rq_complete_err(q->nd, &q->rq, q->qp->qpn, q->rwqe.idx, syn);
		q->msg = 0;
		qp_to_err(q);
		return;
	}
	q->msg_len += k->payload_len;
	if (k->hdrs & WIRE_H_LAST) {
		q->msg = 0;
		resp_recv_cqe(q, k, false);
	}
}
