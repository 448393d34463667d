/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The ledger in both summaries. Called by report_text.c and report_json.c, and by replay.c, which
 * prints the same of a recording.
 *
 * The equations stand as docs/020 gives them, with the names of the struct: wire, received,
 * executed.
 */
#include <inttypes.h>
#include <stdio.h>

#include "app_brief.h"
#include "app_json.h"
#include "report_slow.h"

/* ---- JSON ---- */

/* Reasons with a count of 0 are listed too, so that a reader finds every key. */
json_t *app_ledger_json(const struct app_result *res)
{
	const struct spw_ledger_sum *sum = &res->topo.sum;
	json_t *bad = json_object(), *dropped = json_object();
	const char *name;
	uint64_t cnt;

	for (uint32_t i = 0; i < res->topo.ledger.bad.cnt; i++)
		json_object_set_new(bad, res->topo.ledger.bad.name[i],
				    app_json_number(res->topo.ledger.bad.count[i]));
	for (uint32_t i = 0; (name = spw_ledger_drop(&res->topo.ledger, i, &cnt)); i++)
		json_object_set_new(dropped, name, app_json_number(cnt));
	return json_pack("{s:I,s:o,s:I,s:I,s:I,s:I,s:o,s:o,s:I}", "wire", (json_int_t)sum->wire,
			 "missed", app_json_known(sum->missed_known, sum->missed), "received",
			 (json_int_t)sum->received, "executed", (json_int_t)sum->executed, "echoed",
			 (json_int_t)sum->echoed, "consumed", (json_int_t)sum->consumed, "bad", bad,
			 "dropped", dropped, "residual", (json_int_t)sum->residual);
}

/* ---- text ---- */

static void ledger_print_reason(const char *what, const char *name, uint64_t cnt, const char *text)
{
	if (cnt)
		printf("  %s: %-18s %14" PRIu64 "%s%s\n", what, name, cnt, *text ? "  " : "", text);
}

/* Reasons with a count of 0 are left out. */
static void ledger_print_reasons(const struct app_result *res)
{
	const char *name;
	uint64_t cnt;

	for (uint32_t i = 0; (name = spw_ledger_drop(&res->topo.ledger, i, &cnt)); i++)
		ledger_print_reason("dropped", name, cnt, "");
	for (uint32_t i = 0; i < res->topo.ledger.bad.cnt; i++)
		ledger_print_reason("bad    ", res->topo.ledger.bad.name[i],
				    res->topo.ledger.bad.count[i], spw_bad_text((enum spw_bad)i));
}

/* A residual is followed by the edges that it comes from. */
static void ledger_print_edges(const struct spw_ledger_sum *sum)
{
	for (int e = 0; e < SPW_EDGE_CNT; e++)
		if (sum->edge[e])
			printf("    %s is off by %" PRId64 ": %s\n",
			       spw_edge_name((enum spw_edge)e), sum->edge[e],
			       spw_edge_text((enum spw_edge)e));
}

/* One equation, and what is not as it should be. */
void app_report_ledger_brief(const struct app_result *res)
{
	const struct spw_ledger_sum *sum = &res->topo.sum;

	printf(APP_BRIEF_LEAD "received %" PRIu64 " = echoed %" PRIu64 " + consumed %" PRIu64
			      " + bad %" PRIu64 " + dropped %" PRIu64 "; missed ",
	       "frames", sum->received, sum->echoed, sum->consumed, sum->bad, sum->dropped);
	if (sum->missed_known)
		printf("%" PRIu64, sum->missed);
	else
		printf("unknown");
	printf("; residual %" PRIu64 "%s\n", sum->residual,
	       sum->residual ? "   THE RUN IS INVALID" : "");
	ledger_print_reasons(res);
	ledger_print_edges(sum);
	if (sum->leaked)
		printf("  %" PRId64 " slots of the pool leaked\n", sum->leaked);
}

void app_report_ledger(const struct app_result *res)
{
	const struct spw_ledger_sum *sum = &res->topo.sum;

	printf("\nledger\n");
	if (sum->missed_known)
		printf("  wire     %14" PRIu64 " = received %" PRIu64 " + missed %" PRIu64 "\n",
		       sum->wire, sum->received, sum->missed);
	else
		printf("  wire     %14s = received %" PRIu64
		       " + missed unknown (the port does not count what it loses)\n",
		       "unknown", sum->received);
	printf("  received %14" PRIu64 " = executed %" PRIu64 " + dropped %" PRIu64 "\n",
	       sum->received, sum->executed, sum->dropped - sum->tx_dropped);
	printf("  executed %14" PRIu64 " = consumed %" PRIu64 " + echoed %" PRIu64 " + bad %" PRIu64
	       " + dropped at TX %" PRIu64 "\n",
	       sum->executed, sum->consumed, sum->echoed, sum->bad, sum->tx_dropped);
	ledger_print_reasons(res);
	printf("  residual %14" PRIu64 "%s\n", sum->residual,
	       sum->residual ? "   THE RUN IS INVALID" : "");
	ledger_print_edges(sum);
	printf("pool       %14" PRIu64 " slots, %" PRIu64 " free, %" PRId64 " leaked\n",
	       res->topo.ledger.pool_slots, res->topo.ledger.pool_free, sum->leaked);
}
