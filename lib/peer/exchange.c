/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The two sides of an exchange as one state machine (exchange.h). Each message is appended to the
 * transcript before its MAC is computed or checked, so both sides sign the same bytes in the same
 * order. The control thread calls peer_exchange_step whenever poll(2) reports the descriptor.
 *
 *   client                                server
 *   CONNECT  ── TCP ──────────────────►   HELLO
 *            ── HELLO: nonce ─────────►   (sends CHALLENGE) OFFER
 *   CHALLENGE ◄─ CHALLENGE: nonce ────
 *   TO_OFFER  (QP in INIT, receives posted)
 *            ── OFFER: parameters, MAC ►  TO_ACCEPT  (secret proved: bind, QP to RTS)
 *   ANSWER   ◄─ ACCEPT or REJECT, MAC ─   READY
 *   TO_READY (QP to RTS)
 *            ── READY, MAC ───────────►   DONE ─► link up
 *   DONE ─► link up
 *
 * TO_ states are the caller's: it does what needs the QP, then calls peer_exchange_offer, _accept,
 * _reject or _ready. A MAC covers all bytes of both directions so far, so no message can be
 * replayed in another exchange or moved within one.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "oob/spw_oob_socket.h"
#include "peer/exchange.h"

static const char *const label[] = {
	[PEER_MSG_OFFER] = "spinwire rc offer",
	[PEER_MSG_ACCEPT] = "spinwire rc accept",
	[PEER_MSG_REJECT] = "spinwire rc reject",
	[PEER_MSG_READY] = "spinwire rc ready",
};

/* The first failure ends the exchange; the caller closes the descriptor. */
static void exchange_fail(struct peer_exchange *x, enum peer_refused why, int error)
{
	x->turn = PEER_TURN_FAILED;
	x->why = why;
	x->error = error;
}

static void exchange_begin(struct peer_exchange *x, int fd, const struct spw_oob_secret *secret,
			   uint64_t deadline_ms, enum peer_turn turn)
{
	memset(x, 0, sizeof(*x));
	x->fd = fd;
	x->secret = secret;
	x->deadline_ms = deadline_ms;
	x->turn = turn;
}

void peer_exchange_server(struct peer_exchange *x, int fd, const struct spw_oob_secret *secret,
			  uint64_t deadline_ms)
{
	exchange_begin(x, fd, secret, deadline_ms, PEER_TURN_HELLO);
}

void peer_exchange_client(struct peer_exchange *x, int fd, const struct spw_oob_secret *secret,
			  uint64_t deadline_ms)
{
	exchange_begin(x, fd, secret, deadline_ms, PEER_TURN_CONNECT);
}

/* ---- send ---- */

/* All messages of an exchange together are far smaller than a socket buffer: a partial send means
 * that nobody reads, and fails the exchange. */
