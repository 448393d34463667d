/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Event and command files, and subscriptions, as devx/ sees them (devx_events.h has the locks).
 */
#ifndef SPW_SOFTHCA_DEVX_EV_H
#define SPW_SOFTHCA_DEVX_EV_H

#include <signal.h>

#include "softhca/kernel/attr.h"
#include "softhca/kernel/devx_events.h"
#include "softhca/kernel/events.h"

#define DEVX_EQE_BYTES 64u

/* One event that waits, as read() returns it: cookie or wr_id, then perhaps an EQE or a mailbox. */
struct devx_event {
	struct devx_event *next;
	struct devx_sub *sub; /* the one that it stands for, or NULL */
	uint32_t bytes;
	uint64_t data[];
};

struct devx_file {
	struct hca_dev *dev;
	struct hca_ctx *ctx; /* NULL: ended */
	struct devx_file *next;
	struct hca_evq q; /* a byte for each event; app_fd -1: closed */
	uint32_t refs;    /* the open descriptor, and reads in progress */
	bool cmds;        /* results of commands; else events */
	bool omit_data;   /* cookies only, and of each subscription at most one */
	bool overflow;    /* events were lost */
	struct devx_event *events, **tail;
	uint32_t event_cnt;
	uint32_t out_bytes; /* of the mailboxes in `events` */
	struct devx_sub *subs;
};

/* One event type of one object, or of the device. It outlives its object, not its file. */
struct devx_sub {
	struct devx_sub *file_next; /* in file->subs */
	struct devx_sub *next,
		**at; /* of the same object, and what points to it; NULL: it has gone */
	struct devx_file *file;
	uint64_t cookie;
	int event_fd; /* the application's eventfd, our copy; -1: events go to the file */
	uint16_t type;
	bool queued; /* omit_data: a cookie waits already; by ev_mutex */
};

/* Returns: the open file of this kind that the attribute names; NULL: -EBADF. Locked. */
struct devx_file *devx_file_named(struct uv_ioctl *io, uint16_t id, bool cmds);
/* Returns: NULL: no memory. first: cookie or wr_id; payload: bytes behind it, zeros so far. */
struct devx_event *devx_event_new(uint64_t first, uint32_t payload);
/* Purpose: may one more result of so many bytes be under way? Errors: -EAGAIN. Locked. */
int devx_file_room(struct devx_file *f, uint32_t out_bytes);
/* Purpose: queues it; NULL, or a full file: an overflow. Owner of e: the file. Locked. */
void devx_file_post(struct devx_file *f, struct devx_event *e);
/* Purpose: the file takes no more events (devx_sub.c). Locked. */
void devx_subs_free(struct devx_file *f);

#endif
