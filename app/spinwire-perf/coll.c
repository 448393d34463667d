/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Names and figures of collectives (coll.h). Source of the factors: NVIDIA nccl-tests,
 * doc/PERFORMANCE.md.
 */
#include "coll.h"

#include <string.h>

static const char *const coll_name[PERF_COLL_CNT] = {
#define X(name, text) [PERF_COLL_##name] = text,
	PERF_COLL_LIST(X)
#undef X
};

static const char *const net_name[PERF_NET_CNT] = {
#define X(name, text) [PERF_NET_##name] = text,
	PERF_NET_LIST(X)
#undef X
};

const char *perf_coll_name(enum perf_coll coll)
{
	return coll_name[coll];
}

const char *perf_net_name(enum perf_net net)
{
	return net_name[net];
}

enum perf_coll perf_coll_parse(const char *name)
{
	for (uint32_t i = 0; name && i < PERF_COLL_CNT; i++)
		if (!strcmp(name, coll_name[i]))
			return (enum perf_coll)i;
	return PERF_COLL_NONE;
}

bool perf_net_parse(const char *name, enum perf_net *net_out)
{
	for (uint32_t i = 0; name && i < PERF_NET_CNT; i++)
		if (!strcmp(name, net_name[i])) {
			*net_out = (enum perf_net)i;
			return true;
		}
	return false;
}

uint64_t perf_coll_bus_bytes(const struct perf_case *what)
{
	const uint64_t n = PERF_COLL_RANKS;

	switch (what->coll) {
	case PERF_COLL_ALL_REDUCE:
		return what->bytes * 2 * (n - 1) / n;
	case PERF_COLL_ALL_GATHER:
	case PERF_COLL_REDUCE_SCATTER:
		return what->bytes * (n - 1) / n;
	default:
		return what->bytes;
	}
}

uint64_t perf_coll_part_bytes(const struct perf_case *what)
{
	return what->coll == PERF_COLL_ALL_GATHER ? what->bytes / PERF_COLL_RANKS : what->bytes;
}

float perf_coll_value(uint32_t rank, uint64_t idx)
{
	return (float)((idx * 7 + rank * 13 + 1) % 4093);
}
