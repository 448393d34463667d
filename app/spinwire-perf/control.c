/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The control connection (control.h).
 */
#include "control.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/spw_err.h"

#define MESSAGE_MAX (1u << 20)
#define CONNECT_MS  5000
#define SEND_MS     10000
#define ABORT_MS    30000

/* ---- connect and accept ---- */

int perf_ctl_listen(uint16_t port, uint16_t *port_out)
{
	struct sockaddr_in6 addr = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	socklen_t len = sizeof(addr);
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), off = 0, on = 1, rc;

	if (fd < 0)
		return spw_err(errno, "socket: %s", strerror(errno));
	setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, (struct sockaddr *)&addr, len) || listen(fd, 4) ||
	    getsockname(fd, (struct sockaddr *)&addr, &len)) {
		rc = spw_err(errno,
			     "port %u: %s; another spinwire-perf may serve there: end it, or "
			     "--port N at both ends",
			     port, strerror(errno));
		close(fd);
		return rc;
	}
	*port_out = ntohs(addr.sin6_port);
	return fd;
}

static void address_text(const struct sockaddr_storage *addr, char *out, size_t bytes)
{
	char text[INET6_ADDRSTRLEN] = "?";

	getnameinfo((const struct sockaddr *)addr, sizeof(*addr), text, sizeof(text), NULL, 0,
		    NI_NUMERICHOST);
	snprintf(out, bytes, "%s", strncmp(text, "::ffff:", 7) ? text : text + 7);
}

static void settle(struct perf_ctl *ctl, int fd)
{
	struct timeval limit = {.tv_sec = SEND_MS / 1000};
	struct sockaddr_storage addr;
	socklen_t len = sizeof(addr);
	int on = 1;

	ctl->fd = fd;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (getsockname(fd, (struct sockaddr *)&addr, &len) == 0)
		address_text(&addr, ctl->local, sizeof(ctl->local));
	len = sizeof(addr);
	if (getpeername(fd, (struct sockaddr *)&addr, &len) == 0)
		address_text(&addr, ctl->far, sizeof(ctl->far));
}

int perf_ctl_accept(int listener, struct perf_ctl *ctl_out)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

	memset(ctl_out, 0, sizeof(*ctl_out));
	ctl_out->fd = -1;
	if (fd < 0)
		return spw_err(errno, "accept: %s", strerror(errno));
	settle(ctl_out, fd);
	snprintf(ctl_out->peer, sizeof(ctl_out->peer), "%s", ctl_out->far);
	return 0;
}

/* "HOST", "HOST:PORT", "[fd00::1]:PORT" or a bare IPv6 address. */
static void host_split(const char *text, char host[256], char port[8], uint16_t dflt)
{
	const char *colon = strrchr(text, ':');
	bool bracket = text[0] == '[';
	size_t len = strlen(text);

	snprintf(port, 8, "%u", dflt);
	if (bracket && strchr(text, ']'))
		len = strcspn(++text, "]");
	else if (colon && strchr(text, ':') == colon)
		len = (size_t)(colon - text);
	if (colon && (bracket ? colon[-1] == ']' : strchr(text, ':') == colon))
		snprintf(port, 8, "%s", colon + 1);
	snprintf(host, 256, "%.*s", (int)SPW_MIN(len, 255u), text);
}

/* Returns: 0, or an errno. */
static int connect_within(int fd, const struct addrinfo *to)
{
	struct pollfd wait = {.fd = fd, .events = POLLOUT};
	socklen_t len = sizeof(int);
	int error = 0;

	if (connect(fd, to->ai_addr, to->ai_addrlen) == 0)
		return 0;
	if (errno != EINPROGRESS)
		return errno;
	if (poll(&wait, 1, CONNECT_MS) != 1)
		return ETIMEDOUT;
	getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len);
	return error;
}

static int refused(const char *host, const char *port, int error)
{
	if (error == ECONNREFUSED)
		return spw_err(error,
			       "%s: nobody listens on port %s: start \"spinwire-perf serve\" there",
			       host, port);
	if (error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH)
		return spw_err(
			error,
			"%s: no answer on TCP port %s (%s): is it up, and does a firewall let "
			"ports %s to +2 through?",
			host, port, strerror(error), port);
	return spw_err(error, "%s port %s: %s", host, port, strerror(error));
}

