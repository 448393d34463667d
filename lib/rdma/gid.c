/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Chooses the entry of the port's GID table that RoCE v2 packets carry as their source. Called at
 * set-up by the drivers' mode=rc.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "rdma/spw_rdma.h"

/* Preference of an entry: 3 IPv4, 2 global IPv6, 1 link-local; 0: not usable. A link-local address
 * comes last: every interface has one, whatever its subnet is. */
static unsigned rdma_gid_rank(const struct ibv_gid_entry *entry)
{
	static const uint8_t zero[16], v4_mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
	const uint8_t *raw = entry->gid.raw;

	if (entry->gid_type != IBV_GID_TYPE_ROCE_V2 || !memcmp(raw, zero, 16))
		return 0;
	if (!memcmp(raw, v4_mapped, sizeof(v4_mapped)))
		return 3;
	return raw[0] == 0xfe && (raw[1] & 0xc0) == 0x80 ? 1 : 2;
}

static bool rdma_gid_entry_at(const struct rdma_dev *dev, uint32_t index,
			      struct ibv_gid_entry *entry_out)
{
	return ibv_query_gid_ex(dev->ctx, dev->port_num, index, entry_out, 0) == 0;
}

/* The preferred entry. Returns: its rank; 0: the port has no GID for RoCE v2. */
static unsigned rdma_gid_best(const struct rdma_dev *dev, struct rdma_gid *gid_out)
{
	unsigned have = 0;

	for (uint32_t i = 0; i < (uint32_t)dev->port.gid_tbl_len && i <= UINT8_MAX; i++) {
		struct ibv_gid_entry entry;

		if (!rdma_gid_entry_at(dev, i, &entry) || rdma_gid_rank(&entry) <= have)
			continue;
		have = rdma_gid_rank(&entry);
		*gid_out = (struct rdma_gid){.gid = entry.gid, .index = (uint8_t)i};
	}
	return have;
}

/* A table may have holes, and the same address twice (RoCE v1 and v2), so an index that a user
 * names is checked; `other` is the entry to suggest instead. */
static int rdma_gid_named(const struct rdma_dev *dev, const char *text,
			  const struct rdma_gid *other, struct rdma_gid *gid_out)
{
	char addr[INET6_ADDRSTRLEN], *end;
	unsigned long index = strtoul(text, &end, 10);
	struct ibv_gid_entry entry;

	inet_ntop(AF_INET6, other->gid.raw, addr, sizeof(addr));
	if (end == text || *end || *text == '-')
		return spw_err(EINVAL,
			       "gid=%s is not an index into the GID table: use gid=%u (%s), or "
			       "leave it out",
			       text, other->index, addr);
	if (index > UINT8_MAX || index >= (unsigned long)dev->port.gid_tbl_len ||
	    !rdma_gid_entry_at(dev, (uint32_t)index, &entry))
		return spw_err(EINVAL,
			       "GID %s is not in the table of %s, or empty: use gid=%u (%s), or "
			       "leave it out",
			       text, dev->name, other->index, addr);
	if (!rdma_gid_rank(&entry))
		return spw_err(EINVAL,
			       "GID %lu of %s is not RoCE v2: use gid=%u (%s), or leave it out",
			       index, dev->name, other->index, addr);
	*gid_out = (struct rdma_gid){.gid = entry.gid, .index = (uint8_t)index};
	return 0;
}

int rdma_dev_gid(const struct rdma_dev *dev, const char *text, struct rdma_gid *gid_out)
{
	struct rdma_gid found = {0};

	if (!rdma_gid_best(dev, &found))
		return spw_err(ENOENT,
			       "%s port %u has no RoCE v2 GID: give its interface an IP address "
			       "and bring it up "
			       "(ibv_devinfo -v lists GIDs)",
			       dev->name, dev->port_num);
	if (text)
		return rdma_gid_named(dev, text, &found, gid_out);
	*gid_out = found;
	return 0;
}
