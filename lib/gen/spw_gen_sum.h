/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The result of a run over all senders: counts that add up.
 *
 *   intended = sent + unsent       (sent: the port took it; whether it left, the port counts)
 *   sent     = echoed + lost
 *   received = echoed + duplicated + corrupted + not ours
 *
 * A frame that was due and did not come back, sent or not, counts as longer than any other: a
 * percentile whose rank lies among those is printed as "lost".
 */
#ifndef SPW_GEN_SUM_H
#define SPW_GEN_SUM_H

#include "gen/spw_gen_run.h"

/* Of one flow, over all senders; sent = echoed + lost where echoes are expected. */
struct gen_flow_sum {
	uint64_t sent, echoed, lost, duplicated, reordered, corrupted;
};

/* Everything that the reports print. Counts are sums, durations the longest of a sender,
 * histograms merged. */
struct gen_sum {
	struct gen_count count;
	uint64_t intended, unsent, lost, duplicated, reordered;
	uint64_t ran_ns;
	bool link_seen;
	bool expect_echo;
	struct gen_flow_sum *flow; /* [flow_cnt] */
	uint32_t flow_cnt;
	struct gen_range *missing; /* [missing_cnt], by flow and number */
	uint32_t missing_cnt;
	bool missing_whole; /* missing names every lost frame */
	struct gen_slow slow;
	struct spw_hist round_trip_ns, late_ns;
	struct gen_gap gap, alone;
	struct spw_hist_summary round_trip, schedule, loop_gap, core_alone;
};

/* Purpose: adds up what sender_cnt senders counted.
 * Owner: the caller, until gen_sum_fini.
 * Thread: setup, after all gen_run have returned.
 * Errors: -ENOMEM.
 */
int gen_sum_init(struct gen_sum *sum, struct gen_run *const *run, uint32_t sender_cnt);
/* Purpose: frees flow and missing. Shape: a zeroed sum is fine. Thread: setup. */
void gen_sum_fini(struct gen_sum *sum);

#endif
