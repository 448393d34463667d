/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The control connection (control.h), of both ends: the messages that every case file exchanges. A
 * thin layer over lib/oob, which has the sockets, the MAC and the framing; here are JSON,
 * deadlines, and errors in words that say what to do.
 *
 * Every wait ends: at its deadline, when the process is to leave, or when the other end does. A
 * message that was sent in part cannot be continued, so the connection is closed after any failed
 * send.
 */
#include "control/control.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "app_text.h"
#include "base/spw_err.h"
#include "base/spw_monotonic.h"
#include "oob/spw_oob_host.h"
#include "oob/spw_oob_socket.h"

/* The facts of a machine are the longest message. */
#define MESSAGE_MAX (1u << 20)
#define CONNECT_MS  5000
#define SEND_MS     10000
#define ABORT_MS    30000
#define OWN_MAX     150u /* of an error of this end, where the other end's follows it */

/* ---- connect and accept ---- */

int perf_ctl_listen_error(uint16_t port, int rc)
{
	return spw_err(-rc,
		       "port %u: %s; another spinwire-perf may serve there: end it, or --port N at "
		       "both ends",
		       port, strerror(-rc));
}

/* IPv4 clients come in over the same IPv6 socket. */
int perf_ctl_listen(uint16_t port, uint16_t *port_out)
{
	struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	const int fd = spw_oob_socket_listen(&any);

	*port_out = ntohs(any.sin6_port);
	return fd < 0 ? perf_ctl_listen_error(port, fd) : fd;
}

/* IPv4 over an IPv6 socket is printed as IPv4: later cases use the text as an address. */
static void address_text(const struct sockaddr_storage *addr, char *out, size_t bytes)
{
	char text[INET6_ADDRSTRLEN] = "?";

	getnameinfo((const struct sockaddr *)addr, sizeof(*addr), text, sizeof(text), NULL, 0,
		    NI_NUMERICHOST);
	snprintf(out, bytes, "%s", strncmp(text, "::ffff:", 7) ? text : text + 7);
}

/* Both addresses are noted once; later cases listen and connect on the path that the control
 * connection took. */
static void control_settle(struct perf_ctl *ctl, int fd)
{
	struct sockaddr_storage addr;
	socklen_t len = sizeof(addr);

	ctl->fd = fd;
	if (getsockname(fd, (struct sockaddr *)&addr, &len) == 0)
		address_text(&addr, ctl->local, sizeof(ctl->local));
	len = sizeof(addr);
	if (getpeername(fd, (struct sockaddr *)&addr, &len) == 0)
		address_text(&addr, ctl->far, sizeof(ctl->far));
}

/* The channel is begun by the caller: a client greets (perf_ctl_greet), a server's door has done
 * so. */
int perf_ctl_take(struct perf_ctl *ctl, int fd, const char *far)
{
	memset(ctl, 0, sizeof(*ctl));
	control_settle(ctl, fd);
	snprintf(ctl->peer, sizeof(ctl->peer), "%.63s", far ? far : ctl->far);
	ctl->in = malloc(MESSAGE_MAX);
	return ctl->in ? 0 : spw_err(ENOMEM, "no memory for a connection");
}

/* Returns: the socket, or -errno. */
static int connect_within(const struct sockaddr_in6 *to)
{
	int rc, fd = spw_oob_socket_connect(to);
	struct pollfd wait = {.fd = fd, .events = POLLOUT};

	if (fd < 0)
		return fd;
	rc = poll(&wait, 1, CONNECT_MS) == 1 ? spw_oob_socket_connected(fd) : -ETIMEDOUT;
	if (rc == 0)
		return fd;
	close(fd);
	return rc;
}

/* By what a user can do: start the server, open a port, or look at the error. */
static int control_refused(const char *host, const char *port, int error)
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

/* All addresses of a name are tried in order, each for CONNECT_MS; the last error is reported. */
int perf_ctl_connect(const char *text, uint16_t dflt_port, struct perf_ctl *ctl_out)
{
	struct spw_oob_host host;
	char port[8];
	int rc, fd = -ENOENT;

	memset(ctl_out, 0, sizeof(*ctl_out));
	ctl_out->fd = -1;
	snprintf(port, sizeof(port), "%u", dflt_port);
	rc = spw_oob_host_resolve(text, port, false, &host);
	if (rc)
		return rc;
	for (uint32_t i = 0; i < host.addr_cnt && fd < 0; i++)
		fd = connect_within(&host.addr[i]);
	return fd < 0 ? control_refused(host.name, host.port, -fd)
		      : perf_ctl_take(ctl_out, fd, host.name);
}

