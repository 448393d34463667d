/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Lets strangers in (spw_oob_door.h). An epoll descriptor has the listener and all connections, so
 * that the owner waits for one descriptor, and a turn costs what has arrived. A closed socket
 * leaves the epoll set by itself; one that is handed over is taken out.
 *
 *   epoll: listener   ─► accept ─► a seat (spw_oob_seat_choose), perhaps another's
 *          connection ─► its first message, whole and proved ─► guest: the caller's
 *                        anything else ─► closed, and the reason returned
 *   nothing readable  ─► deadlines of the seats
 *
 * Owners: rank 0 of an exchange over TCP (coll/door.c) and spinwire-perf. lib/peer and lib/xfer
 * have exchanges of several messages and listen themselves; lib/peer shares the choice of a seat.
 */
#include "oob/spw_oob_door.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "oob/spw_oob_socket.h"

#define STEPS_MAX 64u /* of one turn, so that a flood leaves the owner its thread */
#define LISTENER  SPW_OOB_SEAT_MAX

/* A connection in a seat, until its first message is whole. */
struct door_half {
	struct spw_oob_channel ch;
	struct sockaddr_in6 from;
	uint8_t first[SPW_OOB_FIRST_MAX];
};

struct spw_oob_door {
	struct spw_oob_door_conf conf;
	int epoll_fd;
	int listen_fd; /* -1: none */
	uint32_t taken_cnt;
	uint64_t order;     /* connections so far */
	uint64_t resume_ms; /* accept(2) failed: the next attempt; 0: it did not */
	struct spw_oob_seat seat[SPW_OOB_SEAT_MAX];
	struct door_half half[SPW_OOB_SEAT_MAX];
};

/* ---- open and close ---- */

/* Events carry the number of a seat, or LISTENER. */
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
	d->listen_fd = -1;
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
	const int fd = spw_oob_socket_listen(addr);
	int rc;

	if (fd < 0)
		return fd;
	rc = door_watch(d, fd, EPOLL_CTL_ADD, EPOLLIN, LISTENER);
	if (rc)
		close(fd);
	else
		d->listen_fd = fd;
	return rc;
}

static void door_free_seat(struct spw_oob_door *d, uint32_t i)
{
	d->seat[i].taken = false;
	d->taken_cnt--;
}

void spw_oob_door_close(struct spw_oob_door *d)
{
	if (!d)
		return;
	for (uint32_t i = 0; i < d->conf.seat_cnt; i++)
		if (d->seat[i].taken)
			close(d->half[i].ch.fd);
	if (d->listen_fd >= 0)
		close(d->listen_fd);
	close(d->epoll_fd);
	free(d);
}

int spw_oob_door_fd(const struct spw_oob_door *d)
{
	return d->epoll_fd;
}

/* ---- seats ---- */

/* Three candidates in one pass. A host with its share evicts its own, so that one host with many
 * connections cannot push out the others. */
uint32_t spw_oob_seat_choose(const struct spw_oob_seat *seat, uint32_t cnt, uint32_t host_max,
			     const struct in6_addr *host)
{
	uint32_t unused = cnt, oldest = cnt, oldest_here = cnt, here = 0;

	for (uint32_t i = 0; i < cnt; i++) {
		const bool same = seat[i].taken && spw_oob_addr_same_host(&seat[i].host, host);

		here += same;
		if (!seat[i].taken)
			unused = SPW_MIN(unused, i);
		else if (seat[i].proved)
			continue;
		else if (oldest == cnt || seat[i].order < seat[oldest].order)
			oldest = i;
		if (same && (oldest_here == cnt || seat[i].order < seat[oldest_here].order))
			oldest_here = i;
	}
	return here >= host_max ? oldest_here : unused < cnt ? unused : oldest;
}

/* Closes the connection in a seat and frees the seat. Returns: error, for the caller. */
static int door_refuse(struct spw_oob_door *d, uint32_t i, int error, struct spw_oob_guest *guest)
{
	guest->from = d->half[i].from;
	close(d->half[i].ch.fd);
	door_free_seat(d, i);
	return error;
}

/* Returns: -EAGAIN, or why somebody was refused. */
static int door_admit(struct spw_oob_door *d, int fd, const struct sockaddr_in6 *from,
		      uint64_t now_ms, struct spw_oob_guest *guest)
{
	const uint32_t i =
		spw_oob_seat_choose(d->seat, d->conf.seat_cnt, d->conf.host_max, &from->sin6_addr);
	int rc, evicted = -EAGAIN;

	if (d->seat[i].taken)
		evicted = door_refuse(d, i, -EBUSY, guest);
	d->seat[i] = (struct spw_oob_seat){.taken = true,
					   .order = d->order++,
					   .until_ms = now_ms + d->conf.first_ms,
					   .host = from->sin6_addr};
	d->taken_cnt++;
	d->half[i].from = *from;
	rc = spw_oob_channel_begin(&d->half[i].ch, fd, false, d->conf.secret);
	rc = rc ? rc : door_watch(d, fd, EPOLL_CTL_ADD, EPOLLIN, i);
	if (rc)
		rc = door_refuse(d, i, rc, guest);
	return rc ? rc : evicted;
}

/* ---- a turn ---- */

/* After an error of this process whoever waits would be reported again at once: a pause. */
static int door_accept(struct spw_oob_door *d, uint64_t now_ms, struct spw_oob_guest *guest)
{
	struct sockaddr_in6 from;
	int fd = spw_oob_socket_accept(d->listen_fd, &from);

	if (fd >= 0)
		return door_admit(d, fd, &from, now_ms, guest);
	if (fd == -EAGAIN)
		return fd;
	d->resume_ms = now_ms + SPW_OOB_RETRY_MS;
	(void)door_watch(d, d->listen_fd, EPOLL_CTL_MOD, 0, LISTENER);
	memset(&guest->from, 0, sizeof(guest->from));
	return fd;
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
	guest->from = h->from;
	guest->ch = h->ch;
	memcpy(guest->first, h->first, guest->len);
	door_free_seat(d, i);
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

	if (d->resume_ms && now_ms >= d->resume_ms) {
		d->resume_ms = 0;
		(void)door_watch(d, d->listen_fd, EPOLL_CTL_MOD, EPOLLIN, LISTENER);
	}
	for (uint32_t step = 0; step < STEPS_MAX && rc == -EAGAIN; step++) {
		if (epoll_wait(d->epoll_fd, &ev, 1, 0) != 1)
			return door_expire(d, now_ms, guest_out);
		rc = ev.data.u32 == LISTENER ? door_accept(d, now_ms, guest_out)
					     : door_receive(d, ev.data.u32, guest_out);
	}
	return rc;
}
