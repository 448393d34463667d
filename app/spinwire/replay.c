/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * --replay FILE: runs a recording of --record again, with neither EAL, NIC nor GPU, and prints the
 * ledger and the causes that come of it. The loop is lib/pipe's, the judge lib/rec's; a recording
 * that comes out otherwise than it was recorded is exit status 3. Called by main.c in place of a
 * run; replay_lanes.c reads the file and runs it.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "app_file.h"
#include "app_json.h"
#include "app_opt.h"
#include "app_text.h"
#include "base/spw_err.h"
#include "base/spw_text.h"
#include "replay.h"

/* What the recording says, which must not look like a line of this program's. */
static void replay_print_text(const char *text)
{
	char shown[512];

	spw_text_show(text, shown, sizeof(shown));
	fputs(shown, stdout);
}

/* Whether completions were read again must not be guessed from a missing line: a reader who looks
 * for a wrong CQE has to know that this file cannot show one. */
static void replay_print_cqes(const struct replay *replay)
{
	const struct spw_replay_result *sum = &replay->sum;

	if (!app_replay_has_cqes(replay)) {
		printf("CQEs       none in the recording: the port keeps none, or --record-cqes "
		       "was no\n");
		return;
	}
	printf("CQEs       %" PRIu64 " of %" PRIu64 " bursts differ%s%s\n", sum->raw_differs,
	       sum->raw_bursts, sum->raw_differs ? "; first: " : "", sum->raw_first);
}

/* Without payload in the recording there is nothing that the handler could run on. */
static void replay_print_verdicts(const struct replay *replay)
{
	const struct spw_flight_lane *lane = replay->file.lane[0].conf;
	const struct spw_replay_result *sum = &replay->sum;

	if (!lane->snap_bytes)
		return;
	if (!replay->handler) {
		printf("verdicts   as recorded: give plug-in ");
		replay_print_text(lane->plugin);
		printf(" with --handler to run it again\n");
		return;
	}
	printf("verdicts   %" PRIu64 " of %" PRIu64 " frames differ, digests of %" PRIu64
	       " batches; %" PRIu64 " frames, not kept whole, as recorded%s%s\n",
	       sum->verdict_differs, sum->verdicts, sum->digest_differs, sum->as_recorded,
	       sum->verdict_first[0] ? "; first: " : "", sum->verdict_first);
}

/* What was recorded, and then what came of it when it ran again: both are needed to judge the
 * rest. */
static void replay_print_head(const struct replay *replay)
{
	const struct spw_flight_file *file = replay->file.file;
	const struct spw_replay_result *sum = &replay->sum;
	const struct spw_flight_lane *lane = replay->file.lane[0].conf;

	printf("recording  written for: ");
	replay_print_text(file->why);
	printf("; %.3f s of %u lane%s: port ", replay->result.seconds, file->lane_cnt,
	       file->lane_cnt == 1 ? "" : "s");
	replay_print_text(lane->port);
	printf(", executor");
	for (uint32_t w = 0; w < lane->backend_cnt; w++) {
		printf(w ? " or " : " ");
		replay_print_text(lane->backend[w].exec);
	}
	if (lane->backend_cnt > 1)
		printf(" (%" PRIu64 " changes)", sum->backend_changes);
	printf(", handler ");
	replay_print_text(lane->handler);
	printf("\n");
	printf("window     from %.3f s of the run on; %" PRIu64 " frames in %" PRIu64
	       " bursts, %" PRIu64 " batches were in the executor when it began\n",
	       (double)spw_tsc_to_ns(&replay->app.tsc, sum->from_tsc - file->from_tsc) * 1e-9,
	       sum->frames, sum->polls, sum->lead_in);
	printf("ran again  counters differ at %" PRIu64 " of %" PRIu64 " places, causes of %" PRIu64
	       " of %" PRIu64 " batches, arrival of %" PRIu64 " bursts\n",
	       sum->ledger_differs, sum->states, sum->cause_differs, sum->described,
	       sum->since_differs);
	replay_print_cqes(replay);
	replay_print_verdicts(replay);
	if (sum->before + sum->unjudged)
		printf("at its ends %" PRIu64 " batches were described before the window, %" PRIu64
		       " not yet judged at its end\n",
		       sum->before, sum->unjudged);
}

