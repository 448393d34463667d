/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What the files of the program share. Two ends: the one that serves, and the one that was given
 * its address, which plans, asks for one case after the other, judges and prints.
 *
 *   main        args; local: no address: starts both ends on two software devices; --ssh
 *   client      plan: the cases of a run, one after the other
 *   serve       the other end of each case
 *   control/    control, greet, fields: one TCP connection between both; door: who may come in;
 *               child, sock
 *   measure/    case_xfer: lane, pump, echo, queue, bytes, gpu, open_loop; case_egress: datagram;
 *               case_tcp: open_loop; pair: which rails face each other
 *   result/     judge, limit, reference, phy: what the figures mean; facts: what both machines
 *               are; table, brief, report: text, JSON, CSV, HTML;
 *               busy: what makes them worse
 */
#ifndef PERF_H
#define PERF_H

#include <jansson.h>

#include "base/spw_enum.h"
#include "base/spw_types.h"
#include "hist/spw_hist.h"

#define PERF_PROGRAM    "spinwire-perf"
#define PERF_PORT       18515u /* control; transfers use the next one, TCP rows the one after */
#define PERF_RAIL_MAX   4u
#define PERF_STREAM_MAX 16u
#define PERF_SIZE_MAX   48u
#define PERF_CASE_MAX   1024u
#define PERF_TEXT_BYTES 320u

/* name, as printed */
#define PERF_OP_LIST(X, P)     \
	X(P, WRITE, "write")   \
	X(P, SEND, "send")     \
	X(P, READ, "read")     \
	X(P, TCP, "tcp")       \
	X(P, BOND, "bond")     \
	X(P, EGRESS, "egress") \
	X(P, COLL, "collective")

enum perf_op { PERF_OP_LIST(SPW_ENUM_VALUE, PERF_) PERF_OP_CNT };

/* Collectives, and what carries them. name, as printed */
#define PERF_COLL_LIST(X, P)                   \
	X(P, NONE, "none")                     \
	X(P, ALL_GATHER, "all_gather")         \
	X(P, ALL_REDUCE, "all_reduce")         \
	X(P, BROADCAST, "broadcast")           \
	X(P, REDUCE_SCATTER, "reduce_scatter") \
	X(P, SENDRECV, "sendrecv")

enum perf_coll { SPW_ENUM(PERF_COLL) };

#define PERF_NET_LIST(X, P)        \
	X(P, ONE_SHOT, "one-shot") \
	X(P, SPINWIRE, "spinwire") \
	X(P, IB, "IB")             \
	X(P, SOCKET, "Socket")

enum perf_net { SPW_ENUM(PERF_NET) };

/* One row to measure. Travels to the other end as JSON (case.c). */
struct perf_case {
	enum perf_op op;
	bool latency;        /* else bandwidth */
	bool both;           /* both ends send */
	bool gpu;            /* from and to memory that kernels made and check */
	enum perf_coll coll; /* COLL */
	enum perf_net net;   /* COLL: lib/coll, or NCCL's name for what it uses */
	uint64_t bytes;
	uint32_t rails;   /* mask of the rails that carry it */
	uint32_t streams; /* TCP: connections; else queue pairs a rail */
	uint32_t ms;      /* how long it is timed */
};

/* What one end sent, over the time in which it was counted. */
struct perf_flow {
	uint64_t messages, bytes, ns;
	uint64_t total;  /* messages in all, warm-up included */
	uint64_t cpu_ns; /* of the measuring thread, for all of them */
};

enum perf_valid { PERF_VALID, PERF_UNVERIFIED, PERF_INVALID, PERF_FAILED };

struct perf_lat {
	struct spw_hist_summary open;   /* ns, from the intended time */
	struct spw_hist_summary closed; /* ns, one message at a time */
	uint64_t intended, lost, interval_ns;
};

/* What one rail of this end did in the timed part of a row. */
struct perf_carried {
	char device[64];
	uint64_t bytes, resent_chunks, outages;
};

struct perf_result {
	struct perf_case what;
	struct perf_flow own, peer;
	struct perf_lat lat;
	enum perf_valid valid;
	char why[PERF_TEXT_BYTES]; /* of all but PERF_VALID */
	char path[96];             /* the path that it took, where that is a question */
	struct perf_carried carried[PERF_RAIL_MAX];
	uint32_t carried_cnt; /* 0 in rows without lib/xfer */
};

/* case.c: names and JSON of a case. Thread: any. */
const char *perf_op_name(enum perf_op op);
int perf_op_parse(const char *name, enum perf_op *op_out);
const char *perf_valid_name(enum perf_valid valid);
json_t *perf_case_json(const struct perf_case *what);
/* Errors: -EPROTO a value is missing or out of range. */
int perf_case_parse(const json_t *json, struct perf_case *what_out);
json_t *perf_flow_json(const struct perf_flow *flow);
int perf_flow_parse(const json_t *json, struct perf_flow *flow_out);

/* A number of a message of the other end. Errors: -EPROTO with its name. */
int perf_number(const json_t *json, const char *name, uint64_t max, uint64_t *value_out);
/* A text of a message, as one line that a terminal may have (base/spw_text.h), cut to bytes; "" if
 * there is none. */
void perf_text(const json_t *json, const char *name, char *out, size_t bytes);

/* Purpose: marks a result; the worst mark stays, with its reason. */
void perf_mark(struct perf_result *result, enum perf_valid valid, const char *fmt, ...)
	SPW_PRINTF(3, 4);

/* Time since *last_ns, at most 10 ms: who stood still for longer has not looked (spw_tsc_ran). */
uint64_t perf_ran_ns(uint64_t *last_ns);
/* Nanoseconds of this thread's CPU time. Thread: any. */
uint64_t perf_cpu_ns(void);

#endif
