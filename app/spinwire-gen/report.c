/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The report on stdout, ten lines or tables. It prints only what can be known from the samples: a
 * percentile beyond them is "-", one among the lost frames "lost".
 *
 * main.c calls gen_report_text once, with the sum of all senders (gen/spw_gen_sum.h) and the
 * port's own counters. report_json.c has the same figures for programs. Nothing is computed here
 * but differences and rates.
 */
#include <inttypes.h>
#include <stdio.h>

#include "app_brief.h"
#include "app_loop.h"
#include "app_port.h"
#include "app_rate.h"
#include "report.h"

#define WORST_ROWS 8u
#define FLOW_ROWS  16u

/* One row of percentiles, in microseconds; the columns are those of report_head. */
static void report_points(const char *name, const struct spw_hist_summary *sum)
{
	printf("  %-16s", name);
	for (int p = 0; p < SPW_HIST_POINT_CNT; p++) {
		if (sum->answer[p] == SPW_HIST_VALUE)
			printf(" %11.2f", (double)sum->value[p] / 1000.0);
		else
			printf(" %11s", sum->answer[p] == SPW_HIST_LOST ? "lost" : "-");
	}
	putchar('\n');
}

/* The same points in every report of spinwire (hist/spw_hist.h). */
static void report_head(void)
{
	printf("\n  %-16s", "microseconds");
	for (int p = 0; p < SPW_HIST_POINT_CNT; p++)
		printf(" %11s", spw_hist_point_text((enum spw_hist_point)p));
	putchar('\n');
}

/* The port's count may be ahead of the senders' while a sum is made: the difference is never
 * negative. */
uint64_t gen_report_flushed(const struct gen_sum *sum, const struct gen_report *what)
{
	return sum->count.sent_frames - SPW_MIN(what->stat.tx_frames, sum->count.sent_frames);
}

/* States in words why the plan was not carried out, or nothing came back. */
static void report_shortfall(const struct gen_sum *sum, const struct gen_report *what)
{
	double seconds = (double)sum->ran_ns * 1e-9;
	uint64_t flushed = gen_report_flushed(sum, what);

	if (flushed)
		printf("  %" PRIu64 " of the frames sent were taken by the port and never left it: "
		       "%" PRIu64 " flushed, %" PRIu64 " error completions\n",
		       flushed, what->stat.tx_flushed, what->stat.err[SPW_PORT_ERR_cqe_error]);
	if (what->link_wait_ns && !sum->link_seen)
		printf("  the link did not come up within %.1f s; the plan ran nevertheless\n",
		       (double)what->link_wait_ns * 1e-9);
	if (sum->count.link_downs)
		printf("  the link, the device or the peer went down %" PRIu64
		       " time%s during the run\n",
		       sum->count.link_downs, sum->count.link_downs == 1 ? "" : "s");
	if (sum->expect_echo && sum->count.sent_frames && !sum->count.echoed_frames)
		printf("  no echo came back at all: is %s, where the frames went, the other end's "
		       "MAC "
		       "(--dst-mac), does it receive (see its counters), and does it echo? For a "
		       "sink use --echo no\n",
		       what->dst_mac);
	if (sum->unsent == 0)
		return;
	printf("  the path did not carry the plan: %.0f of %.0f frames/s were sent; refused by the "
	       "port in %" PRIu64 " turns, no free slot in %" PRIu64 "\n",
	       (double)sum->count.sent_frames / seconds, (double)sum->intended / seconds,
	       sum->count.tx_refused, sum->count.no_slot);
}

/* Gaps by what the loop did in them; kinds without a gap are left out. */
static void report_gap(const struct gen_gap *gap, enum gen_doing doing, const char *name,
		       const char *text)
{
	double seconds = (double)gen_gap_total_ns(gap) * 1e-9;

	if (gap->longer[doing].cnt)
		printf("    %-10s %10.1f a second, longest %9.2f us: %s\n", name,
		       (double)gap->longer[doing].cnt / seconds,
		       (double)gap->longer[doing].worst_ns / 1000, text);
}

