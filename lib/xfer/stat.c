/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What happened: totals of the endpoint and of each rail.
 * Called by the owner at any time. Everything was counted where it happened: requests in message.c,
 * rails in take.c, fail.c and rail.c, connections in conn.c.
 */
#include <stdio.h>

#include "xfer/connection.h"
#include "xfer/endpoint.h"

void spw_xfer_stat(const struct spw_xfer *x, struct spw_xfer_stat *stat_out)
{
	*stat_out = x->stat;
}

/* Five states of a rail are one to the caller: it is being tried. */
static enum spw_xfer_rail_state stat_state(const struct xfer_rail *rail)
{
	return rail->state == XFER_UP ? SPW_XFER_RAIL_UP : SPW_XFER_RAIL_TRYING;
}

/* A copy: the rail's own struct goes on counting. */
bool spw_xfer_conn_rail_stat(const struct spw_xfer_conn *conn, uint32_t idx,
			     struct spw_xfer_rail_stat *stat_out)
{
	if (idx >= conn->rail_cnt)
		return false;
	*stat_out = conn->rail[idx]->stat;
	stat_out->state = stat_state(conn->rail[idx]);
	stat_out->peer_idx = conn->rail[idx]->peer_idx;
	return true;
}

/* Devices that are used come first, in the order of masks; then those that were left out. */
bool spw_xfer_rail_stat(const struct spw_xfer *x, uint32_t idx, struct spw_xfer_rail_stat *stat_out)
{
	*stat_out = (struct spw_xfer_rail_stat){0};
	if (idx >= x->dev_cnt + x->left_out_cnt)
		return false;
	if (idx >= x->dev_cnt) {
		*stat_out = x->left_out[idx - x->dev_cnt];
		return true;
	}
	snprintf(stat_out->device, sizeof(stat_out->device), "%s", x->dev[idx].rdma.name);
	stat_out->state = SPW_XFER_RAIL_UP;
	stat_out->direct = x->dev[idx].direct;
	stat_out->mtu = x->dev[idx].mtu;
	stat_out->mbps = rdma_dev_speed_mbps(&x->dev[idx].rdma);
	return true;
}
