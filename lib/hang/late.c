/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Who is late: a rank that has not sent while the others have, at one moment or at each. judge.c
 * asks of ranks that move, graph.c of ranks that stand still; then the tests of rules.c that say
 * why a rank that moves is late.
 *
 *   rank 0   sent ── receives ·············· ┐
 *   rank 1   (computes)                      ├ in each of three looks: rank 1 is late
 *   rank 2   sent ── receives ·············· ┘
 *
 * A job that works has such moments by chance, so a cause must be there as well.
 */
#include <stdio.h>
#include <string.h>

#include "hang/rules.h"

#define LAST        (SPW_HANG_SNAP_CNT - 1)
#define GPU_BUSY    80 /* percent */
#define GPU_IS_IDLE 1  /* NVML's bit: the clock is low because nothing runs */
#define CLOCK_LOW   70 /* percent of the others' */
#define WAIT_LONG   5  /* percent of the time */

/* ---- who owes a send ---- */

/* Of a process that has ended, the newest row stands for the last snapshot. */
static const struct spw_hang_conn_row *conn_at(const struct hang_conn *conn, uint32_t snap)
{
	for (uint32_t s = snap + 1; s-- > 0;)
		if (conn->row[s] || snap < LAST)
			return conn->row[s];
	return NULL;
}

static int64_t row_open(const struct spw_hang_conn_row *row)
{
	return row->begun.value - row->ended.value;
}

static bool row_is_counted(const struct spw_hang_conn_row *row)
{
	return row && row->begun.known && row->ended.known;
}

/* A rank's place in its ring. */
struct late_ring {
	int64_t own;   /* its open receives */
	int64_t next;  /* those of the ranks to which it sends, on its connections */
	uint32_t from; /* the rank from which all its open receives come; HANG_NONE: several, or
			  none */
	bool quiet;    /* all that it has sent has arrived: both ends count the same */
	bool read;     /* all of it is known, and of one communicator */
};

static void ring_add(struct late_ring *ring, const struct spw_hang_conn_row *row, uint32_t from)
{
	ring->from = ring->own && ring->from != from ? HANG_NONE : from;
	ring->own += row_open(row);
}

static struct late_ring late_ring(const struct hang_graph *g, uint32_t rank, uint32_t snap)
{
	const struct spw_hang_comm_row *comm = g->rank[rank].comm;
	struct late_ring ring = {.from = HANG_NONE, .quiet = true, .read = true};

	for (uint32_t i = 0; i < g->conn_cnt; i++) {
		const struct hang_conn *conn = &g->conn[i];
		const struct spw_hang_conn_row *row = conn_at(conn, snap), *peer = NULL;

		if (conn->rank != rank)
			continue;
		if (conn->peer != HANG_NONE)
			peer = conn_at(&g->conn[conn->peer], snap);
		if (!row_is_counted(row) || !row_is_counted(peer) || !comm ||
		    ((row_open(row) || row_open(peer)) && row->comm[0] &&
		     strcmp(row->comm, comm->comm)))
			return (struct late_ring){.from = HANG_NONE};
		if (row->is_send.value) {
			ring.next += row_open(peer);
			ring.quiet &= !row_open(row) && row->begun.value == peer->ended.value;
		} else if (row_open(row)) {
			ring_add(&ring, row, g->conn[conn->peer].rank);
		}
	}
	return ring;
}

/* All ranks of a ring have the same number of receives open when a collective begins. A rank whose
 * kernel does not run takes what arrives and sends nothing: then the next one's receives are open
 * and some of its own are not, and nothing is under way between the two. */
static bool ring_owes(const struct late_ring *ring)
{
	return ring->read && ring->quiet && ring->own < ring->next;
}

/* In these collectives over a ring each rank begins with a send. */
static bool comm_is_ring(const struct spw_hang_comm_row *comm)
{
	return comm && !strcasecmp(comm->algorithm, "RING") && hang_is(comm->p2ps, 0) == HANG_YES &&
	       (!strcmp(comm->function, "AllReduce") || !strcmp(comm->function, "AllGather") ||
		!strcmp(comm->function, "ReduceScatter"));
}

