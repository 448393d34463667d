/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The deadline of a device that does not complete what was posted. A card flushes a queue in ERR
 * within microseconds; one that is broken or was removed never does, and must neither occupy a
 * peer nor hold up a stop for ever.
 */
#include <time.h>

#include "rdma/spw_rdma.h"

#define DRAIN_NS 200000000ull
#define NAP_NS   100000

bool rdma_drain_is_over(const struct rdma_dev *dev, uint64_t *since_tsc)
{
	const uint64_t now = spw_tsc_now();

	if (!*since_tsc)
		*since_tsc = now;
	return now - *since_tsc >= spw_tsc_from_ns(&dev->tsc, DRAIN_NS);
}

bool rdma_drain_nap(const struct rdma_dev *dev, uint64_t *since_tsc)
{
	const struct timespec nap = {.tv_nsec = NAP_NS};

	if (rdma_drain_is_over(dev, since_tsc))
		return false;
	nanosleep(&nap, NULL);
	return true;
}
