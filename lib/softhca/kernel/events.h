/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * An event queue that the application reads from a file descriptor: a pipe that carries whole
 * events. It also holds events that the application has not read; destroy commands withdraw those
 * of their object (purge) and report how many others were sent about it.
 */
#ifndef SPW_SOFTHCA_EVENTS_H
#define SPW_SOFTHCA_EVENTS_H

#include "base/spw_types.h"

struct hca_evq {
	int app_fd;  /* the application's end; opened for reading and writing, see hca_evq_open */
	int wr_fd;   /* write end, non-blocking */
	int own_fd;  /* another read end, non-blocking whatever the application sets on its own */
	int wait_fd; /* one more, which blocks always; -1: events are read from app_fd itself */
	uint32_t event_bytes;
	uint32_t lost; /* events that found the pipe full */
};

struct hca_comp_channel {
	struct hca_ctx *ctx;
	struct hca_comp_channel *next;
	struct hca_evq q;
	uint32_t ref_cnt; /* the open file, and every CQ that uses the channel */
};

struct hca_async {
	struct hca_evq q;
};

/* Purpose: creates the pipe. Owner of q->app_fd: the application. Errors: -errno. */
int hca_evq_open(struct hca_evq *q, uint32_t event_bytes);
/* Purpose: the same for events that lie elsewhere, in a list: the pipe has one byte for each, which
 *          the application polls and hca_evq_wait takes. */
int hca_evq_open_tokens(struct hca_evq *q);
void hca_evq_close(struct hca_evq *q); /* all but app_fd */
/* Purpose: takes a byte; waits for one as the application's descriptor does, without any lock. A
 *          cancellation point. Returns: 0, or -errno: -EAGAIN with O_NONBLOCK, -EINTR. */
int hca_evq_wait(const struct hca_evq *q);
bool hca_evq_blocks(const struct hca_evq *q); /* no O_NONBLOCK on the application's descriptor */
/* Returns: false: the pipe is full; the event is dropped and counted. Never blocks. */
bool hca_evq_send(struct hca_evq *q, const void *event);
/* Purpose: withdraws the unread events whose first 8 bytes are `element`; the others stay in their
 * order. Returns: how many were withdrawn. */
uint32_t hca_evq_purge(struct hca_evq *q, uint64_t element);

/* ---- which descriptors are ours: device files and channels (marks.c) ---- */

enum hca_mark {
	HCA_MARK_NONE,
	HCA_MARK_FILE,    /* device file or completion channel */
	HCA_MARK_EVENTS,  /* of DEVX: read() is ours too (devx_events.h) */
	HCA_MARK_NETLINK, /* NETLINK_RDMA: send() and recv() too (nldev/nldev.h) */
};

/* Thread of all: any, without a lock; set and clear are for the descriptor's owner. */
int hca_mark_set(int fd, enum hca_mark mark); /* 0 or -ENOMEM */
void hca_mark_clear(int fd);
enum hca_mark hca_mark_get(int fd);
void hca_marks_clear(void); /* all of them: in a forked child and at exit */

#endif
