/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What ranks called: NCCL's profiler calls on the live page, and PyTorch's flight recorder. For
 * rules.c. Counts are of what was enqueued; a captured graph's collectives are counted once, so a
 * rank is behind only if its count is smaller than another's, and nothing follows from equal ones.
 */
#include <stdio.h>
#include <string.h>

#include "hang/rules.h"

#define LAST (SPW_HANG_SNAP_CNT - 1)

/* Another function, type or size, or another sequence of that function. A root is not compared: it
 * is allowed to differ only in a p2p. */
enum hang_tri hang_calls_differ(const struct spw_hang_comm_row *a,
				const struct spw_hang_comm_row *b)
{
	enum hang_tri differs;

	if (!a->colls.known || !b->colls.known)
		return HANG_UNKNOWN;
	if (!a->colls.value || a->colls.value != b->colls.value)
		return HANG_NO;
	if (!a->function[0] || !b->function[0] || !a->datatype[0] || !b->datatype[0])
		return HANG_UNKNOWN;
	differs = hang_or(hang_changed(a->sequence, b->sequence), hang_changed(a->count, b->count));
	return strcmp(a->function, b->function) || strcmp(a->datatype, b->datatype) ? HANG_YES
										    : differs;
}

enum hang_tri hang_calls_behind(const struct spw_hang_comm_row *own,
				const struct spw_hang_comm_row *other)
{
	if (!own->colls.known || !other->colls.known)
		return HANG_UNKNOWN;
	return own->colls.value < other->colls.value ? HANG_YES : HANG_NO;
}

/* Both calls, as the user has to compare them. */
static void ops_show(const struct hang_sink *sink, const struct spw_hang_comm_row *a,
		     const struct spw_hang_comm_row *b, long other)
{
	snprintf(
		sink->evidence, sink->room,
		"collective %ld of communicator %s is %s of %ld %s on rank %ld and %s of %ld %s on "
		"rank %ld",
		(long)a->colls.value, a->comm, a->function, (long)a->count.value, a->datatype,
		(long)sink->g->rank[sink->rank].rank, b->function, (long)b->count.value,
		b->datatype, other);
}

/* What the other one has enqueued last is what this rank has not come to. */
static void behind_show(const struct hang_sink *sink, const struct spw_hang_comm_row *a,
			const struct spw_hang_comm_row *b, long other)
{
	snprintf(sink->evidence, sink->room,
		 "it has enqueued %ld collectives of communicator %s, rank %ld %ld (the last: %s "
		 "%ld)",
		 (long)a->colls.value, a->comm, other, (long)b->colls.value,
		 b->function[0] ? b->function : "?",
		 b->sequence.known ? (long)b->sequence.value : -1L);
}

/* behind: whether it has enqueued less than another rank; else whether it has enqueued something
 * else. Ranks are compared within a communicator only: its hash is the same on all of them.
 * Compares each communicator of the rank with those of the other ranks. */
static enum hang_tri comms_ask(const struct hang_sink *sink, bool behind)
{
	const struct hang_graph *g = sink->g;
	const struct spw_hang_snap *snap = hang_snap(g, sink->rank, LAST);
	const struct spw_hang_proc_row *proc = g->rank[sink->rank].row[LAST];
	enum hang_tri any = hang_is(proc->profiler, 1) == HANG_YES ? HANG_NO : HANG_UNKNOWN;

	for (uint32_t i = 0; i < snap->comm_cnt; i++) {
		const struct spw_hang_comm_row *own = &snap->comm[i], *other;

		if (hang_is(own->pid, g->rank[sink->rank].pid) != HANG_YES)
			continue;
		for (uint32_t r = 0; r < g->rank_cnt; r++) {
			enum hang_tri holds;

			other = r == sink->rank ? NULL : hang_comm_find(g, r, LAST, own->comm);
			if (!other)
				continue;
			holds = behind ? hang_calls_behind(own, other)
				       : hang_calls_differ(own, other);
			if (holds == HANG_YES) {
				(behind ? behind_show : ops_show)(sink, own, other,
								  (long)g->rank[r].rank);
				return HANG_YES;
			}
			any = hang_or(any, holds);
		}
	}
	return any;
}

enum hang_tri hang_test_diverged(const struct hang_sink *sink)
{
	return comms_ask(sink, false);
}

enum hang_tri hang_test_absent(const struct hang_sink *sink)
{
	return comms_ask(sink, true);
}

/* NCCL connects ranks in their first operation, before it counts it. */
enum hang_tri hang_test_not_begun(const struct hang_sink *sink)
{
	const struct hang_graph *g = sink->g;
	const struct hang_conn *conn = &g->conn[sink->conn];

	snprintf(sink->evidence, sink->room,
		 "it has made no connection of communicator %s; rank %ld has listened for its "
		 "own for %ld s",
		 conn->row[LAST]->comm, (long)g->rank[conn->rank].rank,
		 (long)(conn->row[LAST]->state_ns.value / 1000000000));
	return HANG_YES;
}

/* ---- PyTorch's flight recorder ---- */

/* The newest collective of a group in which it is not complete. */
static enum hang_tri recorder_differs(const struct hang_sink *sink, const struct spw_hang_op_row *a,
				      const struct spw_hang_op_row *b)
{
	bool differ;

	if (strcmp(a->group, b->group) || hang_changed(a->sequence, b->sequence) != HANG_NO ||
	    hang_is(a->is_p2p, 0) != HANG_YES || hang_is(b->is_p2p, 0) != HANG_YES)
		return HANG_NO;
	if (!a->group[0] || !a->function[0] || !b->function[0])
		return HANG_UNKNOWN;
	differ = strcmp(a->function, b->function) ||
		 (strstr(a->function, "all_reduce") && strcmp(a->sizes, b->sizes));
	if (differ)
		snprintf(
			sink->evidence, sink->room,
			"operation %ld of group %s is %s %s at %s, and %s %s at %s on another rank",
			(long)a->sequence.value, a->group, a->function, a->sizes, a->site,
			b->function, b->sizes, b->site);
	return differ ? HANG_YES : HANG_NO;
}

/* Entries that one recorder has dropped, or never had, are no difference. */
enum hang_tri hang_test_recorder(const struct hang_sink *sink)
{
	const struct hang_graph *g = sink->g;
	const struct spw_hang_snap *own = hang_snap(g, sink->rank, LAST);
	enum hang_tri any = HANG_NO;

	for (uint32_t r = 0; r < g->rank_cnt; r++) {
		const struct spw_hang_snap *snap = hang_snap(g, r, LAST);

		if (snap->why[SPW_HANG_SOURCE_recorder][0])
			any = hang_or(any, HANG_UNKNOWN);
		for (uint32_t i = 0; i < own->op_cnt && r != sink->rank; i++)
			for (uint32_t j = 0; j < snap->op_cnt; j++)
				if (hang_is(own->op[i].pid, g->rank[sink->rank].pid) == HANG_YES &&
				    hang_is(snap->op[j].pid, g->rank[r].pid) == HANG_YES) {
					const enum hang_tri differ =
						recorder_differs(sink, &own->op[i], &snap->op[j]);

					if (differ == HANG_YES)
						return HANG_YES;
					any = hang_or(any, differ);
				}
	}
	return any;
}
