/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * spinwire-replay FILE: runs a recording of spinwire --record again, with neither NIC nor GPU, and
 * prints the ledger and the causes that come of it. The loop is lib/pipe's, the judge lib/rec's; a
 * recording that comes out otherwise than it was recorded is exit status 3.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>

#include "app_file.h"
#include "app_json.h"
#include "app_program.h"
#include "app_text.h"
#include "base/spw_err.h"
#include "base/spw_text.h"
#include "replay.h"

#define PROGRAM "spinwire-replay"

static void usage(void)
{
	printf("Usage: spinwire-replay FILE [--handler NAME] [--json FILE]\n"
	       "                       [--explain FLOW:NUMBER]\n\n"
	       "Runs what spinwire --record kept through the same loop again, without NIC and\n"
	       "GPU: the same ledger, the same causes, the same worst frames.\n\n"
	       "  --handler NAME          the handler to run on frames that --record-snap kept\n"
	       "                          whole; a plug-in's path; the recorded one if built in\n"
	       "  --json FILE             the result as JSON (-: stdout, and no table)\n"
	       "  --explain FLOW:NUMBER   where one of the worst frames spent its time\n\n"
	       "exit status: 0 good, 1 usage or no recording, 2 the machine cannot do it,\n"
	       "             3 it came out otherwise than it was recorded\n"
	       "More: man spinwire-replay\n");
}

/* What the recording says, which must not look like a line of this program's. */
static void print_text(const char *text)
{
	char shown[512];

	spw_text_show(text, shown, sizeof(shown));
	fputs(shown, stdout);
}

/* Whether completions were read again must not be guessed from a missing line: a reader who looks
 * for a wrong CQE has to know that this file cannot show one. */
static void print_cqes(const struct replay *replay)
{
	const struct spw_replay_result *sum = &replay->sum;

	if (!replay_has_cqes(replay)) {
		printf("CQEs       none in the recording: the port keeps none, or --record-cqes "
		       "was no\n");
		return;
	}
	printf("CQEs       %" PRIu64 " of %" PRIu64 " bursts differ%s%s\n", sum->raw_differs,
	       sum->raw_bursts, sum->raw_differs ? "; first: " : "", sum->raw_first);
}

static void print_verdicts(const struct replay *replay)
{
	const struct spw_flight_lane *lane = replay->file.lane[0].conf;
	const struct spw_replay_result *sum = &replay->sum;

	if (!lane->snap_bytes)
		return;
	if (!replay->handler) {
		printf("verdicts   as recorded: give plug-in ");
		print_text(lane->plugin);
		printf(" with --handler to run it again\n");
		return;
	}
	printf("verdicts   %" PRIu64 " of %" PRIu64 " frames differ, digests of %" PRIu64
	       " batches; %" PRIu64 " frames, not kept whole, as recorded%s%s\n",
	       sum->verdict_differs, sum->verdicts, sum->digest_differs, sum->as_recorded,
	       sum->verdict_first[0] ? "; first: " : "", sum->verdict_first);
}

static void print_head(const struct replay *replay)
{
	const struct spw_flight_file *file = replay->file.file;
	const struct spw_replay_result *sum = &replay->sum;
	const struct spw_flight_lane *lane = replay->file.lane[0].conf;

	printf("recording  written for: ");
	print_text(file->why);
	printf("; %.3f s of %u lane%s: port ", replay->result.seconds, file->lane_cnt,
	       file->lane_cnt == 1 ? "" : "s");
	print_text(lane->port);
	printf(", executor");
	for (uint32_t w = 0; w < lane->way_cnt; w++) {
		printf(w ? " or " : " ");
		print_text(lane->way[w].exec);
	}
	if (lane->way_cnt > 1)
		printf(" (%" PRIu64 " changes)", sum->way_changes);
	printf(", handler ");
	print_text(lane->handler);
	printf("\n");
	printf("window     from %.3f s of the run on; %" PRIu64 " frames in %" PRIu64
	       " bursts, %" PRIu64 " batches were in the executor when it began\n",
	       (double)spw_tsc_to_ns(&replay->app.tsc, sum->from_tsc - file->from_tsc) * 1e-9,
	       sum->frames, sum->polls, sum->lead_in);
	printf("ran again  counters differ at %" PRIu64 " of %" PRIu64 " places, causes of %" PRIu64
	       " of %" PRIu64 " batches, arrival of %" PRIu64 " bursts\n",
	       sum->ledger_differs, sum->states, sum->cause_differs, sum->described,
	       sum->since_differs);
	print_cqes(replay);
	print_verdicts(replay);
	if (sum->before + sum->unjudged)
		printf("at its ends %" PRIu64 " batches were described before the window, %" PRIu64
		       " not yet judged at its end\n",
		       sum->before, sum->unjudged);
}

