/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Rates as every text report prints them, and the line of --stats-period.
 */
#ifndef APP_RATE_H
#define APP_RATE_H

#include "frame/spw_port_event.h"
#include "time/spw_time.h"

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

/* What all ports of a program counted since their start. */
struct app_rate_count {
	uint64_t rx_frames, rx_bytes, tx_frames, tx_bytes;
	uint64_t link_bps; /* of all ports; of one that is unknown: 0 */
	uint64_t dropped;  /* frames that came and were given up; the caller's to fill in */
	uint32_t port_cnt;
	bool messages;
};

/* Purpose: adds a port to a count that was zero at the beginning.
 * Thread: any.
 */
void app_rate_add(struct app_rate_count *count, const struct spw_port_stat *stat, bool messages);

/* Purpose: prints a line with the mean rates in both directions, on stdout.
 * Shape: lead: how it begins; count has a port.
 * Thread: main.
 */
void app_rate_report(const char *lead, const struct app_rate_count *count, double seconds);

/* The lines of --stats-period. every_ns 0: there are none. Owner: the caller. */
struct app_rate_period {
	const struct spw_tsc *tsc;
	uint64_t every_ns, start_tsc, last_tsc, next_tsc;
	struct app_rate_count last;
};

/* Purpose: begins the first period.
 * Lifetime: tsc outlives it.
 * Thread: any, the same for all three.
 */
void app_rate_begin(struct app_rate_period *period, uint64_t every_ns, const struct spw_tsc *tsc);

/* Returns: whether a line is due; cheap enough for every turn of a control loop. */
bool app_rate_is_due(const struct app_rate_period *period);

/* Purpose: prints the line of the period that ends now, on stdout:
 *   "     2.0 s  received 1.000 M frames/s, 512.0 Mbit/s  sent 0 frames/s, 0 bit/s  dropped 0".
 */
void app_rate_print(struct app_rate_period *period, const struct app_rate_count *now);

#endif
