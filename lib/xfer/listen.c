/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Listeners, handles, and the first and last step of a connection: a TCP socket, and handing it to
 * the caller. Strangers are cheap: at most HALF_MAX unfinished exchanges, of which the oldest makes
 * room, and no QP before a client has proved secret and key (conn.c).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "peer/spw_peer_socket.h"
#include "xfer/xfer.h"

#define HALF_MAX   64u
#define ACCEPT_MAX 16u  /* of one turn */
#define PAUSE_MS   100u /* after accept(2) failed */

/* ---- where to listen ---- */

static int listen_at(const struct in6_addr *ip, struct sockaddr_in6 *addr)
{
	*addr = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_addr = *ip};
	return peer_socket_listen(addr);
}

static void map_v4(uint32_t be, struct in6_addr *ip)
{
	*ip = (struct in6_addr){.s6_addr = {[10] = 0xff, [11] = 0xff}};
	memcpy(&ip->s6_addr[12], &be, 4);
}

/* An address of an interface that is not loopback; IPv4 first, and no link-local ones. */
static int listen_on_interface(struct sockaddr_in6 *addr)
{
	struct ifaddrs *list, *i;
	struct in6_addr ip;
	int fd = -EADDRNOTAVAIL;

	if (getifaddrs(&list))
		return -errno;
	for (i = list; i && fd < 0; i = i->ifa_next) {
		if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET)
			continue;
		map_v4(((struct sockaddr_in *)(void *)i->ifa_addr)->sin_addr.s_addr, &ip);
		if (!peer_is_loopback(&ip))
			fd = listen_at(&ip, addr);
	}
	for (i = list; i && fd < 0; i = i->ifa_next) {
		if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET6)
			continue;
		ip = ((struct sockaddr_in6 *)(void *)i->ifa_addr)->sin6_addr;
		if (!IN6_IS_ADDR_LOOPBACK(&ip) && !IN6_IS_ADDR_LINKLOCAL(&ip))
			fd = listen_at(&ip, addr);
	}
	freeifaddrs(list);
	return fd;
}

static int listen_anywhere(const struct spw_xfer *x, struct sockaddr_in6 *addr)
{
	struct in6_addr ip;
	int fd = -1;

	for (uint32_t i = 0; i < x->dev_cnt && fd < 0; i++) {
		memcpy(&ip, x->dev[i].gid.gid.raw, sizeof(ip));
		if (!IN6_IS_ADDR_LINKLOCAL(&ip))
			fd = listen_at(&ip, addr);
	}
	if (fd < 0)
		fd = listen_on_interface(addr);
	if (fd >= 0)
		return fd;
	map_v4(htonl(INADDR_LOOPBACK), &ip);
	return listen_at(&ip, addr);
}

/* The port that the kernel chose. */
static void learn_port(int fd, struct sockaddr_in6 *addr)
{
	struct sockaddr_storage any = {0};
	socklen_t len = sizeof(any);

	if (getsockname(fd, (struct sockaddr *)&any, &len))
		return;
	addr->sin6_port = any.ss_family == AF_INET
				  ? ((struct sockaddr_in *)(void *)&any)->sin_port
				  : ((struct sockaddr_in6 *)(void *)&any)->sin6_port;
}

/* ---- listeners ---- */

static int watch(const struct spw_xfer_listener *l, int op, uint32_t events)
{
	struct epoll_event ev = {.events = events};

	return epoll_ctl(l->x->epoll_fd, op, l->fd, &ev)
		       ? spw_err(errno, "epoll_ctl: %s", strerror(errno))
		       : 0;
}

static int listener_open(struct spw_xfer_listener *l, bool keyed)
{
	uint8_t chance[PEER_NONCE_BYTES];
	char text[64];

	l->at.addr = l->x->bind;
	l->fd = l->x->bind_given ? peer_socket_listen(&l->at.addr)
				 : listen_anywhere(l->x, &l->at.addr);
	if (l->fd < 0)
		return spw_err(-l->fd, "cannot listen on %s: %s", peer_addr_text(&l->at.addr, text),
			       strerror(-l->fd));
	learn_port(l->fd, &l->at.addr);
	peer_addr_text(&l->at.addr, l->text);
	if (watch(l, EPOLL_CTL_ADD, EPOLLIN))
		return -EIO;
	if (keyed && peer_nonce(chance))
		return -EIO;
	if (keyed)
		memcpy(l->at.key, chance, sizeof(l->at.key));
	l->keyed = keyed;
	return 0;
}

int spw_xfer_listen(struct spw_xfer *x, struct spw_xfer_handle *handle_out,
		    struct spw_xfer_listener **listener_out)
{
	struct spw_xfer_listener *l = calloc(1, sizeof(*l));
	int rc;

