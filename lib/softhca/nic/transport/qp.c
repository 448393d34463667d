/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Queue pairs as a whole: the list of those with work, reset, error, the path to the peer.
 *
 *   doorbell, ACK, NAK, timer --> qp_activate --> act_head .. act_tail --> run/dev.c: its turn
 *                                     ^------------ more to send -------------+
 *
 * What to know before changing it: qp_to_err() is called from within receiving, sending and
 * completing, also for the QP at work. So it may be called twice, and its callers have advanced
 * their indices before. The responder of a QP in ERR still sends its pending NAK.
 */
#include <string.h>

#include "softhca/inject/inject.h"
#include "softhca/kernel/kernel.h"
#include "softhca/nic/port/port.h"
#include "softhca/nic/transport/qp.h"
#include "softhca/nic/up.h"

/* At the end, so that those that wait have their turn first. */
void qp_activate(struct nic_qp *q)
{
	struct nic_dev *nd = q->nd;

	if (q->active)
		return;
	q->active = true;
	q->act_next = NULL;
	*nd->act_tail = q;
	nd->act_tail = &q->act_next;
}

/* The list is searched, which only a reset or a destruction pays for. */
void qp_deactivate(struct nic_qp *q)
{
	struct nic_dev *nd = q->nd;

	for (struct nic_qp **p = &nd->act_head; *p; p = &(*p)->act_next) {
		if (*p != q)
			continue;
		*p = q->act_next;
		if (nd->act_tail == &q->act_next)
			nd->act_tail = p;
		break;
	}
	q->active = false;
}

/* Indices and sequence numbers begin at 0, as libmlx5 and the peer expect. The MTU is a guess from
 * the interface until qp_path_set knows the path's; raw packet and UD QPs keep it. */
void qp_reset(struct nic_qp *q)
{
	qp_deactivate(q);
	cq_reuse_forget(&q->rq);
	q->sq_pi = q->sq_ci = 0;
	q->swr_head = q->swr_cur = q->swr_tail = 0;
	q->cur_pkt = 0;
	q->sq_psn = q->snd_psn = q->una_psn = q->max_psn = 0;
	q->window = NIC_WINDOW_MAX;
	q->rd_out = 0;
	q->retries = q->rnr_retries = 0;
	q->rnr_wait = q->implied_nak = false;
	q->deadline_ns = 0;
	q->epsn = q->msn = 0;
	q->msg = 0;
	q->comm_est = false;
	q->nak_sent = q->ack_pending = q->nak_pending = false;
	q->rd_head = q->rd_tail = q->rd_sent = 0;
	q->done_cnt = 0;
	q->rwqe_reuse = q->rq_flushing = false;
	q->rq.ci = q->rq.pi = 0;
	q->rq.stride_at = 0;
	q->dmac_known = false;
	q->mtu_log2 = 12;
	while (q->mtu_log2 > 8 && (1u << q->mtu_log2) + 60u > q->nd->dev->mtu_bytes)
		q->mtu_log2--;
	q->mtu = 1u << q->mtu_log2;
}

/* The headers of every packet to this peer, made once. The UDP source port is mixed from both QP
 * numbers and the flow label, so that switches spread flows. */
void qp_path_set(struct nic_qp *q)
{
	const struct hca_qp_attr *a = &q->qp->attr;
	const struct hca_dev *dev = q->nd->dev;
	struct wire_av av = {.tclass = a->av.traffic_class,
			     .hop_limit = a->av.hop_limit ? a->av.hop_limit : 64,
			     .flow_label = a->av.flow_label & 0xfffff};
	const uint32_t mix = (q->qp->qpn ^ a->dest_qpn * 2654435761u) ^ av.flow_label;
	const uint32_t sgid = a->av.sgid_index < HCA_GID_CNT ? a->av.sgid_index : 0;

	memcpy(av.dgid, a->av.dgid, 16);
	memcpy(av.sgid, dev->gid[sgid], 16);
	memcpy(av.smac, dev->id.mac, 6);
	memcpy(q->dgid, av.dgid, 16);
	q->dmac_known = nic_resolve(q->nd->dev, sgid, av.dgid, av.dmac) == 0;
	if (!q->dmac_known)
		memset(av.dmac, 0xff, 6);
	av.sport = (uint16_t)(0xc000 | ((mix ^ mix >> 14) & 0x3fff));
	wire_tmpl_init(&q->tmpl, &av);
	q->mtu_log2 = 7u + SPW_MAX(1u, SPW_MIN(5u, (unsigned)a->path_mtu));
	q->mtu = 1u << q->mtu_log2;
}

/* A packet QP has no peer, and UD has one for each WQE. */
static void qp_dmac_refresh(struct nic_qp *q)
{
	uint8_t mac[6];

	if (q->dmac_known || q->transport == SPW_PRM_RAW || q->transport == SPW_PRM_UD ||
	    !neigh_find(q->nd, q->dgid, mac))
		return;
	wire_tmpl_set_dmac(&q->tmpl, mac);
	q->dmac_known = true;
}

void qp_neigh_learnt(struct nic_dev *nd)
{
	for (struct nic_qp *q = nd->qps; q; q = q->next)
		qp_dmac_refresh(q);
}

/* Both queues are flushed; an RC QP with an SRQ reports by an event that it takes no more from it.
 */
void qp_to_err(struct nic_qp *q)
{
	if (q->qp->state == HCA_QPS_RESET)
		return;
	if (spw_unlikely(q->nd->copier != NULL))
		copy_wait(q->nd); /* the application may use its buffers again */
	q->qp->state = HCA_QPS_ERR;
	q->ack_pending = false;
	q->rd_head = q->rd_tail;
	sq_flush(q);
	if (q->msg == WIRE_H_SEND && q->rq.cq && !inject_no_flush(q->nd))
		rq_complete_err(q->nd, &q->rq, q->qp->qpn, q->rwqe.idx, SPW_PRM_SYN_WR_FLUSH_ERR);
	q->msg = 0;
	if (q->qp->srq) {
		if (!q->rq_flushing)
			hca_event_qp(q->qp, HCA_EVENT_QP_LAST_WQE_REACHED);
	} else if (q->rq.cq) {
		rq_flush(q->nd, &q->rq, q->qp->qpn);
	}
	q->rq_flushing = true; /* nic_round() flushes what is posted from now on */
}

void qp_cq_failed(struct nic_cq *c)
{
	for (struct nic_qp *q = c->nd->qps; q; q = q->next) {
		if (q->scq != c && q->rq.cq != c)
			continue;
		qp_to_err(q);
		hca_event_qp(q->qp, HCA_EVENT_QP_FATAL);
	}
}

/* The peer may still wait for the ACK of what it sent, and after this nobody repeats a lost one.
 * Where frames can get lost, the ACK goes out a few more times; duplicates are legal (9.7.5) and
 * change nothing. */
void qp_last_ack(struct nic_qp *q)
{
	struct nic_dev *nd = q->nd;
	const unsigned more = inject_takes_tx(nd) || !nd->cable->trusts ? 4 : 0;

	rc_rsp_tx(q);
	for (unsigned i = 0; i < more && q->qp->state != HCA_QPS_ERR; i++) {
		q->ack_pending = true;
		q->ack_psn = (q->epsn - 1) & WIRE_PSN_MASK;
		rc_rsp_tx(q);
	}
	inject_frames_all(nd);
}
