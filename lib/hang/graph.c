/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The graph of a case (graph.h draws it): its ranks, their connections with both ends joined, what
 * moved between the snapshots, and for each connection with requests under way, whom it waits for.
 * Connections are joined by `pair`, a hash that both ends have, so no rank number is needed.
 *
 * judge.c calls hang_graph_ranks, _conns and _edges in this order; between the last two it decides
 * which ranks are down. Nothing here names anybody. Rows come from other machines and from files:
 * indexes are made here, never taken from a row.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/spw_text.h"
#include "hang/graph.h"

#define LAST (SPW_HANG_SNAP_CNT - 1)

/* Addresses and names in it are a page's or another host's, so it is made one line. */
void hang_graph_lacks(struct hang_graph *g, const char *fmt, ...)
{
	char text[320];
	va_list args;

	if (g->missing[0])
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	spw_text_show(text, g->missing, g->room);
}

/* ---- ranks ---- */

/* NULL: the process came later, or is hidden from this user. */
static const struct spw_hang_proc_row *proc_find(const struct spw_hang_snap *snap, int64_t pid)
{
	for (uint32_t i = 0; i < snap->proc_cnt; i++)
		if (snap->proc[i].pid.known && snap->proc[i].pid.value == pid)
			return &snap->proc[i];
	return NULL;
}

/* The communicator that names most ranks: a rank number of a smaller one is of that only. */
static const struct spw_hang_comm_row *comm_find(const struct spw_hang_snap *snap, int64_t pid)
{
	const struct spw_hang_comm_row *found = NULL;

	for (uint32_t i = 0; i < snap->comm_cnt; i++)
		if (snap->comm[i].pid.known && snap->comm[i].pid.value == pid &&
		    (!found || snap->comm[i].rank_cnt.value > found->rank_cnt.value))
			found = &snap->comm[i];
	return found;
}

/* As the program's log has it: that of RANK where no communicator spans the job. */
static int64_t rank_number(const struct spw_hang_proc_row *row,
			   const struct spw_hang_comm_row *comm)
{
	if (comm && comm->rank.known && comm->rank.value >= 0 && !hang_comm_is_part(comm, row))
		return comm->rank.value;
	return row->rank.known && row->rank.value >= 0 ? row->rank.value : -1;
}

/* Its rank number is only a name in the answer: the graph is joined by connections. A process has
 * a page if one snapshot found it, since that of a process that ends goes with it. */
static void rank_add(struct hang_graph *g, uint32_t host, const struct spw_hang_proc_row *row)
{
	struct hang_rank *rank = &g->rank[g->rank_cnt];

	if (!row->pid.known || g->rank_cnt == SPW_HANG_PROC_MAX) {
		hang_graph_lacks(g, "%s has more processes with NCCL than are looked at",
				 g->c->host[host].name);
		return;
	}
	*rank = (struct hang_rank){
		.host = host, .pid = row->pid.value, .rank = -1, .group = g->rank_cnt};
	g->rank_cnt++;
	for (uint32_t s = 0; s < SPW_HANG_SNAP_CNT; s++) {
		const struct spw_hang_snap *snap = &g->c->host[host].snap[s];
		const struct spw_hang_comm_row *comm = comm_find(snap, rank->pid);

		rank->row[s] = proc_find(snap, rank->pid);
		rank->comm = comm ? comm : rank->comm;
		rank->paged |= rank->row[s] && hang_is(rank->row[s]->page, 1) == HANG_YES;
	}
	rank->rank = rank_number(row, rank->comm);
}

/* A host that hides processes may hide a rank, unless each rank of the job was found elsewhere: the
 * machine from which a user asks need not run one. */
static void host_check(struct hang_graph *g, const struct spw_hang_host *host)
{
	const struct spw_hang_snap *snap = &host->snap[LAST];
	int64_t lost;

	if (host->silent[0] || !snap->taken)
		hang_graph_lacks(g, "%s is silent (%s): who waits there is not known", host->name,
				 host->silent[0] ? host->silent : "no third snapshot");
	else if (snap->why[SPW_HANG_SOURCE_proc][0] &&
		 (snap->proc_cnt || hang_ranks_lost(g, &lost) != 0))
		hang_graph_lacks(g, "%s: who waits there is not known: %s", host->name,
				 snap->why[SPW_HANG_SOURCE_proc]);
}

