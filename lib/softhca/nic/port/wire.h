/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * RoCE v2 frames: parse one, build one, compute its ICRC. Pure functions on bytes.
 *
 *   Ethernet 14 [VLAN 4] | IPv4 20, IPv6 40 | UDP 8 | BTH 12 | ext. headers | payload | pad | ICRC
 *                          ^l3_off                    ^bth_off
 *
 *   UDP destination port 4791. Extended headers by operation: RETH 16 (address, rkey, length),
 *   AETH 4 (ACK, NAK), AtomicETH 28, AtomicAckETH 8, ImmDt or IETH 4; in UD the DETH 8 (Q_Key,
 *   source QP) precedes them. The pad fills the payload up to a multiple of 4. ICRC: CRC-32, least
 *   significant byte first.
 *
 * rx.c parses every received frame. The transports start frames with wire_start() from a template
 * that holds what is the same for one address vector, and nic_tx_commit() finishes them.
 *
 * Sources: InfiniBand Architecture Specification 1.3, 9.2-9.3 (BTH, extended headers, opcodes) and
 * Annex A17 (RoCE v2: UDP encapsulation, what the ICRC covers).
 */
#ifndef SPW_SOFTHCA_PORT_WIRE_H
#define SPW_SOFTHCA_PORT_WIRE_H

#include <string.h>

#include "prm/spw_prm.h"
#include "softhca/hca_gid.h"

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
	WIRE_CNP_BYTES = 16,
	WIRE_ICRC_BYTES = 4,
	WIRE_ROCE_PORT = 4791,
	WIRE_HDR_MAX = 14 + 4 + 40 + 8 + 12 + 28 + 4, /* of any frame, up to its payload */
	WIRE_PSN_MASK = 0xffffff,
};

/* BTH opcodes: transport in bits 7..5, operation below. WIRE_CNP is a whole one: a congestion
 * notification packet, 16 reserved bytes and no transport. */
enum { WIRE_RC = 0x00, WIRE_UC = 0x20, WIRE_RD = 0x40, WIRE_UD = 0x60, WIRE_CNP = 0x81 };
enum {
	WIRE_SEND_FIRST,
	WIRE_SEND_MIDDLE,
	WIRE_SEND_LAST,
	WIRE_SEND_LAST_IMM,
	WIRE_SEND_ONLY,
	WIRE_SEND_ONLY_IMM,
	WIRE_WRITE_FIRST,
	WIRE_WRITE_MIDDLE,
	WIRE_WRITE_LAST,
	WIRE_WRITE_LAST_IMM,
	WIRE_WRITE_ONLY,
	WIRE_WRITE_ONLY_IMM,
	WIRE_READ_REQ,
	WIRE_READ_FIRST,
	WIRE_READ_MIDDLE,
	WIRE_READ_LAST,
	WIRE_READ_ONLY,
	WIRE_ACK,
	WIRE_ATOMIC_ACK,
	WIRE_CMP_SWAP,
	WIRE_FETCH_ADD,
	WIRE_RSVD_21,
	WIRE_SEND_LAST_INV,
	WIRE_SEND_ONLY_INV,
	WIRE_OP_CNT
};

/* What an operation consists of, by opcode; 0: not an opcode. */
enum {
	WIRE_H_RETH = 1 << 0,
	WIRE_H_AETH = 1 << 1,
	WIRE_H_ATOMIC = 1 << 2,
	WIRE_H_ATOMIC_ACK = 1 << 3,
	WIRE_H_IMM = 1 << 4,
	WIRE_H_INV = 1 << 5,
	WIRE_H_FIRST = 1 << 6,
	WIRE_H_LAST = 1 << 7,
	WIRE_H_SEND = 1 << 8,
	WIRE_H_WRITE = 1 << 9,
	WIRE_H_RESP = 1 << 10,
	WIRE_H_VALID = 1 << 11,
	WIRE_H_PAYLOAD = 1 << 12,
};
extern const uint16_t wire_op_hdrs[WIRE_OP_CNT];
/* Bytes of the extended headers of an operation (without DETH). */
extern const uint8_t wire_op_ext_bytes[WIRE_OP_CNT];

/* AETH syndromes: the kind in bits 7..5, its value below. */
enum {
	WIRE_SYN_ACK = 0x00,
	WIRE_SYN_RNR = 0x20,
	WIRE_SYN_NAK = 0x60,
	WIRE_NAK_PSN = 0x60,
	WIRE_NAK_INV_REQ = 0x61,
	WIRE_NAK_ACCESS = 0x62,
	WIRE_NAK_OP = 0x63,
	WIRE_SYN_KIND = 0xe0,
	WIRE_ACK_NO_CREDIT = 0x1f, /* end-to-end credits are not used */
	WIRE_SYN_VALUE = 0x1f,     /* the NAK code or the RNR timer */
};

/* One received packet, its headers copied out. payload points into the frame. */
struct wire_pkt {
	uint8_t opcode;                /* the BTH's, transport and operation */
	uint8_t op;                    /* operation */
	uint16_t hdrs;                 /* WIRE_H_* */
	bool se, ack_req, ipv6, group; /* group: a multicast destination MAC */
	uint32_t dqpn, psn;
	uint64_t va; /* RETH, AtomicETH */
	uint32_t rkey, dma_len;
	uint64_t swap_add, compare;
	uint32_t qkey, sqpn;
	uint32_t imm; /* immediate, or the rkey to invalidate; host order */
	uint8_t syndrome;
	uint32_t msn;
	uint64_t orig;
	const uint8_t *payload;
	uint32_t payload_len; /* without pad */
	const uint8_t *l2, *l3;
	uint8_t sl; /* VLAN priority */
};

