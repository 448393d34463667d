/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The deadline of a device that does not complete what was posted. A card flushes a queue in ERR
 * within microseconds; one that is broken or was removed never does, and must neither occupy a
 * peer nor hold up a stop for ever. The owner may be preempted at any line, and everything may have
 * completed when it goes on: so the time is that of spw_tsc_ran, and polls lie between.
 */
#include <time.h>

#include "rdma/spw_rdma.h"
#include "rdma/spw_rdma_drain.h"

#define DRAIN_NS 200000000ull
#define PAUSE_NS 100000

bool rdma_drain_is_over(const struct rdma_dev *dev, struct rdma_drain *drain)
{
	if (drain->last_tsc)
		drain->spent_tsc += spw_tsc_ran(&dev->tsc, &drain->last_tsc);
	else
		drain->last_tsc = spw_tsc_now();
	return drain->spent_tsc >= spw_tsc_from_ns(&dev->tsc, DRAIN_NS);
}

bool rdma_drain_wait(const struct rdma_dev *dev, struct rdma_drain *drain)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};

	if (rdma_drain_is_over(dev, drain))
		return false;
	nanosleep(&pause, NULL);
	return true;
}
