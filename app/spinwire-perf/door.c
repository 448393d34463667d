/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The door of a server (door.h). A connection that has said no hello within HELLO_MS is closed, at
 * the latest when HALF_MAX newer ones have come. Nothing is read of a connection but its nonce and
 * HELLO_BYTES, and nothing is parsed, before the MAC of its hello is right.
 */
#include "door.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/spw_err.h"

#define HALF_MAX    16u
#define HELLO_MS    5000u
#define HELLO_BYTES 256u
#define LOOK_MS     200
#define NAP_NS      50000000

struct half {
	struct spw_oob_channel ch; /* fd -1: none */
	uint64_t until_ns;
	uint8_t hello[HELLO_BYTES];
};

struct perf_door {
	/* constant */
	int listener, event_fd;
	const struct spw_oob_secret *secret;
	const uint32_t *stop;
	pthread_t thread;
	bool runs;
	uint32_t closing;
	/* the thread */
	struct half half[HALF_MAX];
	uint32_t next; /* half that the next connection takes: the oldest */
	bool deaf;     /* was said */
	/* both, under the lock */
	pthread_mutex_t lock;
	bool busy, waits;
	struct perf_ctl client; /* that waits */
	char with[64];          /* who waits or is served */
	uint64_t since_ns;
};

/* ---- the thread ---- */

static void shut(struct half *h)
{
	if (h->ch.fd >= 0)
		close(h->ch.fd);
	h->ch.fd = -1;
}

static void complain(void)
{
	fprintf(stderr, PERF_PROGRAM ": %s\n", spw_err_text());
}

static int busy_with(const struct perf_door *d)
{
	return spw_err(EBUSY,
		       "measures with %s for %llu s already, and one at a time: try again when "
		       "that is over",
		       d->with, (unsigned long long)((perf_now_ns() - d->since_ns) / 1000000000u));
}

/* The client whose hello is right: it waits for the main thread, or is told why not. */
static void welcome(struct perf_door *d, struct perf_ctl *ctl)
{
	const uint64_t one = 1;
	int rc;

	pthread_mutex_lock(&d->lock);
	rc = d->busy || d->waits ? busy_with(d) : 0;
	if (rc == 0) {
		d->client = *ctl;
		d->waits = true;
		d->since_ns = perf_now_ns();
		snprintf(d->with, sizeof(d->with), "%s", ctl->peer);
		(void)!write(d->event_fd, &one, sizeof(one)); /* of a counter that is read: fits */
	}
	pthread_mutex_unlock(&d->lock);
	if (rc < 0) {
		(void)perf_ctl_error(ctl, rc);
		perf_ctl_close(ctl);
	}
}

static void hello_take(struct perf_door *d, struct half *h, uint32_t len)
{
	json_t *hello = json_loadb((const char *)h->hello, len, JSON_REJECT_DUPLICATES, NULL);
	struct perf_ctl ctl;
	int rc = perf_ctl_take(&ctl, h->ch.fd, NULL);

	if (rc == 0) {
		ctl.ch = h->ch;
		ctl.stop = d->stop;
		rc = perf_greet_check(&ctl, hello);
	}
	h->ch.fd = -1;
	json_decref(hello);
	if (rc == 0) {
		welcome(d, &ctl);
		return;
	}
	complain();
	if (rc == -EPROTONOSUPPORT)
		(void)perf_ctl_send(&ctl, perf_greet_hello()); /* it says so itself */
	perf_ctl_close(&ctl);
}

static void half_turn(struct perf_door *d, struct half *h)
{
	uint32_t len;
	int rc = spw_oob_channel_receive(&h->ch, h->hello, sizeof(h->hello), &len);

	if (rc == 0) {
		hello_take(d, h, len);
		return;
	}
	if (rc == -EAGAIN && perf_now_ns() < h->until_ns)
		return;
	if (rc == -EACCES)
		spw_oob_channel_deny(&h->ch);
	shut(h);
}

static void door_nap(void)
{
	const struct timespec nap = {.tv_nsec = NAP_NS};

	nanosleep(&nap, NULL);
}

/* Without descriptors a connection waits, and would be reported at once again. */
static void cannot_accept(struct perf_door *d, int error)
{
	if (!d->deaf)
		fprintf(stderr, PERF_PROGRAM ": a connection cannot be accepted: %s\n",
			strerror(error));
	d->deaf = true;
	door_nap();
}

static void admit(struct perf_door *d)
{
	struct half *h = &d->half[d->next];
	int fd = accept4(d->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0) {
		cannot_accept(d, errno);
		return;
	}
	d->deaf = false;
	d->next = (d->next + 1) % HALF_MAX;
	shut(h);
	h->until_ns = perf_now_ns() + HELLO_MS * 1000000ull;
	if (spw_oob_channel_begin(&h->ch, fd, false, d->secret))
		shut(h);
}

/* Waits until somebody has something to say. poll(2) refuses more entries than RLIMIT_NOFILE, so
 * only what is open is among them. Returns: whether somebody waits to be let in. */
static bool door_wait(const struct perf_door *d)
{
	struct pollfd wait[1 + HALF_MAX] = {{.fd = d->listener, .events = POLLIN}};
	nfds_t cnt = 1;

	for (uint32_t i = 0; i < HALF_MAX; i++)
		if (d->half[i].ch.fd >= 0)
			wait[cnt++] = (struct pollfd){.fd = d->half[i].ch.fd, .events = POLLIN};
	if (poll(wait, cnt, LOOK_MS) < 0)
		door_nap();
	return wait[0].revents != 0;
}

static void *door_main(void *arg)
{
	struct perf_door *d = arg;

	while (!spw_thr_load_rlx(&d->closing)) {
		const bool waits = door_wait(d);

		for (uint32_t i = 0; i < HALF_MAX; i++)
			if (d->half[i].ch.fd >= 0)
				half_turn(d, &d->half[i]);
		if (waits)
			admit(d);
	}
	return NULL;
}

/* ---- main ---- */

/* Signals are for the main thread, whose waits they end. */
static int thread_start(struct perf_door *d)
{
	sigset_t all, before;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	rc = pthread_create(&d->thread, NULL, door_main, d);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	d->runs = rc == 0;
	return rc ? spw_err(rc, "a thread: %s", strerror(rc)) : 0;
}

int perf_door_open(int listener, const struct spw_oob_secret *secret, const uint32_t *stop,
		   struct perf_door **door_out)
{
	struct perf_door *d = calloc(1, sizeof(*d));
	int rc;

	*door_out = NULL;
	if (!d)
		return spw_err(ENOMEM, "no memory for a server");
	d->listener = listener;
	d->secret = secret;
	d->stop = stop;
	for (uint32_t i = 0; i < HALF_MAX; i++)
		d->half[i].ch.fd = -1;
	pthread_mutex_init(&d->lock, NULL);
	d->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	rc = d->event_fd < 0 ? spw_err(errno, "eventfd: %s", strerror(errno)) : thread_start(d);
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
	for (uint32_t i = 0; i < HALF_MAX; i++)
		shut(&door->half[i]);
	if (door->waits)
		perf_ctl_close(&door->client);
	if (door->event_fd >= 0)
		close(door->event_fd);
	pthread_mutex_destroy(&door->lock);
	free(door);
}
