/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The generator's frame: Ethernet, IPv4, UDP, and a UDP payload that identifies the frame:
 *
 *   payload   0       2         3      4     6      8      12     18             last 4
 *             magic   version   flags  run   flow   seq    due    number, zeros  CRC-32C
 *             be16    u8        u8     be16  be16   be32   be48   be32           little endian
 *
 * The first 18 bytes are spw_ident (frame/spw_ident.h); due is in ns since the start of the run.
 * The CRC-32C covers the payload before it; it is the trailer that the crc32c handler checks
 * (exec/handlers). All of it fits into 64 bytes, so frames of the smallest size are checked too.
 * `number` counts the frames of a sender, all flows together, for a receiver that restores the
 * order of the stream; it is there only if flags name the stream, and needs frames of
 * GEN_STREAM_SIZE_MIN bytes.
 *
 * A flow is a UDP source port (GEN_FLOW_PORT + flow), so RSS spreads flows over queues. An echo has
 * MAC, IP and UDP addresses swapped, and is unchanged from the UDP length on. On a port of RDMA
 * messages, a message is the UDP payload alone, of 64 bytes and more.
 */
#ifndef SPW_GEN_FRAME_H
#define SPW_GEN_FRAME_H

#include <net/ethernet.h>
#include <netinet/ip.h>
#include <netinet/udp.h>

#include "frame/spw_ident.h"
#include "base/spw_types.h"

#define GEN_MAGIC           SPW_IDENT_MAGIC
#define GEN_VERSION         SPW_IDENT_VERSION
#define GEN_UDP_PORT        5357u /* of the sink */
#define GEN_FLOW_PORT       16384u
#define GEN_FLOW_MAX        32768u
#define GEN_CRC_BYTES       4u
#define GEN_STREAM_SIZE_MIN 68u /* of an Ethernet frame with a stream number */

/* The mark, as it stands at the beginning of the UDP payload: big-endian, unaligned. Source:
 * frame/spw_ident.h. */
struct gen_stamp {
	uint16_t magic_be;
	uint8_t version;
	uint8_t flags;
	uint16_t run_be;
	uint16_t flow_be;
	uint32_t seq_be;
	uint16_t due_hi_be;
	uint32_t due_lo_be;
} SPW_PACKED;
SPW_ASSERT_SIZE(struct gen_stamp, SPW_IDENT_BYTES);

/* What a sender keeps ready; all of it is copied in front of each frame's payload. Packed: the 14
 * bytes of Ethernet leave everything behind them unaligned. */
struct gen_headers {
	struct ether_header eth;
	struct iphdr ip;
	struct udphdr udp;
	struct gen_stamp stamp;
} SPW_PACKED;
SPW_ASSERT_SIZE(struct gen_headers, 60);

#define GEN_PAYLOAD_OFFSET (sizeof(struct gen_headers) - sizeof(struct gen_stamp))
SPW_ASSERT_OFFSET(struct gen_headers, stamp, SPW_IDENT_ETH_OFFSET);

/* What the user chose for the frames of a run. MAC addresses of 0 are filled in before the first
 * frame. */
struct gen_frame_conf {
	uint8_t src_mac[ETH_ALEN], dst_mac[ETH_ALEN];
	uint32_t src_ip, dst_ip; /* CPU order */
	uint16_t run;
	bool stream; /* frames have a stream number */
};

/* What differs between two frames of a sender. */
struct gen_mark {
	uint16_t flow;
	uint32_t seq, number; /* in the flow; in the stream, or 0 */
	uint64_t due_ns;
};

/* How a received frame is classified. */
enum gen_kind {
	GEN_KIND_ECHO,      /* ours, intact, of this run */
	GEN_KIND_CORRUPTED, /* ours by its magic, but the CRC does not match */
	GEN_KIND_OLD_RUN,   /* intact, of another run */
	GEN_KIND_FOREIGN,   /* not a generator's frame */
};

/* What gen_frame_read found in a frame. */
struct gen_seen_frame {
	enum gen_kind kind;
	uint16_t flow;
	uint32_t seq;
	uint64_t due_ns;
};

/* Purpose: fills in what all frames of a sender have in common.
 * Shape: sender below GEN_SENDER_MAX; conf->stream: it is the stream.
 * Thread: setup.
 */
void gen_frame_template(const struct gen_frame_conf *conf, uint32_t sender,
			struct gen_headers *headers_out);

/* Purpose: writes one frame (gen_frame_write) or one message (gen_message_write).
 * Shape: `bytes` from 64 to GEN_SIZE_MAX, without FCS, writable at `at`.
 * Thread: owner.
 */
typedef void gen_frame_write_fn(const struct gen_headers *headers, uint8_t *at, uint16_t bytes,
				const struct gen_mark *mark);
gen_frame_write_fn gen_frame_write, gen_message_write;

/* Purpose: classifies a received frame, or a message if `message`, and reads its identity.
 * Shape: `bytes` readable at `at`; nothing beyond is read. flow, seq and due_ns are valid unless
 *   the kind is FOREIGN; those of a CORRUPTED frame may have any value.
 * Thread: owner.
 */
void gen_frame_read(const uint8_t *at, uint32_t bytes, bool message, uint16_t run,
		    struct gen_seen_frame *seen_out);

#endif
