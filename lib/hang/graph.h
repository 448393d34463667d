/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Which rank waits for which. judge.c builds the graph of a case (graph.c) and asks the rules
 * (rules.c) about each sink: what others wait for and what itself waits for no rank.
 *
 *    rank 0 ──receives from──► rank 1 ──sends to──► rank 2        a sink: rank 2
 *                                                   rank 2 ──► (bytes not acknowledged) rank 3
 *                                                                 a sink: that connection
 *
 * Logic has three values, as facts may be unknown: a rule counts only if every rule before it is
 * known not to hold. So evidence that is taken away turns an answer into unknown, never into
 * another one.
 */
#ifndef HANG_GRAPH_H
#define HANG_GRAPH_H

#include "hang/spw_hang.h"

#define HANG_CONN_MAX 2048u
#define HANG_NONE     UINT32_MAX

enum hang_tri { HANG_NO, HANG_YES, HANG_UNKNOWN };

/* How a connection holds its rank up. */
enum hang_edge {
	HANG_EDGE_NONE,
	HANG_EDGE_RANK, /* waits for the rank at the other end */
	HANG_EDGE_NET,  /* waits for bytes that are with the NICs */
	HANG_EDGE_OUT,  /* waits for an end that was not found */
};

struct hang_conn {
	const struct spw_hang_conn_row *row[SPW_HANG_SNAP_CNT];
	uint32_t rank;       /* index of graph.rank */
	uint32_t peer;       /* index of graph.conn; HANG_NONE: not found */
	uint32_t sender;     /* HANG_EDGE_NET: the connection that sends */
	int64_t open;        /* requests under way */
	enum hang_tri moved; /* between the last two snapshots */
	enum hang_tri begun; /* moved between the first two */
	enum hang_edge edge;
};

struct hang_rank {
	uint32_t host;
	const struct spw_hang_proc_row *row[SPW_HANG_SNAP_CNT];
	const struct spw_hang_comm_row *comm; /* of the last snapshot that has one; NULL */
	int64_t pid, rank;                    /* rank -1: not known */
	uint32_t group;           /* ranks that connections join: the lowest index of them */
	bool paged;               /* it has a live page */
	bool moves;               /* its group: in the last 4.5 s */
	bool open;                /* it has requests under way, in a group that stands still */
	bool wanted;              /* a rank waits for it */
	bool held;                /* it waits for a rank or for the network */
	bool owes;                /* it has all that its next send needs, and does not send */
	bool failed;              /* a connection has: NCCL stops calling then */
	enum hang_tri idle_calls; /* requests are open and NCCL does not ask for them */
	enum hang_tri down;       /* the process cannot run: ended, stopped, frozen */
};

struct hang_graph {
	const struct spw_hang_case *c;
	uint32_t rank_cnt, conn_cnt;
	struct hang_rank rank[SPW_HANG_PROC_MAX];
	struct hang_conn conn[HANG_CONN_MAX];
	char *missing; /* the first reason why no name can be given; "" none */
	size_t room;
};

/* What a rule is asked about. */
struct hang_sink {
	const struct hang_graph *g;
	uint32_t rank; /* index of the graph's */
	uint32_t conn; /* of a connection that waits; else HANG_NONE */
	uint32_t *who; /* a test changes it to the end of the connection that it names; or NULL */
	char *evidence;
	size_t room;
};

/* What kinds of sinks a rule is for. */
#define HANG_SINK_DOWN    (1u << 0)  /* any rank that has a page: can its process run? */
#define HANG_SINK_SELF    (1u << 1)  /* requests are open, NCCL does not ask for them */
#define HANG_SINK_ABSENT  (1u << 2)  /* nothing is under way here, and others wait */
#define HANG_SINK_OWES    (1u << 3)  /* its receives are open, its send does not come */
#define HANG_SINK_NET     (1u << 4)  /* bytes are with the NICs and stay there */
#define HANG_SINK_START   (1u << 5)  /* a connection is not made */
#define HANG_SINK_LIMPS   (1u << 6)  /* it moves, and a rail is down */
#define HANG_SINK_SLOW    (1u << 7)  /* it moves, on all rails */
#define HANG_SINK_STARVED (1u << 8)  /* it moves: does the proxy get its CPU? */
#define HANG_SINK_CYCLE   (1u << 9)  /* each waits for another */
#define HANG_SINK_BARE    (1u << 10) /* a rank of a job without pages */
#define HANG_SINK_LATE    (1u << 11) /* it moves, and all others wait for it each time */
#define HANG_SINK_UNBEGUN (1u << 12) /* another rank listens, and it has no connection yet */

