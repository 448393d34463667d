/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The stretches between two looks that a sender takes at its schedule. A frame that becomes due inside one is late by what is
 * left of it: this is the part of the schedule's error that the loop makes. Between two looks lies one step of work, and a step
 * is bounded, so that a long stretch tells what it was spent on. The same record of a loop that does nothing but look, taken
 * on the same core before the plan begins, is what the machine makes of it.
 */
#ifndef SPW_GEN_GAP_H
#define SPW_GEN_GAP_H

#include "hist/spw_hist.h"
#include "time/spw_time.h"

#define GEN_GAP_LONG_NS 1000u

/* One step of work. name, text */
#define GEN_DOING_LIST(X)                                                                                               \
	X(poll, "nothing was due and nothing came: the core was away")                                                 \
	X(send, "sending what was due")                                                                                \
	X(receive, "taking echoes from the port")                                                                      \
	X(check, "looking at them")                                                                                    \
	X(events, "events of the port")

enum gen_doing {
#define X(name, text) GEN_DOING_##name,
	GEN_DOING_LIST(X)
#undef X
	GEN_DOING_CNT
};

struct gen_gap {
	/* Each stretch counts as often as it has nanoseconds: a percentile is that of the moments at which a frame can become due. */
	struct spw_hist by_time_ns;
	struct {
		uint64_t cnt, worst_ns;
	} longer[GEN_DOING_CNT]; /* than GEN_GAP_LONG_NS */
};

/* Thread: owner. */
SPW_INLINE void gen_gap_note(struct gen_gap *gap, enum gen_doing doing, uint64_t ns)
{
	spw_hist_record(&gap->by_time_ns, ns, ns);
	if (spw_likely(ns <= GEN_GAP_LONG_NS))
		return;
	gap->longer[doing].cnt++;
	gap->longer[doing].worst_ns = SPW_MAX(gap->longer[doing].worst_ns, ns);
}

/* Purpose: spins for ns, or until *stop, and notes what the machine takes from this core alone. Thread: owner. */
void gen_gap_probe(struct gen_gap *gap, const struct spw_tsc *tsc, uint64_t ns, const uint32_t *stop);

/* Purpose: adds from to gap. */
void gen_gap_merge(struct gen_gap *gap, const struct gen_gap *from);

/* Returns: nanoseconds noted in all. */
uint64_t gen_gap_total_ns(const struct gen_gap *gap);

const char *gen_doing_name(enum gen_doing doing);
const char *gen_doing_text(enum gen_doing doing);

#endif
