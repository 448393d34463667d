/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * TCP streams (sock.h): a blocking thread for each, as iperf3 has them since 3.16.
 *
 * case_tcp.c connects or accepts all streams of a row, and then sends or receives. The main thread
 * only sleeps and reads the streams' byte counts: what is counted is what the sockets took after
 * the warm-up.
 *
 *    send_stream (each)   block, block, block ...            until stop, then to the end of a block
 *    main                 warm ── sum ── timed ── sum ── stop ── join
 */
#include "control/sock.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "base/spw_monotonic.h"
#include "measure/pattern.h"

#define CONNECT_MS 3000
#define ACCEPT_MS  15000u
#define TOKEN_MS   200
#define STUCK_S    10

/* Closing twice is harmless: a closed one is -1. */
void perf_sock_close(int *fd, uint32_t cnt)
{
	for (uint32_t i = 0; i < cnt; i++) {
		if (fd[i] >= 0)
			close(fd[i]);
		fd[i] = -1;
	}
}

/* ---- connections ---- */

/* The other end may stop: a call returns after STUCK_S without a byte. */
static void set_limit(int fd)
{
	struct timeval limit = {.tv_sec = STUCK_S};

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

/* Returns: 0 or an errno. */
static int sock_connect_within(int fd, const struct addrinfo *to)
{
	struct pollfd wait = {.fd = fd, .events = POLLOUT};
	socklen_t len = sizeof(int);
	int error = 0, off = 0, on = 1;

	ioctl(fd, FIONBIO, &on);
	if (connect(fd, to->ai_addr, to->ai_addrlen) && errno != EINPROGRESS)
		return errno;
	if (poll(&wait, 1, CONNECT_MS) != 1)
		return ETIMEDOUT;
	getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len);
	ioctl(fd, FIONBIO, &off);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	set_limit(fd);
	return error;
}

/* All or none: after an error every stream is closed. */
int perf_sock_connect(const char *ip, uint16_t port, const uint8_t token[PERF_TOKEN_BYTES], int *fd,
		      uint32_t cnt)
{
	struct addrinfo hint = {.ai_socktype = SOCK_STREAM,
				.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV},
			*to;
	char text[8];
	int error = 0;

	snprintf(text, sizeof(text), "%u", port);
	for (uint32_t i = 0; i < cnt; i++)
		fd[i] = -1;
	if (getaddrinfo(ip, text, &hint, &to))
		return spw_err(EINVAL, "%s is no address", ip);
	for (uint32_t i = 0; i < cnt && !error; i++) {
		fd[i] = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		error = fd[i] < 0 ? errno : sock_connect_within(fd[i], to);
		if (!error &&
		    send(fd[i], token, PERF_TOKEN_BYTES, MSG_NOSIGNAL) != (ssize_t)PERF_TOKEN_BYTES)
			error = errno;
	}
	freeaddrinfo(to);
	if (!error)
		return 0;
	perf_sock_close(fd, cnt);
	return spw_err(error,
		       "no TCP connection to %s port %u (%s): does a firewall let it through?", ip,
		       port, strerror(error));
}

/* A stranger holds up the others for TOKEN_MS at most. */
static bool knows_token(int fd, const uint8_t token[PERF_TOKEN_BYTES])
{
	struct timeval limit = {.tv_usec = TOKEN_MS * 1000};
	uint8_t got[PERF_TOKEN_BYTES];
	int on = 1;
	bool same;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	same = recv(fd, got, sizeof(got), MSG_WAITALL) == (ssize_t)sizeof(got) &&
	       !memcmp(got, token, sizeof(got));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	set_limit(fd);
	return same;
}

