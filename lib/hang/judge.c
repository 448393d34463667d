/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The judge: builds the graph of a case, finds its sinks, asks the rules about each, and weighs
 * what they say.
 *
 *   any sink not explained, two of unlike layers, or anything missing    unknown
 *   every sink explained, all of one layer                               culprit
 *   nothing stands still                                                 moves
 *
 * A job without pages has no graph: bare.c judges it.
 *
 * spinwire-doctor and the tests call spw_hang_judge, nobody else anything here. Before changing it:
 * a name is given only if `missing` stays empty, so each doubt is noted by hang_graph_lacks; the
 * first one is what the user reads.
 */
#include <stdio.h>
#include <string.h>

#include "base/spw_text.h"
#include "hang/judge.h"

#define LAST     (SPW_HANG_SNAP_CNT - 1)
#define START_NS 10000000000ll /* a connection that takes longer is not being made */

/* ---- verdicts ---- */

/* By its number where that is known, as the program's log has it; else as ps has it. */
static void rank_name(const struct hang_graph *g, uint32_t rank, char *out, size_t room)
{
	const struct hang_rank *r = &g->rank[rank];

	if (r->rank >= 0)
		snprintf(out, room, "rank %ld", (long)r->rank);
	else
		snprintf(out, room, "pid %ld on %s", (long)r->pid, g->c->host[r->host].name);
}

/* What has no room replaces the last one: the count of sinks stays right. */
struct spw_hang_verdict *hang_verdict_add(struct hang_judge *j, uint32_t rank)
{
	struct hang_graph *g = &j->g;
	const struct hang_rank *r = &g->rank[rank];
	struct spw_hang_verdict *v;
	const uint32_t at = SPW_MIN(j->answer->verdict_cnt, SPW_HANG_VERDICT_MAX - 1);
	const struct spw_hang_thread_row *main_thread =
		hang_thread_find(hang_snap(g, rank, LAST), r->pid, r->pid);

	j->sink_cnt++;
	v = &j->answer->verdict[at];
	j->answer->verdict_cnt = at + 1;
	*v = (struct spw_hang_verdict){.rule = "",
				       .pid = r->pid,
				       .rank = r->rank,
				       .sure = "",
				       .todo = "",
				       .since = hang_rank_since(g, rank, true)};
	if (!v->since.known)
		v->since = hang_rank_since(g, rank, false);
	spw_text_show(g->c->host[r->host].name, v->host, sizeof(v->host));
	spw_text_show(r->row[LAST] ? r->row[LAST]->name : "", v->program, sizeof(v->program));
	spw_text_show(main_thread ? main_thread->stack : "", v->stack, sizeof(v->stack));
	return v;
}

/* Two verdicts on the two ends of one thing are one. */
bool hang_verdict_is_there(const struct hang_judge *j, uint32_t rank, uint32_t rule)
{
	for (uint32_t i = 0; i < j->answer->verdict_cnt; i++) {
		const struct spw_hang_verdict *v = &j->answer->verdict[i];

		if (v->explained && !strcmp(v->rule, hang_rule[rule].name) &&
		    ((hang_rule[rule].sinks & HANG_NOBODY) ||
		     (v->pid == j->g.rank[rank].pid &&
		      !strcmp(v->host, j->g.c->host[j->g.rank[rank].host].name))))
			return true;
	}
	return false;
}

/* Layers are compared with the first one's. */
void hang_verdict_explain(struct hang_judge *j, struct spw_hang_verdict *v, uint32_t at,
			  const char *evidence)
{
	const struct hang_rule *rule = &hang_rule[at];

	v->rule = rule->name;
	v->layer = rule->layer;
	v->explained = true;
	v->sure = rule->sure;
	v->todo = rule->todo;
	spw_text_show(rule->what, v->what, sizeof(v->what));
	spw_text_show(evidence, v->evidence, sizeof(v->evidence));
	if (rule->sinks & HANG_NOBODY) {
		v->rank = v->pid = -1;
		v->host[0] = v->program[0] = '\0';
	}
	if (j->answer->verdict[0].explained && j->answer->verdict[0].layer != v->layer)
		j->unlike = true;
}

struct hang_sink hang_sink_of(const struct hang_graph *g, uint32_t rank, uint32_t conn,
			      char *evidence, size_t room)
{
	return (struct hang_sink){
		.g = g, .rank = rank, .conn = conn, .evidence = evidence, .room = room};
}

