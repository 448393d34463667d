/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The messages of the exchange by which two sides agree on a reliable connection, over a channel of
 * lib/oob. Pure: bytes in, numbers out. exchange.c drives it; nothing here touches a socket or a
 * QP.
 *
 *   client                                server
 *            both at once: protocol, version, nonce (oob/spw_oob_channel.h)
 *   OFFER   parameters             ->     the first message, by which the door lets it in
 *                                  <-     ACCEPT     parameters
 *                                      or REJECT     reason, value
 *   READY                          ->
 *
 * The TCP connection then stays open; its end is the end of the peer. The channel proves of each
 * message that its sender knows the secret; until OFFER has proved it of the client, the server
 * reveals nothing but a nonce.
 *
 * Every message, big-endian:
 *   0   u8  type               enum peer_msg_type
 *   1   u8[3] 0
 *   4   the fields of the type: struct peer_params in its order; or u16 reason, u16 0, u32 value
 */
#ifndef SPW_PEER_MESSAGE_H
#define SPW_PEER_MESSAGE_H

#include "oob/spw_oob_channel.h"

/* Another version may have other messages, or other fields in them. */
static const struct spw_oob_proto peer_proto = {"SPWR", 3};

#define PEER_MSG_HEAD_BYTES 4u
#define PEER_PARAMS_BYTES   68u
#define PEER_MSG_MAX_BYTES  (PEER_MSG_HEAD_BYTES + PEER_PARAMS_BYTES)

enum peer_msg_type { PEER_MSG_OFFER = 1, PEER_MSG_ACCEPT, PEER_MSG_REJECT, PEER_MSG_READY };

/* Why a server rejects an offer; the comment is what `value` carries. */
enum peer_reject {
	PEER_REJECT_OP = 2,
	PEER_REJECT_RING,
	PEER_REJECT_FULL,
	PEER_REJECT_GID,
	PEER_REJECT_HOST
};

/* What each side offers: its QP, its limits and, with op=write, where the other may write. */
struct peer_params {
	uint32_t qpn, psn; /* 24 bits each */
	uint8_t gid[16];
	uint16_t mtu;         /* path MTU in bytes; the smaller one of both sides holds */
	uint8_t op;           /* enum spw_peer_op, of both directions */
	uint8_t reserved;     /* 0 */
	uint32_t credit_cnt;  /* 1 .. SPW_PEER_CREDIT_MAX; also the credits to start with */
	uint32_t slot_bytes;  /* longest message, 1 .. 2^26 + 2^16 */
	uint32_t slot_stride; /* op=write: bytes from one slot to the next, >= slot_bytes. This
			       * field and all below are 0 with op=send */
	uint32_t slot_rkey;
	uint64_t slot_addr;
	uint64_t ring_addr;
	uint32_t ring_rkey;
	uint32_t ring_cnt; /* a power of 2 */
};

struct peer_msg {
	enum peer_msg_type type;
	struct peer_params params; /* OFFER, ACCEPT */
	uint16_t reason;           /* REJECT: enum peer_reject */
	uint32_t value;            /* REJECT: the value of the side that rejects */
};

/* Purpose: decodes a whole message and checks the range of every value.
 * Returns: 0 or -EPROTO. Without an error text. */
int peer_msg_parse(const uint8_t *bytes, size_t len, struct peer_msg *msg_out);

/* Purpose: encodes a message.
 * Shape: bytes_out holds PEER_MSG_MAX_BYTES.
 * Returns: the length. */
size_t peer_msg_encode(const struct peer_msg *msg, uint8_t *bytes_out);

/* Returns: the length of messages of this type; 0 for an unknown type. */
size_t peer_msg_bytes(enum peer_msg_type type);

#endif