static bool exchange_send(struct peer_exchange *x, struct peer_msg *msg)
{
	uint8_t bytes[PEER_HELLO_MAX_BYTES];
	const size_t len = peer_hello_encode(msg, bytes), mac_len = peer_hello_mac_bytes(msg->type);
	ssize_t sent;

	memcpy(x->transcript + x->transcript_len, bytes, len - mac_len);
	if (mac_len)
		spw_oob_mac(x->secret, label[msg->type], x->transcript,
			    x->transcript_len + len - mac_len, bytes + len - mac_len);
	memcpy(x->transcript + x->transcript_len, bytes, len);
	x->transcript_len += (uint32_t)len;
	sent = send(x->fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (sent == (ssize_t)len)
		return true;
	exchange_fail(x, peer_refused_of(sent < 0 ? errno : EAGAIN), sent < 0 ? errno : EAGAIN);
	return false;
}

/* Both sides contribute a nonce: neither can be made to repeat an old transcript. */
static bool exchange_send_nonce(struct peer_exchange *x, enum peer_msg_type type)
{
	struct peer_msg msg = {.type = type};

	if (spw_oob_nonce(msg.nonce)) {
		exchange_fail(x, PEER_REFUSED_system, EIO);
		return false;
	}
	return exchange_send(x, &msg);
}

static void exchange_send_params(struct peer_exchange *x, enum peer_msg_type type,
				 const struct peer_params *ours, enum peer_turn next)
{
	struct peer_msg msg = {.type = type, .params = *ours};

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

/* Reads until x->in holds len bytes. Returns: false if they have not arrived yet, or the exchange
 * failed. */
static bool exchange_fill(struct peer_exchange *x, size_t len)
{
	const int rc = spw_oob_socket_read(x->fd, x->in, len, &x->in_len);

	if (rc && rc != -EAGAIN)
		exchange_fail(x, peer_refused_of(-rc), -rc);
	return !rc;
}

/* Compared in constant time (oob/auth.c). */
static bool exchange_is_proved(const struct peer_exchange *x, const struct peer_msg *msg,
			       size_t len)
{
	uint8_t mac[SPW_OOB_MAC_BYTES];

	spw_oob_mac(x->secret, label[msg->type], x->transcript,
		    x->transcript_len + len - SPW_OOB_MAC_BYTES, mac);
	return spw_oob_mac_same(mac, msg->mac);
}

/* One whole message of one of two types. Returns: false if it has not arrived yet, or the exchange
 * failed. */
static bool exchange_receive(struct peer_exchange *x, enum peer_msg_type want,
			     enum peer_msg_type or_want, struct peer_msg *msg)
{
	enum peer_msg_type type;
	uint16_t version;
	int len;

	if (!exchange_fill(x, PEER_HELLO_HEAD_BYTES))
		return false;
	len = peer_hello_head(x->in, &type, &version);
	if (len == -EPROTONOSUPPORT) {
		x->value = version;
		exchange_fail(x, PEER_REFUSED_version, 0);
		return false;
	}
	if (len < 0 || (type != want && type != or_want)) {
		exchange_fail(x, PEER_REFUSED_malformed, 0);
		return false;
	}
	if (!exchange_fill(x, (size_t)len))
		return false;
	if (peer_hello_parse(x->in, (size_t)len, msg)) {
		exchange_fail(x, PEER_REFUSED_malformed, 0);
		return false;
	}
	memcpy(x->transcript + x->transcript_len, x->in, (size_t)len);
	if (peer_hello_mac_bytes(type) && !exchange_is_proved(x, msg, (size_t)len)) {
		exchange_fail(x, PEER_REFUSED_secret, 0);
		return false;
	}
	x->transcript_len += (uint32_t)len;
	x->in_len = 0;
	return true;
}

static void exchange_take_params(struct peer_exchange *x, const struct peer_msg *msg,
				 enum peer_turn next)
{
	x->theirs = msg->params;
	x->turn = next;
}

static void exchange_connected(struct peer_exchange *x)
{
	const int rc = spw_oob_socket_connected(x->fd);

	if (rc == -EAGAIN)
		return;
	if (rc)
		exchange_fail(x, peer_refused_of(-rc), -rc);
	else if (exchange_send_nonce(x, PEER_MSG_HELLO))
		x->turn = PEER_TURN_CHALLENGE;
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
	case PEER_TURN_CHALLENGE:
		if (exchange_receive(x, PEER_MSG_CHALLENGE, PEER_MSG_CHALLENGE, &msg))
			x->turn = PEER_TURN_TO_OFFER;
		break;
	case PEER_TURN_ANSWER:
		exchange_take_answer(x);
		break;
	case PEER_TURN_HELLO:
		if (exchange_receive(x, PEER_MSG_HELLO, PEER_MSG_HELLO, &msg) &&
		    exchange_send_nonce(x, PEER_MSG_CHALLENGE))
			x->turn = PEER_TURN_OFFER;
		break;
	case PEER_TURN_OFFER:
		if (exchange_receive(x, PEER_MSG_OFFER, PEER_MSG_OFFER, &msg))
			exchange_take_params(x, &msg, PEER_TURN_TO_ACCEPT);
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
	case PEER_TURN_CHALLENGE:
	case PEER_TURN_ANSWER:
	case PEER_TURN_HELLO:
	case PEER_TURN_OFFER:
	case PEER_TURN_READY:
		return POLLIN;
	default:
		return 0;
	}
}
