/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The control thread of an RDMA port and its rings of events (spw_rdma_ctl.h). rdma_ctl_report
 * writes in the control thread, rdma_ctl_events reads in the owner; each ring has one of each. The
 * last entries of a ring are reserved: RESERVE_PEER for link and device, RESERVE_LINK of these for
 * the device.
 *
 *   owner's lcore       lost peer, QP posted ─► rdma_ctl_wake ─► eventfd ─┐
 *   kernel              asynchronous event ─► async_fd ───────────────────┼─► poll() returns
 *   TCP (lib/peer)      a connection, a message, an end ──────────────────┘      │
 *                       rdma_ctl_events ◄── ring of its queue (R3, R4) ◄── turn, report
 *
 * The thread sleeps in poll(2) and is the only one that makes system calls for the port while
 * traffic runs.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "base/spw_monotonic.h"
#include "base/spw_thread.h"
#include "base/spw_log.h"
#include "rdma/spw_rdma_ctl.h"
#include "ring/spw_ring.h"

#define IDLE_MS      1000 /* the longest sleep */
#define RETRY_MS     10   /* pause before another try */
#define LATE_MS      10u  /* what counts of a turn, or of a sleep beyond its time */
#define RESERVE_PEER 8u   /* entries that events of peers leave for link and device */
#define RESERVE_LINK 1u   /* entries that events of the link leave for the end of the device */

/* Events from the control thread to one owner. */
struct ctl_ring {
	struct spw_ring pos;
	struct spw_port_event event[RDMA_CTL_EVENT_CNT];
};
_Static_assert(SPW_IS_POW2(RDMA_CTL_EVENT_CNT), "indices wrap");

struct rdma_ctl {
	struct rdma_dev *dev;
	struct rdma_ctl_client client;
	struct ctl_ring *ring;
	struct spw_port_event
		link; /* the newest link event, while link_late: it waits for room in queue 0 */
	bool link_late;
	uint64_t lost;                /* events of peers that found no room */
	uint64_t clock_ms, looked_ms; /* the client's clock, and when it was last moved */
	uint16_t queue_cnt;
	int wake_fd;
	bool running;
	uint32_t stop;
	pthread_t thread;
};

/* ---- events ---- */

static bool rdma_ctl_is_link(const struct spw_port_event *event)
{
	return event->kind == SPW_PORT_EVENT_LINK_UP || event->kind == SPW_PORT_EVENT_LINK_DOWN;
}

/* Returns: false if the ring has no entry for an event of this kind. */
static bool rdma_ctl_put(struct rdma_ctl *ctl, uint16_t queue, const struct spw_port_event *event)
{
	const uint32_t keep = event->kind == SPW_PORT_EVENT_DEVICE_GONE ? 0
			      : rdma_ctl_is_link(event)                 ? RESERVE_LINK
									: RESERVE_PEER;
	struct ctl_ring *r = &ctl->ring[queue];
	struct spw_port_event *to = &r->event[spw_ring_write_pos(&r->pos) % RDMA_CTL_EVENT_CNT];

	if (spw_ring_room(&r->pos, keep + 1) <= keep)
		return false;
	*to = *event;
	to->queue = queue;
	spw_ring_publish(&r->pos, 1);
	return true;
}

/* A link event is never dropped: the newest waits for room, because an owner that believed in a
 * dead link would wait forever. */
static void rdma_ctl_put_link(struct rdma_ctl *ctl)
{
	if (ctl->link_late)
		ctl->link_late = !rdma_ctl_put(ctl, 0, &ctl->link);
}

/* An event of a peer that finds no room is dropped and counted, and rdma_ctl_close logs how many:
 * the owner has not polled its events for as long as it took to fill the ring. */
void rdma_ctl_report(struct rdma_ctl *ctl, uint16_t queue, const struct spw_port_event *event)
{
	if (rdma_ctl_is_link(event)) {
		ctl->link = *event;
		ctl->link_late = true;
		rdma_ctl_put_link(ctl);
	} else if (!rdma_ctl_put(ctl, queue, event)) {
		ctl->lost++;
	}
}

uint16_t rdma_ctl_events(struct rdma_ctl *ctl, uint16_t queue, struct spw_port_event *event,
			 uint16_t cnt)
{
	struct ctl_ring *r = &ctl->ring[queue];
	const uint32_t n = spw_ring_ready(&r->pos, cnt);

	for (uint32_t i = 0; i < n; i++)
		event[i] = r->event[(spw_ring_read_pos(&r->pos) + i) % RDMA_CTL_EVENT_CNT];
	spw_ring_release(&r->pos, n);
	return (uint16_t)n;
}

/* Events of objects go to the client (async), events of the port and the device become port events.
 */
static void rdma_ctl_read_device(struct rdma_ctl *ctl)
{
	struct spw_port_event event[8];
	rdma_dev_object_fn *on_object = ctl->client.async;
	uint16_t n = rdma_dev_events_read(ctl->dev, on_object, ctl->client.arg, event,
					  SPW_ARRAY_CNT(event));

	for (uint16_t i = 0; i < n; i++)
		rdma_ctl_report(ctl, 0, &event[i]);
}

/* ---- the thread ---- */

uint64_t rdma_ctl_clock_ms(const struct rdma_ctl *ctl)
{
	return ctl->clock_ms;
}

/* A thread that was stopped, perhaps with the whole machine, has not looked: what its client waits
 * for may have come meanwhile. So only the time for which it meant to sleep counts, and LATE_MS. */
