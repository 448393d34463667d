/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#include "port/rdma/rdma_side.h"

#include "base/spw_order.h"

void rdma_side_told(void *unused SPW_UNUSED, const struct ibv_async_event *event)
{
	struct rdma_side *side = NULL;
	bool renew = false;

	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR:
		side = event->element.cq->cq_context;
		renew = true;
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		side = event->element.qp->qp_context; /* NULL: an RSS QP, which has no state of its own */
		break;
	case IBV_EVENT_WQ_FATAL:
		side = event->element.wq->wq_context;
		break;
	default:
		return;
	}
	if (side && renew)
		spw_thr_store_rel(&side->renew_told, side->renew_told + 1); /* [RD3 release, pairs with RD4] */
	else if (side)
		spw_thr_store_rel(&side->reset_told, side->reset_told + 1); /* [RD3 release, pairs with RD4] */
}

const char *rdma_side_take(struct rdma_side *side)
{
	uint32_t reset = spw_thr_load_acq(&side->reset_told); /* [RD4 acquire, pairs with RD3] */
	uint32_t renew = spw_thr_load_acq(&side->renew_told); /* [RD4 acquire, pairs with RD3] */
	const char *what = NULL;

	if (reset != side->reset_seen)
		what = "the device put it into error";
	if (renew != side->renew_seen) {
		what = "its completion queue failed";
		side->renew = true;
	}
	side->reset_seen = reset;
	side->renew_seen = renew;
	return what;
}
