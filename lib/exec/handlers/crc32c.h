/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Checks a trailer: the last four bytes of the payload are the CRC-32C (RFC 3720, appendix B.4:
 * reflected, polynomial 0x1edc6f41, first and final inversion) of the payload bytes before them,
 * least significant byte first. The payload is a UDP datagram's, or with SPW_DESC_MSG the whole
 * message. The digest is the sum of the correct CRCs.
 *
 * On the device each lane folds its own 16-byte cells: a register holds sum(cell *
 * x^n) in GF(2)[x]/P, so a lane skips the cells of other lanes by one multiplication by a constant,
 * and the lanes' registers are added up after each was shifted to its place. Cells before the frame
 * and bytes past its end are zeros: leading zeros change nothing, trailing ones shift the register,
 * and the trailer is shifted by as much before it is compared. */
#ifndef EXEC_HANDLERS_CRC32C_H
#define EXEC_HANDLERS_CRC32C_H

#include "exec/handlers/ipv4_udp.h"

#define SPW_CRC32C_POLY 0x82f63b78u /* bit 31 is x^0, bit 0 is x^31 */

#ifdef __cplusplus
extern "C" {
#endif
/* Purpose: CRC-32C of len bytes on the host.
 * Shape:   crc is 0, or the value of the bytes before.
 * Thread:  any. */
uint32_t spw_crc32c(uint32_t crc, const void *data, size_t len);
#ifdef __cplusplus
}
#endif

#define SPW_CRC32C_TRAILER 4u

#ifdef __CUDA_ARCH__
#include "exec/handlers/crc32c_dev.cuh"
#endif

/* Purpose: whether the CRC of the part equals trailer; every lane gets the same answer. Collective.
 */
SPW_HD SPW_INLINE bool spw_crc32c_matches(const struct spw_frame *part, struct spw_lanes lanes,
					  uint32_t trailer)
{
#ifdef __CUDA_ARCH__
	return spwd_crc32c_matches(part, lanes, trailer);
#else
	(void)lanes;
	return spw_crc32c(0, part->addr, part->len) == trailer;
#endif
}

SPW_HANDLER_BODY(crc32c)(const struct spw_frame *frame, struct spw_lanes lanes)
{
	uint32_t off = 0, len = frame->len, trailer;
	struct spw_frame part;

	if (!(frame->flags & SPW_DESC_MSG)) {
		struct spw_udp_at found = spw_udp_find(frame, spw_window_load(frame, lanes));

		if (found.bad >= 0)
			return spw_bad((enum spw_bad)found.bad);
		off = found.udp + SPW_UDP_BYTES;
		len = found.payload_len;
	}
	if (len < SPW_CRC32C_TRAILER)
		return spw_bad(SPW_BAD_short_frame);
	len -= SPW_CRC32C_TRAILER;
	trailer = spw_frame_u8(frame, off + len) | spw_frame_u8(frame, off + len + 1) << 8 |
		  spw_frame_u8(frame, off + len + 2) << 16 |
		  spw_frame_u8(frame, off + len + 3) << 24;
	part = spw_frame_part(frame, off, len);
	if (!spw_crc32c_matches(&part, lanes, trailer))
		return spw_bad(SPW_BAD_checksum);
	return spw_consume(trailer);
}

#endif
