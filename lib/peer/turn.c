/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * One turn of the control thread: looks at the door, advances exchanges, steps every link.
 * rdma_ctl calls peer_turn_prepare before it sleeps and peer_turn when something happened. Every
 * turn holds conn->turn, so that an owner can suspend it (spw_peer_conn_hold). A turn in which a QP
 * goes to RTR may last a second (spw_peer_qp.h); until its end no other exchange goes on.
 *
 * Strangers are cheap by design (oob/spw_oob_door.h): no entry of the table before a client has
 * proved the secret, and not a byte for an address outside peers=.
 *
 * What a server spends on a client, in order:
 *
 *   TCP accepted    address in peers=? ─► no: closed          a seat at the door, for exchange_ms
 *   both nonces     no table entry, no QP
 *   OFFER           MAC proves the secret                     a peer_half, until the same time
 *                   GID allowed?                              no: REJECT
 *   bind            an entry of the table, host_max per host  QP to INIT, receives posted
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/spw_log.h"
#include "peer/conn.h"

#define GUEST_MAX 64u /* of one turn */

/* ---- the door ---- */

/* The place for one more exchange; NULL: all are taken, or this host has its share. */
static struct peer_half *half_choose(struct spw_peer_conn *conn, const struct in6_addr *from)
{
	struct peer_half *unused = NULL;
	uint32_t here = 0;

	for (uint32_t i = 0; i < PEER_HALF_MAX; i++) {
		struct peer_half *h = &conn->half[i];

		if (h->used)
			here += spw_oob_addr_same_host(&h->addr.sin6_addr, from);
		else
			unused = h;
	}
	return here < PEER_HALF_PER_ADDR ? unused : NULL;
}

/* The first of each reason is named, the rest are counted: a stranger cannot fill the log. */
static void guest_refuse(struct spw_peer_conn *conn, const struct spw_oob_guest *guest, int rc)
{
	const enum peer_refused why = peer_refused_by(rc);
	char from[64], text[SPW_OOB_REASON_BYTES];

	if (!conn->count.refused[why])
		spw_info("%s: %s was turned away: %s", conn->dev.name,
			 spw_oob_addr_text(&guest->from, from),
			 spw_oob_channel_reason(&guest->ch, rc, text));
	if (why == PEER_REFUSED_system)
		conn->count.error = -rc;
	spw_thr_count(&conn->count.refused[why], 1);
}

static void guest_admit(struct spw_peer_conn *conn, const struct spw_oob_guest *guest)
{
	struct peer_half *h = half_choose(conn, &guest->from.sin6_addr);

	if (!h) {
		guest_refuse(conn, guest, -EBUSY);
		close(guest->ch.fd);
		return;
	}
	*h = (struct peer_half){.used = true, .addr = guest->from};
	peer_exchange_server(&h->x, guest);
}

/* Out of descriptors or memory: the door tries again after a pause. */
static void door_is_deaf(struct spw_peer_conn *conn, int error)
{
	if (error && !conn->deaf)
		spw_warn("%s: no peer can be accepted: %s; trying again every %u ms (ulimit -n "
			 "shows how many files may be open)",
			 conn->dev.name, strerror(error), SPW_OOB_RETRY_MS);
	else if (!error && conn->deaf)
		spw_info("%s: peers are accepted again", conn->dev.name);
	conn->deaf = error;
}

static void door_turn(struct spw_peer_conn *conn, uint64_t now_ms)
{
	struct spw_oob_guest guest;

	for (uint32_t i = 0; conn->door && i < GUEST_MAX; i++) {
		const int rc = spw_oob_door_turn(conn->door, now_ms, &guest);

		if (rc == -EAGAIN)
			return;
		door_is_deaf(conn, guest.from.sin6_family ? 0 : -rc);
		if (!rc)
			guest_admit(conn, &guest);
		else if (guest.from.sin6_family)
			guest_refuse(conn, &guest, rc);
	}
}

