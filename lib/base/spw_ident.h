/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The 18 bytes by which spinwire-gen marks each frame it sends, big-endian. The generator finds its
 * frames again by them; the data plane reads them from a slow frame, so that both ends can name the
 * same frame. They stand at the start of the UDP payload of an Ethernet frame, or at the start of
 * an RDMA message.
 *
 *   byte   0       2         3     4     6      8      12
 *          magic   version   0     run   flow   seq    due
 *          0x5357  u8        u8    u16   u16    u32    u48, ns since the run began
 */
#ifndef SPW_BASE_IDENT_H
#define SPW_BASE_IDENT_H

#include "base/spw_types.h"

#define SPW_IDENT_MAGIC      0x5357u
#define SPW_IDENT_VERSION    1u
#define SPW_IDENT_BYTES      18u
#define SPW_IDENT_ETH_OFFSET 42u /* Ethernet 14, IPv4 without options 20, UDP 8 */

struct spw_ident {
	uint16_t run, flow;
	uint32_t seq;
};

/* Purpose: a big-endian number of 1 .. 4 bytes, at any alignment.
 * Thread: any.
 */
SPW_INLINE uint32_t spw_ident_be(const uint8_t *at, uint32_t bytes)
{
	uint32_t v = 0;

	for (uint32_t i = 0; i < bytes; i++)
		v = v << 8 | at[i];
	return v;
}

/* Purpose: reads the mark at `at`.
 * Shape: SPW_IDENT_BYTES readable.
 * Returns: false if there is no mark; ident_out is then unchanged.
 * Thread: any.
 */
SPW_INLINE bool spw_ident_read(const uint8_t *at, struct spw_ident *ident_out)
{
	if (spw_ident_be(at, 2) != SPW_IDENT_MAGIC || at[2] != SPW_IDENT_VERSION)
		return false;
	ident_out->run = (uint16_t)spw_ident_be(at + 4, 2);
	ident_out->flow = (uint16_t)spw_ident_be(at + 6, 2);
	ident_out->seq = spw_ident_be(at + 8, 4);
	return true;
}

/* Purpose: finds and reads the mark of a frame (UDP over IPv4 without options) or, if message, of
 *   an RDMA message. Addresses are not compared, so an echo is found too.
 * Shape: bytes of the frame are readable; nothing beyond is read.
 * Returns: false if the frame is not the generator's.
 * Thread: any.
 */
SPW_INLINE bool spw_ident_find(const uint8_t *frame, uint32_t bytes, bool message,
			       struct spw_ident *ident_out)
{
	bool is_udp = bytes >= SPW_IDENT_ETH_OFFSET + SPW_IDENT_BYTES &&
		      spw_ident_be(frame + 12, 2) == 0x0800 && frame[14] == 0x45 && frame[23] == 17;

	if (is_udp && spw_ident_read(frame + SPW_IDENT_ETH_OFFSET, ident_out))
		return true;
	return message && bytes >= SPW_IDENT_BYTES && spw_ident_read(frame, ident_out);
}

#endif
