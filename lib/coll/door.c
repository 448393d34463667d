/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * How rank 0 of an exchange over TCP lets ranks in (tcp.c has the messages): the first message of a
 * connection (oob/spw_oob_door.h) says which rank it is.
 *
 *   guest (its secret is proved) ─► judged: count of ranks, its number, is the place free?
 *     a place     ─► answered with an empty message; its channel is that rank's
 *     else        ─► answered with the reason, and closed; it may come again
 *
 * Called once, by spw_coll_tcp_open of rank 0, which waits here until all ranks have a place or its
 * time is over. Whoever was refused is counted: if a rank is missing at the end, the last reason is
 * likely the cause, and stands in the message.
 */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "base/spw_monotonic.h"
#include "coll/tcp.h"
#include "oob/spw_oob_door.h"

#define HALF_MAX 32u
#define JOIN_MS  2000u

/* What rank 0 has while ranks come. */
struct coll_door {
	struct spw_coll_tcp *t;
	struct spw_oob_door *door;
	uint32_t refused;
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

/* The first address of root that this host has. */
static int coll_door_listen(const char *root, struct coll_door *d)
{
	struct spw_oob_host host;
	int rc = spw_oob_host_resolve(root, NULL, true, &host);
	uint32_t i = 0;

	if (rc)
		return rc;
	for (rc = -EADDRNOTAVAIL; rc && i < host.addr_cnt; i++)
		rc = spw_oob_door_listen(d->door, &host.addr[i]);
	if (rc)
		return spw_err(-rc, "%s: %s", root, strerror(-rc));
	coll_door_warn(d->t, &host.addr[i - 1]);
	return 0;
}

static void SPW_PRINTF(3, 4)
	coll_door_refuse(struct coll_door *d, const struct sockaddr_in6 *from, const char *fmt, ...)
{
	char why[COLL_WHY_BYTES / 2], text[64];
	va_list args;

	va_start(args, fmt);
	vsnprintf(why, sizeof(why), fmt, args);
	va_end(args);
	d->refused++;
	snprintf(d->why, sizeof(d->why), "%s: %s",
		 from->sin6_family ? spw_oob_addr_text(from, text) : "a stranger", why);
}

/* That a connection ended says nothing of who is wrong: reasons that were found before stay. */
static void coll_door_left(struct coll_door *d, const struct sockaddr_in6 *from)
{
	if (!d->why[0])
		coll_door_refuse(d, from, "it left before it had joined");
}

/* A rank that gave up has closed its connection: its next attempt needs the place. */
static bool coll_rank_is_here(const struct spw_coll_tcp *t, uint32_t rank)
{
	return t->rank_ch[rank].fd >= 0 && !spw_oob_channel_is_closed(&t->rank_ch[rank]);
}

/* Returns: the first rank that is not here; rank_cnt: all are. */
static uint32_t coll_door_absent(const struct spw_coll_tcp *t)
{
	uint32_t rank = 1;

	while (rank < t->rank_cnt && coll_rank_is_here(t, rank))
		rank++;
	return rank;
}

/* Why this rank gets no place; "": it does. A place whose owner has left is free. */
static void coll_door_judge(const struct coll_door *d, uint32_t rank, uint32_t rank_cnt,
			    char why[COLL_WHY_BYTES])
{
	*why = '\0';
	if (rank_cnt != d->t->rank_cnt)
		snprintf(why, COLL_WHY_BYTES, "rank %u counts %u ranks, rank 0 counts %u", rank,
			 rank_cnt, d->t->rank_cnt);
	else if (!spw_in_range(rank, 1, rank_cnt - 1))
		snprintf(why, COLL_WHY_BYTES, "rank %u of %u: numbered from 0, which is another",
			 rank, rank_cnt);
	else if (coll_rank_is_here(d->t, rank))
		snprintf(why, COLL_WHY_BYTES, "two ranks have the number %u", rank);
}

/* The answer is not waited for: a few bytes find room in a new socket, or the rank tries again. */
static void coll_door_seat(struct coll_door *d, struct spw_oob_guest *guest)
{
	struct coll_wait wait = coll_tcp_wait(0);
	struct coll_join_msg join;
	char why[COLL_WHY_BYTES];
	uint32_t rank;

	memcpy(&join, guest->first, sizeof(join));
	rank = spw_be32_to_cpu(join.rank);
	coll_door_judge(d, rank, spw_be32_to_cpu(join.rank_cnt), why);
	if (coll_tcp_send(&guest->ch, why, strlen(why), &wait) && !why[0]) {
		coll_door_left(d, &guest->from);
	} else if (why[0]) {
		coll_door_refuse(d, &guest->from, "%s", why);
	} else {
		coll_tcp_shut(&d->t->rank_ch[rank]);
		d->t->rank_ch[rank] = guest->ch;
		return;
	}
	coll_tcp_shut(&guest->ch);
}

/* One guest, or one reason why somebody did not become one. */
static void coll_door_take(struct coll_door *d, int rc, struct spw_oob_guest *guest)
{
	char why[SPW_OOB_REASON_BYTES];

	if (!rc && guest->len == sizeof(struct coll_join_msg)) {
		coll_door_seat(d, guest);
		return;
	}
	if (!rc)
		coll_tcp_shut(&guest->ch);
	if (!guest->from.sin6_family) /* of this process, likely: no descriptors */
		coll_door_refuse(d, &guest->from, "not accepted: %s", strerror(-rc));
	else if (rc == -ECONNRESET)
		coll_door_left(d, &guest->from);
	else if (rc == -EBUSY)
		coll_door_refuse(d, &guest->from, "it did not join before %u others came",
				 HALF_MAX);
	else if (rc == -ETIMEDOUT)
		coll_door_refuse(d, &guest->from, "it did not join within %u ms", JOIN_MS);
	else
		coll_door_refuse(d, &guest->from, "%s",
				 spw_oob_channel_reason(&guest->ch, rc ? rc : -EPROTO, why));
}

/* Looks at all connections at least as often as their own limits want it. */
static int coll_door_turn(struct coll_door *d, struct coll_wait *wait)
{
	struct pollfd p = {.fd = spw_oob_door_fd(d->door), .events = POLLIN};
	const bool over = coll_wait_is_over(wait, spw_monotonic_ns());
	const uint64_t sleep_ms = coll_wait_sleep_ns(wait) / 1000000 + 1;
	struct spw_oob_guest guest;
	int rc;

	if (poll(&p, 1, (int)SPW_MIN(sleep_ms, JOIN_MS / 8ull)) < 0 && errno != EINTR)
		return -errno;
	while ((rc = spw_oob_door_turn(d->door, spw_monotonic_ms(), &guest)) != -EAGAIN)
		coll_door_take(d, rc, &guest);
	return over ? -ETIMEDOUT : 0;
}

/* Errors: -ETIMEDOUT with the first rank that is absent. */
static int coll_door_wait(struct coll_door *d, const char *root)
{
	const struct spw_coll_tcp *t = d->t;
	struct coll_wait wait = coll_tcp_wait(t->timeout_ms);
	int rc = 0;

	while (!rc && coll_door_absent(t) < t->rank_cnt)
		rc = coll_door_turn(d, &wait);
	if (coll_door_absent(t) == t->rank_cnt)
		return 0;
	rc = spw_err(-rc, "rank %u did not come to %s within %u ms", coll_door_absent(t), root,
		     t->timeout_ms);
	return d->refused ? spw_err(-rc, "%s; %u others were turned away, the last was %s",
				    spw_err_text(), d->refused, d->why)
			  : rc;
}

int coll_door_gather(struct spw_coll_tcp *t, const char *root)
{
	const struct spw_oob_door_conf conf = {.proto = &coll_tcp_proto,
					       .secret = &t->secret,
					       .seat_cnt = HALF_MAX,
					       .first_ms = JOIN_MS};
	struct coll_door d = {.t = t};
	int rc = spw_oob_door_open(&conf, &d.door);

	rc = rc ? rc : coll_door_listen(root, &d);
	rc = rc ? rc : coll_door_wait(&d, root);
	spw_oob_door_close(d.door);
	return rc;
}
