/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The two sides of an exchange as one state machine (exchange.h). The control thread calls
 * peer_exchange_step whenever poll(2) reports the descriptor.
 *
 *   client                                server
 *   CONNECT  ── TCP ──────────────────►   the door (oob/spw_oob_door.h)
 *   GREET    ◄─ nonces ───────────────►
 *   TO_OFFER  (QP in INIT, receives posted)
 *            ── OFFER: parameters ────►   TO_ACCEPT  (secret proved: bind, QP to RTS)
 *   ANSWER   ◄─ ACCEPT or REJECT ──────   READY
 *   TO_READY (QP to RTS)
 *            ── READY ────────────────►   DONE ─► link up
 *   DONE ─► link up
 *
 * TO_ states are the caller's: it does what needs the QP, then calls peer_exchange_offer, _accept,
 * _reject or _ready.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "oob/spw_oob_socket.h"
#include "peer/exchange.h"

/* The first failure ends the exchange; the caller closes the descriptor. */
static void exchange_fail(struct peer_exchange *x, enum peer_refused why, int error)
{
	x->turn = PEER_TURN_FAILED;
	x->why = why;
	x->error = error;
}

/* Of a call on the channel. Returns: true if it succeeded; false: not yet, or the exchange failed.
 */
static bool exchange_check(struct peer_exchange *x, int rc)
{
	if (!rc || rc == -EAGAIN)
		return !rc;
	x->value = x->ch.far_version;
	exchange_fail(x, peer_refused_by(rc), -rc);
	return false;
}

void peer_exchange_client(struct peer_exchange *x, int fd, const struct spw_oob_secret *secret,
			  uint64_t deadline_ms)
{
	*x = (struct peer_exchange){.ch = {.fd = fd},
				    .secret = secret,
				    .deadline_ms = deadline_ms,
				    .turn = PEER_TURN_CONNECT};
}

static void exchange_take_params(struct peer_exchange *x, const struct peer_msg *msg,
				 enum peer_turn next)
{
	x->theirs = msg->params;
	x->turn = next;
}

void peer_exchange_server(struct peer_exchange *x, const struct spw_oob_guest *guest)
{
	struct peer_msg msg;

	*x = (struct peer_exchange){.ch = guest->ch, .deadline_ms = guest->until_ms};
	if (peer_msg_parse(guest->first, guest->len, &msg) || msg.type != PEER_MSG_OFFER)
		exchange_fail(x, PEER_REFUSED_malformed, 0);
	else
		exchange_take_params(x, &msg, PEER_TURN_TO_ACCEPT);
}

/* ---- send ---- */

/* All messages of an exchange together are far smaller than a socket buffer: a partial send means
 * that nobody reads, and fails the exchange. */
static bool exchange_send(struct peer_exchange *x, const struct peer_msg *msg)
{
	uint8_t bytes[PEER_MSG_MAX_BYTES];
	const size_t len = peer_msg_encode(msg, bytes);
	const int rc = spw_oob_channel_send(&x->ch, bytes, (uint32_t)len);

	if (rc)
		exchange_fail(x, peer_refused_of(-rc), -rc);
	return !rc;
}

static void exchange_send_params(struct peer_exchange *x, enum peer_msg_type type,
				 const struct peer_params *ours, enum peer_turn next)
{
	const struct peer_msg msg = {.type = type, .params = *ours};

	if (exchange_send(x, &msg))
		x->turn = next;
}

void peer_exchange_offer(struct peer_exchange *x, const struct peer_params *ours)
{
	exchange_send_params(x, PEER_MSG_OFFER, ours, PEER_TURN_ANSWER);
}

void peer_exchange_accept(struct peer_exchange *x, const struct peer_params *ours)
{
	exchange_send_params(x, PEER_MSG_ACCEPT, ours, PEER_TURN_READY);
}

static enum peer_refused refused_of(unsigned reason)
{
	static const enum peer_refused why[] = {
		[PEER_REJECT_OP] = PEER_REFUSED_op,     [PEER_REJECT_RING] = PEER_REFUSED_ring,
		[PEER_REJECT_FULL] = PEER_REFUSED_full, [PEER_REJECT_GID] = PEER_REFUSED_gid,
		[PEER_REJECT_HOST] = PEER_REFUSED_host,
	};