/* Asks about one sink. Returns: whether a rule holds. */
static bool sink_judge(struct hang_judge *j, uint32_t kind, uint32_t rank, uint32_t conn)
{
	char evidence[320] = "", name[96];
	struct hang_sink sink = hang_sink_of(&j->g, rank, conn, evidence, sizeof(evidence));
	uint32_t at = 0, who = rank;
	enum hang_tri holds;
	struct spw_hang_verdict *v;

	sink.who = &who;
	holds = hang_rules_ask(&sink, kind, 0, &at);
	rank = holds == HANG_YES ? who : rank;
	if (holds == HANG_YES && hang_verdict_is_there(j, rank, at))
		return true;
	rank_name(&j->g, rank, name, sizeof(name));
	if (holds == HANG_UNKNOWN)
		hang_graph_lacks(&j->g, "%s holds the others up; why, would show: %s", name,
				 hang_rule[at].needs);
	else if (holds == HANG_NO)
		hang_graph_lacks(&j->g, "%s holds the others up, and no rule fits: eu-stack -p %ld",
				 name, (long)j->g.rank[rank].pid);
	v = hang_verdict_add(j, rank);
	if (holds == HANG_YES)
		hang_verdict_explain(j, v, at, evidence);
	else
		j->unexplained = true;
	return holds == HANG_YES;
}

/* ---- jobs with pages ---- */

/* Whether the process of each rank can run, before anything else is asked. */
static void judge_down(struct hang_judge *j)
{
	struct hang_graph *g = &j->g;

	for (uint32_t i = 0; i < g->rank_cnt; i++) {
		char evidence[320];
		const struct hang_sink sink =
			hang_sink_of(g, i, HANG_NONE, evidence, sizeof(evidence));
		uint32_t at;

		if (!g->rank[i].paged)
			continue;
		g->rank[i].down = hang_rules_ask(&sink, HANG_SINK_DOWN, 0, &at);
		if (g->rank[i].down == HANG_UNKNOWN)
			hang_graph_lacks(g, "whether pid %ld on %s can run would show: %s",
					 (long)g->rank[i].pid, g->c->host[g->rank[i].host].name,
					 hang_rule[at].needs);
	}
}

/* The other end was not found. If the connection has failed, its host was asked, and every process
 * with NCCL there is another rank, then it has ended. One that stands may end in a process that was
 * not recognized: without a page, with NCCL linked into it. */
static void judge_lost(struct hang_judge *j, uint32_t conn)
{
	struct hang_graph *g = &j->g;
	const struct spw_hang_conn_row *row = g->conn[conn].row[LAST];
	const int64_t host = row ? hang_peer_host(g, row->peer) : -1;
	int64_t lost = -1;
	struct spw_hang_verdict *v;
	char evidence[sizeof(v->evidence)];

	if (host < 0 || strcmp(row->state, "failed") || hang_ranks_lost(g, &lost) != 1) {
		hang_graph_lacks(g,
				 "the other end of a connection was not found, at %s: "
				 "--hosts with its host, as its user",
				 row && row->peer[0] ? row->peer : "an unknown address");
		return;
	}
	for (uint32_t i = 0; i < j->answer->verdict_cnt; i++)
		if (j->answer->verdict[i].pid == -1 && j->answer->verdict[i].rank == lost)
			return;
	snprintf(evidence, sizeof(evidence),
		 "rank %ld waits for %.72s, and no process there is rank %ld",
		 (long)g->rank[g->conn[conn].rank].rank, row->peer, (long)lost);
	v = hang_verdict_add(j, g->conn[conn].rank);
	hang_verdict_explain(j, v, 0, evidence);
	v->pid = -1;
	v->rank = lost;
	v->program[0] = '\0';
	spw_text_show(g->c->host[host].name, v->host, sizeof(v->host));
}

/* What holds the ranks up that stand still. */
static void judge_sinks(struct hang_judge *j)
{
	struct hang_graph *g = &j->g;

	for (uint32_t i = 0; i < g->rank_cnt; i++) {
		const struct hang_rank *r = &g->rank[i];

		if (!r->paged || r->moves)
			continue;
		if (r->idle_calls == HANG_UNKNOWN)
			hang_graph_lacks(g, "the calls of pid %ld on %s could not be read",
					 (long)r->pid, g->c->host[r->host].name);
		if (r->down == HANG_YES)
			sink_judge(j, HANG_SINK_DOWN, i, HANG_NONE);
		else if (r->idle_calls == HANG_YES && !r->failed)
			sink_judge(j, HANG_SINK_SELF, i, HANG_NONE);
		else if (r->wanted && !r->held)
			sink_judge(j, r->open ? HANG_SINK_OWES : HANG_SINK_ABSENT, i, HANG_NONE);
	}
	for (uint32_t i = 0; i < g->conn_cnt; i++) {
		const struct hang_conn *conn = &g->conn[i];

		if (conn->edge == HANG_EDGE_NET)
			sink_judge(j, HANG_SINK_NET,
				   g->conn[conn->sender == HANG_NONE ? i : conn->sender].rank, i);
		else if (conn->edge == HANG_EDGE_OUT)
			judge_lost(j, i);
	}
}

