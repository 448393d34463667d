/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * One connection: its memory, its frames and deadlines, and its end. exchange.c has the exchange by
 * which it begins. Called by the house of the endpoint once a millisecond, and by whatever
 * finds that the connection cannot go on.
 *
 *   house ─► xfer_conn_turn   TCP connects (dial.c), nonces ─► frames (link.c)
 *                                                     ─► exchange.c, until RAILS
 *                                                                     ─► rail.c, fail.c, window.c
 *                             deadlines: exchange, rails (round.c), "no rail for gone_ms"
 *   anything ─► xfer_conn_fail: QPs destroyed, TCP closed, FAILED; requests fail once tested
 *
 * A connection that the caller has (given) is freed by spw_xfer_conn_close alone; before that it
 * belongs to its listener, or to spw_xfer_connect. The text of a connection is the peer's address,
 * and its reason once it has failed.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "xfer/connection.h"
#include "xfer/endpoint.h"
#include "xfer/reach.h"
#include "xfer/round.h"

#define FRAMES_MAX 32u  /* of one turn */
#define LINGER_MS  100u /* for acknowledgements, after TCP has ended */

/* ---- make and free ---- */

/* Two MRs for each device: the peer may write `in` and the sizes, and must not reach the rest. */
static int box_make(struct spw_xfer_conn *conn)
{
	const struct spw_xfer *x = conn->x;
	int rc = 0;

	conn->box = aligned_alloc(4096, SPW_ALIGN_UP(sizeof(*conn->box), 4096u));
	if (!conn->box)
		return spw_err(ENOMEM, "no memory for a mailbox");
	memset(conn->box, 0, sizeof(*conn->box));
	for (uint32_t i = 0; i < x->dev_cnt && !rc; i++) {
		const struct rdma_dev *dev = &x->dev[i].rdma;

		if (xfer_dev_is_gone(&x->dev[i]))
			continue;
		rc = rdma_mr_reg_bytes(dev, dev->pd, conn->box, XFER_BOX_IN_BYTES,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
				       &conn->box_in[i]);
		rc = rc ? rc
			: rdma_mr_reg_bytes(dev, dev->pd, conn->box->out, XFER_BOX_OUT_BYTES,
					    IBV_ACCESS_LOCAL_WRITE, &conn->box_out[i]);
	}
	return rc == -EAGAIN ? -ENOMEM : rc; /* of connect and accept it means "not yet" */
}

static int conn_attach(struct spw_xfer_conn *conn, const struct spw_oob_channel *ch)
{
	struct epoll_event ev = {.events = EPOLLIN};

	if (epoll_ctl(conn->x->epoll_fd, EPOLL_CTL_ADD, ch->fd, &ev))
		return spw_err(errno, "epoll_ctl: %s", strerror(errno));
	conn->link.ch = *ch;
	return 0;
}

/* The slots' numbers begin one lap back, so that the first grant of each is the one expected. */
int xfer_conn_make(struct spw_xfer *x, const struct spw_oob_channel *ch, bool is_client,
		   struct spw_xfer_conn **conn_out)
{
	struct spw_xfer_conn *conn = calloc(1, sizeof(*conn));
	int rc;

	*conn_out = NULL;
	if (!conn)
		return spw_err(ENOMEM, "no memory for a connection");
	conn->x = x;
	conn->is_client = is_client;
	xfer_list_add(&x->conns, &conn->link_all);
	xfer_list_init(&conn->imported);
	for (uint32_t i = 0; i < SPW_ARRAY_CNT(conn->req); i++) {
		conn->req[i].next_free = conn->free_req;
		conn->free_req = &conn->req[i];
	}
	for (uint32_t i = 0; i < XFER_SLOT_CNT; i++)
		conn->tx[i].seq = i - XFER_SLOT_CNT;
	conn->link.ch.fd = -1;
	rc = box_make(conn);
	if (!rc && ch)
		rc = conn_attach(conn, ch);
	if (rc) {
		xfer_conn_free(conn);
		return rc;
	}
	*conn_out = conn;
	return 0;
}

/* Requests that the caller never tested: their memory may be deregistered from here on. */
static void release_requests(struct spw_xfer_conn *conn)
{
	for (uint32_t i = 0; i < SPW_ARRAY_CNT(conn->req); i++)
		if (conn->req[i].in_use)
			xfer_req_give(&conn->req[i]);
}

