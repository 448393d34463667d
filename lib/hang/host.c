/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Tests of rules.c about a rank alone: its process, its threads, its GPU. A process that cannot be
 * read is unknown; one that has no GPU is known to have none.
 *
 * Called by hang_rules_ask through the table of rules.c. "In each snapshot" is what separates a
 * state that lasts from one that was met by chance; a thread's times are compared between the last
 * two, which lie 4.5 s apart.
 */
#include <stdio.h>
#include <string.h>

#include "hang/rules.h"

#define LAST     (SPW_HANG_SNAP_CNT - 1)
#define GPU_BUSY 80 /* percent: it spins, or works */
#define GPU_IDLE 5

/* ---- processes and threads ---- */

static const struct spw_hang_proc_row *sink_proc(const struct hang_sink *sink, uint32_t snap)
{
	return sink->g->rank[sink->rank].row[snap];
}

/* The main thread's state: a signal stops all threads of a process. */
static char sink_state(const struct hang_sink *sink, uint32_t snap)
{
	const int64_t pid = sink->g->rank[sink->rank].pid;
	const struct spw_hang_thread_row *row =
		hang_thread_find(hang_snap(sink->g, sink->rank, snap), pid, pid);

	return row ? row->state[0] : '\0';
}

/* Whether the state is one of `wanted` in all snapshots. */
static enum hang_tri states_are(const struct hang_sink *sink, const char *wanted)
{
	enum hang_tri all = HANG_YES;

	for (uint32_t s = 0; s < SPW_HANG_SNAP_CNT; s++) {
		const char state = sink_state(sink, s);

		all = hang_and(all, !state                  ? HANG_UNKNOWN
				    : strchr(wanted, state) ? HANG_YES
							    : HANG_NO);
	}
	return all;
}

/* A number that another process has by now, or a zombie: both have ended. */
enum hang_tri hang_test_ended(const struct hang_sink *sink)
{
	const struct spw_hang_proc_row *first = sink_proc(sink, 0), *last = sink_proc(sink, LAST);
	const char state = sink_state(sink, LAST);

	if (hang_is(last->gone, 1) == HANG_YES || (state && strchr("ZX", state)) ||
	    (first && hang_changed(first->start, last->start) == HANG_YES)) {
		snprintf(sink->evidence, sink->room, "pid %ld has ended",
			 (long)sink->g->rank[sink->rank].pid);
		return HANG_YES;
	}
	return state ? HANG_NO : HANG_UNKNOWN;
}

/* In all three snapshots: a debugger that only looks lets it go on between them. */
enum hang_tri hang_test_stopped(const struct hang_sink *sink)
{
	const struct spw_hang_proc_row *last = sink_proc(sink, LAST);
	const enum hang_tri stopped = states_are(sink, "Tt");

	if (last->tracer.known && last->tracer.value > 0)
		snprintf(sink->evidence, sink->room,
			 "its main thread is in state %c in each snapshot; process %ld traces it",
			 sink_state(sink, LAST), (long)last->tracer.value);
	else
		snprintf(sink->evidence, sink->room,
			 "its main thread is in state T in each snapshot");
	return stopped;
}

enum hang_tri hang_test_frozen(const struct hang_sink *sink)
{
	const struct spw_hang_proc_row *was = sink_proc(sink, 1), *is = sink_proc(sink, LAST);

	snprintf(sink->evidence, sink->room, "its control group is frozen");
	return was ? hang_and(hang_is(was->frozen, 1), hang_is(is->frozen, 1)) : HANG_UNKNOWN;
}

enum hang_tri hang_throttled(const struct hang_sink *sink, int64_t percent)
{
	const struct spw_hang_proc_row *was = sink_proc(sink, 1), *is = sink_proc(sink, LAST);
	const int64_t elapsed = hang_elapsed(sink->g, sink->rank);
	int64_t stood;

