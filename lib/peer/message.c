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
#include "oob/spw_oob_cursor.h"
#include "oob/spw_oob_door.h"
#include "peer/message.h"
#include "peer/spw_peer_conf.h"
#include "peer/spw_peer_credit.h"

#define SLOT_BYTES_MAX (SPW_DESC_LEN_MAX + (1u << 16))

_Static_assert(PEER_MSG_MAX_BYTES <= SPW_OOB_FIRST_MAX, "an OFFER is a door's first message");

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

/* In the order of struct peer_params, which is the format. */
static void params_fields(struct spw_oob_cursor *c, struct peer_params *a)
{
	spw_oob_cursor_u32(c, &a->qpn);
	spw_oob_cursor_u32(c, &a->psn);
	spw_oob_cursor_bytes(c, a->gid, sizeof(a->gid));
	spw_oob_cursor_u16(c, &a->mtu);
	spw_oob_cursor_bytes(c, &a->op, 1);
	spw_oob_cursor_bytes(c, &a->reserved, 1);
	spw_oob_cursor_u32(c, &a->credit_cnt);
	spw_oob_cursor_u32(c, &a->slot_bytes);
	spw_oob_cursor_u32(c, &a->slot_stride);
	spw_oob_cursor_u32(c, &a->slot_rkey);
	spw_oob_cursor_u64(c, &a->slot_addr);
	spw_oob_cursor_u64(c, &a->ring_addr);
	spw_oob_cursor_u32(c, &a->ring_rkey);
	spw_oob_cursor_u32(c, &a->ring_cnt);
}

/* zero: the field of a REJECT that must be 0. */
static void msg_fields(struct spw_oob_cursor *c, struct peer_msg *msg, uint16_t *zero)
{
	if (msg->type == PEER_MSG_OFFER || msg->type == PEER_MSG_ACCEPT)
		params_fields(c, &msg->params);
	if (msg->type != PEER_MSG_REJECT)
		return;
	spw_oob_cursor_u16(c, &msg->reason);
	spw_oob_cursor_u16(c, zero);
	spw_oob_cursor_u32(c, &msg->value);
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
	struct spw_oob_cursor c = {.at = (uint8_t *)(uintptr_t)bytes + PEER_MSG_HEAD_BYTES};
	uint16_t zero = 0;

	memset(msg, 0, sizeof(*msg));
	if (len < PEER_MSG_HEAD_BYTES || len != peer_msg_bytes((enum peer_msg_type)bytes[0]) ||
	    bytes[1] || bytes[2] || bytes[3])
		return -EPROTO;
	msg->type = (enum peer_msg_type)bytes[0];
	msg_fields(&c, msg, &zero);
	if (zero)
		return -EPROTO;
	return msg->type == PEER_MSG_REJECT || msg->type == PEER_MSG_READY ||
			       params_are_sane(&msg->params)
		       ? 0
		       : -EPROTO;
}

/* The cursor writes fields back as it reads them, so it works on a copy. */
size_t peer_msg_encode(const struct peer_msg *msg, uint8_t *bytes_out)
{
	struct spw_oob_cursor c = {.at = bytes_out + PEER_MSG_HEAD_BYTES, .put = true};
	struct peer_msg copy = *msg;
	uint16_t zero = 0;

	memset(bytes_out, 0, PEER_MSG_HEAD_BYTES);
	bytes_out[0] = (uint8_t)msg->type;
	msg_fields(&c, &copy, &zero);
	return peer_msg_bytes(msg->type);
}