void perf_ctl_close(struct perf_ctl *ctl)
{
	if (ctl->fd >= 0)
		close(ctl->fd);
	ctl->fd = -1;
	free(ctl->in);
	ctl->in = NULL;
}

/* ---- messages ---- */

/* The text is the same for a connection that is closed here already: a closed one has fd -1. */
static int control_left(const struct perf_ctl *ctl)
{
	return spw_err(ECONNRESET,
		       "%s: the other end left without a reason: see what it printed, and start it "
		       "again",
		       ctl->peer);
}

/* Set by a signal (app_catch_signals); seen within PERF_LOOK_MS. */
static bool must_leave(const struct perf_ctl *ctl)
{
	return ctl->stop && spw_thr_load_rlx(ctl->stop);
}

/* For the client, which reads it behind the name of this host. */
static int control_stopped(void)
{
	return spw_err(EINTR, "a signal ended " PERF_PROGRAM " there: start it again");
}

/* Waits for events of the socket until deadline_ns; a signal does not lengthen it. */
static int wait_until(const struct perf_ctl *ctl, short events, uint64_t deadline_ns)
{
	struct pollfd wait = {.fd = ctl->fd, .events = events};

	for (;;) {
		uint64_t now_ns = spw_monotonic_ns();

		if (must_leave(ctl))
			return control_stopped();
		if (now_ns >= deadline_ns)
			return spw_err(ETIMEDOUT, "%s: the other end is silent", ctl->peer);
		if (poll(&wait, 1,
			 (int)SPW_MIN((deadline_ns - now_ns) / 1000000 + 1,
				      (uint64_t)PERF_LOOK_MS)) > 0)
			return 0;
	}
}

/* What went wrong on the channel, in words. */
static int channel_error(const struct perf_ctl *ctl, int rc)
{
	char why[SPW_OOB_REASON_BYTES];

	spw_oob_channel_reason(&ctl->ch, rc, why);
	if (rc == -EACCES)
		return spw_err(EACCES,
			       "%s: %s: give --secret FILE with the same content at both ends",
			       ctl->peer, why);
	if (rc == -EPROTO || rc == -EMSGSIZE || rc == -EPROTONOSUPPORT)
		return spw_err(EPROTONOSUPPORT, "%s: %s", ctl->peer, why);
	return control_left(ctl);
}

