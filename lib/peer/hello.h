/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The messages of the exchange over TCP, by which two sides agree on a reliable connection. Pure:
 * bytes in, numbers out. exchange.c drives it; nothing here touches a socket or a QP.
 *
 *   client                                server
 *   HELLO   nonce                  ->
 *                                  <-     CHALLENGE  nonce
 *   OFFER   parameters, MAC        ->
 *                                  <-     ACCEPT     parameters, MAC
 *                                      or REJECT     reason, value, MAC
 *   READY   MAC                    ->
 *
 * The TCP connection then stays open; its end is the end of the peer.
 *
 * A MAC is spw_oob_mac() over all bytes that either side sent before it, in order, including those
 * of its own message (the transcript). Until OFFER has proved that the client knows the secret, the
 * server reveals nothing but a nonce and answers errors by closing.
 *
 * Every message, big-endian:
 *   0   magic "SPWR"
 *   4   u16 version            magic and version keep their place in all versions
 *   6   u8  type               enum peer_msg_type
 *   7   u8  0
 *   8   u16 length of the whole message; fixed by the type
 *   10  u16 0
 *   12  the fields of the type: a nonce; or struct peer_params in its order; or u16 reason, u16 0,
 *       u32 value
 *   ..  the MAC
 */
#ifndef SPW_PEER_HELLO_H
#define SPW_PEER_HELLO_H

#include "oob/spw_oob_auth.h"

#define PEER_HELLO_VERSION    2u
#define PEER_HELLO_HEAD_BYTES 12u
#define PEER_PARAMS_BYTES     68u
#define PEER_HELLO_MAX_BYTES  (PEER_HELLO_HEAD_BYTES + PEER_PARAMS_BYTES + SPW_OOB_MAC_BYTES)
#define PEER_TRANSCRIPT_MAX_BYTES \
	(5u * PEER_HELLO_MAX_BYTES) /* both directions of a whole exchange */

enum peer_msg_type {
	PEER_MSG_HELLO = 1,
	PEER_MSG_CHALLENGE,
	PEER_MSG_OFFER,
	PEER_MSG_ACCEPT,
	PEER_MSG_REJECT,
	PEER_MSG_READY
};

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
	uint8_t nonce[SPW_OOB_NONCE_BYTES]; /* HELLO, CHALLENGE */
	struct peer_params params;          /* OFFER, ACCEPT */
	uint16_t reason;                    /* REJECT: enum peer_reject */
	uint32_t value;                     /* REJECT: the value of the side that rejects */
	uint8_t mac[SPW_OOB_MAC_BYTES];     /* all but HELLO, CHALLENGE */
};

/* Purpose: checks a header.
 * Shape: head holds PEER_HELLO_HEAD_BYTES.
 * Returns: the length of the message; -EPROTO: not this protocol; -EPROTONOSUPPORT: another
 * version, in *version_out. Without an error text. */
int peer_hello_head(const uint8_t *head, enum peer_msg_type *type_out, uint16_t *version_out);

/* Purpose: decodes a whole message and checks the range of every value.
 * Returns: 0 or -EPROTO. Without an error text. */
int peer_hello_parse(const uint8_t *bytes, size_t len, struct peer_msg *msg_out);

/* Purpose: encodes a message; its MAC is copied, not computed.
 * Shape: bytes_out holds PEER_HELLO_MAX_BYTES.
 * Returns: the length. */
size_t peer_hello_encode(const struct peer_msg *msg, uint8_t *bytes_out);

/* Returns: the length of messages of this type; 0 for an unknown type. */
size_t peer_hello_bytes(enum peer_msg_type type);

/* Returns: bytes of the MAC that ends a message of this type: 0 or SPW_OOB_MAC_BYTES. */
size_t peer_hello_mac_bytes(enum peer_msg_type type);

#endif
