/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Lets strangers in (spw_oob_door.h). An epoll descriptor has the listener and all connections, so
 * that the owner waits for one descriptor, and a turn costs what has arrived. A closed socket
 * leaves the epoll set by itself; one that is handed over is taken out.
 *
 *   epoll: listeners  ─► accept ─► a seat (seat_choose), perhaps another's
 *          connection ─► its first message, whole and proved ─► guest: the caller's
 *                        anything else ─► closed, and the reason returned
 *   nothing readable  ─► deadlines of the seats
 *
 * Owners: a port's control thread (peer/turn.c), a listener of lib/xfer (xfer/setup/listen.c), rank
 * 0 of an exchange over TCP (coll/door.c) and spinwire-perf. What follows the first message is
 * theirs.
 */
#include "oob/spw_oob_door.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "oob/spw_oob_socket.h"

#define STEPS_MAX 64u              /* of one turn, so that a flood leaves the owner its thread */
#define LISTENER  SPW_OOB_SEAT_MAX /* and above: the number of a listener */

/* A place in the table of unfinished exchanges. */
struct door_seat {
	bool taken;
	uint64_t order; /* of its arrival */
	uint64_t until_ms;
	struct in6_addr host;
};

/* A connection in a seat, until its first message is whole. */
struct door_half {
	struct spw_oob_channel ch;
	struct sockaddr_in6 from;
	uint8_t first[SPW_OOB_FIRST_MAX];
};

struct spw_oob_door {
	struct spw_oob_door_conf conf;
	int epoll_fd;
	int listen_fd[SPW_OOB_LISTEN_MAX];
	uint32_t listen_cnt, taken_cnt;
	uint64_t order;     /* connections so far */
	uint64_t resume_ms; /* accept(2) failed: the next attempt; 0: it did not */
	struct door_seat seat[SPW_OOB_SEAT_MAX];
	struct door_half half[SPW_OOB_SEAT_MAX];
};

/* ---- open and close ---- */

/* Events carry the number of a seat, or LISTENER and that of a listener. */
static int door_watch(const struct spw_oob_door *d, int fd, int op, uint32_t events, uint32_t idx)
{
	struct epoll_event ev = {.events = events, .data.u32 = idx};

	return epoll_ctl(d->epoll_fd, op, fd, &ev) ? -errno : 0;
}

int spw_oob_door_open(const struct spw_oob_door_conf *conf, struct spw_oob_door **door_out)
{
	struct spw_oob_door *d = calloc(1, sizeof(*d));

	*door_out = NULL;
	if (!d)
		return spw_err(ENOMEM, "no memory for a listener");
	d->conf = *conf;
	d->conf.host_max = conf->host_max ? conf->host_max : conf->seat_cnt;
	d->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (d->epoll_fd < 0) {
		free(d);
		return spw_err(errno, "epoll_create1: %s", strerror(errno));
	}
	*door_out = d;
	return 0;
}

int spw_oob_door_listen(struct spw_oob_door *d, struct sockaddr_in6 *addr)
{
	const uint32_t n = d->listen_cnt;
	const int fd = n < SPW_OOB_LISTEN_MAX ? spw_oob_socket_listen(addr) : -ENOSPC;
	int rc;

	if (fd < 0)
		return fd;
	rc = door_watch(d, fd, EPOLL_CTL_ADD, EPOLLIN, LISTENER + n);
	if (rc)
		close(fd);
	else
		d->listen_fd[d->listen_cnt++] = fd;
	return rc;
}

void spw_oob_door_close(struct spw_oob_door *d)
{
	if (!d)
		return;
	for (uint32_t i = 0; i < d->conf.seat_cnt; i++)
		if (d->seat[i].taken)
			close(d->half[i].ch.fd);
	for (uint32_t i = 0; i < d->listen_cnt; i++)
		close(d->listen_fd[i]);
	close(d->epoll_fd);
	free(d);
}

int spw_oob_door_fd(const struct spw_oob_door *d)
{
	return d->epoll_fd;
}

uint64_t spw_oob_door_due_ms(const struct spw_oob_door *d)
{
	uint64_t due_ms = d->resume_ms ? d->resume_ms : UINT64_MAX;

	for (uint32_t i = 0; d->taken_cnt && i < d->conf.seat_cnt; i++)
		if (d->seat[i].taken)
			due_ms = SPW_MIN(due_ms, d->seat[i].until_ms);
	return due_ms;
}

/* ---- seats ---- */

/* The seat of a newcomer: a free one, or that of the oldest. A host with its share takes its own
 * oldest, so that one host with many connections cannot push out the others. */
static uint32_t seat_choose(const struct spw_oob_door *d, const struct in6_addr *host)
{
	const uint32_t cnt = d->conf.seat_cnt;
	uint32_t unused = cnt, oldest = cnt, oldest_here = cnt, here = 0;

	for (uint32_t i = 0; i < cnt; i++) {
		const struct door_seat *s = &d->seat[i];
		const bool same = s->taken && spw_oob_addr_same_host(&s->host, host);

		here += same;
		if (!s->taken)
			unused = SPW_MIN(unused, i);
		else if (oldest == cnt || s->order < d->seat[oldest].order)
			oldest = i;
		if (same && (oldest_here == cnt || s->order < d->seat[oldest_here].order))
			oldest_here = i;
	}
	return here >= d->conf.host_max ? oldest_here : unused < cnt ? unused : oldest;
}

