/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Files of DEVX that a program reads: event channels, and channels for the results of asynchronous
 * queries. A read() returns one event, whatever it has room for, so what the application's
 * descriptor is cannot carry them: it is a pipe with a byte for each, and read() is interposed.
 *
 *   NIC thread, command    devx_file_post ──► list of events, and a byte ──► poll(2)
 *   read(2)                a byte (here it waits), then the first event of the list
 *
 *   open ──► closed by the application; reads go on ──► last one done: freed
 *      └──► ended with its context: no events, every read fails, poll says readable
 *
 * What to know before changing it: the byte goes first on both ways, so an event that poll does not
 * show does not exist. A reader that cannot use its event puts the byte back.
 *
 * Source: Linux drivers/infiniband/hw/mlx5/devx.c (devx_async_event_read, devx_async_cmd_event_read
 * and their polls): order of checks, errno values, 1 MiB of results.
 */
#include <errno.h>
#include <pthread.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>
#include <stdlib.h>

#include "softhca/hca_quiet.h"
#include "softhca/hca_real.h"
#include "softhca/kernel/ctl.h"
#include "softhca/kernel/devx/devx.h"
#include "softhca/kernel/devx/devx_ev.h"

#define EVENTS_MAX    32768u     /* Linux has no limit but its memory */
#define OUT_BYTES_MAX (1u << 20) /* results that were not read */

static void ev_enter(struct hca_dev *dev, sigset_t *old)
{
	hca_quiet_lock(&dev->ev_mutex, old);
}

static void ev_exit(struct hca_dev *dev, const sigset_t *old)
{
	hca_quiet_unlock(&dev->ev_mutex, old);
}

/* ---- events ---- */

struct devx_event *devx_event_new(uint64_t first, uint32_t payload)
{
	struct devx_event *e = calloc(1, sizeof(*e) + sizeof(first) + payload);

	if (!e)
		return NULL;
	e->bytes = (uint32_t)sizeof(first) + payload;
	e->data[0] = first;
	return e;
}

int devx_file_room(struct devx_file *f, uint32_t out_bytes)
{
	sigset_t old;
	bool room;

	ev_enter(f->dev, &old);
	room = f->out_bytes + out_bytes <= OUT_BYTES_MAX && f->event_cnt < EVENTS_MAX;
	ev_exit(f->dev, &old);
	return room ? 0 : -EAGAIN;
}

/* A subscription of a file without data has one event in it at most. */
static bool file_append(struct devx_file *f, struct devx_event *e)
{
	static const uint8_t byte;

	if (e->sub && e->sub->queued)
		return false;
	if (f->event_cnt >= EVENTS_MAX || !hca_evq_send(&f->q, &byte)) {
		f->overflow = true;
		return false;
	}
	*f->tail = e;
	f->tail = &e->next;
	f->event_cnt++;
	f->out_bytes += f->cmds ? e->bytes - (uint32_t)sizeof(e->data[0]) : 0;
	if (e->sub)
		e->sub->queued = true;
	return true;
}

void devx_file_post(struct devx_file *f, struct devx_event *e)
{
	sigset_t old;
	bool kept = false;

	ev_enter(f->dev, &old);
	if (e)
		kept = file_append(f, e);
	else
		f->overflow = true;
	ev_exit(f->dev, &old);
	if (!kept)
		free(e);
}

static struct devx_event *file_unlink_first(struct devx_file *f)
{
	struct devx_event *e = f->events;

	f->events = e->next;
	if (!f->events)
		f->tail = &f->events;
	f->event_cnt--;
	f->out_bytes -= f->cmds ? e->bytes - (uint32_t)sizeof(e->data[0]) : 0;
	if (e->sub)
		e->sub->queued = false;
	return e;
}

/* ---- read ---- */

/* With the byte of an event. Returns: 0 and *e_out NULL: a write of the application, no event. */
static int file_take(struct devx_file *f, size_t len, struct devx_event **e_out)
{
	static const uint8_t byte;
	sigset_t old;
	int rc = 0;

	ev_enter(f->dev, &old);
	if (!f->ctx)
		rc = hca_evq_blocks(&f->q) ? -EIO : -EAGAIN;
	else if (f->events && f->events->bytes > len)
		rc = f->cmds ? -ENOSPC : -EINVAL;
	else if (f->events)
		*e_out = file_unlink_first(f);
	if (rc)
		hca_evq_send(&f->q, &byte);
	ev_exit(f->dev, &old);
	return rc;
}

/* Reported once. */
static bool file_overflowed(struct devx_file *f)
{
	sigset_t old;
	bool was;

	ev_enter(f->dev, &old);
	was = f->overflow && !f->cmds;
	f->overflow = false;
	ev_exit(f->dev, &old);
	return was;
}

int64_t devx_file_read(struct devx_file *f, void *buf, size_t len)
{
	struct devx_event *e = NULL;
	int rc = file_overflowed(f) ? -EOVERFLOW : 0;
	uint32_t bytes;

	while (!rc && !e) {
		rc = hca_evq_wait(&f->q);
		rc = rc ? rc : file_take(f, len, &e);
	}
	if (rc)
		return rc;
	bytes = e->bytes;
	rc = hca_umem_write((uintptr_t)buf, e->data, bytes);
	free(e);
	return rc ? rc : (int64_t)bytes;
}

