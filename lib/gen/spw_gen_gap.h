/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The gaps between two checks of the schedule. A frame that becomes due within a gap is sent late
 * by the rest of the gap: this is the part of the schedule error that the sender's loop makes
 * itself.
 *
 *   check ---- one step of work ---- check ---- one step of work ---- check
 *         |<--------- gap --------->|
 *
 * There is one bounded step of work in each gap, so a long gap is charged to one kind of work. The
 * same record of a loop that only checks, taken on the same core before the plan starts, shows what
 * the machine itself takes from the core.
 */
#ifndef SPW_GEN_GAP_H
#define SPW_GEN_GAP_H

#include "base/spw_enum.h"
#include "hist/spw_hist.h"
#include "time/spw_time.h"

#define GEN_GAP_LONG_NS 1000u

/* The steps of work. name, meaning */
#define GEN_DOING_LIST(X, P)                                                   \
	X(P, poll, "nothing was due and nothing came: the core was preempted") \
	X(P, send, "sending what was due")                                     \
	X(P, receive, "taking echoes from the port")                           \
	X(P, check, "checking echoes")                                         \
	X(P, events, "events of the port")

/* More kinds of gaps on a trail, which overlap the others: from a refusal of the port, or the lack
 * of a free slot, to when all that was due had been taken; from when more was due than one line
 * holds to the same moment. */
#define GEN_GAP_REFUSED GEN_DOING_CNT
#define GEN_GAP_BEHIND  (GEN_DOING_CNT + 1)

enum gen_doing { SPW_ENUM(GEN_DOING) };

struct gen_gap {
	/* A gap counts once for each of its nanoseconds, so that a percentile is taken over the
	 * moments at which a frame can become due. */
	struct spw_hist by_time_ns;
	struct {
		uint64_t cnt, worst_ns;
	} longer[GEN_DOING_CNT]; /* than GEN_GAP_LONG_NS */
};

/* Purpose: records one gap of ns, and the step of work in it.
 * Thread: owner.
 */
SPW_INLINE void gen_gap_note(struct gen_gap *gap, enum gen_doing doing, uint64_t ns)
{
	spw_hist_record(&gap->by_time_ns, ns, ns);
	if (spw_likely(ns <= GEN_GAP_LONG_NS))
		return;
	gap->longer[doing].cnt++;
	gap->longer[doing].worst_ns = SPW_MAX(gap->longer[doing].worst_ns, ns);
}

/* Purpose: spins for ns, or until *stop, and records the gaps that the machine causes on this core.
 * Thread: owner.
 */
void gen_gap_probe(struct gen_gap *gap, const struct spw_tsc *tsc, uint64_t ns,
		   const uint32_t *stop);

/* Purpose: adds the gaps of `from`.
 * Thread: owner of gap.
 */
void gen_gap_merge(struct gen_gap *gap, const struct gen_gap *from);

/* Purpose: the nanoseconds recorded in all.
 * Thread: any.
 */
uint64_t gen_gap_total_ns(const struct gen_gap *gap);

/* Purpose: the name of a step and what it means.
 * Returns: static text.
 * Thread: any.
 */
const char *gen_doing_name(enum gen_doing doing);
const char *gen_doing_text(enum gen_doing doing);

#endif
