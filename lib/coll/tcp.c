/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * An exchange over TCP, for programs without a store: a star around rank 0. Each message is a head
 * and the blob; rank 0 collects one from every rank and returns all of them.
 *
 *   rank i   head (magic, i, n, bytes), blob ──►  rank 0
 *            all blobs, in the order of ranks ◄──
 *
 * A connection that does not begin with such a head is closed: a stranger costs HELLO_MS at most.
 * Set-up code: it waits in poll(2), never longer than the limit that the caller gave.
 */
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "coll/coll.h"

#define MAGIC      0x58435753u /* "SWCX" */
#define HELLO_MS   500u
#define CONNECT_MS 2000u
#define RETRY_NS   20000000u

struct head {
	uint32_t magic, rank, rank_cnt, bytes;
};

struct spw_coll_tcp {
	uint32_t rank, rank_cnt, timeout_ms;
	int fd[SPW_COLL_RANK_MAX]; /* rank 0: of each rank; others: fd[0]; -1: none */
};

static struct coll_wait wait_of_ms(uint64_t ms)
{
	return coll_wait_of(coll_now_ns(), ms * 1000000u);
}

/* ---- bytes ---- */

/* Errors: -ETIMEDOUT, -ECONNRESET, others of poll(2) and recv(2); without a text. */
static int wait_for(int fd, short what, struct coll_wait *wait)
{
	struct pollfd p = {.fd = fd, .events = what};
	bool over = false;
	int rc = 0;

	while (!rc && !over) {
		over = coll_wait_is_over(wait, coll_now_ns());
		rc = poll(&p, 1, (int)((coll_wait_sleep_ns(wait) + 999999) / 1000000));
	}
	return rc > 0 ? 0 : rc == 0 ? -ETIMEDOUT : errno == EINTR ? 0 : -errno;
}

static int move(int fd, void *bytes, size_t len, bool send_it, struct coll_wait *wait)
{
	uint8_t *at = bytes;

	while (len) {
		ssize_t n = send_it ? send(fd, at, len, MSG_NOSIGNAL | MSG_DONTWAIT)
				    : recv(fd, at, len, MSG_DONTWAIT);
		int rc;

		if (n == 0)
			return -ECONNRESET;
		if (n > 0) {
			at += n;
			len -= (size_t)n;
			continue;
		}
		if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
			return -errno;
		rc = wait_for(fd, send_it ? POLLOUT : POLLIN, wait);
		if (rc)
			return rc;
	}
	return 0;
}

/* ---- addresses ---- */

static int resolve(const char *root, bool passive, struct addrinfo **list_out)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
				       .ai_flags = passive ? AI_PASSIVE : 0};
	const char *colon = root ? strrchr(root, ':') : NULL;
	char host[256] = "";
	size_t len = colon ? (size_t)(colon - root) : 0;
	int rc;

	if (!colon || !colon[1] || len >= sizeof(host))
		return spw_err(EINVAL, "%s: expected host:port of rank 0", root ? root : "(null)");
	memcpy(host, root, len);
	if (len > 1 && host[0] == '[' && host[len - 1] == ']') {
		host[len - 1] = '\0';
		memmove(host, host + 1, len - 1);
	}
	rc = getaddrinfo(host[0] ? host : NULL, colon + 1, &hints, list_out);
	return rc ? spw_err(EINVAL, "%s: %s", root, gai_strerror(rc)) : 0;
}

static void no_delay(int fd)
{
	const int on = 1;

	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)); /* an optimization */
}

/* ---- rank 0 ---- */

