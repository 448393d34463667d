/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The end that was given the other one's address: plans, measures case after case, prints. main.c
 * calls perf_client; everything that goes wrong within a case becomes the mark of its row, and the
 * run goes on.
 *
 *   try outputs ─ connect, greet, facts ─ pair ─ plan ─ (case ─ row)* ─ verdicts ─ write outputs
 *
 * Files that options name are tried before the first connection, because a run takes minutes.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app_file.h"
#include "app_json.h"
#include "app_life.h"
#include "app_program.h"
#include "base/spw_err.h"
#include "result/busy.h"
#include "result/table.h"

/* Rails over which no connection came up: the rows that want the same ones fail at once. */
struct dead {
	uint32_t rails, streams;
	char why[PERF_TEXT_BYTES];
};

/* "a=b" says what faces what; all else is proved where the subnets leave it open. */
static int client_pair(struct perf_session *s, const char *names)
{
	struct perf_facing facing;
	int rc = perf_pair(&s->own, &s->peer, names, NULL, &s->rails);

	if (rc < 0 || (names && strchr(names, '=')) ||
	    !perf_pair_is_open(&s->rails, &s->own, &s->peer))
		return rc;
	app_life_phase(0, "finding out which rails face each other");
	rc = perf_prove(s, &facing);
	return rc ? rc : perf_pair(&s->own, &s->peer, names, &facing, &s->rails);
}

/* The lane allocates no more than the weaker end would: both ends have memory of the same size. */
static int client_begin(const struct perf_args *args, const struct spw_oob_secret *secret,
			struct perf_session *s)
{
	json_t *theirs;
	int rc;

	app_life_phase(0, "reading this machine");
	rc = perf_facts_read(&s->own);
	app_life_phase(0, "connecting to %s", args->host);
	if (rc == 0 && (rc = spw_tsc_calibrate(20, &s->tsc)) == 0 &&
	    (rc = perf_ctl_connect(args->host, args->port, &s->ctl)) == 0)
		rc = perf_greet_client(&s->ctl, secret, perf_facts_json(&s->own), &theirs);
	if (rc < 0)
		return rc;
	rc = perf_facts_parse(theirs, &s->peer);
	json_decref(theirs);
	s->lane.kind = args->memory;
	s->lane.yield = s->own.cores < 4;
	s->lane.memory_max = SPW_MIN(s->own.memory_max, s->peer.memory_max);
	return rc ? rc : client_pair(s, args->rails);
}

/* Egress and collectives count as RDMA: their rails are checked for functions of one card too. */
static bool is_rdma(const struct perf_case *what)
{
	return what->op != PERF_TCP && what->op != PERF_BOND;
}

/* Two functions of one adapter reach each other inside it: no figure of theirs is a cable's. */
static bool one_card(const struct perf_session *s, uint32_t rails)
{
	bool any = false;

	for (uint32_t i = 0; i < s->rails.cnt; i++)
		any |= (rails >> i & 1) && s->rails.rail[i].one_card;
	return any;
}

/* Rows that share one lane, and so fail alike when its rails do not come up. */
static bool takes_lane(const struct perf_case *what)
{
	return is_rdma(what) && what->op != PERF_EGRESS && what->op != PERF_COLL;
}

/* Returns the error of the case; only ctl.fd says whether the session still stands. */
static int client_ask(struct perf_session *s, struct perf_result *r)
{
	if (r->what.op == PERF_COLL)
		return r->what.net == PERF_NET_ONE_SHOT ? perf_oneshot_client(s, r)
							: perf_nccl_client(s, r);
	if (r->what.op == PERF_EGRESS)
		return perf_egress_client(s, r);
	return is_rdma(&r->what) ? perf_xfer_client(s, r) : perf_tcp_client(s, r);
}

/* What a case needs and an end lacks. Returns: whether something is missing; the result says what.
 */
static bool client_lacks(const struct perf_session *s, struct perf_result *r)
{
	const struct perf_end *end = s->own.no_gpu[0] ? &s->own : &s->peer;

	if (!r->what.gpu || !end->no_gpu[0])
		return false;
	perf_mark(r, PERF_FAILED, "%s has no GPU for these rows: %s", end->host, end->no_gpu);
	return true;
}

/* Returns: whether the session goes on. */
static bool client_measure(struct perf_session *s, struct perf_result *r, struct dead *dead)
{
	int rc;

	if (client_lacks(s, r))
		return true;
	s->serial++;
	if (takes_lane(&r->what) && dead->rails == r->what.rails &&
	    dead->streams == r->what.streams) {
		perf_mark(r, PERF_FAILED, "%s", dead->why);
		return true;
	}
	rc = client_ask(s, r);
	if (rc == -EBADMSG)
		perf_mark(r, PERF_INVALID, "%s", spw_err_text());
	else if (rc < 0)
		perf_mark(r, PERF_FAILED, "%s", spw_err_text());
	/* No connection came up, and it is not memory: the next row over these rails would wait as
	 * long. */
	if (rc < 0 && takes_lane(&r->what) && !s->lane.conn && r->own.total == 0 && rc != -ENOMEM) {
		dead->rails = r->what.rails;
		dead->streams = r->what.streams;
		snprintf(dead->why, sizeof(dead->why), "%s", r->why);
	}
	if (is_rdma(&r->what) && one_card(s, r->what.rails))
		perf_mark(r, PERF_INVALID, "both ends are functions of one card");
	return s->ctl.fd >= 0;
}

