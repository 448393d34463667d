/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The cases of a run. By default nine sizes and what owners ask first, in at most three minutes;
 * --all-sizes: every power of two, every rail alone.
 *
 * client.c calls perf_plan once, when both ends are known. Cases of one table follow each other,
 * since table.c prints a heading where the table changes and lane.c opens a connection where the
 * rails do. The order of the plan is the order of the report.
 */
#include <stdlib.h>

#include "args.h"
#include "measure/coll.h"
#include "coll/spw_coll.h"

#define KIB (1ull << 10)
#define MIB (1ull << 20)

#define ROCE_HEAD_BYTES 80u /* of IPv6, UDP, BTH, DETH and ICRC, in an interface's MTU */

#define MS_DFLT 250u
#define MS_FEW  120u /* on few cores, where a row says little anyway */
#define MS_FULL 1000u

static const uint64_t size_dflt[] = {2,       64,      1 * KIB,  4 * KIB, 64 * KIB,
				     1 * MIB, 8 * MIB, 32 * MIB, 64 * MIB};
static const uint64_t size_lat[] = {2, 64, 4 * KIB, 64 * KIB, 1 * MIB};
static const uint64_t size_few[] = {64 * KIB, 8 * MIB};
static const uint64_t size_egress[] = {64, 1 * KIB, 4 * KIB};
static const uint64_t size_gpu[] = {8 * MIB, 16 * MIB, 32 * MIB, 64 * MIB};
static const uint64_t size_oneshot[] = {1 * KIB, 8 * KIB, 64 * KIB, 1 * MIB};
static const uint64_t size_nccl[] = {1 * KIB, 64 * KIB, 1 * MIB, 32 * MIB};
static const uint64_t size_ping[] = {64, 4 * KIB};
static const uint32_t streams[] = {1, 2, 4, 8, 16};

struct list {
	const uint64_t *size;
	uint32_t cnt;
};

struct planning {
	const struct perf_args *args;
	struct perf_plan *plan;
	uint32_t ms;
	uint64_t all[PERF_SIZE_MAX]; /* of --all-sizes */
	uint64_t gib[PERF_SIZE_MAX]; /* of collectives: 1 KiB to 1 GiB */
	uint32_t all_cnt, gib_cnt;
};

/* GPU rows are chosen by memory, all others by operation. */
static enum perf_row row_of(const struct perf_case *what)
{
	static const enum perf_row row[PERF_OP_CNT] = {
		[PERF_WRITE] = PERF_ROW_WRITE, [PERF_SEND] = PERF_ROW_SEND,
		[PERF_READ] = PERF_ROW_READ,   [PERF_EGRESS] = PERF_ROW_EGRESS,
		[PERF_TCP] = PERF_ROW_TCP,     [PERF_BOND] = PERF_ROW_BOND,
		[PERF_COLL] = PERF_ROW_COLL};

	return what->gpu ? PERF_ROW_GPU : row[what->op];
}

/* The only place where a case enters the plan: --rows and the time of a row apply here. A latency
 * row measures twice, closed and open loop. */
static void plan_add(struct planning *p, struct perf_case what)
{
	if (!(p->args->rows >> row_of(&what) & 1) || p->plan->cnt == PERF_CASE_MAX)
		return;
	what.ms = p->ms * (what.latency ? 2 : 1);
	p->plan->what[p->plan->cnt++] = what;
}

/* What the user asked for comes before the list of a table. */
static void add_sizes(struct planning *p, struct perf_case what, struct list list)
{
	if (p->args->size_cnt)
		list = (struct list){p->args->size, p->args->size_cnt};
	else if (p->args->all_sizes)
		list = (struct list){p->all, p->all_cnt};
	for (uint32_t i = 0; i < list.cnt; i++) {
		what.bytes = list.size[i];
		plan_add(p, what);
	}
}

#define LIST(a) ((struct list){a, SPW_ARRAY_CNT(a)})

/* All rails together first; then each alone and each smaller set, to show which one limits. */
static void plan_rdma(struct planning *p, uint32_t rail_cnt)
{
	static const enum perf_op op[] = {PERF_WRITE, PERF_SEND, PERF_READ};
	uint32_t all = (1u << rail_cnt) - 1;

	for (size_t i = 0; i < SPW_ARRAY_CNT(op); i++)
		add_sizes(p, (struct perf_case){.op = op[i], .rails = all, .streams = 1},
			  LIST(size_dflt));
	for (uint32_t i = 0; i < rail_cnt && rail_cnt > 1; i++)
		add_sizes(p, (struct perf_case){.op = PERF_WRITE, .rails = 1u << i, .streams = 1},
			  LIST(size_few));
	for (uint32_t n = 2; n < rail_cnt; n++)
		add_sizes(
			p,
			(struct perf_case){.op = PERF_WRITE, .rails = (1u << n) - 1, .streams = 1},
			LIST(size_few));
	/* Several QPs a rail, as far as lib/xfer has room for them: does one QP reach what the
	 * rail can do? */
	if (rail_cnt <= PERF_RAIL_MAX / 2)
		add_sizes(p,
			  (struct perf_case){.op = PERF_WRITE,
					     .rails = all,
					     .streams = PERF_RAIL_MAX / rail_cnt},
			  LIST(size_few));
	add_sizes(p, (struct perf_case){.op = PERF_WRITE, .rails = all, .streams = 1, .both = true},
		  LIST(size_few));
	for (size_t i = 0; i < SPW_ARRAY_CNT(op); i++)
		add_sizes(p,
			  (struct perf_case){
				  .op = op[i], .rails = all, .streams = 1, .latency = true},
			  LIST(size_lat));
}

