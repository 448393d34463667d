/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The NIC's side of objects: created, modified and destroyed by commands of the control path
 * (nic.h).
 *
 * Each hca_* object has a `nic` pointer, which belongs to the NIC. It is made before the command is
 * answered and freed when the object is destroyed; from then on the NIC touches neither the object
 * nor its buffers, because libmlx5 frees them.
 *
 * QP states (hardware side; hca_qp.state): RESET -> INIT -> RTR (responder on) -> RTS (requester
 * on). SQD drains, SQE is a failed send queue of UC and UD, ERR flushes both queues.
 *
 * The device lock is held throughout, so no round of the NIC thread runs meanwhile. Order of a
 * destruction: what is under way is settled or dropped (CQEs, the last ACK), then every list
 * of the NIC that names the object forgets it, then its memory is freed.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/spw_err.h"
#include "softhca/inject/inject.h"
#include "softhca/nic/eth/eth.h"
#include "softhca/nic/port/port.h"
#include "softhca/nic/run/run.h"

#define QPA_AV (1u << 7) /* enum ib_qp_attr_mask */

/* From now on every round polls the page's registers. */
int nic_uar_create(struct hca_uar *uar)
{
	struct nic_dev *nd = uar->o.ctx->dev->nic;

	if (nd->uar_cnt == NIC_UAR_MAX)
		return spw_err(ENOMEM, "more than %u register pages", NIC_UAR_MAX);
	nd->uar[nd->uar_cnt++] = uar;
	return 0;
}

/* The last page takes its place: the order of pages does not matter. */
void nic_uar_destroy(struct hca_uar *uar)
{
	struct nic_dev *nd = uar->o.ctx->dev->nic;

	for (uint32_t i = 0; i < nd->uar_cnt; i++)
		if (nd->uar[i] == uar)
			nd->uar[i--] = nd->uar[--nd->uar_cnt];
}

/* The arm word that is there already is not an arming. */
int nic_cq_create(struct hca_cq *cq)
{
	struct nic_cq *c = calloc(1, sizeof(*c));

	if (c && cq->comp_en)
		c->comp = calloc(1, sizeof(*c->comp));
	if (!c || (cq->comp_en && !c->comp)) {
		free(c);
		return spw_err(ENOMEM, "no memory for a CQ");
	}
	c->cq = cq;
	c->nd = cq->o.ctx->dev->nic;
	if (!cq_reuse_init(c) || !adv_cq_init(c)) {
		cq_reuse_fini(c);
		free(c->comp);
		free(c);
		return spw_err(ENOMEM, "no memory for a CQ");
	}
	cq_comp_init(c);
	c->arm_word = (SPW_FORCE uint32_t)spw_thr_load_acq(&cq->dbrec[1]);
	cq->nic = c;
	return 0;
}

/* A compression session that is open is dropped: nobody will read the ring. */
void nic_cq_destroy(struct hca_cq *cq)
{
	struct nic_cq *c = cq->nic;

	if (!c)
		return;
	if (c->comp)
		c->comp->cnt = 0;
	HCA_UNLINK(c->nd->comp_list, c, comp_next);
	HCA_UNLINK(c->nd->mod_list, c, mod_next);
	adv_cq_fini(c);
	cq_reuse_fini(c);
	free(c->comp);
	free(c);
	cq->nic = NULL;
}

/* The old ring gets a last CQE that names the resize; the new one begins empty. */
int nic_cq_resize(struct hca_cq *cq, uint8_t *buf, uint32_t ncqe)
{
	struct nic_cq *c = cq->nic;
	struct nic_cqe e;

	cq_comp_flush(c);
	adv_settle(c);
	if (((c->pi - (spw_be32_to_cpu(spw_thr_load_acq(&cq->dbrec[0])) & 0xffffff)) & 0xffffff) >=
	    ncqe)
		return spw_err(EINVAL, "the CQ holds more CQEs than its new size");
	/* Marks the end of the old ring; libmlx5 moves the CQEs before the mark. */
	cq_start(&e);
	cq_put(c, &e, SPW_PRM_CQE_RESIZE_CQ, false, 0);
	adv_settle(c);
	cq_reuse_fini(c); /* a resized CQ is not checked */
	cq->buf = buf;
	cq->ncqe = ncqe;
	c->ci_read = spw_be32_to_cpu(spw_thr_load_acq(&cq->dbrec[0]));
	return 0;
}

