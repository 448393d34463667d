/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The wire format of the communication manager: one table of fields, read for both directions.
 *
 *   0        24                                     p                        256
 *   | header | fields of the kind, big-endian bits  | private data            |
 *
 * Private data, as programs may rely on it (36 bytes of a REQ or SIDR_REQ are the header of
 * addresses, cm_addr.c):
 *
 *   REQ  92    REP  196    RTU  224    REJ  148    MRA  222
 *   DREQ 220   DREP 224    SIDR_REQ 216            SIDR_REP 136
 *
 * Every message has 256 bytes, and no field is a length that is believed: whatever the bytes are,
 * reading stays inside. What to know before changing it: offsets in the table count from the end of
 * the header, bits from the most significant one, as in the specification's tables.
 */
#include "softhca/cm/cm_mad.h"

#include <stddef.h>
#include <string.h>

#include "prm/spw_prm.h"

#define HDR_BYTES   24u
#define CLASS_CM    0x07u
#define CLASS_VER   2u
#define BASE_VER    1u
#define METHOD_SEND 0x03u

struct mad_field {
	uint8_t attr, byte, bit, width; /* width 64: a u64; 0: bytes as they are */
	uint16_t member, member_bytes;
};

#define FIELD(a, member, byte, bit, width)                                 \
	{                                                                  \
		CM_##a, byte, bit, width, offsetof(struct cm_msg, member), \
			sizeof(((struct cm_msg *)0)->member)               \
	}

/* Tables 106 to 120, in their order; alternate paths, EE contexts and LIDs are left out: 0. */
static const struct mad_field fields[] = {
	FIELD(REQ, local_id, 0, 0, 32),
	FIELD(REQ, service_id, 8, 0, 64),
	FIELD(REQ, guid, 16, 0, 0),
	FIELD(REQ, qkey, 28, 0, 32),
	FIELD(REQ, qpn, 32, 0, 24),
	FIELD(REQ, responder_resources, 35, 0, 8),
	FIELD(REQ, initiator_depth, 39, 0, 8),
	FIELD(REQ, remote_timeout, 43, 0, 5),
	FIELD(REQ, transport, 43, 5, 2),
	FIELD(REQ, flow_control, 43, 7, 1),
	FIELD(REQ, psn, 44, 0, 24),
	FIELD(REQ, local_timeout, 47, 0, 5),
	FIELD(REQ, retry_cnt, 47, 5, 3),
	FIELD(REQ, pkey, 48, 0, 16),
	FIELD(REQ, path_mtu, 50, 0, 4),
	FIELD(REQ, rnr_retry, 50, 5, 3),
	FIELD(REQ, max_retries, 51, 0, 4),
	FIELD(REQ, srq, 51, 4, 1),
	FIELD(REQ, sgid, 56, 0, 0),
	FIELD(REQ, dgid, 72, 0, 0),
	FIELD(REQ, flow_label, 88, 0, 20),
	FIELD(REQ, rate, 91, 2, 6),
	FIELD(REQ, tclass, 92, 0, 8),
	FIELD(REQ, hop_limit, 93, 0, 8),
	FIELD(REQ, subnet_local, 94, 4, 1),
	FIELD(REQ, ack_timeout, 95, 0, 5),
	FIELD(MRA, local_id, 0, 0, 32),
	FIELD(MRA, remote_id, 4, 0, 32),
	FIELD(MRA, answers, 8, 0, 2),
	FIELD(MRA, service_timeout, 9, 0, 5),
	FIELD(REJ, local_id, 0, 0, 32),
	FIELD(REJ, remote_id, 4, 0, 32),
	FIELD(REJ, answers, 8, 0, 2),
	FIELD(REJ, info_bytes, 9, 0, 7),
	FIELD(REJ, reason, 10, 0, 16),
	FIELD(REJ, guid, 12, 0, 0),
	FIELD(REP, local_id, 0, 0, 32),
	FIELD(REP, remote_id, 4, 0, 32),
	FIELD(REP, qkey, 8, 0, 32),
	FIELD(REP, qpn, 12, 0, 24),
	FIELD(REP, psn, 20, 0, 24),
	FIELD(REP, responder_resources, 24, 0, 8),
	FIELD(REP, initiator_depth, 25, 0, 8),
	FIELD(REP, ack_delay, 26, 0, 5),
	FIELD(REP, flow_control, 26, 7, 1),
	FIELD(REP, rnr_retry, 27, 0, 3),
	FIELD(REP, srq, 27, 3, 1),
	FIELD(REP, guid, 28, 0, 0),
	FIELD(RTU, local_id, 0, 0, 32),
	FIELD(RTU, remote_id, 4, 0, 32),
	FIELD(DREQ, local_id, 0, 0, 32),
	FIELD(DREQ, remote_id, 4, 0, 32),
	FIELD(DREQ, qpn, 8, 0, 24),
	FIELD(DREP, local_id, 0, 0, 32),
	FIELD(DREP, remote_id, 4, 0, 32),
	FIELD(SIDR_REQ, local_id, 0, 0, 32),
	FIELD(SIDR_REQ, pkey, 4, 0, 16),
	FIELD(SIDR_REQ, service_id, 8, 0, 64),
	FIELD(SIDR_REP, local_id, 0, 0, 32),
	FIELD(SIDR_REP, reason, 4, 0, 8),
	FIELD(SIDR_REP, qpn, 8, 0, 24),
	FIELD(SIDR_REP, service_id, 12, 0, 64),
	FIELD(SIDR_REP, qkey, 20, 0, 32),
};

