/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Bandwidth over a lane (pump.h), called by case_xfer.c at both ends. Requests are tested in the
 * order in which they were started.
 *
 *    start        warm_ns                        end_ns
 *      │ warm-up     │ counted: first..last done     │ drain (and, of SENDs, the last messages)
 *      └── ms / 5 ───┴───────────── ms ──────────────┘
 *
 * A row counts from one completion to another, so that neither filling nor draining the queues is
 * part of it. It goes on beyond its end until LEAST_DONE messages were counted: of large ones few
 * fit.
 */
#include "measure/pump.h"

#include <errno.h>
#include <poll.h>

#include "base/spw_err.h"
#include "base/spw_monotonic.h"
#include "measure/queue.h"

#define DEPTH_BYTES  (16ull << 20)
#define LOOK_MASK    1023u /* empty turns between two looks at the clock's long limits */
#define STUCK_NS     10000000000ull
#define LEAST_DONE   3u
#define IDLE_POLL_MS 1

struct pump {
	struct perf_lane *lane;
	const struct perf_case *what;
	struct perf_queue tx, rx;
	uint32_t depth;
	uint64_t warm_ns, end_ns, moved_ns; /* moments */
	uint64_t first_done, first_ns, last_done, last_ns;
	uint64_t lasts; /* messages of 0 bytes sent */
	bool sending, receiving;
};

/* Counts what is done, and ends the row when its time is over. */
static void send_clock(struct pump *p, uint64_t now)
{
	if (!p->sending)
		return;
	if (now >= p->warm_ns && !p->first_ns) {
		p->first_ns = now;
		p->first_done = p->tx.done;
	}
	if (p->first_ns) {
		p->last_ns = now;
		p->last_done = p->tx.done;
	}
	if (now >= p->end_ns && p->last_done - p->first_done >= LEAST_DONE)
		p->sending = false;
}

/* Returns how many messages were done; receives are posted before sends, which the other end may
 * wait for. */
static int pump_turn(struct pump *p)
{
	int rc, cnt;

	if (p->receiving && (rc = perf_queue_receive(&p->rx, p->lane, p->what)) < 0)
		return rc;
	rc = p->sending ? perf_queue_send(&p->tx, p->lane, p->what, p->depth, false)
	     : p->what->op == PERF_SEND && p->last_ns ? perf_queue_lasts(&p->tx, p->lane, &p->lasts)
						      : 0;
	if (rc < 0)
		return rc;
	cnt = perf_queue_test(&p->tx);
	if (cnt > 0)
		send_clock(p, spw_monotonic_ns());
	if (cnt < 0 || (rc = perf_queue_test(&p->rx)) < 0)
		return cnt < 0 ? cnt : rc;
	p->receiving &= !perf_queue_is_over(&p->rx);
	return cnt + rc;
}

/* Everything that was started is done: the lane is then free for the next case. */
static bool is_over(const struct pump *p)
{
	bool drained = p->tx.posted == p->tx.done;
	bool said = p->what->op != PERF_SEND || !p->last_ns || p->lasts == PERF_DEPTH_MAX;

	return !p->sending && !p->receiving && drained && said;
}

/* Returns: 0 to go on. */
static int pump_poll(struct pump *p, uint64_t now)
{
	if (now - p->moved_ns > STUCK_NS)
		return spw_err(ETIMEDOUT, "nothing moved for 10 s: %s",
			       spw_xfer_conn_text(p->lane->conn));
	return 0;
}

/* A clock is read after each turn that moved something: messages are counted at the time when they
 * were done. */
int perf_pump(struct perf_lane *lane, const struct perf_case *what, bool sends, bool receives,
	      struct perf_flow *flow_out)
{
	struct pump p = {.lane = lane, .what = what};
	uint64_t cpu = perf_cpu_ns(), start = spw_monotonic_ns();
	uint32_t empty = 0;
	int rc = 0;

	p.sending = sends;
	p.receiving = receives;
	/* Deep enough to fill the rails: DEPTH_BYTES under way, of small messages all that a queue
	 * holds. */
	p.depth = (uint32_t)SPW_MIN(SPW_MAX(DEPTH_BYTES / what->bytes, 2ull),
				    (uint64_t)PERF_DEPTH_MAX);
	p.moved_ns = start;
	p.warm_ns = start + what->ms * 200000ull;
	p.end_ns = start + what->ms * 1200000ull;
	while (rc == 0 && !is_over(&p)) {
		int moved = pump_turn(&p);

		if (moved > 0) {
			p.moved_ns = spw_monotonic_ns();
			empty = 0;
		} else if (moved < 0) {
			rc = moved;
		} else {
			perf_lane_idle(lane);
			if ((++empty & LOOK_MASK) == 0)
				rc = pump_poll(&p, spw_monotonic_ns());
		}
	}
	*flow_out = (struct perf_flow){.messages = p.last_done - p.first_done,
				       .bytes = (p.last_done - p.first_done) * what->bytes,
				       .ns = p.last_ns - p.first_ns,
				       .total = (sends ? p.tx.done - p.lasts : p.rx.whole)};
	flow_out->cpu_ns = perf_cpu_ns() - cpu;
	return rc;
}

/* Nothing that is timed waits for this end, so it sleeps between two calls of progress. */
int perf_pump_idle(struct perf_lane *lane, const struct perf_ctl *ctl)
{
	struct pollfd wait = {.fd = ctl->fd, .events = POLLIN};

	while (!perf_ctl_pending(ctl)) {
		(void)poll(&wait, 1, IDLE_POLL_MS);
		spw_xfer_progress(lane->x);
		if (spw_xfer_conn_error(lane->conn))
			return spw_err(-spw_xfer_conn_error(lane->conn), "%s",
				       spw_xfer_conn_text(lane->conn));
	}
	return 0;
}

/* Only one end calls this with receive; the control connection says when (case_xfer.c). */
int perf_pump_one(struct perf_lane *lane, const struct perf_case *what, const struct perf_ctl *ctl,
		  bool receive)
{
	uint64_t start = spw_monotonic_ns();
	struct spw_xfer_req *req;
	bool done = false;
	int rc = receive ? perf_lane_receive(lane, what, 0, &req)
			 : perf_lane_start(lane, what, 0, false, &req);

	while (rc == 0 && (rc = spw_xfer_test(req, &done, NULL)) == 0 && !done) {
		perf_lane_idle(lane);
		if (spw_monotonic_ns() - start > STUCK_NS)
			rc = spw_err(ETIMEDOUT, "%s: the first message did not arrive in 10 s",
				     ctl->peer);
	}
	return rc;
}
