/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * One direction of a queue (receive or send) as the device's asynchronous events name it. Used by
 * the eth modes of both drivers. The control thread counts events; the owner compares the counts
 * with those that it has handled:
 *
 *   control thread                           owner
 *   rdma_side_async: counts an event  [RD3]  rdma_side_take: reason to recover, or none  [RD4]
 *                                            rdma_side_reset: before the objects are reset
 *                                            rdma_side_recovered: after they work again
 */
#ifndef SPW_RDMA_SIDE_H
#define SPW_RDMA_SIDE_H

#include "rdma/spw_rdma.h"

/* Context of the CQ, and of the QP or WQ, of that direction. All zero: nothing has happened. */
struct rdma_side {
	/* Events that ask for a reset; that ask for new objects. Free running; written by the
	 * control thread [RD3 release, pairs with RD4], read by the owner. */
	uint32_t reset_cnt, recreate_cnt;
	/* The rest is the owner's. */
	uint32_t reset_handled, recreate_handled; /* counts that were handled */
	bool recreate;         /* the objects must be re-created: the CQ failed */
	uint64_t recovered_ms; /* time of the last recovery; 0: none */
	const char *late;      /* an event that may be from before that recovery; NULL: none */
	uint32_t late_at;      /* completions when it arrived */
	bool late_due;         /* its window is over: the next call judges */
	uint32_t completed;    /* as of the last rdma_side_take */
	bool blind;            /* the last recovery did not know what it recovered from */
	uint32_t blind_at;     /* completions then */
};

/* Purpose: counts an error of a CQ, QP or WQ whose context is a side (rdma_ctl_client.async). A
 * NULL context is ignored.
 * Thread: control.
 * Order: [RD3 release, pairs with RD4]. */
void rdma_side_async(void *unused, const struct ibv_async_event *event);

/* Purpose: marks all events so far as handled by the reset that follows. A CQ that failed sets
 * recreate.
 * Thread: owner.
 * Order: [RD4 acquire, pairs with RD3]. */
void rdma_side_reset(struct rdma_side *side);

/* Purpose: records that the side works again. known: a completion named the cause, or the CQ's
 * error did. Thread: owner. */
void rdma_side_recovered(struct rdma_side *side, bool known);

/* Returns: true if the last recovery did not know its cause, nothing has completed since, and it is
 * not the CQ that failed now: then the same is likely to be wrong still. Where the event comes
 * before the error completion, each reset takes that completion away, and what it would have named
 * is never recovered. Thread: owner, after rdma_side_take. */
bool rdma_side_is_stuck(const struct rdma_side *side);

/* An event within this time after a recovery may stem from the queue as it was before. */
#define RDMA_SIDE_LATE_MS 100u

/* Purpose: the reason to recover, if there is one. An event within RDMA_SIDE_LATE_MS after a
 * recovery waits until that time is over, and counts only if the queue has completed nothing since:
 * a queue that really failed again flushes its WQEs, and error completions count at once. Whatever
 * completed must have been read: between two calls the owner polls. An error of a CQ is never late,
 * since the events of an old CQ end when it is destroyed.
 * Shape: completed: completions that the owner has taken, free running.
 * Returns: static text; NULL: nothing to recover from.
 * Thread: owner.
 * Order: [RD4 acquire, pairs with RD3]. */
const char *rdma_side_take(struct rdma_side *side, uint32_t completed);

#endif
