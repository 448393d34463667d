/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Reads the device's clock together with the CPU's. libmlx5 reads a card's clock with three loads:
 * high word, low word, and the high word again until it is unchanged (rdma-core
 * providers/mlx5/verbs.c, mlx5_read_clock); the low word is sampled in the middle. A software
 * device shows a page that its NIC thread refreshes.
 */
#include <errno.h>
#include <string.h>

#include "base/spw_err.h"
#include "rdma/spw_rdma.h"

#define CLOCK_TRIES 10u /* enough to distinguish a register from a page */
#define CLOCK_READS                                                                            \
	2000u /* about 150 us: a software device that naps shows its clock every 2 ms, and who \
		 asks may ask again */

static int read_clock(void *arg, uint64_t *value_out)
{
	struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};

	if (ibv_query_rt_values_ex(arg, &values) || !(values.comp_mask & IBV_VALUES_MASK_RAW_CLOCK))
		return -ENOTSUP;
	*value_out = (uint64_t)values.raw_clock.tv_nsec; /* ticks, despite the name */
	return 0;
}

int rdma_dev_pair_clock(struct rdma_dev *dev, uint64_t *nic_ticks_out, uint64_t *tsc_out,
			uint64_t *uncertainty_ns_out)
{
	struct spw_clock_pair pair;
	int rc = spw_clock_pair_step(read_clock, dev->ctx, CLOCK_TRIES, CLOCK_READS, &pair);

	if (rc)
		return spw_err(-rc, "%s: its clock cannot be read: %s", dev->name, strerror(-rc));
	*nic_ticks_out = pair.other;
	*tsc_out = pair.ref;
	*uncertainty_ns_out = spw_tsc_to_ns(&dev->tsc, pair.unc) + 1;
	return 0;
}

uint64_t rdma_dev_clock_hz(const struct rdma_dev *dev)
{
	uint64_t now;

	return read_clock(dev->ctx, &now) ? 0 : dev->attr.hca_core_clock * 1000;
}
