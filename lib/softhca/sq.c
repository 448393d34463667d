/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Send queues: fetching and checking WQEs, their data segments, completing, failing, flushing.
 * The application may write anything here, at any time: a length is read once, checked, then used. */
#include "softhca/nic_impl.h"

#define WQE_DS_MAX 63u /* 6 bits */
#define WQE_AHEAD 4u   /* WQEBBs that are on their way from the application's cache while one is at work */

static bool op_allowed(const struct nic_qp *q, uint8_t op)
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
static uint32_t data_offset(struct nic_qp *q, struct nic_swr *w)
{
	const uint32_t bytes = w->ds * 16u;
	uint32_t off = 16;

	if (q->transport == SPW_PRM_UD) {
		off += 48;
	} else if (q->transport == SPW_PRM_RAW) {
		const uint8_t *eth = sq_bytes(q, w->idx, 16);
		const bool tagged = spw_prm_wqe_eth_get_vlan_insert(eth); /* takes the inline header's place */
		const uint32_t hdr = bytes >= 32 && !tagged ? (uint32_t)spw_prm_wqe_eth_get_inline_hdr_sz(eth) : 0;

		off += hdr > 2 ? SPW_ALIGN_UP(14 + hdr, 16u) : 16;
		w->len = hdr;
	} else if (w->opcode != SPW_PRM_OP_SEND && w->opcode != SPW_PRM_OP_SEND_IMM &&
		   w->opcode != SPW_PRM_OP_SEND_INVAL) {
		const uint8_t *raddr = sq_bytes(q, w->idx, 16);

		off += 16;
		w->raddr = spw_prm_wqe_raddr_get_raddr(raddr);
		w->rkey = (uint32_t)spw_prm_wqe_raddr_get_rkey(raddr);
		if (w->opcode == SPW_PRM_OP_ATOMIC_CS || w->opcode == SPW_PRM_OP_ATOMIC_FA)
			off += 16;
	}
	return off <= bytes ? off : 0;
}

/* One data segment at *off: its payload bytes; steps over it. -1: it reaches past the WQE. */
static int64_t seg_step(struct nic_qp *q, const struct nic_swr *w, uint32_t *off)
{
	const uint8_t *p = sq_bytes(q, w->idx, *off);
	const uint32_t word = spw_prm_ld32(p);
	uint32_t span = 16, len = word;

	if (word >> 31) {
		len = word & 0x3ff;
		span = SPW_ALIGN_UP(4 + len, 16u);
	}
	if (*off + span > w->ds * 16u)
		return -1;
	*off += span;
	return len;
}

static uint8_t wqe_parse(struct nic_qp *q, struct nic_swr *w)
{
	uint64_t total;
	uint32_t off;

	if (!op_allowed(q, w->opcode))
		return SPW_PRM_SYN_LOCAL_QP_OP_ERR;
	w->len = 0;
	if (w->opcode == SPW_PRM_OP_NOP)
		return 0;
	off = data_offset(q, w);
	if (!off)
		return SPW_PRM_SYN_LOCAL_QP_OP_ERR;
	w->seg_off = (uint16_t)off;
	w->is_rd = w->opcode == SPW_PRM_OP_RDMA_READ || w->opcode == SPW_PRM_OP_ATOMIC_CS ||
		   w->opcode == SPW_PRM_OP_ATOMIC_FA;
	total = w->len;
	while (off < w->ds * 16u) {
		const int64_t n = seg_step(q, w, &off);

		if (n < 0)
			return SPW_PRM_SYN_LOCAL_QP_OP_ERR;
		total += (uint64_t)n;
	}
	if (total > 1u << 31)
		return SPW_PRM_SYN_LOCAL_LENGTH_ERR;
	w->len = (uint32_t)total;
	if ((w->opcode == SPW_PRM_OP_ATOMIC_CS || w->opcode == SPW_PRM_OP_ATOMIC_FA) && w->len != 8)
		return SPW_PRM_SYN_LOCAL_LENGTH_ERR;
	if (q->transport == SPW_PRM_UD && w->len > q->mtu)
		return SPW_PRM_SYN_LOCAL_LENGTH_ERR;
	return 0;
}

/* Number of WQEBBs of the WQE at sq_ci by its own word; at least 1. */
static uint32_t wqe_bbs(const uint8_t *ctrl)
{
	const uint32_t ds = (uint32_t)spw_prm_wqe_ctrl_get_ds(ctrl);

	return ds ? (ds + 3) / 4 : 1;
}