/* The last snapshot decides who is a rank: it has a row, too, for each process that ended. */
void hang_graph_ranks(struct hang_graph *g)
{
	for (uint32_t h = 0; h < g->c->host_cnt; h++) {
		const struct spw_hang_host *host = &g->c->host[h];

		if (host->silent[0] || hang_host_is_twice(g, h))
			continue;
		for (uint32_t i = 0; i < host->snap[LAST].proc_cnt; i++)
			rank_add(g, h, &host->snap[LAST].proc[i]);
	}
	for (uint32_t h = 0; h < g->c->host_cnt; h++)
		host_check(g, &g->c->host[h]);
}

/* ---- connections ---- */

/* All that progress changes. */
static enum hang_tri conn_moved(const struct spw_hang_snap *a, const struct spw_hang_snap *b,
				const struct spw_hang_conn_row *was,
				const struct spw_hang_conn_row *is)
{
	enum hang_tri moved;

	if (!was || !is)
		return HANG_UNKNOWN;
	moved = hang_or(hang_changed(was->begun, is->begun), hang_changed(was->ended, is->ended));
	for (uint32_t i = 0; i < b->rail_cnt; i++) {
		const struct spw_hang_rail_row *rail = &b->rail[i], *before;

		if (!hang_rail_is_of(rail, is))
			continue;
		before = hang_rail_find(a, is->pid.value, is->entry.value, rail->rail.value);
		if (before)
			moved = hang_or(moved,
					hang_changed(before->acked_bytes, rail->acked_bytes));
	}
	return moved;
}

/* A connection that cannot be read whole may be the one that shows who waits: it is not left out in
 * silence. */
static void conn_add(struct hang_graph *g, uint32_t rank, const struct spw_hang_conn_row *row)
{
	struct hang_conn *conn = &g->conn[g->conn_cnt];

	if (!row->entry.known || !row->begun.known || !row->ended.known || !row->is_send.known ||
	    !row->calls.known || !row->state[0] || g->conn_cnt == HANG_CONN_MAX) {
		hang_graph_lacks(g, "not every connection of pid %ld on %s could be read",
				 (long)g->rank[rank].pid, g->c->host[g->rank[rank].host].name);
		return;
	}
	*conn = (struct hang_conn){.rank = rank, .peer = HANG_NONE, .sender = HANG_NONE};
	g->conn_cnt++;
	for (uint32_t s = 0; s < SPW_HANG_SNAP_CNT; s++)
		conn->row[s] =
			hang_conn_find(hang_snap(g, rank, s), g->rank[rank].pid, row->entry.value);
	conn->open = row->begun.value - row->ended.value;
	conn->begun = conn_moved(hang_snap(g, rank, 0), hang_snap(g, rank, 1), conn->row[0],
				 conn->row[1]);
	conn->moved = conn_moved(hang_snap(g, rank, 1), hang_snap(g, rank, LAST), conn->row[1],
				 conn->row[LAST]);
}

/* The row that says most of a connection: the last one. */
static const struct spw_hang_conn_row *conn_row(const struct hang_conn *conn)
{
	return conn->row[LAST] ? conn->row[LAST] : conn->row[1] ? conn->row[1] : conn->row[0];
}

void hang_ranks_join(struct hang_graph *g, uint32_t a, uint32_t b)
{
	const uint32_t from = g->rank[a].group, to = g->rank[b].group;

	for (uint32_t i = 0; i < g->rank_cnt; i++)
		if (g->rank[i].group == SPW_MAX(from, to))
			g->rank[i].group = SPW_MIN(from, to);
}

void hang_group_moves(struct hang_graph *g, uint32_t group)
{
	for (uint32_t r = 0; r < g->rank_cnt; r++)
		if (g->rank[r].group == group)
			g->rank[r].moves = true;
}

/* Both ends have the same hash of the nonce that one of them drew. Ranks that are joined belong to
 * one job, and move or stand still together. */
