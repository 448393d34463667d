/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Rates in frames/s, bit/s and % of the link (app_rate.h). The reports of spinwire and spinwire-gen
 * call it with totals, their lines of --stats-period with the difference of two readings.
 *
 *   on the wire   preamble 7, start 1 | frame | FCS 4 | gap 12        IEEE 802.3, 3.1.1 and 4.4.2
 *   in a slot                           frame, at least 60
 */
#include "app_rate.h"

#include <stdio.h>

#define WIRE_BYTES  24u /* preamble, start, FCS, gap */
#define FRAME_BYTES 60u /* a NIC pads what is shorter */

/* Divides by the prefix that it returns. */
static const char *rate_prefix(double *value)
{
	static const char *const prefix[] = {"", "k", "M", "G", "T"};
	uint32_t step = 0;

	for (; *value >= 1000 && step + 1 < SPW_ARRAY_CNT(prefix); step++)
		*value /= 1000;
	return prefix[step];
}

/* Bit/s that the link carries for these frames. */
static double rate_on_link(const struct app_rate *rate)
{
	uint64_t bytes = rate->bytes;

	if (!rate->messages)
		bytes = SPW_MAX(bytes, rate->frames * FRAME_BYTES) + rate->frames * WIRE_BYTES;
	return (double)bytes * 8 / rate->seconds;
}

const char *app_rate_text(const struct app_rate *rate, char *out)
{
	bool any = rate->seconds > 0;
	double frames = any ? (double)rate->frames / rate->seconds : 0;
	double bits = any ? (double)rate->bytes * 8 / rate->seconds : 0;
	const char *many = rate_prefix(&frames), *fast = rate_prefix(&bits);
	int used = snprintf(out, APP_RATE_BYTES, "%.*f %s%s%s/s, %.*f %sbit/s", *many ? 3 : 0,
			    frames, many, *many ? " " : "", rate->messages ? "messages" : "frames",
			    *fast ? 1 : 0, bits, fast);

	if (rate->link_bps && any)
		snprintf(out + used, APP_RATE_BYTES - (size_t)used, ", %.1f %% of the link",
			 100 * rate_on_link(rate) / (double)rate->link_bps);
	return out;
}
