/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Send queues: fetching and checking WQEs, reading their data segments, completing, failing,
 * flushing.
 *
 * nic_round() sends from each QP that was rung: its transport (rc_req, ud, raw) calls sq_fetch()
 * for the next WQE, sq_gather() for the payload of each frame, and sq_complete() or sq_fail() at
 * the end.
 *
 * The ring is the application's memory, and hostile: every word is read once into a local, checked,
 * then used. A WQE that is wrong is not refused when it is fetched; it carries its syndrome until
 * it is the oldest, so that completions stay in order.
 *
 * Source of the formats: rdma-core providers/mlx5/mlx5dv.h, by way of prm/spw_prm.h.
 *
 *   sq_ci        sq_pi (record)         ring: WQEs that were rung
 *   swr_head     swr_cur      swr_tail  swr[]: WQEs that were fetched
 *      | sent, open | to send    |
 *      └ completes in order: sq_complete, sq_fail
 */
#include "softhca/inject/inject.h"
#include "softhca/nic/port/trace.h"
#include "softhca/nic/transport/copy.h"
#include "softhca/nic/transport/qp.h"

#define PAYLOAD_MAX (1u << 31)
/* WQEBBs prefetched ahead of the one at work: they lie in the application's cache. */
#define WQE_AHEAD 4u

/* Opcodes by transport (IBTA 9.4). */
static bool sq_op_allowed(const struct nic_qp *q, uint8_t op)
{
	switch (op) {
	case SPW_PRM_OP_NOP:
	case SPW_PRM_OP_SEND:
		return true;
	case SPW_PRM_OP_SEND_IMM:
		return q->transport != SPW_PRM_RAW;
	case SPW_PRM_OP_RDMA_WRITE:
	case SPW_PRM_OP_RDMA_WRITE_IMM:
		return q->transport == SPW_PRM_RC || q->transport == SPW_PRM_UC;
	case SPW_PRM_OP_SEND_INVAL:
	case SPW_PRM_OP_RDMA_READ:
	case SPW_PRM_OP_ATOMIC_CS:
	case SPW_PRM_OP_ATOMIC_FA:
		return q->transport == SPW_PRM_RC;
	default:
		return false;
	}
}

/* Where the data segments start; 0 if the WQE is too short for its opcode. */
static uint32_t sq_data_offset(struct nic_qp *q, struct nic_swr *w)
{
	const uint32_t bytes = w->ds * 16u;
	uint32_t off = 16;

	if (q->transport == SPW_PRM_UD) {
		/* The address vector. */
		off += 48;
	} else if (q->transport == SPW_PRM_RAW) {
		const uint8_t *eth = sq_bytes(q, w->idx, 16);
		/* The VLAN tag takes the place of the inline header. */
		const bool tagged = spw_prm_wqe_eth_get_vlan_insert(eth);
		const uint32_t hdr = bytes >= 32 && !tagged ? spw_prm_wqe_eth_get_inline_hdr_sz(eth)
							    : 0;

		off += hdr > 2 ? SPW_ALIGN_UP(14 + hdr, 16u) : 16;
		w->len = hdr;
	} else if (w->opcode != SPW_PRM_OP_SEND && w->opcode != SPW_PRM_OP_SEND_IMM &&
		   w->opcode != SPW_PRM_OP_SEND_INVAL) {
		const uint8_t *raddr = sq_bytes(q, w->idx, 16);

		off += 16;
		w->raddr = spw_prm_wqe_raddr_get_raddr(raddr);
		w->rkey = spw_prm_wqe_raddr_get_rkey(raddr);
		if (w->opcode == SPW_PRM_OP_ATOMIC_CS || w->opcode == SPW_PRM_OP_ATOMIC_FA)
			off += 16;
	}
	return off <= bytes ? off : 0;
}

/* Checks all segments and adds up the length, before a byte is sent. Returns a syndrome; 0: sound.
 */
static uint8_t sq_wqe_parse(struct nic_qp *q, struct nic_swr *w)
{
	uint64_t total;
	uint32_t off;

	if (!sq_op_allowed(q, w->opcode))
		return SPW_PRM_SYN_LOCAL_QP_OP_ERR;
	w->len = 0;
	if (w->opcode == SPW_PRM_OP_NOP)
		return 0;
	off = sq_data_offset(q, w);
	if (!off)
		return SPW_PRM_SYN_LOCAL_QP_OP_ERR;
	w->seg_off = (uint16_t)off;
	w->is_rd = w->opcode == SPW_PRM_OP_RDMA_READ || w->opcode == SPW_PRM_OP_ATOMIC_CS ||
		   w->opcode == SPW_PRM_OP_ATOMIC_FA;
	total = w->len;
	while (off < w->ds * 16u) {
		const struct nic_seg s = sq_seg(q, w, off);

		if (off + s.span > w->ds * 16u)
			return SPW_PRM_SYN_LOCAL_QP_OP_ERR;
		off += s.span;
		total += s.len;
	}
	if (total > PAYLOAD_MAX)
		return SPW_PRM_SYN_LOCAL_LENGTH_ERR;
	w->len = (uint32_t)total;
	if ((w->opcode == SPW_PRM_OP_ATOMIC_CS || w->opcode == SPW_PRM_OP_ATOMIC_FA) && w->len != 8)
		return SPW_PRM_SYN_LOCAL_LENGTH_ERR;
	if (q->transport == SPW_PRM_UD && w->len > q->mtu)
		return SPW_PRM_SYN_LOCAL_LENGTH_ERR;
	return 0;
}

