/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Reads every byte; the digest is the sum of all bytes.
 */
#include "exec/spw_handler.h"

SPW_HANDLER_BODY(sum)(const struct spw_frame *frame, struct spw_lanes lanes)
{
	uint64_t sum = 0;

	spw_for_each_chunk(c, frame, lanes)
	{
		sum = spw_bytes_sum4(c->w[0], sum);
		sum = spw_bytes_sum4(c->w[1], sum);
		sum = spw_bytes_sum4(c->w[2], sum);
		sum = spw_bytes_sum4(c->w[3], sum);
	}
	return spw_consume(spw_lanes_sum(lanes, sum));
}
