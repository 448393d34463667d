/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What a set of rails can carry. Each rail passes four links: the port and the PCIe link of either
 * end. Functions of one card share ports and PCIe links with each other (two of a DGX Spark's four
 * functions sit on each PCIe link, two others on each port), so capacities do not add up. The most
 * that flows is the smallest cut: for each rail one of its four links is cut, and a link that
 * several rails share is paid for once. With 4 rails these are 256 choices: all are tried.
 */
#include <stdio.h>

#include "measure/pair.h"

enum place { OWN_PORT, OWN_PCIE, PEER_PORT, PEER_PCIE, PLACE_CNT };

static const struct perf_nic *nic_at(const struct perf_rail *rail, enum place place)
{
	return place < PEER_PORT ? rail->own : rail->peer;
}

static bool is_port(enum place place)
{
	return place == OWN_PORT || place == PEER_PORT;
}

static uint32_t limit_enforced(const struct perf_nic *nic, enum place place)
{
	return is_port(place) ? nic->port_enforced_mbps : nic->pcie_enforced_mbps;
}

/* Whether a link carries less than it was negotiated for, by what a software device enforces. */
static bool is_enforced(const struct perf_nic *nic, enum place place)
{
	uint32_t negotiated = is_port(place) ? nic->link_mbps : perf_nic_pcie_mbps(nic);
	uint32_t mbps = limit_enforced(nic, place);

	return mbps && (!negotiated || mbps < negotiated);
}

/* 0 is an unknown capacity, with which perf_limit_mbps gives up. */
static double limit_capacity(const struct perf_rail *rail, enum place place)
{
	const struct perf_nic *nic = nic_at(rail, place);

	return is_enforced(nic, place) ? limit_enforced(nic, place)
	       : is_port(place)        ? nic->link_mbps
				       : perf_nic_pcie_mbps(nic);
}

/* What a software device reports limits nothing, unless it enforces a rate. */
static bool is_limited(const struct perf_rails *rails, uint32_t mask)
{
	bool any = false;

	for (uint32_t i = 0; i < rails->cnt; i++)
		for (uint32_t place = 0; place < PLACE_CNT; place++)
			any |= (mask >> i & 1) &&
			       limit_enforced(nic_at(&rails->rail[i], (enum place)place),
					      (enum place)place);
	return any;
}

/* Functions of one port have its number; those of one PCIe link its address but for the function.
 */
static bool same_link(const struct perf_rail *a, const struct perf_rail *b, enum place place)
{
	const struct perf_nic *x = nic_at(a, place), *y = nic_at(b, place);

	return x == y || (is_port(place) ? x->port == y->port : perf_nic_same_link(x, y));
}

/* choice: two bits a rail. */
static double limit_cut(const struct perf_rails *rails, uint32_t mask, uint32_t choice)
{
	double sum = 0;

	for (uint32_t i = 0; i < rails->cnt; i++) {
		enum place place = (enum place)(choice >> (2 * i) & 3);
		bool paid = false;

		if (!(mask >> i & 1))
			continue;
		for (uint32_t k = 0; k < i; k++)
			paid |= (mask >> k & 1) && (choice >> (2 * k) & 3) == place &&
				same_link(&rails->rail[k], &rails->rail[i], place);
		sum += paid ? 0 : limit_capacity(&rails->rail[i], place);
	}
	return sum;
}

/* PCIe generations 1 and 2 signal 2.5 and 5 GT/s, each later one twice the rate before it, from 8
 * GT/s on. */
static void name_cut(const struct perf_rail *rail, enum place place, const char *host, char *out,
		     size_t bytes)
{
	const struct perf_nic *nic = nic_at(rail, place);
	uint32_t gen = nic->pcie_mtps < 8000 ? nic->pcie_mtps / 2500
					     : 3 + spw_log2_floor64(nic->pcie_mtps / 8000);

	if (is_enforced(nic, place)) {
		snprintf(out, bytes, "enforced rate, %s of %s",
			 is_port(place) ? "port" : "PCIe link", host);
		return;
	}
	if (is_port(place)) {
		snprintf(out, bytes, "link, %.4g Gb/s at %s", nic->link_mbps / 1e3, host);
		return;
	}
	snprintf(out, bytes, "PCIe Gen%u x%u of %s", gen, nic->lanes, host);
}

/* Named is the cut of the first rail alone; other rails of the mask may be cut elsewhere. */
double perf_limit_mbps(const struct perf_rails *rails, const struct perf_end *own,
		       const struct perf_end *peer, uint32_t mask, char *by_out, size_t bytes)
{
	uint32_t first = 0, best_choice = 0;
	double best = 0;

	by_out[0] = '\0';
	if (mask == 0 || ((own->software || peer->software) && !is_limited(rails, mask)))
		return 0;
	while (!(mask >> first & 1))
		first++;
	for (uint32_t i = 0; i < rails->cnt; i++)
		for (uint32_t place = 0; place < PLACE_CNT; place++)
			if ((mask >> i & 1) &&
			    limit_capacity(&rails->rail[i], (enum place)place) <= 0)
				return 0;
	/* Rails outside the mask add nothing to a cut, so some choices are tried more than once. */
	for (uint32_t choice = 0; choice < 1u << (2 * rails->cnt); choice++) {
		double sum = limit_cut(rails, mask, choice);

		if (best <= 0 || sum < best) {
			best = sum;
			best_choice = choice;
		}
	}
	best_choice = best_choice >> (2 * first) & 3;
	name_cut(&rails->rail[first], (enum place)best_choice,
		 best_choice < PEER_PORT ? own->host : peer->host, by_out, bytes);
	return best;
}