static json_t *differs_json(const struct spw_replay_result *sum)
{
	return json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:o,s:I,s:I,s:I,s:I,s:o}", "counters",
			 (json_int_t)sum->ledger_differs, "causes", (json_int_t)sum->cause_differs,
			 "arrivals", (json_int_t)sum->since_differs, "of_states",
			 (json_int_t)sum->states, "of_batches", (json_int_t)sum->described, "cqes",
			 (json_int_t)sum->raw_differs, "of_cqes", (json_int_t)sum->raw_bursts,
			 "first_cqe", app_json_text(sum->raw_first), "verdicts",
			 (json_int_t)sum->verdict_differs, "of_verdicts", (json_int_t)sum->verdicts,
			 "digests", (json_int_t)sum->digest_differs, "as_recorded",
			 (json_int_t)sum->as_recorded, "first_verdict",
			 app_json_text(sum->verdict_first));
}

static json_t *summary(const struct replay *replay)
{
	const struct spw_replay_result *sum = &replay->sum;

	return json_pack("{s:s,s:s,s:o,s:f,s:b,s:b,s:I,s:o,s:o,s:o,s:o}", "schema",
			 "spinwire.replay/1", "version", SPW_VERSION, "why",
			 app_json_text(replay->file.file->why), "seconds", replay->result.seconds,
			 "from_start", sum->from_start, "ended", sum->ended, "executor_changes",
			 (json_int_t)sum->way_changes, "ledger", app_ledger_json(&replay->result),
			 "causes", app_causes_json(&replay->app, &replay->result), "worst",
			 app_worst_json(&replay->app, &replay->result), "differs",
			 differs_json(sum));
}

static int report(const struct replay *replay, const char *json, const char *explain)
{
	if (json) {
		int rc = app_json_write(summary(replay), json);

		if (rc)
			return rc;
	}
	if (app_file_is_stdout(json) && !explain)
		return 0;
	if (explain)
		return replay_explain(replay, explain);
	print_head(replay);
	if (!replay_is_whole(replay))
		printf("\nthe run was on: ports and executor are not part of the ledger");
	app_report_ledger(&replay->result);
	app_report_slow(&replay->app, &replay->result);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct option option[] = {{"json", required_argument, NULL, 'j'},
					       {"explain", required_argument, NULL, 'e'},
					       {"handler", required_argument, NULL, 'H'},
					       {"help", no_argument, NULL, 'h'},
					       {0}};
	const char *json = NULL, *explain = NULL, *handler = NULL;
	static struct replay replay;
	int c, rc;

	app_program_start(PROGRAM);
	while ((c = getopt_long(argc, argv, "h", option, NULL)) != -1) {
		if (c == 'j')
			json = optarg;
		else if (c == 'e')
			explain = optarg;
		else if (c == 'H')
			handler = optarg;
		else {
			usage();
			return c == 'h' ? app_end(PROGRAM, APP_GOOD) : APP_USAGE;
		}
	}
	if (optind + 1 != argc)
		return app_complain(PROGRAM, spw_err(EINVAL, "name one recording; see --help"));
	rc = app_json_try(json);
	rc = rc ? rc : replay_open(&replay, argv[optind], handler);
	rc = rc ? rc : report(&replay, json, explain);
	if (rc)
		rc = app_complain(PROGRAM, rc);
	else if (replay_differs(&replay) ||
		 (replay_is_whole(&replay) && replay.result.topo.sum.residual))
		rc = APP_BALANCE;
	replay_close(&replay);
	return app_end(PROGRAM, rc);
}