/* ---- exchanges ---- */

/* The socket stays open: it is the link's now, or was closed by the caller. */
static void half_end(struct peer_half *h)
{
	h->used = false;
	h->link = NULL;
}

/* A client reports each new reason of a failure once; a server only failures of its own side. */
static void report_refused(struct peer_link *link, const struct peer_exchange *x)
{
	char text[PEER_REFUSED_TEXT_BYTES];

	if ((!link->connects && x->why != PEER_REFUSED_local) || link->reported == (int)x->why)
		return;
	link->reported = (int)x->why;
	peer_link_report(link, SPW_PORT_EVENT_PEER_DOWN, 0, "%s",
			 peer_refused_describe(x, &link->ours, text));
}

static void half_failed(struct spw_peer_conn *conn, struct peer_half *h, uint64_t now_ms)
{
	spw_thr_count(&conn->count.refused[h->x.why], 1);
	if (h->x.why == PEER_REFUSED_system)
		conn->count.error = h->x.error;
	if (h->x.ch.fd >= 0)
		close(h->x.ch.fd);
	if (h->link) {
		report_refused(h->link, &h->x);
		peer_link_abandon(h->link, now_ms);
	}
	half_end(h);
}

/* spw_err_text has the reason. */
static void half_fail(struct peer_half *h)
{
	h->x.turn = PEER_TURN_FAILED;
	h->x.why = PEER_REFUSED_local;
}

/* The entries for peers that connect, as one host finds them. */
struct entries {
	struct peer_link *unused;
	uint32_t of_host; /* entries that this host has */
	bool clearing;    /* an entry is about to become free */
};

static struct entries count_entries(struct spw_peer_conn *conn, const struct in6_addr *host)
{
	struct entries e = {0};

	for (uint32_t i = conn->conf.connect_cnt; i < conn->conf.peer_max; i++) {
		struct peer_link *link = &conn->link[i];
		const enum spw_peer_state state = spw_peer_state(link->peer);

		if (link->abandoned || state == SPW_PEER_FAIL || state == SPW_PEER_DRAIN ||
		    state == SPW_PEER_DRAINED)
			e.clearing = true;
		else if (link->half || state != SPW_PEER_DOWN)
			e.of_host += spw_oob_addr_same_host(&link->addr.sin6_addr, host);
		else if (!e.unused)
			e.unused = link;
	}
	return e;
}

/* Server: gives an entry to a client that proved the secret. Returns: false if none is free. The
 * exchange then waits if an entry is being cleared (perhaps its own, if it reconnects at once), and
 * is rejected otherwise. */
static bool half_bind(struct spw_peer_conn *conn, struct peer_half *h)
{
	const struct entries e = count_entries(conn, &h->addr.sin6_addr);
	const uint32_t host_max = spw_peer_host_max(&conn->conf);

	if (e.unused && e.of_host < host_max) {
		h->link = e.unused;
		h->link->half = h;
		h->link->addr = h->addr;
		return true;
	}
	if (!e.unused && !e.clearing)
		peer_exchange_reject(&h->x, PEER_REJECT_FULL, conn->conf.peer_max);
	else if (e.of_host >= host_max)
		peer_exchange_reject(&h->x, PEER_REJECT_HOST, host_max);
	return false;
}

/* Moves the QP to INIT and passes the turn to the owner, once. Returns: true as soon as the owner
 * has posted the receives. */
static bool half_make_posted(struct peer_half *h)
{
	struct peer_link *link = h->link;

	if (spw_peer_state(link->peer) == SPW_PEER_POSTED)
		return true;
	if (spw_peer_state(link->peer) != SPW_PEER_DOWN)
		return false;
	if (peer_link_prepare(link))
		half_fail(h);
	else
		spw_thr_store_rel(&link->peer->state,
				  SPW_PEER_POST); /* [RC1 release, pairs with spw_peer_state] */
	return false;
}

