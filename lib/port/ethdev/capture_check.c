/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Checks that a capture file is complete before net_pcap replays it, by walking its records without
 * reading their bytes. net_pcap ends at a truncated record as if the file ended there, and the run
 * would look complete.
 *
 * Formats: draft-ietf-opsawg-pcap (24-byte header, then 16-byte record headers) and
 * draft-ietf-opsawg-pcapng (blocks of type, length, body, length).
 *
 *   pcap     head 24 │ record: 16, its third word the length │ bytes │ record ...
 *   pcapng   block: type, length │ body │ length │ block ...      a section header gives the order
 *
 * Called by vdev_check.c for the file that rx_pcap= names. Memory and time are those of the headers
 * only.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/spw_err.h"
#include "port/ethdev/ethdev.h"

#define PCAP_US      0xa1b2c3d4u
#define PCAP_NS      0xa1b23c4du
#define PCAPNG_SHB   0x0a0d0d0au /* reads the same in both byte orders */
#define PCAPNG_ORDER 0x1a2b3c4du
#define CAPLEN_MAX   (256u << 10) /* libpcap's MAXIMUM_SNAPLEN */

struct capture {
	FILE *f;
	const char *path;
	uint64_t bytes, pos, record;
	bool swapped;
};

/* In the byte order of whoever wrote the file. */
static uint32_t ethdev_capture_word(const struct capture *c, const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return c->swapped ? __builtin_bswap32(v) : v;
}

static int ethdev_capture_cut(const struct capture *c, uint64_t need)
{
	return spw_err(EINVAL,
		       "capture file %s is truncated: record %" PRIu64 " at byte %" PRIu64
		       " needs %" PRIu64 " bytes and %" PRIu64
		       " are left; cut it there (editcap, tcpdump -r) or copy it again",
		       c->path, c->record, c->pos, need, c->bytes - c->pos);
}

static int ethdev_capture_damaged(const struct capture *c, const char *what)
{
	return spw_err(EINVAL,
		       "capture file %s is damaged: record %" PRIu64 " at byte %" PRIu64 ": %s",
		       c->path, c->record, c->pos, what);
}

/* Reads n bytes at the present position, which stays. */
static int ethdev_capture_read_at(struct capture *c, uint8_t *buf, size_t n)
{
	if (c->bytes - c->pos < n)
		return ethdev_capture_cut(c, n);
	if (fseeko(c->f, (off_t)c->pos, SEEK_SET) || fread(buf, n, 1, c->f) != 1)
		return spw_err(EIO, "capture file %s cannot be read at byte %" PRIu64, c->path,
			       c->pos);
	return 0;
}

static int ethdev_capture_walk_pcap(struct capture *c)
{
	uint8_t head[16];
	int rc;

	if (c->bytes < 24)
		return ethdev_capture_cut(c, 24);
	for (c->pos = 24; c->pos < c->bytes; c->record++) {
		uint32_t caplen;

		rc = ethdev_capture_read_at(c, head, sizeof(head));
		if (rc)
			return rc;
		caplen = ethdev_capture_word(c, head + 8);
		if (caplen > CAPLEN_MAX)
			return ethdev_capture_damaged(c, "its length is out of range");
		if (c->bytes - c->pos < sizeof(head) + caplen)
			return ethdev_capture_cut(c, sizeof(head) + caplen);
		c->pos += sizeof(head) + caplen;
	}
	return 0;
}

/* Each section header states the byte order of its section. */
static int ethdev_capture_walk_pcapng(struct capture *c)
{
	uint8_t head[12];
	uint32_t len, order;
	int rc;

	for (c->pos = 0; c->pos < c->bytes; c->record++) {
		rc = ethdev_capture_read_at(c, head, sizeof(head));
		if (rc)
			return rc;
		memcpy(&order, head + 8, sizeof(order));
		if (ethdev_capture_word(c, head) == PCAPNG_SHB)
			c->swapped = order != PCAPNG_ORDER;
		len = ethdev_capture_word(c, head + 4);
		if (len < sizeof(head) || len % 4)
			return ethdev_capture_damaged(c, "its block length is out of range");
		if (c->bytes - c->pos < len)
			return ethdev_capture_cut(c, len);
		c->pos += len;
	}
	return 0;
}

/* The magic number says which of the two it is, and its byte order. */
static int ethdev_capture_walk(struct capture *c)
{
	uint8_t head[4];
	uint32_t magic, swapped;
	int rc = ethdev_capture_read_at(c, head, sizeof(head));

	if (rc)
		return rc;
	memcpy(&magic, head, sizeof(magic));
	swapped = __builtin_bswap32(magic);
	if (magic == PCAPNG_SHB)
		return ethdev_capture_walk_pcapng(c);
	c->swapped = swapped == PCAP_US || swapped == PCAP_NS;
	if (!c->swapped && magic != PCAP_US && magic != PCAP_NS)
		return spw_err(EINVAL, "%s is no pcap or pcapng capture file", c->path);
	return ethdev_capture_walk_pcap(c);
}

/* Only regular files are walked. */
int ethdev_capture_check(const char *path)
{
	struct capture c = {.f = fopen(path, "re"), .path = path, .record = 1};
	struct stat st;
	int rc;

	if (!c.f)
		return spw_err(errno, "capture file %s: %s", path, strerror(errno));
	rc = fstat(fileno(c.f), &st) ? spw_err(errno, "capture file %s: %s", path, strerror(errno))
				     : 0;
	if (!rc && S_ISREG(st.st_mode)) { /* a pipe cannot be read twice */
		c.bytes = (uint64_t)st.st_size;
		rc = ethdev_capture_walk(&c);
	}
	fclose(c.f);
	return rc;
}
