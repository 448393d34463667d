/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A received frame: RoCE to its QP, anything else to the steering rules. nic_round() calls
 * rx_frame() for each frame of a burst.
 *
 *   above the port's MTU           counted rx_oversize_pkts_phy }
 *   too short, bad lengths         counted port_rcv_errors      } dropped here,
 *   wrong ICRC                     counted rx_icrc_encapsulated } before any QP
 *   RoCE for a MAC of this NIC     its QP by number (0xffffff: the QPs of the group; 1: the
 *                                  connection manager), and sniffers
 *   RoCE for another MAC, others   ARP, then what the port lets in (l2.c) to the steering rules
 *                                  (raw_steer); may have to wait
 *
 * Sources: InfiniBand Architecture Specification 1.3, 9.6.1 (packet validation), 11.6.3 (events);
 * Linux Documentation/networking/device_drivers/ethernet/mellanox/mlx5/counters.rst (oversize).
 */
#include "softhca/inject/inject.h"
#include "softhca/kernel/kernel.h"
#include "softhca/nic/eth/eth.h"
#include "softhca/nic/port/port.h"
#include "softhca/nic/port/trace.h"
#include "softhca/nic/transport/copy.h"

/* Notes the sender's MAC. */
static void rx_learn(struct nic_dev *nd, const struct wire_pkt *k)
{
	uint8_t gid[16];

	wire_gid(k, false, gid);
	neigh_learn(nd, gid, k->l2 + 6);
}

/* The packet's transport must be the QP's. */
static bool rx_transport_fits(const struct nic_qp *q, const struct wire_pkt *k)
{
	switch (k->opcode & 0xe0) {
	case WIRE_RC:
		return q->transport == SPW_PRM_RC;
	case WIRE_UC:
		return q->transport == SPW_PRM_UC && !(k->hdrs & WIRE_H_INV);
	case WIRE_UD:
		return q->transport == SPW_PRM_UD;
	default:
		return false;
	}
}

/* A packet in RTR, before this side is in RTS, raises "communication established" once (11.6.3.2).
 */
static void rx_comm_est(struct nic_qp *q)
{
	if (spw_likely(q->qp->state != HCA_QPS_RTR || q->comm_est))
		return;
	q->comm_est = true;
	hca_event_qp(q->qp, HCA_EVENT_COMM_EST);
}

/* cur and cur_rx name who fails if memory is gone (run/gone.c). */
static void rx_to_qp(struct nic_qp *q, const struct wire_pkt *k)
{
	struct nic_dev *nd = q->nd;

	if (q->qp->state < HCA_QPS_RTR || q->qp->state == HCA_QPS_ERR || !rx_transport_fits(q, k)) {
		if (k->opcode == WIRE_CNP)
			cnp_rx(q);
		return; /* others are silently dropped, 9.6.1 */
	}
	nd->cur = q;
	nd->cur_rx = true;
	if (q->transport == SPW_PRM_UD) {
		ud_rx(q, k);
	} else if (q->transport == SPW_PRM_UC) {
		rx_comm_est(q);
		uc_rx(q, k);
	} else {
		rx_comm_est(q);
		if (spw_unlikely(!q->dmac_known))
			rx_learn(nd, k);
		nd->cur_rx = !(k->hdrs & WIRE_H_RESP);
		if (k->hdrs & WIRE_H_RESP)
			rc_req_rx(q, k);
		else if (spw_unlikely(nd->copier != NULL))
			copy_rsp_rx(q, k);
		else
			rc_rsp_rx(q, k);
	}
	nd->cur = NULL;
}

/* Own address, or a group's. */
static bool rx_mac_is_mine(const struct nic_dev *nd, const uint8_t *mac)
{
	return memcmp(mac, nd->dev->id.mac, 6) == 0 || (mac[0] & 1);
}

/* Multicast UD: to every attached QP. */
static void rx_to_group(struct nic_dev *nd, struct wire_pkt *k)
{
	uint8_t gid[16];

	wire_gid(k, true, gid);
	for (struct hca_mcast *m = nd->dev->mcast; m; m = m->next)
		if (memcmp(m->gid, gid, 16) == 0 && m->qp->nic &&
		    m->qp->nic->transport == SPW_PRM_UD)
			rx_to_qp(m->qp->nic, k);
}

