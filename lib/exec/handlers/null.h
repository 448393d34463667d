/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Touches nothing; a run with it measures the cost of the hand-off itself.
 */
#include "exec/spw_handler.h"

SPW_HANDLER_BODY(null)(const struct spw_frame *frame, struct spw_lanes lanes)
{
	(void)frame;
	(void)lanes;
	return spw_consume(0);
}