/* stdout is one output's; the tables are left out for it. */
static int client_stdout_take(const struct perf_args *args)
{
	const int rc = app_file_take("--json", args->json);

	return rc ? rc : app_file_take("--csv", args->csv);
}

/* The page is made from the JSON report, in a file of its own that is removed again. */
static int html_write(const struct perf_args *args, const struct perf_session *s,
		      const struct perf_rows *rows)
{
	char temp[] = "/tmp/spinwire-perf-XXXXXX";
	int rc, fd = mkstemp(temp);

	if (fd < 0)
		return spw_err(EIO, "%s: %s", temp, strerror(errno));
	close(fd);
	rc = app_json_write("--html", perf_report(s, rows), temp);
	if (rc == 0)
		rc = perf_html(temp, args->html);
	unlink(temp);
	return rc;
}

/* Each of them, whatever became of the others. *page_out is the HTML page, once it is there: the
 * result, which is printed after this, names it. */
static int client_outputs_write(const struct perf_args *args, const struct perf_session *s,
				const struct perf_rows *rows, int status, const char **page_out)
{
	if (args->json && app_json_write("--json", perf_report(s, rows), args->json))
		status = app_complain(PERF_PROGRAM, -EIO);
	if (args->csv && perf_csv(s, rows, args->csv))
		status = app_complain(PERF_PROGRAM, -EIO);
	*page_out = args->html;
	if (args->html && html_write(args, s, rows)) {
		status = app_complain(PERF_PROGRAM, -EIO);
		*page_out = NULL;
	}
	return status;
}

/* Wrong figures weigh more than missing ones. */
static int status_of(const struct perf_session *s, const struct perf_rows *rows)
{
	int status = s->rails.fault_cnt ? APP_FAULT : APP_GOOD;
	bool invalid = false;

	for (uint32_t i = 0; i < rows->cnt; i++) {
		invalid |= rows->result[i].valid == PERF_INVALID;
		if (rows->result[i].valid == PERF_FAILED)
			status = APP_FAULT;
	}
	return invalid ? APP_BALANCE : status;
}

/* Rows that could not be measured any more are printed too: a report has a row for each case of
 * the plan. */
static void measure_all(struct perf_session *s, const struct perf_plan *plan,
			struct perf_rows *rows, bool tables)
{
	struct dead dead = {0};
	bool on = true;

	for (uint32_t i = 0; i < plan->cnt; i++) {
		rows->result[i].what = plan->what[i];
		rows->cnt++;
		if (on)
			perf_table_progress(plan, i);
		if (on)
			on = client_measure(s, &rows->result[i], &dead);
		else
			perf_mark(&rows->result[i], PERF_FAILED, "%s left before it", s->ctl.peer);
		if (tables)
			perf_table_row(s, rows, i);
	}
	app_life_phase(0, "%s", "");
}

/* An error before the first row is the program's status; later ones are marks of rows. */
int perf_client(const struct perf_args *args, const struct spw_oob_secret *secret)
{
	struct perf_session *s = calloc(1, sizeof(*s));
	struct perf_plan *plan = calloc(1, sizeof(*plan));
	struct perf_rows rows = {.result = calloc(PERF_CASE_MAX, sizeof(*rows.result))};
	const bool quiet = args->verbosity.quiet || app_file_is_stdout(args->json) ||
			   app_file_is_stdout(args->csv),
		   tables = args->full && !quiet;
	const char *page = NULL;
	int rc = s && plan && rows.result ? 0 : spw_err(ENOMEM, "no memory"), status;

	if (rc == 0) {
		s->ctl.fd = -1;
		rc = client_stdout_take(args);
	}
	if (rc == 0 && (rc = client_begin(args, secret, s)) == 0) {
		perf_plan(args, s, plan);
		if (!quiet)
			perf_table_head(s);
		perf_busy_begin(s, quiet);
		measure_all(s, plan, &rows, tables);
		status = client_outputs_write(args, s, &rows, status_of(s, &rows), &page);
		if (!quiet)
			perf_busy_rows(s);
		if (tables)
			perf_table_end(s, &rows, page);
		else if (!quiet)
			perf_brief(s, &rows, page);
	} else {
		status = app_complain(PERF_PROGRAM, rc);
	}
	if (s) {
		perf_lane_free(&s->lane);
		perf_nccl_end(s);
		perf_ctl_close(&s->ctl);
	}
	free(rows.result);
	free(plan);
	free(s);
	return status;
}
