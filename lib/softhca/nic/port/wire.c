/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * RoCE v2 frames (wire.h has the picture): the tables by opcode, the parser, the ICRC, templates.
 *
 * What to know before changing it: frames come from any sender, and on a shared-memory cable they
 * may change while they are parsed. wire_parse() reads each length once, checks it against the
 * frame, and uses the copy. tests/unit/softhca/nic/port/golden_test.c parses frames of the kernel's
 * soft-RoCE and builds them again.
 *
 *   arrives   wire_parse: wire_find_bth --> BTH --> lengths --> wire_read_ext --> ICRC
 *   leaves    wire_tmpl_init, once for a peer --> wire_start, per frame (wire.h) --> wire_finish
 */
#include <libdeflate.h>

#include "softhca/nic/port/wire.h"

/* What all packets of a SEND, a WRITE or a response have in common. */
#define S     (WIRE_H_VALID | WIRE_H_SEND | WIRE_H_PAYLOAD)
#define W     (WIRE_H_VALID | WIRE_H_WRITE | WIRE_H_PAYLOAD)
#define R     (WIRE_H_VALID | WIRE_H_RESP)
#define FIRST WIRE_H_FIRST
#define LAST  WIRE_H_LAST
const uint16_t wire_op_hdrs[WIRE_OP_CNT] = {
	[WIRE_SEND_FIRST] = S | FIRST,
	[WIRE_SEND_MIDDLE] = S,
	[WIRE_SEND_LAST] = S | LAST,
	[WIRE_SEND_LAST_IMM] = S | LAST | WIRE_H_IMM,
	[WIRE_SEND_LAST_INV] = S | LAST | WIRE_H_INV,
	[WIRE_SEND_ONLY] = S | FIRST | LAST,
	[WIRE_SEND_ONLY_IMM] = S | FIRST | LAST | WIRE_H_IMM,
	[WIRE_SEND_ONLY_INV] = S | FIRST | LAST | WIRE_H_INV,
	[WIRE_WRITE_FIRST] = W | FIRST | WIRE_H_RETH,
	[WIRE_WRITE_MIDDLE] = W,
	[WIRE_WRITE_LAST] = W | LAST,
	[WIRE_WRITE_LAST_IMM] = W | LAST | WIRE_H_IMM,
	[WIRE_WRITE_ONLY] = W | FIRST | LAST | WIRE_H_RETH,
	[WIRE_WRITE_ONLY_IMM] = W | FIRST | LAST | WIRE_H_RETH | WIRE_H_IMM,
	[WIRE_READ_REQ] = WIRE_H_VALID | FIRST | LAST | WIRE_H_RETH,
	[WIRE_READ_FIRST] = R | FIRST | WIRE_H_AETH | WIRE_H_PAYLOAD,
	[WIRE_READ_MIDDLE] = R | WIRE_H_PAYLOAD,
	[WIRE_READ_LAST] = R | LAST | WIRE_H_AETH | WIRE_H_PAYLOAD,
	[WIRE_READ_ONLY] = R | FIRST | LAST | WIRE_H_AETH | WIRE_H_PAYLOAD,
	[WIRE_ACK] = R | FIRST | LAST | WIRE_H_AETH,
	[WIRE_ATOMIC_ACK] = R | FIRST | LAST | WIRE_H_AETH | WIRE_H_ATOMIC_ACK,
	[WIRE_CMP_SWAP] = WIRE_H_VALID | FIRST | LAST | WIRE_H_ATOMIC,
	[WIRE_FETCH_ADD] = WIRE_H_VALID | FIRST | LAST | WIRE_H_ATOMIC,
};
#undef S
#undef W
#undef R

/* Without the DETH, which is UD's only; wire_parse adds it. */
const uint8_t wire_op_ext_bytes[WIRE_OP_CNT] = {
	[WIRE_SEND_LAST_IMM] = 4, [WIRE_SEND_ONLY_IMM] = 4,   [WIRE_SEND_LAST_INV] = 4,
	[WIRE_SEND_ONLY_INV] = 4, [WIRE_WRITE_FIRST] = 16,    [WIRE_WRITE_LAST_IMM] = 4,
	[WIRE_WRITE_ONLY] = 16,   [WIRE_WRITE_ONLY_IMM] = 20, [WIRE_READ_REQ] = 16,
	[WIRE_READ_FIRST] = 4,    [WIRE_READ_LAST] = 4,       [WIRE_READ_ONLY] = 4,
	[WIRE_ACK] = 4,           [WIRE_ATOMIC_ACK] = 12,     [WIRE_CMP_SWAP] = 28,
	[WIRE_FETCH_ADD] = 28,
};

