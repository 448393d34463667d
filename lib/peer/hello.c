/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Encodes and decodes the messages of the exchange (hello.h has the layout). Everything that the
 * decoder returns has been checked, so the rest of lib/peer uses it as it is;
 * tests/fuzz/fuzz_rc_exchange.c feeds it arbitrary bytes.
 *
 * Order of the checks, each before anything that relies on it:
 *
 *   peer_hello_head    magic, version, then type and length, in the first 12 bytes. A peer of
 *                      another release is recognized here: magic and version keep their place.
 *   peer_hello_parse   the whole message: every field in its range, every reserved bit 0
 *   exchange.c         the MAC. It comes after the parser, which therefore runs on the bytes of
 *                      strangers and must be safe for any input.
 *   turn.c             what depends on this side: GID, room, op, ring (peer_exchange_fit)
 *
 * Fields are read byte by byte: the layout of a C struct never travels, and no alignment is
 * assumed.
 */
#include <errno.h>
#include <string.h>

#include "frame/spw_desc.h"
#include "peer/spw_peer_conf.h"
#include "peer/spw_peer_credit.h"
#include "peer/hello.h"

#define SLOT_BYTES_MAX (SPW_DESC_LEN_MAX + (1u << 16))

static const uint8_t magic[4] = {'S', 'P', 'W', 'R'};

/* Big-endian, 1 to 8 bytes. Returns: what follows the field. */
static const uint8_t *hello_get(const uint8_t *p, unsigned bytes, uint64_t *value_out)
{
	*value_out = 0;
	for (unsigned i = 0; i < bytes; i++)
		*value_out = *value_out << 8 | p[i];
	return p + bytes;
}

static uint8_t *hello_put(uint8_t *p, unsigned bytes, uint64_t value)
{
	for (unsigned i = 0; i < bytes; i++)
		p[i] = (uint8_t)(value >> 8 * (bytes - 1 - i));
	return p + bytes;
}

size_t peer_hello_mac_bytes(enum peer_msg_type type)
{
	return type == PEER_MSG_HELLO || type == PEER_MSG_CHALLENGE ? 0 : SPW_OOB_MAC_BYTES;
}

size_t peer_hello_bytes(enum peer_msg_type type)
{
	switch (type) {
	case PEER_MSG_HELLO:
	case PEER_MSG_CHALLENGE:
		return PEER_HELLO_HEAD_BYTES + SPW_OOB_NONCE_BYTES;
	case PEER_MSG_OFFER:
	case PEER_MSG_ACCEPT:
		return PEER_HELLO_HEAD_BYTES + PEER_PARAMS_BYTES + SPW_OOB_MAC_BYTES;
	case PEER_MSG_REJECT:
		return PEER_HELLO_HEAD_BYTES + 8 + SPW_OOB_MAC_BYTES;
	case PEER_MSG_READY:
		return PEER_HELLO_HEAD_BYTES + SPW_OOB_MAC_BYTES;
	}
	return 0;
}

/* The version is checked before the length and the reserved bytes: another version may define those
 * differently, and its user shall read "another version", not "malformed". */
int peer_hello_head(const uint8_t *head, enum peer_msg_type *type_out, uint16_t *version_out)
{
	uint64_t version, type, zero, len, zero2;

	if (memcmp(head, magic, sizeof(magic)))
		return -EPROTO;
	head = hello_get(head + sizeof(magic), 2, &version);
	head = hello_get(head, 1, &type);
	head = hello_get(head, 1, &zero);
	head = hello_get(head, 2, &len);
	hello_get(head, 2, &zero2);
	*version_out = (uint16_t)version;
	*type_out = (enum peer_msg_type)type;
	if (version != PEER_HELLO_VERSION)
		return -EPROTONOSUPPORT;
	if (zero | zero2 || len == 0 || len != peer_hello_bytes(*type_out))
		return -EPROTO;
	return (int)len;
}

/* The next field of params_get, in the type of its destination. The order of the two functions
 * below is the format. */
#define TAKE(field, bytes)                    \
	do {                                  \
		p = hello_get(p, bytes, &v);  \
		field = (__typeof__(field))v; \
	} while (0)

static const uint8_t *params_get(const uint8_t *p, struct peer_params *a)
{
	uint64_t v;

	TAKE(a->qpn, 4);
	TAKE(a->psn, 4);
	memcpy(a->gid, p, sizeof(a->gid));
	p += sizeof(a->gid);
	TAKE(a->mtu, 2);
	TAKE(a->op, 1);
	TAKE(a->reserved, 1);
	TAKE(a->credit_cnt, 4);
	TAKE(a->slot_bytes, 4);
	TAKE(a->slot_stride, 4);
	TAKE(a->slot_rkey, 4);
	TAKE(a->slot_addr, 8);
	TAKE(a->ring_addr, 8);
	TAKE(a->ring_rkey, 4);
	TAKE(a->ring_cnt, 4);
	return p;
}

