/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Rows of a snapshot by their keys, for the graph and the rules, and what those ask of a whole
 * case: which host has an address, which ranks were not found.
 *
 * A row whose key is not known is no row, and what would be a guess between two hosts or two
 * threads has no answer: NULL, -1 or false stands for both, so that a rule that needs it is not
 * decided by the wrong one. Searches are linear: tables are short, and a case is judged once.
 */
#include <stdio.h>
#include <string.h>

#include "hang/graph.h"

#define LAST (SPW_HANG_SNAP_CNT - 1)

/* An unknown number equals nothing, not even another unknown one. */
static bool num_is(struct spw_hang_num num, int64_t value)
{
	return num.known && num.value == value;
}

const struct spw_hang_snap *hang_snap(const struct hang_graph *g, uint32_t rank, uint32_t snap)
{
	return &g->c->host[g->rank[rank].host].snap[snap];
}

const struct spw_hang_thread_row *hang_thread_find(const struct spw_hang_snap *snap, int64_t pid,
						   int64_t tid)
{
	for (uint32_t i = 0; i < snap->thread_cnt; i++)
		if (num_is(snap->thread[i].pid, pid) && num_is(snap->thread[i].tid, tid))
			return &snap->thread[i];
	return NULL;
}

const struct spw_hang_conn_row *hang_conn_find(const struct spw_hang_snap *snap, int64_t pid,
					       int64_t entry)
{
	for (uint32_t i = 0; i < snap->conn_cnt; i++)
		if (num_is(snap->conn[i].pid, pid) && num_is(snap->conn[i].entry, entry))
			return &snap->conn[i];
	return NULL;
}

const struct spw_hang_comm_row *hang_comm_find(const struct hang_graph *g, uint32_t rank,
					       uint32_t snap, const char *comm)
{
	const struct spw_hang_snap *of = hang_snap(g, rank, snap);

	for (uint32_t i = 0; i < of->comm_cnt; i++)
		if (num_is(of->comm[i].pid, g->rank[rank].pid) && !strcmp(of->comm[i].comm, comm))
			return &of->comm[i];
	return NULL;
}

const struct spw_hang_rail_row *hang_rail_find(const struct spw_hang_snap *snap, int64_t pid,
					       int64_t entry, int64_t rail)
{
	for (uint32_t i = 0; i < snap->rail_cnt; i++)
		if (num_is(snap->rail[i].pid, pid) && num_is(snap->rail[i].entry, entry) &&
		    num_is(snap->rail[i].rail, rail))
			return &snap->rail[i];
	return NULL;
}

bool hang_rail_is_of(const struct spw_hang_rail_row *rail, const struct spw_hang_conn_row *conn)
{
	return conn->pid.known && conn->entry.known && num_is(rail->pid, conn->pid.value) &&
	       num_is(rail->entry, conn->entry.value);
}

const struct spw_hang_port_row *hang_port_find(const struct spw_hang_snap *snap, const char *device)
{
	for (uint32_t i = 0; i < snap->port_cnt && *device; i++)
		if (!strcmp(snap->port[i].device, device))
			return &snap->port[i];
	return NULL;
}

/* Of several the busiest: it may be the one that holds NCCL's stream up. */
const struct spw_hang_gpu_row *hang_gpu_find(const struct spw_hang_snap *snap, int64_t pid)
{
	const struct spw_hang_gpu_row *found = NULL;

	for (uint32_t i = 0; i < snap->gpu_cnt; i++)
		if (num_is(snap->gpu[i].pid, pid) &&
		    (!found ||
		     (snap->gpu[i].busy.known && snap->gpu[i].busy.value > found->busy.value)))
			found = &snap->gpu[i];
	return found;
}

/* By the connections that have requests under way; without one, the only thread that was found to
 * make such calls. */
static int64_t proxy_tid(const struct hang_graph *g, uint32_t rank)
{
	const struct spw_hang_snap *snap = hang_snap(g, rank, LAST);
	int64_t tid = -1;

	for (uint32_t i = 0; i < g->conn_cnt; i++)
		if (g->conn[i].rank == rank && g->conn[i].open && g->conn[i].row[LAST] &&
		    g->conn[i].row[LAST]->tid.known && g->conn[i].row[LAST]->tid.value > 0)
			return g->conn[i].row[LAST]->tid.value;
	/* Of two such threads either may be the one that waits. */
	for (uint32_t i = 0; i < snap->thread_cnt; i++) {
		if (!num_is(snap->thread[i].pid, g->rank[rank].pid) ||
		    !num_is(snap->thread[i].proxy, 1) || !snap->thread[i].tid.known)
			continue;
		if (tid >= 0)
			return -1;
		tid = snap->thread[i].tid.value;
	}
	return tid;
}

