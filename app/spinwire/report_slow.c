/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Slow frames in both summaries: their causes, the longest batches with all their stamps, what
 * delayed the loops, and what the kernel counted meanwhile. Called by report_text.c and
 * report_json.c.
 *
 * JSON has every batch that was kept, text the longest WORST_LINES. replay.c prints the same of a
 * recording, so of struct app these functions read the clock, the threshold and the lanes, of which
 * a replay has none.
 */
#include <inttypes.h>
#include <stdio.h>

#include "report_slow.h"

static uint64_t slow_ns(const struct app *app, uint64_t ticks)
{
	return spw_tsc_to_ns(&app->tsc, ticks);
}

static json_int_t slow_ns_int(const struct app *app, uint64_t ticks)
{
	return (json_int_t)slow_ns(app, ticks);
}

/* Every frame above the threshold has exactly one cause, so their sum is their number. */
static uint64_t slow_frames_above(const struct app_result *res)
{
	uint64_t sum = 0;

	for (int c = 0; c < SPW_CAUSE_CNT; c++)
		sum += res->causes.frames[c];
	return sum;
}

/* ---- JSON ---- */

json_t *app_causes_json(const struct app *app, const struct app_result *res)
{
	json_t *by = json_array();

	for (int c = 0; c < SPW_CAUSE_CNT; c++)
		if (res->causes.frames[c])
			json_array_append_new(
				by, json_pack("{s:s,s:I,s:I}", "cause",
					      spw_cause_name((enum spw_cause)c), "frames",
					      (json_int_t)res->causes.frames[c], "max_ns",
					      slow_ns_int(app, res->causes.worst_tsc[c])));
	return json_pack("{s:I,s:I,s:o}", "threshold_ns", (json_int_t)app->conf.run.slow_ns,
			 "frames_above", (json_int_t)slow_frames_above(res), "by", by);
}

/* Ticks of the CPU's clock, so that they compare with those of other tools on the same machine. */
static json_t *slow_stamps_json(const struct spw_rec_slow *w)
{
	return json_pack("{s:o,s:I,s:I,s:I,s:I,s:I,s:I}", "nic_tsc",
			 w->nic_known ? json_integer((json_int_t)w->at.since) : json_null(),
			 "polled_tsc", (json_int_t)w->at.polled, "pushed_tsc",
			 (json_int_t)w->at.pushed, "start_tsc", (json_int_t)w->at.exec_start,
			 "end_tsc", (json_int_t)w->at.exec_end, "reaped_tsc",
			 (json_int_t)w->at.reaped, "sent_tsc", (json_int_t)w->at.sent);
}

/* How the whole time was divided; the largest part is the cause. */
static json_t *slow_blame_json(const struct app *app, const struct spw_rec_slow *w)
{
	json_t *blame = json_object();

	for (int c = 0; c < SPW_CAUSE_CNT; c++)
		if (w->blame[c])
			json_object_set_new(blame, spw_cause_name((enum spw_cause)c),
					    json_integer(slow_ns_int(app, w->blame[c])));
	return blame;
}

/* Regimes of the turns before, the last one first. */
static json_t *slow_before_json(const struct spw_rec_slow *w)
{
	json_t *turns = json_array();

	for (uint64_t left = w->poll.before; left; left >>= 8) {
		json_t *turn = json_array();

		for (int r = 0; r < SPW_REGIME_CNT; r++)
			if (left >> r & 1)
				json_array_append_new(
					turn, json_string(spw_regime_name((enum spw_regime)r)));
		json_array_append_new(turns, turn);
	}
	return turns;
}

/* ident names the frame by flow and number, if the generator made it: both ends can then find the
 * same frame. */
