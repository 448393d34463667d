/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * NCCL's collectives between the two ends. Each end starts perf-collectives (python3 with torch)
 * once in a session; rank 0 is the server's, because the client reaches the server and maybe not
 * the other way round.
 *
 *   client   {"case", "rails"}         ->   server  starts its rank, if it has none
 *                                     <-    {"port": where rank 0 listens}
 *            starts its rank
 *            {"do": "run"}             ->
 *            an order to its rank     ...   the same order to its rank
 *                                     <-    {"flow", "phy"}
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "app_tool.h"
#include "base/spw_err.h"
#include "measure/coll.h"
#include "result/phy.h"
#include "session.h"

#define COPIES       4u     /* of a size that perf-collectives holds, with those to compare */
#define LOAD_MS      120000 /* torch reads a gigabyte of libraries */
#define ANSWER_MS    120000
#define ANSWER_BYTES 1024

/* ---- one rank ---- */

/* A rank prints one JSON object a line. "missing" means that this machine cannot run NCCL at all:
 * it is kept for the session, and later rows fail at once. */
static int answer_read(struct perf_session *s, json_t **json_out)
{
	char line[ANSWER_BYTES], error[PERF_TEXT_BYTES];
	int rc = perf_child_line(&s->nccl.child, ANSWER_MS, line, sizeof(line));

	if (rc < 0)
		return spw_err(-rc, "NCCL's rank at %s %s", s->own.host,
			       rc == -ECHILD ? "ended" : "gave no answer in 2 minutes");
	*json_out = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
	if (!json_is_object(*json_out)) {
		json_decref(*json_out);
		*json_out = NULL;
		return spw_err(EPROTO, "perf-collectives printed: %.200s", line);
	}
	perf_text(*json_out, "error", error, sizeof(error));
	perf_text(*json_out, "missing", s->nccl.missing, sizeof(s->nccl.missing));
	if (!error[0] && !s->nccl.missing[0])
		return 0;
	rc = json_is_true(json_object_get(*json_out, "wrong")) ? EBADMSG : EREMOTEIO;
	json_decref(*json_out);
	*json_out = NULL;
	return error[0] ? spw_err(rc, "NCCL: %s", error)
			: spw_err(ENOENT, "%s: %s", s->own.host, s->nccl.missing);
}

/* Returns: 0 also if the rank is there already. What is missing once stays so. */
static int rank_start(struct perf_session *s, const char *rank, const char *host, uint16_t port)
{
	char text[8], *argv[] = {NULL, NULL, NULL, text, NULL};
	json_t *answer = NULL;
	int rc;

	if (s->nccl.missing[0])
		return spw_err(ENOENT, "%s: %s", s->own.host, s->nccl.missing);
	if (s->nccl.child.pid)
		return 0;
	argv[0] = app_tool_find("spinwire-perf-collectives", "perf-collectives");
	argv[1] = (char *)(uintptr_t)rank; /* execvp() does not change them */
	argv[2] = (char *)(uintptr_t)host;
	snprintf(text, sizeof(text), "%u", port);
	rc = perf_child_start(argv, &s->nccl.child);
	rc = rc ? rc : answer_read(s, &answer);
	perf_text(answer, "ready", s->nccl.with, sizeof(s->nccl.with));
	json_decref(answer);
	if (rc < 0)
		perf_child_end(&s->nccl.child);
	return rc;
}

/* Sends the order, and reads what it took. */
static int rank_measure(struct perf_session *s, const struct perf_case *what,
			struct perf_flow *flow_out)
{
	json_t *order = json_pack("{s:s,s:s,s:I,s:I}", "coll", perf_coll_name(what->coll), "net",
				  perf_net_name(what->net), "bytes", (json_int_t)what->bytes, "ms",
				  (json_int_t)what->ms);
	uint64_t calls = 0, ns = 0, cpu_ns = 0;
	json_t *answer = NULL;
	int rc = order && json_dumpfd(order, s->nccl.child.in, JSON_COMPACT) == 0 &&
				 write(s->nccl.child.in, "\n", 1) == 1
			 ? 0
			 : spw_err(EIO, "NCCL's rank at %s ended", s->own.host);

	json_decref(order);
	rc = rc ? rc : answer_read(s, &answer);
	rc = rc ? rc : perf_number(answer, "calls", INT64_MAX, &calls);
	rc = rc ? rc : perf_number(answer, "ns", INT64_MAX, &ns);
	rc = rc ? rc : perf_number(answer, "cpu_ns", INT64_MAX, &cpu_ns);
	json_decref(answer);
	*flow_out = (struct perf_flow){.messages = calls,
				       .bytes = calls * perf_coll_bus_bytes(what),
				       .ns = ns,
				       .total = calls,
				       .cpu_ns = cpu_ns};
	return rc;
}

void perf_nccl_end(struct perf_session *s)
{
	perf_child_end(&s->nccl.child);
}

/* What is left of a case that failed: a rank that waits for the other one. */
static void rank_end(struct perf_session *s)
{
	char text[PERF_TEXT_BYTES];

	snprintf(text, sizeof(text), "%.300s", spw_err_text());
	if (s->nccl.child.pid)
		kill(s->nccl.child.pid, SIGKILL);
	perf_child_end(&s->nccl.child);
	spw_err(EIO, "%s", text);
}

