/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "port/rdma/rc_exchange.h"

static const char *const label[] = {
	[RC_OFFER] = "spinwire rc offer", [RC_ACCEPT] = "spinwire rc accept",
	[RC_REJECT] = "spinwire rc reject", [RC_READY] = "spinwire rc ready",
};

const char *rc_refused_name(enum rc_refused why)
{
	static const char *const name[] = {
#define X(name, text) #name,
		RC_REFUSED_LIST(X)
#undef X
	};

	return (unsigned)why < RC_REFUSED_CNT ? name[why] : "?";
}

const char *rc_refused_text(enum rc_refused why)
{
	static const char *const text[] = {
#define X(name, text) text,
		RC_REFUSED_LIST(X)
#undef X
	};

	return (unsigned)why < RC_REFUSED_CNT ? text[why] : "?";
}

static void fail(struct rc_exchange *x, enum rc_refused why, int error)
{
	x->turn = RC_TURN_FAILED;
	x->why = why;
	x->error = error;
}

static void begin(struct rc_exchange *x, int fd, const struct rc_secret *secret, uint64_t deadline_ms, enum rc_turn turn)
{
	memset(x, 0, sizeof(*x));
	x->fd = fd;
	x->secret = secret;
	x->deadline_ms = deadline_ms;
	x->turn = turn;
}

void rc_exchange_server(struct rc_exchange *x, int fd, const struct rc_secret *secret, uint64_t deadline_ms)
{
	begin(x, fd, secret, deadline_ms, RC_TURN_HELLO);
}

void rc_exchange_client(struct rc_exchange *x, int fd, const struct rc_secret *secret, uint64_t deadline_ms)
{
	begin(x, fd, secret, deadline_ms, RC_TURN_CONNECT);
}

/* ---- saying --------------------------------------------------------------------------------------- */