	if (!was || !elapsed || !was->throttled_us.known || !is->throttled_us.known)
		return HANG_UNKNOWN;
	stood = is->throttled_us.value - was->throttled_us.value;
	snprintf(sink->evidence, sink->room,
		 "for lack of quota its control group stood still for %ld ms, summed over CPUs, in "
		 "%ld ms",
		 (long)(stood / 1000), (long)(elapsed / 1000000));
	return stood > elapsed / 100000 * percent ? HANG_YES : HANG_NO;
}

/* A rank that waits spins, and so is throttled too: asked only of ranks that hold others up. */
enum hang_tri hang_test_throttled(const struct hang_sink *sink)
{
	return hang_throttled(sink, 50);
}

/* Whether the other ends of a rank's job were all found: one that was not may be what slows it. */
static bool group_is_whole(const struct hang_graph *g, uint32_t rank)
{
	for (uint32_t i = 0; i < g->conn_cnt; i++)
		if (g->conn[i].peer == HANG_NONE &&
		    g->rank[g->conn[i].rank].group == g->rank[rank].group)
			return false;
	return true;
}

/* The same of one that moves: it counts only where the others are known to have their quota. */
enum hang_tri hang_test_throttled_slow(const struct hang_sink *sink)
{
	const struct hang_graph *g = sink->g;
	char evidence[320];
	enum hang_tri slow = group_is_whole(g, sink->rank) ? hang_test_throttled(sink)
							   : HANG_UNKNOWN;

	for (uint32_t i = 0; i < g->rank_cnt && slow == HANG_YES; i++) {
		const struct hang_sink other = {
			.g = g, .rank = i, .evidence = evidence, .room = sizeof(evidence)};

		if (hang_ranks_share(g, i, sink->rank))
			slow = hang_not(hang_test_throttled(&other));
	}
	return slow;
}

static const char *where_in_kernel(const struct spw_hang_thread_row *row)
{
	if (!row || (!row->kernel[0] && !row->wchan[0]))
		return "an unknown place";
	return row->kernel[0] ? row->kernel : row->wchan;
}

/* D in each of three looks is no short wait for a disk. */
enum hang_tri hang_test_kernel_main(const struct hang_sink *sink)
{
	const int64_t pid = sink->g->rank[sink->rank].pid;
	const struct spw_hang_thread_row *row =
		hang_thread_find(hang_snap(sink->g, sink->rank, LAST), pid, pid);

	snprintf(sink->evidence, sink->room,
		 "its main thread is in state D in each snapshot, in %s", where_in_kernel(row));
	return states_are(sink, "D");
}

enum hang_tri hang_test_kernel_proxy(const struct hang_sink *sink)
{
	const struct spw_hang_thread_row *row[SPW_HANG_SNAP_CNT];
	enum hang_tri all = HANG_YES;

	if (!hang_proxy_find(sink->g, sink->rank, row))
		return HANG_UNKNOWN;
	for (uint32_t s = 0; s < SPW_HANG_SNAP_CNT; s++)
		all = hang_and(all, !row[s]->state[0]         ? HANG_UNKNOWN
				    : row[s]->state[0] == 'D' ? HANG_YES
							      : HANG_NO);
	snprintf(sink->evidence, sink->room,
		 "NCCL's proxy thread %ld is in state D in each snapshot, in %s",
		 (long)row[LAST]->tid.value, where_in_kernel(row[LAST]));
	return all;
}

bool hang_proxy_share(const struct hang_graph *g, uint32_t rank, struct hang_share *share_out)
{
	const struct spw_hang_thread_row *row[SPW_HANG_SNAP_CNT];
	const int64_t elapsed = hang_elapsed(g, rank);

	if (!elapsed || !hang_proxy_find(g, rank, row) || !row[1]->run_ns.known ||
	    !row[LAST]->run_ns.known || !row[1]->wait_ns.known || !row[LAST]->wait_ns.known)
		return false;
	share_out->row = row[LAST];
	share_out->run = (row[LAST]->run_ns.value - row[1]->run_ns.value) / (elapsed / 100 + 1);
	share_out->wait = (row[LAST]->wait_ns.value - row[1]->wait_ns.value) / (elapsed / 100 + 1);
	return true;
}