static int listen_on(const char *root, int *fd_out)
{
	const int on = 1;
	struct addrinfo *list, *a;
	int rc = resolve(root, true, &list), error = 0;

	if (rc)
		return rc;
	for (a = list, *fd_out = -1; a && *fd_out < 0; a = a->ai_next) {
		int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

		(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
		if (fd >= 0 && !bind(fd, a->ai_addr, a->ai_addrlen) &&
		    !listen(fd, SPW_COLL_RANK_MAX)) {
			*fd_out = fd;
			break;
		}
		error = errno;
		if (fd >= 0)
			close(fd);
	}
	freeaddrinfo(list);
	return *fd_out >= 0 ? 0 : spw_err(error, "%s: %s", root, strerror(error));
}

/* One connection: a rank, or a stranger. Errors: only what ends the whole attempt. */
static int welcome(struct spw_coll_tcp *t, int fd)
{
	struct coll_wait wait = wait_of_ms(HELLO_MS);
	struct head h;

	no_delay(fd);
	if (move(fd, &h, sizeof(h), false, &wait) || h.magic != MAGIC) {
		close(fd);
		return 0;
	}
	if (h.rank_cnt == t->rank_cnt && spw_in_range(h.rank, 1, t->rank_cnt - 1) &&
	    t->fd[h.rank] < 0) {
		t->fd[h.rank] = fd;
		return 0;
	}
	close(fd);
	if (h.rank_cnt != t->rank_cnt)
		return spw_err(EPROTO, "rank %u counts %u ranks, rank 0 counts %u", h.rank,
			       h.rank_cnt, t->rank_cnt);
	return spw_err(EPROTO, "two ranks have the number %u", h.rank);
}

static uint32_t absent(const struct spw_coll_tcp *t)
{
	uint32_t rank = 1;

	while (rank < t->rank_cnt && t->fd[rank] >= 0)
		rank++;
	return rank;
}

static int gather(struct spw_coll_tcp *t, const char *root)
{
	struct coll_wait wait = wait_of_ms(t->timeout_ms);
	int listen_fd, rc = listen_on(root, &listen_fd);

	if (rc)
		return rc;
	while (!rc && absent(t) < t->rank_cnt) {
		int fd;

		rc = wait_for(listen_fd, POLLIN, &wait);
		if (rc) {
			rc = spw_err(-rc, "rank %u did not come to %s within %u ms", absent(t),
				     root, t->timeout_ms);
			break;
		}
		fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
		rc = fd >= 0 ? welcome(t, fd) : 0;
	}
	close(listen_fd);
	return rc;
}

/* ---- the others ---- */

/* Connects once. Returns: 0; -EAGAIN: rank 0 may not listen yet. */
static int connect_once(const struct addrinfo *list, uint64_t left_ms, int *fd_out)
{
	for (const struct addrinfo *a = list; a; a = a->ai_next) {
		int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		socklen_t len = sizeof(int);
		struct coll_wait wait = wait_of_ms(SPW_MIN(left_ms, CONNECT_MS));
		int error = 0;

		if (fd < 0)
			continue;
		if (connect(fd, a->ai_addr, a->ai_addrlen))
			error = errno;
		if (error == EINPROGRESS) {
			error = -wait_for(fd, POLLOUT, &wait);
			if (!error)
				(void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len);
		}
		if (!error) {
			*fd_out = fd;
			return 0;
		}
		close(fd);
	}
	return -EAGAIN;
}

static int reach(struct spw_coll_tcp *t, const char *root)
{
	const struct timespec nap = {.tv_nsec = RETRY_NS};
	struct coll_wait wait = wait_of_ms(t->timeout_ms);
	struct head h = {.magic = MAGIC, .rank = t->rank, .rank_cnt = t->rank_cnt};
	struct addrinfo *list;
	int rc = resolve(root, false, &list);

	if (rc)
		return rc;
	while ((rc = connect_once(list, wait.left_ns / 1000000, &t->fd[0])) == -EAGAIN &&
	       !coll_wait_is_over(&wait, coll_now_ns()))
		nanosleep(&nap, NULL);
	freeaddrinfo(list);
	if (rc)
		return spw_err(ETIMEDOUT, "rank 0 does not listen on %s after %u ms", root,
			       t->timeout_ms);
	no_delay(t->fd[0]);
	rc = move(t->fd[0], &h, sizeof(h), true, &wait);
	return rc ? spw_err(-rc, "%s: %s", root, strerror(-rc)) : 0;
}

/* ---- calls ---- */

int spw_coll_tcp_open(const char *root, uint32_t rank, uint32_t rank_cnt, uint32_t timeout_ms,
		      struct spw_coll_tcp **tcp_out)
{
	struct spw_coll_tcp *t;
	int rc;

	*tcp_out = NULL;
	if (!spw_in_range(rank_cnt, 2, SPW_COLL_RANK_MAX) || rank >= rank_cnt)
		return spw_err(EINVAL, "rank %u of %u: 2 .. %u ranks, numbered from 0", rank,
			       rank_cnt, SPW_COLL_RANK_MAX);
	t = malloc(sizeof(*t));
	if (!t)
		return spw_err(ENOMEM, "no memory for an exchange");
	*t = (struct spw_coll_tcp){.rank = rank, .rank_cnt = rank_cnt, .timeout_ms = timeout_ms};
	for (uint32_t i = 0; i < SPW_COLL_RANK_MAX; i++)
		t->fd[i] = -1;
	rc = rank ? reach(t, root) : gather(t, root);
	if (rc) {
		spw_coll_tcp_close(t);
		return rc;
	}
	*tcp_out = t;
	return 0;
}

static int collect(struct spw_coll_tcp *t, void *all, size_t bytes, struct coll_wait *wait)
{
	uint32_t rank = 1;
	int rc = 0;

	for (; rank < t->rank_cnt && !rc; rank++) {
		struct head h;

		rc = move(t->fd[rank], &h, sizeof(h), false, wait);
		if (!rc && (h.magic != MAGIC || h.bytes != bytes))
			rc = -EPROTO;
		rc = rc ? rc : move(t->fd[rank], (uint8_t *)all + rank * bytes, bytes, false, wait);
	}
	if (rc)
		return spw_err(-rc, "from rank %u: %s", rank - 1, strerror(-rc));
	for (rank = 1; rank < t->rank_cnt && !rc; rank++)
		rc = move(t->fd[rank], all, t->rank_cnt * bytes, true, wait);
	return rc ? spw_err(-rc, "to rank %u: %s", rank - 1, strerror(-rc)) : 0;
}

static int hand_in(struct spw_coll_tcp *t, const void *mine, void *all, size_t bytes,
		   struct coll_wait *wait)
{
	struct head h = {
		.magic = MAGIC, .rank = t->rank, .rank_cnt = t->rank_cnt, .bytes = (uint32_t)bytes};
	int rc = move(t->fd[0], &h, sizeof(h), true, wait);

	rc = rc ? rc : move(t->fd[0], (void *)(uintptr_t)mine, bytes, true, wait);
	rc = rc ? rc : move(t->fd[0], all, t->rank_cnt * bytes, false, wait);
	return rc ? spw_err(-rc, "with rank 0: %s", strerror(-rc)) : 0;
}

int spw_coll_tcp_exchange(void *arg, const void *mine, void *all, size_t bytes)
{
	struct spw_coll_tcp *t = arg;
	struct coll_wait wait = wait_of_ms(t->timeout_ms);

	if (t->rank)
		return hand_in(t, mine, all, bytes, &wait);
	memcpy(all, mine, bytes);
	return collect(t, all, bytes, &wait);
}

void spw_coll_tcp_close(struct spw_coll_tcp *tcp)
{
	if (!tcp)
		return;
	for (uint32_t i = 0; i < SPW_COLL_RANK_MAX; i++)
		if (tcp->fd[i] >= 0)
			close(tcp->fd[i]);
	free(tcp);
}
