/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Jobs without live pages: there is no graph of who waits for whom. Rules are asked of all ranks,
 * one order after the other, and each order must be decided for all ranks before the next one is
 * asked. judge.c calls it where no rank has a page.
 */
#include "hang/judge.h"

#define LAST       (SPW_HANG_SNAP_CNT - 1)
#define BARE_ORDER 6u

/* Two ranks may have the same thing, as both ends of a QP do; then both are named. */
static void bare_order(struct hang_judge *j, uint32_t order)
{
	struct hang_graph *g = &j->g;

	for (uint32_t i = 0; i < g->rank_cnt; i++) {
		char evidence[320] = "";
		const struct hang_sink sink =
			hang_sink_of(g, i, HANG_NONE, evidence, sizeof(evidence));
		uint32_t at = 0;
		const enum hang_tri holds = hang_rules_ask(&sink, HANG_SINK_BARE, order, &at);

		if (holds == HANG_UNKNOWN)
			hang_graph_lacks(g,
					 "no live page (spinwire's NCCL plugin is not used), and "
					 "of pid %ld on %s is not known: %s",
					 (long)g->rank[i].pid, g->c->host[g->rank[i].host].name,
					 hang_rule[at].needs);
		else if (holds == HANG_YES && !hang_verdict_is_there(j, i, at))
			hang_verdict_explain(j, hang_verdict_add(j, i), at, evidence);
	}
}

/* Whether a process is a rank, and what it does is on no page. */
static bool bare_is_rank(const struct hang_rank *rank)
{
	return hang_is(rank->row[LAST]->page, 0) == HANG_YES && rank->rank >= 0 &&
	       rank->row[LAST]->world.known;
}

/* A rank that is stopped or frozen cannot go on, whatever is known of the others. Without its
 * number a process may be one of anything that has NCCL mapped: it is shown, not named. */
static void bare_alone(struct hang_judge *j, bool are_ranks)
{
	for (uint32_t i = 0; i < j->g.rank_cnt; i++)
		for (uint32_t at = 0; at < hang_rule_cnt; at++) {
			char evidence[320];
			const struct hang_sink sink =
				hang_sink_of(&j->g, i, HANG_NONE, evidence, sizeof(evidence));

			if (bare_is_rank(&j->g.rank[i]) != are_ranks ||
			    !(hang_rule[at].sinks & HANG_ALONE) ||
			    hang_rule[at].test(&sink) != HANG_YES)
				continue;
			hang_verdict_explain(j, hang_verdict_add(j, i), at, evidence);
			break;
		}
}

/* Every rank of the job must have been found, or the one that is not is the culprit. */
static void bare_found_check(struct hang_graph *g)
{
	for (uint32_t i = 0; i < g->rank_cnt; i++)
		if (!g->rank[i].row[LAST]->page.known)
			hang_graph_lacks(g, "whether pid %ld on %s has a live page is not known",
					 (long)g->rank[i].pid, g->c->host[g->rank[i].host].name);
		else if (!bare_is_rank(&g->rank[i]))
			hang_graph_lacks(g,
					 "no live page, and the environment of pid %ld on %s "
					 "names no rank: whether all ranks were found is not "
					 "known",
					 (long)g->rank[i].pid, g->c->host[g->rank[i].host].name);
		else if (g->rank[i].row[LAST]->world.value > (int64_t)g->rank_cnt)
			hang_graph_lacks(g, "%u of %ld ranks were found: --hosts with all hosts",
					 g->rank_cnt, (long)g->rank[i].row[LAST]->world.value);
}

void hang_judge_bare(struct hang_judge *j)
{
	struct hang_graph *g = &j->g;

	j->answer->bare = true;
	bare_alone(j, true);
	if (j->sink_cnt) {
		g->missing[0] = '\0';
		j->unlike = false;
		return;
	}
	bare_found_check(g);
	bare_alone(j, false);
	for (uint32_t order = 0; order < BARE_ORDER && !j->sink_cnt && !g->missing[0]; order++)
		bare_order(j, order);
	if (!j->sink_cnt)
		hang_graph_lacks(g,
				 "no live page (spinwire's NCCL plugin is not used): no process is "
				 "stopped and no port is down; whether it moves is not known");
}
