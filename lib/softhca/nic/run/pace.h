/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Spin or nap: the decision of a NIC thread that has cores to spin on but may have to share its
 * own. Pure arithmetic; run/thread.c reports losses (pace_lost) and asks (pace_spins).
 *
 * A frame that arrives while the scheduler gives the core to another thread for g waits g/2 on
 * average, and arrives then with probability g/T: losses g1, g2... within T make the mean frame
 * wait sum(g^2)/2T. Napping makes every frame wait, by 10 to 50 us; so spinning may cost the mean
 * frame PACE_COST_NS. A loss of g is thus worth g^2/2/PACE_COST_NS of napping: a debt, which time
 * pays off. The thread spins until it owes more than PACE_CREDIT_NS, then naps until all is paid.
 *
 *   100 us of each millisecond lost          the debt never grows: spin
 *   a slice of 4 ms five times a second      the same
 *   every other slice of 4 ms                naps 95 % of the time
 */
#ifndef SPW_SOFTHCA_RUN_PACE_H
#define SPW_SOFTHCA_RUN_PACE_H

#include "base/spw_types.h"

#define PACE_NAP_NS    20000ull /* requested; the kernel makes 30 to 70 us of it */
#define PACE_COST_NS   50000ull
#define PACE_CREDIT_NS 500000000ull
/* A program that was stopped for minutes does not nap for hours. */
#define PACE_DEBT_MAX_NS 2000000000ull

struct nic_pace {         /* all 0: nothing was lost */
	uint64_t paid_ns; /* when the debt is paid; in the past: none */
	bool naps;
};

/* The thread had lost its core for lost_ns, until now. */
SPW_INLINE void pace_lost(struct nic_pace *p, uint64_t now_ns, uint64_t lost_ns)
{
	const uint64_t lost = SPW_MIN(lost_ns, PACE_DEBT_MAX_NS),
		       debt = lost * lost / 2 / PACE_COST_NS;

	p->paid_ns = SPW_MIN(SPW_MAX(p->paid_ns, now_ns) + debt, now_ns + PACE_DEBT_MAX_NS);
	if (p->paid_ns - now_ns > PACE_CREDIT_NS)
		p->naps = true;
}

SPW_INLINE bool pace_spins(struct nic_pace *p, uint64_t now_ns)
{
	if (spw_unlikely(p->naps) && now_ns >= p->paid_ns)
		p->naps = false;
	return !p->naps;
}

#endif
