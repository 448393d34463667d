/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Requests in order (queue.h), for pump.c and echo.c. posted and done only grow; a request's place
 * is its number modulo PERF_DEPTH_MAX, so posted - done never exceeds that.
 *
 *    req[]   d d d | u u u u u | free        d done, u under way
 *                  ^done       ^posted
 */
#include "measure/queue.h"

#include <errno.h>

/* Stops at the first that is not done: a later one may be, but order is what the callers count on.
 */
int perf_queue_test(struct perf_queue *q)
{
	int cnt = 0;

	for (; q->done != q->posted; q->done++) {
		uint64_t bytes = 1;
		bool done = false;
		int rc = spw_xfer_test(q->req[q->done % PERF_DEPTH_MAX], &done, &bytes);

		if (rc < 0)
			return rc;
		if (!done)
			break;
		if (bytes == 0 && !q->stopped) {
			q->stopped = true;
			q->whole = q->done;
		}
		cnt += bytes > 0;
	}
	return cnt;
}

/* Exactly PERF_DEPTH_MAX receives beyond the whole messages: the sender's last ones have used them
 * up. */
bool perf_queue_is_over(const struct perf_queue *q)
{
	return q->posted == q->done && q->stopped && q->posted == q->whole + PERF_DEPTH_MAX;
}

/* -EAGAIN is no error: the request was not taken, and the same slot is tried again in a later
 * turn. */
static int queue_settled(struct perf_queue *q, int rc)
{
	q->posted += rc == 0;
	return rc == -EAGAIN ? 0 : rc;
}

/* The slot follows from the number; in bandwidth rows one slot may be under way more than once. */
int perf_queue_send(struct perf_queue *q, struct perf_lane *lane, const struct perf_case *what,
		    uint32_t depth, bool flagged)
{
	while (q->posted - q->done < depth) {
		uint64_t before = q->posted;
		int rc = queue_settled(q, perf_lane_start(lane, what, q->posted, flagged,
							  &q->req[q->posted % PERF_DEPTH_MAX]));

		if (rc < 0 || q->posted == before)
			return rc;
	}
	return 0;
}

/* After the first message of 0 bytes exactly PERF_DEPTH_MAX receives are matched to the sender's
 * last ones. */
int perf_queue_receive(struct perf_queue *q, struct perf_lane *lane, const struct perf_case *what)
{
	while (q->posted - q->done < PERF_DEPTH_MAX &&
	       (!q->stopped || q->posted < q->whole + PERF_DEPTH_MAX)) {
		uint64_t before = q->posted;
		int rc = queue_settled(q, perf_lane_receive(lane, what, q->posted,
							    &q->req[q->posted % PERF_DEPTH_MAX]));

		if (rc < 0 || q->posted == before)
			return rc;
	}
	return 0;
}

/* Called until *sent is PERF_DEPTH_MAX: not all fit at once. */
int perf_queue_lasts(struct perf_queue *q, struct perf_lane *lane, uint64_t *sent)
{
	while (*sent < PERF_DEPTH_MAX && q->posted - q->done < PERF_DEPTH_MAX) {
		uint64_t before = q->posted;
		int rc = queue_settled(q, spw_xfer_send(lane->conn, NULL, NULL, 0, PERF_LANE_TAG,
							&q->req[q->posted % PERF_DEPTH_MAX]));

		*sent += q->posted - before;
		if (rc < 0 || q->posted == before)
			return rc;
	}
	return 0;
}
