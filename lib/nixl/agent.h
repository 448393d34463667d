/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Private to lib/nixl: an agent of lib/kv as NIXL uses one.
 *
 * NIXL forgets memory, regions and requests whether or not its calls succeed, also while others use
 * them: an agent that left is forgotten with its regions, and the requests to it are released
 * later. So what lib/kv does not let go yet is kept here, and tried again in later calls.
 *
 *   NIXL          unloadMD, deregisterMem            releaseReqH of the last request
 *   lib/kv        -EBUSY ─► kept ──────────────────► nixl_agent_sweep ─► 0
 *
 * Thread of all functions: any. */
#ifndef SPW_NIXL_AGENT_H
#define SPW_NIXL_AGENT_H

#include <pthread.h>

#include "kv/spw_kv.h"

#ifdef __cplusplus
extern "C" {
#endif

struct nixl_kept;

struct nixl_agent {
	struct spw_kv *kv;
	struct spw_kv_info info;
	pthread_mutex_t lock; /* of what follows */
	struct nixl_kept *kept;
	uint64_t settled_ms; /* until then NICs may move bytes of what was released */
};

/* Shape: conf->thread: waiting here makes no progress. Errors: those of spw_kv_open. */
int nixl_agent_open(const struct spw_kv_conf *conf, struct nixl_agent **agent_out);
/* Logs the totals, and which rails moved what. NULL is fine. */
void nixl_agent_close(struct nixl_agent *agent);

/* Memory of the CPU's, or what NIXL calls VRAM.
 * Errors: those of spw_kv_mem_reg; -EOPNOTSUPP with both remedies: no NIC reaches this VRAM. */
int nixl_agent_reg(struct nixl_agent *agent, bool vram, uint64_t addr, size_t bytes,
		   struct spw_kv_mem **mem_out);
/* After this call the memory may be freed: what NICs still move of a transfer that was released in
 * mid-air is waited for.
 * Errors: -EBUSY a request that was not released uses it: it is kept. */
int nixl_agent_dereg(struct nixl_agent *agent, struct spw_kv_mem *mem);

/* Drops a region now, or as soon as nothing uses it. NULL is fine. */
void nixl_agent_drop(struct nixl_agent *agent, struct spw_kv_region *region);
void nixl_agent_release(struct nixl_agent *agent, struct spw_kv_transfer *transfer);
/* Tries what is kept again. */
void nixl_agent_sweep(struct nixl_agent *agent);

/* ---- log.c ---- */

/* Lines go to stderr, as NIXL_LOG_LEVEL wants. */
void nixl_log_start(void);

#ifdef __cplusplus
}
#endif
#endif
