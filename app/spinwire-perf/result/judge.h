/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What a row's figures mean: against the link, against what owners published, in a word.
 */
#ifndef PERF_JUDGE_H
#define PERF_JUDGE_H

#include "session.h"

struct perf_verdict {
	double gbps;        /* of payload, both directions together */
	double per_second;  /* messages */
	double cpu_ns;      /* of both ends' threads, a message */
	double cpu_ms_gb;   /* and a GB (10^9 bytes) */
	double limit_gbps;  /* 0: unknown */
	double efficiency;  /* of the limit, 0..; 0 if that is unknown */
	char by[64];        /* what sets the limit */
	char reference[48]; /* what owners measured; "" none */
};

void perf_judge(const struct perf_session *s, const struct perf_result *result,
		struct perf_verdict *verdict_out);

/* Returns: "excellent", "good", or "below", as NVIDIA's playbook judges a share of the line; "" if
 * it is unknown. */
const char *perf_word(double efficiency);

/* reference.c: the published figure that stands beside a row on machines of its kind. */
void perf_reference(const struct perf_session *s, const struct perf_case *what, char *out,
		    size_t bytes);

#endif
