/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A receive work queue that fails, and the order in which it becomes known (--fault wq-fatal=).
 * raw.c calls late_wq_fails() for a WQE that cannot be used; nic_round() sends what is due.
 *
 *                      now                          after TIME
 *   (no fault)         error CQE, flushes, event
 *   late:TIME          error CQE, flushes           event WQ_FATAL
 *   early:TIME         event WQ_FATAL               error CQE, flushes
 *   none               error CQE, flushes           (no event ever)
 *
 * CQEs of a queue that is reset meanwhile never come; a late event does. Nothing outlives the
 * queue.
 */
#include "softhca/nic/nic_impl.h"

static void complete(struct nic_dev *nd, struct nic_rq *r, uint32_t wqe_counter, uint8_t syndrome)
{
	cq_put_rq_err(nd, r, 0, wqe_counter, syndrome);
	rq_flush(nd, r, 0);
}

/* On a full table the event or the CQEs are lost, which is a fault as well. */
static void later(struct nic_dev *nd, struct nic_late late)
{
	if (nd->late_cnt < NIC_LATE_MAX)
		nd->late[nd->late_cnt++] = late;
}

void late_wq_fails(struct nic_dev *nd, struct nic_rq *r, uint32_t wqe_counter, uint8_t syndrome)
{
	const struct fault *f = nd->fault;
	const struct nic_late l = {.wq = r->wq,
				   .due_ns = nd->now_ns + f->wq_fatal_ns,
				   .wqe_counter = wqe_counter,
				   .syndrome = syndrome,
				   .cqes = f->wq_fatal == FAULT_WQ_EARLY};

	r->wq->state = HCA_WQS_ERR;
	if (f->wq_fatal != FAULT_WQ_EARLY)
		complete(nd, r, wqe_counter, syndrome);
	if (f->wq_fatal == FAULT_WQ_PLAIN || f->wq_fatal == FAULT_WQ_EARLY)
		hca_event_wq(r->wq, HCA_EVENT_WQ_FATAL);
	if (f->wq_fatal == FAULT_WQ_LATE || f->wq_fatal == FAULT_WQ_EARLY)
		later(nd, l);
}

void late_send(struct nic_dev *nd)
{
	for (uint32_t i = 0; i < nd->late_cnt;) {
		const struct nic_late l = nd->late[i];

		if (nd->now_ns < l.due_ns) {
			i++;
			continue;
		}
		nd->late[i] = nd->late[--nd->late_cnt];
		if (l.cqes)
			complete(nd, &l.wq->nic->rq, l.wqe_counter, l.syndrome);
		else
			hca_event_wq(l.wq, HCA_EVENT_WQ_FATAL);
	}
}

void late_forget(struct nic_dev *nd, const struct hca_wq *wq, bool cqes_only)
{
	for (uint32_t i = 0; i < nd->late_cnt;) {
		if (nd->late[i].wq == wq && (nd->late[i].cqes || !cqes_only))
			nd->late[i] = nd->late[--nd->late_cnt];
		else
			i++;
	}
}
