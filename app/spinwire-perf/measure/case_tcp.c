/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * TCP beside the RDMA rows: streams, and ping-pong. Each stream goes to the address of a rail where
 * the kernel has one for it, one rail after the other, else to the address of the control
 * connection; the row says which.
 *
 *   client   {"case", "ports"}      ->   server  listens
 *                                   <-           {"port", "token"}
 *            connects the streams                accepts them
 *                                   <-           {"ready"}
 *            sends, or plays            ...      receives, or echoes; until the streams end
 *                                   <-           {"flow", "phy"}
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/spw_err.h"
#include "measure/open_loop.h"
#include "measure/pattern.h"
#include "result/phy.h"
#include "session.h"
#include "control/sock.h"

#define ANSWER_MS   30000u
#define AHEAD_BYTES (64u << 10) /* under way in a ping-pong: less than what sockets buffer */
#define IDLE_NS     50000

/* ---- ping-pong ---- */

/* A ping-pong over one connection, as perf_latency drives it. */
struct ping {
	int fd;
	uint64_t bytes, sent, back; /* back: bytes of echoes */
	uint8_t *buf;               /* sent from; behind it, received into */
	bool bad;
};

/* The send blocks: with at most AHEAD_BYTES (or one message) under way the sockets' buffers take
 * them, and the echo is never stuck behind it. */
static int ping_post(void *arg)
{
	struct ping *p = arg;
	ssize_t n;

	if (p->sent &&
	    (p->sent + 1) * p->bytes - p->back > SPW_MAX((uint64_t)AHEAD_BYTES, p->bytes))
		return -EAGAIN;
	n = send(p->fd, p->buf, p->bytes, MSG_NOSIGNAL);
	if (n != (ssize_t)p->bytes)
		return spw_err(ECONNRESET, "the TCP connection broke off");
	p->sent++;
	return 0;
}

/* Takes at most the rest of one message, so that a message is compared as soon as it is whole. */
static int ping_poll(void *arg)
{
	struct ping *p = arg;
	uint64_t at = p->back % p->bytes, before = p->back / p->bytes;
	ssize_t n = recv(p->fd, p->buf + p->bytes + at, p->bytes - at, MSG_DONTWAIT);

	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		return spw_err(ECONNRESET, "the TCP connection broke off");
	p->back += n > 0 ? (uint64_t)n : 0;
	if (p->back / p->bytes == before)
		return 0;
	p->bad |= memcmp(p->buf, p->buf + p->bytes, p->bytes) != 0;
	return 1;
}

/* A blocking wait with a bound: the CPU time of an idle end is then that of TCP. */
static void ping_idle(void *arg)
{
	struct ping *p = arg;
	struct pollfd wait = {.fd = p->fd, .events = POLLIN};
	struct timespec limit = {.tv_nsec = IDLE_NS};

	ppoll(&wait, 1, &limit, NULL);
}

/* A third of the time for the closed loop, the rest for the open one, as in all latency rows. */
static int tcp_ping(struct perf_session *s, int fd, struct perf_result *result)
{
	const struct perf_case *what = &result->what;
	struct ping p = {.fd = fd, .bytes = what->bytes, .buf = malloc(2 * what->bytes)};
	struct perf_method method = {ping_post, ping_poll, ping_idle, &p, 2};
	uint64_t cpu = perf_cpu_ns();
	int rc = p.buf ? 0 : spw_err(ENOMEM, "no memory for %llu bytes", 2ull * what->bytes);

	if (rc == 0) {
		perf_pattern_fill(p.buf, p.bytes, s->serial);
		rc = perf_latency(&method, &s->tsc, what->ms / 3, what->ms - what->ms / 3,
				  &result->lat);
	}
	if (p.bad)
		perf_mark(result, PERF_INVALID, "an echo carried wrong bytes");
	result->own = (struct perf_flow){.messages = p.sent,
					 .bytes = p.sent * p.bytes,
					 .total = p.sent,
					 .cpu_ns = perf_cpu_ns() - cpu};
	shutdown(fd, SHUT_WR);
	free(p.buf);
	return rc;
}

/* Ends when the client shuts its side down, which is no error. */
static int tcp_pong(int fd, uint64_t bytes, struct perf_flow *flow)
{
	uint8_t *buf = malloc(bytes);
	uint64_t cpu = perf_cpu_ns();

	memset(flow, 0, sizeof(*flow));
	if (!buf)
		return spw_err(ENOMEM, "no memory for %llu bytes", (unsigned long long)bytes);
	while (recv(fd, buf, bytes, MSG_WAITALL) == (ssize_t)bytes &&
	       send(fd, buf, bytes, MSG_NOSIGNAL) == (ssize_t)bytes)
		flow->total++;
	flow->messages = flow->total;
	flow->bytes = flow->total * bytes;
	flow->cpu_ns = perf_cpu_ns() - cpu;
	free(buf);
	return 0;
}

