/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Encodes and decodes the messages of the exchange (message.h has the layout). Everything that the
 * decoder returns has been checked, so the rest of lib/peer uses it as it is;
 * tests/fuzz/fuzz_rc_exchange.c feeds it arbitrary bytes.
 *
 * Order of the checks, each before anything that relies on it:
 *
 *   oob/channel.c    protocol, version, length and MAC: whose message it is
 *   peer_msg_parse   every field in its range, every reserved bit 0
 *   turn.c           what depends on this side: GID, room, op, ring (peer_exchange_fit)
 *
 * Without a secret strangers reach the parser, which is therefore safe for any input.
 *
 * Fields are read byte by byte: the layout of a C struct never travels, and no alignment is
 * assumed.
 */
#include <errno.h>
#include <string.h>

#include "frame/spw_desc.h"
#include "oob/spw_oob_door.h"
#include "peer/message.h"
#include "peer/spw_peer_conf.h"
#include "peer/spw_peer_credit.h"

#define SLOT_BYTES_MAX (SPW_DESC_LEN_MAX + (1u << 16))

_Static_assert(PEER_MSG_MAX_BYTES <= SPW_OOB_FIRST_MAX, "an OFFER is a door's first message");

/* Big-endian, 1 to 8 bytes. Returns: what follows the field. */
static const uint8_t *msg_get(const uint8_t *p, unsigned bytes, uint64_t *value_out)
{
	*value_out = 0;
	for (unsigned i = 0; i < bytes; i++)
		*value_out = *value_out << 8 | p[i];
	return p + bytes;
}

static uint8_t *msg_put(uint8_t *p, unsigned bytes, uint64_t value)
{
	for (unsigned i = 0; i < bytes; i++)
		p[i] = (uint8_t)(value >> 8 * (bytes - 1 - i));
	return p + bytes;
}

size_t peer_msg_bytes(enum peer_msg_type type)
{
	switch (type) {
	case PEER_MSG_OFFER:
	case PEER_MSG_ACCEPT:
		return PEER_MSG_HEAD_BYTES + PEER_PARAMS_BYTES;
	case PEER_MSG_REJECT:
		return PEER_MSG_HEAD_BYTES + 8;
	case PEER_MSG_READY:
		return PEER_MSG_HEAD_BYTES;
	}
	return 0;
}

/* The next field of params_get, in the type of its destination. The order of the two functions
 * below is the format. */
#define TAKE(field, bytes)                    \
	do {                                  \
		p = msg_get(p, bytes, &v);    \
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
	p = msg_put(p, 4, a->qpn);
	p = msg_put(p, 4, a->psn);
	memcpy(p, a->gid, sizeof(a->gid));
	p = msg_put(p + sizeof(a->gid), 2, a->mtu);
	p = msg_put(p, 1, a->op);
	p = msg_put(p, 1, a->reserved);
	p = msg_put(p, 4, a->credit_cnt);
	p = msg_put(p, 4, a->slot_bytes);
	p = msg_put(p, 4, a->slot_stride);
	p = msg_put(p, 4, a->slot_rkey);
	p = msg_put(p, 8, a->slot_addr);
	p = msg_put(p, 8, a->ring_addr);
	p = msg_put(p, 4, a->ring_rkey);
	return msg_put(p, 4, a->ring_cnt);
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

/* msg is cleared first: fields that the type does not have read as 0. */
int peer_msg_parse(const uint8_t *bytes, size_t len, struct peer_msg *msg)
{
	const uint8_t *p = bytes;
	uint64_t v, zero;

	memset(msg, 0, sizeof(*msg));
	if (len < PEER_MSG_HEAD_BYTES || len != peer_msg_bytes((enum peer_msg_type)bytes[0]))
		return -EPROTO;
	TAKE(msg->type, 1);
	p = msg_get(p, 3, &zero);
	if (zero)
		return -EPROTO;
	if (msg->type == PEER_MSG_REJECT) {
		TAKE(msg->reason, 2);
		p = msg_get(p, 2, &zero);
		TAKE(msg->value, 4);
		return zero ? -EPROTO : 0;
	}
	if (msg->type == PEER_MSG_READY)
		return 0;
	params_get(p, &msg->params);
	return params_are_sane(&msg->params) ? 0 : -EPROTO;
}

size_t peer_msg_encode(const struct peer_msg *msg, uint8_t *bytes_out)
{
	uint8_t *p = bytes_out;

	p = msg_put(p, 1, msg->type);
	p = msg_put(p, 3, 0);
	if (msg->type == PEER_MSG_OFFER || msg->type == PEER_MSG_ACCEPT) {
		params_put(p, &msg->params);
	} else if (msg->type == PEER_MSG_REJECT) {
		p = msg_put(p, 2, msg->reason);
		p = msg_put(p, 2, 0);
		msg_put(p, 4, msg->value);
	}
	return peer_msg_bytes(msg->type);
}