/* NCCL need not ask for receives of its LL protocols; for sends it does. */
enum hang_tri hang_test_loop(const struct hang_sink *sink)
{
	const struct hang_graph *g = sink->g;
	struct hang_share share;
	bool sends = false;

	if (!hang_proxy_share(g, sink->rank, &share))
		return HANG_UNKNOWN;
	for (uint32_t i = 0; i < g->conn_cnt; i++)
		sends |= g->conn[i].rank == sink->rank && g->conn[i].open && g->conn[i].row[LAST] &&
			 g->conn[i].row[LAST]->is_send.value;
	snprintf(sink->evidence, sink->room,
		 "NCCL's proxy thread %ld ran for %ld %% of 4.5 s and asked for none of its "
		 "requests",
		 (long)share.row->tid.value, (long)share.run);
	return share.run < 50 ? HANG_NO : sends ? HANG_YES : HANG_UNKNOWN;
}

void hang_starved_show(const struct hang_sink *sink, const struct hang_share *share)
{
	const struct spw_hang_thread_row *row = share->row;

	snprintf(sink->evidence, sink->room,
		 "NCCL's proxy thread %ld waited for CPU %ld for %ld %% of 4.5 s and ran for %ld "
		 "%%; that CPU is also wanted by %s",
		 (long)row->tid.value, row->cpu.known ? (long)row->cpu.value : -1L,
		 (long)share->wait, (long)share->run,
		 row->rival[0] ? row->rival : "what could not be read");
}

/* Runnable, and something else runs: a real-time thread, or too many on one core. */
enum hang_tri hang_test_starved(const struct hang_sink *sink)
{
	struct hang_share share;

	if (!hang_proxy_share(sink->g, sink->rank, &share))
		return HANG_UNKNOWN;
	hang_starved_show(sink, &share);
	return share.run < 20 && share.wait >= 50 ? HANG_YES : HANG_NO;
}

/* A loaded host makes all ranks wait: one counts only where each other waits half as long at most.
 */
enum hang_tri hang_test_starved_slow(const struct hang_sink *sink)
{
	const struct hang_graph *g = sink->g;
	struct hang_share share, others;

	if (!hang_proxy_share(g, sink->rank, &share))
		return HANG_UNKNOWN;
	hang_starved_show(sink, &share);
	if (share.run >= 20 || share.wait < 60)
		return HANG_NO;
	if (!group_is_whole(g, sink->rank))
		return HANG_UNKNOWN;
	for (uint32_t i = 0; i < g->rank_cnt; i++)
		if (hang_ranks_share(g, i, sink->rank) && hang_proxy_share(g, i, &others) &&
		    others.wait * 2 > share.wait)
			return HANG_NO;
	return HANG_YES;
}

/* ---- NCCL, its stream, its GPU ---- */

/* Where a host has several ranks, one may wait for another without the network, on which nothing
 * shows it. Never yes: it only keeps the rules behind it from naming this rank. */
enum hang_tri hang_test_neighbour(const struct hang_sink *sink)
{
	const struct hang_rank *rank = &sink->g->rank[sink->rank];

	if (hang_is(rank->row[LAST]->cuda, 0) == HANG_YES)
		return HANG_NO;
	if (!rank->comm || hang_changed(rank->comm->rank_cnt, rank->comm->node_cnt) != HANG_NO)
		return HANG_UNKNOWN;
	return HANG_NO;
}

/* A thread that yields until the proxy has an operation free for it grows in system time. So do
 * others: only its stack shows which it is. */
