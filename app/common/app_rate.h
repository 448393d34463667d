/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Rates as every text report prints them.
 */
#ifndef APP_RATE_H
#define APP_RATE_H

#include "base/spw_types.h"

#define APP_RATE_BYTES 96 /* holds every text, NUL included */

/* What moved in one direction in so many seconds. */
struct app_rate {
	uint64_t frames, bytes; /* without FCS; messages: their payload */
	double seconds;
	uint64_t link_bps; /* 0: unknown, and no share is printed */
	bool messages;     /* RDMA messages; else Ethernet frames */
};

/* Purpose: "1.000 M frames/s, 512.0 Mbit/s, 6.7 % of the link". bit/s are those of the frames; the
 *   link's share counts what Ethernet adds to each frame on the wire as well: preamble, FCS, gap.
 *   Packet headers of messages are in neither.
 * Shape: out has APP_RATE_BYTES. A time of 0 is a rate of 0.
 * Returns: out.
 * Thread: any.
 */
const char *app_rate_text(const struct app_rate *rate, char *out);

#endif
