/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Slots of a pool for the peers of a queue: the one place where mode=rc knows a pool. Private to
 * lib/port.
 */
#ifndef SPW_PORT_RC_SLOTS_H
#define SPW_PORT_RC_SLOTS_H

#include "pool/spw_pool.h"
#include "peer/spw_peer.h"

/* Purpose: slots [first, first + cnt) leave the pool, or return to it: those of all peers of a
 *          queue.
 * Errors:  -EBUSY: somebody else has some of them; -ENOMEM.
 * Thread:  setup */
int port_slots_take(struct spw_pool *pool, uint32_t first, uint32_t cnt);
void port_slots_give(struct spw_pool *pool, uint32_t first, uint32_t cnt);

/* Purpose: slots [first, first + cnt) of the pool as a peer's memory. lkey: of the pool's region,
 * in the device's PD. */
struct spw_peer_memory port_slots_memory(const struct spw_pool *pool, uint32_t first, uint32_t cnt,
					 uint32_t lkey);

#endif
