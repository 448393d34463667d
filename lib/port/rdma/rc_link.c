/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A link's way through the states of rc_conn.h, control's part of it.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "port/rdma/rc_conn_impl.h"

#define BACKOFF_MIN_MS 50u
#define BACKOFF_MAX_MS 2000u
#define LAST_WQE_MS    1000u

void rc_link_tell(struct rc_link *link, enum spw_port_event_kind kind, uint64_t outage_ns, const char *fmt, ...)
{
	struct spw_port_event event = {.kind = kind, .code = link->peer->index, .outage_ns = outage_ns};
	char addr[64];
	va_list ap;
	int n;

	n = snprintf(event.text, sizeof(event.text), "peer %u (%s) ", link->peer->index, rc_addr_text(&link->addr, addr));
	va_start(ap, fmt);
	vsnprintf(event.text + n, sizeof(event.text) - (size_t)n, fmt, ap);
	va_end(ap);
	rdma_ctl_tell(link->conn->ctl, link->peer->queue, &event);
}

/* [RC1 release, pairs with the acquire in rc_peer_state] */
static void pass(struct rc_link *link, enum rc_state state)
{
	spw_thr_store_rel(&link->peer->state, state);
}

static void close_fd(struct rc_link *link)
{
	if (link->fd >= 0)
		close(link->fd);
	link->fd = -1;
}

void rc_link_up(struct rc_link *link, int fd, uint64_t now_ms)
{
	const uint64_t outage_ms = link->down_ms ? now_ms - link->down_ms : 0;
	char how[32] = "up";

	link->fd = fd;
	link->half = NULL;
	link->told = -1;
	link->backoff_ms = BACKOFF_MIN_MS;
	link->lost = false;
	spw_thr_count(&link->conn->count.up, 1);
	pass(link, RC_UP);
	if (link->down_ms)
		snprintf(how, sizeof(how), "back after %llu ms", (unsigned long long)outage_ms);
	rc_link_tell(link, SPW_PORT_EVENT_PEER_UP, outage_ms * 1000000, "is %s: %u credits of %u bytes", how,
		     link->peer->remote.credit_cnt, link->peer->remote.slot_bytes);
	if (link->doomed)
		rc_link_lose(link, link->lost_why, link->lost_code, now_ms);
}

void rc_link_abandon(struct rc_link *link, uint64_t now_ms)
{
	link->half = NULL;
	link->abandoned = rc_peer_state(link->peer) != RC_DOWN;
	link->try_ms = now_ms + link->backoff_ms;
	link->backoff_ms = SPW_MIN(SPW_MAX(2 * link->backoff_ms, BACKOFF_MIN_MS), BACKOFF_MAX_MS);
}

/* ---- going down ----------------------------------------------------------------------------------- */

static void count_loss(struct rc_link *link, enum rc_why why, uint32_t code)
{
	struct rc_count *count = &link->conn->count;

	switch (why) {
	case RC_WHY_PROTOCOL:
		spw_thr_count(&count->protocol, 1);
		rc_link_tell(link, SPW_PORT_EVENT_PEER_DOWN, 0, "broke the protocol (%u)", code);
		break;
	case RC_WHY_QP_ERROR:
		spw_thr_count(&count->peer_gone, 1);
		rc_link_tell(link, SPW_PORT_EVENT_PEER_DOWN, 0, "is lost: error completion %u", code);
		break;
	case RC_WHY_PEER_GONE:
		spw_thr_count(&count->peer_gone, 1);
		rc_link_tell(link, SPW_PORT_EVENT_PEER_DOWN, 0, "closed the connection");
		break;
	default: break;
	}
}

/* With an SRQ the flush brings no receives back; the QP's last one is an event of its own ("Last
 * WQE Reached", IBTA 11.6.3.3), and only after it is the completion queue all there is to read. */
static void to_drain(struct rc_link *link, uint64_t now_ms)
{
	close_fd(link);
	link->abandoned = link->doomed = false;
	rc_qp_error(link);
	if (link->peer->qp->srq && !link->last_wqe)
		link->last_wqe_ms = now_ms + LAST_WQE_MS;
	else
		pass(link, RC_DRAIN);
}

static void on_fail(struct rc_link *link, uint64_t now_ms)
{
	const struct rc_peer *p = link->peer;

	if (link->last_wqe_ms) {
		if (!link->last_wqe && now_ms < link->last_wqe_ms)
			return;
		link->last_wqe_ms = 0;
		pass(link, RC_DRAIN);
		return;
	}
	link->down_ms = now_ms;
	link->try_ms = now_ms + link->backoff_ms;
	count_loss(link, link->lost ? link->lost_why : (enum rc_why)p->why, link->lost ? link->lost_code : p->code);
	to_drain(link, now_ms);
}

/* The owner may be faster; an end that the device reports has a better reason than the flush that the owner saw. */
void rc_link_lose(struct rc_link *link, enum rc_why why, uint32_t code, uint64_t now_ms)
{
	uint32_t up = RC_UP;
	const bool first = spw_thr_cas(&link->peer->state, &up, (uint32_t)RC_FAIL);

	link->doomed = up == RC_POSTED; /* it did it before its READY was read: rc_link_up goes on here */
	if (!first && !link->doomed && (up != RC_FAIL || why != RC_WHY_PROTOCOL || link->last_wqe_ms))
		return;
	link->lost = true;
	link->lost_why = why;
	link->lost_code = code;
	if (!link->doomed)
		on_fail(link, now_ms);
}

static void on_posted(struct rc_link *link, uint64_t now_ms)
{
	if (!link->abandoned)
		return; /* its exchange goes on (rc_turn.c) */
	pass(link, RC_FAIL);
	to_drain(link, now_ms);
}

static void on_drained(struct rc_link *link)
{
	if (rc_qp_reset(link))
		return; /* the device is gone: it stays where it is */
	link->last_wqe = false;
	spw_thr_count(&link->conn->count.reset, 1);
	pass(link, RC_DOWN);
}

/* ---- coming up ------------------------------------------------------------------------------------ */

static void start_connect(struct rc_link *link, uint64_t now_ms)
{
	struct rc_half *h = &link->client;
	int fd = rc_socket_connect(&link->addr);

	memset(h, 0, sizeof(*h));
	h->addr = link->addr;
	h->link = link;
	h->used = true;
	link->half = h;
	rc_exchange_client(&h->x, fd, &link->conn->conf.secret, now_ms + link->conn->conf.exchange_ms);
	if (fd < 0) {
		h->x.turn = RC_TURN_FAILED;
		h->x.why = RC_REFUSED_system;
		h->x.error = -fd;
	}
}

void rc_link_step(struct rc_link *link, uint64_t now_ms)
{
	switch (rc_peer_state(link->peer)) {
	case RC_DOWN:
		if (link->connects && !link->half && now_ms >= link->try_ms)
			start_connect(link, now_ms);
		break;
	case RC_POSTED: on_posted(link, now_ms); break;
	case RC_UP:
		if (!rc_socket_is_quiet(link->fd))
			rc_link_lose(link, RC_WHY_PEER_GONE, 0, now_ms);
		break;
	case RC_FAIL: on_fail(link, now_ms); break;
	case RC_DRAINED: on_drained(link); break;
	case RC_POST:
	case RC_DRAIN: break;
	}
}
