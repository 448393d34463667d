/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Ranks whose NCCL moves bytes by another network than spinwire's (NET/IB, sockets), and calls
 * spinwire's library as its profiler only. Their pages have communicators and no connections: who
 * is in an operation and who has not come to it is known, but not which byte is missing where. So
 * ranks that are all in an operation wait for each other in a circle.
 *
 *   rank 0   8 collectives, proxy at work ─► waits      ┐ one communicator, known by its hash
 *   rank 1   7 collectives, proxy at rest ─► wanted     ┘
 *
 * judge.c calls both after their like in graph.c, whose fields of a rank they set.
 */
#include <string.h>

#include "hang/graph.h"

#define LAST (SPW_HANG_SNAP_CNT - 1)

/* Whether spinwire carries it between any two ranks. */
static bool comm_is_carried(const struct hang_graph *g, const char *comm)
{
	for (uint32_t i = 0; i < g->conn_cnt; i++)
		for (uint32_t s = 0; s < SPW_HANG_SNAP_CNT; s++)
			if (g->conn[i].row[s] && !strcmp(g->conn[i].row[s]->comm, comm))
				return true;
	return false;
}

/* A rank's part in a communicator, in each snapshot. */
struct member {
	uint32_t rank;
	const struct spw_hang_comm_row *row[SPW_HANG_SNAP_CNT];
};

/* The rank's next communicator that spinwire does not carry, from row *at on. */
static bool member_next(const struct hang_graph *g, uint32_t rank, uint32_t *at,
			struct member *member_out)
{
	const struct spw_hang_snap *snap = hang_snap(g, rank, LAST);

	while (g->rank[rank].paged && *at < snap->comm_cnt) {
		const struct spw_hang_comm_row *row = &snap->comm[(*at)++];

		if (hang_is(row->pid, g->rank[rank].pid) != HANG_YES || !row->comm[0] ||
		    comm_is_carried(g, row->comm))
			continue;
		member_out->rank = rank;
		for (uint32_t s = 0; s < SPW_HANG_SNAP_CNT; s++)
			member_out->row[s] = hang_comm_find(g, rank, s, row->comm);
		return true;
	}
	return false;
}

static enum hang_tri comm_moved(const struct spw_hang_comm_row *was,
				const struct spw_hang_comm_row *is)
{
	if (!was || !is)
		return HANG_UNKNOWN;
	return hang_or(hang_or(hang_changed(was->sends_begun, is->sends_begun),
			       hang_changed(was->sends_ended, is->sends_ended)),
		       hang_or(hang_changed(was->recvs_begun, is->recvs_begun),
			       hang_changed(was->recvs_ended, is->recvs_ended)));
}

static enum hang_tri comm_is_open(const struct spw_hang_comm_row *row)
{
	return hang_or(hang_changed(row->sends_begun, row->sends_ended),
		       hang_changed(row->recvs_begun, row->recvs_ended));
}

void hang_comms_join(struct hang_graph *g)
{
	struct member m;

	for (uint32_t i = 0; i < g->rank_cnt; i++)
		for (uint32_t at = 0; member_next(g, i, &at, &m);)
			for (uint32_t r = 0; r < i; r++)
				if (hang_comm_find(g, r, LAST, m.row[LAST]->comm))
					hang_ranks_join(g, i, r);
	for (uint32_t i = 0; i < g->rank_cnt; i++)
		for (uint32_t at = 0; member_next(g, i, &at, &m);)
			if (comm_moved(m.row[1], m.row[LAST]) == HANG_YES)
				hang_group_moves(g, g->rank[i].group);
}

void hang_comm_check(struct hang_graph *g, uint32_t rank, const char *comm)
{
	const struct spw_hang_comm_row *row = hang_comm_find(g, rank, LAST, comm);
	int64_t found = 0;

	for (uint32_t r = 0; r < g->rank_cnt; r++)
		found += hang_comm_find(g, r, LAST, comm) != NULL;
	if (!row || hang_is(row->rank_cnt, found) != HANG_YES)
		hang_graph_lacks(g,
				 "pid %ld on %s waits in a communicator of which %ld ranks were "
				 "found, not all: --hosts with all hosts",
				 (long)g->rank[rank].pid, g->c->host[g->rank[rank].host].name,
				 (long)found);
}

bool hang_comm_is_unbegun(const struct hang_graph *g, uint32_t rank, const char *comm)
{
	for (uint32_t i = 0; i < g->conn_cnt; i++) {
		const struct spw_hang_conn_row *row = g->conn[i].row[LAST];

		if (g->conn[i].rank == rank && row && (!row->comm[0] || !strcmp(row->comm, comm)))
			return false;
	}
	return hang_comm_find(g, rank, LAST, comm) != NULL;
}

/* Whom it waits for: those at rest who have called less, or something else. One that has called the
 * same has done its part, or replays a graph, whose calls are counted once. */
static void member_waits(struct hang_graph *g, const struct member *m)
{
	const struct spw_hang_comm_row *own = m->row[LAST];

	for (uint32_t r = 0; r < g->rank_cnt; r++) {
		const struct spw_hang_comm_row *row = hang_comm_find(g, r, LAST, own->comm);

		if (!row || r == m->rank || g->rank[r].down == HANG_YES ||
		    comm_is_open(row) == HANG_YES)
			continue;
		if (comm_is_open(row) == HANG_NO &&
		    hang_or(hang_calls_differ(own, row), hang_calls_behind(row, own)) == HANG_YES)
			g->rank[r].wanted = true;
		else
			hang_graph_lacks(g,
					 "pid %ld on %s has begun nothing in which pid %ld waits, "
					 "or has done its part: spinwire's plugin as the network "
					 "would show it",
					 (long)g->rank[r].pid, g->c->host[g->rank[r].host].name,
					 (long)g->rank[m->rank].pid);
	}
	hang_comm_check(g, m->rank, own->comm);
}

static void member_open(struct hang_graph *g, const struct member *m)
{
	struct hang_rank *rank = &g->rank[m->rank];
	const enum hang_tri open = comm_is_open(m->row[LAST]),
			    stood = hang_not(hang_or(comm_moved(m->row[0], m->row[1]),
						     comm_moved(m->row[1], m->row[LAST])));

	if (open == HANG_NO)
		return;
	if (open == HANG_UNKNOWN || stood == HANG_UNKNOWN)
		hang_graph_lacks(g, "what pid %ld on %s has under way could not be read each time",
				 (long)rank->pid, g->c->host[rank->host].name);
	else if (stood == HANG_NO)
		hang_graph_is_young(g, m->rank);
	rank->open = rank->held = true;
	member_waits(g, m);
}

void hang_comms_edges(struct hang_graph *g)
{
	struct member m;

	for (uint32_t i = 0; i < g->rank_cnt; i++)
		for (uint32_t at = 0; member_next(g, i, &at, &m);)
			if (!g->rank[i].moves && g->rank[i].down != HANG_YES)
				member_open(g, &m);
}
