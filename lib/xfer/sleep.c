/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Sleeping until there is something to do: the endpoint's epoll descriptor has its sockets, the
 * event files of its devices and their completion channels.
 *
 *   arm     the house takes what woke us ─► every CQ is armed ─► one turn over the data
 *           something came? -EAGAIN          nothing? the caller sleeps
 *   NIC     CQE ─► armed? an event in the channel ─► the descriptor can be read
 *   house   events are taken (xfer_channel_turn): each lets the CQ be armed again
 *
 * A CQE that comes before the NIC has read that its CQ is armed is found by the turn, or raises the
 * event as soon as the NIC has read it; none is slept over.
 *
 * No descriptor shows deadlines, connections that are being made, and what a rail that failed has
 * left: with any of these the caller sleeps for XFER_NAP_MS at most.
 */
#include <errno.h>

#include "xfer/connection.h"
#include "xfer/endpoint.h"

#define XFER_NAP_MS 10u

int spw_xfer_fd(const struct spw_xfer *x)
{
	return x->epoll_fd;
}

/* ---- completion channels ---- */

static void sleep_event(void *cq_context)
{
	struct xfer_rail *rail = cq_context;

	rail->cq_events++;
}

void xfer_channel_turn(struct xfer_dev *dev)
{
	rdma_dev_channel_read(&dev->rdma, sleep_event);
}

/* The CQ of a rail that is RESOLVING is a thread's; one that is MAKING has no peer yet. */
static void sleep_arm_rails(const struct spw_xfer_conn *conn)
{
	for (uint32_t i = 0; i < conn->rail_cnt; i++) {
		struct xfer_rail *rail = conn->rail[i];

		if (rail->qp && (rail->state == XFER_PROBING || rail->state == XFER_UP))
			rail->ops->arm(rail);
	}
}

/* ---- deadlines ---- */

/* A connection that failed has no more of them once its caller can know. */
static bool sleep_conn_is_calm(const struct spw_xfer_conn *conn)
{
	if (conn->state == XFER_CONN_FAILED)
		return !conn->listener;
	if (conn->state != XFER_CONN_READY || conn->ended || conn->repair || conn->waiting ||
	    conn->link.out_len)
		return false;
	for (uint32_t i = 0; i < conn->rail_cnt; i++)
		if (conn->rail[i]->state != XFER_UP)
			return false;
	return true;
}

static bool sleep_is_calm(const struct spw_xfer *x)
{
	if (x->resolves.next != &x->resolves)
		return false;
	for (struct xfer_list *l = x->listeners.next; l != &x->listeners; l = l->next)
		if (spw_oob_door_due_ms(
			    spw_container_of(l, struct spw_xfer_listener, link)->door) !=
		    UINT64_MAX)
			return false;
	for (struct xfer_list *l = x->conns.next; l != &x->conns; l = l->next)
		if (!sleep_conn_is_calm(spw_container_of(l, struct spw_xfer_conn, link_all)))
			return false;
	return true;
}

/* ---- asking for it ---- */

/* Any call advances more than what it is asked for: a request that was tested a moment ago may be
 * done since by a test of another one. Such news count, whoever took them. */
static bool sleep_has_news(struct spw_xfer *x)
{
	const bool any = x->news != x->news_seen;

	x->news_seen = x->news;
	return any;
}

/* A pause between two turns counts step_ms at most (xfer_clock_turn): a nap is no longer. */
int spw_xfer_arm(struct spw_xfer *x, int *timeout_ms_out)
{
	uint32_t found = xfer_house(x);

	for (uint32_t i = 0; i < x->dev_cnt; i++)
		found += xfer_loop_busy(&x->dev[i]);
	if (sleep_has_news(x) || found)
		return -EAGAIN;
	for (struct xfer_list *l = x->conns.next; l != &x->conns; l = l->next)
		sleep_arm_rails(spw_container_of(l, struct spw_xfer_conn, link_all));
	if (xfer_data_turn(x) || sleep_has_news(x))
		return -EAGAIN;
	*timeout_ms_out = sleep_is_calm(x) ? -1 : (int)SPW_MIN(XFER_NAP_MS, x->step_ms);
	return 0;
}