/* Not of one connection, but of this process or machine: it would fail again at once. */
static bool is_lasting(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

int perf_sock_accept(int listener, const struct perf_ctl *ctl,
		     const uint8_t token[PERF_TOKEN_BYTES], int *fd, uint32_t cnt)
{
	uint64_t end = spw_monotonic_ns() + ACCEPT_MS * 1000000ull;
	uint32_t got = 0;

	for (uint32_t i = 0; i < cnt; i++)
		fd[i] = -1;
	while (got < cnt) {
		struct pollfd wait[2] = {{.fd = listener, .events = POLLIN},
					 {.fd = ctl->fd, .events = POLLIN}};

		(void)poll(wait, 2, PERF_LOOK_MS); /* a signal before it does not end it */
		if (spw_monotonic_ns() > end || perf_ctl_pending(ctl)) {
			perf_sock_close(fd, cnt);
			return spw_err(ECANCELED, "%u of %u TCP connections came", got, cnt);
		}
		if (!wait[0].revents)
			continue;
		fd[got] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (fd[got] < 0 && is_lasting(errno)) {
			int rc = spw_err(errno, "a TCP connection cannot be accepted: %s",
					 strerror(errno));

			perf_sock_close(fd, cnt);
			return rc;
		}
		if (fd[got] < 0)
			continue;
		if (knows_token(fd[got], token))
			got++;
		else
			perf_sock_close(&fd[got], 1);
	}
	return 0;
}

/* ---- streams ---- */

/* One stream and its thread; what both threads use is bytes and *stop. */
struct stream {
	pthread_t thread;
	int fd;
	uint32_t idx, *stop;
	bool started, bad, wrong; /* bad: it broke off */
	uint64_t bytes;           /* so far; sampled by the main thread */
	uint64_t cpu_ns;
};

/* stop may come at any time; only the count of bytes is read by another thread. */
static void *send_stream(void *arg)
{
	struct stream *st = arg;
	uint8_t *block = malloc(PERF_BLOCK_BYTES);
	uint64_t at = 0, cpu = perf_cpu_ns();

	if (block)
		perf_pattern_fill(block, PERF_BLOCK_BYTES, st->idx);
	/* A block is always sent whole, and one at least, so that the last one can be compared. */
	while (block && (!at || at % PERF_BLOCK_BYTES || !spw_thr_load_rlx(st->stop))) {
		size_t from = at % PERF_BLOCK_BYTES;
		ssize_t n = send(st->fd, block + from, PERF_BLOCK_BYTES - from, MSG_NOSIGNAL);

		if (n <= 0)
			break;
		at += (size_t)n;
		spw_thr_store_rlx(&st->bytes, at);
	}
	shutdown(st->fd, SHUT_WR);
	st->bad = !block || at % PERF_BLOCK_BYTES;
	st->cpu_ns = perf_cpu_ns() - cpu;
	free(block);
	return NULL;
}

/* Blocks between the first and the last are received but not compared, so that the comparison is
 * not measured. */
static void *receive_stream(void *arg)
{
	struct stream *st = arg;
	uint8_t *block = malloc(PERF_BLOCK_BYTES);
	uint64_t at = 0, cpu = perf_cpu_ns();
	ssize_t n = 1;

	while (block && n > 0) {
		size_t from = at % PERF_BLOCK_BYTES;

		n = recv(st->fd, block + from, PERF_BLOCK_BYTES - from, 0);
		at += n > 0 ? (size_t)n : 0;
		if (n > 0 && at == PERF_BLOCK_BYTES)
			st->wrong |= perf_pattern_check(block, at, st->idx) != at;
	}
	st->bytes = at;
	st->bad = !block || n < 0 || at % PERF_BLOCK_BYTES;
	st->wrong |= !st->bad && at &&
		     perf_pattern_check(block, PERF_BLOCK_BYTES, st->idx) != PERF_BLOCK_BYTES;
	st->cpu_ns = perf_cpu_ns() - cpu;
	free(block);
	return NULL;
}

/* A thread that did not start leaves its stream bad; the others are joined all the same. */
static void sock_start(struct stream *st, const int *fd, uint32_t cnt, uint32_t *stop,
		       void *(*body)(void *))
{
	for (uint32_t i = 0; i < cnt; i++) {
		st[i] = (struct stream){.fd = fd[i], .idx = i, .stop = stop};
		st[i].started = pthread_create(&st[i].thread, NULL, body, &st[i]) == 0;
		st[i].bad = !st[i].started;
	}
}

/* Errors: -ECONNRESET a stream was not whole; -EBADMSG. */
static int sock_join(struct stream *st, uint32_t cnt, struct perf_flow *flow)
{
	bool bad = false, wrong = false;

	for (uint32_t i = 0; i < cnt; i++) {
		if (st[i].started)
			pthread_join(st[i].thread, NULL);
		bad |= st[i].bad;
		wrong |= st[i].wrong;
		flow->cpu_ns += st[i].cpu_ns;
		flow->total += st[i].bytes / PERF_BLOCK_BYTES;
	}
	if (wrong)
		return spw_err(EBADMSG, "a TCP stream carried wrong bytes");
	return bad ? spw_err(ECONNRESET, "a TCP stream broke off") : 0;
}

/* While the threads write: each count is one store, and a sum that is a block old does not matter.
 */
static uint64_t sock_sum(struct stream *st, uint32_t cnt)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < cnt; i++)
		bytes += spw_thr_load_rlx(&st[i].bytes);
	return bytes;
}

/* Counted by time, not by blocks: what the sockets took between two readings. */
int perf_sock_send(const int *fd, uint32_t cnt, uint32_t warm_ms, uint32_t timed_ms,
		   struct perf_flow *flow_out)
{
	struct stream st[PERF_STREAM_MAX];
	uint64_t first, since;
	uint32_t stop = 0;

	memset(flow_out, 0, sizeof(*flow_out));
	sock_start(st, fd, cnt, &stop, send_stream);
	/* TCP's window grows meanwhile, and the sockets' buffers fill. */
	usleep(warm_ms * 1000);
	first = sock_sum(st, cnt);
	since = spw_monotonic_ns();
	usleep(timed_ms * 1000);
	flow_out->bytes = sock_sum(st, cnt) - first;
	flow_out->ns = spw_monotonic_ns() - since;
	flow_out->messages = flow_out->bytes / PERF_BLOCK_BYTES;
	spw_thr_store_rlx(&stop, 1);
	return sock_join(st, cnt, flow_out);
}

/* Ends with the streams: the sender decides how long a row is. */
int perf_sock_receive(const int *fd, uint32_t cnt, struct perf_flow *flow_out)
{
	struct stream st[PERF_STREAM_MAX];
	uint64_t since = spw_monotonic_ns();
	int rc;

	memset(flow_out, 0, sizeof(*flow_out));
	sock_start(st, fd, cnt, NULL, receive_stream);
	if ((rc = sock_join(st, cnt, flow_out)) < 0)
		return rc;
	flow_out->messages = flow_out->total;
	flow_out->bytes = flow_out->total * PERF_BLOCK_BYTES;
	flow_out->ns = spw_monotonic_ns() - since;
	return 0;
}
