/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * port_kit over RoCE v2 RC: `a` connects to `b` once per peer, over TCP on the loopback.
 */
#ifndef RC_KIT_H
#define RC_KIT_H

#include "port_kit.h"

/* How the two ports are to be. */
struct rc_kit {
	const char *driver_a, *driver_b; /* NULL: mlx5 */
	uint16_t queues;
	uint32_t peers;
	const char *op, *profile;
	const char *extra; /* more keys, for both: ",credits=4" */
	bool srq;
	uint32_t slots, slot_bytes;
};

/* Opens both and waits until every peer is up at both ends. */
void rc_kit_open(struct kit_run *run, const struct rc_kit *k);

/* Turns without messages until each end has reported so many PEER_UP since it was opened. */
void rc_kit_wait_up(struct kit_run *run, uint32_t cnt);

/* All that was sent came back whole, and neither end counted an error. */
void rc_kit_check_clean(struct kit_run *run);

#endif