/* With them: it names no rank, as which one is wrong cannot be known. */
#define HANG_NOBODY (1u << 13)
/* With HANG_SINK_BARE: one process proves it, whatever is known of the others. */
#define HANG_ALONE (1u << 14)

struct hang_rule {
	const char *name;
	uint32_t sinks; /* HANG_SINK_* */
	uint32_t order; /* HANG_SINK_BARE: asked of all ranks before those of a higher one */
	enum spw_hang_layer layer;
	const char *needs; /* what is missing where it cannot be decided */
	enum hang_tri (*test)(const struct hang_sink *sink);
	const char *what, *sure, *todo;
};

/* Purpose: whether two ranks are different ones of the same job. Thread: any; pure. */
SPW_INLINE bool hang_ranks_share(const struct hang_graph *g, uint32_t a, uint32_t b)
{
	return a != b && g->rank[a].group == g->rank[b].group;
}

/* rules.c: the rules in the order in which they are asked, and their number. */
extern const struct hang_rule hang_rule[];
extern const uint32_t hang_rule_cnt;

/* Purpose: the youngest progress of a rank, or of those that wait for it. Not known: none is. */
struct spw_hang_num hang_rank_since(const struct hang_graph *g, uint32_t rank, bool waiters);
/* Purpose: the first rule for sinks of that kind that does not fail.
 * Returns: HANG_YES: *at_out holds; HANG_UNKNOWN: it cannot be decided; HANG_NO: none holds.
 * Thread: any; pure. */
enum hang_tri hang_rules_ask(const struct hang_sink *sink, uint32_t kind, uint32_t order,
			     uint32_t *at_out);

/* graph.c: ranks and connections, what moves, who waits for whom. Thread: any; pure. */
void hang_graph_ranks(struct hang_graph *g);
void hang_graph_conns(struct hang_graph *g);
/* After `down` of each rank is known. */
void hang_graph_edges(struct hang_graph *g);
/* Two ranks, and all that are joined to them, become one group; all ranks of a group move. */
void hang_ranks_join(struct hang_graph *g, uint32_t a, uint32_t b);
void hang_group_moves(struct hang_graph *g, uint32_t group);

/* comms.c: the same for communicators that spinwire's network does not carry; _join after
 * hang_graph_conns, _edges after hang_graph_edges. Thread: any; pure. */
void hang_comms_join(struct hang_graph *g);
void hang_comms_edges(struct hang_graph *g);
/* Whether the rank is one of a communicator and has no connection of it; not where NCCL does not
 * say to which one a connection belongs. */
bool hang_comm_is_unbegun(const struct hang_graph *g, uint32_t rank, const char *comm);
/* Notes that not all ranks of a communicator were found in which this one waits. */
void hang_comm_check(struct hang_graph *g, uint32_t rank, const char *comm);

/* Notes that a rank has stood still for too short a time. */
void hang_graph_is_young(struct hang_graph *g, uint32_t rank);

/* late.c: whether it is the one rank of its ring that has received, and not sent, in a collective
 * in which each begins with a send; whether all others waited for it in each snapshot. Thread: any;
 * pure. */
bool hang_rank_owes(const struct hang_graph *g, uint32_t rank, uint32_t snap);
enum hang_tri hang_rank_late(const struct hang_graph *g, uint32_t rank);

/* calls.c: whether two ranks of a communicator have called as often, and not the same last; whether
 * one has called less often than the other. Thread: any; pure. */
enum hang_tri hang_calls_differ(const struct spw_hang_comm_row *a,
				const struct spw_hang_comm_row *b);
enum hang_tri hang_calls_behind(const struct spw_hang_comm_row *own,
				const struct spw_hang_comm_row *other);

