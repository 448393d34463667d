/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A peer that is connected to itself, for the litmus: its QP sends to its own number, so every
 * message that the port sends is written by the NIC into the peer's own slots. The same states as
 * with another machine (the table in spw_peer.h), but without TCP: both sides of the exchange are
 * known. Called through spw_peer.h in setup, where the caller plays the owner and this file plays
 * control, whose thread does not run yet.
 *
 *   DOWN ─► POST ─ owner ─► POSTED ─ QP to RTS ─► UP  ...  ─► ERR, DRAIN ─ owner ─► DRAINED ─► DOWN
 */
#include <errno.h>
#include <string.h>

#include "base/spw_err.h"
#include "base/spw_monotonic.h"
#include "peer/conn.h"

#define CREDITS_MIN 2u /* one message is being worked on, one slot is free for the next */

/* [RC1 release, pairs with the acquire in spw_peer_state] */
static void loop_pass(struct peer_link *link, enum spw_peer_state state)
{
	spw_thr_store_rel(&link->peer->state, state);
}

/* spw_peer_conn_loop is called again and again until the port is up: each call takes one step and
 * leaves the owner its turn. */
static int loop_begin(struct peer_link *link)
{
	int rc;

	if (link->peer->credit_cnt < CREDITS_MIN)
		return spw_err(ENOTSUP, "a peer with one credit cannot answer itself");
	rc = peer_link_prepare(link);
	if (rc)
		return rc;
	loop_pass(link, SPW_PEER_POST);
	return -EAGAIN;
}

/* Its own number, GID and PSN stand where another machine's would: the NIC loops the packets back.
 * A device that cannot is -ENOTSUP, not a failure of the port. */
static int loop_join(struct peer_link *link)
{
	const struct peer_qp_path path = peer_link_path(link, &link->ours);
	int rc = peer_qp_ready(link->peer->qp, &path);

	if (rc)
		return spw_err(ENOTSUP, "a QP that is connected to itself: %s", spw_err_text());
	peer_link_learn(link, &link->ours);
	loop_pass(link, SPW_PEER_UP);
	return 0;
}

int spw_peer_conn_loop(struct spw_peer_conn *conn, uint32_t peer)
{
	struct peer_link *link = &conn->link[peer];

	switch (spw_peer_state(link->peer)) {
	case SPW_PEER_DOWN:
		return loop_begin(link);
	case SPW_PEER_POST:
		return -EAGAIN;
	case SPW_PEER_POSTED:
		return loop_join(link);
	case SPW_PEER_UP:
		return 0;
	default:
		return spw_err(ENOTSUP, "a QP that was connected to itself failed (%u)",
			       link->peer->code);
	}
}

/* Without an SRQ the flush shows by itself when it is over. rdma_rxe reports no last WQE. */
static bool flush_is_reported(struct spw_peer_conn *conn, struct peer_link *link)
{
	struct spw_port_event unused;

	while (rdma_dev_events_read(conn->dev.rdma, peer_turn_async, conn, &unused, 1))
		;
	if (!link->peer->qp->srq || link->last_wqe)
		return true;
	if (!link->last_wqe_ms)
		link->last_wqe_ms = spw_monotonic_ms() + PEER_LAST_WQE_MS;
	return spw_monotonic_ms() >= link->last_wqe_ms;
}

/* Control's steps from DRAINED to DOWN, but all slots are wiped in one go: no other peer waits in
 * set-up. The counts of the litmus belong to no run. */
static void loop_finish(struct spw_peer_conn *conn, struct peer_link *link)
{
	peer_qp_reset(link->peer->qp);
	while (!peer_link_wipe(link))
		;
	link->last_wqe = link->lost = link->doomed = false;
	link->last_wqe_ms = 0;
	memset(&conn->count, 0, sizeof(conn->count));
	loop_pass(link, SPW_PEER_DOWN);
}

/* ERR may be asked for several times while the last-WQE event is awaited; for a QP in ERR that
 * changes nothing. */
int spw_peer_conn_loop_end(struct spw_peer_conn *conn, uint32_t peer)
{
	struct peer_link *link = &conn->link[peer];

	switch (spw_peer_state(link->peer)) {
	case SPW_PEER_DOWN:
		return 0;
	case SPW_PEER_DRAINED:
		loop_finish(conn, link);
		return 0;
	case SPW_PEER_POST:
	case SPW_PEER_DRAIN:
		return -EAGAIN;
	default:
		peer_qp_error(link->peer->qp);
		if (flush_is_reported(conn, link))
			loop_pass(link, SPW_PEER_DRAIN);
		return -EAGAIN;
	}
}
