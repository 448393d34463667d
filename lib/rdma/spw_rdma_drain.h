/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * How long a device may take to complete or flush what was posted. Used by the ports when they stop
 * and when a connection ends.
 */
#ifndef SPW_RDMA_DRAIN_H
#define SPW_RDMA_DRAIN_H

#include "base/spw_types.h"

struct rdma_dev;

/* A device's time to complete or flush. All zero: it begins with the first call. */
struct rdma_drain {
	uint64_t last_tsc;  /* time of the last call; 0: none */
	uint64_t spent_tsc; /* ticks that counted */
};

/* Purpose: whether the device has had its time, 200 ms, to complete or flush what was posted. What
 * has not completed by then never will. From one call to the next 10 ms count at most: a thread
 * that stood still for longer has not looked meanwhile.
 * Order: poll after each call and judge then, the last call included.
 * Thread: the owner of *drain. */
bool rdma_drain_is_over(const struct rdma_dev *dev, struct rdma_drain *drain);
/* Purpose: as rdma_drain_is_over, for a thread that has nothing else to do: sleeps for 100 us.
 * Returns: false, without a pause, if the time is over.
 * Thread: setup. */
bool rdma_drain_wait(const struct rdma_dev *dev, struct rdma_drain *drain);

#endif
