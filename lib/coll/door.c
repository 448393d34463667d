/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * How rank 0 of an exchange over TCP lets ranks in (tcp.c has the messages). A connection that does
 * not join within JOIN_MS is closed, at the latest when HALF_MAX newer ones have come. None is
 * waited for alone, so strangers cost descriptors and no time.
 */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "coll/tcp.h"

#define HALF_MAX 32u
#define JOIN_MS  2000u

/* A connection to rank 0 that has not joined. */
struct half {
	struct spw_oob_channel ch; /* fd -1: none */
	struct coll_join_msg join;
	struct coll_wait wait;
	char from[64];
};

/* What rank 0 has while ranks come. */
struct door {
	struct spw_coll_tcp *t;
	int fd;
	struct half half[HALF_MAX];
	uint32_t next; /* half that the next connection takes: the oldest */
	uint32_t turned_away;
	char why[COLL_WHY_BYTES]; /* the last one was */
};

static void coll_door_warn(const struct spw_coll_tcp *t, const struct sockaddr_in6 *at)
{
	char text[64];

	if (!t->secret.len && !spw_oob_addr_is_loopback(&at->sin6_addr))
		spw_warn("coll: rank 0 listens on %s without a secret: whoever reaches that port "
			 "first may take a rank's place; give all ranks a file of the same secret",
			 spw_oob_addr_text(at, text));
}

static int coll_door_listen(const char *root, struct door *d)
{
	struct addrinfo *list;
	struct sockaddr_in6 at;
	int rc = coll_tcp_resolve(root, true, &list);

	if (rc)
		return rc;
	d->fd = -EADDRNOTAVAIL;
	for (struct addrinfo *a = list; a && d->fd < 0; a = a->ai_next)
		if (coll_tcp_address(a, &at))
			d->fd = spw_oob_socket_listen(&at);
	freeaddrinfo(list);
	if (d->fd < 0)
		return spw_err(-d->fd, "%s: %s", root, strerror(-d->fd));
	coll_door_warn(d->t, &at);
	return 0;
}

static void SPW_PRINTF(3, 4) coll_half_refuse(struct door *d, struct half *h, const char *fmt, ...)
{
	char why[COLL_WHY_BYTES / 2];
	va_list args;

	va_start(args, fmt);
	vsnprintf(why, sizeof(why), fmt, args);
	va_end(args);
	d->turned_away++;
	snprintf(d->why, sizeof(d->why), "%s: %s", h->from, why);
	coll_tcp_shut(&h->ch);
}

/* Says nothing of who is wrong: reasons that were found before stay. */
static void coll_half_part(struct door *d, struct half *h)
{
	if (d->why[0])
		coll_tcp_shut(&h->ch);
	else
		coll_half_refuse(d, h, "it left before it had joined");
}

/* The oldest unfinished connection makes room for a new one. */
static void coll_door_admit(struct door *d, int fd, const struct sockaddr_in6 *from)
{
	struct half *h = &d->half[d->next];
	int rc;

	if (h->ch.fd >= 0)
		coll_half_refuse(d, h, "it did not join before %u others came", HALF_MAX);
	d->next = (d->next + 1) % HALF_MAX;
	h->wait = coll_tcp_wait(JOIN_MS);
	spw_oob_addr_text(from, h->from);
	rc = spw_oob_channel_begin(&h->ch, fd, false, &d->t->secret);
	if (rc)
		coll_half_refuse(d, h, "%s", strerror(-rc));
}

static bool is_here(const struct spw_coll_tcp *t, uint32_t rank)
{
	return t->rank_ch[rank].fd >= 0 && !spw_oob_channel_is_closed(&t->rank_ch[rank]);
}

/* Returns: the first rank that is not here; rank_cnt: all are. */
static uint32_t coll_door_absent(const struct spw_coll_tcp *t)
{
	uint32_t rank = 1;

	while (rank < t->rank_cnt && is_here(t, rank))
		rank++;
	return rank;
}

