/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The control thread's turn: strangers at the door, exchanges under way, links.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "port/rdma/rc_conn_impl.h"

#define ACCEPT_MAX 64u /* of one turn */

/* ---- the door ------------------------------------------------------------------------------------- */

static uint32_t halves_from(const struct rc_conn *conn, const struct in6_addr *addr)
{
	uint32_t cnt = 0;

	for (uint32_t i = 0; i < RC_HALF_MAX; i++)
		cnt += conn->half[i].used && IN6_ARE_ADDR_EQUAL(&conn->half[i].addr.sin6_addr, addr);
	return cnt;
}

static struct rc_half *free_half(struct rc_conn *conn)
{
	for (uint32_t i = 0; i < RC_HALF_MAX; i++)
		if (!conn->half[i].used)
			return &conn->half[i];
	return NULL;
}

/* Not allowed: closed without a byte. */
static void admit(struct rc_conn *conn, int fd, const struct sockaddr_in6 *from, uint64_t now_ms)
{
	struct rc_half *h = free_half(conn);
	const bool allowed = rc_allowed(&conn->conf, &from->sin6_addr);

	if (!allowed || !h || halves_from(conn, &from->sin6_addr) >= RC_HALF_PER_ADDR) {
		spw_thr_count(&conn->count.refused[allowed ? RC_REFUSED_busy : RC_REFUSED_not_allowed], 1);
		close(fd);
		return;
	}
	memset(h, 0, sizeof(*h));
	h->used = true;
	h->addr = *from;
	rc_exchange_server(&h->x, fd, &conn->conf.secret, now_ms + conn->conf.exchange_ms);
}

static void open_door(struct rc_conn *conn, uint64_t now_ms)
{
	struct sockaddr_in6 from;

	for (uint32_t i = 0; conn->listen_fd >= 0 && i < ACCEPT_MAX; i++) {
		int fd = rc_socket_accept(conn->listen_fd, &from);

		if (fd < 0)
			return;
		admit(conn, fd, &from, now_ms);
	}
}

/* ---- exchanges ------------------------------------------------------------------------------------ */

static void end_half(struct rc_half *h)
{
	h->used = false;
	h->link = NULL;
}

static void tell_refused(struct rc_link *link, const struct rc_exchange *x)
{
	if (!link->connects || link->told == (int)x->why)
		return;
	link->told = (int)x->why;
	if (x->why == RC_REFUSED_system)
		rc_link_tell(link, SPW_PORT_EVENT_PEER_DOWN, 0, "%s; trying again", strerror(x->error));
	else
		rc_link_tell(link, SPW_PORT_EVENT_PEER_DOWN, 0, "%s", rc_refused_text(x->why));
}

static void half_failed(struct rc_conn *conn, struct rc_half *h, uint64_t now_ms)
{
	spw_thr_count(&conn->count.refused[h->x.why], 1);
	if (h->x.fd >= 0)
		close(h->x.fd);
	if (h->link) {
		tell_refused(h->link, &h->x);
		rc_link_abandon(h->link, now_ms);
	}
	end_half(h);
}

static void fail_half(struct rc_half *h, int rc)
{
	h->x.turn = RC_TURN_FAILED;
	h->x.why = RC_REFUSED_system;
	h->x.error = -rc;
}

/* Server: a peer that proved itself gets an entry. Returns: false if there is none now; it waits for one that is being
 * cleared (its own, if it comes back at once), and is turned away when there is no such either. */
static bool bind_link(struct rc_conn *conn, struct rc_half *h)
{
	bool wait = false;

	for (uint32_t i = conn->conf.connect_cnt; i < conn->conf.peer_max; i++) {
		struct rc_link *link = &conn->link[i];
		const enum rc_state state = rc_peer_state(link->peer);

		wait |= link->abandoned || state == RC_FAIL || state == RC_DRAIN || state == RC_DRAINED;
		if (link->half || state != RC_DOWN)
			continue;
		h->link = link;
		link->half = h;
		link->addr = h->addr;
		return true;
	}
	if (!wait)
		rc_exchange_reject(&h->x, RC_REJECT_FULL, conn->conf.peer_max);
	return false;
}

/* The QP to INIT and the turn to the owner, once. Returns: true when the receives are posted. */
static bool posted(struct rc_half *h)
{
	struct rc_link *link = h->link;
	int rc;

	if (rc_peer_state(link->peer) == RC_POSTED)
		return true;
	if (rc_peer_state(link->peer) != RC_DOWN)
		return false;
	rc = link->down_ms ? rc_peer_renew(link) : 0;
	rc = rc ? rc : rc_peer_params(link);
	rc = rc ? rc : rc_qp_init(link);
	if (rc)
		fail_half(h, rc);
	else
		spw_thr_store_rel(&link->peer->state, RC_POST); /* [RC1 release, pairs with rc_peer_state] */
	return false;
}

static void do_offer(struct rc_half *h)
{
	if (posted(h))
		rc_exchange_offer(&h->x, &h->link->ours);
}

/* Both: what they said fits, and the QP is ready for it. */
static bool agree(struct rc_half *h)
{
	int rc = rc_qp_ready(h->link, &h->x.theirs);

	if (rc)
		fail_half(h, rc);
	else
		rc_peer_learn(h->link, &h->x.theirs);
	return !rc;
}

static void do_ready(struct rc_half *h)
{
	uint32_t value;

	if (rc_exchange_fit(&h->link->ours, &h->x.theirs, &value)) {
		h->x.turn = RC_TURN_FAILED; /* the server has looked: it lies */
		h->x.why = RC_REFUSED_malformed;
	} else if (agree(h)) {
		rc_exchange_ready(&h->x);
	}
}