/* Annex A17: the CRC covers 64 ones in place of the LRH, then the packet from its IP header on,
 * with every field that a router or switch may change read as ones:
 *
 *   IPv4  TOS, TTL, header checksum        IPv6  traffic class, flow label, hop limit
 *   UDP   checksum                         BTH   FECN, BECN and the reserved bits beside them
 */
uint32_t wire_icrc(const uint8_t *l3, uint32_t l3_bytes, bool ipv6)
{
	const uint32_t ip = ipv6 ? WIRE_IP6_BYTES : WIRE_IP4_BYTES;
	const uint32_t head = ip + WIRE_UDP_BYTES + WIRE_BTH_BYTES;
	uint8_t b[8 + WIRE_IP6_BYTES + WIRE_UDP_BYTES + WIRE_BTH_BYTES];
	uint32_t crc;

	memset(b, 0xff, 8);
	memcpy(b + 8, l3, head);
	if (ipv6) {
		b[8] |= 0x0f; /* traffic class, flow label, hop limit */
		memset(b + 9, 0xff, 3);
		b[8 + 7] = 0xff;
	} else {
		b[8 + 1] = 0xff; /* TOS, TTL, checksum */
		b[8 + 8] = 0xff;
		memset(b + 8 + 10, 0xff, 2);
	}
	memset(b + 8 + ip + 6, 0xff, 2);       /* UDP checksum */
	b[8 + ip + WIRE_UDP_BYTES + 4] = 0xff; /* BTH: FECN, BECN, reserved */
	crc = libdeflate_crc32(0, b, 8 + head);
	return libdeflate_crc32(crc, l3 + head, l3_bytes - head);
}