/* Whose place it wants, and whether it gets it. A place whose owner has gone is free. */
static void coll_half_seat(struct door *d, struct half *h)
{
	const uint32_t rank = spw_be32_to_cpu(h->join.rank);
	const uint32_t rank_cnt = spw_be32_to_cpu(h->join.rank_cnt);
	struct coll_wait wait = coll_tcp_wait(0);
	char why[COLL_WHY_BYTES] = "";
	struct spw_oob_channel *place;

	if (rank_cnt != d->t->rank_cnt)
		snprintf(why, sizeof(why), "rank %u counts %u ranks, rank 0 counts %u", rank,
			 rank_cnt, d->t->rank_cnt);
	else if (!spw_in_range(rank, 1, rank_cnt - 1))
		snprintf(why, sizeof(why), "rank %u of %u: numbered from 0, which is another", rank,
			 rank_cnt);
	else if (is_here(d->t, rank))
		snprintf(why, sizeof(why), "two ranks have the number %u", rank);
	if (coll_tcp_say(&h->ch, why, strlen(why), &wait) && !why[0]) {
		coll_half_part(d, h);
		return;
	}
	if (why[0]) {
		coll_half_refuse(d, h, "%s", why);
		return;
	}
	place = &d->t->rank_ch[rank];
	coll_tcp_shut(place);
	*place = h->ch;
	h->ch.fd = -1;
}

static void coll_half_turn(struct door *d, struct half *h)
{
	uint32_t len;
	int rc = spw_oob_channel_receive(&h->ch, &h->join, sizeof(h->join), &len);

	if (rc == -EAGAIN) {
		if (coll_wait_is_over(&h->wait, coll_now_ns()))
			coll_half_refuse(d, h, "it did not join within %u ms", JOIN_MS);
	} else if (rc == -ECONNRESET) {
		coll_half_part(d, h);
	} else if (rc == -EACCES) {
		spw_oob_channel_deny(&h->ch);
		coll_half_refuse(d, h, "%s", coll_tcp_reason(rc));
	} else if (rc || len != sizeof(h->join)) {
		coll_half_refuse(d, h, "%s",
				 rc ? coll_tcp_reason(rc) : "it speaks another protocol");
	} else {
		coll_half_seat(d, h);
	}
}

/* Looks at all connections at least as often as their own limits want it. */
static int door_turn(struct door *d, struct coll_wait *wait)
{
	const struct timespec nap = {.tv_nsec = COLL_RETRY_NS};
	struct pollfd p[1 + HALF_MAX] = {{.fd = d->fd, .events = POLLIN}};
	const bool over = coll_wait_is_over(wait, coll_now_ns());
	struct sockaddr_in6 from;
	int fd = 0;

	for (uint32_t i = 0; i < HALF_MAX; i++)
		p[1 + i] = (struct pollfd){.fd = d->half[i].ch.fd, .events = POLLIN};
	if (poll(p, SPW_ARRAY_CNT(p),
		 (int)SPW_MIN(coll_wait_sleep_ns(wait) / 1000000 + 1, JOIN_MS / 8ull)) < 0 &&
	    errno != EINTR)
		return -errno;
	for (uint32_t i = 0; i < HALF_MAX; i++)
		if (d->half[i].ch.fd >= 0)
			coll_half_turn(d, &d->half[i]);
	for (uint32_t i = 0; i < HALF_MAX && (fd = spw_oob_socket_accept(d->fd, &from)) >= 0; i++)
		coll_door_admit(d, fd, &from);
	if (p[0].revents && fd < 0 && fd != -EAGAIN) { /* of this process, likely: no descriptors */
		snprintf(d->why, sizeof(d->why), "not accepted: %s", strerror(-fd));
		d->turned_away++;
		nanosleep(&nap, NULL);
	}
	return over ? -ETIMEDOUT : 0;
}

int coll_door_gather(struct spw_coll_tcp *t, const char *root)
{
	struct coll_wait wait = coll_tcp_wait(t->timeout_ms);
	struct door d = {.t = t};
	int rc = coll_door_listen(root, &d);

	if (rc)
		return rc;
	for (uint32_t i = 0; i < HALF_MAX; i++)
		d.half[i].ch.fd = -1;
	while (!rc && coll_door_absent(t) < t->rank_cnt)
		rc = door_turn(&d, &wait);
	for (uint32_t i = 0; i < HALF_MAX; i++)
		coll_tcp_shut(&d.half[i].ch);
	close(d.fd);
	if (coll_door_absent(t) == t->rank_cnt)
		return 0;
	rc = spw_err(-rc, "rank %u did not come to %s within %u ms", coll_door_absent(t), root,
		     t->timeout_ms);
	return d.turned_away ? spw_err(-rc, "%s; %u others were turned away, the last was %s",
				       spw_err_text(), d.turned_away, d.why)
			     : rc;
}
