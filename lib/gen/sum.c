/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Adds up the senders of a run for the reports (spw_gen_sum.h). An echo may have been received by
 * another sender than the one that sent the frame, so flows are summed over all of them.
 *
 * app/spinwire-gen calls gen_sum_init after the last sender has ended, so plain loads are enough.
 * Order matters: runs, then flows (which correct the counts), then what is missing and the
 * percentiles that count it.
 *
 *    intended = sent + unsent          sent = echoed + lost          echoed: unique + late
 *
 * lost is what is left of sent; tests/e2e/port/mlx5/exact_test.py holds it against the log of the
 * cable that lost the frames.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "gen/spw_gen_sum.h"

/* Every counter of struct gen_count: a new one is added here. */
static void sum_add_counts(struct gen_count *to, const struct gen_count *from)
{
	to->sent_frames += from->sent_frames;
	to->sent_bytes += from->sent_bytes;
	to->echoed_frames += from->echoed_frames;
	to->corrupted += from->corrupted;
	to->old_run += from->old_run;
	to->foreign += from->foreign;
	to->bad_flow += from->bad_flow;
	to->tx_refused += from->tx_refused;
	to->no_slot += from->no_slot;
	to->link_downs += from->link_downs;
}

/* Durations are the longest, counts are sums. */
static void sum_add_run(struct gen_sum *sum, const struct gen_run *run)
{
	sum_add_counts(&sum->count, &run->count);
	sum->intended += run->intended_frames;
	sum->ran_ns = SPW_MAX(sum->ran_ns, run->ran_ns);
	spw_hist_merge(&sum->round_trip_ns, &run->round_trip_ns);
	spw_hist_merge(&sum->late_ns, &run->late_ns);
	gen_slow_merge(&sum->slow, &run->slow);
	gen_gap_merge(&sum->gap, &run->gap);
	gen_gap_merge(&sum->alone, &run->alone);
}

/* A late echo counts as an echo, although it had left the window. */
static void sum_add_flow(struct gen_flow_sum *to, const struct gen_flow *from)
{
	to->echoed += from->unique + from->late;
	to->duplicated += from->duplicated;
	to->reordered += from->reordered;
	to->corrupted += from->corrupted;
}

/* The sender that received a flow, and so has its missing frames; run[0] if none did. */
static struct gen_run *sum_receiver(struct gen_sum *sum, struct gen_run *const *run,
				    uint32_t sender_cnt, uint32_t flow)
{
	struct gen_run *found = NULL;

	for (uint32_t s = 0; s < sender_cnt; s++) {
		if (run[s]->track.flow[flow].next_seq == 0)
			continue;
		if (found)
			sum->missing_whole = false; /* two senders have a part each */
		found = run[s];
	}
	return found ? found : run[0];
}

/* Flow f was sent by sender f % sender_cnt, as its own flow f / sender_cnt. */
static void sum_flow(struct gen_sum *sum, struct gen_run *const *run, uint32_t sender_cnt,
		     uint32_t f)
{
	struct gen_flow_sum *flow = &sum->flow[f];

	flow->sent = gen_run_flow_sent(run[f % sender_cnt], f / sender_cnt);
	for (uint32_t s = 0; s < sender_cnt; s++)
		sum_add_flow(flow, &run[s]->track.flow[f]);
	/* More echoes than frames: numbers that were never sent, so they are not ours. */
	if (flow->echoed > flow->sent) {
		sum->count.bad_flow += flow->echoed - flow->sent;
		sum->count.echoed_frames -= flow->echoed - flow->sent;
		flow->echoed = flow->sent;
	}
	flow->lost = sum->expect_echo ? flow->sent - flow->echoed : 0;
	sum->lost += flow->lost;
	sum->duplicated += flow->duplicated;
	sum->reordered += flow->reordered;
	gen_track_end(&sum_receiver(sum, run, sender_cnt, f)->track, f, flow->sent);
}

/* Each flow is in the list of one receiver only, so the lists are concatenated. */
static int sum_missing(struct gen_sum *sum, struct gen_run *const *run, uint32_t sender_cnt)
{
	uint32_t cnt = 0;

	for (uint32_t s = 0; s < sender_cnt; s++) {
		gen_track_settle(&run[s]->track);
		cnt += run[s]->track.missing_cnt;
		sum->missing_whole &= !run[s]->track.missing_cut;
	}
	sum->missing = calloc(cnt + 1, sizeof(*sum->missing));
	if (!sum->missing)
		return spw_err(ENOMEM, "no memory for a list of %u missing frames", cnt);
	for (uint32_t s = 0; s < sender_cnt; s++) {
		memcpy(sum->missing + sum->missing_cnt, run[s]->track.missing,
		       run[s]->track.missing_cnt * sizeof(*sum->missing));
		sum->missing_cnt += run[s]->track.missing_cnt;
	}
	gen_range_sort(sum->missing, sum->missing_cnt);
	return 0;
}

/* Lost and unsent frames count in every percentile, as longer than any other. */
int gen_sum_init(struct gen_sum *sum, struct gen_run *const *run, uint32_t sender_cnt)
{
	memset(sum, 0, sizeof(*sum));
	sum->expect_echo = run[0]->expect_echo;
	sum->missing_whole = sum->expect_echo;
	sum->link_seen = run[0]->link_seen;
	sum->flow_cnt = run[0]->track.flow_cnt;
	sum->flow = calloc(sum->flow_cnt, sizeof(*sum->flow));
	if (!sum->flow)
		return spw_err(ENOMEM, "no memory for the report of %u flows", sum->flow_cnt);
	gen_slow_init(&sum->slow, run[0]->slow.threshold_ns);
	for (uint32_t s = 0; s < sender_cnt; s++)
		sum_add_run(sum, run[s]);
	for (uint32_t f = 0; f < sum->flow_cnt; f++)
		sum_flow(sum, run, sender_cnt, f);
	/* After sum_flow, which has corrected the counts. */
	sum->unsent = sum->intended - sum->count.sent_frames;
	if (sum->expect_echo) {
		gen_slow_missing(&sum->slow, GEN_CAUSE_lost, sum->lost);
		gen_slow_missing(&sum->slow, GEN_CAUSE_unsent, sum->unsent);
	}
	gen_slow_sort(&sum->slow);
	spw_hist_summary(&sum->round_trip_ns, sum->expect_echo ? sum->unsent + sum->lost : 0,
			 &sum->round_trip);
	spw_hist_summary(&sum->late_ns, sum->unsent, &sum->schedule);
	spw_hist_summary(&sum->gap.by_time_ns, 0, &sum->loop_gap);
	spw_hist_summary(&sum->alone.by_time_ns, 0, &sum->core_alone);
	return sum->expect_echo ? sum_missing(sum, run, sender_cnt) : 0;
}

/* Also after an error of gen_sum_init. */
void gen_sum_fini(struct gen_sum *sum)
{
	free(sum->flow);
	free(sum->missing);
	memset(sum, 0, sizeof(*sum));
}
