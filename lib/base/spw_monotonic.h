/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * CLOCK_MONOTONIC, for deadlines of the control path. The data path has the CPU's counter
 * (time/spw_time.h).
 */
#ifndef SPW_BASE_MONOTONIC_H
#define SPW_BASE_MONOTONIC_H

#include <time.h>

#include "base/spw_types.h"

/* Returns: the clock in nanoseconds. Thread: any. */
SPW_INLINE uint64_t spw_monotonic_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Returns: the same in whole milliseconds. Thread: any. */
SPW_INLINE uint64_t spw_monotonic_ms(void)
{
	return spw_monotonic_ns() / 1000000u;
}

#endif