static void conn_join(struct hang_graph *g, uint32_t a, uint32_t b)
{
	const struct spw_hang_conn_row *x = conn_row(&g->conn[a]), *y = conn_row(&g->conn[b]);

	if (!x->pair[0] || strcmp(x->pair, y->pair) || x->is_send.value == y->is_send.value)
		return;
	if (g->conn[a].peer != HANG_NONE || g->conn[b].peer != HANG_NONE)
		hang_graph_lacks(g, "two connections say that they are the same one");
	g->conn[a].peer = b;
	g->conn[b].peer = a;
	hang_ranks_join(g, g->conn[a].rank, g->conn[b].rank);
}

/* Of a process that has ended, the newest snapshot that still has its connections. */
static void rank_conns_add(struct hang_graph *g, uint32_t rank)
{
	const uint32_t first = g->conn_cnt;

	for (uint32_t s = SPW_HANG_SNAP_CNT; s-- > 0 && g->conn_cnt == first;) {
		const struct spw_hang_snap *snap = hang_snap(g, rank, s);
		const bool gone = g->rank[rank].row[LAST] &&
				  hang_is(g->rank[rank].row[LAST]->gone, 1) == HANG_YES;

		if (s < LAST && !gone)
			break;
		for (uint32_t i = 0; i < snap->conn_cnt; i++)
			if (snap->conn[i].pid.known && snap->conn[i].pid.value == g->rank[rank].pid)
				conn_add(g, rank, &snap->conn[i]);
	}
}

/* One connection that moves is enough for its job: a rank may well wait for minutes in one
 * communicator while it works in another. */
void hang_graph_conns(struct hang_graph *g)
{
	for (uint32_t i = 0; i < g->rank_cnt; i++)
		if (g->rank[i].paged)
			rank_conns_add(g, i);
	for (uint32_t a = 0; a < g->conn_cnt; a++)
		for (uint32_t b = 0; b < a; b++)
			conn_join(g, a, b);
	for (uint32_t i = 0; i < g->conn_cnt; i++)
		if (g->conn[i].moved == HANG_YES)
			hang_group_moves(g, g->rank[g->conn[i].rank].group);
}

/* ---- who waits for whom ---- */

static bool count_is(struct spw_hang_num num)
{
	return num.known && num.value > 0;
}

/* A send: whom it waits for follows from its stage, and from what the other end has open. */
static enum hang_edge send_edge(const struct spw_hang_conn_row *row, const struct hang_conn *peer)
{
	if (count_is(row->granted) || count_is(row->posted))
		return HANG_EDGE_NET;
	if (!count_is(row->waiting))
		return HANG_EDGE_NONE;
	if (!peer)
		return HANG_EDGE_OUT;
	return peer->open && count_is(conn_row(peer)->receiving) ? HANG_EDGE_NET : HANG_EDGE_RANK;
}

static enum hang_edge receive_edge(const struct spw_hang_conn_row *row,
				   const struct hang_conn *peer)
{
	if (!count_is(row->receiving))
		return HANG_EDGE_NONE;
	if (!peer)
		return HANG_EDGE_OUT;
	return peer->open ? HANG_EDGE_NET : HANG_EDGE_RANK;
}

/* The stages of a view must be known, and cover its requests, before anything follows from it. */
static bool conn_is_read(const struct hang_conn *conn)
{
	const struct spw_hang_conn_row *row = conn_row(conn);

	return row->waiting.known && row->granted.known && row->posted.known && row->acked.known &&
	       row->receiving.known && row->received.known && row->flushing.known;
}

static bool conn_has_failed(const struct hang_conn *conn)
{
	return !strcmp(conn_row(conn)->state, "failed");
}

/* It waits, and its rank can run. */
static bool conn_waits(const struct hang_graph *g, const struct hang_conn *conn)
{
	const struct hang_rank *rank = &g->rank[conn->rank];

	return !rank->moves && rank->down != HANG_YES && (conn->open || conn_has_failed(conn));
}

void hang_graph_is_young(struct hang_graph *g, uint32_t rank)
{
	hang_graph_lacks(g, "pid %ld on %s stood still only after the first snapshot: ask again",
			 (long)g->rank[rank].pid, g->c->host[g->rank[rank].host].name);
}

/* A connection that moved between the first two snapshots only began to stand still while it was
 * watched: too short to blame anybody. */
