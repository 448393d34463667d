/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The generator's frame: Ethernet, IPv4, UDP, then 18 bytes that say which frame it is and when it was due, zeros, and a
 * CRC-32C of the UDP payload before it in the payload's last four bytes, low byte first: the trailer that the crc32c
 * handler checks (gpu/handlers). All of it fits 64 bytes, so rates of smallest frames are measured with checked frames too.
 *
 *   UDP payload    0 be16 magic 0x5357    2 u8 version    3 u8 0    4 be16 run    6 be16 flow    8 be32 seq
 *                 12 be48 due, ns since the start of the run          18 zeros          last 4: CRC-32C
 *
 * A flow is a UDP source port (GEN_FLOW_PORT + flow), so RSS spreads flows. An echo comes back with MAC, IP and UDP
 * addresses swapped and everything from the UDP length on unchanged. Where a port carries RDMA messages, a message is the
 * UDP payload alone, of the same 64 bytes and more.
 */
#ifndef SPW_GEN_FRAME_H
#define SPW_GEN_FRAME_H

#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_udp.h>

#include "base/spw_ident.h"
#include "base/spw_types.h"

#define GEN_MAGIC     SPW_IDENT_MAGIC
#define GEN_VERSION   SPW_IDENT_VERSION
#define GEN_UDP_PORT  5357u /* of the sink */
#define GEN_FLOW_PORT 16384u
#define GEN_FLOW_MAX  32768u
#define GEN_CRC_BYTES 4u

struct gen_stamp {
	uint16_t magic_be;
	uint8_t version;
	uint8_t zero;
	uint16_t run_be;
	uint16_t flow_be;
	uint32_t seq_be;
	uint16_t due_hi_be;
	uint32_t due_lo_be;
} SPW_PACKED;
SPW_ASSERT_SIZE(struct gen_stamp, SPW_IDENT_BYTES);

struct gen_headers {
	struct rte_ether_hdr eth;
	struct rte_ipv4_hdr ip;
	struct rte_udp_hdr udp;
	struct gen_stamp stamp;
} SPW_PACKED;
SPW_ASSERT_SIZE(struct gen_headers, 60);

#define GEN_PAYLOAD_OFFSET (sizeof(struct gen_headers) - sizeof(struct gen_stamp))
SPW_ASSERT_OFFSET(struct gen_headers, stamp, SPW_IDENT_ETH_OFFSET);

struct gen_frame_conf {
	struct rte_ether_addr src_mac, dst_mac;
	uint32_t src_ip, dst_ip; /* CPU order */
	uint16_t run;
};

/* What one received frame turned out to be. */
enum gen_kind {
	GEN_KIND_ECHO,      /* ours, whole, of this run */
	GEN_KIND_CORRUPTED, /* ours by its magic, but the CRC does not fit */
	GEN_KIND_OLD_RUN,   /* whole, of another run */
	GEN_KIND_FOREIGN,   /* not a generator's frame */
};

struct gen_seen_frame {
	enum gen_kind kind;
	uint16_t flow;
	uint32_t seq;
	uint64_t due_ns;
};

/* Purpose: everything that is the same in all frames. Thread: setup. */
void gen_frame_template(const struct gen_frame_conf *conf, struct gen_headers *headers_out);

/* Purpose: writes one frame, or one message, of `bytes` (64 .. GEN_SIZE_MAX, FCS not counted) at `at`. Thread: owner. */
typedef void gen_frame_write_fn(const struct gen_headers *headers, uint8_t *at, uint16_t bytes, uint16_t flow, uint32_t seq,
				uint64_t due_ns);
gen_frame_write_fn gen_frame_write, gen_message_write;

/* Purpose: what a received frame, or a message (message true), is. Never reads beyond bytes. flow, seq and due_ns are valid
 * unless FOREIGN; a corrupted frame's may be any value. Thread: owner. */
void gen_frame_read(const uint8_t *at, uint32_t bytes, bool message, uint16_t run, struct gen_seen_frame *seen_out);

#endif