/* ---- client ---- */

/* The token is that of this case alone; a stream of an earlier case that comes late is not
 * counted. */
static int token_take(const json_t *answer, uint8_t token[PERF_TOKEN_BYTES])
{
	const char *text = json_string_value(json_object_get(answer, "token"));

	if (!text || strlen(text) != 2 * PERF_TOKEN_BYTES)
		return spw_err(EPROTO, "the other end sent no token");
	for (uint32_t i = 0; i < PERF_TOKEN_BYTES; i++)
		if (sscanf(text + 2 * i, "%2hhx", &token[i]) != 1)
			return spw_err(EPROTO, "the other end sent no token");
	return 0;
}

/* Where the streams of a case go, and the ports that they pass at either end ("": not known). */
struct path {
	const char *ip[PERF_RAIL_MAX];
	uint32_t cnt;
	char own[160], peer[160];
};

/* The rails that the kernels of both ends know; else the way of the control connection. */
static void path_find(const struct perf_session *s, const struct perf_case *what, struct path *path)
{
	const struct perf_bond *own, *peer;
	uint32_t rails = 0;

	for (uint32_t i = 0; i < s->rails.cnt; i++)
		if ((what->rails >> i & 1) && s->rails.rail[i].own->in_kernel &&
		    s->rails.rail[i].peer->in_kernel) {
			path->ip[path->cnt++] = s->rails.rail[i].peer->ip;
			rails |= 1u << i;
		}
	perf_rails_text(&s->rails, rails, 1, false, path->own, sizeof(path->own));
	perf_rails_text(&s->rails, rails, 1, true, path->peer, sizeof(path->peer));
	if (what->op == PERF_BOND && perf_pair_bonds(&s->own, &s->peer, &own, &peer)) {
		path->ip[path->cnt++] = peer->ip;
		snprintf(path->own, sizeof(path->own), "%s", own->slaves);
		snprintf(path->peer, sizeof(path->peer), "%s", peer->slaves);
	}
	if (path->cnt == 0)
		path->ip[path->cnt++] = s->ctl.far;
}

/* A software device's counters are not those of the interface that TCP takes. */
static void phy_judge(const struct perf_session *s, const struct path *path,
		      const struct perf_phy *own, const struct perf_phy *peer,
		      struct perf_result *result)
{
	if (path->own[0] == '\0')
		perf_mark(result, PERF_UNVERIFIED, "TCP goes to %s, which is no rail's address",
			  path->ip[0]);
	else if (s->own.software || s->peer.software)
		perf_mark(result, PERF_UNVERIFIED,
			  "TCP takes the kernel's interfaces, and software ConnectX count for "
			  "themselves");
	else
		perf_phy_judge(own, peer, result);
}

/* Streams go to the addresses in turn. */
static int streams_connect(struct perf_result *result, const struct path *path,
			   const json_t *answer, int *fd)
{
	uint32_t streams = result->what.streams;
	uint8_t token[PERF_TOKEN_BYTES];
	uint64_t port;
	size_t used = 0;
	int rc = perf_number(answer, "port", UINT16_MAX, &port);

	for (uint32_t i = 0; i < path->cnt && used < sizeof(result->path); i++)
		used += (size_t)snprintf(result->path + used, sizeof(result->path) - used, "%s%s",
					 i ? ", " : "to ", path->ip[i]);
	if (rc == 0)
		rc = token_take(answer, token);
	for (uint32_t i = 0; i < streams && rc == 0; i++)
		rc = perf_sock_connect(path->ip[i % path->cnt], (uint16_t)port, token, &fd[i], 1);
	return rc;
}

/* The streams are closed at an error before the server is asked: it waits for their end. */
static int tcp_measure(struct perf_session *s, struct perf_result *result, int *fd,
		       struct perf_phy *peer_out)
{
	const struct perf_case *what = &result->what;
	json_t *answer = NULL;
	int rc = perf_ctl_recv(&s->ctl, ANSWER_MS, &answer); /* ready */

	if (rc == 0) {
		json_decref(answer);
		rc = what->latency ? tcp_ping(s, fd[0], result)
				   : perf_sock_send(fd, what->streams, what->ms / 5, what->ms,
						    &result->own);
	}
	perf_sock_close(fd, rc ? what->streams : 0);
	if (rc == 0 && (rc = perf_ctl_recv(&s->ctl, ANSWER_MS, &answer)) == 0) {
		rc = perf_flow_parse(json_object_get(answer, "flow"), &result->peer);
		rc = rc ? rc : perf_phy_parse(json_object_get(answer, "phy"), peer_out);
		json_decref(answer);
	}
	if (rc == 0 && result->peer.total != result->own.total)
		perf_mark(result, PERF_INVALID, "%llu blocks were sent and %llu received",
			  (unsigned long long)result->own.total,
			  (unsigned long long)result->peer.total);
	return rc;
}

