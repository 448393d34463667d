/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A receive work queue that fails, and the order in which it becomes known (--fault wq-fatal=).
 * eth/raw.c calls late_wq_fails() for a WQE that cannot be used; nic_round() sends what is due.
 *
 *                      now                          after TIME
 *   (no fault: raw.c)  error CQE, flushes, event
 *   late:TIME          error CQE, flushes           event WQ_FATAL
 *   early:TIME         event WQ_FATAL               error CQE, flushes
 *   none               error CQE, flushes           (no event ever)
 *
 * CQEs of a queue that is reset meanwhile never come; a late event does. Nothing outlives the
 * queue.
 */
#include "softhca/inject/inject.h"
#include "softhca/kernel/kernel.h"
#include "softhca/nic/transport/rq.h"

static void late_complete(struct nic_dev *nd, struct nic_rq *r, uint32_t wqe_counter,
			  uint8_t syndrome)
{
	rq_complete_err(nd, r, 0, wqe_counter, syndrome);
	rq_flush(nd, r, 0);
}

/* On a full table the event or the CQEs are lost, which is a fault as well. */
static void late_add(struct fault *f, struct fault_late late)
{
	if (f->late_cnt < FAULT_LATE_MAX)
		f->late[f->late_cnt++] = late;
}

void late_wq_fails(struct nic_dev *nd, struct nic_rq *r, uint32_t wqe_counter, uint8_t syndrome)
{
	struct fault *f = nd->fault;
	const struct fault_late l = {.wq = r->wq,
				     .due_ns = nd->now_ns + f->wq_fatal_ns,
				     .wqe_counter = wqe_counter,
				     .syndrome = syndrome,
				     .cqes = f->wq_fatal == FAULT_WQ_EARLY};

	r->wq->state = HCA_WQS_ERR;
	if (f->wq_fatal == FAULT_WQ_EARLY)
		hca_event_wq(r->wq, HCA_EVENT_WQ_FATAL);
	else
		late_complete(nd, r, wqe_counter, syndrome);
	if (f->wq_fatal != FAULT_WQ_NONE)
		late_add(f, l);
}

void late_send(struct nic_dev *nd)
{
	struct fault *f = nd->fault;

	for (uint32_t i = 0; i < f->late_cnt;) {
		const struct fault_late l = f->late[i];

		if (nd->now_ns < l.due_ns) {
			i++;
			continue;
		}
		f->late[i] = f->late[--f->late_cnt];
		if (l.cqes)
			late_complete(nd, &l.wq->nic->rq, l.wqe_counter, l.syndrome);
		else
			hca_event_wq(l.wq, HCA_EVENT_WQ_FATAL);
	}
}

void late_forget(struct nic_dev *nd, const struct hca_wq *wq, bool cqes_only)
{
	struct fault *f = nd->fault;

	for (uint32_t i = 0; i < f->late_cnt;) {
		if (f->late[i].wq == wq && (f->late[i].cqes || !cqes_only))
			f->late[i] = f->late[--f->late_cnt];
		else
			i++;
	}
}