/* Rails go first: their QPs use the mailbox, requests and windows. */
void xfer_conn_free(struct spw_xfer_conn *conn)
{
	for (uint32_t i = 0; i < conn->rail_cnt; i++) {
		xfer_rail_destroy(conn->rail[i]);
		free(conn->rail[i]);
	}
	if (conn->link.ch.fd >= 0)
		close(conn->link.ch.fd);
	xfer_dial_end(&conn->dial);
	release_requests(conn);
	xfer_window_free(conn);
	for (uint32_t i = 0; i < conn->x->dev_cnt; i++) {
		if (conn->box_in[i])
			ibv_dereg_mr(conn->box_in[i]);
		if (conn->box_out[i])
			ibv_dereg_mr(conn->box_out[i]);
	}
	free(conn->box);
	xfer_list_del(&conn->link_all);
	free(conn);
}

void spw_xfer_conn_close(struct spw_xfer_conn *conn)
{
	if (conn)
		xfer_conn_free(conn);
}

/* ---- the end ---- */

/* The QPs go first: no device touches a request's memory after the request has failed. The caller
 * learns of it by its next call on the connection. Only the first reason counts. */
void xfer_conn_fail(struct spw_xfer_conn *conn, int error, const char *fmt, ...)
{
	char why[sizeof(conn->text)];
	size_t n = strlen(conn->text);
	va_list args;

	if (conn->state == XFER_CONN_FAILED)
		return;
	va_start(args, fmt);
	vsnprintf(why, sizeof(why), fmt, args);
	va_end(args);
	snprintf(conn->text + n, sizeof(conn->text) - n, ": %s", why);
	spw_log_limited(&conn->x->limit, SPW_LOG_WARN, "xfer: %s", conn->text);
	if (conn->given)
		conn->x->stat.conns_lost++;
	else if (!conn->is_client)
		conn->x->stat.refused++;
	for (uint32_t i = 0; i < conn->rail_cnt; i++) {
		xfer_rail_destroy(conn->rail[i]);
		conn->rail[i]->state = XFER_OFF;
	}
	if (conn->link.ch.fd >= 0)
		close(conn->link.ch.fd);
	conn->link.ch.fd = -1;
	conn->up = 0;
	conn->error = -error;
	conn->state = XFER_CONN_FAILED;
	conn->x->news++;
}

/* Counted apart, since a peer that breaks the protocol has a bug or means harm. */
void xfer_conn_breach(struct spw_xfer_conn *conn, const char *what)
{
	if (conn->state != XFER_CONN_FAILED)
		conn->x->stat.protocol++;
	xfer_conn_fail(conn, EPROTO, "it broke the protocol: %s", what);
}

int xfer_conn_usable(const struct spw_xfer_conn *conn)
{
	return conn->error ? spw_err(-conn->error, "%s", conn->text) : 0;
}

int spw_xfer_conn_error(const struct spw_xfer_conn *conn)
{
	return conn->error;
}

const char *spw_xfer_conn_text(const struct spw_xfer_conn *conn)
{
	return conn->text;
}

/* Nothing is lost by an end of TCP here: the next turn finds it. */
void xfer_conn_send(struct spw_xfer_conn *conn, const struct xfer_frame *frame)
{
	if (xfer_link_send(&conn->link, frame) == -ENOBUFS)
		xfer_conn_fail(conn, ECONNRESET, "it does not read what it is sent");
}

/* ---- ready ---- */

static const char *rail_why(const struct xfer_rail *rail)
{
	return *rail->stat.why ? rail->stat.why : "no answer";
}

/* Why of each rail, for the message of a connection without any: once for neighbours alike. */
static void no_rail(struct spw_xfer_conn *conn)
{
	char list[sizeof(conn->text) / 2] = "", subnets[sizeof(conn->text) / 2 - 128];
	size_t n = 0;

	for (uint32_t i = 0; i < conn->rail_cnt && n < sizeof(list); i++) {
		const char *why = rail_why(conn->rail[i]);
		const bool last = i + 1 == conn->rail_cnt ||
				  strcmp(why, rail_why(conn->rail[i + 1])) != 0;

		n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%s%s%s",
				      conn->rail[i]->stat.device, last ? ": " : ", ",
				      last ? why : "", last && i + 1 < conn->rail_cnt ? "; " : "");
	}
	xfer_round_why_none(conn, subnets, sizeof(subnets));
	xfer_conn_fail(conn, ENETUNREACH, "no rail leads there (%s)%s", n ? list : "no answer",
		       subnets);
}

