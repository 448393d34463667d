/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Reads the events of a device without waiting: those of completions as they are; those of the port
 * and the device are translated into spw_port_event. Called by the control thread (ctl.c).
 * lib/peer before its control thread runs (peer/loop.c), and the house of lib/xfer, read them, too.
 *
 *   IBV_EVENT_PORT_ACTIVE, PORT_ERR   of our port ─► LINK_UP, LINK_DOWN, for the caller
 *   IBV_EVENT_DEVICE_FATAL            once        ─► DEVICE_GONE, and dev->gone for good
 *   of the subnet (LID, GID, ...)     ignored
 *   of a QP, CQ or WQ                 ─► on_object, while the event is not acknowledged yet
 *
 * Events are taken only in one thread, which alone writes dev->gone and link_down_cnt. Each event
 * is acknowledged before the next is read: destroying an object waits for the acknowledgement of
 * its events (ibv_get_async_event(3)), so on_object must not destroy it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/spw_err.h"
#include "rdma/spw_rdma.h"

static int rdma_event_file_unblock(const struct rdma_dev *dev, int fd)
{
	const int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return spw_err(errno, "%s: its event file cannot be made non-blocking: %s",
			       dev->name, strerror(errno));
	return 0;
}

int rdma_dev_events_open(struct rdma_dev *dev)
{
	return rdma_event_file_unblock(dev, dev->ctx->async_fd);
}

int rdma_dev_channel_open(struct rdma_dev *dev)
{
	dev->channel = ibv_create_comp_channel(dev->ctx);
	if (!dev->channel)
		return spw_err(errno, "%s: a completion channel: %s", dev->name, strerror(errno));
	return rdma_event_file_unblock(dev, dev->channel->fd);
}

/* Acknowledged at once: ibv_destroy_cq waits for that. */
void rdma_dev_channel_read(struct rdma_dev *dev, void (*on_event)(void *cq_context))
{
	struct ibv_cq *cq;
	void *cq_context;

	for (uint32_t i = 0; i < RDMA_CHANNEL_MAX; i++) {
		if (ibv_get_cq_event(dev->channel, &cq, &cq_context))
			return;
		ibv_ack_cq_events(cq, 1);
		on_event(cq_context);
	}
}

/* Returns: 1, the events that were written. */
static uint16_t rdma_event_make(const struct rdma_dev *dev, struct spw_port_event *event,
				enum spw_port_event_kind kind, const char *what)
{
	*event = (struct spw_port_event){.kind = kind};
	snprintf(event->text, sizeof(event->text), "%.22s: %s", dev->name, what);
	return 1;
}

/* Returns: events written to *event: 0 or 1. */
static uint16_t rdma_event_translate(struct rdma_dev *dev, const struct ibv_async_event *from,
				     rdma_dev_object_fn *on_object, void *arg,
				     struct spw_port_event *event)
{
	switch (from->event_type) {
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
		if (from->element.port_num != dev->port_num)
			return 0;
		if (from->event_type == IBV_EVENT_PORT_ACTIVE)
			return rdma_event_make(dev, event, SPW_PORT_EVENT_LINK_UP, "link is up");
		spw_thr_count(&dev->link_down_cnt, 1);
		return rdma_event_make(dev, event, SPW_PORT_EVENT_LINK_DOWN, "link is down");
	/* A removed device may report this again; its end is one event. */
	case IBV_EVENT_DEVICE_FATAL:
		if (dev->gone)
			return 0;
		dev->gone = true;
		return rdma_event_make(dev, event, SPW_PORT_EVENT_DEVICE_GONE, RDMA_GONE_TEXT);
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_PKEY_CHANGE:
	case IBV_EVENT_SM_CHANGE:
	case IBV_EVENT_CLIENT_REREGISTER:
	case IBV_EVENT_GID_CHANGE:
		return 0;
	default:
		on_object(arg, from);
		return 0;
	}
}

uint16_t rdma_dev_events_read(struct rdma_dev *dev, rdma_dev_object_fn *on_object, void *arg,
			      struct spw_port_event *event, uint16_t cnt)
{
	struct ibv_async_event from;
	uint16_t n = 0;

	while (n < cnt && ibv_get_async_event(dev->ctx, &from) == 0) {
		n += rdma_event_translate(dev, &from, on_object, arg, &event[n]);
		ibv_ack_async_event(&from);
	}
	return n;
}