int perf_ctl_connect(const char *text, uint16_t dflt_port, struct perf_ctl *ctl_out)
{
	struct addrinfo hint = {.ai_socktype = SOCK_STREAM}, *list = NULL;
	char host[256], port[8];
	int rc, error = ENOENT, fd = -1;

	memset(ctl_out, 0, sizeof(*ctl_out));
	ctl_out->fd = -1;
	host_split(text, host, port, dflt_port);
	rc = getaddrinfo(host, port, &hint, &list);
	if (rc)
		return spw_err(ENOENT, "%s: no such host: %s", host, gai_strerror(rc));
	for (struct addrinfo *to = list; to && error; to = to->ai_next) {
		fd = socket(to->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		error = fd < 0 ? errno : connect_within(fd, to);
		if (error && fd >= 0)
			close(fd);
	}
	freeaddrinfo(list);
	if (error)
		return refused(host, port, error);
	rc = 0;
	ioctl(fd, FIONBIO, &rc);
	settle(ctl_out, fd);
	snprintf(ctl_out->peer, sizeof(ctl_out->peer), "%.63s", host);
	return 0;
}

void perf_ctl_close(struct perf_ctl *ctl)
{
	if (ctl->fd >= 0)
		close(ctl->fd);
	ctl->fd = -1;
}

/* ---- messages ---- */

static int left(const struct perf_ctl *ctl)
{
	return spw_err(ECONNRESET, "%s: the other end left", ctl->peer);
}

static int put_all(struct perf_ctl *ctl, const void *data, size_t bytes)
{
	for (size_t at = 0; at < bytes;) {
		ssize_t n = send(ctl->fd, (const char *)data + at, bytes - at, MSG_NOSIGNAL);

		if (n <= 0 && !(n < 0 && errno == EINTR))
			return left(ctl);
		at += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

int perf_ctl_send(struct perf_ctl *ctl, json_t *json)
{
	char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
	size_t bytes = text ? strlen(text) : 0;
	uint32_t head = htonl((uint32_t)bytes);
	int rc = !text ? spw_err(ENOMEM, "no memory for a message") : ctl->fd < 0 ? left(ctl) : 0;

	json_decref(json);
	if (rc == 0 && (rc = put_all(ctl, &head, sizeof(head))) == 0)
		rc = put_all(ctl, text, bytes);
	free(text);
	return rc;
}

static int get_all(struct perf_ctl *ctl, void *data, size_t bytes, uint64_t deadline_ns)
{
	for (size_t at = 0; at < bytes;) {
		struct pollfd wait = {.fd = ctl->fd, .events = POLLIN};
		uint64_t now = perf_now_ns();
		int left_ms = now < deadline_ns ? (int)((deadline_ns - now) / 1000000 + 1) : 0;
		ssize_t n;

		if (poll(&wait, 1, left_ms) == 0)
			return spw_err(ETIMEDOUT, "%s: the other end is silent", ctl->peer);
		n = recv(ctl->fd, (char *)data + at, bytes - at, 0);
		if (n == 0 || (n < 0 && errno != EINTR))
			return left(ctl);
		at += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

static int message_of(const struct perf_ctl *ctl, const char *text, size_t bytes, json_t **json_out)
{
	char error[PERF_TEXT_BYTES];
	int rc;

	*json_out = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, NULL);
	if (!json_is_object(*json_out)) {
		json_decref(*json_out);
		*json_out = NULL;
		return spw_err(EPROTO, "%s: is no spinwire-perf of this version", ctl->peer);
	}
	perf_text(*json_out, "error", error, sizeof(error));
	if (!error[0])
		return 0;
	rc = json_is_true(json_object_get(*json_out, "wrong")) ? EBADMSG : EREMOTEIO;
	json_decref(*json_out);
	*json_out = NULL;
	return spw_err(rc, "%s: %s", ctl->peer, error);
}

int perf_ctl_error(struct perf_ctl *ctl, int rc)
{
	return perf_ctl_send(
		ctl, json_pack("{s:s,s:b}", "error", spw_err_text(), "wrong", rc == -EBADMSG));
}

int perf_ctl_recv(struct perf_ctl *ctl, uint32_t timeout_ms, json_t **json_out)
{
	uint64_t deadline = perf_now_ns() + timeout_ms * 1000000ull;
	uint32_t head;
	char *text;
	int rc;

	*json_out = NULL;
	if ((rc = get_all(ctl, &head, sizeof(head), deadline)) < 0)
		return rc;
	head = ntohl(head);
	if (!spw_in_range(head, 2, MESSAGE_MAX))
		return spw_err(EPROTO, "%s: does not speak spinwire-perf's protocol", ctl->peer);
	text = malloc(head);
	if (!text)
		return spw_err(ENOMEM, "no memory for a message of %u bytes", head);
	rc = get_all(ctl, text, head, deadline);
	if (rc == 0)
		rc = message_of(ctl, text, head, json_out);
	free(text);
	return rc;
}

bool perf_ctl_pending(const struct perf_ctl *ctl)
{
	struct pollfd wait = {.fd = ctl->fd, .events = POLLIN};

	return poll(&wait, 1, 0) != 0;
}

int perf_ctl_order(struct perf_ctl *ctl, uint32_t timeout_ms, json_t **json_out)
{
	int rc = perf_ctl_recv(ctl, timeout_ms, json_out);
	const char *order = json_string_value(json_object_get(*json_out, "do"));

	if (rc < 0 || !order || strcmp(order, "abort"))
		return rc;
	json_decref(*json_out);
	*json_out = NULL;
	return spw_err(ECANCELED, "%s: gave up", ctl->peer);
}

int perf_ctl_refuse(struct perf_ctl *ctl, int rc)
{
	json_t *msg = NULL;
	bool aborted = rc == -ECANCELED;

	rc = aborted ? 0 : perf_ctl_error(ctl, rc);
	while (rc == 0 && !aborted) {
		rc = perf_ctl_order(ctl, ABORT_MS, &msg);
		aborted = rc == -ECANCELED;
		json_decref(msg);
		msg = NULL;
	}
	return aborted ? perf_ctl_send(ctl, json_pack("{s:b}", "aborted", 1)) : rc;
}

int perf_ctl_give_up(struct perf_ctl *ctl, int error)
{
	bool aborted = false;
	char text[PERF_TEXT_BYTES];
	int rc;

	snprintf(text, sizeof(text), "%.300s", spw_err_text());
	rc = perf_ctl_send(ctl, json_pack("{s:s,s:i,s:i}", "do", "abort", "seed", 0, "slots", 0));
	while ((rc == 0 || rc == -EREMOTEIO || rc == -EBADMSG) && !aborted) {
		json_t *answer;

		rc = perf_ctl_recv(ctl, ABORT_MS, &answer);
		aborted = rc == 0 && json_object_get(answer, "aborted");
		if (rc == 0)
			json_decref(answer);
	}
	if (!aborted)
		perf_ctl_close(ctl);
	return spw_err(-error, "%s", text);
}
