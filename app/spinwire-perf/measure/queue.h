/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Requests under way, in the order in which they were started, and tested in that order.
 */
#ifndef PERF_QUEUE_H
#define PERF_QUEUE_H

#include "measure/lane.h"

#define PERF_DEPTH_MAX 32u /* messages under way, and receives posted */

/* The end of a row of SENDs: the sender adds PERF_DEPTH_MAX messages of 0 bytes. The receiver, who
 * keeps that many receives posted, stops at the first of them; the others use up what it posted. */
struct perf_queue {
	struct spw_xfer_req *req[PERF_DEPTH_MAX];
	uint64_t posted, done;
	bool stopped;   /* a message of 0 bytes came */
	uint64_t whole; /* messages before it */
};

/* Purpose: tests the oldest ones.
 * Returns: how many were done, and had bytes; -errno. */
int perf_queue_test(struct perf_queue *q);

/* Returns: whether all that was received is done, and nothing more comes. */
bool perf_queue_is_over(const struct perf_queue *q);

/* Purpose: starts messages until depth are under way; posts receives, PERF_DEPTH_MAX beyond the
 * last message with bytes. Returns: 0, also when lib/xfer takes no more at the moment. */
int perf_queue_send(struct perf_queue *q, struct perf_lane *lane, const struct perf_case *what,
		    uint32_t depth, bool flagged);
int perf_queue_receive(struct perf_queue *q, struct perf_lane *lane, const struct perf_case *what);

/* Purpose: starts the PERF_DEPTH_MAX messages of 0 bytes that end a row of SENDs; *sent counts
 * them. */
int perf_queue_lasts(struct perf_queue *q, struct perf_lane *lane, uint64_t *sent);

#endif
