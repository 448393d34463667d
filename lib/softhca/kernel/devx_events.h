/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Event and command files of DEVX (devx/devx_file.c, devx/devx_sub.c): what the rest of kernel/ and
 * the preload library need of them.
 *
 * Two locks. Subscriptions and the end of a file: the device lock, marked "Locked" below. A file's
 * events and the list of files: dev->ev_mutex, inside the device lock and with signals blocked, so
 * that a signal handler may read a file whatever it has interrupted.
 */
#ifndef SPW_SOFTHCA_DEVX_EVENTS_H
#define SPW_SOFTHCA_DEVX_EVENTS_H

#include "softhca/hca_obj.h"

struct devx_file;

/* ---- events (from events.c) ---- */

/* Purpose: an event of the device, to those who subscribed to it. Locked. */
void devx_event_comp(struct hca_cq *cq);
void devx_event_object(struct hca_obj *o, enum hca_event type);
void devx_event_port(struct hca_dev *dev, enum hca_event type);
/* Purpose: the object goes; events about it that were not read stay. Locked. */
void devx_subs_detach(struct hca_obj *o);

/* ---- descriptors ---- */

/* Returns: the file that has the descriptor, with a reference more, or NULL. Thread: any. */
struct devx_file *devx_file_get(struct hca_dev *dev, int fd);
/* Purpose: read() of one event. A cancellation point; holds no lock while it waits.
 * Returns: bytes, or -errno: -EAGAIN with O_NONBLOCK, -EINTR, -EIO (the context has gone), -EINVAL
 *          or, of a command file, -ENOSPC (len is too short; the event stays), -EFAULT (it is
 *          lost), -EOVERFLOW (earlier ones were lost). Thread: any. */
int64_t devx_file_read(struct devx_file *f, void *buf, size_t len);
/* Purpose: drops a reference; the last one ends the file. Thread: any, without the device lock. */
void devx_file_put(struct devx_file *f);
/* Purpose: the application closes fd; a read in progress goes on. Returns: it was one of these. */
bool devx_file_closed(struct hca_dev *dev, int fd);
/* Purpose: the context is closed or its device has gone: readers get -EIO. Locked. */
void devx_files_end(struct hca_ctx *ctx);
void devx_files_free(struct hca_dev *dev); /* at the end of the device */

#endif
