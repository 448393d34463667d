/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Identifiers of rdma_cm as netlink lists them (kernel/nldev/nl_row.h). Source: Linux
 * drivers/infiniband/core/nldev.c (fill_res_cm_id_entry): those that are bound to a device.
 */
#include <string.h>

#include "softhca/cm/cm_impl.h"

#define RES_PORT 1u

/* Linux's numbers of the states (include/rdma/rdma_cm.h, enum rdma_cm_state). */
static uint8_t cm_res_state(enum cm_id_state state)
{
	static const uint8_t linux_state[] = {
		[CM_ID_IDLE] = 0,           [CM_ID_ADDR_QUERY] = 1, [CM_ID_ADDR_RESOLVED] = 2,
		[CM_ID_ROUTE_RESOLVED] = 4, [CM_ID_CONNECT] = 5,    [CM_ID_DISCONNECT] = 6,
		[CM_ID_ADDR_BOUND] = 7,     [CM_ID_LISTEN] = 8,
	};

	return linux_state[state];
}

static void cm_res_row(struct nl_row *r, const struct cm_id *id)
{
	r->dev = id->dev->idx;
	r->kind = NL_CM_ID;
	r->id = nl_row_id(id->dev, id->handle);
	r->port = RES_PORT;
	r->qpn = id->qpn;
	r->type = id->qp_type;
	r->ps = id->ps;
	r->state = cm_res_state(id->state);
	memcpy(&r->src, &id->src, SPW_MIN(sizeof(r->src), sizeof(id->src)));
	memcpy(&r->dst, &id->dst, SPW_MIN(sizeof(r->dst), sizeof(id->dst)));
}

void cm_res_rows(struct nl_rows *rows)
{
	sigset_t old;

	cm_enter(&old);
	for (const struct cm_id *id = cm_all.list; id; id = id->next) {
		struct nl_row *r = id->file && id->dev ? nl_row_add(rows) : NULL;

		if (r)
			cm_res_row(r, id);
	}
	cm_exit(&old);
}