/* The five messages of an exchange fit the socket's buffer many times: what does not go out at once has no reader. */
static bool say(struct rc_exchange *x, struct rc_message *msg)
{
	uint8_t bytes[RC_HELLO_MAX_BYTES];
	const size_t len = rc_hello_make(msg, bytes), mac_len = rc_hello_mac_bytes(msg->type);
	ssize_t sent;

	memcpy(x->said + x->said_len, bytes, len - mac_len);
	if (mac_len)
		rc_mac(x->secret, label[msg->type], x->said, x->said_len + len - mac_len, bytes + len - mac_len);
	memcpy(x->said + x->said_len, bytes, len);
	x->said_len += (uint32_t)len;
	sent = send(x->fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (sent == (ssize_t)len)
		return true;
	fail(x, sent < 0 && (errno == EPIPE || errno == ECONNRESET) ? RC_REFUSED_closed : RC_REFUSED_system,
	     sent < 0 ? errno : EAGAIN);
	return false;
}

static bool say_nonce(struct rc_exchange *x, enum rc_type type)
{
	struct rc_message msg = {.type = type};

	if (rc_nonce(msg.nonce)) {
		fail(x, RC_REFUSED_system, EIO);
		return false;
	}
	return say(x, &msg);
}

static void say_params(struct rc_exchange *x, enum rc_type type, const struct rc_params *ours, enum rc_turn next)
{
	struct rc_message msg = {.type = type, .params = *ours};

	if (say(x, &msg))
		x->turn = next;
}

void rc_exchange_offer(struct rc_exchange *x, const struct rc_params *ours)
{
	say_params(x, RC_OFFER, ours, RC_TURN_ANSWER);
}

void rc_exchange_accept(struct rc_exchange *x, const struct rc_params *ours)
{
	say_params(x, RC_ACCEPT, ours, RC_TURN_READY);
}

static enum rc_refused refused_of(unsigned reason)
{
	static const enum rc_refused why[] = {
		[RC_REJECT_MTU] = RC_REFUSED_mtu, [RC_REJECT_OP] = RC_REFUSED_op,
		[RC_REJECT_RING] = RC_REFUSED_ring, [RC_REJECT_FULL] = RC_REFUSED_full,
	};

	return reason >= RC_REJECT_MTU && reason <= RC_REJECT_FULL ? why[reason] : RC_REFUSED_malformed;
}

void rc_exchange_reject(struct rc_exchange *x, enum rc_reject reason, uint32_t ours)
{
	struct rc_message msg = {.type = RC_REJECT, .reason = (uint16_t)reason, .value = ours};

	if (say(x, &msg))
		fail(x, refused_of(reason), 0);
}

void rc_exchange_ready(struct rc_exchange *x)
{
	struct rc_message msg = {.type = RC_READY};

	if (say(x, &msg))
		x->turn = RC_TURN_DONE;
}

/* ---- hearing -------------------------------------------------------------------------------------- */

/* Reads until x->in holds len bytes. Returns: false if they are not there yet, or the exchange failed. */
static bool fill(struct rc_exchange *x, uint32_t len)
{
	while (x->in_len < len) {
		ssize_t n = recv(x->fd, x->in + x->in_len, len - x->in_len, MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return false;
		if (n <= 0) {
			fail(x, n == 0 || errno == ECONNRESET ? RC_REFUSED_closed : RC_REFUSED_system, n ? errno : 0);
			return false;
		}
		x->in_len += (uint32_t)n;
	}
	return true;
}

static bool is_proved(const struct rc_exchange *x, const struct rc_message *msg, size_t len)
{
	uint8_t mac[RC_MAC_BYTES];

	rc_mac(x->secret, label[msg->type], x->said, x->said_len + len - RC_MAC_BYTES, mac);
	return rc_mac_same(mac, msg->mac);
}

/* One whole message of one of two types. Returns: false if it is not there yet, or the exchange failed. */
static bool hear(struct rc_exchange *x, enum rc_type want, enum rc_type or_want, struct rc_message *msg)
{
	enum rc_type type;
	uint16_t version;
	int len;

	if (!fill(x, RC_HELLO_HEAD_BYTES))
		return false;
	len = rc_hello_head(x->in, &type, &version);
	if (len == -EPROTONOSUPPORT) {
		x->value = version;
		fail(x, RC_REFUSED_version, 0);
		return false;
	}
	if (len < 0 || (type != want && type != or_want)) {
		fail(x, RC_REFUSED_malformed, 0);
		return false;
	}
	if (!fill(x, (uint32_t)len))
		return false;
	if (rc_hello_parse(x->in, (size_t)len, msg)) {
		fail(x, RC_REFUSED_malformed, 0);
		return false;
	}
	memcpy(x->said + x->said_len, x->in, (size_t)len);
	if (rc_hello_mac_bytes(type) && !is_proved(x, msg, (size_t)len)) {
		fail(x, RC_REFUSED_secret, 0);
		return false;
	}
	x->said_len += (uint32_t)len;
	x->in_len = 0;
	return true;
}

static void hear_params(struct rc_exchange *x, const struct rc_message *msg, enum rc_turn next)
{
	x->theirs = msg->params;
	x->turn = next;
}

static void finish_connect(struct rc_exchange *x)
{
	struct pollfd p = {.fd = x->fd, .events = POLLOUT};
	socklen_t len = sizeof(x->error);
	int error = 0;

	if (poll(&p, 1, 0) != 1)
		return;
	if (getsockopt(x->fd, SOL_SOCKET, SO_ERROR, &error, &len) || error)
		fail(x, RC_REFUSED_system, error ? error : errno);
	else if (say_nonce(x, RC_HELLO))
		x->turn = RC_TURN_CHALLENGE;
}

static void hear_answer(struct rc_exchange *x)
{
	struct rc_message msg;

	if (!hear(x, RC_ACCEPT, RC_REJECT, &msg))
		return;
	if (msg.type == RC_ACCEPT) {
		hear_params(x, &msg, RC_TURN_TO_READY);
	} else {
		x->value = msg.value;
		fail(x, refused_of(msg.reason), 0);
	}
}

enum rc_turn rc_exchange_step(struct rc_exchange *x, uint64_t now_ms)
{
	struct rc_message msg;

	switch (x->turn) {
	case RC_TURN_CONNECT: finish_connect(x); break;
	case RC_TURN_CHALLENGE:
		if (hear(x, RC_CHALLENGE, RC_CHALLENGE, &msg))
			x->turn = RC_TURN_TO_OFFER;
		break;
	case RC_TURN_ANSWER: hear_answer(x); break;
	case RC_TURN_HELLO:
		if (hear(x, RC_HELLO, RC_HELLO, &msg) && say_nonce(x, RC_CHALLENGE))
			x->turn = RC_TURN_OFFER;
		break;
	case RC_TURN_OFFER:
		if (hear(x, RC_OFFER, RC_OFFER, &msg))
			hear_params(x, &msg, RC_TURN_TO_ACCEPT);
		break;
	case RC_TURN_READY:
		if (hear(x, RC_READY, RC_READY, &msg))
			x->turn = RC_TURN_DONE;
		break;
	default: break;
	}
	if (x->turn < RC_TURN_DONE && now_ms >= x->deadline_ms)
		fail(x, RC_REFUSED_timeout, 0);
	return x->turn;
}

enum rc_reject rc_exchange_fit(const struct rc_params *ours, const struct rc_params *theirs, uint32_t *value_out)
{
	if (ours->mtu != theirs->mtu) {
		*value_out = ours->mtu;
		return RC_REJECT_MTU;
	}
	if (ours->op != theirs->op) {
		*value_out = ours->op;
		return RC_REJECT_OP;
	}
	if (ours->op == RC_OP_WRITE && ours->credit_cnt > theirs->ring_cnt) {
		*value_out = ours->credit_cnt;
		return RC_REJECT_RING;
	}
	return 0;
}

short rc_exchange_poll(const struct rc_exchange *x)
{
	switch (x->turn) {
	case RC_TURN_CONNECT: return POLLOUT;
	case RC_TURN_CHALLENGE:
	case RC_TURN_ANSWER:
	case RC_TURN_HELLO:
	case RC_TURN_OFFER:
	case RC_TURN_READY: return POLLIN;
	default: return 0;
	}
}
