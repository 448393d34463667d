/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Names and figures of collectives (coll.h), for the rows of lib/coll and of NCCL alike. Source of
 * the factors: NVIDIA nccl-tests, doc/PERFORMANCE.md. Bus bandwidth is what a link carries,
 * whatever the algorithm, so it can be compared with the link's rate and between collectives; with
 * n = 2 ranks the factors are 1 and 1/2.
 */
#include "measure/coll.h"

#include <string.h>

static const struct spw_enum_word coll_word[] = {SPW_ENUM_WORDS(PERF_COLL)};

static const struct spw_enum_word net_word[] = {SPW_ENUM_WORDS(PERF_NET)};

const char *perf_coll_name(enum perf_coll coll)
{
	return coll_word[coll].text;
}

const char *perf_net_name(enum perf_net net)
{
	return net_word[net].text;
}

/* The name comes from the other end: NULL and unknown ones become NONE, which perf_case_parse
 * refuses. */
enum perf_coll perf_coll_parse(const char *name)
{
	for (uint32_t i = 0; name && i < PERF_COLL_CNT; i++)
		if (!strcmp(name, coll_word[i].text))
			return (enum perf_coll)i;
	return PERF_COLL_NONE;
}

bool perf_net_parse(const char *name, enum perf_net *net_out)
{
	for (uint32_t i = 0; name && i < PERF_NET_CNT; i++)
		if (!strcmp(name, net_word[i].text)) {
			*net_out = (enum perf_net)i;
			return true;
		}
	return false;
}

/* Broadcast and sendrecv move each byte over the link once. */
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

/* nccl-tests names a gather by what a rank gets; what it gives is its share of that. */
uint64_t perf_coll_part_bytes(const struct perf_case *what)
{
	return what->coll == PERF_COLL_ALL_GATHER ? what->bytes / PERF_COLL_RANKS : what->bytes;
}

/* Below 4093, so that the sum of two is a whole number that f32 represents exactly. */
float perf_coll_value(uint32_t rank, uint64_t idx)
{
	return (float)((idx * 7 + rank * 13 + 1) % 4093);
}
