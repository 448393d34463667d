/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What two endpoints of lib/xfer send each other: frames over TCP, grants and immediates over the
 * rails. Pure: bytes in, checked numbers out.
 *
 *   client                                      server
 *            both at once: protocol, version, nonce (oob/spw_oob_channel.h)
 *   OFFER    key of the handle, its devices ->  the first message, by which the door lets it in
 *                                         <-    ACCEPT     its devices; or REJECT reason
 *   then for each rail, now and whenever it rejoins:
 *   RAIL     index, generation, pair, QP  ->
 *                                         <-    RAIL       the same of its side
 *   and at any time, in both directions:
 *   DOWN     a rail is out of service, and the receiver's state (fail.c)
 *   WINDOW   an exposed region
 *
 * A device's number is its place in OFFER or ACCEPT, the same for all connections of an endpoint;
 * grants and windows name keys by it. Which two devices make a rail is the client's choice
 * (round.c): it may name another pair in each generation of the rail.
 *
 * The TCP connection stays open; its end is the end of the connection. Every frame is a message of
 * a channel, with a MAC, so that none can be replayed, moved or turned back.
 *
 * Every frame, big-endian:
 *   0   u8  type               its length is fixed by the type
 *   1   u8[3] 0
 *   4   the fields of struct xfer_frame that the type has, in their order
 *
 * An immediate, from bit 31 down:
 *   kind 4 | slot 6 | 0 2 | rails 4 | generation 4 | size 4 | lap 8
 *   GRANT: the grant of this slot was written; lap: bits 6 .. 13 of its sequence number.
 *   FIN:   all that the message in this slot writes over this rail was written before. `rails` are
 *          those that end it; `generation` counts failures of rails (fail.c).
 *   PROBE: this rail works; all other fields are 0.
 */
#ifndef SPW_XFER_WIRE_H
#define SPW_XFER_WIRE_H

#include <netinet/in.h>

#include "oob/spw_oob_channel.h"
#include "xfer/spw_xfer.h"

#define XFER_VERSION     5u /* of frames and handles */
#define XFER_HEAD_BYTES  4u
#define XFER_KEY_BYTES   16u
#define XFER_SLOT_CNT    SPW_XFER_REQ_MAX
#define XFER_NO_SEQ      UINT32_MAX /* slot without an open message */
#define XFER_FRAME_MAX   (XFER_HEAD_BYTES + 12u + XFER_SLOT_CNT * 4u)
#define XFER_GRANT_BYTES 64u

static const struct spw_oob_proto xfer_proto = {"SPWX", XFER_VERSION};

enum xfer_frame_type {
	XFER_FRAME_OFFER = 1,
	XFER_FRAME_ACCEPT,
	XFER_FRAME_REJECT,
	XFER_FRAME_RAIL,
	XFER_FRAME_DOWN,
	XFER_FRAME_WINDOW,
	XFER_FRAME_CNT
};

enum xfer_reject { XFER_REJECT_KEY = 1, XFER_REJECT_RAILS };

/* One device, as its owner describes it. */
struct xfer_end {
	uint8_t gid[16];   /* zeros: it is gone, and its number stays */
	uint16_t mtu;      /* 256 .. 4096, a power of 2 */
	uint16_t prefix;   /* bits of gid that its subnet shares, 1 .. 128; 0: the address is
			    * link-local, so it does not show which cable leads to it */
	uint16_t in_order; /* 1: its device stores the bytes of a WRITE in the order of their
			    * addresses, as CPUs find them; 0: unknown */
	uint16_t read_max; /* RDMA READs and atomics that it takes at a time, 1 .. 255 */
	uint32_t rkey;     /* of this side's mailbox, over this device */
};

struct xfer_frame {
	enum xfer_frame_type type;
	union {
		struct {
			uint8_t key[XFER_KEY_BYTES];        /* OFFER; zeros: none */
			uint64_t box_addr;                  /* of the mailbox, connection.h */
			uint8_t export_key[XFER_KEY_BYTES]; /* of the endpoint's blobs */
			uint32_t dev_cnt;                   /* 1 .. SPW_XFER_RAIL_MAX */
			struct xfer_end end[SPW_XFER_RAIL_MAX];
		} offer; /* OFFER, ACCEPT */
		struct {
			uint32_t reason;
		} reject;
		struct {
			uint32_t rail, qp_generation; /* counts the QPs of this rail, from 1 */
			uint32_t qpn, psn;
			uint32_t rail_cnt;             /* of the connection so far */
			uint32_t client_dev, peer_dev; /* the pair: numbers of devices */
		} rail;
		struct {
			uint32_t rail, qp_generation;
			uint32_t generation;
			uint32_t open[XFER_SLOT_CNT]; /* by slot: the sequence number of the
						       * message that is not complete */
		} down;
		struct {
			uint32_t idx;
			uint32_t is_host; /* 1: memory that CPUs poll; 0: a GPU's */
			uint64_t addr, bytes;
			uint32_t rkey[SPW_XFER_RAIL_MAX]; /* by device of its owner */
		} window;
	};
};

