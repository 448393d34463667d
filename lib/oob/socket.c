/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Non-blocking TCP (spw_oob_socket.h).
 *
 * Addresses are IPv4-mapped IPv6 everywhere above this file (spw_oob_addr.h). Below it an IPv4
 * address gets an AF_INET socket, which also works on a host without IPv6; socket_addr_to and
 * spw_oob_addr_take convert.
 *
 * A host that dies silently: many callers send nothing after the exchange, so only TCP keepalive
 * notices. Its timers are short because a dead peer occupies an entry and its slots.
 */
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "oob/spw_oob_addr.h"
#include "oob/spw_oob_socket.h"

#define BACKLOG      128 /* beyond it the kernel drops, and an honest peer waits for a second */
#define KEEP_IDLE_S  5   /* a host that died silently is noticed after 5 + 3 * 2 s */
#define KEEP_EVERY_S 2
#define KEEP_TRIES   3

union any_addr {
	struct sockaddr sa;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static socklen_t socket_addr_to(const struct sockaddr_in6 *from, union any_addr *to)
{
	memset(to, 0, sizeof(*to));
	if (!IN6_IS_ADDR_V4MAPPED(&from->sin6_addr)) {
		to->v6 = *from;
		return sizeof(to->v6);
	}
	to->v4.sin_family = AF_INET;
	to->v4.sin_port = from->sin6_port;
	memcpy(&to->v4.sin_addr, &from->sin6_addr.s6_addr[12], 4);
	return sizeof(to->v4);
}

/* close(2) may change errno: it is saved first. */
static int socket_give_up(int fd)
{
	const int error = errno;

	close(fd);
	return -error;
}

static void socket_set(int fd, int level, int option, int value)
{
	(void)setsockopt(fd, level, option, &value,
			 sizeof(value)); /* an optimization: failure is harmless */
}

/* The messages of an exchange are small and each waits for an answer: TCP_NODELAY. */
static void socket_tune(int fd)
{
	socket_set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	socket_set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	socket_set(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEP_IDLE_S);
	socket_set(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEP_EVERY_S);
	socket_set(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEP_TRIES);
}

/* SO_REUSEADDR: a program that is started again may bind while connections of the last run are in
 * TIME_WAIT. */
int spw_oob_socket_listen(struct sockaddr_in6 *addr)
{
	union any_addr any;
	socklen_t len = socket_addr_to(addr, &any);
	int fd = socket(any.sa.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0 && errno == EAFNOSUPPORT && IN6_IS_ADDR_UNSPECIFIED(&addr->sin6_addr)) {
		addr->sin6_addr.s6_addr[10] = addr->sin6_addr.s6_addr[11] = 0xff;
		return spw_oob_socket_listen(addr); /* a host without IPv6: 0.0.0.0 */
	}
	if (fd < 0)
		return -errno;
	socket_set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	if (any.sa.sa_family == AF_INET6)
		socket_set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
	if (bind(fd, &any.sa, len) || listen(fd, BACKLOG) || getsockname(fd, &any.sa, &len))
		return socket_give_up(fd);
	(void)spw_oob_addr_take(&any, addr);
	return fd;
}

/* Errors of the one connection that accept(2) would have returned: it is gone, the next may be
 * fine. */
static bool socket_error_passes(int error)
{
	switch (error) {
	case ECONNABORTED:
	case EINTR:
	case ENETDOWN:
	case EPROTO:
	case ENOPROTOOPT:
	case EHOSTDOWN:
	case ENONET:
	case EHOSTUNREACH:
	case EOPNOTSUPP:
	case ENETUNREACH:
		return true;
	default:
		return error == EWOULDBLOCK;
	}
}

int spw_oob_socket_accept(int listen_fd, struct sockaddr_in6 *from_out)
{
	union any_addr any = {.sa.sa_family = AF_UNSPEC};
	socklen_t len = sizeof(any);
	int fd = accept4(listen_fd, &any.sa, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0)
		return socket_error_passes(errno) ? -EAGAIN : -errno;
	(void)spw_oob_addr_take(&any, from_out);
	socket_tune(fd);
	return fd;
}

/* EINPROGRESS is the normal result of a non-blocking connect. */
int spw_oob_socket_connect(const struct sockaddr_in6 *addr)
{
	union any_addr any;
	socklen_t len = socket_addr_to(addr, &any);
	int fd = socket(any.sa.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	socket_tune(fd);
	if (connect(fd, &any.sa, len) && errno != EINPROGRESS)
		return socket_give_up(fd);
	return fd;
}

int spw_oob_socket_connected(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	socklen_t len = sizeof(int);
	int error = 0;

	if (poll(&p, 1, 0) != 1)
		return -EAGAIN;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len))
		error = errno;
	return -error;
}

/* Quiet: nothing to read and not closed. Data is as much a reason to end the link as the end of the
 * stream, since neither side sends after the exchange. MSG_PEEK leaves the byte, so the answer
 * stays the same. */
bool spw_oob_socket_is_quiet(int fd)
{
	uint8_t byte;

	return recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) < 0 &&
	       (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
}
