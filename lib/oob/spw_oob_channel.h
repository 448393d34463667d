/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Messages over TCP that only who knows the secret can send: each carries a MAC over the nonces of
 * both sides, its direction, its number and its bytes, so none can be forged, replayed, left out or
 * turned back. The bytes are not encrypted. Without a secret the MAC is zeros, which only a side
 * without one accepts.
 *
 *   both at once   magic[4], u16 version, u16 has a secret, nonce[32]       of the protocol
 *   then each      u32 bytes, the bytes, MAC[32]           numbers are big-endian
 *   or, once       u32 ffffffff: your MAC was wrong        whoever could forge it could also cut
 *
 * A stranger costs no memory: a message is read into the caller's buffer, and one that is longer
 * ends the channel before its bytes are read. Nothing waits: a call that returns -EAGAIN is made
 * again, with the same arguments, when poll(2) reports the descriptor.
 *
 * MAC = HMAC-SHA-256(secret, label of the direction, both nonces, u64 number, magic, u32 version,
 * the bytes) (spw_oob_auth.h), so that no message is good in another protocol.
 *
 * What is sent over a channel is its user's protocol, with a magic and a version of its own. Both
 * ends send theirs at once, so each can name both versions. Thread of all: any, one at a time for
 * each channel.
 */
#ifndef SPW_OOB_CHANNEL_H
#define SPW_OOB_CHANNEL_H

#include "oob/spw_oob_auth.h"

#define SPW_OOB_GREETING_BYTES (8u + SPW_OOB_NONCE_BYTES)

struct spw_oob_proto {
	char magic[5]; /* four characters: the name of the protocol in all its versions */
	uint16_t version;
};

struct spw_oob_channel {
	int fd; /* the caller's; -1: none */
	bool is_client;
	bool greeted;                           /* the other side's nonce is known */
	bool far_has_secret;                    /* so it says; with greeted */
	uint16_t far_version;                   /* after -EPROTONOSUPPORT */
	const struct spw_oob_proto *proto;      /* outlives the channel */
	const struct spw_oob_secret *secret;    /* outlives the channel; len 0: none */
	uint8_t nonce[2 * SPW_OOB_NONCE_BYTES]; /* the client's, the server's */
	uint64_t sent_cnt, received_cnt;
	size_t out_at, in_at; /* bytes of the message under way that were moved */
	uint8_t head[SPW_OOB_GREETING_BYTES];
	uint8_t out_mac[SPW_OOB_MAC_BYTES], in_mac[SPW_OOB_MAC_BYTES];
};

/* Purpose: begins on a connected socket, and sends this side's nonce.
 * Shape: both sides call it, one with is_client.
 * Thread: any.
 * Errors: -EIO no random bytes; of send(2). */
int spw_oob_channel_begin(struct spw_oob_channel *ch, int fd, bool is_client,
			  const struct spw_oob_secret *secret, const struct spw_oob_proto *proto);

/* Purpose: waits for the other side's nonce, without which nothing can be sent.
 * Thread: any.
 * Returns: 0; -EAGAIN; -EPROTO the other side speaks another protocol; -EPROTONOSUPPORT another
 *   version of it; -EACCES only one side has a secret; -ECONNRESET. No text. */
int spw_oob_channel_greet(struct spw_oob_channel *ch);

/* Purpose: sends one message. After spw_oob_channel_greet, or a message that was received.
 * Thread: any.
 * Returns: 0; -EAGAIN; -ECONNRESET; of send(2). No text. */
int spw_oob_channel_send(struct spw_oob_channel *ch, const void *bytes, uint32_t len);

/* Purpose: receives one message of at most max bytes; greets first.
 * Shape: *len_out is set with 0 only; the buffer's content is undefined before.
 * Thread: any.
 * Returns: 0; -EAGAIN; -EACCES its MAC is wrong: the other side has another secret, or is a
 *   stranger; -EMSGSIZE longer than max; those of spw_oob_channel_greet. No text. */
int spw_oob_channel_receive(struct spw_oob_channel *ch, void *bytes, uint32_t max,
			    uint32_t *len_out);

/* Purpose: after -EACCES: the other side's next call returns it, too, instead of -ECONNRESET.
 * Thread: any. */
void spw_oob_channel_deny(const struct spw_oob_channel *ch);

/* Purpose: why a call on the channel failed, or a door refused it: one clause for a message, with
 * both versions or what to do.
 * Shape: text_out of SPW_OOB_REASON_BYTES.
 * Thread: any.
 * Returns: text_out. */
#define SPW_OOB_REASON_BYTES 112u
const char *spw_oob_channel_reason(const struct spw_oob_channel *ch, int rc, char *text_out);

/* Purpose: a number that both ends of this channel have, and no other channel: a hash of the
 * nonces, which it does not disclose. Shape: after spw_oob_channel_greet; not 0. Thread: any. */
uint64_t spw_oob_channel_pair(const struct spw_oob_channel *ch);

/* Returns: true if the other side has closed, and all that it sent was received. Thread: any. */
bool spw_oob_channel_is_closed(const struct spw_oob_channel *ch);

#endif