/* The operation that hangs may be an older one than the last. So receives must show the ring: from
 * rank to rank all the way round, which those of a tree do not do. */
bool hang_rank_owes(const struct hang_graph *g, uint32_t rank, uint32_t snap)
{
	uint32_t at = rank, group = 0, round = 0;

	for (uint32_t i = 0; i < g->rank_cnt; i++)
		group += g->rank[i].group == g->rank[rank].group;
	do {
		const struct late_ring ring = late_ring(g, at, snap);

		if (!g->rank[at].paged || !comm_is_ring(g->rank[at].comm) || !ring.read ||
		    ring.from == HANG_NONE || ring_owes(&ring) != (at == rank))
			return false;
		at = ring.from;
		round++;
	} while (at != rank && round < group);
	return at == rank && round == group;
}

/* ---- who is late ---- */

/* What a rank has open at a moment. */
struct late_open {
	int64_t cnt;
	bool sends; /* one of its connections that send */
	bool net;   /* bytes are under way */
	bool read;  /* all of it is known */
};

static struct late_open late_open(const struct hang_graph *g, uint32_t rank, uint32_t snap)
{
	struct late_open open = {.read = true};

	for (uint32_t i = 0; i < g->conn_cnt; i++) {
		const struct spw_hang_conn_row *row = g->conn[i].row[snap];

		if (g->conn[i].rank != rank)
			continue;
		if (!row || !row->begun.known || !row->ended.known || !row->granted.known ||
		    !row->posted.known)
			return (struct late_open){0};
		open.cnt += row_open(row);
		open.sends |= row->is_send.value && row_open(row);
		open.net |= row->granted.value + row->posted.value > 0;
	}
	return open;
}

/* A view that has missed a request shows nothing of that moment: then nobody was late. */
static bool late_at(const struct hang_graph *g, uint32_t rank, uint32_t snap)
{
	const struct late_open own = late_open(g, rank, snap);
	uint32_t others = 0;

	if (!own.read || own.sends || own.net)
		return false;
	for (uint32_t i = 0; i < g->rank_cnt; i++) {
		struct late_open other;

		if (!hang_ranks_share(g, i, rank))
			continue;
		other = late_open(g, i, snap);
		if (!g->rank[i].paged || !other.read || !other.cnt || other.net)
			return false;
		others++;
	}
	return others > 0;
}

/* With receives open that only wait for a send of its own, too: then NCCL's profiler must say of
 * what kind the operation is. */
enum hang_tri hang_rank_late(const struct hang_graph *g, uint32_t rank)
{
	const struct hang_rank *r = &g->rank[rank];
	enum hang_tri late = HANG_YES;

	if (r->comm && hang_changed(r->comm->rank_cnt, r->comm->node_cnt) == HANG_YES &&
	    hang_is(r->row[LAST]->cuda, 0) != HANG_YES)
		return HANG_NO; /* what moves inside a host is on no page */
	for (uint32_t s = 0; s < SPW_HANG_SNAP_CNT; s++) {
		if (!late_at(g, rank, s))
			return HANG_NO;
		if (!late_open(g, rank, s).cnt || hang_rank_owes(g, rank, s))
			continue;
		if (r->comm || hang_is(r->row[LAST]->profiler, 0) == HANG_YES)
			return HANG_NO;
		late = HANG_UNKNOWN;
	}
	return late;
}

/* ---- why ---- */

/* Parts of a thousand of what the clock can be; -1: not known. */
static int64_t clock_share(const struct spw_hang_gpu_row *gpu)
{
	if (!gpu || !gpu->sm_mhz.known || !gpu->sm_max_mhz.known || gpu->sm_max_mhz.value <= 0)
		return -1;
	return SPW_MIN(gpu->sm_mhz.value, gpu->sm_max_mhz.value) * 1000 / gpu->sm_max_mhz.value;
}

