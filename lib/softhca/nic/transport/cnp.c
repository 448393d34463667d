/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Congestion notification of RoCE v2: who receives a packet that a switch has marked informs the
 * packet's sender so, with a packet of its own (CNP), and both count it. rx.c calls both functions.
 *
 *   sender                          switch                     receiver
 *   packet of a QP   ─────────────► marks it: CE ────────────► np_ecn_marked_roce_packets
 *   rp_cnp_handled   ◄──────────── CNP to the sender's QP ◄─── np_cnp_sent, GAP_NS apart for a QP
 *
 * A card then lowers the rate of the QP; here nothing follows. A CNP is not repeated if it is lost.
 * UD names no QP to which one could be sent.
 *
 * Source: InfiniBand Architecture Specification, Annex A17.9.3 (opcode, BECN, 16 reserved bytes).
 * The gap is the default of min_time_between_cnps, 4 us, of Linux mlx5_ib (cong.c); believed.
 */
#include "softhca/nic/port/port.h"
#include "softhca/nic/transport/qp.h"

#define GAP_NS   4000u
#define BTH_BECN 0x40u

static void cnp_send(struct nic_qp *q)
{
	const uint32_t bytes = wire_frame_bytes(&q->tmpl, WIRE_CNP_BYTES, 0);
	uint8_t *frame = nic_tx_reserve(q->nd, q->tmpl.hdr, q->qp->attr.dest_qpn, bytes), *p;

	if (!frame)
		return;
	p = wire_start(&q->tmpl, frame, bytes, 0,
		       (struct wire_bth){.opcode = WIRE_CNP, .dqpn = q->qp->attr.dest_qpn});
	p[-WIRE_BTH_BYTES + 4] |= BTH_BECN;
	memset(p, 0, WIRE_CNP_BYTES);
	nic_tx_commit(q->nd, frame, bytes, true, q->tmpl.l3_off, q->tmpl.ipv6, 0);
	NIC_CNT(q->nd, np_cnp_sent);
	q->cnp_ns = q->nd->now_ns;
}

void cnp_marked(struct nic_dev *nd, const struct wire_pkt *k)
{
	const struct hca_qp *qp = hca_qp_get(nd->dev, k->dqpn);
	struct nic_qp *q = qp ? qp->nic : NULL;

	if (k->opcode == WIRE_CNP) /* never marked, never answered */
		return;
	NIC_CNT(nd, np_ecn_marked_roce_packets);
	if (!q || (q->transport != SPW_PRM_RC && q->transport != SPW_PRM_UC) ||
	    qp->state < HCA_QPS_RTR || qp->state == HCA_QPS_ERR || !q->dmac_known)
		return;
	if (nd->now_ns - q->cnp_ns >= GAP_NS)
		cnp_send(q);
}

void cnp_rx(const struct nic_qp *q)
{
	if (q->qp->state == HCA_QPS_RTS)
		NIC_CNT(q->nd, rp_cnp_handled);
	else
		NIC_CNT(q->nd, rp_cnp_ignored);
}
