/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Listeners, handles, and the first and last step of a connection: who comes in, and handing it to
 * the caller. Strangers are cheap (oob/spw_oob_door.h): no connection before a client has proved
 * the secret, and no QP before it has proved the key (exchange.c).
 *
 *   spw_xfer_listen    addresses ─► a door, watched by the endpoint ─► handle: addresses and a key
 *   house              a guest ─► a connection in OFFER, the listener's until it is handed over
 *   spw_xfer_accept    the first that is READY ─► the caller's
 *   spw_xfer_connect   a handle ─► a connection in TCP (dial.c) ─► READY: the caller's, or failed
 */
#include <errno.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "xfer/connection.h"
#include "xfer/endpoint.h"
#include "xfer/reach.h"

#define WAITING_MAX 64u /* connections that nobody has taken */
#define GUEST_MAX   16u /* of one turn */

/* ---- where to listen ---- */

static bool listener_has_address(const struct spw_xfer_listener *l, const struct in6_addr *ip)
{
	for (uint32_t i = 0; i < l->at.addr_cnt; i++)
		if (IN6_ARE_ADDR_EQUAL(&l->at.addr[i].sin6_addr, ip))
			return true;
	return false;
}

/* One more address. Errors: those of the socket, without a text. */
static int listener_add(struct spw_xfer_listener *l, const struct sockaddr_in6 *addr)
{
	struct sockaddr_in6 *at = &l->at.addr[l->at.addr_cnt];
	int rc;

	*at = *addr;
	rc = spw_oob_door_listen(l->door, at);
	if (!rc)
		l->at.addr_cnt++;
	return rc;
}

static int listener_add_ip(struct spw_xfer_listener *l, const struct in6_addr *ip)
{
	const struct sockaddr_in6 addr = {.sin6_family = AF_INET6, .sin6_addr = *ip};

	return listener_add(l, &addr);
}

/* One address of an interface that is not loopback and not listened on yet; IPv4 first, and no
 * link-local ones. */
static int listener_add_interface(struct spw_xfer_listener *l)
{
	struct ifaddrs *list;
	struct in6_addr ip;
	uint32_t prefix;
	int rc = -EADDRNOTAVAIL;

	if (getifaddrs(&list))
		return -errno;
	for (uint32_t v4 = 2; v4-- && rc;)
		for (const struct ifaddrs *i = list; i && rc; i = i->ifa_next)
			if (xfer_interface_read(i, &ip, &prefix) &&
			    IN6_IS_ADDR_V4MAPPED(&ip) == v4 && !spw_oob_addr_is_loopback(&ip) &&
			    !xfer_gid_is_local(ip.s6_addr) && !listener_has_address(l, &ip))
				rc = listener_add_ip(l, &ip);
	freeifaddrs(list);
	return rc;
}

/* With a handle: on the address of each rail, because a peer may reach one of them only, and on one
 * other, of the network that all machines share. Without: on the first that is possible. A
 * link-local IPv6 address is no use without the name of an interface. */
static int listener_add_all(struct spw_xfer_listener *l)
{
	const uint32_t max = l->keyed ? XFER_ADDRESS_MAX : 1;
	struct in6_addr ip;
	int rc = 0;

	for (uint32_t i = 0; i < l->x->dev_cnt && l->at.addr_cnt < max; i++) {
		memcpy(&ip, l->x->dev[i].gid.gid.raw, sizeof(ip));
		if (!IN6_IS_ADDR_LINKLOCAL(&ip) && !listener_has_address(l, &ip))
			(void)listener_add_ip(l, &ip); /* none of this host's in a container */
	}
	if (l->at.addr_cnt < max)
		(void)listener_add_interface(l);
	if (!l->at.addr_cnt) {
		ip = (struct in6_addr){.s6_addr = {[10] = 0xff, 0xff, 127, [15] = 1}};
		rc = listener_add_ip(l, &ip);
	}
	return rc;
}

/* ---- listeners ---- */