/* Purpose: decodes a whole frame, and checks the range of every value.
 * Returns: 0 or -EPROTO. Without an error text. */
int xfer_wire_parse(const uint8_t *bytes, size_t len, struct xfer_frame *frame_out);
/* Purpose: encodes a frame.
 * Shape: bytes_out holds XFER_FRAME_MAX.
 * Returns: the length. */
size_t xfer_wire_encode(const struct xfer_frame *frame, uint8_t *bytes_out);

/* ---- handles ---- */

#define XFER_ADDRESS_MAX 5u

/* Where a listener can be reached: the client tries one address after the other (dial.c). */
struct xfer_address {
	struct sockaddr_in6 addr[XFER_ADDRESS_MAX]; /* IPv4 is mapped */
	uint32_t addr_cnt;                          /* 1 .. XFER_ADDRESS_MAX */
	uint8_t key[XFER_KEY_BYTES];                /* zeros: none */
};

void xfer_wire_handle_put(const struct xfer_address *at, struct spw_xfer_handle *handle_out);
/* Returns: 0; -EINVAL, with a text: it is no handle. */
int xfer_wire_handle_get(const struct spw_xfer_handle *handle, struct xfer_address *at_out);

/* ---- blobs ---- */

#define XFER_EXPORT_MAX ((1ull << 39) - 1) /* bytes of a memory */

/* An exported memory. */
struct xfer_export {
	uint64_t addr, bytes;             /* 1 .. XFER_EXPORT_MAX; their sum does not overflow */
	uint32_t rkey[SPW_XFER_RAIL_MAX]; /* by device of its owner; 0: that is gone */
	bool is_host;                     /* as of a WINDOW */
};

/* export_key: of the endpoint that has the memory. */
void xfer_wire_blob_put(const struct xfer_export *e, const uint8_t export_key[XFER_KEY_BYTES],
			struct spw_xfer_blob *blob_out);
/* Returns: 0; -EINVAL, with a text: it is no blob of this endpoint. */
int xfer_wire_blob_get(const uint8_t *bytes, size_t len, const uint8_t export_key[XFER_KEY_BYTES],
		       struct xfer_export *e_out);

/* ---- grants, in memory that the peer's NIC writes ---- */

struct xfer_grant {
	spw_be64 addr, bytes;
	spw_be32 rkey[SPW_XFER_RAIL_MAX]; /* by device of the receiver */
	spw_be32 tag, seq, generation;
	uint32_t unused[5];
};
SPW_ASSERT_SIZE(struct xfer_grant, XFER_GRANT_BYTES);

/* ---- immediates ---- */

#define XFER_GENERATIONS 16u /* an immediate has the lowest bits of one */

enum xfer_imm_kind { XFER_IMM_GRANT = 1, XFER_IMM_FIN, XFER_IMM_PROBE };

/* How a FIN states the length of its message. */
enum xfer_size {
	XFER_SIZE_FULL,     /* as granted */
	XFER_SIZE_CHUNK,    /* the one WRITE that carries this immediate */
	XFER_SIZE_RECORD,   /* in the receiver's mailbox */
	XFER_SIZE_TOO_LONG, /* longer than granted: nothing was written */
	XFER_SIZE_CNT
};

struct xfer_imm {
	uint8_t kind, slot, rails, generation, size, lap;
};

SPW_INLINE uint32_t xfer_imm_put(struct xfer_imm i)
{
	return (uint32_t)i.kind << 28 | (uint32_t)i.slot << 22 | (uint32_t)i.rails << 16 |
	       (uint32_t)(i.generation % XFER_GENERATIONS) << 12 | (uint32_t)i.size << 8 | i.lap;
}

SPW_INLINE struct xfer_imm xfer_imm_get(uint32_t v)
{
	return (struct xfer_imm){.kind = (uint8_t)(v >> 28),
				 .slot = v >> 22 & (XFER_SLOT_CNT - 1),
				 .rails = v >> 16 & 15u,
				 .generation = v >> 12 & 15u,
				 .size = v >> 8 & 15u,
				 .lap = (uint8_t)v};
}

SPW_INLINE uint32_t xfer_slot_of(uint32_t seq)
{
	return seq & (XFER_SLOT_CNT - 1);
}

SPW_INLINE uint8_t xfer_lap_of(uint32_t seq)
{
	return (uint8_t)(seq / XFER_SLOT_CNT);
}

#endif
