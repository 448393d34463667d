/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Which function of this end faces which one of the other end, and what a set of such rails can
 * carry at most.
 */
#ifndef PERF_PAIR_H
#define PERF_PAIR_H

#include "result/facts.h"

struct perf_rail {
	const struct perf_nic *own, *peer;
	bool one_card; /* both are functions of one adapter */
};

struct perf_rails {
	struct perf_rail rail[PERF_RAIL_MAX];
	uint32_t cnt;
	/* Why functions were left out: a line each. */
	char fault[2 * PERF_RAIL_MAX][PERF_TEXT_BYTES];
	uint32_t fault_cnt;
};

/* Which functions were found to face each other, by probes (prove.c). */
struct perf_facing {
	const struct perf_nic *own[PERF_RAIL_MAX];  /* that were tried */
	const struct perf_nic *peer[PERF_RAIL_MAX]; /* NULL: none faces it */
	uint32_t cnt;
};

/* Purpose: pairs by subnet, in order. names: "mlx5_0+mlx5_1" takes only those of this end,
 *   "mlx5_0=mlx5_2" says what faces what; NULL: all that are up and have an address. facing: what
 *   is known of the functions in it; NULL: nothing.
 * Lifetime: rails_out points into own and peer.
 * Errors: -EINVAL names is malformed or names what is not there. No rail is no error: see fault.
 */
int perf_pair(const struct perf_end *own, const struct perf_end *peer, const char *names,
	      const struct perf_facing *facing, struct perf_rails *rails_out);

/* Purpose: whether the subnets leave open which function faces which: link-local addresses are the
 *   same on every cable, and several cables may be one subnet. */
bool perf_pair_is_open(const struct perf_rails *rails, const struct perf_end *own,
		       const struct perf_end *peer);

/* Purpose: the functions of an end that could face one of the other end, in order.
 * Returns: how many, up to PERF_RAIL_MAX. */
uint32_t perf_pair_candidates(const struct perf_end *end, const struct perf_end *other,
			      const struct perf_nic *nic_out[static PERF_RAIL_MAX]);

/* Purpose: two bonds in one subnet; whether there are. Lifetime: they point into own and peer. */
bool perf_pair_bonds(const struct perf_end *own, const struct perf_end *peer,
		     const struct perf_bond **own_out, const struct perf_bond **peer_out);

/* Purpose: devices of a set of rails as lib/xfer takes them, "a+b"; each qps times. */
void perf_rails_text(const struct perf_rails *rails, uint32_t mask, uint32_t qps, bool of_peer,
		     char *out, size_t bytes);

/* limit.c: the most that a set of rails can carry one way, in Mbit/s, and what sets it, as text
 * ("PCIe Gen5 x4 of spark-1"). Rails may share a port or a PCIe link, so it is a minimum cut.
 * A software device limits by what it enforces, where that is less than it reports.
 * Returns: 0 where a link is unknown, or software enforces nothing. */
double perf_limit_mbps(const struct perf_rails *rails, const struct perf_end *own,
		       const struct perf_end *peer, uint32_t mask, char *by_out, size_t bytes);

#endif
