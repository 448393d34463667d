/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A capture as a plan: the times and lengths of its packets. libpcap reads it, so pcap and pcapng
 * both work.
 */
#include <errno.h>
#include <pcap/pcap.h>
#include <stdlib.h>

#include "base/spw_err.h"
#include "gen/spw_gen_plan.h"

struct reader {
	const char *path;
	uint64_t *gap_fp;
	uint16_t *size;
	uint32_t cnt;
	uint64_t first_ns, last_ns;
};

static uint16_t clamp_size(uint32_t bytes)
{
	return (uint16_t)SPW_MIN(SPW_MAX(bytes, GEN_SIZE_MIN), GEN_SIZE_MAX);
}

static int add_packet(struct reader *r, const struct pcap_pkthdr *h)
{
	/* the file was opened with nanosecond precision: tv_usec has ns */
	uint64_t ns = (uint64_t)h->ts.tv_sec * 1000000000u + (uint64_t)h->ts.tv_usec;

	if (r->cnt == 0)
		r->first_ns = r->last_ns = ns;
	if (ns < r->last_ns)
		return spw_err(EPROTO,
			       "capture %s: packet %u is older than the one before it; sort the "
			       "file (reordercap)",
			       r->path, r->cnt + 1);
	if (r->cnt)
		r->gap_fp[r->cnt - 1] = (ns - r->last_ns) << GEN_FRAC_BITS;
	r->size[r->cnt++] = clamp_size(h->len);
	r->last_ns = ns;
	return 0;
}

static int read_packets(struct reader *r, pcap_t *pcap)
{
	struct pcap_pkthdr *h;
	const unsigned char *data;
	int got, rc = 0;

	while (rc == 0 && r->cnt < GEN_GAP_CNT_MAX && (got = pcap_next_ex(pcap, &h, &data)) == 1)
		rc = add_packet(r, h);
	if (rc)
		return rc;
	if (r->cnt < GEN_GAP_CNT_MAX && got == PCAP_ERROR)
		return spw_err(EPROTO, "capture %s: after packet %u: %s", r->path, r->cnt,
			       pcap_geterr(pcap));
	if (r->cnt < 2)
		return spw_err(EPROTO, "capture %s: %u packets; a schedule needs two", r->path,
			       r->cnt);
	/* The mean gap leads from the last packet back to the first: the file has no gap there. */
	r->gap_fp[r->cnt - 1] = ((r->last_ns - r->first_ns) << GEN_FRAC_BITS) / (r->cnt - 1);
	return 0;
}

int gen_capture_read(const char *path, uint64_t **gap_fp_out, uint16_t **size_out,
		     uint32_t *cnt_out)
{
	char text[PCAP_ERRBUF_SIZE] = "";
	struct reader r = {.path = path};
	pcap_t *pcap =
		pcap_open_offline_with_tstamp_precision(path, PCAP_TSTAMP_PRECISION_NANO, text);
	int rc;

	if (!pcap)
		return spw_err(ENOENT, "capture %s: %s", path, text);
	r.gap_fp = calloc(GEN_GAP_CNT_MAX, sizeof(*r.gap_fp));
	r.size = calloc(GEN_GAP_CNT_MAX, sizeof(*r.size));
	if (!r.gap_fp || !r.size)
		rc = spw_err(ENOMEM, "capture %s: no memory", path);
	else if (pcap_datalink(pcap) != DLT_EN10MB)
		rc = spw_err(EPROTO, "capture %s: link type %s, Ethernet is needed", path,
			     pcap_datalink_val_to_name(pcap_datalink(pcap)));
	else
		rc = read_packets(&r, pcap);
	pcap_close(pcap);
	if (rc == 0 && r.last_ns == r.first_ns)
		rc = spw_err(EPROTO,
			     "capture %s: all packets have the same time; give a rate instead",
			     path);
	if (rc) {
		free(r.gap_fp);
		free(r.size);
		return rc;
	}
	*gap_fp_out = r.gap_fp;
	*size_out = r.size;
	*cnt_out = r.cnt;
	return 0;
}
