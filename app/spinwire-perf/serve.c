/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The end that serves: one session after the other, each a row of cases that the client asks for.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app_program.h"
#include "args.h"
#include "base/spw_err.h"

#define CASE_WAIT_MS 600000u
#define POLL_MS      500

static uint32_t stop_word;

static int one_case(struct perf_session *s)
{
	struct perf_case what;
	json_t *msg, *request;
	int rc = perf_ctl_recv(&s->ctl, CASE_WAIT_MS, &msg);

	if (rc < 0)
		return rc;
	s->serial++;
	request = json_object_get(msg, "case");
	if (!request) /* what is left of a case that the client gave up */
		rc = perf_ctl_send(&s->ctl, json_pack("{s:b}", "aborted", 1));
	else if ((rc = perf_case_parse(request, &what)) < 0)
		perf_ctl_error(&s->ctl, rc);
	else if (what.op == PERF_TCP || what.op == PERF_BOND)
		rc = perf_tcp_server(s, &what, msg);
	else if (what.op == PERF_COLL)
		rc = what.net == PERF_NET_ONE_SHOT ? perf_oneshot_server(s, &what, msg)
						   : perf_nccl_server(s, &what, msg);
	else if (what.op == PERF_EGRESS)
		rc = perf_egress_server(s, &what, msg);
	else
		rc = perf_xfer_server(s, &what, msg);
	json_decref(msg);
	return rc;
}

static int session(struct perf_session *s, const struct perf_args *args,
		   const struct peer_secret *secret)
{
	json_t *theirs;
	int rc = perf_facts_read(&s->own); /* again for each session: links come and go */

	if (rc == 0)
		rc = perf_greet_server(&s->ctl, secret, perf_facts_json(&s->own), &theirs);
	if (rc < 0)
		return rc;
	rc = perf_facts_parse(theirs, &s->peer);
	json_decref(theirs);
	s->lane.kind = args->memory;
	s->lane.yield = s->own.cores < 4;
	s->lane.memory_max = s->own.memory_max;
	while (rc == 0 && !spw_thr_load_rlx(&stop_word))
		rc = one_case(s);
	perf_lane_free(&s->lane);
	perf_nccl_end(s);
	return rc == -ECONNRESET ? 0 : rc;
}

/* Returns: whether a client has come; false: it is time to leave. */
static bool wait_client(int listener, const struct perf_args *args)
{
	struct pollfd wait[2] = {{.fd = listener, .events = POLLIN},
				 {.fd = args->once ? STDIN_FILENO : -1, .events = POLLIN}};
	char byte;

	while (!spw_thr_load_rlx(&stop_word)) {
		if (poll(wait, 2, POLL_MS) > 0 && wait[0].revents)
			return true;
		/* Started over ssh: the end of stdin is the end of whoever started it. */
		if (wait[1].revents && read(STDIN_FILENO, &byte, 1) <= 0)
			wait[1].fd = isatty(STDIN_FILENO) || !getppid() ? -1 : wait[1].fd;
		if (wait[1].revents & (POLLHUP | POLLERR))
			return false;
	}
	return false;
}

int perf_serve(const struct perf_args *args, const struct peer_secret *secret)
{
	struct perf_session *s = calloc(1, sizeof(*s));
	uint16_t port;
	int listener = perf_ctl_listen(args->port, &port), rc = 0;

	if (listener < 0 || !s || spw_tsc_calibrate(20, &s->tsc) < 0) {
		free(s);
		return app_complain(PERF_PROGRAM, listener < 0 ? listener : -ENOTSUP);
	}
	app_catch_signals(&stop_word);
	s->lane.port = args->port ? (uint16_t)(args->port + 1) : 0;
	s->data_port = args->port ? (uint16_t)(args->port + 2) : 0;
	printf(PERF_PROGRAM ": serves on port %u\n", port);
	fflush(stdout);
	while (wait_client(listener, args)) {
		rc = perf_ctl_accept(listener, &s->ctl);
		if (rc == 0 && (rc = session(s, args, secret)) < 0)
			fprintf(stderr, PERF_PROGRAM ": error: %s\n", spw_err_text());
		perf_ctl_close(&s->ctl);
		if (args->once)
			break;
	}
	close(listener);
	free(s);
	return args->once && rc < 0 ? APP_FAULT : APP_GOOD;
}