/* An error of the other end becomes one here, with its name in front. */
static int message_of(const struct perf_ctl *ctl, size_t bytes, json_t **json_out)
{
	char error[PERF_TEXT_BYTES];
	int rc;

	*json_out = json_loadb((const char *)ctl->in, bytes, JSON_REJECT_DUPLICATES, NULL);
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

/* A send failed: why the other end left may have come before it did (perf_ctl_end). */
static int control_left_why(struct perf_ctl *ctl)
{
	json_t *json;
	uint32_t len;
	int rc = 0;

	while (rc == 0 && ctl->in &&
	       spw_oob_channel_receive(&ctl->ch, ctl->in, MESSAGE_MAX, &len) == 0) {
		rc = message_of(ctl, len, &json);
		json_decref(json);
	}
	return rc == -EREMOTEIO ? rc : control_left(ctl);
}

/* json is released on every path, as the caller has given it away. */
int perf_ctl_send(struct perf_ctl *ctl, json_t *json)
{
	const uint64_t deadline_ns = spw_monotonic_ns() + SEND_MS * 1000000ull;
	char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
	int rc = !text         ? spw_err(ENOMEM, "no memory for a message")
		 : ctl->fd < 0 ? control_left(ctl)
			       : 0;

	json_decref(json);
	while (rc == 0) {
		rc = spw_oob_channel_send(&ctl->ch, text, (uint32_t)strlen(text));
		if (rc != -EAGAIN)
			break;
		rc = wait_until(ctl, POLLOUT, deadline_ns);
	}
	if (rc < 0 && ctl->fd >= 0) { /* half a message may be out */
		rc = rc == -ETIMEDOUT || rc == -EINTR || rc == -ENOMEM ? rc : control_left_why(ctl);
		perf_ctl_close(ctl);
	}
	free(text);
	return rc;
}

/* Sends this thread's last text, so nothing that may set another one stands between the error and
 * this call. */
int perf_ctl_error(struct perf_ctl *ctl, int rc)
{
	return perf_ctl_send(ctl, json_pack("{s:o,s:b}", "error", app_json_text(spw_err_text()),
					    "wrong", rc == -EBADMSG));
}

/* This thread's text stays: the message may set another. Who failed to prove that it knows the
 * secret gets no word. */
int perf_ctl_end(struct perf_ctl *ctl, int rc)
{
	char text[PERF_TEXT_BYTES];

	snprintf(text, sizeof(text), "%.300s", spw_err_text());
	if (rc != -ECONNRESET && rc != -EACCES && rc != -EPROTONOSUPPORT)
		(void)perf_ctl_error(ctl, rc);
	return spw_err(-rc, "%s", text);
}

/* The deadline of an order under way starts when its message has come. */
int perf_ctl_recv(struct perf_ctl *ctl, uint32_t timeout_ms, json_t **json_out)
{
	const uint64_t deadline_ns = spw_monotonic_ns() + timeout_ms * 1000000ull;
	uint32_t len = 0;
	int rc = ctl->fd < 0 ? control_left(ctl) : must_leave(ctl) ? control_stopped() : -EAGAIN;

	*json_out = NULL;
	while (rc == -EAGAIN) {
		rc = spw_oob_channel_receive(&ctl->ch, ctl->in, MESSAGE_MAX, &len);
		/* Also when a message has come: the order in it has this long. */
		ctl->until_ns = spw_monotonic_ns() + ctl->order_ms * 1000000ull;
		if (rc != -EAGAIN)
			return rc ? channel_error(ctl, rc) : message_of(ctl, len, json_out);
		rc = wait_until(ctl, POLLIN, deadline_ns);
		rc = rc ? rc : -EAGAIN;
	}
	return rc;
}

/* From then on every message carries a MAC: a wrong secret shows here, or at the first message. */
int perf_ctl_greet(struct perf_ctl *ctl, const struct spw_oob_secret *secret, uint32_t timeout_ms)
{
	const uint64_t deadline_ns = spw_monotonic_ns() + timeout_ms * 1000000ull;
	int rc = spw_oob_channel_begin(&ctl->ch, ctl->fd, true, secret, &perf_proto), waited = 0;

	while (rc == 0 && waited == 0 && (rc = spw_oob_channel_greet(&ctl->ch)) == -EAGAIN) {
		waited = wait_until(ctl, POLLIN, deadline_ns);
		rc = 0;
	}
	return waited ? waited : rc ? channel_error(ctl, rc) : 0;
}

/* Called from measuring loops: one poll without waiting. */
bool perf_ctl_pending(const struct perf_ctl *ctl)
{
	struct pollfd wait = {.fd = ctl->fd, .events = POLLIN};

	return poll(&wait, 1, 0) != 0 || must_leave(ctl) ||
	       (ctl->order_ms && spw_monotonic_ns() > ctl->until_ns);
}

/* An abort is an error, so that every wait for an order ends at it. */
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

/* The client may have sent orders before it learns of the error: all up to its abort are taken
 * without an answer. */
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

/* Answers that were under way are dropped up to the one to the abort; both ends are then between
 * two cases. The text of the error that led here is restored, since the exchange may set others;
 * what the other end reports meanwhile is more likely the cause than that error. */
int perf_ctl_give_up(struct perf_ctl *ctl, int error)
{
	bool aborted = false;
	char text[PERF_TEXT_BYTES];
	json_t *answer;
	size_t len;
	int rc;

	snprintf(text, sizeof(text), "%.300s", spw_err_text());
	len = strnlen(text, OWN_MAX);
	rc = perf_ctl_send(ctl, json_pack("{s:s,s:i,s:i}", "do", "abort", "seed", 0, "slots", 0));
	while (!aborted && (rc == 0 || rc == -EREMOTEIO || rc == -EBADMSG)) {
		if (rc == -EREMOTEIO)
			snprintf(text + len, sizeof(text) - len, "; %s", spw_err_text());
		rc = perf_ctl_recv(ctl, ABORT_MS, &answer);
		aborted = rc == 0 && json_object_get(answer, "aborted");
		json_decref(answer);
	}
	if (!aborted)
		perf_ctl_close(ctl);
	return spw_err(-error, "%s", text);
}