/* Without any rail a server waits for what else its client tries. */
void xfer_conn_check_ready(struct spw_xfer_conn *conn, uint64_t now_ms)
{
	if (conn->state != XFER_CONN_RAILS)
		return;
	if (now_ms < conn->deadline_ms &&
	    (!xfer_round_is_settled(conn) || (!conn->up && !conn->is_client)))
		return;
	if (!conn->up) {
		no_rail(conn);
		return;
	}
	conn->state = XFER_CONN_READY;
	conn->x->stat.conns_up++;
	conn->x->news++;
	xfer_round_report(conn);
}

/* ---- frames ---- */

/* Returns: false: a frame that has no place here. */
static bool take_later(struct spw_xfer_conn *conn, const struct xfer_frame *f, uint64_t now_ms)
{
	switch (f->type) {
	case XFER_FRAME_RAIL:
		if (!xfer_round_on_rail(conn, f))
			return false;
		xfer_rail_on_frame(conn->rail[f->rail.rail], f, now_ms);
		return true;
	case XFER_FRAME_DOWN:
		if (f->down.rail >= conn->rail_cnt)
			return false;
		xfer_rail_on_down(conn->rail[f->down.rail], f, now_ms);
		return true;
	case XFER_FRAME_WINDOW:
		xfer_window_on_frame(conn, f);
		return true;
	default:
		return false;
	}
}

/* Returns: false: no such frame is expected now. */
static bool conn_take(struct spw_xfer_conn *conn, const struct xfer_frame *f, uint64_t now_ms)
{
	if (conn->state == XFER_CONN_RAILS || conn->state == XFER_CONN_READY)
		return take_later(conn, f, now_ms);
	return xfer_exchange_take(conn, f, now_ms);
}

/* Sends or puts are out whose acknowledgements may still be on their way: a receiver closes as soon
 * as it has everything. */
static bool conn_lingers(struct spw_xfer_conn *conn)
{
	if (!conn->linger_ms)
		conn->linger_ms = conn->x->clock_ms + LINGER_MS;
	return (conn->send_cnt || conn->access_cnt) && conn->up &&
	       conn->x->clock_ms < conn->linger_ms;
}

/* TCP has ended. What the peer had sent before may still be in the completion queues: one more
 * turn takes it. */
static void tcp_ended(struct spw_xfer_conn *conn)
{
	if (conn->state == XFER_CONN_RAILS && conn->rail_cnt)
		no_rail(conn); /* the other end found that out first */
	else if (conn->state != XFER_CONN_READY)
		xfer_conn_fail(conn, conn->is_client ? EACCES : ECONNRESET,
			       "it closed during the exchange: its log has the reason");
	else if (conn->ended && (conn->link.error == ETIMEDOUT || conn->link.error == EHOSTUNREACH))
		xfer_conn_fail(conn, ETIMEDOUT,
			       "TCP has no answer: its host is down, or a firewall drops it");
	else if (conn->ended && !conn_lingers(conn))
		xfer_conn_fail(conn, ECONNRESET, "the peer closed the connection, or died");
	conn->ended = true;
}

/* Before the exchange is over the other end may be a stranger: its error is no breach. */
static void bad_frame(struct spw_xfer_conn *conn, int rc)
{
	char why[SPW_OOB_REASON_BYTES];

	if (rc == -ECONNRESET)
		tcp_ended(conn);
	else if (conn->state < XFER_CONN_RAILS)
		xfer_conn_fail(conn, rc == -EMSGSIZE ? EPROTO : -rc, "%s",
			       spw_oob_channel_reason(&conn->link.ch, rc, why));
	else
		xfer_conn_breach(conn, rc == -EACCES ? "a frame that was changed, or sent before"
						     : "a malformed frame");
}

static void take_frame(struct spw_xfer_conn *conn, const struct xfer_frame *f, uint64_t now_ms)
{
	if (!conn_take(conn, f, now_ms))
		xfer_conn_breach(conn, "a frame that has no place here");
}

