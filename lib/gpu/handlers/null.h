/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Touches nothing: what the hand-off itself costs. */
#include "gpu/spw_handler.h"

SPW_HANDLER_BODY(null)(const struct spw_frame *frame, struct spw_lanes lanes)
{
	(void)frame;
	(void)lanes;
	return spw_consume(0);
}
