/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Sends a UDP frame back from its own slot: MAC addresses, IP addresses and UDP ports are swapped.
 * No checksum changes, since a sum does not depend on the order of its terms. An RDMA message has
 * no addresses: it is sent back unchanged, and the port knows its peer. A frame to or from a group
 * (broadcast, multicast) has no echo, whose source or destination would be that group: bad, reason
 * handler. Sources: IEEE 802, I/G bit; RFC 1122, 3.2.1.3.
 */
#include "exec/handlers/ipv4_udp.h"

#define SPW_ECHO_PAIRS 12u /* 6 of the MAC, 4 of the IP address, 2 of the port */

/* The first byte of pair i, and the distance to its partner. */
SPW_HD SPW_INLINE void spw_echo_pair(uint32_t i, uint32_t udp, uint32_t *at_out,
				     uint32_t *distance_out)
{
	*at_out = i < 6 ? i : i < 10 ? SPW_ETH_BYTES + 12 + (i - 6) : udp + (i - 10);
	*distance_out = i < 6 ? 6 : i < 10 ? 4 : 2;
}

#define SPW_IPV4_GROUP 224u /* of the first byte: multicast, reserved, broadcast */

SPW_HD SPW_INLINE bool spw_echo_group(struct spw_window win)
{
	return (spw_window_u8(win, 0) & 1) | (spw_window_u8(win, 6) & 1) |
	       (spw_window_u8(win, SPW_ETH_BYTES + 12) >= SPW_IPV4_GROUP) |
	       (spw_window_u8(win, SPW_ETH_BYTES + 16) >= SPW_IPV4_GROUP);
}

SPW_HANDLER_BODY(echo)(const struct spw_frame *frame, struct spw_lanes lanes)
{
	struct spw_window win;
	struct spw_udp_at found;

	if (frame->flags & SPW_DESC_MSG)
		return spw_echo(0);
	win = spw_window_load(frame, lanes);
	found = spw_udp_find(frame, win);
	if (found.bad >= 0)
		return spw_bad((enum spw_bad)found.bad);
	if (spw_echo_group(win))
		return spw_bad(SPW_BAD_handler);
	for (uint32_t first = 0; first < SPW_ECHO_PAIRS; first += lanes.cnt) {
		uint32_t i = first + lanes.idx, at, distance, a, b;

		spw_echo_pair(i < SPW_ECHO_PAIRS ? i : 0, found.udp, &at, &distance);
		a = spw_window_u8(win, at);
		b = spw_window_u8(win, at + distance);
		if (i >= SPW_ECHO_PAIRS)
			continue;
		spw_frame_put_u8(frame, at, b);
		spw_frame_put_u8(frame, at + distance, a);
	}
	return spw_echo(0);
}