static void conn_open(struct hang_graph *g, uint32_t i)
{
	const struct hang_conn *conn = &g->conn[i];
	struct hang_rank *rank = &g->rank[conn->rank];

	if (!conn_waits(g, conn))
		return;
	rank->open = true;
	rank->failed |= conn_has_failed(conn);
	if (conn->begun == HANG_YES)
		hang_graph_is_young(g, conn->rank);
}

/* A rank that does not call takes all on itself: what its page says of the network is as old as its
 * last call. But a connection that has failed says so for good. */
static void conn_edge(struct hang_graph *g, uint32_t i)
{
	struct hang_conn *conn = &g->conn[i];
	const struct hang_conn *peer = conn->peer == HANG_NONE ? NULL : &g->conn[conn->peer];
	const struct spw_hang_conn_row *row = conn_row(conn);
	struct hang_rank *rank = &g->rank[conn->rank];

	if (!conn_waits(g, conn) || (rank->idle_calls == HANG_YES && !conn_has_failed(conn)))
		return;
	if (!conn_is_read(conn) || conn->moved == HANG_UNKNOWN || conn->begun == HANG_UNKNOWN) {
		hang_graph_lacks(g, "the live page of pid %ld on %s could not be read each time",
				 (long)rank->pid, g->c->host[rank->host].name);
		return;
	}
	if (conn_has_failed(conn))
		conn->edge = peer ? HANG_EDGE_NET : HANG_EDGE_OUT;
	else
		conn->edge = row->is_send.value ? send_edge(row, peer) : receive_edge(row, peer);
	conn->sender = row->is_send.value ? i : conn->peer;
}

/* Whether NCCL has asked for any of a rank's open requests between the last two snapshots. */
static enum hang_tri rank_calls(const struct hang_graph *g, uint32_t rank)
{
	enum hang_tri called = HANG_NO;

	for (uint32_t i = 0; i < g->conn_cnt; i++) {
		const struct hang_conn *conn = &g->conn[i];

		if (conn->rank == rank && conn->open)
			called = hang_or(called, !conn->row[1] || !conn->row[LAST]
							 ? HANG_UNKNOWN
							 : hang_changed(conn->row[1]->calls,
									conn->row[LAST]->calls));
	}
	return called;
}

/* The peers of a rank that cannot run or does not call wait for it, whatever they wait for. */
static void edge_settle(struct hang_graph *g, struct hang_conn *conn)
{
	const struct hang_rank *peer = conn->peer == HANG_NONE ? NULL
							       : &g->rank[g->conn[conn->peer].rank];
	const struct hang_rank *rank = &g->rank[conn->rank];

	if (conn->edge == HANG_EDGE_NET && peer && !conn_has_failed(conn) &&
	    (peer->down == HANG_YES || peer->idle_calls == HANG_YES))
		conn->edge = HANG_EDGE_RANK;
	else if (conn->edge == HANG_EDGE_RANK && rank->owes && !conn_row(conn)->is_send.value)
		conn->edge = HANG_EDGE_NONE;
}

/* First who runs and calls; then edges by each page alone; then those to ranks that do not. */
void hang_graph_edges(struct hang_graph *g)
{
	for (uint32_t i = 0; i < g->conn_cnt; i++)
		conn_open(g, i);
	for (uint32_t i = 0; i < g->rank_cnt; i++) {
		const enum hang_tri called = g->rank[i].open ? rank_calls(g, i) : HANG_YES;

		g->rank[i].idle_calls = called == HANG_NO    ? HANG_YES
					: called == HANG_YES ? HANG_NO
							     : HANG_UNKNOWN;
		g->rank[i].owes = g->rank[i].open && hang_rank_owes(g, i, LAST);
	}
	for (uint32_t i = 0; i < g->conn_cnt; i++)
		conn_edge(g, i);
	for (uint32_t i = 0; i < g->conn_cnt; i++) {
		struct hang_conn *conn = &g->conn[i];

		edge_settle(g, conn);
		if (conn->edge == HANG_EDGE_RANK)
			g->rank[g->conn[conn->peer].rank].wanted = true;
		if (conn->edge != HANG_EDGE_NONE)
			g->rank[conn->rank].held = true;
	}
}