/* Its clock against that of one other rank, while its GPU works. A GPU that does nothing may have
 * any clock. */
static enum hang_tri clock_is_low(const struct hang_sink *sink, uint32_t other, uint32_t snap)
{
	const struct hang_graph *g = sink->g;
	const struct spw_hang_gpu_row *own =
		hang_gpu_find(hang_snap(g, sink->rank, snap), g->rank[sink->rank].pid);
	const struct spw_hang_gpu_row *peer =
		hang_gpu_find(hang_snap(g, other, snap), g->rank[other].pid);
	const int64_t is = clock_share(own), than = clock_share(peer);

	if (is < 0 || than < 0 || !own->busy.known || !own->reasons.known)
		return HANG_UNKNOWN;
	return own->busy.value >= GPU_BUSY && !(own->reasons.value & GPU_IS_IDLE) &&
			       is * 100 < than * CLOCK_LOW
		       ? HANG_YES
		       : HANG_NO;
}

/* NVML's words for its bits. Source: nvml.h, nvmlClocksEventReason*. */
static const char *clock_reason(int64_t bits)
{
	static const struct {
		int64_t bit;
		const char *name;
	} reason[] = {{0x80, "power brake"},
		      {0x40, "hardware thermal"},
		      {0x20, "thermal"},
		      {0x08, "hardware slowdown"},
		      {0x04, "power cap"},
		      {0x02, "a set clock"},
		      {0x10, "synchronized with another GPU"}};

	for (size_t i = 0; i < SPW_ARRAY_CNT(reason); i++)
		if (bits & reason[i].bit)
			return reason[i].name;
	return "none";
}

/* Against all others, each time. */
enum hang_tri hang_test_clock(const struct hang_sink *sink)
{
	const struct hang_graph *g = sink->g;
	const struct spw_hang_gpu_row *own =
		hang_gpu_find(hang_snap(g, sink->rank, LAST), g->rank[sink->rank].pid);
	enum hang_tri low = HANG_YES;

	if (hang_is(g->rank[sink->rank].row[LAST]->cuda, 0) == HANG_YES)
		return HANG_NO;
	for (uint32_t i = 0; i < g->rank_cnt; i++)
		for (uint32_t s = 0; s < SPW_HANG_SNAP_CNT; s++)
			if (hang_ranks_share(g, i, sink->rank))
				low = hang_and(low, clock_is_low(sink, i, s));
	if (low == HANG_YES)
		snprintf(sink->evidence, sink->room,
			 "all others wait for it each time; its GPU is %ld %% busy at %ld of %ld "
			 "MHz, below %d %% of the others'; NVML's reason: %s",
			 (long)own->busy.value, (long)own->sm_mhz.value,
			 (long)own->sm_max_mhz.value, CLOCK_LOW, clock_reason(own->reasons.value));
	return low;
}

/* Of a control group without a quota the time stays 0. */
enum hang_tri hang_test_throttled_late(const struct hang_sink *sink)
{
	return hang_throttled(sink, WAIT_LONG);
}

/* The proxy waits for its CPU, and no other rank's does half as long. */
enum hang_tri hang_test_starved_late(const struct hang_sink *sink)
{
	const struct hang_graph *g = sink->g;
	struct hang_share own, other;

	if (!hang_proxy_share(g, sink->rank, &own))
		return HANG_UNKNOWN;
	hang_starved_show(sink, &own);
	if (own.wait <= WAIT_LONG)
		return HANG_NO;
	for (uint32_t i = 0; i < g->rank_cnt; i++) {
		if (!hang_ranks_share(g, i, sink->rank))
			continue;
		if (!hang_proxy_share(g, i, &other))
			return HANG_UNKNOWN;
		if (other.wait * 2 > own.wait)
			return HANG_NO;
	}
	return HANG_YES;
}