/* Notes why no name can be given, unless there is a reason already. */
void hang_graph_lacks(struct hang_graph *g, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* find.c: rows by their keys; NULL: not there. Thread: any; pure. */
const struct spw_hang_snap *hang_snap(const struct hang_graph *g, uint32_t rank, uint32_t snap);
const struct spw_hang_thread_row *hang_thread_find(const struct spw_hang_snap *snap, int64_t pid,
						   int64_t tid);
const struct spw_hang_conn_row *hang_conn_find(const struct spw_hang_snap *snap, int64_t pid,
					       int64_t entry);
/* The rank's row of a communicator, by its hash. */
const struct spw_hang_comm_row *hang_comm_find(const struct hang_graph *g, uint32_t rank,
					       uint32_t snap, const char *comm);
const struct spw_hang_rail_row *hang_rail_find(const struct spw_hang_snap *snap, int64_t pid,
					       int64_t entry, int64_t rail);
bool hang_rail_is_of(const struct spw_hang_rail_row *rail, const struct spw_hang_conn_row *conn);
const struct spw_hang_port_row *hang_port_find(const struct spw_hang_snap *snap,
					       const char *device);
const struct spw_hang_gpu_row *hang_gpu_find(const struct spw_hang_snap *snap, int64_t pid);
/* net.c: who listens at the address to which a connection is being made; NULL: it was not found. */
const struct hang_conn *hang_listener_find(const struct hang_graph *g, const char *peer);
/* The thread that makes NCCL's calls of that rank, in each snapshot; false: not known in one. */
bool hang_proxy_find(const struct hang_graph *g, uint32_t rank,
		     const struct spw_hang_thread_row *row_out[SPW_HANG_SNAP_CNT]);
/* Time between the last two snapshots of that rank's host, ns; 0: not known. */
int64_t hang_elapsed(const struct hang_graph *g, uint32_t rank);

/* Whether a host is also an earlier one: asked by two names, or saved in two files. */
bool hang_host_is_twice(const struct hang_graph *g, uint32_t host);
/* The host with that address, "192.0.2.2:7000" or "[fd00::2]:7000 ..."; -1: none that was asked, or
 * several. */
int64_t hang_peer_host(const struct hang_graph *g, const char *peer);
/* Whether a communicator does not span the job that the process's environment names (RANK,
 * WORLD_SIZE). */
bool hang_comm_is_part(const struct spw_hang_comm_row *comm, const struct spw_hang_proc_row *row);
/* How many ranks of the job have no process that was found, and the number of one; -1: not known.
 */
int64_t hang_ranks_lost(const struct hang_graph *g, int64_t *lost_out);

/* Whether a number changed between two readings. Thread: any; pure. */
SPW_INLINE enum hang_tri hang_changed(struct spw_hang_num a, struct spw_hang_num b)
{
	return !a.known || !b.known ? HANG_UNKNOWN : a.value == b.value ? HANG_NO : HANG_YES;
}

/* Whether a number is that one. Thread: any; pure. */
SPW_INLINE enum hang_tri hang_is(struct spw_hang_num a, int64_t value)
{
	return !a.known ? HANG_UNKNOWN : a.value == value ? HANG_YES : HANG_NO;
}

/* Kleene's or, not and and. Thread: any; pure. */
SPW_INLINE enum hang_tri hang_or(enum hang_tri a, enum hang_tri b)
{
	return a == HANG_YES || b == HANG_YES ? HANG_YES
	       : a == HANG_NO && b == HANG_NO ? HANG_NO
					      : HANG_UNKNOWN;
}

SPW_INLINE enum hang_tri hang_not(enum hang_tri a)
{
	return a == HANG_UNKNOWN ? a : a == HANG_YES ? HANG_NO : HANG_YES;
}

SPW_INLINE enum hang_tri hang_and(enum hang_tri a, enum hang_tri b)
{
	return a == HANG_NO || b == HANG_NO     ? HANG_NO
	       : a == HANG_YES && b == HANG_YES ? HANG_YES
						: HANG_UNKNOWN;
}

#endif