static uint64_t rdma_ctl_clock_turn(struct rdma_ctl *ctl, int slept_ms)
{
	const uint64_t now_ms = spw_monotonic_ms();

	ctl->clock_ms += SPW_MIN(now_ms - ctl->looked_ms, (uint64_t)slept_ms + LATE_MS);
	ctl->looked_ms = now_ms;
	return ctl->clock_ms;
}

/* wake_fd and async_fd come first in fd[]; the client adds its own in prepare. */
static void *rdma_ctl_run(void *arg)
{
	struct rdma_ctl *ctl = arg;
	const struct timespec pause = {.tv_nsec = RETRY_MS * 1000000};
	struct pollfd fd[RDMA_CTL_FD_MAX];
	uint64_t drop;

	while (!spw_thr_load_acq(
		&ctl->stop)) { /* [RD1 acquire, pairs with the release in rdma_ctl_stop] */
		int timeout_ms = ctl->link_late ? RETRY_MS : IDLE_MS;
		uint32_t n = 2;

		fd[0] = (struct pollfd){.fd = ctl->wake_fd, .events = POLLIN};
		fd[1] = (struct pollfd){.fd = ctl->dev->gone ? -1 : ctl->dev->ctx->async_fd,
					.events = POLLIN};
		if (ctl->client.prepare)
			n += ctl->client.prepare(ctl->client.arg, rdma_ctl_clock_turn(ctl, 0),
						 fd + 2, RDMA_CTL_FD_MAX - 2, &timeout_ms);
		if (poll(fd, n, timeout_ms) < 0) {
			if (errno != EINTR) /* the kernel has no memory just now */
				nanosleep(&pause, NULL);
			continue;
		}
		(void)rdma_ctl_clock_turn(ctl, timeout_ms);
		rdma_ctl_put_link(ctl);
		if (fd[0].revents && read(ctl->wake_fd, &drop, sizeof(drop)) < 0)
			continue; /* must not happen: poll reported it readable */
		if (fd[1].revents)
			rdma_ctl_read_device(ctl);
		if (ctl->client.turn)
			ctl->client.turn(ctl->client.arg, rdma_ctl_clock_turn(ctl, 0));
	}
	return NULL;
}

static void rdma_ctl_no_object(void *arg SPW_UNUSED, const struct ibv_async_event *event SPW_UNUSED)
{
}

int rdma_ctl_open(struct rdma_dev *dev, uint16_t queue_cnt, const struct rdma_ctl_client *client,
		  struct rdma_ctl **ctl_out)
{
	struct rdma_ctl *ctl = calloc(1, sizeof(*ctl));

	*ctl_out = NULL;
	if (!ctl)
		return spw_err(ENOMEM, "no memory for the control thread");
	ctl->dev = dev;
	ctl->queue_cnt = queue_cnt;
	if (client)
		ctl->client = *client;
	if (!ctl->client.async)
		ctl->client.async = rdma_ctl_no_object;
	ctl->ring = aligned_alloc(_Alignof(struct ctl_ring), queue_cnt * sizeof(*ctl->ring));
	ctl->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (!ctl->ring || ctl->wake_fd < 0) {
		int rc = ctl->ring ? spw_err(errno, "eventfd: %s", strerror(errno))
				   : spw_err(ENOMEM, "no memory for events");

		rdma_ctl_close(ctl);
		return rc;
	}
	for (uint16_t i = 0; i < queue_cnt; i++)
		spw_ring_init(&ctl->ring[i].pos, RDMA_CTL_EVENT_CNT);
	*ctl_out = ctl;
	return 0;
}

/* An owner that waits for the link gets an event of one that was up all the time, too. */
static void rdma_ctl_report_up(struct rdma_ctl *ctl)
{
	struct spw_port_event event = {.kind = SPW_PORT_EVENT_LINK_UP};

	snprintf(event.text, sizeof(event.text), "%.40s: link is up", ctl->dev->name);
	rdma_ctl_report(ctl, 0, &event);
}

int rdma_ctl_start(struct rdma_ctl *ctl)
{
	int rc;

	ctl->clock_ms = ctl->looked_ms = spw_monotonic_ms();
	if (ctl->dev->port.state == IBV_PORT_ACTIVE)
		rdma_ctl_report_up(ctl);
	rc = spw_thread_start(&ctl->thread, rdma_ctl_run, ctl);
	if (rc)
		return spw_err(-rc, "no control thread: %s", strerror(-rc));
	pthread_setname_np(ctl->thread, "spw-rdma-ctl");
	ctl->running = true;
	return 0;
}

void rdma_ctl_wake(struct rdma_ctl *ctl)
{
	const uint64_t one = 1;
	ssize_t n = write(ctl->wake_fd, &one, sizeof(one));

	(void)n; /* the counter is full: the thread is about to wake */
}

void rdma_ctl_stop(struct rdma_ctl *ctl)
{
	if (!ctl->running)
		return;
	spw_thr_store_rel(&ctl->stop,
			  1); /* [RD1 release, pairs with the acquire in rdma_ctl_run] */
	rdma_ctl_wake(ctl);
	pthread_join(ctl->thread, NULL);
	ctl->running = false;
	ctl->stop = 0;
}

void rdma_ctl_close(struct rdma_ctl *ctl)
{
	if (!ctl)
		return;
	rdma_ctl_stop(ctl);
	if (ctl->lost)
		spw_warn("%s: %" PRIu64
			 " events of peers were lost: the queue did not poll its events in time",
			 ctl->dev->name, ctl->lost);
	if (ctl->wake_fd >= 0)
		close(ctl->wake_fd);
	free(ctl->ring);
	free(ctl);
}
