/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * --explain FLOW:NUMBER: where one of the worst batches of a recording spent its time, part by
 * part, and why. Called by replay.c after the lanes have run again. Batches are found by the mark
 * that the generator puts into each frame; only the longest ones are kept with all their facts, so
 * only those can be explained.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/spw_err.h"
#include "replay.h"

static double explain_us(const struct replay *replay, uint64_t ticks)
{
	return (double)spw_tsc_to_ns(&replay->app.tsc, ticks) * 1e-3;
}

/* The parts add up to the whole, and the causes of a part to that part. */
static void explain_print(const struct replay *replay, const struct spw_rec_slow *slow)
{
	printf("flow %u number %u: %.1f us inside spinwire, %s\n", slow->ident.flow,
	       slow->ident.seq, explain_us(replay, spw_rec_slow_whole(slow)),
	       spw_cause_text(slow->cause));
	for (unsigned int p = 0; p < SPW_STAGE_PART_CNT; p++) {
		uint64_t ticks[SPW_CAUSE_CNT] = {0};

		printf("  %-14s %9.1f us", spw_stage_name((enum spw_stage)p),
		       explain_us(replay, slow->facts.part[p]));
		spw_cause_split_part(&slow->facts, p, ticks);
		for (int c = 0; c < SPW_CAUSE_CNT; c++)
			if (ticks[c])
				printf("  %s %.1f", spw_cause_name((enum spw_cause)c),
				       explain_us(replay, ticks[c]));
		printf("\n");
	}
	printf("  batch %" PRIu64 " of %u frames on lcore %u, %u batches ahead of it\n", slow->seq,
	       slow->cnt, slow->lcore, slow->ahead);
}

int app_replay_explain(const struct replay *replay, const char *frame)
{
	const struct app_result *res = &replay->result;
	unsigned int flow, seq;
	char rest;

	if (sscanf(frame, "%u:%u%c", &flow, &seq, &rest) != 2)
		return spw_err(EINVAL, "--explain %s: use FLOW:NUMBER", frame);
	for (uint32_t i = 0; i < res->worst_cnt; i++) {
		const struct spw_rec_slow *slow = &res->worst[i];

		if (slow->ident_known && slow->ident.flow == flow && slow->ident.seq == seq) {
			explain_print(replay, slow);
			return 0;
		}
	}
	return spw_err(ENOENT,
		       "frame %s is not the oldest of one of the %u worst batches of this "
		       "recording; without --explain they are listed",
		       frame, res->worst_cnt);
}
