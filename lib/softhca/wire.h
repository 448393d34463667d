/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * RoCE v2 frames: Ethernet, optional VLAN, IPv4 or IPv6, UDP 4791, BTH, extended headers, payload, pad,
 * ICRC. Pure: reading and writing bytes, nothing else.
 *
 * Sources: InfiniBand Architecture Specification 1.3, 9.2-9.3 (BTH, extended headers, opcodes) and
 * Annex A17 (RoCE v2: UDP encapsulation, what the ICRC covers).
 */
#ifndef SPW_SOFTHCA_WIRE_H
#define SPW_SOFTHCA_WIRE_H

#include <string.h>

#include "prm/spw_prm.h"

enum {
	WIRE_ETH_BYTES = 14,
	WIRE_VLAN_BYTES = 4,
	WIRE_IP4_BYTES = 20,
	WIRE_IP6_BYTES = 40,
	WIRE_UDP_BYTES = 8,
	WIRE_BTH_BYTES = 12,
	WIRE_RETH_BYTES = 16,
	WIRE_AETH_BYTES = 4,
	WIRE_ATOMIC_BYTES = 28,
	WIRE_ATOMIC_ACK_BYTES = 8,
	WIRE_DETH_BYTES = 8,
	WIRE_IMM_BYTES = 4,
	WIRE_ICRC_BYTES = 4,
	WIRE_ROCE_PORT = 4791,
	WIRE_HDR_MAX = 14 + 4 + 40 + 8 + 12 + 28 + 4, /* of any frame, up to its payload */
	WIRE_PSN_MASK = 0xffffff,
};

/* BTH opcodes: transport in bits 7..5, operation below. */
enum { WIRE_RC = 0x00, WIRE_UC = 0x20, WIRE_RD = 0x40, WIRE_UD = 0x60 };
enum {
	WIRE_SEND_FIRST, WIRE_SEND_MIDDLE, WIRE_SEND_LAST, WIRE_SEND_LAST_IMM, WIRE_SEND_ONLY, WIRE_SEND_ONLY_IMM,
	WIRE_WRITE_FIRST, WIRE_WRITE_MIDDLE, WIRE_WRITE_LAST, WIRE_WRITE_LAST_IMM, WIRE_WRITE_ONLY,
	WIRE_WRITE_ONLY_IMM, WIRE_READ_REQ, WIRE_READ_FIRST, WIRE_READ_MIDDLE, WIRE_READ_LAST, WIRE_READ_ONLY,
	WIRE_ACK, WIRE_ATOMIC_ACK, WIRE_CMP_SWAP, WIRE_FETCH_ADD, WIRE_RSVD_21, WIRE_SEND_LAST_INV,
	WIRE_SEND_ONLY_INV, WIRE_OP_CNT
};

/* What an operation has; 0: not an opcode. */
enum {
	WIRE_H_RETH = 1 << 0, WIRE_H_AETH = 1 << 1, WIRE_H_ATOMIC = 1 << 2, WIRE_H_ATOMIC_ACK = 1 << 3,
	WIRE_H_IMM = 1 << 4, WIRE_H_INV = 1 << 5, WIRE_H_FIRST = 1 << 6, WIRE_H_LAST = 1 << 7,
	WIRE_H_SEND = 1 << 8, WIRE_H_WRITE = 1 << 9, WIRE_H_RESP = 1 << 10, WIRE_H_VALID = 1 << 11,
	WIRE_H_PAYLOAD = 1 << 12,
};
extern const uint16_t wire_op_hdrs[WIRE_OP_CNT];
/* Bytes of the extended headers of an operation (without DETH). */
extern const uint8_t wire_op_ext_bytes[WIRE_OP_CNT];

/* AETH syndromes. */
enum {
	WIRE_SYN_ACK = 0x00, WIRE_SYN_RNR = 0x20, WIRE_SYN_NAK = 0x60,
	WIRE_NAK_PSN = 0x60, WIRE_NAK_INV_REQ = 0x61, WIRE_NAK_ACCESS = 0x62, WIRE_NAK_OP = 0x63,
	WIRE_SYN_KIND = 0xe0,
	WIRE_ACK_NO_CREDIT = 0x1f, /* credits are not used */
};

/* One received packet, its headers copied out. payload points into the frame. */
struct wire_pkt {
	uint8_t opcode; /* the BTH's, transport and operation */
	uint8_t op;     /* operation */
	uint16_t hdrs;  /* WIRE_H_* */
	bool se, ack_req, ipv6, group; /* group: a multicast destination MAC */
	uint32_t dqpn, psn;
	uint64_t va;    /* RETH, AtomicETH */
	uint32_t rkey, dma_len;
	uint64_t swap_add, compare;
	uint32_t qkey, sqpn;
	uint32_t imm;   /* as on the wire, in host order; or the rkey to invalidate */
	uint8_t syndrome;
	uint32_t msn;
	uint64_t orig;
	const uint8_t *payload;
	uint32_t payload_len; /* without pad */
	const uint8_t *l2, *l3;
	uint8_t sl;     /* VLAN priority */
};

enum wire_verdict {
	WIRE_OK,       /* a RoCE packet, complete */
	WIRE_NOT_ROCE, /* some other frame */
	WIRE_BAD,      /* RoCE, but cut or with lengths that contradict each other, or an unknown opcode */
	WIRE_BAD_ICRC,
};