/* The only field of a packet whose lowest byte comes first. */
static uint32_t wire_ld_icrc(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* Pads the payload to 4 bytes, then the ICRC, its lowest byte first. */
void wire_finish(uint8_t *frame, uint32_t frame_bytes, uint32_t l3_off, bool ipv6, uint32_t payload,
		 bool icrc)
{
	uint8_t *end = frame + frame_bytes - WIRE_ICRC_BYTES;
	const uint32_t pad = -payload & 3;
	uint32_t crc = 0;

	for (uint32_t i = 1; i <= pad; i++)
		end[-(int)i] = 0;
	if (icrc)
		crc = wire_icrc(frame + l3_off, frame_bytes - l3_off - WIRE_ICRC_BYTES, ipv6);
	for (uint32_t i = 0; i < 4; i++)
		end[i] = (uint8_t)(crc >> (8 * i));
}

/* Finds IP and UDP. Returns the offset of the BTH; 0: not RoCE, or bad (*verdict_out). */
static uint32_t wire_find_bth(const uint8_t *f, uint32_t len, struct wire_pkt *k,
			      uint32_t *l3_bytes_out, enum wire_verdict *verdict_out)
{
	uint32_t off = WIRE_ETH_BYTES, type, l3_len, udp;

	*verdict_out = WIRE_NOT_ROCE;
	if (len < WIRE_ETH_BYTES + WIRE_IP4_BYTES + WIRE_UDP_BYTES)
		return 0;
	type = spw_prm_ld16(f + 12);
	if (type == 0x8100) {
		k->sl = f[14] >> 5;
		type = spw_prm_ld16(f + 16);
		off += WIRE_VLAN_BYTES;
	}
	k->l2 = f;
	k->l3 = f + off;
	k->group = f[0] & 1;
	k->ipv6 = type == 0x86dd;
	if (type == 0x0800) {
		if (len < off + WIRE_IP4_BYTES + WIRE_UDP_BYTES || f[off] != 0x45 ||
		    f[off + 9] != 17 || (spw_prm_ld16(f + off + 6) & 0x3fff))
			return 0; /* RoCE has no IP options and no fragments */
		l3_len = spw_prm_ld16(f + off + 2);
		udp = off + WIRE_IP4_BYTES;
	} else if (k->ipv6) {
		if (len < off + WIRE_IP6_BYTES + WIRE_UDP_BYTES || f[off] >> 4 != 6 ||
		    f[off + 6] != 17)
			return 0;
		l3_len = spw_prm_ld16(f + off + 4) + (uint32_t)WIRE_IP6_BYTES;
		udp = off + WIRE_IP6_BYTES;
	} else {
		return 0;
	}
	if (spw_prm_ld16(f + udp + 2) != WIRE_ROCE_PORT)
		return 0;
	*verdict_out = WIRE_BAD;
	if (l3_len > len - off ||
	    l3_len < udp - off + WIRE_UDP_BYTES + WIRE_BTH_BYTES + WIRE_ICRC_BYTES ||
	    spw_prm_ld16(f + udp + 4) != l3_len - (udp - off))
		return 0;
	*l3_bytes_out = l3_len;
	return udp + WIRE_UDP_BYTES;
}

/* The extended headers that the opcode has, in their order; wire_parse has checked that they are
 * there. */
static const uint8_t *wire_read_ext(const uint8_t *p, struct wire_pkt *k)
{
	if (k->hdrs & WIRE_H_RETH) {
		k->va = spw_prm_ld64(p);
		k->rkey = spw_prm_ld32(p + 8);
		k->dma_len = spw_prm_ld32(p + 12);
		p += WIRE_RETH_BYTES;
	} else if (k->hdrs & WIRE_H_ATOMIC) {
		k->va = spw_prm_ld64(p);
		k->rkey = spw_prm_ld32(p + 8);
		k->swap_add = spw_prm_ld64(p + 12);
		k->compare = spw_prm_ld64(p + 20);
		p += WIRE_ATOMIC_BYTES;
	} else if (k->hdrs & WIRE_H_AETH) {
		const uint32_t aeth = spw_prm_ld32(p);

		k->syndrome = (uint8_t)(aeth >> 24);
		k->msn = aeth & 0xffffff;
		p += WIRE_AETH_BYTES;
		if (k->hdrs & WIRE_H_ATOMIC_ACK) {
			k->orig = spw_prm_ld64(p);
			p += WIRE_ATOMIC_ACK_BYTES;
		}
	}
	if (k->hdrs & (WIRE_H_IMM | WIRE_H_INV)) {
		k->imm = spw_prm_ld32(p);
		p += WIRE_IMM_BYTES;
	}
	return p;
}

/* Every length is checked before what it covers is read. icrc_valid: the cable vouches for the
 * frame. */
enum wire_verdict wire_parse(const uint8_t *f, uint32_t len, bool icrc_valid, struct wire_pkt *k)
{
	enum wire_verdict verdict;
	uint32_t l3_bytes, bth_off, need, room, pad;
	const uint8_t *bth, *p;

	bth_off = wire_find_bth(f, len, k, &l3_bytes, &verdict);
	if (!bth_off)
		return verdict;
	bth = f + bth_off;
	k->opcode = bth[0];
	k->op = k->opcode & 0x1f;
	k->hdrs = k->op < WIRE_OP_CNT ? wire_op_hdrs[k->op] : 0;
	pad = bth[1] >> 4 & 3;
	k->se = bth[1] >> 7;
	k->dqpn = spw_prm_ld32(bth + 4) & 0xffffff;
	k->ack_req = bth[8] >> 7;
	k->psn = spw_prm_ld32(bth + 8) & WIRE_PSN_MASK;
	/* What is between BTH and ICRC: extended headers, payload, pad. */
	room = (uint32_t)(k->l3 - f) + l3_bytes - WIRE_ICRC_BYTES - bth_off - WIRE_BTH_BYTES;
	if (spw_unlikely(k->opcode == WIRE_CNP))
		k->hdrs = WIRE_H_VALID;
	else if (k->opcode > 0x7f)
		return WIRE_BAD;
	/* RD is not modelled; the low bits of the second byte are the header's version, 0. */
	if (!(k->hdrs & WIRE_H_VALID) || (k->opcode >> 5 == WIRE_RD >> 5) || (bth[1] & 0x0f))
		return WIRE_BAD;
	need = k->opcode == WIRE_CNP ? WIRE_CNP_BYTES : wire_op_ext_bytes[k->op];
	p = bth + WIRE_BTH_BYTES;
	if ((k->opcode & 0xe0) == WIRE_UD) {
		need += WIRE_DETH_BYTES;
		if (room < need || (k->op != WIRE_SEND_ONLY && k->op != WIRE_SEND_ONLY_IMM))
			return WIRE_BAD;
		k->qkey = spw_prm_ld32(p);
		k->sqpn = spw_prm_ld32(p + 4) & 0xffffff;
		p += WIRE_DETH_BYTES;
	}
	if (room < need + pad || (!(k->hdrs & WIRE_H_PAYLOAD) && room != need))
		return WIRE_BAD;
	p = wire_read_ext(p, k);
	k->payload = p;
	k->payload_len = room - need - pad;
	if (!icrc_valid && wire_icrc(k->l3, l3_bytes - WIRE_ICRC_BYTES, k->ipv6) !=
				   wire_ld_icrc(k->l3 + l3_bytes - WIRE_ICRC_BYTES))
		return WIRE_BAD_ICRC;
	return WIRE_OK;
}

/* An even number of bytes; the caller folds the sum. */
static uint32_t wire_sum16(const uint8_t *p, uint32_t bytes)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < bytes; i += 2)
		sum += spw_prm_ld16(p + i);
	return sum;
}

