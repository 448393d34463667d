/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * An event queue that an application reads from a file descriptor: a pipe that carries whole events.
 * What has been sent and not taken back has been reported: that is how destroy commands count.
 */
#ifndef SPW_SOFTHCA_EVENTS_H
#define SPW_SOFTHCA_EVENTS_H

#include "base/spw_types.h"

struct hca_evq {
	int app_fd;  /* read end; the application's */
	int wr_fd;   /* write end, non-blocking */
	int own_fd;  /* the read end opened once more, non-blocking whatever the application sets */
	uint32_t event_bytes;
	uint32_t lost; /* events that found the pipe full */
};

struct hca_comp_channel {
	struct hca_ctx *ctx;
	struct hca_comp_channel *next;
	struct hca_evq q;
	uint32_t ref_cnt; /* the file, and every CQ on it */
};

struct hca_async {
	struct hca_evq q;
};

int hca_evq_open(struct hca_evq *q, uint32_t event_bytes);
void hca_evq_close(struct hca_evq *q); /* not app_fd */
bool hca_evq_send(struct hca_evq *q, const void *event);
/* Takes unread events whose first 8 bytes are `element` back; returns how many. */
uint32_t hca_evq_purge(struct hca_evq *q, uint64_t element);

/* ---- which descriptors are ours (device files, channels): one byte each --------------------------- */

void hca_mark_set(int fd);
void hca_mark_clear(int fd);
bool hca_mark_get(int fd); /* true for descriptors beyond the table: ask further */
void hca_marks_clear(void);

#endif
