/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 */
#include "rdma/spw_rdma_retransmit.h"

#include <inttypes.h>
#include <stdio.h>

static bool count_read(const char *folder, const char *name, uint64_t *count_out)
{
	char path[IBV_SYSFS_PATH_MAX + 64];
	bool ok;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	f = fopen(path, "re");
	ok = f && fscanf(f, "%" SCNu64, count_out) == 1;
	if (f)
		fclose(f);
	return ok;
}

static bool sum_read(const char *folder, uint64_t *sum_out)
{
	static const char *const name[] = {"packet_seq_err", "rnr_nak_retry_err",
					   "local_ack_timeout_err"};
	uint64_t count;

	*sum_out = 0;
	for (uint32_t i = 0; i < SPW_ARRAY_CNT(name); i++) {
		if (!count_read(folder, name[i], &count))
			return false;
		*sum_out += count;
	}
	return true;
}

void rdma_retransmits_start(const struct rdma_dev *dev, struct rdma_retransmits *start)
{
	snprintf(start->folder, sizeof(start->folder), "%s/ports/%u/hw_counters",
		 dev->ctx->device->ibdev_path, dev->port_num);
	start->known = sum_read(start->folder, &start->base);
}

void rdma_retransmits_stat(const struct rdma_retransmits *start, struct spw_port_stat *stat)
{
	uint64_t now;

	stat->retransmits_known = start->known && sum_read(start->folder, &now);
	stat->retransmits = stat->retransmits_known ? now - start->base : 0;
}