static int listener_open_door(struct spw_xfer_listener *l)
{
	const struct spw_oob_door_conf conf = {.proto = &xfer_proto,
					       .secret = &l->x->secret,
					       .seat_cnt = SPW_OOB_SEAT_MAX,
					       .first_ms = l->x->conf.exchange_ms};
	struct epoll_event ev = {.events = EPOLLIN};
	int rc = spw_oob_door_open(&conf, &l->door);

	if (!rc && epoll_ctl(l->x->epoll_fd, EPOLL_CTL_ADD, spw_oob_door_fd(l->door), &ev))
		rc = spw_err(errno, "epoll_ctl: %s", strerror(errno));
	return rc;
}

/* Errors: with a text; the caller closes the listener. */
static int listener_open(struct spw_xfer_listener *l)
{
	uint8_t chance[SPW_OOB_NONCE_BYTES];
	char text[64];
	int rc = listener_open_door(l);

	if (rc)
		return rc;
	rc = l->x->bind_given ? listener_add(l, &l->x->bind) : listener_add_all(l);
	if (rc)
		return spw_err(-rc, "cannot listen on %s: %s", spw_oob_addr_text(&l->x->bind, text),
			       strerror(-rc));
	spw_oob_addr_text(&l->at.addr[0], l->text);
	if (l->keyed && spw_oob_nonce(chance))
		return -EIO;
	if (l->keyed)
		memcpy(l->at.key, chance, sizeof(l->at.key));
	return 0;
}

/* handle_out NULL: clients come by the address alone, and need no key. */
int spw_xfer_listen(struct spw_xfer *x, struct spw_xfer_handle *handle_out,
		    struct spw_xfer_listener **listener_out)
{
	struct spw_xfer_listener *l = calloc(1, sizeof(*l));
	int rc;

	*listener_out = NULL;
	if (!l)
		return spw_err(ENOMEM, "no memory for a listener");
	l->x = x;
	l->keyed = handle_out != NULL;
	xfer_list_add(&x->listeners, &l->link);
	rc = listener_open(l);
	if (rc) {
		spw_xfer_listener_close(l);
		return rc;
	}
	if (handle_out)
		xfer_wire_handle_put(&l->at, handle_out);
	*listener_out = l;
	return 0;
}

const char *spw_xfer_listener_text(const struct spw_xfer_listener *listener)
{
	return listener->text;
}

/* Its connections that nobody has taken end with it. */
void spw_xfer_listener_close(struct spw_xfer_listener *l)
{
	struct xfer_list *next;

	if (!l)
		return;
	for (struct xfer_list *i = l->x->conns.next; i != &l->x->conns; i = next) {
		struct spw_xfer_conn *conn = spw_container_of(i, struct spw_xfer_conn, link_all);

		next = i->next;
		if (conn->listener == l)
			xfer_conn_free(conn);
	}
	spw_oob_door_close(l->door);
	xfer_list_del(&l->link);
	free(l);
}

static uint32_t listener_waiting_cnt(const struct spw_xfer_listener *l)
{
	uint32_t n = 0;

	for (struct xfer_list *i = l->x->conns.next; i != &l->x->conns; i = i->next)
		n += spw_container_of(i, struct spw_xfer_conn, link_all)->listener == l;
	return n;
}

/* Limited, since strangers choose how often it happens. */
static void listener_refuse(struct spw_xfer *x, const struct spw_oob_guest *guest, const char *why)
{
	char text[64];

	x->stat.refused++;
	spw_log_limited(&x->limit, SPW_LOG_WARN, "xfer: %s was turned away: %s",
			spw_oob_addr_text(&guest->from, text), why);
}

static void listener_admit(struct spw_xfer_listener *l, const struct spw_oob_guest *guest,
			   uint64_t now_ms)
{
	const bool full = listener_waiting_cnt(l) >= WAITING_MAX;
	struct spw_xfer_conn *conn;

	if (full || xfer_conn_make(l->x, &guest->ch, false, &conn)) {
		listener_refuse(l->x, guest,
				full ? "connections wait for spw_xfer_accept" : spw_err_text());
		close(guest->ch.fd);
		return;
	}
	conn->listener = l;
	conn->peer.addr[0] = guest->from;
	conn->state = XFER_CONN_OFFER;
	conn->deadline_ms = guest->until_ms;
	spw_oob_addr_text(&guest->from, conn->text);
	xfer_conn_first(conn, guest->first, guest->len, now_ms);
}

