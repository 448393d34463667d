/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Finds the UDP payload of an Ethernet frame; every length is checked before a byte that depends on
 * it is used. Sources: RFC 791 (IHL, total length, fragments), RFC 768 (length), IEEE 802.3
 * (padding after the packet). */
#ifndef EXEC_HANDLERS_IPV4_UDP_H
#define EXEC_HANDLERS_IPV4_UDP_H

#include "exec/spw_handler.h"

#define SPW_ETH_BYTES      14u
#define SPW_IPV4_BYTES_MIN 20u
#define SPW_UDP_BYTES      8u

struct spw_udp_at {
	int bad;              /* enum spw_bad, or -1 if the frame is good */
	uint32_t udp;         /* offset of the UDP header in the frame */
	uint32_t payload_len; /* bytes after the UDP header */
};

/* Purpose: finds the UDP header and payload. win: the frame's window. Collective. */
SPW_HD SPW_INLINE struct spw_udp_at spw_udp_find(const struct spw_frame *frame,
						 struct spw_window win)
{
	struct spw_udp_at at = {-1, 0, 0};
	uint32_t room = frame->len - SPW_ETH_BYTES, ihl, total, udp_len;

	if (frame->len < SPW_ETH_BYTES + SPW_IPV4_BYTES_MIN) {
		at.bad = SPW_BAD_short_frame;
		return at;
	}
	ihl = (spw_window_u8(win, 14) & 15) * 4;
	total = spw_window_be16(win, 16);
	if (spw_window_be16(win, 12) != 0x0800 || spw_window_u8(win, 14) >> 4 != 4)
		at.bad = SPW_BAD_not_ipv4;
	else if (ihl < SPW_IPV4_BYTES_MIN || total < ihl || total > room)
		at.bad = SPW_BAD_ip_length;
	else if (spw_window_u8(win, 23) != 17 || (spw_window_be16(win, 20) & 0x3fff))
		at.bad = SPW_BAD_not_udp; /* other protocol, or a fragment */
	else if (total - ihl < SPW_UDP_BYTES)
		at.bad = SPW_BAD_udp_length;
	if (at.bad >= 0)
		return at;
	udp_len = spw_window_be16(win, SPW_ETH_BYTES + ihl + 4);
	if (udp_len < SPW_UDP_BYTES || udp_len > total - ihl)
		at.bad = SPW_BAD_udp_length;
	at.udp = SPW_ETH_BYTES + ihl;
	at.payload_len = udp_len - SPW_UDP_BYTES;
	return at;
}

#endif
