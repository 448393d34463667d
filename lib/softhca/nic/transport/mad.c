/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * QP 1: the management datagrams of the connection manager (cm/). The device has no such queue; a
 * datagram is built and taken whole. eth/rx.c calls mad_rx, cm/cm.c nic_mad_send.
 *
 *   Ethernet, IP, UDP | BTH: QP 1 | DETH: Q_Key 0x80010000, QP 1 | 256 bytes
 *
 *   in    another class of Q_Key, size or sender's QP is dropped, as by a queue of the kernel's
 *   out   without room on the cable the manager offers it again in the next round
 *
 * Every process that shares the MAC gets what arrives (cable/shm.c sends it to all of them).
 *
 * Source: InfiniBand Architecture Specification 1.3, 13.4.1, 3.9.4.2 (the general service
 * interface).
 */
#include <errno.h>

#include "softhca/cm/cm.h"
#include "softhca/nic/port/port.h"
#include "softhca/nic/transport/qp.h"

#define QKEY_MAD  0x80010000u
#define HOP_LIMIT 64u
#define SPORT     0xc000u

/* Its sender's MAC is noted: an answer goes there, as Linux takes it from the completion
 * (ib_init_ah_attr_from_wc). */
void mad_rx(struct nic_dev *nd, const struct wire_pkt *k)
{
	uint8_t from[16], to[16];

	if ((k->opcode & 0xe0) != WIRE_UD || k->qkey != QKEY_MAD || k->sqpn != MAD_QPN ||
	    k->payload_len != NIC_MAD_BYTES || k->group)
		return;
	wire_gid(k, false, from);
	wire_gid(k, true, to);
	neigh_learn(nd, from, k->l2 + 6);
	cm_rx(nd->dev, from, to, k->payload);
}

bool nic_mad_send(struct hca_dev *dev, const struct nic_mad *to, const uint8_t *mad)
{
	struct nic_dev *nd = dev->nic;
	struct wire_av av = {.tclass = to->tclass, .hop_limit = HOP_LIMIT, .sport = SPORT};
	struct wire_tmpl tmpl;
	uint32_t bytes;
	uint8_t *frame, *p;

	if (nic_resolve(dev, to->sgid_index, to->dgid, av.dmac))
		return true;
	memcpy(av.smac, dev->id.mac, 6);
	memcpy(av.sgid, dev->gid[to->sgid_index], 16);
	memcpy(av.dgid, to->dgid, 16);
	wire_tmpl_init(&tmpl, &av);
	bytes = wire_frame_bytes(&tmpl, WIRE_DETH_BYTES, NIC_MAD_BYTES);
	frame = nic_tx_reserve(nd, tmpl.hdr, 0, bytes); /* for every process that shares the MAC */
	if (!frame)
		return false;
	p = wire_start(&tmpl, frame, bytes, NIC_MAD_BYTES,
		       (struct wire_bth){.opcode = WIRE_UD | WIRE_SEND_ONLY,
					 .dqpn = MAD_QPN,
					 .psn = nd->mad_psn++});
	spw_prm_st32(p, QKEY_MAD);
	spw_prm_st32(p + 4, MAD_QPN);
	memcpy(p + WIRE_DETH_BYTES, mad, NIC_MAD_BYTES);
	nic_tx_commit(nd, frame, bytes, true, tmpl.l3_off, tmpl.ipv6, NIC_MAD_BYTES);
	return true;
}