/* perf-collectives holds COPIES of a size; the limit is an eighth of the free memory (facts.c). */
static int memory_check(const struct perf_session *s, const struct perf_case *what)
{
	if (!s->lane.memory_max || what->bytes <= s->lane.memory_max / COPIES)
		return 0;
	return spw_err(ENOMEM,
		       "a collective of %llu bytes would need more than an eighth of the free "
		       "memory, where the GPU's may lie too: take smaller sizes (--sizes)",
		       (unsigned long long)what->bytes);
}

/* ---- the client's end ---- */

/* The ranks find each other by the address of the control connection, which the client has reached
 * already. */
static int nccl_measure(struct perf_session *s, struct perf_result *result, uint16_t port)
{
	char own_rails[160];
	struct perf_phy before, own, peer;
	json_t *answer = NULL;
	int rc = rank_start(s, "1", s->ctl.far, port);

	perf_rails_text(&s->rails, result->what.rails, 1, false, own_rails, sizeof(own_rails));
	perf_phy_read(&s->own, own_rails, &before);
	rc = rc ? rc : perf_ctl_send(&s->ctl, json_pack("{s:s}", "do", "run"));
	rc = rc ? rc : rank_measure(s, &result->what, &result->own);
	rc = rc ? rc : perf_ctl_recv(&s->ctl, ANSWER_MS, &answer);
	perf_phy_since(&s->own, own_rails, &before, &own);
	rc = rc ? rc : perf_flow_parse(json_object_get(answer, "flow"), &result->peer);
	rc = rc ? rc : perf_phy_parse(json_object_get(answer, "phy"), &peer);
	json_decref(answer);
	if (rc == 0 && result->what.net == PERF_NET_SOCKET)
		perf_mark(result, PERF_UNVERIFIED,
			  "NCCL's sockets take the kernel's interfaces, which it chooses");
	else if (rc == 0)
		perf_coll_phy_judge(&own, &peer, result);
	return rc;
}

/* The server starts rank 0 and answers with the port on which it listens; rank 1 connects there. */
int perf_nccl_client(struct perf_session *s, struct perf_result *result)
{
	char theirs[160];
	json_t *answer = NULL;
	uint64_t port = 0;
	int rc;

	if (s->nccl.missing[0])
		return spw_err(ENOENT, "%s: %s", s->own.host, s->nccl.missing);
	rc = memory_check(s, &result->what);
	if (rc < 0)
		return rc;
	perf_rails_text(&s->rails, result->what.rails, 1, true, theirs, sizeof(theirs));
	rc = perf_ask(
		s, json_pack("{s:o,s:s}", "case", perf_case_json(&result->what), "rails", theirs),
		LOAD_MS, &answer);
	rc = rc ? rc : perf_number(answer, "port", UINT16_MAX, &port);
	json_decref(answer);
	rc = rc ? rc : nccl_measure(s, result, (uint16_t)port);
	snprintf(result->path, sizeof(result->path), "%s", s->nccl.with);
	if (rc == 0)
		return 0;
	rank_end(s);
	return perf_ctl_give_up(&s->ctl, rc);
}

/* ---- the server's end ---- */

/* Another process may take the port between the two calls; rank 0 then reports it, and the row
 * fails. */
static int port_choose(struct perf_session *s)
{
	int fd = perf_ctl_listen(s->data_port, &s->nccl.port);

	if (fd < 0)
		return fd;
	close(fd); /* rank 0 listens there next */
	return 0;
}

/* The client's rank is started before it orders "run": both ranks get their order when both have
 * loaded. */
static int nccl_serve(struct perf_session *s, const struct perf_case *what, const char *rails)
{
	struct perf_phy before, moved;
	struct perf_flow flow;
	json_t *order = NULL;
	int rc = perf_ctl_send(&s->ctl, json_pack("{s:i}", "port", (int)s->nccl.port));

	rc = rc ? rc : perf_ctl_order(&s->ctl, LOAD_MS, &order);
	json_decref(order);
	perf_phy_read(&s->own, rails, &before);
	rc = rc ? rc : rank_measure(s, what, &flow);
	if (rc < 0)
		return rc;
	perf_phy_since(&s->own, rails, &before, &moved);
	return perf_ctl_send(&s->ctl, json_pack("{s:o,s:o}", "flow", perf_flow_json(&flow), "phy",
						perf_phy_json(&moved)));
}

/* A rank that lacks something has ended by itself (-ENOENT); any other error may leave one that
 * waits. */
int perf_nccl_server(struct perf_session *s, const struct perf_case *what, const json_t *request)
{
	char rails[160];
	int rc = memory_check(s, what);

	if (rc == 0 && !s->nccl.child.pid)
		rc = port_choose(s);
	perf_text(request, "rails", rails, sizeof(rails));
	rc = rc ? rc : rank_start(s, "0", s->ctl.local, s->nccl.port);
	rc = rc ? rc : nccl_serve(s, what, rails);
	if (rc == 0)
		return 0;
	if (rc != -ENOENT)
		rank_end(s);
	return perf_ctl_refuse(&s->ctl, rc);
}