/* The same thread in all snapshots: one that is new has no time before. */
bool hang_proxy_find(const struct hang_graph *g, uint32_t rank,
		     const struct spw_hang_thread_row *row_out[SPW_HANG_SNAP_CNT])
{
	const int64_t tid = proxy_tid(g, rank);

	for (uint32_t s = 0; s < SPW_HANG_SNAP_CNT; s++) {
		row_out[s] = hang_thread_find(hang_snap(g, rank, s), g->rank[rank].pid, tid);
		if (tid < 0 || !row_out[s])
			return false;
	}
	return true;
}

/* 4.5 s, if nothing kept the reader from its core. */
int64_t hang_elapsed(const struct hang_graph *g, uint32_t rank)
{
	const int64_t from = hang_snap(g, rank, LAST - 1)->at_ns,
		      to = hang_snap(g, rank, LAST)->at_ns;

	return from > 0 && to > from ? to - from : 0;
}

/* The start of a process, in ticks after boot, is hardly the same on two machines of one name. */
bool hang_host_is_twice(const struct hang_graph *g, uint32_t host)
{
	const struct spw_hang_host *is = &g->c->host[host], *was = g->c->host;

	for (; was < is; was++) {
		const struct spw_hang_snap *a = &was->snap[LAST], *b = &is->snap[LAST];

		if (!strcmp(was->name, is->name) && a->proc_cnt && b->proc_cnt &&
		    hang_changed(a->proc[0].pid, b->proc[0].pid) == HANG_NO &&
		    hang_changed(a->proc[0].start, b->proc[0].start) == HANG_NO)
			return true;
	}
	return false;
}

/* The text comes from the page: what follows the address says why the connection failed. An address
 * that two hosts have, such as 127.0.0.1 or that of a container bridge, names none of them. */
int64_t hang_peer_host(const struct hang_graph *g, const char *peer)
{
	char addr[72];
	char *end;
	int64_t found = -1;

	snprintf(addr, sizeof(addr), "%s", peer[0] == '[' ? peer + 1 : peer);
	addr[strcspn(addr, ", ")] = '\0';
	end = strrchr(addr, ':');
	if (end && !end[1]) { /* "192.0.2.2:7000: why it failed" */
		*end = '\0';
		end = strrchr(addr, ':');
	}
	if (end)
		end[end > addr && end[-1] == ']' ? -1 : 0] = '\0';
	for (uint32_t h = 0; h < g->c->host_cnt && end; h++) {
		const struct spw_hang_snap *snap = &g->c->host[h].snap[LAST];

		for (uint32_t i = 0; i < snap->addr_cnt; i++) {
			if (strcmp(snap->addr[i].addr, addr) || hang_host_is_twice(g, h))
				continue;
			if (found >= 0 && found != h)
				return -1;
			found = h;
		}
	}
	return found;
}

bool hang_comm_is_part(const struct spw_hang_comm_row *comm, const struct spw_hang_proc_row *row)
{
	return row->rank.known && row->world.known &&
	       hang_changed(comm->rank_cnt, row->world) != HANG_NO;
}

/* By the communicator that names most ranks, else by what the environment of each process says; all
 * must agree on how many there are. More processes than ranks are two jobs, or a rank twice. */
int64_t hang_ranks_lost(const struct hang_graph *g, int64_t *lost_out)
{
	int64_t world = -1, cnt = 0;

	for (uint32_t i = 0; i < g->rank_cnt; i++) {
		const struct spw_hang_proc_row *row = g->rank[i].row[LAST];
		const struct spw_hang_comm_row *comm = g->rank[i].comm;
		const struct spw_hang_num ranks =
			comm && !hang_comm_is_part(comm, row) ? comm->rank_cnt : row->world;

		if (g->rank[i].rank < 0 || !ranks.known || (world >= 0 && world != ranks.value))
			return -1;
		world = ranks.value;
	}
	if (!spw_in_range(world, (int64_t)g->rank_cnt, (int64_t)SPW_HANG_PROC_MAX))
		return -1;
	for (int64_t r = 0; r < world; r++) {
		bool found = false;

		for (uint32_t i = 0; i < g->rank_cnt; i++)
			found |= g->rank[i].rank == r;
		if (found)
			continue;
		*lost_out = r;
		cnt++;
	}
	return cnt;
}

/* Their last view counts: what moved since then the next question sees. */
struct spw_hang_num hang_rank_since(const struct hang_graph *g, uint32_t rank, bool waiters)
{
	struct spw_hang_num since = {0};

	for (uint32_t i = 0; i < g->conn_cnt; i++) {
		const struct hang_conn *conn = &g->conn[i];
		const bool counts = waiters ? conn->edge == HANG_EDGE_RANK &&
						      g->conn[conn->peer].rank == rank
					    : conn->rank == rank;

		if (counts && conn->row[LAST] && conn->row[LAST]->moved_ns.known &&
		    (!since.known || conn->row[LAST]->moved_ns.value < since.value))
			since = conn->row[LAST]->moved_ns;
	}
	return since;
}
