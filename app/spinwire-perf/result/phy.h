/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Counters of the wire itself. A transfer between two functions of one port turns round inside the
 * card: it prints a good figure, and these counters stand still.
 */
#ifndef PERF_PHY_H
#define PERF_PHY_H

#include "result/facts.h"

struct perf_phy {
	bool known;
	uint64_t tx, rx; /* bytes, over the ports of a set of rails */
	char why[96];    /* why it is not known */
};

/* Purpose: reads tx_bytes_phy and rx_bytes_phy of ports ("a+b": RDMA devices, as lib/xfer takes
 *   them, or network interfaces); ports that functions share are counted once. Opens sockets: not
 * while a row is timed. */
void perf_phy_read(const struct perf_end *own, const char *rails, struct perf_phy *phy_out);

/* Purpose: reads again, and what moved since before. */
void perf_phy_since(const struct perf_end *own, const char *ports, const struct perf_phy *before,
		    struct perf_phy *moved_out);

/* Purpose: what moved, as a message and back. */
json_t *perf_phy_json(const struct perf_phy *moved);
int perf_phy_parse(const json_t *json, struct perf_phy *phy_out);

/* Purpose: marks a result whose bytes did not cross the wire, or of which that is not known.
 * Shape: own and peer are what moved at either end while the result's messages were sent. */
void perf_phy_judge(const struct perf_phy *own, const struct perf_phy *peer,
		    struct perf_result *result);

/* Purpose: the same of a collective: each end sends and receives its bus bytes; of a broadcast, at
 *   which rank 0 is the server, the client only receives. */
void perf_coll_phy_judge(const struct perf_phy *own, const struct perf_phy *peer,
			 struct perf_result *result);

#endif
