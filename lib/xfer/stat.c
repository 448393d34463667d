/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What happened, and what happens now: totals of the endpoint and of each rail, a look at a
 * connection.
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

/* Where a request counts, by the stamps that it has so far. NULL: nowhere. */
static uint32_t *look_stage(struct spw_xfer_look *look, const struct spw_xfer_req *req)
{
	switch (req->kind) {
	case XFER_REQ_SEND:
		return !req->left             ? &look->acked
		       : req->stamps.posted   ? &look->posted
		       : !req->stamps.granted ? &look->waiting
					      : &look->granted;
	case XFER_REQ_RECV:
		return req->left ? &look->receiving : &look->received;
	case XFER_REQ_FLUSH:
		return &look->flushing;
	default:
		return NULL;
	}
}

static void look_rails(const struct spw_xfer_conn *conn, struct spw_xfer_look *look)
{
	const uint64_t now_ns = xfer_now_ns(), now_tsc = spw_tsc_now();

	for (uint32_t i = 0; i < conn->rail_cnt; i++) {
		const struct xfer_rail *rail = conn->rail[i];

		look->rail[i].open_bytes = rail->out_bytes;
		if (rail->qp)
			look->rail[i].qpn = rail->qp->qp_num;
		if (rail->down_ns)
			look->rail[i].down_tsc = now_tsc - spw_tsc_from_ns(&rail->dev->rdma.tsc,
									   now_ns - rail->down_ns);
	}
}

void spw_xfer_conn_look(const struct spw_xfer_conn *conn, struct spw_xfer_look *look_out)
{
	*look_out = (struct spw_xfer_look){0};
	for (uint32_t i = 0; i < SPW_ARRAY_CNT(conn->req); i++) {
		const struct spw_xfer_req *req = &conn->req[i];
		uint32_t *stage = req->in_use ? look_stage(look_out, req) : NULL;

		if (!stage)
			continue;
		++*stage;
		if (!look_out->oldest_tsc || req->stamps.started < look_out->oldest_tsc)
			look_out->oldest_tsc = req->stamps.started;
	}
	look_rails(conn, look_out);
}

uint64_t spw_xfer_conn_pair(const struct spw_xfer_conn *conn)
{
	return spw_oob_channel_pair(&conn->link.ch);
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