/* Size in WQEBBs by the WQE's own word; at least 1. */
static uint32_t sq_wqe_bbs(const uint8_t *ctrl)
{
	const uint32_t ds = spw_prm_wqe_ctrl_get_ds(ctrl);

	return ds ? (ds + 3) / 4 : 1;
}

/* What no WQE that was posted properly can have: another index or QP, no size, a size beyond what
 * was rung. */
static bool sq_ctrl_is_bad(const struct nic_qp *q, const uint8_t *ctrl, uint8_t ds)
{
	const uint16_t rung = (uint16_t)(q->sq_pi - q->sq_ci);

	return spw_prm_wqe_ctrl_get_wqe_index(ctrl) != q->sq_ci ||
	       spw_prm_wqe_ctrl_get_qpn(ctrl) != q->qp->qpn || !ds || rung > q->qp->sq_wqebb_cnt ||
	       (ds + 3u) / 4 > rung;
}

/* Copied in pieces of 16 bytes, since the WQE may wrap around the end of the ring. */
static SPW_COLD void sq_trace(const struct nic_qp *q, const struct nic_swr *w)
{
	uint8_t wqe[1024];
	const uint32_t bytes = SPW_MIN(w->ds * 16u, (uint32_t)sizeof(wqe));

	for (uint32_t off = 0; off < bytes; off += 16)
		memcpy(wqe + off, sq_bytes(q, w->idx, off), 16);
	trace_wqe(q->nd->trace, q->qp->qpn, (enum spw_prm_transport)q->transport, wqe, bytes,
		  q->nd->stamp);
}

/* PSNs are assigned here, one per packet, so that a READ reserves those of its response. */
static void sq_fetch_one(struct nic_qp *q)
{
	struct nic_swr *w = sq_swr(q, q->swr_tail);
	uint8_t ctrl[16];

	memcpy(ctrl, sq_bytes(q, q->sq_ci, 0), sizeof(ctrl));
	memset(w, 0, sizeof(*w));
	w->idx = q->sq_ci;
	w->opcode = spw_prm_wqe_ctrl_get_opcode(ctrl);
	w->ds = spw_prm_wqe_ctrl_get_ds(ctrl);
	w->signaled = spw_prm_wqe_ctrl_get_ce(ctrl) >= SPW_PRM_CTRL_CE_CQE;
	w->se = spw_prm_wqe_ctrl_get_se(ctrl);
	w->fence = spw_prm_wqe_ctrl_get_fm(ctrl) > SPW_PRM_CTRL_FM_SMALL;
	w->imm = spw_prm_wqe_ctrl_get_imm(ctrl);
	if (sq_ctrl_is_bad(q, ctrl, w->ds)) {
		w->syndrome = SPW_PRM_SYN_LOCAL_QP_OP_ERR;
		w->ds = 1;
	} else {
		w->syndrome = sq_wqe_parse(q, w);
	}
	w->psn = q->sq_psn;
	w->pkts = w->len ? (w->len + q->mtu - 1) >> q->mtu_log2 : 1;
	if (w->opcode == SPW_PRM_OP_NOP || w->syndrome)
		w->pkts = 0;
	q->sq_psn = (q->sq_psn + w->pkts) & WIRE_PSN_MASK;
	q->sq_ci = (uint16_t)(q->sq_ci + (w->ds + 3u) / 4);
	q->swr_tail++;
	if (spw_unlikely(q->nd->trace != NULL))
		sq_trace(q, w);
}

/* False: nothing was rung, or the table of open WQEs is full. */
bool sq_fetch(struct nic_qp *q)
{
	if (q->sq_ci == q->sq_pi || q->swr_tail - q->swr_head > q->swr_mask)
		return false;
	if (q->swr_tail != q->swr_head && sq_swr(q, q->swr_tail - 1)->syndrome)
		return false; /* nothing after a WQE that will fail is started */
	if ((uint16_t)(q->sq_pi - q->sq_ci) > WQE_AHEAD)
		spw_prefetch_read(sq_bytes(q, (uint16_t)(q->sq_ci + WQE_AHEAD), 0));
	sq_fetch_one(q);
	return true;
}

/* Inline bytes lie in the ring, and wrap with it. */
static void sq_copy_inline(struct nic_qp *q, const struct nic_swr *w, uint32_t off, uint8_t *out,
			   uint32_t len)
{
	const uint8_t *p = sq_bytes(q, w->idx, off);
	const uint8_t *end = q->qp->sq_buf + q->qp->sq_wqebb_cnt * SPW_PRM_WQE_BB_BYTES;
	const uint32_t n = SPW_MIN(len, (uint32_t)(end - p));

	memcpy(out, p, n);
	if (n < len)
		memcpy(out + n, q->qp->sq_buf, len - n);
}