/* Purpose: reads a frame. icrc_valid: do not compute the ICRC. Reads within [frame, frame + len) only;
 *          each length field once. Thread: any. */
enum wire_verdict wire_parse(const uint8_t *frame, uint32_t len, bool icrc_valid, struct wire_pkt *pkt_out);

/* The part of the headers that stays the same for one address vector. */
struct wire_tmpl {
	uint8_t hdr[WIRE_ETH_BYTES + WIRE_VLAN_BYTES + WIRE_IP6_BYTES + WIRE_UDP_BYTES + WIRE_BTH_BYTES + 2];
	uint8_t l3_off, bth_off;
	bool ipv6;
	uint32_t ip_sum; /* IPv4: checksum of the header with length 0, not folded */
};

struct wire_av {
	uint8_t smac[6], dmac[6];
	uint8_t sgid[16], dgid[16]; /* ::ffff:a.b.c.d: IPv4 */
	uint8_t tclass, hop_limit;
	uint16_t sport;
	uint32_t flow_label;
	uint16_t vlan; /* TCI, 0: none */
};

/* Purpose: headers up to and with the BTH, for wire_start to copy. */
void wire_tmpl_init(struct wire_tmpl *tmpl, const struct wire_av *av);
/* An IPv4 address in IPv6's clothes: what RoCE v2 over IPv4 has for GIDs. */
SPW_INLINE bool wire_gid_is_ip4(const uint8_t gid[16])
{
	static const uint8_t prefix[12] = {[10] = 0xff, 0xff};

	return memcmp(gid, prefix, sizeof(prefix)) == 0;
}

/* An IPv4 multicast address, 224.0.0.0/4. */
SPW_INLINE bool wire_gid_is_ip4_group(const uint8_t gid[16])
{
	return wire_gid_is_ip4(gid) && gid[12] >> 4 == 0xe;
}

void wire_tmpl_set_dmac(struct wire_tmpl *tmpl, const uint8_t dmac[6]);

/* Bytes of a frame: template, extended headers, payload with pad, ICRC. */
SPW_INLINE uint32_t wire_frame_bytes(const struct wire_tmpl *t, uint32_t ext_bytes, uint32_t payload)
{
	return t->bth_off + WIRE_BTH_BYTES + ext_bytes + SPW_ALIGN_UP(payload, 4u) + WIRE_ICRC_BYTES;
}

/* Purpose: writes the headers up to the BTH into a frame of wire_frame_bytes(). flags: WIRE_F_*.
 * Returns: where the extended headers start. */
enum { WIRE_F_SE = 1, WIRE_F_ACK_REQ = 2 };
SPW_INLINE uint8_t *wire_start(const struct wire_tmpl *t, uint8_t *frame, uint32_t frame_bytes, uint8_t opcode,
			       uint32_t dqpn, uint32_t psn, uint32_t payload, uint32_t flags)
{
	const uint32_t ip_bytes = frame_bytes - t->l3_off;
	uint8_t *ip = frame + t->l3_off, *bth = frame + t->bth_off;

	memcpy(frame, t->hdr, t->bth_off);
	if (t->ipv6) {
		spw_prm_st16(ip + 4, (uint16_t)(ip_bytes - WIRE_IP6_BYTES));
		spw_prm_st16(ip + WIRE_IP6_BYTES + 4, (uint16_t)(ip_bytes - WIRE_IP6_BYTES));
	} else {
		uint32_t sum = t->ip_sum + ip_bytes;

		sum = (sum & 0xffff) + (sum >> 16);
		sum = (sum & 0xffff) + (sum >> 16);
		spw_prm_st16(ip + 2, (uint16_t)ip_bytes);
		spw_prm_st16(ip + 10, (uint16_t)~sum);
		spw_prm_st16(ip + WIRE_IP4_BYTES + 4, (uint16_t)(ip_bytes - WIRE_IP4_BYTES));
	}
	bth[0] = opcode;
	bth[1] = (uint8_t)((flags & WIRE_F_SE ? 0x80 : 0) | 0x40 | (-payload & 3) << 4); /* 0x40: migrated */
	spw_prm_st16(bth + 2, 0xffff);
	spw_prm_st32(bth + 4, dqpn);
	spw_prm_st32(bth + 8, (flags & WIRE_F_ACK_REQ ? 0x80000000u : 0) | (psn & WIRE_PSN_MASK));
	return bth + WIRE_BTH_BYTES;
}

/* Purpose: zeroes the pad and writes the ICRC of a frame that is complete but for them. */
void wire_finish(uint8_t *frame, uint32_t frame_bytes, uint32_t l3_off, bool ipv6, uint32_t payload, bool icrc);

/* Purpose: the ICRC of a frame, from its IP header to the byte before the ICRC field.
 * Shape: l3 has l3_bytes, which cover IP, UDP, BTH and what follows. */
uint32_t wire_icrc(const uint8_t *l3, uint32_t l3_bytes, bool ipv6);

/* PSN arithmetic, mod 2^24: the signed distance from b to a. */
SPW_INLINE int32_t wire_psn_diff(uint32_t a, uint32_t b)
{
	return (int32_t)((a - b) << 8) >> 8;
}

#endif