	return reason >= PEER_REJECT_OP && reason <= PEER_REJECT_HOST ? why[reason]
								      : PEER_REFUSED_malformed;
}

void peer_exchange_reject(struct peer_exchange *x, enum peer_reject reason, uint32_t ours)
{
	struct peer_msg msg = {.type = PEER_MSG_REJECT, .reason = (uint16_t)reason, .value = ours};

	if (exchange_send(x, &msg))
		exchange_fail(x, refused_of(reason), 0);
}

void peer_exchange_ready(struct peer_exchange *x)
{
	struct peer_msg msg = {.type = PEER_MSG_READY};

	if (exchange_send(x, &msg))
		x->turn = PEER_TURN_DONE;
}

/* ---- receive ---- */

/* One whole message of one of two types. Returns: false if it has not arrived yet, or the exchange
 * failed. */
static bool exchange_receive(struct peer_exchange *x, enum peer_msg_type want,
			     enum peer_msg_type or_want, struct peer_msg *msg)
{
	uint32_t len = 0;

	if (!exchange_check(x, spw_oob_channel_receive(&x->ch, x->in, sizeof(x->in), &len)))
		return false;
	if (!peer_msg_parse(x->in, len, msg) && (msg->type == want || msg->type == or_want))
		return true;
	exchange_fail(x, PEER_REFUSED_malformed, 0);
	return false;
}

static void exchange_connected(struct peer_exchange *x)
{
	const int fd = x->ch.fd, rc = spw_oob_socket_connected(fd);

	if (rc == -EAGAIN)
		return;
	if (rc)
		exchange_fail(x, peer_refused_of(-rc), -rc);
	else if (exchange_check(x, spw_oob_channel_begin(&x->ch, fd, true, x->secret, &peer_proto)))
		x->turn = PEER_TURN_GREET;
}

static void exchange_take_answer(struct peer_exchange *x)
{
	struct peer_msg msg;

	if (!exchange_receive(x, PEER_MSG_ACCEPT, PEER_MSG_REJECT, &msg))
		return;
	if (msg.type == PEER_MSG_ACCEPT) {
		exchange_take_params(x, &msg, PEER_TURN_TO_READY);
	} else {
		x->value = msg.value;
		exchange_fail(x, refused_of(msg.reason), 0);
	}
}

/* The deadline is one for the whole exchange, so a peer cannot hold it open by sending slowly. */
enum peer_turn peer_exchange_step(struct peer_exchange *x, uint64_t now_ms)
{
	struct peer_msg msg;

	switch (x->turn) {
	case PEER_TURN_CONNECT:
		exchange_connected(x);
		break;
	case PEER_TURN_GREET:
		if (exchange_check(x, spw_oob_channel_greet(&x->ch)))
			x->turn = PEER_TURN_TO_OFFER;
		break;
	case PEER_TURN_ANSWER:
		exchange_take_answer(x);
		break;
	case PEER_TURN_READY:
		if (exchange_receive(x, PEER_MSG_READY, PEER_MSG_READY, &msg))
			x->turn = PEER_TURN_DONE;
		break;
	default:
		break;
	}
	if (x->turn < PEER_TURN_DONE && now_ms >= x->deadline_ms)
		exchange_fail(x,
			      x->turn == PEER_TURN_CONNECT ? PEER_REFUSED_unreachable
							   : PEER_REFUSED_timeout,
			      0);
	return x->turn;
}

enum peer_reject peer_exchange_fit(const struct peer_params *ours, const struct peer_params *theirs,
				   uint32_t *value_out)
{
	if (ours->op != theirs->op) {
		*value_out = ours->op;
		return PEER_REJECT_OP;
	}
	if (ours->op == SPW_PEER_OP_WRITE && ours->credit_cnt > theirs->ring_cnt) {
		*value_out = ours->credit_cnt;
		return PEER_REJECT_RING;
	}
	return 0;
}

/* 0: it is the caller's or the owner's turn, and nothing of the socket is awaited. */
short peer_exchange_poll(const struct peer_exchange *x)
{
	switch (x->turn) {
	case PEER_TURN_CONNECT:
		return POLLOUT;
	case PEER_TURN_GREET:
	case PEER_TURN_ANSWER:
	case PEER_TURN_READY:
		return POLLIN;
	default:
		return 0;
	}
}