/* The client's QP must have its receives posted before it makes an offer: the server may send as
 * soon as it is ready. */
static void half_offer(struct peer_half *h)
{
	if (half_make_posted(h))
		peer_exchange_offer(&h->x, &h->link->ours);
}

/* Both sides: takes the parameters and makes the QP ready. */
static bool half_agree(struct peer_half *h)
{
	const struct peer_qp_path path = peer_link_path(h->link, &h->x.theirs);

	peer_link_learn(h->link, &h->x.theirs);
	if (!peer_qp_ready(h->link->peer->qp, &path))
		return true;
	half_fail(h);
	return false;
}

static void half_ready(struct peer_half *h)
{
	uint32_t value;

	if (peer_exchange_fit(&h->link->ours, &h->x.theirs, &value)) {
		h->x.turn = PEER_TURN_FAILED; /* the server checked the same values and accepted */
		h->x.why = PEER_REFUSED_malformed;
	} else if (half_agree(h)) {
		peer_exchange_ready(&h->x);
	}
}

static void half_accept(struct spw_peer_conn *conn, struct peer_half *h)
{
	enum peer_reject reason;
	uint32_t value;

	if (!spw_peer_gid_allowed(&conn->conf, &h->addr.sin6_addr, h->x.theirs.gid)) {
		peer_exchange_reject(&h->x, PEER_REJECT_GID, 0);
		return;
	}
	if ((!h->link && !half_bind(conn, h)) || !half_make_posted(h))
		return;
	reason = peer_exchange_fit(&h->link->ours, &h->x.theirs, &value);
	if (reason)
		peer_exchange_reject(&h->x, reason, value);
	else if (half_agree(h))
		peer_exchange_accept(&h->x, &h->link->ours);
}

/* Repeats while the state moves, because one read may complete several steps. */
static void half_step(struct spw_peer_conn *conn, struct peer_half *h, uint64_t now_ms)
{
	enum peer_turn was;

	do {
		was = h->x.turn;
		switch (peer_exchange_step(&h->x, now_ms)) {
		case PEER_TURN_TO_OFFER:
			half_offer(h);
			break;
		case PEER_TURN_TO_READY:
			half_ready(h);
			break;
		case PEER_TURN_TO_ACCEPT:
			half_accept(conn, h);
			break;
		default:
			break;
		}
	} while (h->x.turn != was && h->x.turn < PEER_TURN_DONE);
	if (h->x.turn == PEER_TURN_FAILED) {
		half_failed(conn, h, now_ms);
	} else if (h->x.turn == PEER_TURN_DONE) {
		peer_link_up(h->link, h->x.ch.fd, now_ms);
		half_end(h);
	}
}

/* Every link is stepped in every turn: there are at most SPW_PEER_MAX, and a turn happens when
 * something did. */
void peer_turn(void *arg, uint64_t now_ms)
{
	struct spw_peer_conn *conn = arg;

	pthread_mutex_lock(&conn->turn);
	door_turn(conn, now_ms);
	for (uint32_t i = 0; i < conn->conf.peer_max; i++) {
		peer_link_step(&conn->link[i], now_ms);
		if (conn->link[i].client.used)
			half_step(conn, &conn->link[i].client, now_ms);
	}
	for (uint32_t i = 0; i < PEER_HALF_MAX; i++)
		if (conn->half[i].used)
			half_step(conn, &conn->half[i], now_ms);
	pthread_mutex_unlock(&conn->turn);
}

static struct peer_link *turn_link_of(struct spw_peer_conn *conn, const struct ibv_qp *qp)
{
	for (uint32_t i = 0; i < conn->conf.peer_max; i++)
		if (conn->link[i].peer->qp == qp)
			return &conn->link[i];
	return NULL;
}

/* A request of the peer that the device refuses (a write without the right to, an invalid opcode)
 * causes no completion, only one of these events. */
