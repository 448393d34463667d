/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The command line, and the list of cases that follows from it.
 */
#ifndef PERF_ARGS_H
#define PERF_ARGS_H

#include "base/spw_enum.h"
#include "opt/spw_opt.h"
#include "session.h"

/* Groups of rows, as --rows names them. name, as printed */
#define PERF_ROW_LIST(X, P)    \
	X(P, WRITE, "write")   \
	X(P, SEND, "send")     \
	X(P, READ, "read")     \
	X(P, GPU, "gpu")       \
	X(P, EGRESS, "egress") \
	X(P, TCP, "tcp")       \
	X(P, BOND, "bond")     \
	X(P, COLL, "coll")

enum perf_row { SPW_ENUM(PERF_ROW) };

struct perf_args {
	bool serve;
	const char *host; /* the other end; NULL: two software devices of this machine, or ssh */
	const char *ssh;  /* start the other end there */
	uint16_t port;
	bool full, all_sizes, once;
	struct spw_opt_verbosity verbosity;
	const char *json, *csv, *html;
	const char *rails, *secret;
	uint32_t rows;            /* mask of enum perf_row */
	bool rows_named;          /* by the user: what cannot be measured is an error */
	enum spw_mem_kind memory; /* of GPU rows at this end */
	uint64_t size[PERF_SIZE_MAX];
	uint32_t size_cnt; /* 0: the default list */
	uint64_t row_ns;   /* how long one row is timed; 0: by default */
	uint32_t ms;       /* the same */
};

/* Returns: 0; above 0 when a question was answered; or -EINVAL with a text. */
int perf_args(struct perf_args *args, int argc, char **argv);

/* Returns: whether another end started this one (local.c), with which it may share a terminal. */
bool perf_is_started(const struct perf_args *args);

struct perf_plan {
	struct perf_case what[PERF_CASE_MAX];
	uint32_t cnt;
};

/* plan.c: the cases of a run, those of one table after each other. */
void perf_plan(const struct perf_args *args, const struct perf_session *s,
	       struct perf_plan *plan_out);

/* client.c: the whole run. Returns: the exit status. */
int perf_client(const struct perf_args *args, const struct spw_oob_secret *secret);
/* serve.c: sessions, one after the other. Returns: the exit status. */
int perf_serve(const struct perf_args *args, const struct spw_oob_secret *secret);

/* local.c: starts the other end: over ssh, or, where neither it nor a host was given, both ends
 * over software devices (then it does not return but for an error). Shape: *args gets host and port
 * of the other end; secret is made for this run. Owner: *child_out ends when this process does.
 * Errors: -EIO, -ENOENT with what is missing. */
int perf_local(const struct perf_args *args, char **argv);
int perf_ssh(struct perf_args *args, struct spw_oob_secret *secret_out);
/* Runs the program that makes FILE out of a JSON summary. Errors: -EIO. */
int perf_html(const char *json, const char *html);

#endif
