/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Spin or nap, for a NIC thread that has cores to spin on but may have to share its own.
 *
 * A frame that comes while the scheduler lets somebody else have the core for g waits g/2, and comes then
 * with a chance of g/T: losses g1, g2... within T make the mean frame wait sum(g^2)/2T. Napping makes every
 * frame wait, by 10 to 50 us; spinning may cost the mean frame PACE_COST_NS. So a loss of g is worth
 * g^2/2/PACE_COST_NS of napping: a debt, which time pays off. The thread spins until it owes more than
 * PACE_CREDIT_NS, then naps until all is paid.
 *
 * A housekeeper that takes 100 us of each millisecond never adds up to anything, nor does somebody who gets a
 * slice of 4 ms five times a second; who gets every other slice makes the thread nap 95 % of the time. */
#ifndef SPW_SOFTHCA_NIC_PACE_H
#define SPW_SOFTHCA_NIC_PACE_H

#include "base/spw_types.h"

#define PACE_NAP_NS 20000ull /* asked for; the kernel makes 30 to 70 us of it */
#define PACE_COST_NS 50000ull
#define PACE_CREDIT_NS 500000000ull
#define PACE_DEBT_MAX_NS 2000000000ull /* a program that was stopped for minutes does not nap for hours */

struct nic_pace { /* all 0: nothing was lost */
	uint64_t paid_ns; /* when the debt is paid; in the past: none */
	bool naps;
};

/* The scheduler had taken the core for lost_ns, until now. */
SPW_INLINE void pace_lost(struct nic_pace *p, uint64_t now_ns, uint64_t lost_ns)
{
	const uint64_t lost = SPW_MIN(lost_ns, PACE_DEBT_MAX_NS), debt = lost * lost / 2 / PACE_COST_NS;

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
