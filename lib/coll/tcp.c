/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * An exchange over TCP, for programs without a store: a star around rank 0. Every message is one of
 * oob/spw_oob_channel.h, so with a secret only those who know it are ranks.
 *
 *   rank i   join: its number, count of ranks   ──►  rank 0
 *            empty: welcome; else why not       ◄──
 *            its blob                           ──►
 *            all blobs, in the order of ranks   ◄──
 *
 * door.c lets ranks in. A rank that was not welcomed tries again until its own limit: strangers may
 * have been in its way.
 * Set-up code: it waits in poll(2), never longer than the limit that the caller gave.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "base/spw_monotonic.h"
#include "coll/tcp.h"

#define CONNECT_MS 2000u
#define TIMEOUT_MS 20000u
#define RETRY_NS   20000000u

/* ---- waiting ---- */

/* Waits once. Errors: -ETIMEDOUT, of poll(2); without a text. */
static int tcp_wait(int fd, short what, struct coll_wait *wait)
{
	struct pollfd p = {.fd = fd, .events = what};
	bool over = false;
	int rc = 0;

	while (!rc && !over) {
		over = coll_wait_is_over(wait, spw_monotonic_ns());
		rc = poll(&p, 1, (int)((coll_wait_sleep_ns(wait) + 999999) / 1000000));
	}
	return rc > 0 ? 0 : rc == 0 ? -ETIMEDOUT : errno == EINTR ? 0 : -errno;
}

/* The channel's calls never wait: these wrappers wait between their -EAGAIN. */
static int tcp_greet(struct spw_oob_channel *ch, struct coll_wait *wait)
{
	int rc;

	while ((rc = spw_oob_channel_greet(ch)) == -EAGAIN &&
	       !(rc = tcp_wait(ch->fd, POLLIN, wait)))
		;
	return rc;
}

int coll_tcp_send(struct spw_oob_channel *ch, const void *bytes, size_t len, struct coll_wait *wait)
{
	int rc;

	while ((rc = spw_oob_channel_send(ch, bytes, (uint32_t)len)) == -EAGAIN &&
	       !(rc = tcp_wait(ch->fd, POLLOUT, wait)))
		;
	return rc;
}

static int tcp_receive(struct spw_oob_channel *ch, void *bytes, size_t max, uint32_t *len_out,
		       struct coll_wait *wait)
{
	int rc;

	while ((rc = spw_oob_channel_receive(ch, bytes, (uint32_t)max, len_out)) == -EAGAIN &&
	       !(rc = tcp_wait(ch->fd, POLLIN, wait)))
		;
	return rc;
}

/* A message of another length than was agreed on is another protocol. */
static int tcp_receive_all(struct spw_oob_channel *ch, void *bytes, size_t len,
			   struct coll_wait *wait)
{
	uint32_t got;
	int rc = tcp_receive(ch, bytes, len, &got, wait);

	return rc ? rc : got == len ? 0 : -EPROTO;
}

void coll_tcp_shut(struct spw_oob_channel *ch)
{
	if (ch->fd >= 0)
		close(ch->fd);
	ch->fd = -1;
}

/* An error with a rank in words. */
static int tcp_error(const struct spw_oob_channel *ch, int rc, const char *with, uint32_t rank)
{
	char why[SPW_OOB_REASON_BYTES];

	return spw_err(-rc, "%s rank %u: %s", with, rank, spw_oob_channel_reason(ch, rc, why));
}

/* ---- the others ---- */

/* While nobody listens on a port that the kernel also gives to clients, TCP may connect a socket to
 * itself. Rank 0 would then be found, and never answer. */
static bool tcp_is_itself(int fd)
{
	struct sockaddr_storage own = {0}, far = {0};
	socklen_t own_len = sizeof(own), far_len = sizeof(far);

	return !getsockname(fd, (struct sockaddr *)&own, &own_len) &&
	       !getpeername(fd, (struct sockaddr *)&far, &far_len) &&
	       !memcmp(&own, &far, sizeof(own));
}

/* Connects once. Returns: 0; -EAGAIN: rank 0 may not listen yet. */
static int tcp_connect_once(const struct spw_oob_host *host, struct coll_wait *whole, int *fd_out)
{
	for (uint32_t i = 0; i < host->addr_cnt; i++) {
		struct coll_wait wait =
			coll_tcp_wait(SPW_MIN(whole->left_ns / 1000000, CONNECT_MS));
		int fd = spw_oob_socket_connect(&host->addr[i]);

		if (fd < 0)
			continue;
		if (!tcp_wait(fd, POLLOUT, &wait) && !spw_oob_socket_connected(fd) &&
		    !tcp_is_itself(fd)) {
			*fd_out = fd;
			return 0;
		}
		close(fd);
	}
	return -EAGAIN;
}

/* Returns: 0: this rank has its place; -EAGAIN: it may have been turned away for others' sake;
 * other errors have a text. */
