/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The end that serves: one session after the other, each a row of cases that the client asks for.
 * door.c lets clients in. Every wait has an end: a client that stops, or whose host vanishes, holds
 * the server for ORDER_MS and its case's own time at most.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "app_life.h"
#include "app_program.h"
#include "args.h"
#include "base/spw_err.h"
#include "base/spw_monotonic.h"
#include "control/door.h"
#include "result/table.h"

/* For the next case, and for each order of one beside its own time. */
#define ORDER_MS 60000u
#define POLL_MS  500

static uint32_t stop_word;

/* The other end's case may last as long as it asked for, four times over, before its orders are
 * missed. */
static int serve_case(struct perf_session *s, const struct perf_case *what, const json_t *msg)
{
	/* A latency row runs twice, and a case verifies before and after. */
	s->ctl.order_ms += 4 * what->ms;
	if (what->op == PERF_TCP || what->op == PERF_BOND)
		return perf_tcp_server(s, what, msg);
	if (what->op == PERF_COLL)
		return what->net == PERF_NET_ONE_SHOT ? perf_oneshot_server(s, what, msg)
						      : perf_nccl_server(s, what, msg);
	return what->op == PERF_EGRESS ? perf_egress_server(s, what, msg)
				       : perf_xfer_server(s, what, msg);
}

static int serve_shown(struct perf_session *s, const struct perf_case *what, const json_t *msg)
{
	char size[PERF_SIZE_BYTES];

	perf_size_text(what->bytes, size);
	app_life_step(0, "for %s: %s, %s", s->ctl.peer, perf_op_name(what->op), size);
	return serve_case(s, what, msg);
}

/* A case that cannot be parsed ends the session; one that fails later need not. */
static int one_case(struct perf_session *s)
{
	struct perf_case what;
	json_t *msg, *request;
	int rc;

	s->ctl.order_ms = ORDER_MS;
	rc = perf_ctl_recv(&s->ctl, ORDER_MS, &msg);
	if (rc < 0)
		return rc;
	s->serial++;
	request = json_object_get(msg, "case");
	if (!request) /* what is left of a case that the client gave up */
		rc = perf_ctl_send(&s->ctl, json_pack("{s:b}", "aborted", 1));
	else if ((rc = perf_case_parse(request, &what)) < 0)
		perf_ctl_error(&s->ctl, rc);
	else
		rc = serve_shown(s, &what, msg);
	json_decref(msg);
	return rc;
}

/* Lane and NCCL's rank end with the session: the next client may want other rails. */
static int serve_session(struct perf_session *s, const struct perf_args *args)
{
	json_t *theirs;
	int rc = perf_facts_read(&s->own); /* again for each session: links come and go */

	rc = rc ? rc : perf_greet_server(&s->ctl, perf_facts_json(&s->own), &theirs);
	if (rc < 0)
		return perf_ctl_end(&s->ctl, rc);
	rc = perf_facts_parse(theirs, &s->peer);
	json_decref(theirs);
	s->lane.kind = args->memory;
	s->lane.yield = s->own.cores < 4;
	s->lane.memory_max = s->own.memory_max;
	while (rc == 0)
		rc = one_case(s);
	perf_ctl_end(&s->ctl, rc);
	perf_lane_free(&s->lane);
	perf_nccl_end(s);
	return rc == -ECONNRESET || rc == -EINTR ? 0 : rc;
}

/* Returns: whether a client has come; false: it is time to leave. */
static bool wait_client(struct perf_door *door, const struct perf_args *args, struct perf_ctl *ctl)
{
	struct pollfd wait[2] = {{.fd = perf_door_fd(door), .events = POLLIN},
				 {.fd = args->once ? STDIN_FILENO : -1, .events = POLLIN}};
	char byte;

	while (!spw_thr_load_rlx(&stop_word)) {
		if (poll(wait, 2, POLL_MS) > 0 && wait[0].revents && perf_door_take(door, ctl))
			return true;
		/* Started over ssh: the end of stdin is the end of whoever started it. */
		if (wait[1].revents && read(STDIN_FILENO, &byte, 1) <= 0)
			wait[1].fd = isatty(STDIN_FILENO) || !getppid() ? -1 : wait[1].fd;
		if (wait[1].revents & (POLLHUP | POLLERR))
			return false;
	}
	return false;
}

/* Once at the start, to stderr: stdout is read by local.c. */
static void serve_warn_open(uint16_t port)
{
	fprintf(stderr,
		PERF_PROGRAM ": warning: without --secret whoever reaches TCP port %u may measure "
			     "with this machine, and read what hardware it has: give both ends the "
			     "same --secret FILE\n",
		port);
}

/* An error of one session is printed and ends that session only. */
static int serve_all(struct perf_session *s, struct perf_door *door, const struct perf_args *args)
{
	int rc = 0;

	while (wait_client(door, args, &s->ctl)) {
		app_life_phase(0, "for %s", s->ctl.peer);
		rc = serve_session(s, args);
		app_life_phase(0, "%s", "");
		if (rc < 0)
			fprintf(stderr, PERF_PROGRAM ": error: %s\n", spw_err_text());
		perf_ctl_close(&s->ctl);
		perf_door_free(door);
		if (args->once)
			break;
	}
	return args->once && rc < 0 ? APP_FAULT : APP_GOOD;
}

/* Ctrl-C reaches both ends of one terminal: one that the client started leaves with its stdin. */
static void serve_catch_signals(const struct perf_args *args)
{
	app_catch_signals(&stop_word);
	if (perf_is_started(args))
		signal(SIGINT, SIG_IGN);
}

/* A signal is the only end of a server, so it gives the status. */
static int serve_interrupted(const struct perf_args *args, uint64_t begin_ns, int status)
{
	const uint32_t number = spw_thr_load_rlx(&stop_word) & ~APP_SIGNAL_AGAIN;

	if (!number)
		return status;
	return perf_is_started(args) ? 128 + (int)number
				     : app_life_interrupted(PERF_PROGRAM, number,
							    spw_monotonic_ns() - begin_ns, 0);
}

/* The line with the port is read by local.c of whoever started this end: it is flushed at once. */
int perf_serve(const struct perf_args *args, const struct spw_oob_secret *secret)
{
	struct perf_session *s = calloc(1, sizeof(*s));
	struct perf_door *door = NULL;
	const uint64_t begin_ns = spw_monotonic_ns();
	uint16_t port = args->port;
	int rc = s ? 0 : spw_err(ENOMEM, "no memory for a session");

	rc = rc ? rc : spw_tsc_calibrate(20, &s->tsc);
	serve_catch_signals(args);
	rc = rc ? rc : perf_door_open(&port, secret, &stop_word, &door);
	if (rc < 0) {
		rc = app_complain(PERF_PROGRAM, rc);
	} else {
		s->lane.port = args->port ? (uint16_t)(args->port + 1) : 0;
		s->data_port = args->port ? (uint16_t)(args->port + 2) : 0;
		if (!secret->len)
			serve_warn_open(port);
		if (!args->verbosity.quiet)
			printf(PERF_PROGRAM ": serves on port %u\n", port);
		fflush(stdout);
		rc = serve_all(s, door, args);
	}
	rc = serve_interrupted(args, begin_ns, rc);
	perf_door_close(door);
	free(s);
	return rc;
}