/* Each count stands beside the number of its cases, so that 0 of 0 is not read as agreement. */
static json_t *replay_differs_json(const struct spw_replay_result *sum)
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

/* The schema is its own: a recording has no ports and no regimes. */
static json_t *replay_summary(const struct replay *replay)
{
	const struct spw_replay_result *sum = &replay->sum;

	return json_pack(
		"{s:s,s:s,s:o,s:f,s:b,s:b,s:I,s:o,s:o,s:o,s:o}", "schema", "spinwire.replay/1",
		"version", SPW_VERSION, "why", app_json_text(replay->file.file->why), "seconds",
		replay->result.seconds, "from_start", sum->from_start, "ended", sum->ended,
		"executor_changes", (json_int_t)sum->backend_changes, "ledger",
		app_ledger_json(&replay->result), "causes",
		app_causes_json(&replay->app, &replay->result), "worst",
		app_worst_json(&replay->app, &replay->result), "differs", replay_differs_json(sum));
}

/* The options that a replay takes. */
struct replay_args {
	const char *file, *json, *explain, *handler;
	struct spw_opt_verbosity verbosity;
};

/* --explain prints one batch in place of the whole. */
static int replay_report(const struct replay *replay, const struct replay_args *args)
{
	if (args->json) {
		int rc = app_json_write("--json", replay_summary(replay), args->json);

		if (rc)
			return rc;
	}
	if (args->explain)
		return app_replay_explain(replay, args->explain);
	if (app_file_is_stdout(args->json) || args->verbosity.quiet)
		return 0;
	replay_print_head(replay);
	if (!app_replay_is_whole(replay))
		printf("\nthe run was on: ports and executor are not part of the ledger");
	app_report_ledger(&replay->result);
	app_report_slow(&replay->app, &replay->result);
	return 0;
}

/* ---- arguments ---- */

/* Before "--", and before EAL: a replay needs no DPDK arguments. */
bool app_replay_is_asked(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--"); i++)
		if (!strcmp(argv[i], "--replay") || !strncmp(argv[i], "--replay=", 9))
			return true;
	return false;
}

/* An option of a run is refused rather than ignored: nothing of it would count. */
static int replay_option_take(void *base, const struct spw_opt *opt, const char *value)
{
	struct replay_args *args = base;
	const struct {
		const char *name;
		const char **value;
	} known[] = {{"replay", &args->file},
		     {"json", &args->json},
		     {"explain", &args->explain},
		     {"handler", &args->handler}};

	for (size_t i = 0; i < SPW_ARRAY_CNT(known); i++)
		if (!strcmp(opt->name, known[i].name)) {
			*known[i].value = value;
			return 0;
		}
	if (!strcmp(opt->name, "quiet"))
		args->verbosity.quiet = true;
	else if (!strcmp(opt->name, "verbose"))
		args->verbosity.verbose = true;
	else
		return spw_err(EINVAL, "not with --replay, which takes --handler, --json, "
				       "--explain, --quiet and --verbose only");
	return 0;
}

/* Returns: an enum spw_opt_ask, or an error. */
static int replay_args_read(int argc, char **argv, struct replay_args *args_out)
{
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], "--"))
			return spw_err(EINVAL, "--replay runs no port: leave out what follows "
					       "\"--\"");
	return spw_opt_parse(
		app_args_program(), argc, argv,
		&(struct spw_opt_take){.base = args_out, .option = replay_option_take});
}

/* A difference or a residual is the status of a run that does not balance. */
int app_replay(int argc, char **argv)
{
	static struct replay replay;
	struct replay_args args = {0};
	int rc = replay_args_read(argc, argv, &args);

	if (rc > SPW_OPT_RUN) {
		app_opt_answer(app_args_program(), rc);
		return APP_GOOD;
	}
	rc = rc ? rc : app_program_verbosity(&args.verbosity, SPW_LOG_INFO);
	rc = rc ? rc : app_file_take("--json", args.json);
	rc = rc ? rc : app_replay_open(&replay, args.file, args.handler);
	rc = rc ? rc : replay_report(&replay, &args);
	if (!rc && (app_replay_differs(&replay) ||
		    (app_replay_is_whole(&replay) && replay.result.topo.sum.residual)))
		rc = APP_BALANCE;
	app_replay_close(&replay);
	return rc;
}
