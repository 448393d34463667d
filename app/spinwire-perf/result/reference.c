/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What owners of the same machines published. They measured with perftest, iperf3, NIXL and NCCL;
 * docs/100-two-machines.md has the sources. A figure stands beside a row only if both ends are of
 * its kind.
 */
#include <stdio.h>
#include <string.h>

#include "result/judge.h"

#define KIB (1ull << 10)
#define MIB (1ull << 20)

enum kind { SPARK, CONNECTX };

struct reference {
	enum kind kind;
	enum perf_op op;
	bool latency, gpu;
	uint32_t rail_cnt; /* 0: any */
	uint64_t least, most;
	const char *text;
};

/* Kind, operation, latency, GPU, rails, least and most bytes, text. Add a figure with its source
 * in the document. */
static const struct reference table[] = {
	{SPARK, PERF_WRITE, false, true, 0, 8 * MIB, 8 * MIB, "20.39 GB/s"},
	{SPARK, PERF_WRITE, false, true, 0, 16 * MIB, 16 * MIB, "21.45 GB/s"},
	{SPARK, PERF_WRITE, false, true, 0, 32 * MIB, 32 * MIB, "21.48 GB/s"},
	{SPARK, PERF_WRITE, false, true, 0, 64 * MIB, 64 * MIB, "22.31 GB/s"},
	{SPARK, PERF_WRITE, false, false, 1, 64 * KIB, 64 * MIB, "96 Gb/s ib_write_bw"},
	{SPARK, PERF_WRITE, false, false, 2, 64 * KIB, 64 * MIB, "192 Gb/s ib_write_bw"},
	{SPARK, PERF_SEND, false, false, 1, 1 * MIB, 64 * MIB, "96 Gb/s NIXL"},
	{SPARK, PERF_SEND, false, false, 2, 1 * MIB, 64 * MIB, "176-192 Gb/s NIXL"},
	{SPARK, PERF_WRITE, true, false, 1, 2, 64, "1-2 us ib_write_lat"},
	{SPARK, PERF_TCP, false, false, 1, 0, UINT64_MAX, "35 Gb/s iperf3"},
	{SPARK, PERF_TCP, false, false, 2, 0, UINT64_MAX, "70 Gb/s iperf3"},
	{SPARK, PERF_COLL, false, false, 0, 32 * MIB, 32 * MIB, "16 GB/s NCCL"},
	{SPARK, PERF_COLL, false, false, 0, 16 * KIB *MIB, 16 * KIB *MIB, "22.16 GB/s NCCL"},
	{CONNECTX, PERF_SEND, false, false, 1, 64 * KIB, 64 * KIB, "93.3 Gb/s ib_send_bw"},
};

/* The product is spelled in two ways; where it is not known, the GPU's name decides. */
static bool is_spark(const struct perf_end *end)
{
	return strstr(end->machine, "DGX_Spark") || strstr(end->machine, "DGX Spark") ||
	       strstr(end->gpu, "GB10");
}

/* ConnectX-5 to -7, by PCI id (pci.ids). */
static bool is_connectx(const struct perf_end *end)
{
	static const uint32_t id[] = {0x1017, 0x1019, 0x101b, 0x101d, 0x101f, 0x1021};

	for (uint32_t i = 0; i < end->nic_cnt; i++)
		for (size_t k = 0; k < SPW_ARRAY_CNT(id); k++)
			if (end->nic[i].device == id[k] && end->nic[i].link_mbps >= 100000)
				return true;
	return false;
}

/* Software devices are no machine of any kind. */
static bool is_kind(const struct perf_session *s, enum kind kind)
{
	if (s->own.software || s->peer.software)
		return false;
	return kind == SPARK ? is_spark(&s->own) && is_spark(&s->peer)
			     : is_connectx(&s->own) && is_connectx(&s->peer);
}

/* The first entry that fits is taken. */
void perf_reference(const struct perf_session *s, const struct perf_case *what, char *out,
		    size_t bytes)
{
	uint32_t rails = (uint32_t)__builtin_popcount(what->rails);

	out[0] = '\0';
	for (size_t i = 0; i < SPW_ARRAY_CNT(table) && !out[0]; i++) {
		const struct reference *r = &table[i];

		if (what->op == PERF_COLL &&
		    (what->coll != PERF_COLL_ALL_GATHER || what->net == PERF_NET_ONE_SHOT))
			continue;
		if (r->op == what->op && r->latency == what->latency && r->gpu == what->gpu &&
		    !what->both && (!r->rail_cnt || r->rail_cnt == rails) &&
		    spw_in_range(what->bytes, r->least, r->most) && is_kind(s, r->kind))
			snprintf(out, bytes, "%s", r->text);
	}
}
