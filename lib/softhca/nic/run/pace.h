/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Spin or nap: the decision of a NIC thread that has cores to spin on but may have to share its
 * own. Pure arithmetic; run/thread.c reports losses (pace_lost) and asks (pace_spins).
 *
 * A frame that arrives while the scheduler gives the core to another thread for g waits g/2 on
 * average, and arrives then with probability g/T: losses g1, g2... within T make the mean frame
 * wait sum(g^2)/2T. Napping makes every frame wait, by 10 to 50 us; so spinning may cost the mean
 * frame PACE_COST_NS. A loss of g thus takes g^2/2/PACE_COST_NS from a backoff budget of
 * PACE_BUDGET_NS, which time refills, a nanosecond each. The thread spins until the budget is used
 * up, then naps until it is full again.
 *
 *   100 us of each millisecond lost          refilled as fast as it is used: spin
 *   a slice of 4 ms five times a second      the same
 *   every other slice of 4 ms                naps 95 % of the time
 */
#ifndef SPW_SOFTHCA_RUN_PACE_H
#define SPW_SOFTHCA_RUN_PACE_H

#include "base/spw_types.h"

#define PACE_NAP_NS    20000ull /* requested; the kernel makes 30 to 70 us of it */
#define PACE_COST_NS   50000ull
#define PACE_BUDGET_NS 500000000ull
/* A program that was stopped for minutes does not nap for hours. */
#define PACE_USED_MAX_NS 2000000000ull

struct nic_pace {         /* all 0: nothing was lost */
	uint64_t full_ns; /* when the budget is full again; in the past: it is */
	bool naps;
};

/* The thread had lost its core for lost_ns, until now. */
SPW_INLINE void pace_lost(struct nic_pace *p, uint64_t now_ns, uint64_t lost_ns)
{
	const uint64_t lost = SPW_MIN(lost_ns, PACE_USED_MAX_NS),
		       used = lost * lost / 2 / PACE_COST_NS;

	p->full_ns = SPW_MIN(SPW_MAX(p->full_ns, now_ns) + used, now_ns + PACE_USED_MAX_NS);
	if (p->full_ns - now_ns > PACE_BUDGET_NS)
		p->naps = true;
}

SPW_INLINE bool pace_spins(struct nic_pace *p, uint64_t now_ns)
{
	if (spw_unlikely(p->naps) && now_ns >= p->full_ns)
		p->naps = false;
	return !p->naps;
}

#endif
