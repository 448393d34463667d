/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Control's part of the states of one link (the table in spw_peer.h): connect, go up, notice the
 * end, go down through ERR and RESET. Called by turn.c in the control thread. Each state is stored
 * with release by link_pass(), after everything that its next reader needs.
 *
 *   DOWN ─ start_connect / a client is bound ─► POST ─► POSTED ─ exchange done ─► UP
 *    ▲                                                   │ abandoned               │ lost, silent
 *    └── DRAINED ◄─ owner ─ DRAIN ◄── to_drain ◄─────────┴──────── FAIL ◄──────────┘
 *
 * A peer that is lost again and again is tried at growing distances, BACKOFF_MIN_MS to
 * BACKOFF_MAX_MS; one connection that comes up resets the distance.
 *
 * Reasons to go down, and who notices first:
 *
 *   error completion             owner    spw_peer_fail stores FAIL, wakes control -> on_fail
 *   breach of the protocol       owner    the same
 *   the device refuses a request control  peer_turn_async -> peer_link_lose
 *   TCP closed, no greeting      control  link_on_up -> peer_link_lose
 *   exchange failed half-way     control  peer_link_abandon; on_posted once the owner has posted
 *
 * Both ends of UP compete for one compare-and-swap of the state, so a loss is counted and reported
 * once.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/spw_monotonic.h"
#include "oob/spw_oob_socket.h"
#include "peer/conn.h"

#define BACKOFF_MIN_MS 50u
#define BACKOFF_MAX_MS 2000u

void peer_link_report(struct peer_link *link, enum spw_port_event_kind kind, uint64_t outage_ns,
		      const char *fmt, ...)
{
	struct spw_port_event event = {
		.kind = kind, .code = link->peer->index, .outage_ns = outage_ns};
	char addr[64];
	va_list ap;
	int n;

	n = snprintf(event.text, sizeof(event.text), "peer %u (%s) ", link->peer->index,
		     spw_oob_addr_text(&link->addr, addr));
	va_start(ap, fmt);
	vsnprintf(event.text + n, sizeof(event.text) - (size_t)n, fmt, ap);
	va_end(ap);
	rdma_ctl_report(link->conn->ctl, link->peer->queue, &event);
}

/* [RC1 release, pairs with the acquire in spw_peer_state] */
static void link_pass(struct peer_link *link, enum spw_peer_state state)
{
	spw_thr_store_rel(&link->peer->state, state);
}

/* The TCP connection stays as long as the link: its end is how the other side learns that this one
 * is gone. */
static void close_fd(struct peer_link *link)
{
	if (link->fd >= 0)
		close(link->fd);
	link->fd = -1;
}

/* The exchange is complete and the QP in RTS. Reports the credits, and the outage if there was one.
 */
void peer_link_up(struct peer_link *link, int fd, uint64_t now_ms)
{
	const uint64_t outage_ms = link->down_ms ? spw_monotonic_ms() - link->down_ms : 0;
	char how[32] = "up";

	link->fd = fd;
	link->half = NULL;
	link->reported = -1;
	link->backoff_ms = BACKOFF_MIN_MS;
	link->lost = false;
	link->silent_ms = now_ms + link->conn->conf.exchange_ms;
	spw_thr_count(&link->conn->count.up, 1);
	link_pass(link, SPW_PEER_UP);
	if (link->down_ms)
		snprintf(how, sizeof(how), "back after %llu ms", (unsigned long long)outage_ms);
	peer_link_report(link, SPW_PORT_EVENT_PEER_UP, outage_ms * 1000000,
			 "is %s: %u credits of %u bytes", how, link->peer->remote.credit_cnt,
			 link->peer->remote.slot_bytes);
	if (link->doomed)
		peer_link_lose(link, link->lost_why, link->lost_code, now_ms);
}

/* A prepared QP is not reset here: between POST and POSTED the owner may be posting receives to it.
 * `abandoned` makes on_posted take it down as soon as the turn is back. The next
 * attempt to connect waits for the backoff. */
void peer_link_abandon(struct peer_link *link, uint64_t now_ms)
{
	link->half = NULL;
	link->abandoned = spw_peer_state(link->peer) != SPW_PEER_DOWN;
	link->try_ms = now_ms + link->backoff_ms;
	link->backoff_ms = SPW_MIN(SPW_MAX(2 * link->backoff_ms, BACKOFF_MIN_MS), BACKOFF_MAX_MS);
}

/* ---- going down ---- */

/* One counter and one event for each reason; the texts are what a user reads. */
static void count_loss(struct peer_link *link, enum spw_peer_why why, uint32_t code)
{
	struct peer_count *count = &link->conn->count;

	switch (why) {
	case SPW_PEER_WHY_PROTOCOL:
		spw_thr_count(&count->protocol, 1);
		peer_link_report(link, SPW_PORT_EVENT_PEER_DOWN, 0, "broke the protocol (%u)",
				 code);
		break;
	case SPW_PEER_WHY_QP_ERROR:
		spw_thr_count(&count->peer_gone, 1);
		peer_link_report(link, SPW_PORT_EVENT_PEER_DOWN, 0, "is lost: error completion %u",
				 code);
		break;
	case SPW_PEER_WHY_PEER_GONE:
		spw_thr_count(&count->peer_gone, 1);
		peer_link_report(link, SPW_PORT_EVENT_PEER_DOWN, 0, "closed the connection");
		break;
	case SPW_PEER_WHY_SILENT:
		spw_thr_count(&count->refused[PEER_REFUSED_silent], 1);
		peer_link_report(link, SPW_PORT_EVENT_PEER_DOWN, 0,
				 "sent nothing on its QP in %u ms (UDP port 4791)", code);
		break;
	default:
		break;
	}
}