/* The door tries again by itself. */
static void listener_is_deaf(struct spw_xfer_listener *l, int error)
{
	spw_log_limited(&l->x->limit, SPW_LOG_WARN,
			"xfer: a connection to %s cannot be accepted: %s%s; tried again every %u "
			"ms",
			l->text, strerror(error),
			error == EMFILE ? " (of this process: raise ulimit -n)" : "",
			SPW_OOB_RETRY_MS);
}

/* GUEST_MAX: a flood leaves the thread its turn. */
void xfer_listener_turn(struct spw_xfer_listener *l, uint64_t now_ms, bool heard)
{
	char why[SPW_OOB_REASON_BYTES];
	struct spw_oob_guest guest;
	int rc = heard || now_ms >= spw_oob_door_due_ms(l->door) ? 0 : -EAGAIN;

	for (uint32_t i = 0; i < GUEST_MAX && rc != -EAGAIN; i++) {
		rc = spw_oob_door_turn(l->door, now_ms, &guest);
		if (!rc)
			listener_admit(l, &guest, now_ms);
		else if (rc != -EAGAIN && guest.from.sin6_family)
			listener_refuse(l->x, &guest, spw_oob_channel_reason(&guest.ch, rc, why));
		else if (rc != -EAGAIN)
			listener_is_deaf(l, -rc);
	}
}

/* ---- the caller's side ---- */

/* Advances the endpoint by a turn, so that calling it again and again is enough to be connected. */
int spw_xfer_accept(struct spw_xfer_listener *listener, struct spw_xfer_conn **conn_out)
{
	struct spw_xfer *x = listener->x;

	*conn_out = NULL;
	spw_xfer_progress(x);
	for (struct xfer_list *l = x->conns.next; l != &x->conns; l = l->next) {
		struct spw_xfer_conn *conn = spw_container_of(l, struct spw_xfer_conn, link_all);

		if (conn->listener != listener || conn->state != XFER_CONN_READY)
			continue;
		conn->listener = NULL;
		conn->given = true;
		*conn_out = conn;
		return 0;
	}
	return -EAGAIN;
}

/* A handle without a key, for a listener without one. */
int spw_xfer_handle_parse(const char *text, struct spw_xfer_handle *handle_out)
{
	struct xfer_address at = {.addr_cnt = 1};
	int rc = spw_oob_addr_parse(text, &at.addr[0]);

	if (!rc)
		xfer_wire_handle_put(&at, handle_out);
	return rc;
}

/* Returns: -EAGAIN: later turns go on; or why it cannot begin. */
static int connect_start(struct spw_xfer *x, const struct spw_xfer_handle *handle,
			 struct spw_xfer_conn **conn)
{
	struct xfer_address at;
	int rc = xfer_wire_handle_get(handle, &at);

	rc = rc ? rc : xfer_conn_make(x, NULL, true, conn);
	if (rc)
		return rc;
	(*conn)->peer = at;
	(void)xfer_clock_turn(x);
	(*conn)->deadline_ms = x->clock_ms + x->conf.exchange_ms;
	xfer_dial_start(*conn, x->clock_ms);
	return -EAGAIN;
}

/* A failed connection is freed here, after its reason was reported. */
int spw_xfer_connect(struct spw_xfer *x, const struct spw_xfer_handle *handle,
		     struct spw_xfer_conn **conn)
{
	struct spw_xfer_conn *c = *conn;
	int rc;

	if (!c)
		return connect_start(x, handle, conn);
	spw_xfer_progress(x);
	if (c->state == XFER_CONN_READY) {
		c->given = true;
		return 0;
	}
	if (c->state != XFER_CONN_FAILED)
		return -EAGAIN;
	rc = spw_err(-c->error, "%s", c->text);
	*conn = NULL;
	xfer_conn_free(c);
	return rc;
}