/* Ranks that wait for each other, with no sink, may call different things. */
static void judge_cycle(struct hang_judge *j)
{
	char evidence[320];

	for (uint32_t i = 0; i < j->g.rank_cnt; i++) {
		const struct hang_sink sink =
			hang_sink_of(&j->g, i, HANG_NONE, evidence, sizeof(evidence));
		uint32_t at;

		if (j->g.rank[i].open &&
		    hang_rules_ask(&sink, HANG_SINK_CYCLE, 0, &at) == HANG_YES) {
			hang_verdict_explain(j, hang_verdict_add(j, i), at, evidence);
			return;
		}
	}
	hang_graph_lacks(&j->g,
			 "the ranks wait for each other in a circle: eu-stack -p PID of each");
}

/* A rank that has been listening for long: those of its communicator that have no connection of it
 * have not come to their first operation. */
static void judge_unbegun(struct hang_judge *j, uint32_t listener)
{
	struct hang_graph *g = &j->g;
	const struct hang_conn *conn = &g->conn[listener];

	for (uint32_t r = 0; r < g->rank_cnt; r++)
		if (hang_comm_is_unbegun(g, r, conn->row[LAST]->comm))
			sink_judge(j,
				   g->rank[r].down == HANG_YES ? HANG_SINK_DOWN : HANG_SINK_UNBEGUN,
				   r, listener);
	hang_comm_check(g, conn->rank, conn->row[LAST]->comm);
}

/* Connections that are not made; asked only where nothing else is found. */
static void judge_start(struct hang_judge *j)
{
	struct hang_graph *g = &j->g;
	bool connects = false;

	for (uint32_t i = 0; i < g->conn_cnt; i++) {
		const struct spw_hang_conn_row *row = g->conn[i].row[LAST];
		const struct hang_conn *to;

		if (!row || strcmp(row->state, "connecting"))
			continue;
		connects = true;
		if (g->rank[g->conn[i].rank].moves || !row->state_ns.known ||
		    row->state_ns.value <= START_NS)
			continue;
		to = hang_listener_find(g, row->peer);
		if (to && g->rank[to->rank].down == HANG_YES)
			sink_judge(j, HANG_SINK_DOWN, to->rank, HANG_NONE);
		else
			sink_judge(j, HANG_SINK_START, g->conn[i].rank, i);
	}
	for (uint32_t i = 0; i < g->conn_cnt && !connects && !j->sink_cnt; i++) {
		const struct spw_hang_conn_row *row = g->conn[i].row[LAST];

		if (row && !g->rank[g->conn[i].rank].moves && !strcmp(row->state, "listening") &&
		    row->state_ns.known && row->state_ns.value > START_NS)
			judge_unbegun(j, i);
	}
}

/* A rank for which all others wait each time they are looked at. */
static void judge_late(struct hang_judge *j)
{
	for (uint32_t i = 0; i < j->g.rank_cnt; i++) {
		char evidence[320];
		const struct hang_sink sink =
			hang_sink_of(&j->g, i, HANG_NONE, evidence, sizeof(evidence));
		uint32_t at;
		const enum hang_tri late = j->g.rank[i].moves ? hang_rank_late(&j->g, i) : HANG_NO;

		if (late == HANG_UNKNOWN)
			hang_graph_lacks(&j->g, "who is late would show: NCCL's profiler calls of "
						"each rank");
		else if (late == HANG_YES &&
			 hang_rules_ask(&sink, HANG_SINK_LATE, 0, &at) != HANG_NO)
			sink_judge(j, HANG_SINK_LATE, i, HANG_NONE);
	}
}

