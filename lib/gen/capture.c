/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A capture as a plan: the times and lengths of its packets. libpcap reads it, so pcap and pcapng
 * both work.
 *
 * plan.c calls gen_capture_read before the run; the tables that it fills become the plan's. The
 * file's bytes are not sent: only when packets came and how long they were.
 *
 *    packet    0 ── gap 0 ── 1 ── gap 1 ── 2          gap[i] leads from packet i to the next one;
 *                                          └─ mean ─► 0   the last one closes the circle
 */
#include <errno.h>
#include <pcap/pcap.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "gen/spw_gen_plan.h"

#define CNT_FIRST 65536u
#define SPAN_MAX_NS \
	(UINT64_C(1) << 47) /* a due time of 24 hours, and a gap, fit 64 bits (spw_gen_plan.h) */

struct reader {
	const char *path;
	struct gen_capture *out;
	uint32_t room;
	uint64_t first_ns, last_ns;
};

/* A length that cannot be sent becomes the nearest that can, and is counted for the log. */
static uint16_t capture_size_fit(struct gen_capture_note *note, uint32_t bytes)
{
	note->longer_cnt += bytes > GEN_SIZE_MAX;
	note->shorter_cnt += bytes < GEN_SIZE_MIN;
	note->longest = SPW_MAX(note->longest, bytes);
	return (uint16_t)SPW_MIN(SPW_MAX(bytes, GEN_SIZE_MIN), GEN_SIZE_MAX);
}

/* Doubles the tables when they are full. */
static int capture_make_room(struct reader *r)
{
	struct gen_capture *out = r->out;
	void *grown;

	if (out->cnt < r->room)
		return 0;
	if (r->room == GEN_CAPTURE_CNT_MAX)
		return spw_err(ERANGE, "capture %s: more than %u packets; cut it (editcap -r)",
			       r->path, GEN_CAPTURE_CNT_MAX);
	r->room = r->room ? r->room * 2 : CNT_FIRST;
	if ((grown = realloc(out->gap_fp, r->room * sizeof(*out->gap_fp))))
		out->gap_fp = grown;
	if (grown && (grown = realloc(out->size, r->room * sizeof(*out->size))))
		out->size = grown;
	return grown ? 0
		     : spw_err(ENOMEM, "capture %s: no memory for %u packets", r->path, r->room);
}

static int capture_add_packet(struct reader *r, const struct pcap_pkthdr *h)
{
	/* the file was opened with nanosecond precision: tv_usec has ns */
	uint64_t ns = (uint64_t)h->ts.tv_sec * 1000000000u + (uint64_t)h->ts.tv_usec;
	struct gen_capture *out = r->out;
	int rc = capture_make_room(r);

	if (rc)
		return rc;
	if (out->cnt == 0)
		r->first_ns = r->last_ns = ns;
	if (ns < r->last_ns)
		return spw_err(EPROTO,
			       "capture %s: packet %u is older than the one before it; sort the "
			       "file (reordercap)",
			       r->path, out->cnt + 1);
	if (ns - r->first_ns >= SPAN_MAX_NS)
		return spw_err(ERANGE,
			       "capture %s: packet %u comes %.1f hours after the first, up to 39 "
			       "are possible; cut the file (editcap -A, -B)",
			       r->path, out->cnt + 1, (double)(ns - r->first_ns) / 3600e9);
	if (out->cnt)
		out->gap_fp[out->cnt - 1] = (ns - r->last_ns) << GEN_FRAC_BITS;
	out->size[out->cnt++] = capture_size_fit(&out->note, h->len);
	r->last_ns = ns;
	return 0;
}

/* libpcap has one code for every fault of a file, and this word for one that ends too early. */
static bool capture_is_cut(pcap_t *pcap)
{
	return strstr(pcap_geterr(pcap), "truncated") != NULL;
}

static int capture_read_packets(struct reader *r, pcap_t *pcap)
{
	struct gen_capture *out = r->out;
	struct pcap_pkthdr *h;
	const unsigned char *data;
	int got, rc = 0;

	while (rc == 0 && (got = pcap_next_ex(pcap, &h, &data)) == 1)
		rc = capture_add_packet(r, h);
	if (rc)
		return rc;
	out->note.cut = got == PCAP_ERROR && capture_is_cut(pcap);
	if (got == PCAP_ERROR && !out->note.cut)
		return spw_err(EPROTO, "capture %s: after packet %u: %s", r->path, out->cnt,
			       pcap_geterr(pcap));
	if (out->cnt < 2)
		return spw_err(EPROTO, "capture %s: %u packets%s; a schedule needs two", r->path,
			       out->cnt, out->note.cut ? " and one that is cut" : "");
	if (r->last_ns == r->first_ns)
		return spw_err(EPROTO,
			       "capture %s: all packets have the same time; give a rate instead",
			       r->path);
	/* The mean gap leads from the last packet back to the first: the file has no gap there. */
	out->gap_fp[out->cnt - 1] = ((r->last_ns - r->first_ns) << GEN_FRAC_BITS) / (out->cnt - 1);
	return 0;
}

/* After an error nothing is owned: both tables are released here. */
int gen_capture_read(const char *path, struct gen_capture *out)
{
	char text[PCAP_ERRBUF_SIZE] = "";
	struct reader r = {.path = path, .out = out};
	pcap_t *pcap =
		pcap_open_offline_with_tstamp_precision(path, PCAP_TSTAMP_PRECISION_NANO, text);
	int rc;

	memset(out, 0, sizeof(*out));
	if (!pcap)
		return spw_err(ENOENT, "capture %s: %s", path, text);
	if (pcap_datalink(pcap) != DLT_EN10MB)
		rc = spw_err(EPROTO, "capture %s: link type %s, Ethernet is needed", path,
			     pcap_datalink_val_to_name(pcap_datalink(pcap)));
	else
		rc = capture_read_packets(&r, pcap);
	pcap_close(pcap);
	if (rc) {
		free(out->gap_fp);
		free(out->size);
	}
	return rc;
}