/* It has no ring to copy for the adversary: WQEs are linked, and taken one by one. */
int nic_srq_create(struct hca_srq *srq)
{
	srq->nic = calloc(1, sizeof(*srq->nic));
	if (!srq->nic)
		return spw_err(ENOMEM, "no memory for an SRQ");
	srq->nic->srq = srq;
	srq->nic->adv = srq->o.ctx->dev->nic->adv != NULL;
	return 0;
}

void nic_srq_destroy(struct hca_srq *srq)
{
	free(srq->nic);
	srq->nic = NULL;
}

/* Striding: one WQE is a buffer of stride_cnt frames; two_byte_shift moves each frame by 2 bytes,
 * so that its IP header is aligned. */
int nic_wq_create(struct hca_wq *wq)
{
	struct nic_wq *n = calloc(1, sizeof(*n));

	if (!n)
		return spw_err(ENOMEM, "no memory for a WQ");
	n->rq = (struct nic_rq){
		.rq = &wq->rq,
		.wq = wq,
		.pd = wq->pd,
		.cq = wq->cq->nic,
		.wqes = wq->rq.buf,
		.uidx = wq->uidx,
		.striding = wq->striding,
		.two_byte_shift = wq->two_byte_shift ? 2 : 0,
		.stride_bytes = wq->striding ? 1u << wq->stride_log2_bytes : 0,
		.stride_cnt = wq->striding ? 1u << wq->strides_log2_cnt : 0,
	};
	if (!adv_rq_init(wq->o.ctx->dev->nic, &n->rq, wq->o.handle)) {
		free(n);
		return spw_err(ENOMEM, "no memory for a WQ");
	}
	wq->nic = n;
	return 0;
}

/* wq->nic is NULL if creation failed half-way. */
void nic_wq_destroy(struct hca_wq *wq)
{
	if (wq->nic) {
		adv_settle(wq->nic->rq.cq);
		adv_rq_fini(&wq->nic->rq);
		cq_reuse_forget(&wq->nic->rq);
		late_forget(wq->o.ctx->dev->nic, wq, false);
	}
	free(wq->nic);
	wq->nic = NULL;
}

/* RESET clears the indices, ERR flushes what is posted. */
void nic_wq_modified(struct hca_wq *wq, uint8_t from)
{
	struct nic_rq *r = &wq->nic->rq;

	if (wq->state == HCA_WQS_RESET) {
		adv_settle(r->cq);
		cq_reuse_forget(r);
		late_forget(wq->o.ctx->dev->nic, wq, true);
		r->ci = r->pi = 0;
		r->stride_at = 0;
		r->dropped = 0;
	} else if (wq->state == HCA_WQS_ERR && from == HCA_WQS_RDY) {
		rq_flush(wq->o.ctx->dev->nic, r, 0);
	}
}

/* RSS QPs are packet QPs without queues. */
static uint8_t qp_transport(const struct hca_qp *qp)
{
	switch (qp->qp_type) {
	case IB_UVERBS_QPT_RC:
		return SPW_PRM_RC;
	case IB_UVERBS_QPT_UC:
		return SPW_PRM_UC;
	case IB_UVERBS_QPT_UD:
		return SPW_PRM_UD;
	default:
		return SPW_PRM_RAW;
	}
}

