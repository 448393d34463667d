/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The cold half of the gap record: the probe of an idle core, and sums.
 *
 * A gap is a step of the sender's loop that took longer than a step does. The probe runs the same
 * clock readings on the same core with nothing to do: what it finds is the machine's, not the
 * program's.
 */
#include "gen/spw_gen_gap.h"

static const struct spw_enum_word doing_word[] = {SPW_ENUM_WORDS(GEN_DOING)};

const char *gen_doing_name(enum gen_doing doing)
{
	return SPW_ENUM_NAME(doing_word, doing);
}

const char *gen_doing_text(enum gen_doing doing)
{
	return SPW_ENUM_TEXT(doing_word, doing);
}

/* Runs before the plan, for `ns` at most. */
void gen_gap_probe(struct gen_gap *gap, const struct spw_tsc *tsc, uint64_t ns,
		   const uint32_t *stop)
{
	uint64_t begin = spw_tsc_now(), last = 0, now = 0;

	while (now < ns && !spw_thr_load_rlx(stop)) {
		now = spw_tsc_to_ns(tsc, spw_tsc_now() - begin);
		gen_gap_note(gap, GEN_DOING_poll, now - last);
		last = now;
	}
}

/* Sums of two senders; the longest gap of both. */
void gen_gap_merge(struct gen_gap *gap, const struct gen_gap *from)
{
	spw_hist_merge(&gap->by_time_ns, &from->by_time_ns);
	for (int s = 0; s < GEN_DOING_CNT; s++) {
		gap->longer[s].cnt += from->longer[s].cnt;
		gap->longer[s].worst_ns =
			SPW_MAX(gap->longer[s].worst_ns, from->longer[s].worst_ns);
	}
}

uint64_t gen_gap_total_ns(const struct gen_gap *gap)
{
	return spw_hist_total(&gap->by_time_ns);
}
