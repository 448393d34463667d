/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A wait for another rank. A thread that was stopped (SIGSTOP, a frozen container, a paused
 * machine) must not name another rank for it: what it waits for may have come meanwhile, or come as
 * soon as what this rank must send is sent. So of one step only a share of 1 / COLL_WAIT_LOOKS of
 * the wait counts, and the wait is over only after one more look.
 *
 *   begin ── look ── look ── stopped for long ── look ── look ...... look ── over
 *            +dt     +dt                         +1/8    +dt         left 0
 *
 * Who looks less often waits longer: COLL_WAIT_LOOKS + 1 looks.
 */
#ifndef COLL_WAIT_H
#define COLL_WAIT_H

#include "base/spw_types.h"

#define COLL_WAIT_LOOKS 8u

struct coll_wait {
	uint64_t last_ns; /* the last look */
	uint64_t left_ns, step_ns;
};

SPW_INLINE struct coll_wait coll_wait_of(uint64_t now_ns, uint64_t ns)
{
	return (struct coll_wait){now_ns, ns, SPW_MAX(ns / COLL_WAIT_LOOKS, (uint64_t)1)};
}

/* Returns: whether the wait was over at the last call, since when the caller has looked again. */
SPW_INLINE bool coll_wait_is_over(struct coll_wait *w, uint64_t now_ns)
{
	const bool over = !w->left_ns;

	w->left_ns -= SPW_MIN(w->left_ns, SPW_MIN(now_ns - w->last_ns, w->step_ns));
	w->last_ns = now_ns;
	return over;
}

/* Returns: for how long the caller may sleep until its next look. */
SPW_INLINE uint64_t coll_wait_sleep_ns(const struct coll_wait *w)
{
	return SPW_MIN(w->left_ns, w->step_ns);
}

#endif