/* The table of open WQEs has one entry per WQEBB: no WQE is smaller. */
int nic_qp_create(struct hca_qp *qp)
{
	struct nic_qp *q = calloc(1, sizeof(*q));
	uint32_t n = qp->sq_wqebb_cnt;

	if (!q)
		return spw_err(ENOMEM, "no memory for a QP");
	q->qp = qp;
	q->nd = qp->o.ctx->dev->nic;
	q->transport = qp_transport(qp);
	if (n && SPW_IS_POW2(n)) {
		q->swr = calloc(n, sizeof(*q->swr));
		q->swr_mask = n - 1;
	}
	if (n && !q->swr) {
		free(q->swr);
		free(q);
		return spw_err(ENOMEM, "no memory for a QP of %u WQEBBs", n);
	}
	q->scq = qp->send_cq ? qp->send_cq->nic : NULL;
	q->rq = (struct nic_rq){
		.rq = qp->rq.wqe_cnt ? &qp->rq : NULL,
		.srq = qp->srq,
		.pd = qp->srq ? qp->srq->pd : qp->pd,
		.cq = qp->recv_cq ? qp->recv_cq->nic : NULL,
		.wqes = qp->rq.buf,
		.uidx = qp->uidx,
	};
	if (!adv_sq_init(q) || !adv_writes_init(q) ||
	    !adv_rq_init(q->nd, &q->rq, HCA_QPN_SLOT(qp->qpn) | 1u << 16)) {
		adv_sq_fini(q);
		adv_writes_fini(q);
		free(q->swr);
		free(q);
		return spw_err(ENOMEM, "no memory for a QP of %u WQEBBs", n);
	}
	/* Nothing can fail any more, so the rounds may find it. */
	q->next = q->nd->qps;
	q->nd->qps = q;
	qp->nic = q;
	qp_reset(q);
	return 0;
}

static int obj_send_rung(void *arg)
{
	struct nic_qp *q = arg;

	nic_doorbells(q->nd);
	q->nd->tx_no_room = false;
	while (q->qp->state == HCA_QPS_RTS && ud_tx(q) && !q->nd->tx_no_room)
		;
	return 0;
}

/* Datagrams that were rung leave first: a card takes them within a microsecond, and mckey destroys
 * its QP right after them. Other doorbells that were not taken yet are dropped with the QP. */
void nic_qp_destroy(struct hca_qp *qp)
{
	struct nic_qp *q = qp->nic;

	if (!q)
		return;
	if (q->transport == SPW_PRM_RC && qp->state >= HCA_QPS_RTR)
		qp_last_ack(q);
	if (q->transport == SPW_PRM_UD && q->swr)
		(void)nic_guarded(q->nd->dev, obj_send_rung, q);
	nic_tx_flush(q->nd);
	sq_settle(q);
	nic_doorbells_forget(q);
	adv_settle(q->scq);
	adv_settle(q->rq.cq);
	adv_sq_fini(q);
	adv_writes_settle(q);
	adv_writes_fini(q);
	adv_rq_fini(&q->rq);
	qp_deactivate(q);
	cq_reuse_forget(&q->rq);
	HCA_UNLINK(q->nd->qps, q, next);
	free(q->swr);
	free(q);
	qp->nic = NULL;
}

/* State changes of the hardware side; the attributes were stored by the command. */
void nic_qp_modified(struct hca_qp *qp, uint8_t from, uint32_t mask)
{
	struct nic_qp *q = qp->nic;
	const uint8_t to = qp->state;
	const bool connected = q->transport == SPW_PRM_RC || q->transport == SPW_PRM_UC;

	if (to == HCA_QPS_RESET) {
		sq_settle(q);
		nic_doorbells_forget(q);
		adv_settle(q->scq);
		adv_settle(q->rq.cq);
		adv_sq_forget(q);
		adv_writes_settle(q);
		qp_reset(q);
		return;
	}
	if (to == HCA_QPS_ERR) {
		qp->state = from; /* qp_to_err does the change */
		if (from != HCA_QPS_ERR)
			qp_to_err(q);
		qp->state = HCA_QPS_ERR;
		return;
	}
	/* The path may also change in SQD. */
	if (connected && (mask & QPA_AV || (from == HCA_QPS_INIT && to == HCA_QPS_RTR)))
		qp_path_set(q);
	if (from == HCA_QPS_INIT && to == HCA_QPS_RTR)
		q->epsn = qp->attr.rq_psn & WIRE_PSN_MASK;
	if (from == HCA_QPS_RTR && to == HCA_QPS_RTS)
		q->sq_psn = q->snd_psn = q->una_psn = q->max_psn = qp->attr.sq_psn & WIRE_PSN_MASK;
	if (to == HCA_QPS_RTS || to == HCA_QPS_SQD)
		qp_activate(q);
}