/* The sum of the IP header does not cover it, so nothing else changes. */
void wire_tmpl_set_dmac(struct wire_tmpl *t, const uint8_t dmac[6])
{
	memcpy(t->hdr, dmac, 6);
}

/* All of the headers that does not change from packet to packet. */
void wire_tmpl_init(struct wire_tmpl *t, const struct wire_av *av)
{
	uint8_t *p = t->hdr + WIRE_ETH_BYTES;

	memset(t, 0, sizeof(*t));
	t->ipv6 = !hca_gid_is_ip4(av->dgid);
	memcpy(t->hdr, av->dmac, 6);
	memcpy(t->hdr + 6, av->smac, 6);
	if (av->vlan) {
		spw_prm_st16(t->hdr + 12, 0x8100);
		spw_prm_st16(p, av->vlan);
		p += WIRE_VLAN_BYTES;
	}
	spw_prm_st16(p - 2, t->ipv6 ? 0x86dd : 0x0800);
	t->l3_off = (uint8_t)(p - t->hdr);
	if (t->ipv6) {
		spw_prm_st32(p, 6u << 28 | (uint32_t)av->tclass << 20 | (av->flow_label & 0xfffff));
		p[6] = 17;
		p[7] = av->hop_limit;
		memcpy(p + 8, av->sgid, 16);
		memcpy(p + 24, av->dgid, 16);
		p += WIRE_IP6_BYTES;
	} else {
		p[0] = 0x45;
		p[1] = av->tclass;
		p[6] = 0x40; /* do not fragment; identification 0 */
		p[8] = av->hop_limit;
		p[9] = 17;
		memcpy(p + 12, av->sgid + 12, 4);
		memcpy(p + 16, av->dgid + 12, 4);
		t->ip_sum = wire_sum16(p, WIRE_IP4_BYTES);
		p += WIRE_IP4_BYTES;
	}
	spw_prm_st16(p, av->sport);
	spw_prm_st16(p + 2, WIRE_ROCE_PORT);
	t->bth_off = (uint8_t)(p + WIRE_UDP_BYTES - t->hdr);
}

/* As a congested switch does: ECN becomes 3, and an IPv4 checksum follows. */
void wire_mark_ce(uint8_t *l3, bool ipv6)
{
	uint32_t sum;

	if (ipv6) {
		l3[1] |= 3 << 4;
		return;
	}
	/* The checksum falls by what the word rises. RFC 1624. */
	sum = (spw_prm_ld16(l3 + 10) ^ 0xffffu) + (3u - (l3[1] & 3u));
	l3[1] |= 3;
	sum = (sum & 0xffff) + (sum >> 16);
	spw_prm_st16(l3 + 10, (uint16_t)~sum);
}
