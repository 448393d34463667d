/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * One port and its senders: each worker lcore of EAL is a sender with its own port queue and pool.
 */
#ifndef SPW_GEN_SENDERS_H
#define SPW_GEN_SENDERS_H

#include "conf.h"
#include "gen/spw_gen_run.h"
#include "mem/spw_mem.h"
#include "pool/spw_pool.h"
#include "port/spw_port_clock.h"
#include "port/spw_port.h"

struct gen_senders {
	struct spw_tsc tsc;
	struct spw_port *port;
	struct spw_region region; /* of all pools */
	struct spw_pool pool[GEN_SENDER_MAX];
	uint32_t lcore_id[GEN_SENDER_MAX];
	struct spw_trail trail[GEN_SENDER_MAX]; /* by sender; zeroed: off */
	/* With trails: of each sender's queue, NULL: the port keeps none; and its NIC's clock. */
	const struct spw_port_sent *sent[GEN_SENDER_MAX];
	struct spw_clock_feed nic_clock;
	struct gen_run *run[GEN_SENDER_MAX]; /* run[0] points to the memory of all */
	uint32_t cnt;
	uint32_t link_down[GEN_SENDER_MAX]; /* as logged last */
	struct spw_port_stat stat;          /* of the port, after the last completion */
	/* Read in every turn; a signal's number ends the plan. */
	uint32_t stop SPW_ALIGNED(2 * SPW_CACHE_LINE);
};

/* Purpose: opens the port, fills in the addresses that conf leaves out, makes pools and senders.
 * Owner: the caller, until gen_senders_close, which is called after an error too.
 * Thread: main lcore.
 * Errors: those of port, memory and plan; -EINVAL without a worker lcore, or with more than
 *   GEN_SENDER_MAX.
 */
int gen_senders_open(struct gen_senders *senders, struct gen_conf *conf);

/* Purpose: starts the port and all senders, and returns when the last sender has finished; the
 *   port is still open. Calls tick(arg) every few ms meanwhile.
 * Thread: main lcore.
 * Errors: those of the port's start; -EBUSY.
 */
int gen_senders_run(struct gen_senders *senders, void (*tick)(void *arg), void *arg);

/* Purpose: writes the trails of all senders, if conf asked for them.
 * Thread: main lcore, after gen_senders_run.
 * Errors: those of spw_trail_write.
 */
int gen_senders_trail(const struct gen_senders *senders, const struct gen_conf *conf);

/* Purpose: keeps the port open for hold_ns or until a signal, then stops it: all slots are
 *   returned.
 * Thread: main lcore.
 * Errors: those of the port's stop.
 */
int gen_senders_stop(struct gen_senders *senders, uint64_t hold_ns);

/* Purpose: closes the port and frees pools, memory and senders.
 * Returns: slots that were not returned; 0 is the only good result.
 * Thread: main lcore.
 */
uint32_t gen_senders_close(struct gen_senders *senders);

#endif
