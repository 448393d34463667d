/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Counts of asynchronous events per direction of a queue, and when they are a reason to recover
 * (spw_rdma_side.h). A late event must not reset a queue that has just been recovered: the reset
 * would cost the frames that are under way.
 *
 *   control    CQ error, QP or WQ fatal ─► recreate_cnt or reset_cnt + 1          (RD3)
 *   owner      ... bursts ... rdma_side_take: counts moved? ─► recover            (RD4)
 *              recovered at t0 ───────── RDMA_SIDE_LATE_MS ─────────┤
 *              an event in here may belong to the time before t0: it is acted on only if nothing
 *              has completed since. The first call after the window does not judge: if the owner
 *              was preempted, what completed is still unread. Bursts lie before the next call
 */
#include "rdma/spw_rdma_side.h"

#include "base/spw_monotonic.h"
#include "base/spw_order.h"

void rdma_side_async(void *unused SPW_UNUSED, const struct ibv_async_event *event)
{
	struct rdma_side *side = NULL;
	bool recreate = false;

	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR:
		side = event->element.cq->cq_context;
		recreate = true;
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		side = event->element.qp
			       ->qp_context; /* NULL: an RSS QP, which has no state of its own */
		break;
	case IBV_EVENT_WQ_FATAL:
		side = event->element.wq->wq_context;
		break;
	default:
		return;
	}
	if (side && recreate)
		spw_thr_store_rel(&side->recreate_cnt,
				  side->recreate_cnt + 1); /* [RD3 release, pairs with RD4] */
	else if (side)
		spw_thr_store_rel(&side->reset_cnt,
				  side->reset_cnt + 1); /* [RD3 release, pairs with RD4] */
}

/* Which event arrived since the last call; a failed CQ outweighs an error of its queue. */
static const char *rdma_side_take_reported(struct rdma_side *side)
{
	uint32_t reset = spw_thr_load_acq(&side->reset_cnt); /* [RD4 acquire, pairs with RD3] */
	uint32_t recreate =
		spw_thr_load_acq(&side->recreate_cnt); /* [RD4 acquire, pairs with RD3] */
	const char *what = NULL;

	if (reset != side->reset_handled)
		what = "the device put it into error";
	if (recreate != side->recreate_handled) {
		what = "its completion queue failed";
		side->recreate = true;
	}
	side->reset_handled = reset;
	side->recreate_handled = recreate;
	return what;
}

/* Before a reset: what was reported until now is its reason, not a new one. */
void rdma_side_reset(struct rdma_side *side)
{
	rdma_side_take_reported(side);
	side->late = NULL;
}

void rdma_side_recovered(struct rdma_side *side, bool known)
{
	side->recovered_ms = spw_monotonic_ms();
	side->blind = !known;
	side->blind_at = side->completed;
}

bool rdma_side_is_stuck(const struct rdma_side *side)
{
	return side->blind && !side->recreate && side->blind_at == side->completed;
}

static bool rdma_side_is_late(const struct rdma_side *side)
{
	return side->recovered_ms && spw_monotonic_ms() - side->recovered_ms < RDMA_SIDE_LATE_MS;
}

/* completed: the queue's count of completions. If it moved during the window, the queue works, and
 * the event was old. */
const char *rdma_side_take(struct rdma_side *side, uint32_t completed)
{
	const char *what = rdma_side_take_reported(side);
	const bool late = rdma_side_is_late(side);

	side->completed = completed;
	if (what && (side->recreate || !late))
		return what;
	if (what && !side->late) {
		side->late = what;
		side->late_at = completed;
		side->late_due = false;
	}
	if (!side->late || late)
		return NULL;
	if (!side->late_due) {
		side->late_due = true;
		return NULL;
	}
	what = side->late_at == completed ? side->late : NULL;
	side->late = NULL;
	return what;
}