enum wire_verdict {
	WIRE_OK,       /* a RoCE packet, complete */
	WIRE_NOT_ROCE, /* some other frame */
	WIRE_BAD,      /* RoCE, but cut, with inconsistent lengths, or of an unknown opcode */
	WIRE_BAD_ICRC,
};

/* Purpose: parses a frame. icrc_valid: the ICRC is not checked.
 * Shape:   reads within [frame, frame + len) only, each length field once: the frame may change
 *          while it is read. pkt_out->sl is set only if the frame has a VLAN tag.
 * Lifetime: pkt_out points into the frame.
 * Thread:  any. */
enum wire_verdict wire_parse(const uint8_t *frame, uint32_t len, bool icrc_valid,
			     struct wire_pkt *pkt_out);

/* Purpose: the GID of the packet's source or destination address. Thread: any. */
SPW_INLINE void wire_gid(const struct wire_pkt *k, bool destination, uint8_t gid_out[16])
{
	if (k->ipv6) {
		memcpy(gid_out, k->l3 + (destination ? 24 : 8), 16);
		return;
	}
	memset(gid_out, 0, 10);
	memset(gid_out + 10, 0xff, 2);
	memcpy(gid_out + 12, k->l3 + (destination ? 16 : 12), 4);
}

/* The part of the headers that stays the same for one address vector. */
struct wire_tmpl {
	uint8_t hdr[WIRE_ETH_BYTES + WIRE_VLAN_BYTES + WIRE_IP6_BYTES + WIRE_UDP_BYTES +
		    WIRE_BTH_BYTES + 2];
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

/* ECN, the low bits of IPv4's TOS and IPv6's traffic class; 3: congestion was met. l3: the IP
 * header. Neither changes an ICRC, which leaves them out. */
SPW_INLINE bool wire_has_ce(const uint8_t *l3, bool ipv6)
{
	return ipv6 ? (l3[1] >> 4 & 3) == 3 : (l3[1] & 3) == 3;
}
/* Switches leave a CNP unmarked. l3: the IP header of a RoCE packet. */
SPW_INLINE bool wire_is_cnp(const uint8_t *l3, bool ipv6)
{
	return l3[(ipv6 ? WIRE_IP6_BYTES : WIRE_IP4_BYTES) + WIRE_UDP_BYTES] == WIRE_CNP;
}
void wire_mark_ce(uint8_t *l3, bool ipv6);

/* Purpose: the headers up to the BTH, for wire_start() to copy.
 * Thread:  any. */
void wire_tmpl_init(struct wire_tmpl *tmpl, const struct wire_av *av);
void wire_tmpl_set_dmac(struct wire_tmpl *tmpl, const uint8_t dmac[6]);

/* Bytes of a frame: template, extended headers, payload with pad, ICRC. */
SPW_INLINE uint32_t wire_frame_bytes(const struct wire_tmpl *t, uint32_t ext_bytes,
				     uint32_t payload)
{
	return t->bth_off + WIRE_BTH_BYTES + ext_bytes + SPW_ALIGN_UP(payload, 4u) +
	       WIRE_ICRC_BYTES;
}

enum { WIRE_F_SE = 1, WIRE_F_ACK_REQ = 2 };
/* The fields of a BTH that differ from frame to frame. */
struct wire_bth {
	uint8_t opcode; /* transport and operation */
	uint8_t flags;  /* WIRE_F_* */
	uint32_t dqpn, psn;
};

/* Purpose: writes the headers of a frame, BTH included.
 * Shape:   frame has frame_bytes, by wire_frame_bytes(); payload in bytes.
 * Returns: where the extended headers start.
 * Thread:  any. */
SPW_INLINE uint8_t *wire_start(const struct wire_tmpl *t, uint8_t *frame, uint32_t frame_bytes,
			       uint32_t payload, struct wire_bth b)
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
	bth[0] = b.opcode;
	/* 0x40: path migration state "migrated" */
	bth[1] = (uint8_t)((b.flags & WIRE_F_SE ? 0x80 : 0) | 0x40 | (-payload & 3) << 4);
	spw_prm_st16(bth + 2, 0xffff); /* P_Key */
	spw_prm_st32(bth + 4, b.dqpn);
	spw_prm_st32(bth + 8,
		     (b.flags & WIRE_F_ACK_REQ ? 0x80000000u : 0) | (b.psn & WIRE_PSN_MASK));
	return bth + WIRE_BTH_BYTES;
}

/* Purpose: zeroes the pad and writes the ICRC of a frame that is otherwise complete; icrc false:
 *          the field becomes 0, for a cable whose receiver does not check it.
 * Thread:  any. */
void wire_finish(uint8_t *frame, uint32_t frame_bytes, uint32_t l3_off, bool ipv6, uint32_t payload,
		 bool icrc);

/* Purpose: the ICRC of a packet.
 * Shape:   l3 has l3_bytes, from the IP header to the byte before the ICRC field.
 * Thread:  any.
 * Source:  Annex A17. */
uint32_t wire_icrc(const uint8_t *l3, uint32_t l3_bytes, bool ipv6);

/* PSN arithmetic, mod 2^24: the signed distance from b to a. */
SPW_INLINE int32_t wire_psn_diff(uint32_t a, uint32_t b)
{
	return (int32_t)((a - b) << 8) >> 8;
}

#endif
