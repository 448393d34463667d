/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Completion channels and asynchronous event files: pipes of whole events. Events are sent by the
 * NIC through kernel.h, with the device lock held; opened, withdrawn and closed by commands.
 * Source: struct ib_uverbs_comp_event_desc and ib_uverbs_async_event_desc of
 * <rdma/ib_user_verbs.h>; Linux drivers/infiniband/core/uverbs_main.c (ib_uverbs_event_read).
 *
 *   NIC thread   hca_evq_send ─► wr_fd ═══ pipe ═══► app_fd   read(2), poll(2) of the application
 *   command      hca_evq_purge ◄──────────────────── own_fd   takes back events of a dead object
 *
 * Events are smaller than PIPE_BUF, so each is written and read whole. A full pipe loses the event
 * and counts it: the NIC thread must not wait for an application.
 */
#include "softhca/kernel/events.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "softhca/hca_real.h"
#include "softhca/kernel/ctl.h"
#include "softhca/kernel/devx_events.h"
#include "softhca/kernel/kernel.h"

#define PIPE_BYTES      (1u << 20) /* if refused, the default pipe holds 8192 completion events */
#define EVENT_BYTES_MAX 16u
#define PURGE_BATCH     256u

/* The application's end can write too. So the pipe has a writer for as long as that end is open or
 * a read of it is in progress, and a thread that waits for an event goes on waiting when its device
 * is closed, as in Linux; with a plain read end it would get an end of file. */
int hca_evq_open(struct hca_evq *q, uint32_t event_bytes)
{
	char path[64];
	int fd[2], rc;

	if (pipe2(fd, O_CLOEXEC))
		return -errno;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd[0]);
	*q = (struct hca_evq){.wr_fd = fd[1], .wait_fd = -1, .event_bytes = event_bytes};
	q->own_fd = real_open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0);
	q->app_fd = q->own_fd < 0 ? -1 : real_open(path, O_RDWR | O_CLOEXEC, 0);
	rc = q->app_fd < 0 ? -errno : 0;
	real_close(fd[0]);
	if (rc) {
		real_close(q->own_fd);
		real_close(q->wr_fd);
		return rc;
	}
	fcntl(q->wr_fd, F_SETFL, O_NONBLOCK);
	fcntl(q->wr_fd, F_SETPIPE_SZ, PIPE_BYTES);
	return 0;
}

/* The wait has a descriptor of its own: closing the application's does not end it, as in Linux, and
 * a number that is reused meanwhile is not read from. */
int hca_evq_open_tokens(struct hca_evq *q)
{
	char path[64];
	int rc = hca_evq_open(q, 1);

	if (rc)
		return rc;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", q->own_fd);
	q->wait_fd = real_open(path, O_RDONLY | O_CLOEXEC, 0);
	if (q->wait_fd >= 0)
		return 0;
	rc = -errno;
	real_close(q->app_fd);
	hca_evq_close(q);
	return rc;
}

bool hca_evq_blocks(const struct hca_evq *q)
{
	const int flags = fcntl(spw_thr_load_rlx(&q->app_fd), F_GETFL);

	return flags < 0 || !(flags & O_NONBLOCK);
}

int hca_evq_wait(const struct hca_evq *q)
{
	uint8_t byte;

	return read(hca_evq_blocks(q) ? q->wait_fd : q->own_fd, &byte, 1) == 1 ? 0 : -errno;
}

/* app_fd is the application's to close. */
void hca_evq_close(struct hca_evq *q)
{
	real_close(q->wait_fd);
	real_close(q->own_fd);
	real_close(q->wr_fd);
}

/* One write is one event; false: the pipe is full. */
bool hca_evq_send(struct hca_evq *q, const void *event)
{
	/* own_fd is a reader, so this cannot raise SIGPIPE. */
	if (real_write(q->wr_fd, event, q->event_bytes) == (ssize_t)q->event_bytes)
		return true;
	q->lost++;
	return false;
}

/* Takes out everything and puts back what belongs to other objects: after a destroy no event of the
 * object may follow. */
uint32_t hca_evq_purge(struct hca_evq *q, uint64_t element)
{
	uint8_t *all = NULL;
	size_t used = 0, cap = 0;
	uint32_t purged = 0;
	ssize_t n;

	do {
		if (cap - used < PURGE_BATCH * EVENT_BYTES_MAX) {
			uint8_t *more = realloc(all, cap + PURGE_BATCH * EVENT_BYTES_MAX);

			if (!more)
				break;
			all = more;
			cap += PURGE_BATCH * EVENT_BYTES_MAX;
		}
		n = read(q->own_fd, all + used, (cap - used) / q->event_bytes * q->event_bytes);
		used += n > 0 ? (size_t)n : 0;
	} while (n > 0);
	for (size_t at = 0; at + q->event_bytes <= used; at += q->event_bytes) {
		if (memcmp(all + at, &element, sizeof(element)) == 0)
			purged++;
		else
			hca_evq_send(q, all + at);
	}
	free(all);
	return purged;
}

/* ---- completion channels ---- */

