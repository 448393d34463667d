/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Raw Ethernet: frames from send WQEs onto the cable. raw.c receives.
 *
 *   round_qp_tx --> raw_tx --> sq_fetch --> raw_send, for each WQE
 *     raw_send         reserve, inline header, gather, VLAN tag, checksums, commit
 *     raw_fail         a WQE that is wrong: the queue fails, after what was sent before
 *     nic_tx_publish   after several frames: flush, then the CQEs of all of them
 *
 * Sources: prm/spw_prm.h, rdma-core mlx5dv.h (ethernet segment).
 */
#include "softhca/nic/eth/eth.h"
#include "softhca/nic/port/port.h"

#define ETH_MIN 60u /* shorter frames are padded, as a MAC does */
#define INLINE_HDR_AT \
	(16u + 14u) /* ctrl segment; then the ethernet segment up to its header bytes */

/* What a card computes while it sends: fields are cleared first, because a checksum does not cover
 * itself. A UDP sum of 0 is sent as 0xffff (RFC 768). */
static void raw_offload_csums(uint8_t *frame, uint32_t len, bool l3, bool l4)
{
	struct flow_key k;
	uint32_t at, sum;

	flow_parse(frame, len, &k);
	if (l3 && k.l3 == FLOW_L3_IPV4 && k.l4_off > k.l3_off) {
		spw_prm_st16(frame + k.l3_off + 10, 0);
		spw_prm_st16(frame + k.l3_off + 10,
			     (uint16_t)~csum_add(0, frame + k.l3_off, k.l4_off - k.l3_off));
	}
	if (!l4 || k.is_frag || (k.l4 != FLOW_L4_TCP && k.l4 != FLOW_L4_UDP))
		return;
	at = k.l4_off + (k.l4 == FLOW_L4_TCP ? 16u : 6u);
	if (at + 2 > len || k.l3_off + k.l3_bytes < at + 2)
		return;
	spw_prm_st16(frame + at, 0);
	sum = ~csum_l4(&k) & 0xffff;
	spw_prm_st16(frame + at, (uint16_t)(sum || k.l4 == FLOW_L4_TCP ? sum : 0xffff));
}

/* Header bytes inside a WQE lie in the ring, and wrap with it. */
static void raw_copy_ring(struct nic_qp *q, uint16_t idx, uint32_t off, uint8_t *out, uint32_t len)
{
	while (len) {
		const uint8_t *p = sq_bytes(q, idx, off);
		const uint32_t left = (uint32_t)(q->qp->sq_buf + q->qp->sq_wqebb_cnt * 64u - p);
		const uint32_t n = SPW_MIN(len, left);

		memcpy(out, p, n);
		out += n;
		off += n;
		len -= n;
	}
}

/* The frame lies TAG_BYTES into its room; its addresses move to the front and the tag between. */
static void raw_put_tag(uint8_t *frame, const uint8_t *eth)
{
	memmove(frame, frame + TAG_BYTES, 12);
	spw_prm_st16(frame + 12, spw_prm_wqe_eth_get_vlan_s(eth) ? TYPE_SVLAN : TYPE_CVLAN);
	spw_prm_st16(frame + 14, spw_prm_wqe_eth_get_vlan_tci(eth));
}

/* Returns false if the cable has no room. */
static bool raw_send(struct nic_qp *q, struct nic_swr *w)
{
	const uint8_t *eth = sq_bytes(q, w->idx, 16);
	const bool l3_csum = spw_prm_wqe_eth_get_l3_csum(eth),
		   l4_csum = spw_prm_wqe_eth_get_l4_csum(eth);
	const uint32_t tag = spw_prm_wqe_eth_get_vlan_insert(eth) ? TAG_BYTES : 0,
		       len = w->len + tag;
	const uint32_t hdr = tag ? 0 : SPW_MIN(spw_prm_wqe_eth_get_inline_hdr_sz(eth), w->len);
	const uint32_t bytes = SPW_MAX(len, ETH_MIN);
	uint8_t dmac[6] = {0}, *frame;
	struct nic_gather peek = q->g;

	if (w->len < CABLE_FRAME_MIN || 14 + hdr > w->ds * 16u) {
		w->syndrome = SPW_PRM_SYN_LOCAL_LENGTH_ERR;
		return true;
	}
	if (!tag && hdr < SPW_MIN((uint32_t)q->nd->dev->cfg->card->min_inline_bytes, w->len)) {
		w->syndrome = SPW_PRM_SYN_LOCAL_QP_OP_ERR;
		return true;
	}
	if (hdr >= 6)
		raw_copy_ring(q, w->idx, INLINE_HDR_AT, dmac, 6);
	else
		w->syndrome = sq_gather(q, w, &peek, dmac, 6);
	if (w->syndrome)
		return true;
	if (spw_unlikely(len > nic_frame_max(q->nd))) {
		nic_tx_too_long(q->nd, len);
		sq_sent(q);
		return true;
	}
	frame = nic_tx_reserve(q->nd, dmac, 0, bytes);
	if (!frame)
		return false;
	raw_copy_ring(q, w->idx, INLINE_HDR_AT, frame, hdr);
	w->syndrome = sq_gather(q, w, &q->g, frame + tag + hdr, w->len - hdr);
	if (w->syndrome)
		return true;
	if (spw_unlikely(tag))
		raw_put_tag(frame, eth);
	memset(frame + len, 0, bytes - len);
	if (spw_unlikely(l3_csum || l4_csum))
		raw_offload_csums(frame, len, l3_csum, l4_csum);
	l2_loop(q, frame, bytes);
	sq_sent(q); /* the commit may flush */
	nic_tx_commit(q->nd, frame, bytes, false, 0, false, 0);
	return true;
}

/* What was sent completes before this WQE fails, in order; doing so may fail the queue already. */
static void raw_fail(struct nic_qp *q, uint8_t syndrome)
{
	sq_settle(q);
	if (q->swr_head != q->swr_tail)
		sq_fail(q, syndrome, 0);
}

/* The next WQE is in swr_cur. Returns: false: there is none. In SQD, the application waits for what
 * was sent. */
static bool raw_next(struct nic_qp *q)
{
	if (q->swr_cur != q->swr_tail)
		return true;
	if (q->qp->state != HCA_QPS_RTS) {
		sq_settle(q);
		return false;
	}
	if (!sq_fetch(q))
		return false;
	q->g = (struct nic_gather){.seg = sq_swr(q, q->swr_cur)->seg_off};
	return true;
}

/* NIC_QP_BUDGET frames, then the next QP has its turn. */
bool raw_tx(struct nic_qp *q)
{
	for (uint32_t budget = NIC_QP_BUDGET; budget; budget--) {
		struct nic_swr *w;

		if (!raw_next(q))
			return q->sq_ci != q->sq_pi; /* the table of open WQEs is full */
		w = sq_swr(q, q->swr_cur);
		if (!w->syndrome && w->opcode == SPW_PRM_OP_NOP)
			sq_sent(q);
		else if (!w->syndrome && !raw_send(q, w))
			return true;
		if (spw_unlikely(w->syndrome)) {
			raw_fail(q, w->syndrome);
			return false;
		}
	}
	return true;
}