/* What slows those down that move. */
static void judge_slow(struct hang_judge *j)
{
	struct hang_graph *g = &j->g;
	char evidence[320];
	uint32_t at;

	for (uint32_t i = 0; i < g->conn_cnt; i++) {
		const struct hang_conn *conn = &g->conn[i];
		const struct hang_sink sink =
			hang_sink_of(g, conn->rank, i, evidence, sizeof(evidence));

		if (!conn->row[LAST] || !g->rank[conn->rank].moves)
			continue;
		if (hang_conn_limps(g, conn))
			sink_judge(j, HANG_SINK_LIMPS, conn->rank, i);
		else if (conn->moved == HANG_YES &&
			 hang_rules_ask(&sink, HANG_SINK_SLOW, 0, &at) == HANG_YES)
			sink_judge(j, HANG_SINK_SLOW, conn->rank, i);
	}
	for (uint32_t i = 0; i < g->rank_cnt; i++) {
		const struct hang_sink sink =
			hang_sink_of(g, i, HANG_NONE, evidence, sizeof(evidence));

		if (g->rank[i].moves &&
		    hang_rules_ask(&sink, HANG_SINK_STARVED, 0, &at) == HANG_YES)
			sink_judge(j, HANG_SINK_STARVED, i, HANG_NONE);
	}
	if (!j->sink_cnt)
		judge_late(j);
	j->answer->moves = j->sink_cnt > 0;
}

/* A page that is not read may show what holds the others up. */
static void judge_pages(struct hang_judge *j)
{
	struct hang_graph *g = &j->g;

	for (uint32_t i = 0; i < g->rank_cnt; i++) {
		const struct spw_hang_proc_row *row = g->rank[i].row[LAST];
		const struct spw_hang_snap *snap = hang_snap(g, i, LAST);

		if (!row || !row->page.known ||
		    (g->rank[i].paged && snap->why[SPW_HANG_SOURCE_page][0]))
			hang_graph_lacks(g, "the live page of pid %ld on %s was not read: %s",
					 (long)g->rank[i].pid, g->c->host[g->rank[i].host].name,
					 snap->why[SPW_HANG_SOURCE_page]);
	}
}

/* Sinks first; what slows down is looked for only where nothing stands still, and connections that
 * are not made only where nothing else was found. */
static void judge_paged(struct hang_judge *j)
{
	struct hang_graph *g = &j->g;
	bool open = false, moves = false;

	hang_graph_conns(g);
	hang_comms_join(g);
	judge_pages(j);
	judge_down(j);
	hang_graph_edges(g);
	hang_comms_edges(g);
	for (uint32_t i = 0; i < g->rank_cnt; i++) {
		open |= g->rank[i].open || (g->rank[i].wanted && !g->rank[i].moves);
		moves |= g->rank[i].moves;
		j->answer->wait_cnt += g->rank[i].open && g->rank[i].held;
	}
	if (open) {
		judge_sinks(j);
		if (!j->sink_cnt && !g->missing[0])
			judge_cycle(j);
	} else if (moves) {
		judge_slow(j);
	}
	if (!j->sink_cnt && !moves)
		judge_start(j);
	if (!open && !moves && !j->sink_cnt)
		hang_graph_lacks(g, "no rank waits in NCCL for another one: nothing is under way");
	if (!open && moves && !j->sink_cnt && !g->missing[0])
		j->answer->outcome = SPW_HANG_OUTCOME_moves;
}

/* ---- the answer ---- */

void spw_hang_judge(const struct spw_hang_case *c, struct spw_hang_answer *answer_out)
{
	struct hang_judge j = {.answer = answer_out};
	bool paged = false;

	memset(answer_out, 0, sizeof(*answer_out));
	answer_out->outcome = SPW_HANG_OUTCOME_unknown;
	j.g.c = c;
	j.g.missing = answer_out->missing;
	j.g.room = sizeof(answer_out->missing);
	hang_graph_ranks(&j.g);
	answer_out->rank_cnt = j.g.rank_cnt;
	for (uint32_t i = 0; i < j.g.rank_cnt; i++)
		paged |= j.g.rank[i].paged;
	if (!j.g.rank_cnt)
		hang_graph_lacks(&j.g, "no process that uses NCCL was found (of this user; root "
				       "reads all)");
	else if (paged)
		judge_paged(&j);
	else
		hang_judge_bare(&j);
	if (j.unlike)
		hang_graph_lacks(&j.g, "two unlike things hold the others up: undo one, ask again");
	if (j.sink_cnt && !answer_out->missing[0])
		answer_out->outcome = SPW_HANG_OUTCOME_culprit;
}