/* ---- life ---- */

static void file_end(struct devx_file *f)
{
	static const uint8_t byte;
	sigset_t old;

	ev_enter(f->dev, &old);
	f->ctx = NULL;
	while (f->events)
		free(file_unlink_first(f));
	hca_evq_send(&f->q, &byte); /* wakes readers; each puts it back */
	ev_exit(f->dev, &old);
	devx_subs_free(f);
}

void devx_files_end(struct hca_ctx *ctx)
{
	for (struct devx_file *f = ctx->dev->devx_files; f; f = f->next)
		if (f->ctx == ctx)
			file_end(f);
}

/* The lock keeps signals out: a handler may look for another file. */
static void file_free(struct devx_file *f)
{
	struct hca_dev *dev = f->dev;
	sigset_t old;

	file_end(f);
	ev_enter(dev, &old);
	HCA_UNLINK(dev->devx_files, f, next);
	ev_exit(dev, &old);
	hca_evq_close(&f->q);
	free(f);
}

void devx_files_free(struct hca_dev *dev)
{
	while (dev->devx_files)
		file_free(dev->devx_files);
}

static struct devx_file *file_find(struct hca_dev *dev, int fd)
{
	struct devx_file *f = fd < 0 ? NULL : dev->devx_files;

	while (f && f->q.app_fd != fd)
		f = f->next;
	return f;
}

struct devx_file *devx_file_get(struct hca_dev *dev, int fd)
{
	struct devx_file *f;
	sigset_t old;

	ev_enter(dev, &old);
	f = file_find(dev, fd);
	if (f)
		f->refs++;
	ev_exit(dev, &old);
	return f;
}

void devx_file_put(struct devx_file *f)
{
	struct hca_dev *dev = f->dev;
	sigset_t old;
	bool last;

	ev_enter(dev, &old);
	last = --f->refs == 0;
	ev_exit(dev, &old);
	if (!last)
		return;
	hca_lock(dev);
	file_free(f);
	hca_unlock(dev);
}

/* Not found from now on; the descriptor's own reference goes with the one of the look-up. */
bool devx_file_closed(struct hca_dev *dev, int fd)
{
	struct devx_file *f = devx_file_get(dev, fd);
	sigset_t old;

	if (!f)
		return false;
	ev_enter(dev, &old);
	spw_thr_store_rlx(&f->q.app_fd, -1);
	f->refs--;
	ev_exit(dev, &old);
	devx_file_put(f);
	return true;
}

/* ---- methods ---- */

struct devx_file *devx_file_named(struct uv_ioctl *io, uint16_t id, bool cmds)
{
	const struct ib_uverbs_attr *a = uv_ioctl_attr(io, id);
	struct hca_dev *dev = io->ctx->dev;
	struct devx_file *f = NULL;
	sigset_t old;

	if (!a || a->data > INT32_MAX)
		return NULL;
	ev_enter(dev, &old);
	f = file_find(dev, (int)a->data);
	ev_exit(dev, &old);
	return f && f->ctx == io->ctx && f->cmds == cmds ? f : NULL;
}

/* A context without DEVX may have one as well; the methods that use it refuse. */
static int file_open(struct uv_ioctl *io, uint16_t id, const struct devx_file *want)
{
	struct hca_dev *dev = io->ctx->dev;
	struct devx_file *f;
	sigset_t old;
	int rc;

	if (!dev->cfg->card->devx)
		return -EPROTONOSUPPORT;
	if (hca_is_gone(dev))
		return -EIO;
	f = malloc(sizeof(*f));
	if (!f)
		return -ENOMEM;
	*f = *want;
	f->dev = dev;
	f->ctx = io->ctx;
	f->refs = 1;
	f->tail = &f->events;
	rc = hca_evq_open_tokens(&f->q);
	if (rc) {
		free(f);
		return rc;
	}
	rc = hca_mark_set(f->q.app_fd, HCA_MARK_EVENTS);
	rc = rc ? rc : uv_attr_put_handle(io, id, (uint64_t)f->q.app_fd);
	if (rc) {
		hca_mark_clear(f->q.app_fd);
		real_close(f->q.app_fd);
		hca_evq_close(&f->q);
		free(f);
		return rc;
	}
	ev_enter(dev, &old);
	f->next = dev->devx_files;
	dev->devx_files = f;
	ev_exit(dev, &old);
	return 0;
}

int do_devx_cmd_fd(struct uv_ioctl *io)
{
	return file_open(io, MLX5_IB_ATTR_DEVX_ASYNC_CMD_FD_ALLOC_HANDLE,
			 &(struct devx_file){.cmds = true});
}

int do_devx_event_fd(struct uv_ioctl *io)
{
	uint64_t flags;
	int rc = uv_attr_num(io, MLX5_IB_ATTR_DEVX_ASYNC_EVENT_FD_ALLOC_FLAGS, UINT64_MAX, &flags);

	if (rc || flags & ~(uint64_t)MLX5_IB_UAPI_DEVX_CR_EV_CH_FLAGS_OMIT_DATA)
		return -EINVAL;
	return file_open(io, MLX5_IB_ATTR_DEVX_ASYNC_EVENT_FD_ALLOC_HANDLE,
			 &(struct devx_file){.omit_data = flags});
}
