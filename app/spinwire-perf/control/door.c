/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The door of a server (door.h): the first message of a connection (oob/spw_oob_door.h) is its
 * hello; that its MAC is right is all there is to it.
 *
 * The thread and main share only what the lock protects: the one client that waits. Main learns of
 * it by an event descriptor, which it can poll beside others.
 *
 *    thread   accept ─ version, hello, MAC ─► waits ──┐ event_fd
 *    main                                             └─► perf_door_take ─ session ─ perf_door_free
 */
#include "control/door.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "base/spw_monotonic.h"
#include "base/spw_thread.h"
#include "oob/spw_oob_door.h"

/* Connections that have not said hello yet, and how long each may take for it. */
#define HALF_MAX 16u
#define HELLO_MS 5000u

struct perf_door {
	/* constant */
	int event_fd;
	struct spw_oob_door *door;
	const uint32_t *stop;
	pthread_t thread;
	bool runs;
	uint32_t closing;
	/* the thread */
	bool deaf; /* was reported */
	struct spw_log_limit limit;
	/* both, under the lock */
	pthread_mutex_t lock;
	bool busy, waits;
	struct perf_ctl client; /* that waits */
	char with[64];          /* who waits or is served */
	uint64_t since_ns;
};

/* ---- the thread ---- */

static int door_busy(const struct perf_door *d)
{
	return spw_err(EBUSY,
		       "measures with %s for %llu s already, and one at a time: try again when "
		       "that is over",
		       d->with,
		       (unsigned long long)((spw_monotonic_ns() - d->since_ns) / 1000000000u));
}

/* The client whose hello is right: it waits for the main thread, or gets the reason why not. */
static void door_welcome(struct perf_door *d, struct perf_ctl *ctl, int rc)
{
	const uint64_t one = 1;

	pthread_mutex_lock(&d->lock);
	if (rc == 0 && (d->busy || d->waits))
		rc = door_busy(d);
	if (rc == 0) {
		d->client = *ctl;
		d->waits = true;
		d->since_ns = spw_monotonic_ns();
		snprintf(d->with, sizeof(d->with), "%s", ctl->peer);
		(void)!write(d->event_fd, &one, sizeof(one)); /* of a counter that is read: fits */
	}
	pthread_mutex_unlock(&d->lock);
	if (rc < 0) {
		(void)perf_ctl_end(ctl, rc);
		perf_ctl_close(ctl);
	}
}

/* Owner: takes over the guest's descriptor on every path. */
static void door_take(struct perf_door *d, const struct spw_oob_guest *guest)
{
	struct perf_ctl ctl;
	int rc = perf_ctl_take(&ctl, guest->ch.fd, NULL);

	ctl.ch = guest->ch;
	ctl.stop = d->stop;
	door_welcome(d, &ctl, rc);
}

/* Nobody else would learn why a client was not admitted. */
static void door_refused(struct perf_door *d, const struct spw_oob_guest *guest, int rc)
{
	char from[64], why[SPW_OOB_REASON_BYTES];

	spw_log_limited(&d->limit, SPW_LOG_WARN, "%s was turned away: %s",
			spw_oob_addr_text(&guest->from, from),
			spw_oob_channel_reason(&guest->ch, rc, why));
}

/* Once until somebody can be accepted again: without descriptors a connection waits. */
static void door_cannot_accept(struct perf_door *d, int error)
{
	if (!d->deaf)
		spw_warn("a connection cannot be accepted: %s", strerror(error));
	d->deaf = true;
}

/* A short nap bounds how long perf_door_close waits; lib/oob drops connections whose hello is late.
 */
static void *door_main(void *arg)
{
	struct perf_door *d = arg;
	struct pollfd wait = {.fd = spw_oob_door_fd(d->door), .events = POLLIN};
	struct spw_oob_guest guest;
	int rc;

	while (!spw_thr_load_rlx(&d->closing)) {
		(void)poll(&wait, 1, PERF_LOOK_MS);
		while ((rc = spw_oob_door_turn(d->door, spw_monotonic_ms(), &guest)) != -EAGAIN) {
			if (!guest.from.sin6_family) {
				door_cannot_accept(d, -rc);
				continue;
			}
			d->deaf = false;
			if (rc == 0)
				door_take(d, &guest);
			else
				door_refused(d, &guest, rc);
		}
	}
	return NULL;
}

/* ---- main ---- */

/* Half-open connections are limited to HALF_MAX, so strangers cannot use up the descriptors. */
static int door_start(struct perf_door *d, const struct spw_oob_secret *secret, uint16_t *port)
{
	const struct spw_oob_door_conf conf = {
		.proto = &perf_proto, .secret = secret, .seat_cnt = HALF_MAX, .first_ms = HELLO_MS};
	struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(*port)};
	int rc = spw_oob_door_open(&conf, &d->door);

	if (rc)
		return rc;
	rc = spw_oob_door_listen(d->door, &any);
	if (rc)
		return perf_ctl_listen_error(*port, rc);
	*port = ntohs(any.sin6_port);
	d->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (d->event_fd < 0)
		return spw_err(errno, "eventfd: %s", strerror(errno));
	rc = spw_thread_start(&d->thread, door_main, d);
	d->runs = rc == 0;
	return rc ? spw_err(-rc, "a thread: %s", strerror(-rc)) : 0;
}

int perf_door_open(uint16_t *port, const struct spw_oob_secret *secret, const uint32_t *stop,
		   struct perf_door **door_out)
{
	struct perf_door *d = calloc(1, sizeof(*d));
	int rc;

	*door_out = NULL;
	if (!d)
		return spw_err(ENOMEM, "no memory for a server");
	d->stop = stop;
	d->event_fd = -1;
	pthread_mutex_init(&d->lock, NULL);
	rc = door_start(d, secret, port);
	if (rc < 0) {
		perf_door_close(d);
		return rc;
	}
	*door_out = d;
	return 0;
}

int perf_door_fd(const struct perf_door *door)
{
	return door->event_fd;
}

/* Busy is set under the same lock that clears waits: between the two no second client can slip in.
 */
bool perf_door_take(struct perf_door *door, struct perf_ctl *ctl_out)
{
	uint64_t cnt;
	bool waits;

	pthread_mutex_lock(&door->lock);
	waits = door->waits;
	if (waits) {
		(void)!read(door->event_fd, &cnt, sizeof(cnt));
		*ctl_out = door->client;
		door->busy = true;
		door->waits = false;
	}
	pthread_mutex_unlock(&door->lock);
	return waits;
}

/* Refused clients may come again from now on. */
void perf_door_free(struct perf_door *door)
{
	pthread_mutex_lock(&door->lock);
	door->busy = false;
	pthread_mutex_unlock(&door->lock);
}

void perf_door_close(struct perf_door *door)
{
	if (!door)
		return;
	spw_thr_store_rlx(&door->closing, 1u);
	if (door->runs)
		pthread_join(door->thread, NULL);
	spw_oob_door_close(door->door);
	/* Nobody took it: its connection ends with the server. */
	if (door->waits)
		perf_ctl_close(&door->client);
	if (door->event_fd >= 0)
		close(door->event_fd);
	pthread_mutex_destroy(&door->lock);
	free(door);
}