/* How well the schedule was kept, what the loop did in its long gaps, and the machine's own part in
 * them. */
static void report_schedule(const struct gen_sum *sum)
{
	report_points("schedule error", &sum->schedule);
	report_points("loop gap", &sum->loop_gap);
	if (sum->core_alone.count)
		report_points("core alone", &sum->core_alone);
	printf("  loop gap: time between two checks of the schedule; core alone: the same with "
	       "nothing "
	       "to do. Above %.1f us:\n",
	       GEN_GAP_LONG_NS / 1000.0);
	for (int d = 0; d < GEN_DOING_CNT; d++)
		report_gap(&sum->gap, (enum gen_doing)d, "loop", gen_doing_text((enum gen_doing)d));
	report_gap(&sum->alone, GEN_DOING_poll, "core alone", "the core was preempted");
}

/* Flows with frames that were lost, duplicated, reordered or corrupted. */
static void report_flows(const struct gen_sum *sum)
{
	uint32_t shown = 0, odd = 0;

	for (uint32_t f = 0; f < sum->flow_cnt; f++) {
		const struct gen_flow_sum *flow = &sum->flow[f];

		if (!(flow->lost | flow->duplicated | flow->reordered | flow->corrupted) ||
		    odd++ >= FLOW_ROWS)
			continue;
		if (shown++ == 0)
			printf("\n  %-6s %12s %12s %12s %12s %12s %12s\n", "flow", "sent", "echoed",
			       "lost", "duplicated", "reordered", "corrupted");
		printf("  %-6u %12" PRIu64 " %12" PRIu64 " %12" PRIu64 " %12" PRIu64 " %12" PRIu64
		       " %12" PRIu64 "\n",
		       f, flow->sent, flow->echoed, flow->lost, flow->duplicated, flow->reordered,
		       flow->corrupted);
	}
	if (odd > shown)
		printf("  and %u flows more with such frames; --json names them all\n",
		       odd - shown);
}

/* Counts by cause for all frames above the threshold; the table has only the longest. */
static void report_slow(const struct gen_sum *sum, uint64_t tsc_hz)
{
	const struct gen_slow *slow = &sum->slow;

	if (!gen_slow_above(slow))
		return;
	printf("\n  frames above %.1f us: %" PRIu64 "\n", (double)slow->threshold_ns / 1000,
	       gen_slow_above(slow));
	for (int c = 0; c < GEN_CAUSE_CNT; c++)
		if (slow->by[c].frames)
			printf("    %-14s %12" PRIu64 ", worst %11.2f us: %s\n",
			       gen_cause_name((enum gen_cause)c), slow->by[c].frames,
			       (double)slow->by[c].worst_ns / 1000,
			       gen_cause_text((enum gen_cause)c));
	printf("  %-16s %11s %11s %6s %10s\n", "worst [us]", "round trip", "sent late", "flow",
	       "number");
	for (uint32_t i = 0; i < SPW_MIN(slow->worst_cnt, WORST_ROWS); i++) {
		const struct gen_worst *w = &slow->worst[i];
		double late_us =
			w->sent_tsc ? (double)(w->sent_tsc - w->intended_tsc) / (double)tsc_hz * 1e6
				    : 0;

		printf("  %-16s %11.2f %11.2f %6u %10" PRIu64 "\n", gen_cause_name(w->cause),
		       (double)w->whole_ns / 1000, late_us, w->flow, w->seq);
	}
}

/* Every distribution, flow with errors and worst frame. */
static void report_tables(const struct gen_sum *sum, const struct gen_report *what)
{
	report_head();
	if (sum->expect_echo)
		report_points("round trip", &sum->round_trip);
	report_schedule(sum);
	report_flows(sum);
	report_slow(sum, what->tsc_hz);
}