/* With an SRQ the flush returns no receives. The QP's last receive is reported by an event ("Last
 * WQE Reached", IBTA 11.6.3.3); only after it does the CQ hold every completion of the QP. */
static void to_drain(struct peer_link *link, uint64_t now_ms)
{
	close_fd(link);
	link->abandoned = link->doomed = false;
	peer_qp_error(link->peer->qp);
	if (link->peer->qp->srq && !link->last_wqe)
		link->last_wqe_ms = now_ms + PEER_LAST_WQE_MS;
	else
		link_pass(link, SPW_PEER_DRAIN);
}

/* The first call reports and moves the QP to ERR. With an SRQ later calls wait for the last-WQE
 * event, a second at most. */
static void on_fail(struct peer_link *link, uint64_t now_ms)
{
	const struct spw_peer *p = link->peer;

	if (link->last_wqe_ms) {
		if (!link->last_wqe && now_ms < link->last_wqe_ms)
			return;
		link->last_wqe_ms = 0;
		link_pass(link, SPW_PEER_DRAIN);
		return;
	}
	link->down_ms = spw_monotonic_ms();
	link->try_ms = now_ms + link->backoff_ms;
	count_loss(link, link->lost ? link->lost_why : (enum spw_peer_why)p->why,
		   link->lost ? link->lost_code : p->code);
	to_drain(link, now_ms);
}

/* The owner may have been faster. A reason from the device still replaces the owner's, which knows
 * the flush only. */
void peer_link_lose(struct peer_link *link, enum spw_peer_why why, uint32_t code, uint64_t now_ms)
{
	uint32_t up = SPW_PEER_UP;
	const bool first = spw_thr_cas(&link->peer->state, &up, (uint32_t)SPW_PEER_FAIL);

	link->doomed =
		up ==
		SPW_PEER_POSTED; /* it ended before its READY was read: peer_link_up continues */
	if (!first && !link->doomed &&
	    (up != SPW_PEER_FAIL || why != SPW_PEER_WHY_PROTOCOL || link->last_wqe_ms))
		return;
	link->lost = true;
	link->lost_why = why;
	link->lost_code = code;
	if (!link->doomed)
		on_fail(link, now_ms);
}

/* A peer without a working QP must not occupy an entry: its greeting is due at once. */
static void link_on_up(struct peer_link *link, uint64_t now_ms)
{
	if (link->silent_ms && spw_thr_load_rlx(&link->peer->heard))
		link->silent_ms = 0;
	if (!spw_oob_socket_is_quiet(link->fd))
		peer_link_lose(link, SPW_PEER_WHY_PEER_GONE, 0, now_ms);
	else if (link->silent_ms && now_ms >= link->silent_ms)
		peer_link_lose(link, SPW_PEER_WHY_SILENT, link->conn->conf.exchange_ms, now_ms);
}

/* The owner has posted the receives of an exchange that failed meanwhile. No owner watches a link
 * in this state, so control walks through FAIL by itself. Nothing is counted: half_failed did. */
static void on_posted(struct peer_link *link, uint64_t now_ms)
{
	if (!link->abandoned)
		return; /* its exchange continues in turn.c */
	link_pass(link, SPW_PEER_FAIL);
	to_drain(link, now_ms);
}

/* The owner has returned everything: reset the QP, and wipe the slots (op=write) so that the next
 * peer finds nothing of this one. */
static void on_drained(struct peer_link *link)
{
	if (!link->wiped && peer_qp_reset(link->peer->qp))
		return; /* the device is gone: the link stays in DRAINED */
	if (!peer_link_wipe(link)) {
		rdma_ctl_wake(link->conn->ctl);
		return;
	}
	link->last_wqe = false;
	spw_thr_count(&link->conn->count.reset, 1);
	link_pass(link, SPW_PEER_DOWN);
}

/* ---- coming up ---- */

/* A client's half is part of its link; a server's halves are a pool of their own (turn.c). */
static void start_connect(struct peer_link *link, uint64_t now_ms)
{
	struct peer_half *h = &link->client;
	int fd = spw_oob_socket_connect(&link->addr);

	memset(h, 0, sizeof(*h));
	h->addr = link->addr;
	h->link = link;
	h->used = true;
	link->half = h;
	peer_exchange_client(&h->x, fd, &link->conn->conf.secret,
			     now_ms + link->conn->conf.exchange_ms);
	if (fd < 0) {
		h->x.turn = PEER_TURN_FAILED;
		h->x.why = peer_refused_of(-fd);
		h->x.error = -fd;
	}
}

void peer_link_step(struct peer_link *link, uint64_t now_ms)
{
	switch (spw_peer_state(link->peer)) {
	case SPW_PEER_DOWN:
		if (link->connects && !link->half && now_ms >= link->try_ms)
			start_connect(link, now_ms);
		break;
	case SPW_PEER_POSTED:
		on_posted(link, now_ms);
		break;
	case SPW_PEER_UP:
		link_on_up(link, now_ms);
		break;
	case SPW_PEER_FAIL:
		on_fail(link, now_ms);
		break;
	case SPW_PEER_DRAINED:
		on_drained(link);
		break;
	case SPW_PEER_POST:
	case SPW_PEER_DRAIN:
		break;
	}
}
