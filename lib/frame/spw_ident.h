/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The 18 bytes by which spinwire-gen marks each frame it sends, big-endian. The generator finds its
 * frames again by them; the data plane reads them from a slow frame, so that both ends can name the
 * same frame. They stand at the start of the UDP payload of an Ethernet frame, or at the start of
 * an RDMA message.
 *
 *   byte   0       2         3      4     6      8      12                              18
 *          magic   version   flags  run   flow   seq    due                             number
 *          0x5357  u8        u8     u16   u16    u32    u48, ns since the run began     u32
 *
 * seq counts the frames of a flow. With bit SPW_IDENT_STREAM of flags, `number` counts the frames
 * of a stream, which is all flows of one sender; its top four bits are the sender. Without it the
 * mark ends at 18.
 */
#ifndef SPW_FRAME_IDENT_H
#define SPW_FRAME_IDENT_H

#include "base/spw_types.h"

#define SPW_IDENT_MAGIC        0x5357u
#define SPW_IDENT_VERSION      1u
#define SPW_IDENT_BYTES        18u
#define SPW_IDENT_ETH_OFFSET   42u /* Ethernet 14, IPv4 without options 20, UDP 8 */
#define SPW_IDENT_STREAM       1u  /* of flags */
#define SPW_IDENT_STREAM_BYTES 22u /* of a mark with `number` */
#define SPW_IDENT_STREAM_CNT   16u /* senders that flags can name */

struct spw_ident {
	uint16_t run, flow;
	uint32_t seq;
};

/* Purpose: reads the mark at `at`.
 * Shape: SPW_IDENT_BYTES readable.
 * Returns: false if there is no mark; ident_out is then unchanged.
 * Thread: any.
 */
SPW_INLINE bool spw_ident_read(const uint8_t *at, struct spw_ident *ident_out)
{
	uint64_t v;

	if ((spw_be32_load(at) & 0xffffff00) != (SPW_IDENT_MAGIC << 16 | SPW_IDENT_VERSION << 8))
		return false;
	v = spw_be64_load(at + 4);
	ident_out->run = (uint16_t)(v >> 48);
	ident_out->flow = (uint16_t)(v >> 32);
	ident_out->seq = (uint32_t)v;
	return true;
}

/* Purpose: the stream of a mark, and the frame's number in it.
 * Shape: spw_ident_read found the mark; SPW_IDENT_STREAM_BYTES readable.
 * Returns: false if it has none.
 * Thread: any.
 */
SPW_INLINE bool spw_ident_stream(const uint8_t *at, uint32_t *stream_out, uint32_t *number_out)
{
	*stream_out = at[3] >> 4;
	*number_out = spw_be32_load(at + SPW_IDENT_BYTES);
	return at[3] & SPW_IDENT_STREAM;
}

/* Purpose: whether a frame is UDP over IPv4 without options, by its first 24 bytes.
 * Shape: SPW_IDENT_ETH_OFFSET readable.
 * Thread: any.
 */
SPW_INLINE bool spw_ident_is_udp(const uint8_t *frame)
{
	return (spw_be32_load(frame + 12) & 0xffffff00) == 0x08004500 && frame[23] == 17;
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
	bool is_udp = bytes >= SPW_IDENT_ETH_OFFSET + SPW_IDENT_BYTES && spw_ident_is_udp(frame);

	if (is_udp && spw_ident_read(frame + SPW_IDENT_ETH_OFFSET, ident_out))
		return true;
	return message && bytes >= SPW_IDENT_BYTES && spw_ident_read(frame, ident_out);
}

#endif