/* What the caller gets of the connection in a seat, which it leaves. */
static void seat_leave(struct spw_oob_door *d, uint32_t i, struct spw_oob_guest *guest)
{
	guest->from = d->half[i].from;
	guest->ch = d->half[i].ch;
	guest->until_ms = d->seat[i].until_ms;
	d->seat[i].taken = false;
	d->taken_cnt--;
}

/* Closes the connection in a seat. Returns: error, for the caller. */
static int door_refuse(struct spw_oob_door *d, uint32_t i, int error, struct spw_oob_guest *guest)
{
	seat_leave(d, i, guest);
	close(guest->ch.fd);
	guest->ch.fd = -1;
	return error;
}

/* Returns: -EAGAIN, or why somebody was refused. */
static int door_admit(struct spw_oob_door *d, int fd, uint64_t now_ms, struct spw_oob_guest *guest)
{
	const struct sockaddr_in6 from = guest->from; /* of the newcomer */
	const uint32_t i = seat_choose(d, &from.sin6_addr);
	int rc, evicted = -EAGAIN;

	if (d->seat[i].taken)
		evicted = door_refuse(d, i, -EBUSY, guest);
	d->seat[i] = (struct door_seat){.taken = true,
					.order = d->order++,
					.until_ms = now_ms + d->conf.first_ms,
					.host = from.sin6_addr};
	d->taken_cnt++;
	d->half[i].from = from;
	rc = spw_oob_channel_begin(&d->half[i].ch, fd, false, d->conf.secret, d->conf.proto);
	rc = rc ? rc : door_watch(d, fd, EPOLL_CTL_ADD, EPOLLIN, i);
	if (rc)
		rc = door_refuse(d, i, rc, guest);
	return rc ? rc : evicted;
}

/* ---- a turn ---- */

/* resume_ms 0: goes on; else pauses until then. */
static void door_pause(struct spw_oob_door *d, uint64_t resume_ms)
{
	d->resume_ms = resume_ms;
	for (uint32_t i = 0; i < d->listen_cnt; i++)
		(void)door_watch(d, d->listen_fd[i], EPOLL_CTL_MOD, resume_ms ? 0 : EPOLLIN,
				 LISTENER + i);
}

/* After an error of this process whoever waits would be reported again at once: a pause. */
static int door_accept(struct spw_oob_door *d, int listen_fd, uint64_t now_ms,
		       struct spw_oob_guest *guest)
{
	int fd = spw_oob_socket_accept(listen_fd, &guest->from);

	if (fd == -EAGAIN)
		return fd;
	if (fd < 0) {
		door_pause(d, now_ms + SPW_OOB_RETRY_MS);
		memset(&guest->from, 0, sizeof(guest->from));
		return fd;
	}
	if (!d->conf.allow_cnt ||
	    spw_oob_prefix_has(d->conf.allow, d->conf.allow_cnt, &guest->from.sin6_addr))
		return door_admit(d, fd, now_ms, guest);
	close(fd);
	guest->ch.fd = -1;
	return -EPERM;
}

/* Returns: 0: the guest is the caller's; -EAGAIN: not whole yet; else why it was refused. */
static int door_receive(struct spw_oob_door *d, uint32_t i, struct spw_oob_guest *guest)
{
	struct door_half *h = &d->half[i];
	int rc = spw_oob_channel_receive(&h->ch, h->first, sizeof(h->first), &guest->len);

	if (rc == -EAGAIN)
		return rc;
	if (rc == -EACCES)
		spw_oob_channel_deny(&h->ch);
	if (rc)
		return door_refuse(d, i, rc, guest);
	(void)door_watch(d, h->ch.fd, EPOLL_CTL_DEL, 0, i);
	memcpy(guest->first, h->first, guest->len);
	seat_leave(d, i, guest);
	return 0;
}

/* One seat for each call: the caller calls again until -EAGAIN. */
static int door_expire(struct spw_oob_door *d, uint64_t now_ms, struct spw_oob_guest *guest)
{
	for (uint32_t i = 0; d->taken_cnt && i < d->conf.seat_cnt; i++)
		if (d->seat[i].taken && now_ms >= d->seat[i].until_ms)
			return door_refuse(d, i, -ETIMEDOUT, guest);
	return -EAGAIN;
}

/* Deadlines come last: after a pause of this process what arrived in it is in time. */
int spw_oob_door_turn(struct spw_oob_door *d, uint64_t now_ms, struct spw_oob_guest *guest_out)
{
	struct epoll_event ev;
	int rc = -EAGAIN;

	if (d->resume_ms && now_ms >= d->resume_ms)
		door_pause(d, 0);
	for (uint32_t step = 0; step < STEPS_MAX && rc == -EAGAIN; step++) {
		if (epoll_wait(d->epoll_fd, &ev, 1, 0) != 1)
			return door_expire(d, now_ms, guest_out);
		rc = ev.data.u32 < LISTENER ? door_receive(d, ev.data.u32, guest_out)
					    : door_accept(d, d->listen_fd[ev.data.u32 - LISTENER],
							  now_ms, guest_out);
	}
	return rc;
}
