/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The exchange by which a connection begins (wire.h has the order of frames): each side proves that
 * it knows the secret, the client that it holds the handle, and the server pairs the rails. Called
 * by conn.c for each frame until the rails are known.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "xfer/xfer.h"

/* ---- rails ---- */

static int rail_add(struct spw_xfer_conn *conn, uint32_t dev_idx, const struct xfer_end *theirs)
{
	struct xfer_rail *rail =
		aligned_alloc(SPW_CACHE_LINE, SPW_ALIGN_UP(sizeof(*rail), (size_t)SPW_CACHE_LINE));

	if (!rail)
		return spw_err(ENOMEM, "no memory for a rail");
	memset(rail, 0, sizeof(*rail));
	rail->conn = conn;
	rail->idx = (uint8_t)conn->rail_cnt;
	rail->dev_idx = (uint8_t)dev_idx;
	rail->dev = &conn->x->dev[dev_idx];
	rail->ops = rail->dev->direct ? &xfer_direct_ops : &xfer_verbs_ops;
	rail->theirs = *theirs;
	rail->stat.direct = rail->dev->direct;
	rail->stat.mtu = SPW_MIN(rail->dev->mtu, theirs->mtu);
	rail->stat.mbps = rdma_dev_speed_mbps(&rail->dev->rdma);
	snprintf(rail->stat.device, sizeof(rail->stat.device), "%s", rail->dev->rdma.name);
	conn->rail[conn->rail_cnt++] = rail;
	return 0;
}

static struct xfer_end our_end(const struct spw_xfer_conn *conn, uint32_t dev_idx)
{
	struct xfer_end end = {.mtu = conn->x->dev[dev_idx].mtu,
			       .in_order = conn->x->dev[dev_idx].in_order,
			       .rkey = conn->box_in[dev_idx]->rkey};

	memcpy(end.gid, conn->x->dev[dev_idx].gid.gid.raw, sizeof(end.gid));
	return end;
}

static void offer(struct spw_xfer_conn *conn)
{
	struct xfer_frame f = {.type = XFER_FRAME_OFFER};

	memcpy(f.offer.key, conn->peer.key, sizeof(f.offer.key));
	f.offer.box_addr = (uintptr_t)conn->box;
	f.offer.rail_cnt = conn->x->dev_cnt;
	for (uint32_t i = 0; i < f.offer.rail_cnt; i++)
		f.offer.end[i] = our_end(conn, i);
	conn->state = XFER_CONN_ANSWER;
	xfer_conn_say(conn, &f);
}

static uint32_t common_bits(const uint8_t a[16], const uint8_t b[16])
{
	for (uint32_t i = 0; i < 16; i++)
		if (a[i] != b[i])
			return i * 8 + (uint32_t)__builtin_clz((unsigned)(a[i] ^ b[i])) - 24;
	return 128;
}

static bool is_v4(const uint8_t gid[16])
{
	struct in6_addr ip;

	memcpy(&ip, gid, sizeof(ip));
	return IN6_IS_ADDR_V4MAPPED(&ip);
}

/* The free device of ours whose address is nearest to the client's: rails of one subnet belong
 * together. Both addresses of a QP are IPv4, or both IPv6. */
static uint32_t nearest(const struct spw_xfer *x, const struct xfer_end *theirs, uint32_t taken)
{
	uint32_t best = SPW_XFER_RAIL_MAX, bits = 0;

	for (uint32_t i = 0; i < x->dev_cnt; i++) {
		const uint8_t *ours = x->dev[i].gid.gid.raw;
		const uint32_t n = common_bits(theirs->gid, ours) + 1;

		if (!(taken >> i & 1u) && n > bits && is_v4(ours) == is_v4(theirs->gid)) {
			best = i;
			bits = n;
		}
	}
	return best;
}

static void refuse(struct spw_xfer_conn *conn, enum xfer_reject reason, int error, const char *why)
{
	const struct xfer_frame no = {.type = XFER_FRAME_REJECT, .reject.reason = reason};

	xfer_conn_say(conn, &no);
	xfer_conn_fail(conn, error, "refused: %s", why);
}