static json_t *slow_batch_json(const struct app *app, const struct spw_rec_slow *w)
{
	json_t *ident = w->ident_known ? json_pack("{s:I,s:I}", "flow", (json_int_t)w->ident.flow,
						   "seq", (json_int_t)w->ident.seq)
				       : json_null();

	return json_pack("{s:I,s:s,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:o,s:o,s:o,s:o}", "whole_ns",
			 slow_ns_int(app, spw_rec_slow_whole(w)), "cause", spw_cause_name(w->cause),
			 "lcore", (json_int_t)w->lcore, "queue", (json_int_t)w->queue, "seq",
			 (json_int_t)w->seq, "frames", (json_int_t)w->cnt, "in_exec",
			 (json_int_t)w->in_exec_frames, "ahead", (json_int_t)w->ahead, "turn_ns",
			 slow_ns_int(app, w->poll.turn), "before", slow_before_json(w), "stamps",
			 slow_stamps_json(w), "blame_ns", slow_blame_json(app, w), "ident", ident);
}

/* The longest first, as the view keeps them. */
json_t *app_worst_json(const struct app *app, const struct app_result *res)
{
	json_t *worst = json_array();

	for (uint32_t i = 0; i < res->worst_cnt; i++)
		json_array_append_new(worst, slow_batch_json(app, &res->worst[i]));
	return worst;
}

/* Null without a CPU quota. */
static json_t *slow_quota_json(const struct app_result *res)
{
	if (!res->has_quota)
		return json_null();
	return json_pack("{s:I,s:I,s:I}", "periods", (json_int_t)res->quota.periods, "throttled",
			 (json_int_t)res->quota.throttled, "stopped_ns",
			 (json_int_t)res->quota.stopped_ns);
}

/* What delayed the loop, by kind; switched_out is null without rseq. */
json_t *app_held_json(const struct app *app, const struct app_result *res)
{
	json_t *held = json_object();

	for (int h = 0; h < SPW_HOLD_CNT; h++)
		json_object_set_new(held, spw_hold_name((enum spw_hold)h),
				    json_pack("{s:I,s:I,s:I}", "times",
					      (json_int_t)res->held.cnt[h], "sum_ns",
					      slow_ns_int(app, res->held.sum_tsc[h]), "max_ns",
					      slow_ns_int(app, res->held.max_tsc[h])));
	json_object_set_new(held, "switched_out",
			    res->away_known ? json_integer((json_int_t)res->away_cnt)
					    : json_null());
	json_object_set_new(held, "group", slow_quota_json(res));
	return held;
}

/* Counted by the kernel in the windows in which the loop had gaps, so it names suspects, not the
 * cause. */
static json_t *slow_who_json(const struct app_lcore *lc)
{
	const struct spw_who *who = &lc->who;
	json_t *irqs = json_object();

	for (uint32_t i = 0; i < who->irq_cnt; i++)
		if (who->irq[i].cnt)
			json_object_set_new(irqs, who->irq[i].name,
					    json_integer((json_int_t)who->irq[i].cnt));
	return json_pack("{s:I,s:I,s:I,s:I,s:I,s:o}", "lcore", (json_int_t)lc->lane->conf.lcore_id,
			 "cpu", (json_int_t)who->cpu, "windows", (json_int_t)who->windows,
			 "voluntary", (json_int_t)who->switches[0], "involuntary",
			 (json_int_t)who->switches[1], "interrupts", irqs);
}

/* By lane, also those without a gap. */
json_t *app_who_json(const struct app *app)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < app->topo.lane_cnt; i++)
		json_array_append_new(list, slow_who_json(&app->lcore[i]));
	return list;
}

/* ---- text ---- */

/* The sum stands before its parts, so that a reader sees whether any frame was slow. */
static void slow_print_causes(const struct app *app, const struct app_result *res)
{
	printf("\nframes above %.1f us: %" PRIu64 "\n", (double)app->conf.run.slow_ns * 1e-3,
	       slow_frames_above(res));
	for (int c = 0; c < SPW_CAUSE_CNT; c++)
		if (res->causes.frames[c])
			printf("  %-14s %12" PRIu64 " frames, worst %9.1f us: %s\n",
			       spw_cause_name((enum spw_cause)c), res->causes.frames[c],
			       (double)slow_ns(app, res->causes.worst_tsc[c]) * 1e-3,
			       spw_cause_text((enum spw_cause)c));
}