static int tcp_join_once(struct spw_coll_tcp *t, const char *root, int fd, struct coll_wait *wait)
{
	const struct coll_join_msg join = {spw_cpu_to_be32(t->rank), spw_cpu_to_be32(t->rank_cnt)};
	struct spw_oob_channel *ch = &t->rank_ch[0];
	char why[COLL_WHY_BYTES];
	uint32_t len = 0;
	int rc = spw_oob_channel_begin(ch, fd, true, &t->secret, &coll_tcp_proto);

	rc = rc ? rc : tcp_greet(ch, wait);
	rc = rc ? rc : coll_tcp_send(ch, &join, sizeof(join), wait);
	rc = rc ? rc : tcp_receive(ch, why, sizeof(why), &len, wait);
	if (!rc && !len)
		return 0;
	coll_tcp_shut(ch);
	if (!rc)
		return spw_err(EPROTO, "rank 0 at %s: %.*s", root, (int)len, why);
	if (rc == -EACCES || rc == -EPROTO || rc == -EMSGSIZE || rc == -EPROTONOSUPPORT)
		return spw_err(-rc, "%s: %s", root, spw_oob_channel_reason(ch, rc, why));
	return -EAGAIN;
}

/* Ranks start in any order: until the time is over a refused connection is no error. */
static int tcp_reach(struct spw_coll_tcp *t, const char *root)
{
	const struct timespec nap = {.tv_nsec = RETRY_NS};
	struct coll_wait wait = coll_tcp_wait(t->timeout_ms);
	struct spw_oob_host host;
	bool met = false, over = false;
	int fd, rc = spw_oob_host_resolve(root, NULL, false, &host);

	if (rc)
		return rc;
	do {
		rc = tcp_connect_once(&host, &wait, &fd);
		met |= !rc;
		rc = rc ? rc : tcp_join_once(t, root, fd, &wait);
		over = coll_wait_is_over(&wait, spw_monotonic_ns());
	} while (rc == -EAGAIN && !over && !nanosleep(&nap, NULL));
	if (rc != -EAGAIN)
		return rc;
	return met ? spw_err(EACCES,
			     "who listens on %s gave no place within %u ms: is it rank 0, with the "
			     "same secret?",
			     root, t->timeout_ms)
		   : spw_err(ETIMEDOUT, "rank 0 does not listen on %s after %u ms", root,
			     t->timeout_ms);
}

/* ---- calls ---- */

int spw_coll_tcp_open(const struct spw_coll_tcp_conf *conf, struct spw_coll_tcp **tcp_out)
{
	struct spw_coll_tcp *t;
	int rc;

	*tcp_out = NULL;
	if (!spw_in_range(conf->rank_cnt, 2, SPW_COLL_RANK_MAX) || conf->rank >= conf->rank_cnt)
		return spw_err(EINVAL, "rank %u of %u: 2 .. %u ranks, numbered from 0", conf->rank,
			       conf->rank_cnt, SPW_COLL_RANK_MAX);
	t = malloc(sizeof(*t));
	if (!t)
		return spw_err(ENOMEM, "no memory for an exchange");
	*t = (struct spw_coll_tcp){.rank = conf->rank,
				   .rank_cnt = conf->rank_cnt,
				   .timeout_ms = conf->timeout_ms ? conf->timeout_ms : TIMEOUT_MS};
	for (uint32_t i = 0; i < SPW_COLL_RANK_MAX; i++)
		t->rank_ch[i].fd = -1;
	rc = conf->secret ? spw_oob_secret_read(conf->secret, &t->secret) : 0;
	rc = rc ? rc : t->rank ? tcp_reach(t, conf->root) : coll_door_gather(t, conf->root);
	if (rc) {
		spw_coll_tcp_close(t);
		return rc;
	}
	*tcp_out = t;
	return 0;
}

/* Rank 0's part. The loop has gone on by one when an error ends it: the rank is the one before. */
static int tcp_collect(struct spw_coll_tcp *t, void *all, size_t bytes, struct coll_wait *wait)
{
	uint32_t rank = 1;
	int rc = 0;

	for (; rank < t->rank_cnt && !rc; rank++)
		rc = tcp_receive_all(&t->rank_ch[rank], (uint8_t *)all + rank * bytes, bytes, wait);
	if (rc)
		return tcp_error(&t->rank_ch[rank - 1], rc, "from", rank - 1);
	for (rank = 1; rank < t->rank_cnt && !rc; rank++)
		rc = coll_tcp_send(&t->rank_ch[rank], all, t->rank_cnt * bytes, wait);
	return rc ? tcp_error(&t->rank_ch[rank - 1], rc, "to", rank - 1) : 0;
}

/* A rank's part: its own blob out, all blobs back. */
static int tcp_submit(struct spw_coll_tcp *t, const void *mine, void *all, size_t bytes,
		      struct coll_wait *wait)
{
	int rc = coll_tcp_send(&t->rank_ch[0], mine, bytes, wait);

	rc = rc ? rc : tcp_receive_all(&t->rank_ch[0], all, t->rank_cnt * bytes, wait);
	return rc ? tcp_error(&t->rank_ch[0], rc, "with", 0) : 0;
}

/* Each exchange has its own time limit. May be called more than once, by all ranks alike. */
int spw_coll_tcp_exchange(void *arg, const void *mine, void *all, size_t bytes)
{
	struct spw_coll_tcp *t = arg;
	struct coll_wait wait = coll_tcp_wait(t->timeout_ms);

	if (t->rank)
		return tcp_submit(t, mine, all, bytes, &wait);
	memcpy(all, mine, bytes);
	return tcp_collect(t, all, bytes, &wait);
}

void spw_coll_tcp_close(struct spw_coll_tcp *tcp)
{
	if (!tcp)
		return;
	for (uint32_t i = 0; i < SPW_COLL_RANK_MAX; i++)
		coll_tcp_shut(&tcp->rank_ch[i]);
	spw_oob_secret_wipe(&tcp->secret);
	free(tcp);
}
