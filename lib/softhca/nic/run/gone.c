/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * After an access to memory of the application that is gone: what was at work fails. A card pins
 * its pages; this NIC finds out when it reads or writes them, in a round (host/guard.c) or in a
 * copy of a helper (transport/copy.c).
 */
#include "softhca/nic/eth/eth.h"
#include "softhca/nic/run/run.h"
#include "softhca/nic/transport/copy.h"

/* After an access to memory that is gone: the QP or receive queue at work fails with a local
 * protection error. */
void nic_memory_gone(struct nic_dev *nd)
{
	struct nic_qp *q = nd->cur;
	struct nic_rq *r = nd->cur_rq;

	nd->cur = NULL;
	nd->cur_rq = NULL;
	if (nd->rx_at != UINT32_MAX) {
		cable_rx_release(nd->cable, nd->rx_at + 1);
		nd->rx_at = UINT32_MAX;
	}
	if (r && r->wq) { /* a striding queue has not advanced ci yet */
		raw_rq_fail(nd, NULL, r, r->striding ? r->ci++ : (uint16_t)(r->ci - 1),
			    SPW_PRM_SYN_LOCAL_PROT_ERR);
		return;
	}
	if (!q) {
		/* Not a region but a ring or a record. After a few of these no doorbell is read
		 * any more. */
		if (++nd->gone_cnt > 8)
			nd->uar_cnt = 0;
		return;
	}
	if (q->sent_listed) {
		qp_activate(q); /* if the memory of a CQE is gone too, q fails in the next round */
		sq_settle(q);
	}
	if (r)
		raw_rq_fail(nd, q, r, (uint16_t)(r->ci - 1), SPW_PRM_SYN_LOCAL_PROT_ERR);
	else if (!nd->cur_rx && q->swr_head != q->swr_tail && q->qp->state == HCA_QPS_RTS)
		sq_fail(q, SPW_PRM_SYN_LOCAL_PROT_ERR, 0);
	else if (nd->cur_rx && q->transport == SPW_PRM_RC)
		rc_rsp_gone(q, WIRE_NAK_OP);
	else
		qp_to_err(q);
}

/* The QP at work is the one whose copy failed. */
static void gone_copy(struct nic_qp *q)
{
	struct nic_dev *nd = q->nd;

	nd->cur = q;
	nd->cur_rx = q->copy_failed & COPY_FAILED_RX;
	q->copy_failed = 0;
	if (!nd->cur_rx) {
		nic_memory_gone(nd);
		return;
	}
	q->epsn = q->copy_psn; /* neither this packet nor what followed has been carried out */
	nic_memory_gone(nd);
	q->nak_psn = q->copy_psn;
}

void nic_copies_gone(struct nic_dev *nd)
{
	for (struct nic_qp *q = nd->qps; q; q = q->next)
		if (q->copy_failed)
			gone_copy(q);
	nd->copy_failed = false;
}
