/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * One session between two ends, as each of them has it, and the calls that measure one case of it.
 */
#ifndef PERF_SESSION_H
#define PERF_SESSION_H

#include "control/child.h"
#include "control/control.h"
#include "measure/lane.h"
#include "measure/pair.h"
#include "plat/spw_who.h"
#include "time/spw_time.h"

struct perf_session {
	struct perf_ctl ctl;
	struct perf_end own, peer;
	struct perf_rails rails; /* client */
	struct perf_lane lane;
	/* NCCL's rank at this end. */
	struct {
		struct perf_child child;
		char missing[160]; /* why there is none */
		char with[96];     /* versions */
		uint16_t port;     /* server: where rank 0 listens */
	} nccl;
	struct spw_tsc tsc;
	/* client: this thread, and when its rows began (busy.c) */
	struct {
		struct spw_who who;
		uint64_t begin_ns, waited_ns;
		bool said; /* that the machines are busy */
	} busy;
	uint64_t serial;    /* of the case */
	uint16_t data_port; /* server: where TCP rows listen; 0: any */
};

/* Purpose: measures one case; both ends are at the same one. The client's result has its flows,
 *   latency and validity; an error is of this case alone, unless ctl failed.
 * Thread: main.
 * Errors: -ECONNRESET, -ETIMEDOUT, -EPROTO of the control connection end the session: ctl.fd is
 * then -1. Others: this case has failed, the next one may do. */
int perf_xfer_client(struct perf_session *s, struct perf_result *result);
int perf_xfer_server(struct perf_session *s, const struct perf_case *what, const json_t *request);
/* Purpose: an order of case_xfer.c. Owner: the caller. */
json_t *perf_xfer_order(const char *name, uint64_t seed, uint64_t slots);
/* Purpose: client: finds out by probes which functions face each other; both ends are at a case.
 * Lifetime: facing_out points into s->own and s->peer; cnt 0: no connection came up.
 * Errors: those of the control connection. */
int perf_prove(struct perf_session *s, struct perf_facing *facing_out);
int perf_oneshot_client(struct perf_session *s, struct perf_result *result);
int perf_oneshot_server(struct perf_session *s, const struct perf_case *what,
			const json_t *request);
int perf_nccl_client(struct perf_session *s, struct perf_result *result);
int perf_nccl_server(struct perf_session *s, const struct perf_case *what, const json_t *request);
/* Purpose: ends the rank of this end, if there is one. */
void perf_nccl_end(struct perf_session *s);
int perf_egress_client(struct perf_session *s, struct perf_result *result);
int perf_egress_server(struct perf_session *s, const struct perf_case *what, const json_t *request);
int perf_tcp_client(struct perf_session *s, struct perf_result *result);
int perf_tcp_server(struct perf_session *s, const struct perf_case *what, const json_t *request);

/* Purpose: sends a message and takes its answer. Owner: takes over json; *answer_out, which may be
 *   NULL, is the caller's. */
int perf_ask(struct perf_session *s, json_t *json, uint32_t timeout_ms, json_t **answer_out);

#endif
