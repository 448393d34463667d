/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Memories of this agent, and regions: memories of others, by the blobs of lib/xfer. A blob can be
 * judged only by a connection to its agent, because it is made under a key of that: until one
 * stands a region is just bytes (move.c imports it).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "kv/agent.h"

/* ---- memories ---- */

static int mem_register(struct spw_kv_mem *m)
{
	int rc = kv_enter(m->kv);

	if (rc)
		return rc;
	rc = spw_xfer_mem_reg(m->kv->x, &m->req, &m->mem);
	rc = rc ? rc : spw_xfer_mem_export(m->mem, &m->blob);
	if (rc)
		spw_xfer_mem_dereg(m->mem);
	else
		TAILQ_INSERT_TAIL(&m->kv->mems, m, link);
	kv_unlock(m->kv);
	return rc;
}

int spw_kv_mem_reg(struct spw_kv *kv, const struct spw_xfer_mem_req *req,
		   struct spw_kv_mem **mem_out)
{
	struct spw_kv_mem *m = calloc(1, sizeof(*m));
	int rc;

	*mem_out = NULL;
	if (!m)
		return spw_err(ENOMEM, "no memory for a registration");
	m->kv = kv;
	m->req = *req;
	m->req.exported = true;
	rc = mem_register(m);
	if (rc)
		free(m);
	else
		*mem_out = m;
	return rc;
}

int spw_kv_mem_dereg(struct spw_kv_mem *m)
{
	struct spw_kv *kv;
	int rc;

	if (!m)
		return 0;
	kv = m->kv;
	rc = kv_enter(kv);
	if (rc)
		return rc;
	rc = m->user_cnt ? spw_err(EBUSY, "%u transfers or regions use this memory: release them",
				   m->user_cnt)
			 : spw_xfer_mem_dereg(m->mem);
	if (!rc) {
		TAILQ_REMOVE(&kv->mems, m, link);
		free(m);
	}
	kv_unlock(kv);
	return rc;
}

void spw_kv_mem_blob(const struct spw_kv_mem *m, struct spw_xfer_blob *blob_out)
{
	*blob_out = m->blob;
}

/* ---- regions ---- */

/* The own name's: the memory itself. */
static int region_find_own(struct spw_kv_region *region, struct spw_kv *kv)
{
	struct spw_kv_mem *m;

	TAILQ_FOREACH(m, &kv->mems, link)
	if (!memcmp(&m->blob, &region->blob, sizeof(m->blob)) && m->req.bytes == region->bytes)
		break;
	if (!m)
		return spw_err(EINVAL, "this blob and length are not of this agent's memory");
	region->mem = m;
	m->user_cnt++;
	return 0;
}

static int region_load(struct spw_kv *kv, const void *name, size_t name_bytes,
		       struct spw_kv_region *region)
{
	int rc;

	region->peer = kv_peer_find(kv, name, name_bytes, &rc);
	rc = rc ? rc : kv_peer_usable(region->peer);
	if (!rc && region->peer->is_self)
		rc = region_find_own(region, kv);
	if (rc)
		return rc;
	region->peer->user_cnt++;
	TAILQ_INSERT_TAIL(&kv->regions, region, link);
	return 0;
}

int spw_kv_region_load(struct spw_kv *kv, const void *name, size_t name_bytes, const void *blob,
		       size_t blob_bytes, uint64_t mem_bytes, struct spw_kv_region **region_out)
{
	struct spw_kv_region *region;
	int rc;

	*region_out = NULL;
	if (blob_bytes != SPW_XFER_BLOB_BYTES)
		return spw_err(EINVAL, "a blob of %zu bytes: it has %u", blob_bytes,
			       SPW_XFER_BLOB_BYTES);
	region = calloc(1, sizeof(*region));
	if (!region)
		return spw_err(ENOMEM, "no memory for a region");
	memcpy(region->blob.byte, blob, blob_bytes);
	region->bytes = mem_bytes;
	rc = kv_enter(kv);
	if (!rc) {
		rc = region_load(kv, name, name_bytes, region);
		kv_unlock(kv);
	}
	if (rc)
		free(region);
	else
		*region_out = region;
	return rc;
}

static void region_free(struct spw_kv_region *region)
{
	(void)spw_xfer_window_drop(region->window);
	if (region->mem)
		region->mem->user_cnt--;
	TAILQ_REMOVE(&region->peer->kv->regions, region, link);
	kv_peer_put(region->peer);
	free(region);
}

int spw_kv_region_drop(struct spw_kv_region *region)
{
	struct spw_kv *kv;
	int rc;

	if (!region)
		return 0;
	kv = region->peer->kv;
	rc = kv_enter(kv);
	if (rc)
		return rc;
	if (region->user_cnt)
		rc = spw_err(EBUSY, "%u transfers use this region: release them", region->user_cnt);
	else
		region_free(region);
	kv_unlock(kv);
	return rc;
}