static uint8_t *params_put(uint8_t *p, const struct peer_params *a)
{
	p = hello_put(p, 4, a->qpn);
	p = hello_put(p, 4, a->psn);
	memcpy(p, a->gid, sizeof(a->gid));
	p = hello_put(p + sizeof(a->gid), 2, a->mtu);
	p = hello_put(p, 1, a->op);
	p = hello_put(p, 1, a->reserved);
	p = hello_put(p, 4, a->credit_cnt);
	p = hello_put(p, 4, a->slot_bytes);
	p = hello_put(p, 4, a->slot_stride);
	p = hello_put(p, 4, a->slot_rkey);
	p = hello_put(p, 8, a->slot_addr);
	p = hello_put(p, 8, a->ring_addr);
	p = hello_put(p, 4, a->ring_rkey);
	return hello_put(p, 4, a->ring_cnt);
}

/* Addresses and keys of the peer's memory are never dereferenced here: its own NIC checks each
 * WRITE against its MRs. What is checked is what this side computes with: slot_addr + n * stride
 * and ring_addr + 4 * n must not wrap around, a stride must not overlap slots, and the ring index
 * is masked with ring_cnt - 1. */
static bool write_is_sane(const struct peer_params *a)
{
	const uint64_t span = (uint64_t)a->credit_cnt * a->slot_stride;

	return a->slot_stride >= a->slot_bytes && a->slot_stride <= SLOT_BYTES_MAX &&
	       a->slot_addr <= UINT64_MAX - span && SPW_IS_POW2(a->ring_cnt) &&
	       a->ring_cnt <= 1u << 16 && a->ring_addr <= UINT64_MAX - 4ull * a->ring_cnt &&
	       a->ring_addr % 4 == 0;
}

/* QP numbers and PSNs have 24 bits (IBTA 9.2). With op=send the memory fields must be 0, so that no
 * bytes travel that nobody checks. */
static bool params_are_sane(const struct peer_params *a)
{
	const bool no_write = !(a->slot_stride | a->slot_rkey | a->slot_addr | a->ring_addr |
				a->ring_rkey | a->ring_cnt);

	return a->qpn < 1u << 24 && a->psn < 1u << 24 && a->mtu >= 256 && a->mtu <= 4096 &&
	       SPW_IS_POW2(a->mtu) && !a->reserved && a->credit_cnt >= 1 &&
	       a->credit_cnt <= SPW_PEER_CREDIT_MAX && a->slot_bytes >= 1 &&
	       a->slot_bytes <= SLOT_BYTES_MAX &&
	       ((a->op == SPW_PEER_OP_SEND && no_write) ||
		(a->op == SPW_PEER_OP_WRITE && write_is_sane(a)));
}

/* msg is cleared first: fields that the type does not have read as 0. p[-6] and p[-5] are the
 * reserved bytes between a REJECT's reason and value. */
int peer_hello_parse(const uint8_t *bytes, size_t len, struct peer_msg *msg)
{
	const uint8_t *p = bytes + PEER_HELLO_HEAD_BYTES;
	uint16_t version;
	uint64_t v;

	memset(msg, 0, sizeof(*msg));
	if (len < PEER_HELLO_HEAD_BYTES || peer_hello_head(bytes, &msg->type, &version) != (int)len)
		return -EPROTO;
	if (msg->type == PEER_MSG_HELLO || msg->type == PEER_MSG_CHALLENGE) {
		memcpy(msg->nonce, p, SPW_OOB_NONCE_BYTES);
		return 0;
	}
	if (msg->type == PEER_MSG_OFFER || msg->type == PEER_MSG_ACCEPT) {
		p = params_get(p, &msg->params);
		if (!params_are_sane(&msg->params))
			return -EPROTO;
	} else if (msg->type == PEER_MSG_REJECT) {
		p = hello_get(p, 2, &v);
		msg->reason = (uint16_t)v;
		p = hello_get(p + 2, 4, &v);
		msg->value = (uint32_t)v;
		if (p[-5] | p[-6])
			return -EPROTO;
	}
	memcpy(msg->mac, p, SPW_OOB_MAC_BYTES);
	return 0;
}

/* The bytes of the MAC are copied as they are; exchange.c computes them over the transcript, which
 * includes the bytes written here, and stores them behind the message. */
size_t peer_hello_encode(const struct peer_msg *msg, uint8_t *bytes_out)
{
	const size_t len = peer_hello_bytes(msg->type);
	uint8_t *p = bytes_out;

	memcpy(p, magic, sizeof(magic));
	p = hello_put(p + sizeof(magic), 2, PEER_HELLO_VERSION);
	p = hello_put(p, 1, msg->type);
	p = hello_put(p, 1, 0);
	p = hello_put(p, 2, len);
	p = hello_put(p, 2, 0);
	if (msg->type == PEER_MSG_HELLO || msg->type == PEER_MSG_CHALLENGE) {
		memcpy(p, msg->nonce, SPW_OOB_NONCE_BYTES);
		return len;
	}
	if (msg->type == PEER_MSG_OFFER || msg->type == PEER_MSG_ACCEPT) {
		p = params_put(p, &msg->params);
	} else if (msg->type == PEER_MSG_REJECT) {
		p = hello_put(p, 2, msg->reason);
		p = hello_put(p, 2, 0);
		p = hello_put(p, 4, msg->value);
	}
	memcpy(p, msg->mac, SPW_OOB_MAC_BYTES);
	return len;
}
