/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Completions of send WQEs, and of WQEs that fail: their CQEs, and when they are written. The CQEs
 * of what was received are made by who received it (rc_rsp.c, ud.c, eth/raw.c).
 *
 * A card completes a raw frame when it has done with it, and stamps the CQE then: about when the
 * frame leaves (frame/spw_port_sent.h has what is known). Here raw WQEs whose frames are committed
 * wait in nd->sent_list until the cable is flushed, so a stamp is never earlier than that.
 *
 *   commit .. commit .. cable flush .. stamp .. CQEs          (trail: flushed, before the stamp)
 */
#include "softhca/inject/inject.h"
#include "softhca/nic/port/port.h"
#include "softhca/nic/port/trail.h"
#include "softhca/nic/transport/qp.h"
#include "softhca/nic/up.h"

/* byte_cnt is valid in CQEs of READs and atomics only. */
static void sq_cqe_put(struct nic_qp *q, const struct nic_swr *w)
{
	struct nic_cqe e;

	if (spw_unlikely(q->adv != NULL))
		adv_wqes_done(q, w);
	cq_start(&e);
	spw_prm_cqe64_set_uidx(&e, q->qp->uidx);
	if (w->is_rd)
		spw_prm_cqe64_set_byte_cnt(&e, w->len);
	spw_prm_cqe64_set_timestamp(&e, q->nd->stamp);
	spw_prm_cqe64_set_sop_drop_qpn(&e, (uint32_t)w->opcode << 24 | q->qp->qpn);
	spw_prm_cqe64_set_wqe_counter(&e, w->idx);
	cq_reuse_check(q->scq, NULL, 0);
	cq_put(q->scq, &e, SPW_PRM_CQE_REQ, false, 0);
}

/* Error CQEs have a layout of their own. */
static void cqe_set_err(struct nic_cqe *e, uint32_t uidx, uint32_t sop_qpn, uint32_t counter,
			uint8_t syndrome, uint8_t vendor)
{
	cq_start(e);
	spw_prm_cqe_err_set_srqn(e, uidx);
	spw_prm_cqe_err_set_vendor_err_synd(e, vendor);
	spw_prm_cqe_err_set_syndrome(e, syndrome);
	spw_prm_cqe64_set_sop_drop_qpn(e, sop_qpn);
	spw_prm_cqe_err_set_wqe_counter(e, counter);
}

/* Copies first: after its CQE a buffer is the application's again. */
void sq_complete_err(struct nic_qp *q, uint16_t idx, uint8_t opcode, uint8_t syndrome,
		     uint8_t vendor)
{
	struct nic_cqe e;

	if (spw_unlikely(q->nd->copier != NULL))
		copy_wait(q->nd);
	cqe_set_err(&e, q->qp->uidx, (uint32_t)opcode << 24 | q->qp->qpn, idx, syndrome, vendor);
	if (syndrome == SPW_PRM_SYN_WR_FLUSH_ERR)
		NIC_CNT(q->nd, req_cqe_flush_error);
	NIC_CNT(q->nd, req_cqe_error);
	cq_reuse_check(q->scq, NULL, 0);
	cq_put(q->scq, &e, SPW_PRM_CQE_REQ_ERR, true, 0);
}

/* As sq_complete_err, for a receive WQE. */
void rq_complete_err(struct nic_dev *nd, struct nic_rq *r, uint32_t qpn, uint32_t counter,
		     uint8_t syndrome)
{
	struct nic_cqe e;

	if (spw_unlikely(nd->copier != NULL))
		copy_wait(nd);
	cqe_set_err(&e, r->uidx, qpn, counter, syndrome, 0);
	if (syndrome == SPW_PRM_SYN_WR_FLUSH_ERR)
		NIC_CNT(nd, resp_cqe_flush_error);
	NIC_CNT(nd, resp_cqe_error);
	cq_reuse_check(r->cq, r, (uint16_t)counter);
	cq_put(r->cq, &e, SPW_PRM_CQE_RESP_ERR, true, 0);
}

/* Only signaled WQEs have a CQE; it stands for all before it. */
void sq_complete(struct nic_qp *q, struct nic_swr *w)
{
	if (w->signaled)
		sq_cqe_put(q, w);
}

/* ---- raw WQEs whose frames are committed ---- */

/* A CQE may overrun its CQ, which fails queues and comes here again; a ring that is gone leaves by
 * longjmp. So the list and the indices are whole before each CQE. */
static void sq_complete_sent(struct nic_dev *nd)
{
	struct nic_qp *const at_work = nd->cur;

	nic_stamp(nd);
	for (struct nic_qp *q; (q = nd->sent_list);) {
		nd->cur = q;
		if (q->swr_head != q->swr_cur) {
			sq_complete(q, sq_swr(q, q->swr_head++));
			continue;
		}
		nd->sent_list = q->sent_next;
		q->sent_listed = false;
	}
	nd->cur = at_work;
}

/* Flush, then stamp, then CQE: in this order the stamp is not earlier than the frame. */
void nic_tx_publish(struct nic_dev *nd)
{
	nic_tx_flush(nd);
	if (trail_on())
		trail_flush();
	if (nd->sent_list)
		sq_complete_sent(nd);
}

/* The QP is in sent_list once, however many of its frames wait. */
void sq_sent(struct nic_qp *q)
{
	q->swr_cur++;
	if (q->sent_listed)
		return;
	q->sent_listed = true;
	q->sent_next = q->nd->sent_list;
	q->nd->sent_list = q;
}

/* Before anything that completes WQEs in another order, or ends the queue. */
void sq_settle(struct nic_qp *q)
{
	if (spw_unlikely(q->sent_listed))
		nic_tx_publish(q->nd);
}