/* The mark lets the interposed close() find the channel. */
int hca_channel_open(struct hca_ctx *ctx, int *fd_out)
{
	struct hca_comp_channel *ch = calloc(1, sizeof(*ch));
	int rc;

	if (!ch)
		return -ENOMEM;
	rc = hca_evq_open(&ch->q, sizeof(struct ib_uverbs_comp_event_desc));
	if (!rc && (rc = hca_mark_set(ch->q.app_fd, HCA_MARK_FILE))) {
		real_close(ch->q.app_fd);
		hca_evq_close(&ch->q);
	}
	if (rc) {
		free(ch);
		return rc;
	}
	ch->ctx = ctx;
	ch->ref_cnt = 1;
	ch->next = ctx->channels;
	ctx->channels = ch;
	*fd_out = ch->q.app_fd;
	return 0;
}

/* For a CQ that is created on the channel, and uses it from then on. */
struct hca_comp_channel *hca_channel_get(struct hca_ctx *ctx, int fd)
{
	struct hca_comp_channel *ch = ctx->channels;

	while (ch && ch->q.app_fd != fd)
		ch = ch->next;
	if (ch)
		ch->ref_cnt++;
	return ch;
}

/* The last user, the descriptor or a CQ, frees the channel. */
void hca_channel_put(struct hca_comp_channel *ch)
{
	if (--ch->ref_cnt)
		return;
	HCA_UNLINK(ch->ctx->channels, ch, next);
	hca_evq_close(&ch->q);
	free(ch);
}

/* CQs may still use the channel: their events go into a pipe that nobody reads. */
bool hca_channel_fd_closed(struct hca_ctx *ctx, int fd)
{
	for (struct hca_comp_channel *ch = ctx->channels; ch; ch = ch->next) {
		if (ch->q.app_fd == fd) {
			ch->q.app_fd = -1;
			hca_channel_put(ch);
			return true;
		}
	}
	return false;
}

/* comp_sent is what a destroyed CQ reports, so that the application can wait until it has read as
 * many. */
void hca_event_comp(struct hca_cq *cq)
{
	struct ib_uverbs_comp_event_desc ev = {.cq_handle = cq->o.user_handle};

	if (cq->channel && hca_evq_send(&cq->channel->q, &ev))
		cq->comp_sent++;
	devx_event_comp(cq);
}

void hca_event_purge_cq(struct hca_cq *cq)
{
	if (cq->channel)
		cq->comp_sent -= hca_evq_purge(&cq->channel->q, cq->o.user_handle);
	hca_event_purge_async(&cq->o);
}

/* ---- asynchronous events ---- */

/* A context has one, made by GET_CONTEXT; before that there is no object to report on. */
int hca_async_open(struct hca_ctx *ctx, int *fd_out)
{
	struct hca_async *as = calloc(1, sizeof(*as));
	int rc;

	if (!as)
		return -ENOMEM;
	rc = hca_evq_open(&as->q, sizeof(struct ib_uverbs_async_event_desc));
	if (rc) {
		free(as);
		return rc;
	}
	ctx->async = as;
	*fd_out = as->q.app_fd;
	return 0;
}

void hca_async_close(struct hca_ctx *ctx)
{
	if (!ctx->async)
		return;
	hca_evq_close(&ctx->async->q);
	free(ctx->async);
	ctx->async = NULL;
}

static bool event_send_async(struct hca_ctx *ctx, uint64_t element, enum hca_event type)
{
	struct ib_uverbs_async_event_desc ev = {.element = element, .event_type = type};

	return ctx->async && hca_evq_send(&ctx->async->q, &ev);
}

/* async_sent is what a destroy command reports, as comp_sent is for completions. An event names its
 * object by the address that libibverbs gave with the create command. There is none for an object
 * of DEVX, whose events have subscribers. */
static void event_object(struct hca_obj *o, enum hca_event type)
{
	if (o->devx)
		devx_event_object(o, type);
	else if (event_send_async(o->ctx, o->user_handle, type))
		o->async_sent++;
}

void hca_event_cq(struct hca_cq *cq, enum hca_event type)
{
	event_object(&cq->o, type);
}

void hca_event_qp(struct hca_qp *qp, enum hca_event type)
{
	event_object(&qp->o, type);
}

void hca_event_srq(struct hca_srq *srq, enum hca_event type)
{
	event_object(&srq->o, type);
}

void hca_event_wq(struct hca_wq *wq, enum hca_event type)
{
	event_object(&wq->o, type);
}

/* To all contexts. The element is the number of the port, or 0 for the device as a whole. */
void hca_event_port(struct hca_dev *dev, enum hca_event type)
{
	uint64_t element = type == HCA_EVENT_DEVICE_FATAL ? 0 : 1;

	for (struct hca_ctx *ctx = dev->ctxs; ctx; ctx = ctx->next) {
		event_send_async(ctx, element, type);
		if (!element)
			devx_files_end(ctx);
	}
	if (element)
		devx_event_port(dev, type);
}

void hca_event_purge_async(struct hca_obj *o)
{
	if (o->ctx->async && o->async_sent)
		o->async_sent -= hca_evq_purge(&o->ctx->async->q, o->user_handle);
}