static void fetch_one(struct nic_qp *q)
{
	const uint8_t *ctrl = sq_bytes(q, q->sq_ci, 0);
	struct nic_swr *w = sq_swr(q, q->swr_tail);
	const uint32_t word0 = spw_prm_ld32(ctrl), word1 = spw_prm_ld32(ctrl + 4), word2 = spw_prm_ld32(ctrl + 8);
	const uint16_t left = (uint16_t)(q->sq_pi - q->sq_ci);

	memset(w, 0, sizeof(*w));
	w->idx = q->sq_ci;
	w->opcode = (uint8_t)word0;
	w->ds = word1 & WQE_DS_MAX;
	w->signaled = (word2 >> 2 & 3) >= SPW_PRM_CTRL_CE_CQE;
	w->se = word2 >> 1 & 1;
	w->fence = (word2 >> 5 & 7) > SPW_PRM_CTRL_FM_SMALL;
	w->imm = spw_prm_ld32(ctrl + 12);
	if ((word0 >> 8 & 0xffff) != q->sq_ci || word1 >> 8 != q->qp->qpn || !w->ds || left > q->qp->sq_wqebb_cnt ||
	    (w->ds + 3u) / 4 > left) {
		w->syndrome = SPW_PRM_SYN_LOCAL_QP_OP_ERR;
		w->ds = 1;
	} else {
		w->syndrome = wqe_parse(q, w);
	}
	w->psn = q->sq_psn;
	w->pkts = w->len ? (w->len + q->mtu - 1) >> q->mtu_log2 : 1;
	if (w->opcode == SPW_PRM_OP_NOP || w->syndrome)
		w->pkts = 0;
	q->sq_psn = (q->sq_psn + w->pkts) & WIRE_PSN_MASK;
	q->sq_ci = (uint16_t)(q->sq_ci + (w->ds + 3u) / 4);
	q->swr_tail++;
	if (spw_unlikely(q->nd->trace != NULL))
		trace_wqe(q->nd->trace, q, w);
}

bool sq_fetch(struct nic_qp *q)
{
	if (q->sq_ci == q->sq_pi || q->swr_tail - q->swr_head > q->swr_mask)
		return false;
	if (q->swr_tail != q->swr_head && sq_swr(q, q->swr_tail - 1)->syndrome)
		return false; /* nothing behind a WQE that will fail is started */
	if ((uint16_t)(q->sq_pi - q->sq_ci) > WQE_AHEAD)
		spw_prefetch_read(sq_bytes(q, (uint16_t)(q->sq_ci + WQE_AHEAD), 0));
	fetch_one(q);
	return true;
}

/* Inline bytes lie in the ring, and wrap with it. */
static void copy_inline(struct nic_qp *q, const struct nic_swr *w, uint32_t off, uint8_t *out, uint32_t len)
{
	const uint8_t *p = sq_bytes(q, w->idx, off);
	const uint8_t *end = q->qp->sq_buf + q->qp->sq_wqebb_cnt * SPW_PRM_WQE_BB_BYTES;
	const uint32_t n = SPW_MIN(len, (uint32_t)(end - p));

	memcpy(out, p, n);
	if (n < len)
		memcpy(out + n, q->qp->sq_buf, len - n);
}

uint8_t sq_gather(struct nic_qp *q, const struct nic_swr *w, struct nic_gather *g, uint8_t *out, uint32_t len)
{
	while (len) {
		const uint8_t *p;
		uint32_t word, seg_len, n;

		if (g->seg >= w->ds * 16u)
			return SPW_PRM_SYN_LOCAL_QP_OP_ERR;
		p = sq_bytes(q, w->idx, g->seg);
		word = spw_prm_ld32(p);
		seg_len = word >> 31 ? word & 0x3ff : word;
		if (seg_len < g->seg_at)
			return SPW_PRM_SYN_LOCAL_QP_OP_ERR;
		n = SPW_MIN(len, seg_len - g->seg_at);
		if (word >> 31) {
			if (g->seg + 4 + seg_len > w->ds * 16u)
				return SPW_PRM_SYN_LOCAL_QP_OP_ERR;
			copy_inline(q, w, g->seg + 4 + g->seg_at, out, n);
		} else if (n) {
			const struct hca_mr *mr = hca_mr_get(q->nd->dev, spw_prm_ld32(p + 4));
			const uint8_t *from = mr ? hca_mr_at(mr, q->qp->pd, spw_prm_ld64(p + 8) + g->seg_at, n, 0) : NULL;

			if (!from)
				return SPW_PRM_SYN_LOCAL_PROT_ERR;
			memcpy(out, from, n);
		}
		out += n;
		len -= n;
		g->at += n;
		g->seg_at += n;
		if (g->seg_at == seg_len) {
			g->seg += word >> 31 ? SPW_ALIGN_UP(4 + seg_len, 16u) : 16;
			g->seg_at = 0;
		}
	}
	return 0;
}

