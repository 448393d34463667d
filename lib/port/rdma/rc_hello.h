/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The messages of the exchange over TCP, by which two sides agree on a reliable connection. Private to lib/port. Pure: bytes
 * in, numbers out.
 *
 *   client                                         server
 *   HELLO      nonce                        →
 *                                           ←      CHALLENGE  nonce
 *   OFFER      parameters, MAC              →
 *                                           ←      ACCEPT     parameters, MAC     (or REJECT  reason, value, MAC)
 *   READY      MAC                          →
 *   the connection then stays open; its end is the end of the peer
 *
 * A MAC is rc_mac() over every byte that either side said before it, in order, this message's included. Until OFFER has proved
 * itself the server gives nothing away but a nonce, and answers errors by closing.
 *
 * Every message (big-endian): magic "SPWR", u16 version, u8 type, u8 0, u16 length of all, u16 0; then its fields, in the
 * order of struct rc_params, and the MAC. Lengths are fixed by type. Magic and version stay where they are in all versions.
 */
#ifndef SPW_PORT_RC_HELLO_H
#define SPW_PORT_RC_HELLO_H

#include "port/rdma/rc_auth.h"

#define RC_HELLO_VERSION    1u
#define RC_HELLO_HEAD_BYTES 12u
#define RC_PARAMS_BYTES     68u
#define RC_HELLO_MAX_BYTES  (RC_HELLO_HEAD_BYTES + RC_PARAMS_BYTES + RC_MAC_BYTES)
#define RC_SAID_MAX_BYTES   (5u * RC_HELLO_MAX_BYTES) /* of a whole exchange */

enum rc_type { RC_HELLO = 1, RC_CHALLENGE, RC_OFFER, RC_ACCEPT, RC_REJECT, RC_READY };

enum rc_reject { RC_REJECT_MTU = 1, RC_REJECT_OP, RC_REJECT_RING, RC_REJECT_FULL };

struct rc_params {
	uint32_t qpn, psn;        /* 24 bits each */
	uint8_t gid[16];
	uint16_t mtu;             /* path MTU in bytes */
	uint8_t op;               /* enum rc_op, of both directions */
	uint8_t reserved;         /* 0 */
	uint32_t credit_cnt;      /* 1 .. RC_CREDIT_MAX; also the credits to start with */
	uint32_t slot_bytes;      /* longest message, 1 .. 2^26 + 2^16 */
	uint32_t slot_stride;     /* op=write: distance of two slots, >= slot_bytes; these four are 0 else */
	uint32_t slot_rkey;
	uint64_t slot_addr;
	uint64_t ring_addr;
	uint32_t ring_rkey;
	uint32_t ring_cnt;        /* a power of 2 */
};

struct rc_message {
	enum rc_type type;
	uint8_t nonce[RC_NONCE_BYTES]; /* HELLO, CHALLENGE */
	struct rc_params params;       /* OFFER, ACCEPT */
	uint16_t reason;               /* REJECT: enum rc_reject */
	uint32_t value;                /* REJECT: what the other side has there */
	uint8_t mac[RC_MAC_BYTES];     /* all but HELLO, CHALLENGE */
};

/* Purpose: looks at a header. Shape: at least RC_HELLO_HEAD_BYTES. Returns: the length of the message, or -EPROTO (not ours),
 *          -EPROTONOSUPPORT (another version; it is in version_out). No text: it is said to nobody. */
int rc_hello_head(const uint8_t *head, enum rc_type *type_out, uint16_t *version_out);

/* Purpose: takes a whole message apart; every value is in its range then. Returns: 0, -EPROTO. No text. */
int rc_hello_parse(const uint8_t *bytes, size_t len, struct rc_message *msg_out);

/* Purpose: the reverse. Shape: bytes_out holds RC_HELLO_MAX_BYTES. Returns: the length. */
size_t rc_hello_make(const struct rc_message *msg, uint8_t *bytes_out);

/* Purpose: the length of messages of this type; 0 if there is none. */
size_t rc_hello_bytes(enum rc_type type);

/* Purpose: bytes of the MAC at the end of such a message: 0 or RC_MAC_BYTES. */
size_t rc_hello_mac_bytes(enum rc_type type);

#endif