/* By the flow rules, if there are any. False: the frame must be offered again. */
SPW_INLINE bool rx_to_rules(struct nic_dev *nd, const struct cable_frame *f, bool roce)
{
	return spw_likely(!nd->flow_cnt) || raw_steer(nd, f->data, f->len, roce);
}

/* The port's counters, as ethtool and sysfs show them; data is in units of 4 bytes (IBTA). */
SPW_INLINE void rx_count(const struct nic_dev *nd, const struct cable_frame *f)
{
	const bool on_chip = nd->has_halves && chip_has_cable_port(nd, f->from);
	const bool group = f->data[0] & 1;
	struct hca_cnt *cnt = &nd->dev->cnt;

	spw_thr_count(&cnt->port_rcv_packets, 1u);
	spw_thr_count(&cnt->port_rcv_data, f->len / 4);
	spw_thr_count(group ? &cnt->multicast_rcv_packets : &cnt->unicast_rcv_packets, 1u);
	if (spw_likely(!on_chip)) {
		spw_thr_count(&cnt->rx_bytes_phy, f->len);
		return;
	}
	spw_thr_count(&cnt->rx_chip_packets, 1u);
	spw_thr_count(&cnt->rx_chip_multicast, group);
}

/* The bytes did pass the port, so they count as received by it. */
void rx_discard(struct nic_dev *nd, const struct cable_frame *f)
{
	NIC_CNT(nd, rx_discards_phy);
	NIC_CNT_ADD(nd, rx_bytes_phy, f->len);
}

/* Of the wire: what the switch inside the card carries does not pass the port. */
SPW_INLINE bool rx_is_too_long(const struct nic_dev *nd, const struct cable_frame *f)
{
	return spw_unlikely(f->len > nic_frame_max(nd)) &&
	       !(nd->has_halves && chip_has_cable_port(nd, f->from));
}

/* False: the frame cannot be taken yet; it stays on the cable, and so does everything behind it. */
bool rx_frame(struct nic_dev *nd, const struct cable_frame *f)
{
	struct wire_pkt k;
	struct hca_qp *qp;

	if (spw_unlikely(f->len < CABLE_FRAME_MIN)) {
		NIC_CNT(nd, port_rcv_errors);
		return true;
	}
	if (rx_is_too_long(nd, f)) {
		NIC_CNT(nd, rx_oversize_pkts_phy);
		return true;
	}
	if (inject_discards(nd)) {
		rx_discard(nd, f);
		return true;
	}
	if (spw_unlikely(nd->trace != NULL))
		trace_frame(nd->trace, f->data, f->len, false, nd->stamp);
	k.sl = 0;
	switch (wire_parse(f->data, f->len, nd->cable->trusts && (f->flags & CABLE_F_ICRC_VALID),
			   &k)) {
	case WIRE_OK:
		break;
	case WIRE_NOT_ROCE:
		neigh_arp_rx(nd, f->data, f->len); /* the rules get it too */
		if (l2_accepts(nd, f->data) && !rx_to_rules(nd, f, false))
			return false;
		rx_count(nd, f);
		return true;
	case WIRE_BAD_ICRC:
		NIC_CNT(nd, rx_icrc_encapsulated);
		return true;
	default:
		NIC_CNT(nd, port_rcv_errors);
		return true;
	}
	if (!rx_mac_is_mine(nd, k.l2)) { /* for another NIC: like any frame */
		if (l2_accepts(nd, f->data) && !rx_to_rules(nd, f, false))
			return false;
		rx_count(nd, f);
		return true;
	}
	rx_count(nd, f);
	if (spw_unlikely(wire_has_ce(k.l3, k.ipv6)))
		cnp_marked(nd, &k);
	rx_to_rules(nd, f, true);
	if (spw_unlikely(k.dqpn == 0xffffff)) {
		rx_to_group(nd, &k);
		return true;
	}
	if (spw_unlikely(k.dqpn == MAD_QPN)) {
		mad_rx(nd, &k);
		return true;
	}
	qp = hca_qp_get(nd->dev, k.dqpn);
	if (spw_likely(qp && qp->nic))
		rx_to_qp(qp->nic, &k);
	return true;
}
