/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A handler plug-in that takes its time, so that the executor is too slow on every machine. With
 * SLOW_CHANGED=1 its verdict is another one.
 */
#include <time.h>

#include "exec/spw_handler.h"

#define SLOW_NS 20000
#ifndef SLOW_CHANGED
#define SLOW_CHANGED 0
#endif

SPW_HANDLER_BODY(slow)(const struct spw_frame *frame, struct spw_lanes lanes)
{
	struct timespec from, now;

	(void)lanes;
	clock_gettime(CLOCK_MONOTONIC, &from);
	do {
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((now.tv_sec - from.tv_sec) * 1000000000l + now.tv_nsec - from.tv_nsec < SLOW_NS);
	return SLOW_CHANGED ? spw_bad(SPW_BAD_handler) : spw_consume(spw_frame_u8(frame, 0));
}

SPW_HANDLER_PLUGIN(slow, "busy for 20 us a frame", 0)