/* A core that was away for as long with nothing to do explains what its sender did not. */
static void report_why(const struct gen_sum *sum, const struct app_brief_cause *most)
{
	const struct spw_hist_summary *alone = &sum->core_alone;
	char time[APP_BRIEF_TIME_BYTES];

	printf(APP_BRIEF_LEAD, "because");
	if (alone->answer[SPW_HIST_POINT_max] == SPW_HIST_VALUE &&
	    alone->value[SPW_HIST_POINT_max] >= sum->slow.threshold_ns)
		printf("this machine took the sender's core for up to %s before the plan, when "
		       "it had nothing to do\n",
		       app_brief_time(alone->value[SPW_HIST_POINT_max], time));
	else
		printf("%s: %s\n", most->name, most->text);
}

/* Round trips, how well the schedule was kept, and where slow frames were. */
static void report_brief(const struct gen_sum *sum)
{
	const struct gen_slow *slow = &sum->slow;
	struct app_brief_cause cause[GEN_CAUSE_CNT];

	if (sum->expect_echo)
		app_brief_points("round trip", sum->round_trip.value, sum->round_trip.answer,
				 "from due to back");
	app_brief_points("schedule", sum->schedule.value, sum->schedule.answer,
			 "from due to taken by the port");
	for (int c = 0; c < GEN_CAUSE_CNT; c++)
		cause[c] = (struct app_brief_cause){gen_cause_name((enum gen_cause)c),
						    gen_cause_text((enum gen_cause)c),
						    slow->by[c].frames};
	if (app_brief_slow(slow->threshold_ns, sum->intended, cause, GEN_CAUSE_CNT))
		report_why(sum, &cause[0]);
	app_brief_end("--full: every distribution, flow and the worst frames");
}

/* From what was meant to be sent, over what was, to how late it was; lines that would be zero are
 * left out. */
void gen_report_text(const struct gen_sum *sum, const struct gen_report *what)
{
	struct app_rate_count rate = {0};

	printf("\nsource %s: %s, seed %" PRIu64 ", %.3f s on %u lcore%s\n", what->port,
	       what->schedule, what->seed, (double)sum->ran_ns * 1e-9, what->sender_cnt,
	       what->sender_cnt == 1 ? "" : "s");
	printf("  intended %" PRIu64 " = sent %" PRIu64 " + unsent %" PRIu64 "\n", sum->intended,
	       sum->count.sent_frames, sum->unsent);
	if (sum->expect_echo)
		printf("  sent %" PRIu64 " = echoed %" PRIu64 " + lost %" PRIu64
		       "; duplicated %" PRIu64 ", reordered %" PRIu64 ", corrupted %" PRIu64 "\n",
		       sum->count.sent_frames, sum->count.echoed_frames, sum->lost, sum->duplicated,
		       sum->reordered, sum->count.corrupted);
	if (sum->count.foreign || sum->count.old_run || sum->count.bad_flow)
		printf("  not of this run: foreign %" PRIu64 ", older run %" PRIu64
		       ", unknown flow or number %" PRIu64 "\n",
		       sum->count.foreign, sum->count.old_run, sum->count.bad_flow);
	if (what->stat.missed_known && what->stat.missed_frames)
		printf("  %" PRIu64 " of the frames that came to this port found no free slot: the "
		       "sender's core was away for longer than --slots last\n",
		       what->stat.missed_frames);
	report_shortfall(sum, what);
	app_rate_add(&rate, &what->stat, what->opened->caps.messages);
	app_rate_report("  rate               ", &rate, (double)sum->ran_ns * 1e-9);
	if (what->full || app_loop_judge(&what->stat) == APP_LOOP_INSIDE)
		app_loop_print(stdout, "  ", &what->stat);
	app_port_strays_print("  ", what->opened, &what->stat);
	if (what->warm_up_ns)
		printf("  percentiles and causes are those of frames due after %.3f s of warm-up\n",
		       (double)what->warm_up_ns * 1e-9);
	if (what->full)
		report_tables(sum, what);
	else
		report_brief(sum);
	fflush(stdout);
}