uint8_t sq_scatter(struct nic_qp *q, const struct nic_swr *w, uint32_t off, const uint8_t *data, uint32_t len)
{
	uint32_t at = 0; /* of the segment's first byte */

	for (uint32_t seg = w->seg_off; len && seg + 16 <= w->ds * 16u; seg += 16) {
		const uint8_t *p = sq_bytes(q, w->idx, seg);
		const uint32_t seg_len = spw_prm_ld32(p);

		if (seg_len >> 31)
			return SPW_PRM_SYN_LOCAL_QP_OP_ERR;
		if (off < at + seg_len) {
			const uint32_t n = SPW_MIN(len, at + seg_len - off);
			const struct hca_mr *mr = hca_mr_get(q->nd->dev, spw_prm_ld32(p + 4));
			uint8_t *to = mr ? hca_mr_at(mr, q->qp->pd, spw_prm_ld64(p + 8) + (off - at), n,
						     IB_UVERBS_ACCESS_LOCAL_WRITE)
					 : NULL;

			if (!to)
				return SPW_PRM_SYN_LOCAL_PROT_ERR;
			memcpy(to, data, n);
			data += n;
			off += n;
			len -= n;
		}
		at += seg_len;
	}
	return len ? SPW_PRM_SYN_LOCAL_LENGTH_ERR : 0;
}

void sq_complete(struct nic_qp *q, struct nic_swr *w)
{
	if (w->signaled)
		cq_put_req(q, w);
}

/* WQEs that were fetched, then those that were only rung. */
void sq_flush(struct nic_qp *q)
{
	uint32_t left;
	uint16_t at;

	if (!q->swr)
		return;
	while (q->swr_head != q->swr_tail) { /* counted first: a CQE may end in an overrun and come here again */
		const struct nic_swr *w = sq_swr(q, q->swr_head++);

		cq_put_req_err(q, w->idx, w->opcode, SPW_PRM_SYN_WR_FLUSH_ERR, 0);
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
		const uint32_t bbs = SPW_MIN(wqe_bbs(ctrl), left);

		cq_put_req_err(q, at, (uint8_t)spw_prm_wqe_ctrl_get_opcode(ctrl), SPW_PRM_SYN_WR_FLUSH_ERR, 0);
		at = (uint16_t)(at + bbs);
		left -= bbs;
	}
}

/* C9-220 and the following of the InfiniBand specification: RC goes to ERR, UC and UD to SQE. */
void sq_fail(struct nic_qp *q, uint8_t syndrome, uint8_t vendor)
{
	const struct nic_swr *w = sq_swr(q, q->swr_head++);

	cq_put_req_err(q, w->idx, w->opcode, syndrome, vendor);
	if (q->transport == SPW_PRM_RC) {
		qp_to_err(q);
		return;
	}
	q->qp->state = HCA_QPS_SQE;
	sq_flush(q);
}

void qp_to_err(struct nic_qp *q)
{
	if (q->qp->state == HCA_QPS_RESET)
		return;
	q->qp->state = HCA_QPS_ERR;
	q->ack_pending = false;
	q->rd_head = q->rd_tail;
	sq_flush(q);
	if (q->msg == WIRE_H_SEND && q->rq.cq)
		cq_put_rq_err(q->nd, &q->rq, q->qp->qpn, q->rwqe.idx, SPW_PRM_SYN_WR_FLUSH_ERR);
	q->msg = 0;
	if (q->qp->srq) {
		if (!q->rq_flushing)
			hca_event_qp(q->qp, HCA_EVENT_QP_LAST_WQE_REACHED);
	} else if (q->rq.cq) {
		rq_flush(q->nd, &q->rq, q->qp->qpn);
	}
	q->rq_flushing = true; /* what is posted from now on is flushed by the round */
}
