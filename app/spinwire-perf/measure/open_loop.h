/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Latency. The open loop fixes when each message is due before it starts (Poisson) and counts from
 * that moment: a sender or a path that stalls does not hide the messages that it held up. The
 * closed loop has one message under way, as perftest and qperf do it.
 */
#ifndef PERF_OPEN_LOOP_H
#define PERF_OPEN_LOOP_H

#include "perf.h"
#include "time/spw_time.h"

#define PERF_AHEAD_MAX 32u /* messages under way */

/* How a message travels. Messages come back in the order in which they were started. */
struct perf_method {
	int (*post)(void *arg);  /* starts one; 0, -EAGAIN: not now, or -errno */
	int (*poll)(void *arg);  /* how many came back, or -errno */
	void (*idle)(void *arg); /* nothing came back */
	void *arg;
	uint32_t halves; /* 2: a message and its echo, of which half is the latency; 1 */
};

/* Returns: a random gap between messages that are due independently of each other, in means of it.
 * Shape: *random is not 0. Thread: any. */
double perf_exponential(uint64_t *random);

/* Purpose: closed loop for closed_ms, then open loop for open_ms at a mean gap of eight times the
 *   closed loop's median.
 * Thread: main. Errors: those of the method; -ETIMEDOUT nothing came back for 10 s. */
int perf_latency(const struct perf_method *method, const struct spw_tsc *tsc, uint32_t closed_ms,
		 uint32_t open_ms, struct perf_lat *lat_out);

#endif
