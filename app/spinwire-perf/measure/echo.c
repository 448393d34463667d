/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Latency over a lane (echo.h).
 *
 *   write   client: put i, flag base + i + 1 ──► slot i of the server, which polls its flag
 *           client polls slot i of its own   ◄── put i back, with the same flag
 *   send    both ends keep receives posted; the row ends as queue.h says
 *
 * case_xfer.c calls one of the two entries at each end; the client's loop is open_loop.c's, which
 * reaches this file through struct perf_method. What came is counted in e->came, what was started
 * in the queues.
 */
#include "measure/echo.h"

#include <errno.h>

#include "base/spw_err.h"
#include "base/spw_monotonic.h"
#include "measure/queue.h"

#define LOOK_MASK 255u
#define STUCK_NS  10000000000ull
#define LATE_MASK 63u /* turns between two tests of requests that nobody waits for */

/* One latency row at one end. tx: what this end starts; rx: receives, of SENDs only. */
struct echo {
	struct perf_lane *lane;
	const struct perf_case *what;
	struct perf_queue tx, rx;
	uint64_t base, came; /* messages that came so far */
	uint32_t turn;
};

/* Returns: 1: the next flag is there. Progress of the puts is made now and then only: what is timed
 * is the poll of memory. */
static int flag_poll(struct echo *e)
{
	bool seen = spw_xfer_flag_seen(perf_lane_flag_at(e->lane, e->came), e->base + e->came + 1);
	bool full = e->tx.posted - e->tx.done == PERF_DEPTH_MAX;
	int rc = 0;

	if (full || (++e->turn & LATE_MASK) == 0)
		rc = perf_queue_test(&e->tx);
	e->came += seen;
	return rc < 0 ? rc : seen;
}

/* Receives are posted again before sends are tested: the other end's next message must find one. */
static int message_poll(struct echo *e)
{
	int cnt = perf_queue_test(&e->rx), rc;

	if (cnt < 0)
		return cnt;
	e->came += (uint32_t)cnt;
	if ((rc = perf_queue_receive(&e->rx, e->lane, e->what)) == 0)
		rc = perf_queue_test(&e->tx);
	return rc < 0 ? rc : cnt;
}

/* What comes back is a flag, a message, or, of a READ, the end of this end's own request. */
static int echo_poll(void *arg)
{
	struct echo *e = arg;

	return e->what->op == PERF_WRITE  ? flag_poll(e)
	       : e->what->op == PERF_SEND ? message_poll(e)
					  : perf_queue_test(&e->tx);
}

/* No more messages than slots are under way: a slot is used again only when its message is done. */
static int echo_post(void *arg)
{
	struct echo *e = arg;
	uint64_t before = e->tx.posted;
	uint32_t depth = (uint32_t)(before - e->tx.done) + 1;
	int rc;

	if (depth > perf_lane_slots(e->lane, e->what) || depth > PERF_DEPTH_MAX) {
		/* What a READ brings back is echo_poll's to count. */
		rc = e->what->op == PERF_READ ? 0 : perf_queue_test(&e->tx);
		return rc < 0 ? rc : -EAGAIN;
	}
	rc = perf_queue_send(&e->tx, e->lane, e->what, depth, e->what->op == PERF_WRITE);
	return rc < 0 || e->tx.posted > before ? rc : -EAGAIN;
}

static void echo_idle(void *arg)
{
	struct echo *e = arg;

	perf_lane_idle(e->lane);
}

/* Ends a row: everything of this end is done. */
static int echo_drain(struct echo *e)
{
	bool send = e->what->op == PERF_SEND;
	uint64_t sent = 0, start = spw_monotonic_ns();
	int rc = 0;

	while (rc >= 0 && (e->tx.posted != e->tx.done || (send && sent < PERF_DEPTH_MAX) ||
			   (send && !perf_queue_is_over(&e->rx)))) {
		if (send && (rc = perf_queue_lasts(&e->tx, e->lane, &sent)) < 0)
			break;
		rc = send ? message_poll(e) : perf_queue_test(&e->tx);
		perf_lane_idle(e->lane);
		if (spw_monotonic_ns() - start > STUCK_NS)
			rc = spw_err(ETIMEDOUT, "the end of the row did not arrive in 10 s");
	}
	return SPW_MIN(rc, 0);
}

/* lane->flag is set before the first put: both ends count flags from the same number. */
int perf_echo_client(struct perf_lane *lane, const struct perf_case *what,
		     const struct spw_tsc *tsc, uint64_t flag, struct perf_result *result_out)
{
	struct echo e = {.lane = lane, .what = what, .base = flag};
	struct perf_method method = {.post = echo_post,
				     .poll = echo_poll,
				     .idle = echo_idle,
				     .arg = &e,
				     .halves = what->op == PERF_READ ? 1 : 2};
	uint64_t cpu = perf_cpu_ns(), start = spw_monotonic_ns();
	int rc;

	lane->flag = flag;
	rc = what->op == PERF_SEND ? perf_queue_receive(&e.rx, lane, what) : 0;
	if (rc == 0)
		rc = perf_latency(&method, tsc, what->ms / 3, what->ms - what->ms / 3,
				  &result_out->lat);
	result_out->own = (struct perf_flow){.messages = e.tx.posted,
					     .bytes = e.tx.posted * what->bytes,
					     .total = e.tx.posted,
					     .ns = spw_monotonic_ns() - start,
					     .cpu_ns = perf_cpu_ns() - cpu};
	return rc ? rc : echo_drain(&e);
}

/* Returns: messages sent back, or -errno. */
static int echo_answer(struct echo *e, uint64_t *answered)
{
	int rc = echo_poll(e);

	while (rc >= 0 && *answered < e->came) {
		rc = echo_post(e);
		if (rc == -EAGAIN)
			return 0;
		*answered += rc == 0;
	}
	return rc;
}

/* The control connection is looked at now and then only: a system call in each turn would be
 * measured. */
int perf_echo_server(struct perf_lane *lane, const struct perf_case *what,
		     const struct perf_ctl *ctl, uint64_t flag, struct perf_flow *flow_out)
{
	struct echo e = {.lane = lane, .what = what, .base = flag};
	uint64_t cpu = perf_cpu_ns(), start = spw_monotonic_ns(), answered = 0;
	uint32_t turn = 0;
	int rc = what->op == PERF_SEND ? perf_queue_receive(&e.rx, lane, what) : 0;

	lane->flag = flag;
	while (rc >= 0 && !e.rx.stopped) {
		rc = echo_answer(&e, &answered);
		if (rc == 0)
			perf_lane_idle(lane);
		if (rc >= 0 && (++turn & LOOK_MASK) == 0 && perf_ctl_pending(ctl))
			break;
	}
	*flow_out = (struct perf_flow){.messages = answered,
				       .bytes = answered * what->bytes,
				       .total = answered,
				       .ns = spw_monotonic_ns() - start,
				       .cpu_ns = perf_cpu_ns() - cpu};
	return rc < 0 ? rc : echo_drain(&e);
}