/* One packet each: what the interfaces' MTU leaves beside the headers, as RoCE rounds it. */
static uint64_t packet_max(const struct perf_rail *rail)
{
	uint32_t mtu = SPW_MIN(rail->own->mtu, rail->peer->mtu);
	uint64_t bytes = 4 * KIB;

	while (bytes > KIB / 4 && mtu < bytes + ROCE_HEAD_BYTES)
		bytes /= 2;
	return mtu ? bytes : KIB;
}

/* One rail at a time: the stamp of a NIC is compared with the clock of that NIC. */
static void plan_egress(struct planning *p, const struct perf_rails *rails)
{
	struct perf_case what = {.op = PERF_EGRESS, .streams = 1, .latency = true};

	for (uint32_t i = 0; i < rails->cnt; i++) {
		const uint64_t *size = p->args->size_cnt ? p->args->size : size_egress;
		uint32_t cnt = p->args->size_cnt ? p->args->size_cnt
						 : (uint32_t)SPW_ARRAY_CNT(size_egress);

		what.rails = 1u << i;
		for (uint32_t k = 0; k < cnt; k++) {
			what.bytes = size[k];
			if (what.bytes <= packet_max(&rails->rail[i]))
				plan_add(p, what);
		}
	}
}

/* Where neither end has a GPU there is nothing to say, unless the user asked. */
static void plan_gpu(struct planning *p, const struct perf_session *s)
{
	static const enum perf_op op[] = {PERF_WRITE, PERF_SEND, PERF_READ};
	uint32_t cnt = p->args->all_sizes ? SPW_ARRAY_CNT(op) : 1;
	struct perf_case what = {.gpu = true, .rails = (1u << s->rails.cnt) - 1, .streams = 1};

	if (s->own.no_gpu[0] && s->peer.no_gpu[0] && !p->args->rows_named)
		return;
	for (uint32_t i = 0; i < cnt; i++) {
		what.op = op[i];
		add_sizes(p, what, LIST(size_gpu));
	}
}

/* Nets take turns for each size, so that what the machine does hits all of them. NCCL is started
 * only if the user asks for it: it takes its time, and most of the memory of a GPU. */
static void plan_collective(struct planning *p, struct perf_case what, struct list list)
{
	if (p->args->size_cnt)
		list = (struct list){p->args->size, p->args->size_cnt};
	else if (p->args->all_sizes)
		list = (struct list){p->gib, p->gib_cnt};
	for (uint32_t net = 0; net < PERF_NET_CNT; net++) {
		bool one_shot = net == PERF_NET_ONE_SHOT;

		what.net = (enum perf_net)net;
		if (one_shot ? what.coll > PERF_COLL_ALL_REDUCE : !p->args->rows_named)
			continue;
		for (uint32_t i = 0; i < list.cnt; i++) {
			what.bytes = list.size[i];
			if (what.bytes % (PERF_COLL_RANKS * sizeof(float)))
				continue; /* whole elements for each rank */
			if (!one_shot || perf_coll_part_bytes(&what) <= SPW_COLL_BYTES_MAX)
				plan_add(p, what);
		}
	}
}

/* The two lists differ: one-shot calls are for small sizes, NCCL is compared over all. */
static void plan_collectives(struct planning *p, uint32_t rails)
{
	struct perf_case what = {.op = PERF_COLL, .rails = rails, .streams = 1};

	for (uint32_t coll = PERF_COLL_NONE + 1; coll < PERF_COLL_CNT; coll++) {
		what.coll = (enum perf_coll)coll;
		if (p->args->rows_named)
			plan_collective(p, what, LIST(size_nccl));
		else
			plan_collective(p, what, LIST(size_oneshot));
	}
}

/* TCP rows have sizes of their own: a stream has no messages whose size would matter. */
static void plan_tcp(struct planning *p, uint32_t rails, bool bond)
{
	for (size_t i = 0; i < SPW_ARRAY_CNT(streams); i++)
		plan_add(p, (struct perf_case){.op = PERF_TCP,
					       .rails = rails,
					       .streams = streams[i],
					       .bytes = 128 * KIB});
	for (size_t i = 0; i < SPW_ARRAY_CNT(size_ping); i++)
		plan_add(p, (struct perf_case){.op = PERF_TCP,
					       .rails = rails,
					       .streams = 1,
					       .latency = true,
					       .bytes = size_ping[i]});
	for (size_t i = 0; i < SPW_ARRAY_CNT(streams) && bond; i++)
		plan_add(p, (struct perf_case){
				    .op = PERF_BOND, .streams = streams[i], .bytes = 128 * KIB});
}

/* The time of a row: as asked for, else by --all-sizes, else by how many cores there are. */
void perf_plan(const struct perf_args *args, const struct perf_session *s,
	       struct perf_plan *plan_out)
{
	struct planning p = {.args = args, .plan = plan_out};
	const struct perf_bond *own, *peer;

	plan_out->cnt = 0;
	p.ms = args->ms                                   ? args->ms
	       : args->all_sizes                          ? MS_FULL
	       : SPW_MIN(s->own.cores, s->peer.cores) < 4 ? MS_FEW
							  : MS_DFLT;
	for (uint64_t size = 2; size <= 64 * MIB; size *= 2)
		p.all[p.all_cnt++] = size;
	for (uint64_t size = KIB; size <= KIB * MIB; size *= 2)
		p.gib[p.gib_cnt++] = size;
	if (s->rails.cnt) {
		plan_rdma(&p, s->rails.cnt);
		plan_egress(&p, &s->rails);
		plan_gpu(&p, s);
		plan_collectives(&p, (1u << s->rails.cnt) - 1);
	}
	plan_tcp(&p, (1u << s->rails.cnt) - 1, perf_pair_bonds(&s->own, &s->peer, &own, &peer));
}
