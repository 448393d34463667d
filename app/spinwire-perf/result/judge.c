/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Figures of a row (judge.h), for table.c and report.c: they are derived each time from the raw
 * counts of the result, so that text, JSON and CSV cannot differ. Nothing here changes a result;
 * what makes one invalid is marked where it is found (phy.c, client.c, the case files).
 */
#include "result/judge.h"

#include <string.h>

#include "measure/coll.h"

/* Rates of the two directions are added, each over its own time: the ends do not start and stop
 * together. CPU time is of all messages, warm-up included. */
void perf_judge(const struct perf_session *s, const struct perf_result *result,
		struct perf_verdict *verdict_out)
{
	const struct perf_case *what = &result->what;
	const struct perf_flow *own = &result->own, *peer = &result->peer;
	double total = (double)own->total + (what->both ? (double)peer->total : 0);
	double cpu = (double)own->cpu_ns + (double)peer->cpu_ns;

	memset(verdict_out, 0, sizeof(*verdict_out));
	if (own->ns && !what->latency) {
		verdict_out->gbps = 8.0 * (double)own->bytes / (double)own->ns;
		verdict_out->per_second = 1e9 * (double)own->messages / (double)own->ns;
	}
	if (what->both && peer->ns) {
		verdict_out->gbps += 8.0 * (double)peer->bytes / (double)peer->ns;
		verdict_out->per_second += 1e9 * (double)peer->messages / (double)peer->ns;
	}
	if (total > 0) {
		double bytes = what->op == PERF_COLL ? (double)perf_coll_bus_bytes(what)
						     : (double)what->bytes;

		verdict_out->cpu_ns = cpu / total;
		verdict_out->cpu_ms_gb = cpu / 1e6 / (total * bytes / 1e9);
	}
	verdict_out->limit_gbps = perf_limit_mbps(&s->rails, &s->own, &s->peer, what->rails,
						  verdict_out->by, sizeof(verdict_out->by)) /
				  1000 * (what->both ? 2 : 1);
	if (verdict_out->limit_gbps > 0)
		verdict_out->efficiency = verdict_out->gbps / verdict_out->limit_gbps;
	perf_reference(s, what, verdict_out->reference, sizeof(verdict_out->reference));
}

/* docs/100-two-machines.md explains the words to users, with the same thresholds. */
const char *perf_word(double efficiency)
{
	return efficiency <= 0     ? ""
	       : efficiency > 0.9  ? "excellent"
	       : efficiency >= 0.8 ? "good"
				   : "below";
}
