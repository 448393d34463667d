/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * One port and its senders: every worker lcore of EAL is one, with a port queue and a pool of its own.
 */
#ifndef SPW_GEN_SENDERS_H
#define SPW_GEN_SENDERS_H

#include "gen_conf.h"
#include "gen_run.h"
#include "mem/spw_mem.h"
#include "pool/spw_pool.h"

struct gen_senders {
	struct spw_tsc tsc;
	struct spw_port *port;
	struct spw_region region;                     /* of all pools */
	struct spw_pool pool[GEN_SENDER_MAX];
	uint32_t lcore_id[GEN_SENDER_MAX];
	struct gen_run *run[GEN_SENDER_MAX];          /* run[0] is the memory of all */
	uint32_t cnt;
	uint32_t stop SPW_ALIGNED(2 * SPW_CACHE_LINE); /* read in every turn; a signal's number ends the plan */
};

/* Purpose: opens the port, makes pools and senders. Owner: the caller; gen_senders_close also after an error.
 * Errors: what they say; -EINVAL without a worker lcore, or with more than GEN_SENDER_MAX. Thread: main lcore. */
int gen_senders_open(struct gen_senders *senders, const struct gen_conf *conf);

/* Purpose: starts the port and all senders; returns when the last one has finished, the port still open. tick(arg) is called every few ms meanwhile.
 * Thread: main lcore. */
int gen_senders_run(struct gen_senders *senders, void (*tick)(void *arg), void *arg);

/* Purpose: keeps the port open for hold_ns or until a signal, then stops it: all slots come home. Thread: main lcore. */
int gen_senders_stop(struct gen_senders *senders, uint64_t hold_ns);

/* Returns: slots that did not come home. */
uint32_t gen_senders_close(struct gen_senders *senders);

#endif
