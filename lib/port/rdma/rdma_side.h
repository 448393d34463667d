/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Private to lib/port: one direction of a queue as the device's asynchronous events name it. The control thread counts here what
 * it is told, the owner compares with what it has dealt with.
 */
#ifndef SPW_PORT_RDMA_SIDE_H
#define SPW_PORT_RDMA_SIDE_H

#include "port/rdma/rdma_dev.h"

/* Context of the CQ, and of the QP or WQ, of that direction. */
struct rdma_side {
	uint32_t reset_told, renew_told; /* [RD3 release by the control thread, RD4 acquire by the owner] */
	uint32_t reset_seen, renew_seen; /* the owner's */
	bool renew;                      /* the owner's: the objects must be made anew */
};

/* rdma_ctl_client.async: an error of a CQ, QP or WQ whose context is a side; NULL is no side. Thread: control. */
void rdma_side_told(void *unused, const struct ibv_async_event *event);

/* Returns: what was told of this side and not dealt with yet, static text; NULL nothing. A CQ that failed also sets renew.
 * Thread: owner. */
const char *rdma_side_take(struct rdma_side *side);

#endif