/* Counters are read while no row is timed: reading them opens sockets. */
int perf_tcp_client(struct perf_session *s, struct perf_result *result)
{
	struct perf_phy before, own, peer;
	struct path path = {0};
	int fd[PERF_STREAM_MAX], rc;
	json_t *answer = NULL;

	for (uint32_t i = 0; i < PERF_STREAM_MAX; i++)
		fd[i] = -1;
	path_find(s, &result->what, &path);
	perf_phy_read(&s->own, path.own, &before);
	rc = perf_ask(
		s,
		json_pack("{s:o,s:s}", "case", perf_case_json(&result->what), "ports", path.peer),
		ANSWER_MS, &answer);
	if (rc < 0)
		return rc;
	rc = streams_connect(result, &path, answer, fd);
	json_decref(answer);
	if (rc == 0)
		rc = tcp_measure(s, result, fd, &peer);
	perf_sock_close(fd, PERF_STREAM_MAX);
	perf_phy_since(&s->own, path.own, &before, &own);
	if (rc == 0)
		phy_judge(s, &path, &own, &peer, result);
	return rc ? perf_ctl_give_up(&s->ctl, rc) : 0;
}

/* ---- server ---- */

/* The listener exists before its port is sent, so a client that connects at once is not refused. */
static int listen_say(struct perf_session *s, int *listener_out, uint8_t token[PERF_TOKEN_BYTES])
{
	uint8_t random[SPW_OOB_NONCE_BYTES];
	char text[2 * PERF_TOKEN_BYTES + 1];
	uint16_t port;
	int rc = spw_oob_nonce(random);

	if (rc < 0 || (rc = perf_ctl_listen(s->data_port, &port)) < 0)
		return rc;
	*listener_out = rc;
	memcpy(token, random, PERF_TOKEN_BYTES);
	for (uint32_t i = 0; i < PERF_TOKEN_BYTES; i++)
		snprintf(text + 2 * i, 3, "%02x", token[i]);
	return perf_ctl_send(&s->ctl, json_pack("{s:i,s:s}", "port", (int)port, "token", text));
}

/* The server's counters stop here, after the last byte of the streams was read. */
static int flow_say(struct perf_session *s, const struct perf_flow *flow, const char *ports,
		    const struct perf_phy *before)
{
	struct perf_phy moved;

	perf_phy_since(&s->own, ports, before, &moved);
	return perf_ctl_send(&s->ctl, json_pack("{s:o,s:o}", "flow", perf_flow_json(flow), "phy",
						perf_phy_json(&moved)));
}

/* A ping-pong needs one buffer of the message's size, so its size is limited by memory here too. */
int perf_tcp_server(struct perf_session *s, const struct perf_case *what, const json_t *request)
{
	uint8_t token[PERF_TOKEN_BYTES];
	int fd[PERF_STREAM_MAX], listener = -1;
	struct perf_phy before;
	struct perf_flow flow;
	char ports[160];
	int rc;

	if (what->latency && what->bytes > s->lane.memory_max)
		return perf_ctl_error(&s->ctl,
				      spw_err(ENOMEM,
					      "messages of %llu bytes would need more than an "
					      "eighth of the free memory",
					      (unsigned long long)what->bytes));
	perf_text(request, "ports", ports, sizeof(ports));
	perf_phy_read(&s->own, ports, &before);
	rc = listen_say(s, &listener, token);
	for (uint32_t i = 0; i < PERF_STREAM_MAX; i++)
		fd[i] = -1;
	if (rc == 0)
		rc = perf_sock_accept(listener, &s->ctl, token, fd, what->streams);
	perf_sock_close(&listener, 1);
	if (rc == 0 && (rc = perf_ctl_send(&s->ctl, json_pack("{s:b}", "ready", 1))) == 0)
		rc = what->latency ? tcp_pong(fd[0], what->bytes, &flow)
				   : perf_sock_receive(fd, what->streams, &flow);
	perf_sock_close(fd, PERF_STREAM_MAX);
	if (rc == 0)
		return flow_say(s, &flow, ports, &before);
	if (rc == -ECANCELED) /* the client gave up, or left; its abort is the next message */
		return 0;
	return perf_ctl_error(&s->ctl, rc);
}