/* Copies payload from the segments, from where g stands. A region is looked up for each piece: it
 * may have been deregistered meanwhile. */
uint8_t sq_gather(struct nic_qp *q, const struct nic_swr *w, struct nic_gather *g, uint8_t *out,
		  uint32_t len)
{
	while (len) {
		struct nic_seg s;
		uint32_t n;

		if (g->seg >= w->ds * 16u)
			return SPW_PRM_SYN_LOCAL_QP_OP_ERR;
		s = sq_seg(q, w, g->seg);
		if (s.len < g->seg_at)
			return SPW_PRM_SYN_LOCAL_QP_OP_ERR;
		n = SPW_MIN(len, s.len - g->seg_at);
		if (s.is_inline) {
			if (g->seg + 4 + s.len > w->ds * 16u)
				return SPW_PRM_SYN_LOCAL_QP_OP_ERR;
			sq_copy_inline(q, w, g->seg + 4 + g->seg_at, out, n);
		} else if (n) {
			const struct hca_mr *mr = hca_mr_get(q->nd->dev, s.lkey);
			const uint8_t *from =
				mr ? hca_mr_at(mr, q->qp->pd, s.addr + g->seg_at, n, 0) : NULL;

			if (!from)
				return SPW_PRM_SYN_LOCAL_PROT_ERR;
			nic_copy(q->nd, out, from, n);
		}
		out += n;
		len -= n;
		g->at += n;
		g->seg_at += n;
		if (g->seg_at == s.len) {
			g->seg += s.span;
			g->seg_at = 0;
		}
	}
	return 0;
}

/* The other direction: a READ or atomic response into the local segments. */
uint8_t sq_scatter(struct nic_qp *q, const struct nic_swr *w, uint32_t off, const uint8_t *data,
		   uint32_t len)
{
	uint32_t at = 0; /* payload bytes before this segment */

	for (uint32_t seg = w->seg_off; len && seg + 16 <= w->ds * 16u; seg += 16) {
		const struct nic_seg s = sq_seg(q, w, seg);

		if (s.is_inline)
			return SPW_PRM_SYN_LOCAL_QP_OP_ERR;
		if (off < at + s.len) {
			const uint32_t n = SPW_MIN(len, at + s.len - off);
			const struct hca_mr *mr = hca_mr_get(q->nd->dev, s.lkey);
			uint8_t *to = mr ? hca_mr_at(mr, q->qp->pd, s.addr + (off - at), n,
						     IB_UVERBS_ACCESS_LOCAL_WRITE)
					 : NULL;

			if (!to)
				return SPW_PRM_SYN_LOCAL_PROT_ERR;
			memcpy(to, data, n);
			data += n;
			off += n;
			len -= n;
		}
		at += s.len;
	}
	return len ? SPW_PRM_SYN_LOCAL_LENGTH_ERR : 0;
}

/* One place for the fault flush=none, in which nothing completes. */
static void sq_flush_cqe(struct nic_qp *q, uint16_t idx, uint8_t opcode)
{
	if (spw_likely(!inject_no_flush(q->nd)))
		sq_complete_err(q, idx, opcode, SPW_PRM_SYN_WR_FLUSH_ERR, 0);
}

/* First the WQEs that were fetched, then those that were only rung. */
void sq_flush(struct nic_qp *q)
{
	uint32_t left;
	uint16_t at;

	if (!q->swr)
		return;
	sq_settle(q);
	/* swr_head advances before the CQE is written: the CQE may overrun the CQ, and that flushes
	 * this queue from within. */
	while (q->swr_head != q->swr_tail) {
		const struct nic_swr *w = sq_swr(q, q->swr_head++);

		sq_flush_cqe(q, w->idx, w->opcode);
	}
	q->swr_cur = q->swr_head;
	q->cur_pkt = 0;
	q->deadline_ns = 0;
	q->rd_out = 0;
	left = SPW_MIN((uint32_t)(uint16_t)(q->sq_pi - q->sq_ci), q->qp->sq_wqebb_cnt);
	at = q->sq_ci;
	q->sq_ci = q->sq_pi;
	while (left) {
		const uint8_t *ctrl = sq_bytes(q, at, 0);
		const uint32_t bbs = SPW_MIN(sq_wqe_bbs(ctrl), left);

		sq_flush_cqe(q, at, spw_prm_wqe_ctrl_get_opcode(ctrl));
		at = (uint16_t)(at + bbs);
		left -= bbs;
	}
}

/* IBTA 1.3, C9-220 and following: RC goes to ERR, UC and UD to SQE. */
void sq_fail(struct nic_qp *q, uint8_t syndrome, uint8_t vendor)
{
	const struct nic_swr *w = sq_swr(q, q->swr_head++);

	sq_complete_err(q, w->idx, w->opcode, syndrome, vendor);
	if (q->transport == SPW_PRM_RC) {
		qp_to_err(q);
		return;
	}
	q->qp->state = HCA_QPS_SQE;
	sq_flush(q);
}