static void do_accept(struct rc_conn *conn, struct rc_half *h)
{
	enum rc_reject reason;
	uint32_t value;

	if ((!h->link && !bind_link(conn, h)) || !posted(h))
		return;
	reason = rc_exchange_fit(&h->link->ours, &h->x.theirs, &value);
	if (reason)
		rc_exchange_reject(&h->x, reason, value);
	else if (agree(h))
		rc_exchange_accept(&h->x, &h->link->ours);
}

static void half_step(struct rc_conn *conn, struct rc_half *h, uint64_t now_ms)
{
	enum rc_turn was;

	do {
		was = h->x.turn;
		switch (rc_exchange_step(&h->x, now_ms)) {
		case RC_TURN_TO_OFFER: do_offer(h); break;
		case RC_TURN_TO_READY: do_ready(h); break;
		case RC_TURN_TO_ACCEPT: do_accept(conn, h); break;
		default: break;
		}
	} while (h->x.turn != was && h->x.turn < RC_TURN_DONE);
	if (h->x.turn == RC_TURN_FAILED) {
		half_failed(conn, h, now_ms);
	} else if (h->x.turn == RC_TURN_DONE) {
		rc_link_up(h->link, h->x.fd, now_ms);
		end_half(h);
	}
}

void rc_turn(void *arg, uint64_t now_ms)
{
	struct rc_conn *conn = arg;

	rc_conn_hold(conn);
	open_door(conn, now_ms);
	for (uint32_t i = 0; i < conn->conf.peer_max; i++) {
		rc_link_step(&conn->link[i], now_ms);
		if (conn->link[i].client.used)
			half_step(conn, &conn->link[i].client, now_ms);
	}
	for (uint32_t i = 0; i < RC_HALF_MAX; i++)
		if (conn->half[i].used)
			half_step(conn, &conn->half[i], now_ms);
	rc_conn_let(conn);
}

static struct rc_link *link_of(struct rc_conn *conn, const struct ibv_qp *qp)
{
	for (uint32_t i = 0; i < conn->conf.peer_max; i++)
		if (conn->link[i].peer->qp == qp)
			return &conn->link[i];
	return NULL;
}

/* What the device refused to do for the peer never becomes a completion: a write where it has no right, a request that makes
 * no sense. */
void rc_turn_async(void *arg, const struct ibv_async_event *event)
{
	struct rc_conn *conn = arg;
	struct rc_link *link;

	rc_conn_hold(conn);
	switch (event->event_type) {
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		link = link_of(conn, event->element.qp);
		if (link)
			link->last_wqe = true; /* it may come before anything else tells that the QP failed */
		break;
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_QP_REQ_ERR:
		link = link_of(conn, event->element.qp);
		if (link)
			rc_link_lose(link, RC_WHY_PROTOCOL, event->event_type, rdma_ctl_now_ms());
		break;
	case IBV_EVENT_QP_FATAL:
		link = link_of(conn, event->element.qp);
		if (link)
			rc_link_lose(link, RC_WHY_QP_ERROR, event->event_type, rdma_ctl_now_ms());
		break;
	default:
		if (conn->dev.async)
			conn->dev.async(conn->dev.async_arg, event);
	}
	rc_conn_let(conn);
}

/* ---- what to wait for ----------------------------------------------------------------------------- */

static void until(uint64_t when_ms, uint64_t now_ms, int *timeout_ms)
{
	const uint64_t wait = when_ms > now_ms ? when_ms - now_ms : 0;

	if (wait < (uint64_t)*timeout_ms)
		*timeout_ms = (int)wait;
}

static uint32_t want_half(const struct rc_half *h, uint64_t now_ms, struct pollfd *fd, int *timeout_ms)
{
	if (!h->used)
		return 0;
	until(h->x.deadline_ms, now_ms, timeout_ms);
	*fd = (struct pollfd){.fd = h->x.fd, .events = rc_exchange_poll(&h->x)};
	return fd->events ? 1 : 0; /* else it waits for the owner, which wakes us, or for the deadline */
}

uint32_t rc_turn_prepare(void *arg, uint64_t now_ms, struct pollfd *fd, uint32_t fd_max SPW_UNUSED, int *timeout_ms)
{
	struct rc_conn *conn = arg;
	uint32_t n = 0;

	_Static_assert(1 + RC_HALF_MAX + RC_PEER_MAX + 2 <= RDMA_CTL_FD_MAX, "every descriptor has its place");
	if (conn->listen_fd >= 0)
		fd[n++] = (struct pollfd){.fd = conn->listen_fd, .events = POLLIN};
	for (uint32_t i = 0; i < RC_HALF_MAX; i++)
		n += want_half(&conn->half[i], now_ms, &fd[n], timeout_ms);
	for (uint32_t i = 0; i < conn->conf.peer_max; i++) {
		const struct rc_link *link = &conn->link[i];

		if (link->client.used)
			n += want_half(&link->client, now_ms, &fd[n], timeout_ms);
		else if (link->fd >= 0)
			fd[n++] = (struct pollfd){.fd = link->fd, .events = POLLIN};
		else if (link->last_wqe_ms)
			until(link->last_wqe_ms, now_ms, timeout_ms);
		else if (link->connects && rc_peer_state(link->peer) == RC_DOWN)
			until(link->try_ms, now_ms, timeout_ms);
	}
	return n;
}
