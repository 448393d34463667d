/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * An agent as NIXL uses one (agent.h). Called by plugin.cpp, and calls lib/kv, which has a lock of
 * its own: the lock here is only that of the list of what is kept.
 */
#include "nixl/agent.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "base/spw_monotonic.h"
#include "nixl/vram.h"

#define SETTLE_MS 15000u /* NICs have finished by then, or their connection has ended (gone_ms) */
#define SETTLE_US 100u   /* between two looks */

struct nixl_kept {
	struct nixl_kept *next;
	struct spw_kv_region *region; /* one of these */
	struct spw_kv_mem *mem;
};

/* ---- open and close ---- */

int nixl_agent_open(const struct spw_kv_conf *conf, struct nixl_agent **agent_out)
{
	struct nixl_agent *agent = calloc(1, sizeof(*agent));
	int rc = agent ? spw_kv_open(conf, &agent->kv) : spw_err(ENOMEM, "no memory for an agent");

	if (rc) {
		free(agent);
		return rc;
	}
	spw_kv_info(agent->kv, &agent->info);
	pthread_mutex_init(&agent->lock, NULL);
	*agent_out = agent;
	return 0;
}

static void agent_report(struct nixl_agent *agent)
{
	struct spw_kv_peer_stat peer;
	struct spw_kv_stat s;

	spw_kv_stat(agent->kv, &s);
	spw_info(
		"%llu transfers done, %llu failed, %llu cancelled; bytes: %llu written, %llu read, "
		"%llu copied; notifications: %llu sent, %llu received",
		(unsigned long long)s.done, (unsigned long long)s.failed,
		(unsigned long long)s.cancelled, (unsigned long long)s.written_bytes,
		(unsigned long long)s.read_bytes, (unsigned long long)s.copied_bytes,
		(unsigned long long)s.tx_notes, (unsigned long long)s.rx_notes);
	for (uint32_t i = 0; spw_kv_peer_stat(agent->kv, i, &peer); i++)
		for (uint32_t r = 0; r < peer.rail_cnt; r++)
			spw_info("agent %.*s over %s: %llu bytes, %llu outages", peer.name_bytes,
				 (const char *)peer.name, peer.rail[r].device,
				 (unsigned long long)peer.rail[r].tx_bytes,
				 (unsigned long long)peer.rail[r].outages);
}

void nixl_agent_close(struct nixl_agent *agent)
{
	if (!agent)
		return;
	agent_report(agent);
	spw_kv_close(agent->kv); /* with all that is kept */
	while (agent->kept) {
		struct nixl_kept *kept = agent->kept;

		agent->kept = kept->next;
		free(kept);
	}
	pthread_mutex_destroy(&agent->lock);
	free(agent);
}

/* ---- what is kept ---- */

/* Without memory for it, it stays until spw_kv_close. */
static void agent_keep(struct nixl_agent *agent, struct spw_kv_region *region,
		       struct spw_kv_mem *mem)
{
	struct nixl_kept *kept = malloc(sizeof(*kept));

	if (!kept)
		return;
	pthread_mutex_lock(&agent->lock);
	*kept = (struct nixl_kept){agent->kept, region, mem};
	agent->kept = kept;
	pthread_mutex_unlock(&agent->lock);
}

/* A memory whose region stands behind it is let go in the next sweep. */
void nixl_agent_sweep(struct nixl_agent *agent)
{
	struct nixl_kept **at = &agent->kept;

	pthread_mutex_lock(&agent->lock);
	while (*at) {
		struct nixl_kept *kept = *at;
		int rc = kept->region ? spw_kv_region_drop(kept->region)
				      : spw_kv_mem_dereg(kept->mem);

		if (rc == -EBUSY) {
			at = &kept->next;
			continue;
		}
		*at = kept->next;
		free(kept);
	}
	pthread_mutex_unlock(&agent->lock);
}

void nixl_agent_drop(struct nixl_agent *agent, struct spw_kv_region *region)
{
	if (spw_kv_region_drop(region) == -EBUSY)
		agent_keep(agent, region, NULL);
}

void nixl_agent_release(struct nixl_agent *agent, struct spw_kv_transfer *transfer)
{
	if (spw_kv_release(transfer) != -EINPROGRESS)
		return;
	pthread_mutex_lock(&agent->lock);
	agent->settled_ms = spw_monotonic_ms() + SETTLE_MS;
	pthread_mutex_unlock(&agent->lock);
}

/* ---- memory ---- */

int nixl_agent_reg(struct nixl_agent *agent, bool vram, uint64_t addr, size_t bytes,
		   struct spw_kv_mem **mem_out)
{
	struct spw_xfer_mem_req req = {
		.kind = SPW_XFER_HOST, .addr = (void *)(uintptr_t)addr, .bytes = bytes};
	int rc = vram ? nixl_vram_find(addr, bytes, &req) : 0;

	if (rc)
		return rc;
	rc = spw_kv_mem_reg(agent->kv, &req, mem_out);
	if (req.kind == SPW_XFER_DMABUF)
		close(req.dmabuf_fd);
	if (rc == -EOPNOTSUPP && vram)
		return nixl_vram_refuse();
	return rc == -EAGAIN ? -ENOMEM : rc; /* of locked memory; nothing comes of asking again */
}

static bool agent_is_settled(struct nixl_agent *agent)
{
	bool settled;

	pthread_mutex_lock(&agent->lock);
	settled = spw_monotonic_ms() >= agent->settled_ms;
	pthread_mutex_unlock(&agent->lock);
	return settled;
}

int nixl_agent_dereg(struct nixl_agent *agent, struct spw_kv_mem *mem)
{
	int rc;

	while ((rc = spw_kv_mem_dereg(mem)) == -EBUSY && !agent_is_settled(agent)) {
		usleep(SETTLE_US);
		nixl_agent_sweep(agent);
	}
	if (rc == -EBUSY)
		agent_keep(agent, NULL, mem);
	return rc;
}
