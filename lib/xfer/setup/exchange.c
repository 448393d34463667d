/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The exchange by which a connection begins (wire.h has the order of frames): the client proves
 * that it holds the handle, and both list their devices. Called by conn.c for each frame until they
 * are known; from then on the client makes rails (round.c).
 *
 *   client                                  server
 *   ANSWER ── OFFER (key, devices) ───────► OFFER: refused: REJECT, else
 *   RAILS  ◄───────── ACCEPT (devices) ──── RAILS            (left and right: each end's state)
 *
 * That the client's first message comes here proves that it knows the secret
 * (oob/spw_oob_door.h). No QP exists before RAILS.
 */
#include <errno.h>
#include <string.h>

#include "xfer/connection.h"
#include "xfer/endpoint.h"
#include "xfer/round.h"

/* ---- devices ---- */

/* A device that is gone keeps its number, without an address, so that numbers stay those of the
 * endpoint. */
static void exchange_list_ours(struct spw_xfer_conn *conn)
{
	struct xfer_pairs *p = &conn->pairs;

	p->mine_cnt = conn->x->dev_cnt;
	for (uint32_t i = 0; i < p->mine_cnt; i++) {
		const struct xfer_dev *dev = &conn->x->dev[i];

		if (xfer_dev_is_gone(dev)) {
			p->mine[i] = (struct xfer_end){.mtu = dev->mtu, .read_max = 1};
			continue;
		}
		p->mine[i] = (struct xfer_end){.mtu = dev->mtu,
					       .prefix = dev->prefix,
					       .in_order = dev->in_order,
					       .read_max = dev->read_max,
					       .rkey = conn->box_in[i]->rkey};
		memcpy(p->mine[i].gid, dev->gid.gid.raw, sizeof(p->mine[i].gid));
	}
}

static void exchange_send_ours(struct spw_xfer_conn *conn, struct xfer_frame *f)
{
	f->offer.box_addr = (uintptr_t)conn->box;
	memcpy(f->offer.export_key, conn->x->export_key, sizeof(f->offer.export_key));
	f->offer.dev_cnt = conn->pairs.mine_cnt;
	memcpy(f->offer.end, conn->pairs.mine, sizeof(f->offer.end));
	xfer_conn_send(conn, f);
}

/* Ranges were checked by wire.c. */
static void exchange_take_theirs(struct spw_xfer_conn *conn, const struct xfer_frame *f)
{
	conn->their_box = f->offer.box_addr;
	memcpy(conn->their_export_key, f->offer.export_key, sizeof(conn->their_export_key));
	conn->pairs.theirs_cnt = f->offer.dev_cnt;
	memcpy(conn->pairs.theirs, f->offer.end, sizeof(conn->pairs.theirs));
}

void xfer_exchange_start(struct spw_xfer_conn *conn)
{
	struct xfer_frame f = {.type = XFER_FRAME_OFFER};

	memcpy(f.offer.key, conn->peer.key, sizeof(f.offer.key));
	exchange_list_ours(conn);
	conn->state = XFER_CONN_ANSWER;
	exchange_send_ours(conn, &f);
}

/* The client reports the same reason: REJECT goes out before TCP is closed. */
static void exchange_refuse(struct spw_xfer_conn *conn, enum xfer_reject reason, int error,
			    const char *why)
{
	const struct xfer_frame no = {.type = XFER_FRAME_REJECT, .reject.reason = reason};

	xfer_conn_send(conn, &no);
	xfer_conn_fail(conn, error, "refused: %s", why);
}

/* Refused only where no pair can ever work; which pairs do is found by trying (round.c). */
static void exchange_accept_offer(struct spw_xfer_conn *conn, const struct xfer_frame *theirs)
{
	struct xfer_frame f = {.type = XFER_FRAME_ACCEPT};

	exchange_list_ours(conn);
	exchange_take_theirs(conn, theirs);
	if (!xfer_pairs_left(&conn->pairs, XFER_PAIR_ROUTED, false)) {
		exchange_refuse(
			conn, XFER_REJECT_RAILS, ENETUNREACH,
			"one side has IPv4 addresses, the other IPv6: name a gid= of one kind");
		return;
	}
	conn->state = XFER_CONN_RAILS;
	exchange_send_ours(conn, &f);
}

/* Returns: true if the client holds the listener's handle, where one is asked for. All bytes are
 * compared, so that the time shows nothing. */
static bool has_key(const struct spw_xfer_conn *conn, const struct xfer_frame *f)
{
	uint8_t diff = 0;

	for (uint32_t i = 0; i < XFER_KEY_BYTES; i++)
		diff |= f->offer.key[i] ^ conn->listener->at.key[i];
	return !conn->listener->keyed || !diff;
}

static void exchange_take_offer(struct spw_xfer_conn *conn, const struct xfer_frame *f)
{
	if (has_key(conn, f))
		exchange_accept_offer(conn, f);
	else
		exchange_refuse(conn, XFER_REJECT_KEY, EACCES,
				"it does not hold this listener's handle");
}

static void exchange_take_reject(struct spw_xfer_conn *conn, uint32_t reason)
{
	if (reason == XFER_REJECT_KEY)
		xfer_conn_fail(conn, EACCES,
			       "it refused: the handle is of another listener, or it wants one");
	else
		xfer_conn_fail(conn, ENETUNREACH,
			       "it refused: one side has IPv4 addresses, the other IPv6: name a "
			       "gid= of one kind");
}

static void exchange_take_accept(struct spw_xfer_conn *conn, const struct xfer_frame *f,
				 uint64_t now_ms)
{
	exchange_take_theirs(conn, f);
	if (!xfer_pairs_left(&conn->pairs, XFER_PAIR_ROUTED, false)) {
		xfer_conn_breach(conn, "it accepted, and none of its addresses is of our kind");
		return;
	}
	conn->state = XFER_CONN_RAILS;
	xfer_round_start(conn, now_ms);
}

/* ---- frames ---- */

bool xfer_exchange_take(struct spw_xfer_conn *conn, const struct xfer_frame *f, uint64_t now_ms)
{
	if (conn->state == XFER_CONN_OFFER && f->type == XFER_FRAME_OFFER) {
		exchange_take_offer(conn, f);
	} else if (conn->state == XFER_CONN_ANSWER && f->type == XFER_FRAME_ACCEPT) {
		exchange_take_accept(conn, f, now_ms);
	} else if (conn->state == XFER_CONN_ANSWER && f->type == XFER_FRAME_REJECT) {
		exchange_take_reject(conn, f->reject.reason);
	} else {
		return false;
	}
	return true;
}