/* Where private data begins; it goes to the end of the datagram. */
static const uint8_t priv_at[CM_ATTR_END - CM_REQ] = {
	[CM_REQ - CM_REQ] = 140, [CM_MRA - CM_REQ] = 10,      [CM_REJ - CM_REQ] = 84,
	[CM_REP - CM_REQ] = 36,  [CM_RTU - CM_REQ] = 8,       [CM_DREQ - CM_REQ] = 12,
	[CM_DREP - CM_REQ] = 8,  [CM_SIDR_REQ - CM_REQ] = 16, [CM_SIDR_REP - CM_REQ] = 96,
};

uint32_t cm_mad_priv_bytes(uint32_t attr)
{
	return attr < CM_REQ || attr >= CM_ATTR_END
		       ? 0
		       : CM_MAD_BYTES - HDR_BYTES - priv_at[attr - CM_REQ];
}

/* A field lies within the four bytes that end with its last bit's. */
static uint32_t field_last(const struct mad_field *f)
{
	return f->byte + (f->bit + f->width - 1u) / 8u;
}

static uint32_t field_shift(const struct mad_field *f)
{
	return 7u - (f->bit + f->width - 1u) % 8u;
}

static uint64_t field_mask(const struct mad_field *f)
{
	return f->width == 64 ? UINT64_MAX : (1ull << f->width) - 1;
}

/* The header lies before the first field, so eight bytes back are always there. */
static uint64_t field_word(const uint8_t *data, const struct mad_field *f)
{
	return spw_prm_ld64(data + field_last(f) - 7);
}

static void mad_field_read(const uint8_t *data, const struct mad_field *f, void *to)
{
	const uint64_t v = f->width ? field_word(data, f) >> field_shift(f) & field_mask(f) : 0;
	const uint32_t word = (uint32_t)v;

	if (!f->width)
		memcpy(to, data + f->byte, f->member_bytes);
	else if (f->member_bytes == sizeof(v))
		memcpy(to, &v, sizeof(v));
	else
		memcpy(to, &word, sizeof(word));
}

static void mad_field_write(uint8_t *data, const struct mad_field *f, const void *from)
{
	const uint64_t mask = f->width ? field_mask(f) << field_shift(f) : 0;
	uint32_t word;
	uint64_t v;

	if (!f->width) {
		memcpy(data + f->byte, from, f->member_bytes);
		return;
	}
	memcpy(&word, from, sizeof(word));
	v = word;
	if (f->member_bytes == sizeof(v))
		memcpy(&v, from, sizeof(v));
	spw_prm_st64(data + field_last(f) - 7,
		     (field_word(data, f) & ~mask) | (v << field_shift(f) & mask));
}

bool cm_mad_parse(const uint8_t mad[CM_MAD_BYTES], struct cm_msg *msg)
{
	const uint32_t attr = spw_prm_ld16(mad + 16);
	const uint8_t *data = mad + HDR_BYTES;

	if (mad[0] != BASE_VER || mad[1] != CLASS_CM || mad[2] != CLASS_VER ||
	    mad[3] != METHOD_SEND || !cm_mad_priv_bytes(attr))
		return false;
	memset(msg, 0, sizeof(*msg));
	msg->attr = attr;
	msg->tid = spw_prm_ld64(mad + 8);
	for (uint32_t i = 0; i < SPW_ARRAY_CNT(fields); i++)
		if (fields[i].attr == attr)
			mad_field_read(data, &fields[i], (uint8_t *)msg + fields[i].member);
	memcpy(msg->priv, data + priv_at[attr - CM_REQ], cm_mad_priv_bytes(attr));
	return true;
}

void cm_mad_build(const struct cm_msg *msg, uint8_t mad[CM_MAD_BYTES])
{
	uint8_t *data = mad + HDR_BYTES;

	memset(mad, 0, CM_MAD_BYTES);
	mad[0] = BASE_VER;
	mad[1] = CLASS_CM;
	mad[2] = CLASS_VER;
	mad[3] = METHOD_SEND;
	spw_prm_st64(mad + 8, msg->tid);
	spw_prm_st16(mad + 16, (uint16_t)msg->attr);
	for (uint32_t i = 0; i < SPW_ARRAY_CNT(fields); i++)
		if (fields[i].attr == msg->attr)
			mad_field_write(data, &fields[i], (const uint8_t *)msg + fields[i].member);
	memcpy(data + priv_at[msg->attr - CM_REQ], msg->priv, cm_mad_priv_bytes(msg->attr));
}
