/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "port/rdma/rdma_ctl.h"

#define IDLE_MS 1000 /* the longest sleep */

/* From the control thread to one owner. */
struct ctl_ring {
	uint32_t head SPW_ALIGNED(2 * SPW_CACHE_LINE); /* control */
	uint32_t tail SPW_ALIGNED(2 * SPW_CACHE_LINE); /* owner */
	struct spw_port_event event[RDMA_CTL_EVENT_CNT] SPW_ALIGNED(2 * SPW_CACHE_LINE);
};
_Static_assert(SPW_IS_POW2(RDMA_CTL_EVENT_CNT), "indices wrap");

struct rdma_ctl {
	struct rdma_dev *dev;
	struct rdma_ctl_client client;
	struct ctl_ring *ring;
	uint16_t queue_cnt;
	int wake_fd;
	bool running;
	uint32_t stop;
	pthread_t thread;
};

uint64_t rdma_ctl_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* ---- events --------------------------------------------------------------------------------------- */

void rdma_ctl_tell(struct rdma_ctl *ctl, uint16_t queue, const struct spw_port_event *event)
{
	struct ctl_ring *r = &ctl->ring[queue];

	if (r->head - spw_thr_load_acq(&r->tail) == RDMA_CTL_EVENT_CNT) /* [RD2 acquire, pairs with RD1] */
		return;
	r->event[r->head % RDMA_CTL_EVENT_CNT] = *event;
	r->event[r->head % RDMA_CTL_EVENT_CNT].queue = queue;
	spw_thr_store_rel(&r->head, r->head + 1); /* [RD1 release, pairs with RD2] */
}

uint16_t rdma_ctl_events(struct rdma_ctl *ctl, uint16_t queue, struct spw_port_event *event, uint16_t cnt)
{
	struct ctl_ring *r = &ctl->ring[queue];
	uint32_t n = SPW_MIN(spw_thr_load_acq(&r->head) - r->tail, cnt); /* [RD2 acquire, pairs with RD1] */

	for (uint32_t i = 0; i < n; i++)
		event[i] = r->event[(r->tail + i) % RDMA_CTL_EVENT_CNT];
	if (n)
		spw_thr_store_rel(&r->tail, r->tail + n); /* [RD1 release, pairs with RD2] */
	return (uint16_t)n;
}

static void read_device(struct rdma_ctl *ctl)
{
	struct spw_port_event event[8];
	rdma_dev_object_fn *on_object = ctl->client.async;
	uint16_t n = rdma_dev_events_read(ctl->dev, on_object, ctl->client.arg, event, SPW_ARRAY_CNT(event));

	for (uint16_t i = 0; i < n; i++)
		rdma_ctl_tell(ctl, 0, &event[i]);
}

/* ---- the thread ----------------------------------------------------------------------------------- */

static void *run(void *arg)
{
	struct rdma_ctl *ctl = arg;
	struct pollfd fd[RDMA_CTL_FD_MAX];
	uint64_t drop;

	while (!spw_thr_load_acq(&ctl->stop)) { /* [RD3 acquire, pairs with the release in rdma_ctl_stop] */
		int timeout_ms = IDLE_MS;
		uint32_t n = 2;

		fd[0] = (struct pollfd){.fd = ctl->wake_fd, .events = POLLIN};
		fd[1] = (struct pollfd){.fd = ctl->dev->gone ? -1 : ctl->dev->ctx->async_fd, .events = POLLIN};
		if (ctl->client.prepare)
			n += ctl->client.prepare(ctl->client.arg, rdma_ctl_now_ms(), fd + 2, RDMA_CTL_FD_MAX - 2, &timeout_ms);
		if (poll(fd, n, timeout_ms) < 0 && errno != EINTR)
			break; /* ENOMEM only */
		if (fd[0].revents && read(ctl->wake_fd, &drop, sizeof(drop)) < 0)
			continue; /* somebody else's wake: none */
		if (fd[1].revents)
			read_device(ctl);
		if (ctl->client.turn)
			ctl->client.turn(ctl->client.arg, rdma_ctl_now_ms());
	}
	return NULL;
}

static void no_object(void *arg SPW_UNUSED, const struct ibv_async_event *event SPW_UNUSED)
{
}

int rdma_ctl_open(struct rdma_dev *dev, uint16_t queue_cnt, const struct rdma_ctl_client *client, struct rdma_ctl **ctl_out)
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
		ctl->client.async = no_object;
	ctl->ring = aligned_alloc(_Alignof(struct ctl_ring), queue_cnt * sizeof(*ctl->ring));
	ctl->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (!ctl->ring || ctl->wake_fd < 0) {
		int rc = ctl->ring ? spw_err(errno, "eventfd: %s", strerror(errno)) : spw_err(ENOMEM, "no memory for events");

		rdma_ctl_close(ctl);
		return rc;
	}
	memset(ctl->ring, 0, queue_cnt * sizeof(*ctl->ring));
	*ctl_out = ctl;
	return 0;
}

/* Who waits for the link hears of one that was up all the time. */
static void tell_up(struct rdma_ctl *ctl)
{
	struct spw_port_event event = {.kind = SPW_PORT_EVENT_LINK_UP};

	snprintf(event.text, sizeof(event.text), "%.40s: link is up", ctl->dev->name);
	rdma_ctl_tell(ctl, 0, &event);
}

int rdma_ctl_start(struct rdma_ctl *ctl)
{
	sigset_t all, was;
	int rc;

	if (ctl->dev->port.state == IBV_PORT_ACTIVE)
		tell_up(ctl);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &was);
	rc = pthread_create(&ctl->thread, NULL, run, ctl);
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	if (rc)
		return spw_err(rc, "no control thread: %s", strerror(rc));
	pthread_setname_np(ctl->thread, "spw-rdma-ctl");
	ctl->running = true;
	return 0;
}

void rdma_ctl_wake(struct rdma_ctl *ctl)
{
	const uint64_t one = 1;
	ssize_t n = write(ctl->wake_fd, &one, sizeof(one));

	(void)n; /* full: it is awake already */
}

void rdma_ctl_stop(struct rdma_ctl *ctl)
{
	if (!ctl->running)
		return;
	spw_thr_store_rel(&ctl->stop, 1); /* [RD3 release, pairs with the acquire in run] */
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
	if (ctl->wake_fd >= 0)
		close(ctl->wake_fd);
	free(ctl->ring);
	free(ctl);
}