void peer_turn_async(void *arg, const struct ibv_async_event *event)
{
	struct spw_peer_conn *conn = arg;
	struct peer_link *link;

	pthread_mutex_lock(&conn->turn);
	switch (event->event_type) {
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		link = turn_link_of(conn, event->element.qp);
		if (link)
			link->last_wqe = true; /* may be the first sign of a failed QP */
		break;
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_QP_REQ_ERR:
		link = turn_link_of(conn, event->element.qp);
		if (link)
			peer_link_lose(link, SPW_PEER_WHY_PROTOCOL, event->event_type,
				       rdma_ctl_clock_ms(conn->ctl));
		break;
	case IBV_EVENT_QP_FATAL:
		link = turn_link_of(conn, event->element.qp);
		if (link)
			peer_link_lose(link, SPW_PEER_WHY_QP_ERROR, event->event_type,
				       rdma_ctl_clock_ms(conn->ctl));
		break;
	default:
		if (conn->dev.async)
			conn->dev.async(conn->dev.async_arg, event);
	}
	pthread_mutex_unlock(&conn->turn);
}

/* ---- what to wait for ---- */

static void turn_until(uint64_t when_ms, uint64_t now_ms, int *timeout_ms)
{
	const uint64_t wait = when_ms > now_ms ? when_ms - now_ms : 0;

	if (wait < (uint64_t)*timeout_ms)
		*timeout_ms = (int)wait;
}

static uint32_t half_want(const struct peer_half *h, uint64_t now_ms, struct pollfd *fd,
			  int *timeout_ms)
{
	if (!h->used)
		return 0;
	turn_until(h->x.deadline_ms, now_ms, timeout_ms);
	*fd = (struct pollfd){.fd = h->x.ch.fd, .events = peer_exchange_poll(&h->x)};
	return fd->events ? 1 : 0; /* else: the owner wakes us, or the deadline passes */
}

/* POLLIN on an idle connection means that it has ended: nothing is sent over it after the exchange.
 */
static uint32_t link_want(const struct peer_link *link, uint64_t now_ms, struct pollfd *fd,
			  int *timeout_ms)
{
	if (link->silent_ms)
		turn_until(link->silent_ms, now_ms, timeout_ms);
	*fd = (struct pollfd){.fd = link->fd, .events = POLLIN};
	return 1;
}

/* Collects what poll(2) is to wait for, and the nearest deadline. */
uint32_t peer_turn_prepare(void *arg, uint64_t now_ms, struct pollfd *fd,
			   uint32_t fd_max SPW_UNUSED, int *timeout_ms)
{
	struct spw_peer_conn *conn = arg;
	uint32_t n = 0;

	_Static_assert(1 + PEER_HALF_MAX + SPW_PEER_MAX + 2 <= RDMA_CTL_FD_MAX,
		       "a pollfd for every descriptor");
	if (conn->door) {
		turn_until(spw_oob_door_due_ms(conn->door), now_ms, timeout_ms);
		fd[n++] = (struct pollfd){.fd = spw_oob_door_fd(conn->door), .events = POLLIN};
	}
	for (uint32_t i = 0; i < PEER_HALF_MAX; i++)
		n += half_want(&conn->half[i], now_ms, &fd[n], timeout_ms);
	for (uint32_t i = 0; i < conn->conf.peer_max; i++) {
		const struct peer_link *link = &conn->link[i];

		if (link->client.used)
			n += half_want(&link->client, now_ms, &fd[n], timeout_ms);
		else if (link->fd >= 0)
			n += link_want(link, now_ms, &fd[n], timeout_ms);
		else if (link->last_wqe_ms)
			turn_until(link->last_wqe_ms, now_ms, timeout_ms);
		else if (link->connects && spw_peer_state(link->peer) == SPW_PEER_DOWN)
			turn_until(link->try_ms, now_ms, timeout_ms);
	}
	return n;
}
