/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Private to port/null: the frames it makes.
 */
#ifndef SPW_NULL_IMPL_H
#define SPW_NULL_IMPL_H

#include "base/spw_types.h"

#define NULL_HEADER_BYTES 42u /* Ethernet, IPv4 without options, UDP */

enum null_pattern {
	NULL_PATTERN_UDP, /* payload of counting bytes */
	NULL_PATTERN_CRC, /* the payload's last 4 bytes are the CRC-32C of those before them, lowest
			     byte first */
	NULL_PATTERN_COUNTER, /* the payload's first 8 bytes are the frame's number, big-endian */
};

/* Frames that are wrong in one way; the names are those of the handlers' reasons
 * (exec/spw_gring.h). */
enum null_bad {
	NULL_BAD_NONE,
	NULL_BAD_SHORT_FRAME,
	NULL_BAD_NOT_IPV4,
	NULL_BAD_IP_LENGTH,
	NULL_BAD_NOT_UDP,
	NULL_BAD_UDP_LENGTH,
	NULL_BAD_CHECKSUM,
	NULL_BAD_CNT
};

/* Purpose: writes one Ethernet + IPv4 + UDP frame of len bytes at dst, 10.0.0.1 -> 10.0.0.2,
 *          UDP port 9 as destination and 1024 + flow as source, wrong in the way that bad says.
 * Shape:   len 46 .. 65535; flow 0 .. 60000.
 * Returns: the length to lend, len unless bad is SHORT_FRAME. */
uint32_t null_frame_write(uint8_t *dst, uint32_t len, uint32_t flow, enum null_pattern pattern,
			  enum null_bad bad);

/* -EINVAL with the names. */
int null_pattern_parse(const char *name, enum null_pattern *pattern_out);
int null_bad_parse(const char *name, enum null_bad *bad_out);

#endif
