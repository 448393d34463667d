/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Frames of the synthetic source. IPv4: RFC 791, UDP: RFC 768 (checksum 0: none), CRC-32C: RFC 3720
 * B.4.
 *
 * `bad` spoils exactly one field, the one that a handler must find; everything else stays valid.
 * The CRC is computed bit by bit, since frames are written at set-up, or when one is to be spoiled.
 * Called by null.c: once for each slot at set-up, and from the receive burst for a frame that must
 * be bad, or good again after it was bad. Only the counter of pattern=counter is written each time.
 */
#include <errno.h>
#include <string.h>

#include "base/spw_err.h"
#include "port/null/null.h"

#define ETH_BYTES   14u
#define IP_BYTES    20u
#define UDP_BYTES   8u
#define SHORT_BYTES 20u /* ends inside the IPv4 header */

static const char *const bad_name[NULL_BAD_CNT] = {
	[NULL_BAD_NONE] = "none",         [NULL_BAD_SHORT_FRAME] = "short_frame",
	[NULL_BAD_NOT_IPV4] = "not_ipv4", [NULL_BAD_IP_LENGTH] = "ip_length",
	[NULL_BAD_NOT_UDP] = "not_udp",   [NULL_BAD_UDP_LENGTH] = "udp_length",
	[NULL_BAD_CHECKSUM] = "checksum",
};

static const char *const pattern_name[] = {
	[NULL_PATTERN_UDP] = "udp",
	[NULL_PATTERN_CRC] = "crc",
	[NULL_PATTERN_COUNTER] = "counter",
};

static void null_put16(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

/* 0x82f63b78 is the polynomial with its bits reversed. */
static uint32_t null_crc32c(const uint8_t *p, uint32_t len)
{
	uint32_t crc = ~0u;

	for (uint32_t i = 0; i < len; i++) {
		crc ^= p[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
	}
	return ~crc;
}

static void null_write_eth(uint8_t *p, enum null_bad bad)
{
	static const uint8_t addr[12] = {0x02, 0, 0, 0, 0, 0x02, 0x02, 0, 0, 0, 0, 0x01};

	memcpy(p, addr, sizeof(addr));
	null_put16(p + 12, bad == NULL_BAD_NOT_IPV4
				   ? 0x88b5
				   : 0x0800); /* 0x88b5: IEEE 802 local experimental */
}

/* The header checksum is computed after the field that may be spoiled, so that only that field is
 * wrong. */
static void null_write_ip(uint8_t *p, uint32_t total, enum null_bad bad)
{
	static const uint8_t addr[8] = {10, 0, 0, 1, 10, 0, 0, 2};
	uint32_t sum = 0;

	memset(p, 0, IP_BYTES);
	p[0] = 0x45;
	null_put16(p + 2, bad == NULL_BAD_IP_LENGTH ? total + 1 : total);
	p[6] = 0x40; /* do not fragment */
	p[8] = 64;
	p[9] = bad == NULL_BAD_NOT_UDP ? 6 : 17;
	memcpy(p + 12, addr, sizeof(addr));
	for (uint32_t i = 0; i < IP_BYTES; i += 2)
		sum += spw_be16_load(p + i);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	null_put16(p + 10, ~sum & 0xffff);
}

/* Source port 1024 + flow: the flow of a frame can be read from its bytes. */
static void null_write_udp(uint8_t *p, uint32_t len, uint32_t flow, enum null_bad bad)
{
	null_put16(p, 1024 + flow);
	null_put16(p + 2, 9);
	null_put16(p + 4, bad == NULL_BAD_UDP_LENGTH ? len + 1 : len);
	null_put16(p + 6, 0);
}

/* Counting bytes, different for each flow; pattern=crc ends with the CRC-32C that handler crc32c
 * checks. */
static void null_write_payload(uint8_t *p, uint32_t len, uint32_t flow, enum null_pattern pattern,
			       enum null_bad bad)
{
	uint32_t crc;

	for (uint32_t i = 0; i < len; i++)
		p[i] = (uint8_t)(flow + i);
	if (pattern != NULL_PATTERN_CRC || len < 4)
		return;
	crc = null_crc32c(p, len - 4);
	if (bad == NULL_BAD_CHECKSUM)
		crc ^= 1;
	for (uint32_t i = 0; i < 4; i++)
		p[len - 4 + i] = (uint8_t)(crc >> (8 * i));
}

/* A short frame is a whole one of which less is lent. */
uint32_t null_frame_write(uint8_t *dst, uint32_t len, uint32_t flow, enum null_pattern pattern,
			  enum null_bad bad)
{
	null_write_eth(dst, bad);
	null_write_ip(dst + ETH_BYTES, len - ETH_BYTES, bad);
	null_write_udp(dst + ETH_BYTES + IP_BYTES, len - ETH_BYTES - IP_BYTES, flow, bad);
	null_write_payload(dst + NULL_HEADER_BYTES, len - NULL_HEADER_BYTES, flow, pattern, bad);
	return bad == NULL_BAD_SHORT_FRAME ? SHORT_BYTES : len;
}

int null_pattern_parse(const char *name, enum null_pattern *pattern_out)
{
	for (unsigned i = 0; i < SPW_ARRAY_CNT(pattern_name); i++) {
		if (!strcmp(name, pattern_name[i])) {
			*pattern_out = (enum null_pattern)i;
			return 0;
		}
	}
	return spw_err(EINVAL, "pattern=%s is not known: use udp, crc or counter", name);
}

int null_bad_parse(const char *name, enum null_bad *bad_out)
{
	for (unsigned i = 0; i < NULL_BAD_CNT; i++) {
		if (!strcmp(name, bad_name[i])) {
			*bad_out = (enum null_bad)i;
			return 0;
		}
	}
	return spw_err(EINVAL,
		       "bad=%s is not known: use none, short_frame, not_ipv4, ip_length, not_udp, "
		       "udp_length or checksum",
		       name);
}