void xfer_conn_first(struct spw_xfer_conn *conn, const uint8_t *bytes, size_t len, uint64_t now_ms)
{
	struct xfer_frame f;

	if (xfer_wire_parse(bytes, len, &f))
		bad_frame(conn, -EPROTO);
	else
		take_frame(conn, &f, now_ms);
}

/* FRAMES_MAX: a peer that sends without end must not hold up the others of the endpoint. */
static void read_frames(struct spw_xfer_conn *conn, uint64_t now_ms)
{
	struct xfer_frame f;

	for (uint32_t i = 0; i < FRAMES_MAX && conn->state != XFER_CONN_FAILED; i++) {
		const int rc = xfer_link_receive(&conn->link, &f);

		if (rc < 0)
			bad_frame(conn, rc);
		if (rc <= 0)
			return;
		take_frame(conn, &f, now_ms);
	}
}

/* A client's TCP connections are tried; the first that stands is this connection's. */
static void conn_connected(struct spw_xfer_conn *conn, uint64_t now_ms)
{
	const int fd = xfer_dial_turn(conn, now_ms);
	struct spw_oob_channel ch;
	int rc;

	if (fd == -EAGAIN)
		return;
	if (fd < 0) {
		xfer_conn_fail(conn, -fd, "%s: %s", strerror(-fd),
			       fd == -ENETUNREACH || fd == -EHOSTUNREACH
				       ? "no interface here leads there: is it one end of a cable "
					 "to another machine?"
				       : "does it listen there?");
		return;
	}
	rc = spw_oob_channel_begin(&ch, fd, true, &conn->x->secret, &xfer_proto);
	rc = rc ? rc : conn_attach(conn, &ch);
	if (rc) {
		close(fd);
		xfer_conn_fail(conn, -rc, "%s", strerror(-rc));
	} else {
		conn->state = XFER_CONN_GREET;
	}
}

/* What a client sends first has a MAC over both nonces. */
static void conn_greet(struct spw_xfer_conn *conn)
{
	const int rc = spw_oob_channel_greet(&conn->link.ch);

	if (!rc)
		xfer_exchange_start(conn);
	else if (rc != -EAGAIN)
		bad_frame(conn, rc);
}

/* gone_ms moves on as long as a rail is up and no DOWN of the peer is awaited. */
static void watch_deadlines(struct spw_xfer_conn *conn, uint64_t now_ms)
{
	if (conn->state < XFER_CONN_RAILS && now_ms >= conn->deadline_ms) {
		xfer_conn_fail(conn, ETIMEDOUT, "no answer in %u ms", conn->x->conf.exchange_ms);
		return;
	}
	xfer_round_turn(conn, now_ms);
	for (uint32_t i = 0; i < conn->rail_cnt && conn->state != XFER_CONN_FAILED; i++)
		xfer_rail_turn(conn->rail[i], now_ms);
	xfer_conn_check_ready(conn, now_ms);
	if (conn->state != XFER_CONN_READY || (conn->up && !conn->waiting))
		conn->gone_ms = now_ms + conn->x->conf.gone_ms;
	else if (now_ms >= conn->gone_ms)
		xfer_conn_fail(conn, ETIMEDOUT, "%s for %u ms",
			       conn->waiting ? "it has not confirmed over TCP that a rail is down"
					     : "no rail",
			       conn->x->conf.gone_ms);
}

/* A server's connection that failed before the caller had it is freed here: *conn is gone. */
void xfer_conn_turn(struct spw_xfer_conn *conn, uint64_t now_ms, bool heard)
{
	if (conn->state == XFER_CONN_TCP)
		conn_connected(conn, now_ms);
	if (conn->state == XFER_CONN_GREET)
		conn_greet(conn);
	if (conn->state > XFER_CONN_GREET && conn->state != XFER_CONN_FAILED) {
		(void)xfer_link_flush(&conn->link);
		if (heard)
			read_frames(conn, now_ms); /* finds the end of TCP, too */
	}
	if (conn->state != XFER_CONN_FAILED)
		watch_deadlines(conn, now_ms);
	if (conn->repair && conn->state != XFER_CONN_FAILED)
		xfer_conn_progress(conn); /* a receiver may wait for it, and no request here */
	if (conn->state == XFER_CONN_FAILED && conn->listener)
		xfer_conn_free(conn);
}
