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

#include <inttypes.h>
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

void app_rate_report(const char *lead, const struct app_rate_count *count, double seconds)
{
	struct app_rate rx = {.frames = count->rx_frames,
			      .bytes = count->rx_bytes,
			      .seconds = seconds,
			      .link_bps = count->link_bps,
			      .messages = count->messages},
			tx = rx;
	char rx_text[APP_RATE_BYTES], tx_text[APP_RATE_BYTES];

	tx.frames = count->tx_frames;
	tx.bytes = count->tx_bytes;
	printf("%sreceived %s; sent %s\n", lead, app_rate_text(&rx, rx_text),
	       app_rate_text(&tx, tx_text));
}

/* ---- the lines of --stats-period ---- */

void app_rate_add(struct app_rate_count *count, const struct spw_port_stat *stat, bool messages)
{
	bool known = stat->link_bps && (count->link_bps || !count->port_cnt);

	count->rx_frames += stat->rx_frames;
	count->rx_bytes += stat->rx_bytes;
	count->tx_frames += stat->tx_frames;
	count->tx_bytes += stat->tx_bytes;
	count->link_bps = known ? count->link_bps + stat->link_bps : 0;
	count->messages = messages;
	count->port_cnt++;
}

void app_rate_begin(struct app_rate_period *period, uint64_t every_ns, const struct spw_tsc *tsc)
{
	*period = (struct app_rate_period){
		.tsc = tsc, .every_ns = every_ns, .start_tsc = spw_tsc_now()};
	period->last_tsc = period->start_tsc;
	period->next_tsc = period->start_tsc + spw_tsc_from_ns(tsc, every_ns);
}

bool app_rate_is_due(const struct app_rate_period *period)
{
	return period->every_ns && (int64_t)(spw_tsc_now() - period->next_tsc) >= 0;
}

/* A device's count may fall behind what was printed, as one does that is read late. */
static uint64_t rate_grown(uint64_t now, uint64_t last)
{
	return now > last ? now - last : 0;
}

/* The time is measured: a thread that was preempted prints late, and its rates are still right.
 * Periods that it missed have no lines of their own. */
void app_rate_print(struct app_rate_period *period, const struct app_rate_count *now)
{
	const struct app_rate_count *last = &period->last;
	uint64_t tsc = spw_tsc_now(), every = spw_tsc_from_ns(period->tsc, period->every_ns);
	double seconds = (double)spw_tsc_to_ns(period->tsc, tsc - period->last_tsc) * 1e-9;
	struct app_rate rx = {.frames = rate_grown(now->rx_frames, last->rx_frames),
			      .bytes = rate_grown(now->rx_bytes, last->rx_bytes),
			      .seconds = seconds,
			      .link_bps = now->link_bps,
			      .messages = now->messages},
			tx = rx;
	char rx_text[APP_RATE_BYTES], tx_text[APP_RATE_BYTES];

	tx.frames = rate_grown(now->tx_frames, last->tx_frames);
	tx.bytes = rate_grown(now->tx_bytes, last->tx_bytes);
	printf("%8.1f s  received %s  sent %s  dropped %" PRIu64 "\n",
	       (double)spw_tsc_to_ns(period->tsc, tsc - period->start_tsc) * 1e-9,
	       app_rate_text(&rx, rx_text), app_rate_text(&tx, tx_text),
	       rate_grown(now->dropped, last->dropped));
	fflush(stdout);
	period->last = *now;
	period->last_tsc = tsc;
	period->next_tsc += every;
	if ((int64_t)(tsc - period->next_tsc) >= 0)
		period->next_tsc = tsc + every;
}