/* Server: pairs rails and answers. */
static void accept_offer(struct spw_xfer_conn *conn, const struct xfer_frame *theirs)
{
	struct xfer_frame f = {.type = XFER_FRAME_ACCEPT};
	uint32_t taken = 0;

	conn->their_box = theirs->offer.box_addr;
	for (uint32_t i = 0; i < theirs->offer.rail_cnt; i++) {
		const uint32_t dev = nearest(conn->x, &theirs->offer.end[i], taken);

		if (dev == SPW_XFER_RAIL_MAX)
			continue;
		taken |= 1u << dev;
		if (rail_add(conn, dev, &theirs->offer.end[i])) {
			xfer_conn_fail(conn, ENOMEM, "no memory for its rails");
			return;
		}
		f.offer.end[f.offer.rail_cnt] = our_end(conn, dev);
		f.offer.end[f.offer.rail_cnt++].pair = (uint16_t)i;
	}
	if (!conn->rail_cnt) {
		refuse(conn, XFER_REJECT_RAILS, ENETUNREACH,
		       "one side has IPv4 addresses, the other IPv6: name a gid= of one kind");
		return;
	}
	f.offer.box_addr = (uintptr_t)conn->box;
	conn->state = XFER_CONN_RAILS;
	xfer_conn_say(conn, &f);
}

/* Returns: true if the client holds the listener's handle, where one is asked for. */
static bool has_key(const struct spw_xfer_conn *conn, const struct xfer_frame *f)
{
	uint8_t diff = 0;

	for (uint32_t i = 0; i < XFER_KEY_BYTES; i++)
		diff |= f->offer.key[i] ^ conn->listener->at.key[i];
	return !conn->listener->keyed || !diff;
}

static void take_offer(struct spw_xfer_conn *conn, const struct xfer_frame *f)
{
	if (has_key(conn, f))
		accept_offer(conn, f);
	else
		refuse(conn, XFER_REJECT_KEY, EACCES, "it does not hold this listener's handle");
}

static void take_reject(struct spw_xfer_conn *conn, uint32_t reason)
{
	if (reason == XFER_REJECT_KEY)
		xfer_conn_fail(conn, EACCES,
			       "it refused: the handle is of another listener, or it wants one");
	else
		xfer_conn_fail(conn, ENETUNREACH,
			       "it refused: one side has IPv4 addresses, the other IPv6: name a "
			       "gid= of one kind");
}

static void take_accept(struct spw_xfer_conn *conn, const struct xfer_frame *f, uint64_t now_ms)
{
	uint32_t taken = 0;

	conn->their_box = f->offer.box_addr;
	for (uint32_t i = 0; i < f->offer.rail_cnt; i++) {
		const uint32_t mine = f->offer.end[i].pair;

		if (mine >= conn->x->dev_cnt || taken >> mine & 1u) {
			xfer_conn_breach(conn, "it paired a rail that was not offered");
			return;
		}
		taken |= 1u << mine;
		if (rail_add(conn, mine, &f->offer.end[i])) {
			xfer_conn_fail(conn, ENOMEM, "no memory for its rails");
			return;
		}
	}
	conn->state = XFER_CONN_RAILS;
	for (uint32_t i = 0; i < conn->rail_cnt && conn->state == XFER_CONN_RAILS; i++)
		xfer_rail_offer(conn->rail[i], now_ms);
}

/* ---- frames ---- */

static void start_exchange(struct spw_xfer_conn *conn, enum xfer_frame_type type,
			   enum xfer_conn_state next)
{
	struct xfer_frame f = {.type = type};

	if (peer_nonce(f.nonce)) {
		xfer_conn_fail(conn, EIO, "no random bytes");
		return;
	}
	memcpy(conn->link.nonce + (conn->is_client ? 0 : PEER_NONCE_BYTES), f.nonce,
	       sizeof(f.nonce));
	conn->state = next;
	xfer_conn_say(conn, &f);
}

void xfer_exchange_start(struct spw_xfer_conn *conn)
{
	start_exchange(conn, XFER_FRAME_HELLO, XFER_CONN_CHALLENGE);
}

bool xfer_exchange_take(struct spw_xfer_conn *conn, const struct xfer_frame *f, uint64_t now_ms)
{
	if (conn->state == XFER_CONN_CHALLENGE && f->type == XFER_FRAME_CHALLENGE) {
		memcpy(conn->link.nonce + PEER_NONCE_BYTES, f->nonce, sizeof(f->nonce));
		offer(conn);
	} else if (conn->state == XFER_CONN_HELLO && f->type == XFER_FRAME_HELLO) {
		memcpy(conn->link.nonce, f->nonce, sizeof(f->nonce));
		start_exchange(conn, XFER_FRAME_CHALLENGE, XFER_CONN_OFFER);
	} else if (conn->state == XFER_CONN_OFFER && f->type == XFER_FRAME_OFFER) {
		take_offer(conn, f);
	} else if (conn->state == XFER_CONN_ANSWER && f->type == XFER_FRAME_ACCEPT) {
		take_accept(conn, f, now_ms);
	} else if (conn->state == XFER_CONN_ANSWER && f->type == XFER_FRAME_REJECT) {
		take_reject(conn, f->reject.reason);
	} else {
		return false;
	}
	return true;
}