	*listener_out = NULL;
	if (!l)
		return spw_err(ENOMEM, "no memory for a listener");
	l->x = x;
	l->fd = -1;
	xfer_list_add(&x->listeners, &l->link);
	rc = listener_open(l, handle_out != NULL);
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
	if (l->fd >= 0)
		close(l->fd);
	xfer_list_del(&l->link);
	free(l);
}

/* Unfinished connections, and the oldest of those that have proved nothing; NULL: there is none. */
static uint32_t half_cnt(const struct spw_xfer_listener *l, struct spw_xfer_conn **stranger_out)
{
	uint32_t n = 0;

	*stranger_out = NULL;
	for (struct xfer_list *i = l->x->conns.next; i != &l->x->conns; i = i->next) {
		struct spw_xfer_conn *c = spw_container_of(i, struct spw_xfer_conn, link_all);

		n += c->listener == l;
		if (c->listener == l && c->state < XFER_CONN_RAILS && !*stranger_out)
			*stranger_out = c;
	}
	return n;
}

static void turn_away(struct spw_xfer *x, const char *whom, const char *why)
{
	spw_log_limited(&x->limit, SPW_LOG_WARN, "xfer: %s was turned away: %s", whom, why);
}

/* An honest client proves itself within a few round trips: with too many unfinished connections the
 * one that has had the longest time for it makes room. */
static void admit(struct spw_xfer_listener *l, int fd, const struct sockaddr_in6 *from,
		  uint64_t now_ms)
{
	struct spw_xfer_conn *conn, *stranger;
	const bool full = half_cnt(l, &stranger) >= HALF_MAX;
	char text[64];

	peer_addr_text(from, text);
	if (full && stranger) {
		turn_away(l->x, stranger->text, "it proved nothing, and others wait");
		xfer_conn_free(stranger);
	}
	if ((full && !stranger) || xfer_conn_make(l->x, fd, false, &conn)) {
		turn_away(l->x, text,
			  full ? "connections wait for spw_xfer_accept" : spw_err_text());
		close(fd);
		return;
	}
	conn->listener = l;
	conn->peer.addr = *from;
	conn->state = XFER_CONN_HELLO;
	conn->deadline_ms = now_ms + l->x->conf.exchange_ms;
	snprintf(conn->text, sizeof(conn->text), "%s", text);
}

/* Whoever waits would be reported in each turn. Without a free descriptor accept(2) fails even if
 * nobody waits. */
static void pause_for(struct spw_xfer_listener *l, int error, uint64_t now_ms)
{
	struct pollfd p = {.fd = l->fd, .events = POLLIN};

	if (poll(&p, 1, 0) != 1)
		return;
	spw_log_limited(&l->x->limit, SPW_LOG_WARN,
			"xfer: a connection to %s cannot be accepted: %s%s; tried again every %u "
			"ms",
			l->text, strerror(error),
			error == EMFILE ? " (of this process: raise ulimit -n)" : "", PAUSE_MS);
	l->pause_until_ms = now_ms + PAUSE_MS;
	(void)watch(l, EPOLL_CTL_MOD, 0); /* cannot fail for a descriptor that it has */
}

void xfer_listener_turn(struct spw_xfer_listener *l, uint64_t now_ms, bool heard)
{
	struct sockaddr_in6 from;

	if (l->pause_until_ms && now_ms >= l->pause_until_ms) {
		l->pause_until_ms = 0;
		(void)watch(l, EPOLL_CTL_MOD, EPOLLIN);
	}
	for (uint32_t i = 0; i < ACCEPT_MAX && heard && !l->pause_until_ms; i++) {
		int fd = peer_socket_accept(l->fd, &from);

		if (fd < 0 && fd != -EAGAIN)
			pause_for(l, -fd, now_ms);
		if (fd < 0)
			return;
		admit(l, fd, &from, now_ms);
	}
}

/* ---- the caller's side ---- */

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

int spw_xfer_handle_parse(const char *text, struct spw_xfer_handle *handle_out)
{
	struct xfer_address at = {0};
	int rc = peer_addr_parse(text, &at.addr);

	if (!rc)
		xfer_wire_handle_put(&at, handle_out);
	return rc;
}

static int connect_start(struct spw_xfer *x, const struct spw_xfer_handle *handle,
			 struct spw_xfer_conn **conn)
{
	struct xfer_address at;
	char text[64];
	int fd, rc = xfer_wire_handle_get(handle, &at);

	if (rc)
		return rc;
	fd = peer_socket_connect(&at.addr);
	if (fd < 0)
		return spw_err(-fd, "%s: %s", peer_addr_text(&at.addr, text), strerror(-fd));
	rc = xfer_conn_make(x, fd, true, conn);
	if (rc) {
		close(fd);
		return rc;
	}
	(*conn)->peer = at;
	(void)xfer_clock_turn(x);
	(*conn)->deadline_ms = x->clock_ms + x->conf.exchange_ms;
	snprintf((*conn)->text, sizeof((*conn)->text), "%s", peer_addr_text(&at.addr, text));
	return -EAGAIN;
}

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