enum hang_tri hang_test_dry(const struct hang_sink *sink)
{
	const int64_t pid = sink->g->rank[sink->rank].pid;
	const struct spw_hang_snap *was = hang_snap(sink->g, sink->rank, 1);
	const struct spw_hang_snap *is = hang_snap(sink->g, sink->rank, LAST);
	const int64_t elapsed = hang_elapsed(sink->g, sink->rank);
	enum hang_tri dry = sink_state(sink, LAST) && elapsed ? HANG_NO : HANG_UNKNOWN;

	if (hang_is(sink_proc(sink, LAST)->cuda, 0) == HANG_YES)
		return HANG_NO;
	for (uint32_t i = 0; i < is->thread_cnt; i++) {
		const struct spw_hang_thread_row *row = &is->thread[i], *before;

		if (hang_is(row->pid, pid) != HANG_YES || !row->tid.known)
			continue;
		before = hang_thread_find(was, pid, row->tid.value);
		if (!before || !before->stime.known || !row->stime.known)
			dry = hang_or(dry, HANG_UNKNOWN);
		else if (row->stime.value - before->stime.value < elapsed / 100000000) /* 10 % */
			continue;
		else if (strstr(row->frame, "ncclLocalOpAppend")) {
			snprintf(
				sink->evidence, sink->room,
				"thread %ld yields in ncclLocalOpAppend, and the proxy has nothing "
				"under way",
				(long)row->tid.value);
			dry = HANG_YES;
		} else if (!row->frame[0])
			dry = hang_or(dry, HANG_UNKNOWN);
	}
	return dry;
}

/* Whether its GPU is at least so busy, or at most, in all snapshots. A process that has no GPU
 * answers no. */
static enum hang_tri gpu_is(const struct hang_sink *sink, int64_t least, int64_t most)
{
	enum hang_tri all = HANG_YES;

	for (uint32_t s = 0; s < SPW_HANG_SNAP_CNT; s++) {
		const struct spw_hang_gpu_row *gpu = hang_gpu_find(
			hang_snap(sink->g, sink->rank, s), sink->g->rank[sink->rank].pid);

		all = hang_and(all, !gpu || !gpu->busy.known                     ? HANG_UNKNOWN
				    : spw_in_range(gpu->busy.value, least, most) ? HANG_YES
										 : HANG_NO);
	}
	return hang_is(sink_proc(sink, LAST)->cuda, 0) == HANG_YES ? HANG_NO : all;
}

/* NCCL's own kernel would have asked the network for something by now, so what runs is another. A
 * GPU that is neither busy nor idle, or that other processes use, shows nothing. */
enum hang_tri hang_test_gpu_busy(const struct hang_sink *sink)
{
	const struct spw_hang_gpu_row *gpu =
		hang_gpu_find(hang_snap(sink->g, sink->rank, LAST), sink->g->rank[sink->rank].pid);
	const enum hang_tri busy = gpu_is(sink, GPU_BUSY, 100);
	const enum hang_tri idle = gpu_is(sink, 0, GPU_IDLE);

	if (hang_is(sink_proc(sink, LAST)->cuda, 0) == HANG_YES || idle == HANG_YES)
		return HANG_NO;
	if (busy != HANG_YES || !gpu || hang_is(gpu->alone, 1) != HANG_YES)
		return HANG_UNKNOWN;
	snprintf(sink->evidence, sink->room,
		 "its GPU is %ld %% busy (memory %ld %%), and NCCL's kernel has sent nothing",
		 (long)gpu->busy.value,
		 gpu->memory_busy.known ? (long)gpu->memory_busy.value : -1L);
	return HANG_YES;
}

/* NCCL's kernel has been enqueued, as its receives are open, and does not run. */
enum hang_tri hang_test_gpu_idle(const struct hang_sink *sink)
{
	snprintf(sink->evidence, sink->room,
		 "its receives are open, its first send does not come, and its GPU does nothing");
	return gpu_is(sink, 0, GPU_IDLE);
}