/* The parts in the order of a frame's way: their sum is the whole. */
static void slow_print_worst(const struct app *app, const struct app_result *res)
{
	printf("worst frames [us]   whole   port   push   wait    run   reap   send  cause         "
	       "  burst ahead  who\n");
	for (uint32_t i = 0; i < SPW_MIN(res->worst_cnt, WORST_LINES); i++) {
		const struct spw_rec_slow *w = &res->worst[i];

		printf("%16u %8.1f", i + 1, (double)slow_ns(app, spw_rec_slow_whole(w)) * 1e-3);
		for (unsigned int p = 0; p < SPW_STAGE_PART_CNT; p++)
			printf(" %6.1f", (double)slow_ns(app, w->facts.part[p]) * 1e-3);
		printf("  %-14s %6u %5u  lcore %u", spw_cause_name(w->cause), w->cnt, w->ahead,
		       w->lcore);
		if (w->ident_known)
			printf(", flow %u seq %u", w->ident.flow, w->ident.seq);
		printf("\n");
	}
}

/* Of each kind how often, how long in all and at most. */
static void slow_print_held(const struct app *app, const struct app_result *res)
{
	const char *sep = " ";

	printf("held up    ");
	for (int h = 0; h < SPW_HOLD_CNT; h++) {
		if (!res->held.cnt[h])
			continue;
		printf("%s%s %" PRIu64 "x %.1f us (max %.1f)", sep, spw_hold_name((enum spw_hold)h),
		       res->held.cnt[h], (double)slow_ns(app, res->held.sum_tsc[h]) * 1e-3,
		       (double)slow_ns(app, res->held.max_tsc[h]) * 1e-3);
		sep = ", ";
	}
	if (res->away_known)
		printf("%sswitched out %" PRIu64 "x", sep, res->away_cnt);
	printf("\n");
}

/* A quota stops all threads of the control group at once, and rseq shows only that they stopped. */
static void slow_print_quota(const struct app_result *res)
{
	if (res->has_quota && res->quota.throttled)
		printf("cpu quota   stopped all threads in %" PRIu64 " of %" PRIu64
		       " periods, %.1f ms in all (cores-quota)\n",
		       res->quota.throttled, res->quota.periods,
		       (double)res->quota.stopped_ns * 1e-6);
}

/* The next smaller count: called again with the last one, it lists interrupts from the most
 * frequent on. */
static const struct spw_who_irq *slow_blame_most(const struct spw_who *who, uint64_t below)
{
	const struct spw_who_irq *best = NULL;

	for (uint32_t i = 0; i < who->irq_cnt; i++)
		if (who->irq[i].cnt && who->irq[i].cnt < below &&
		    (!best || who->irq[i].cnt > best->cnt))
			best = &who->irq[i];
	return best;
}

static void slow_print_who(const struct app *app)
{
	for (uint32_t i = 0; i < app->topo.lane_cnt; i++) {
		const struct spw_who *who = &app->lcore[i].who;
		const struct spw_who_irq *irq = slow_blame_most(who, UINT64_MAX);

		if (!who->windows)
			continue;
		printf("  lcore %u, in %" PRIu64
		       " tenths of a second with gaps: switched out %" PRIu64
		       "x, went itself %" PRIu64 "x; interrupts",
		       app->topo.lane[i]->conf.lcore_id, who->windows, who->switches[1],
		       who->switches[0]);
		for (int n = 0; n < IRQ_LINES && irq; n++, irq = slow_blame_most(who, irq->cnt))
			printf("%s %s %" PRIu64, n ? "," : "", irq->name, irq->cnt);
		printf("\n");
	}
}

/* From what held the loops up to the frames that met it. */
void app_report_slow(const struct app *app, const struct app_result *res)
{
	slow_print_held(app, res);
	slow_print_quota(res);
	slow_print_who(app);
	slow_print_causes(app, res);
	slow_print_worst(app, res);
}
