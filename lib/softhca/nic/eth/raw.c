/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Raw Ethernet: received frames by the steering rules into receive queues. raw_tx.c sends.
 *
 *   rx.c --> raw_steer --> flow_steer: which TIRs --> raw_deliver, for each of them
 *     raw_deliver      the ring that rss_pick chooses: a WQ's, or the QP's
 *     raw_plain_put    one WQE for a frame       } and then raw_cqe
 *     raw_stride_put   many frames in a WQE      }
 *
 * Striding: a WQE is one buffer of stride_cnt strides; a frame takes the next whole strides.
 *
 *   strides of WQE ci   | frame 1   | fr. 2 | frame 3 ...     | filler |
 *                                             ^stride_at
 *   CQE: wqe_id = ci, wqe_counter = first stride, byte_cnt = strides << 16 | bytes; the filler CQE
 *   returns strides that a frame did not fit into, and the frame goes to the next WQE
 *
 * What to know before changing it: raw_deliver() must not take a frame it cannot complete. If the
 * first queue's CQ looks full, the frame stays on the cable for up to CQ_WAIT_NS.
 *
 * Sources: [PRM] 8.18 and prm/spw_prm.h (CQE fields), rdma-core mlx5dv.h (ethernet segment).
 */
#include <libdeflate.h>

#include "softhca/inject/inject.h"
#include "softhca/kernel/kernel.h"
#include "softhca/nic/eth/eth.h"

/* byte_cnt of a striding queue: filler flag, strides, bytes (SPW_PRM_CQE64 mprq_*). */
#define MPRQ_FILLER  (1u << 31)
#define MPRQ_STRIDES 16
#define CQ_WAIT_NS   1000000000ull /* a CQ that looks full for longer has overrun */

/* RFC 1071: a 16-bit ones' complement sum over big-endian words, folded; an odd last byte counts as
 * its high half. */
uint32_t csum_add(uint32_t sum, const uint8_t *p, uint32_t bytes)
{
	uint64_t s = sum;

	for (; bytes >= 4; p += 4, bytes -= 4)
		s += spw_prm_ld32(p);
	if (bytes >= 2) {
		s += spw_prm_ld16(p);
		p += 2;
		bytes -= 2;
	}
	if (bytes)
		s += (uint32_t)*p << 8;
	while (s >> 16)
		s = (s & 0xffff) + (s >> 16);
	return (uint32_t)s;
}

/* Sum over the pseudo-header and the L4 bytes; 0xffff if the checksum is correct. */
uint32_t csum_l4(const struct flow_key *k)
{
	const uint8_t *ip = k->frame + k->l3_off;
	const uint32_t l4_bytes = k->l3_off + k->l3_bytes - k->l4_off;
	uint32_t sum = csum_add(0, k->l3 == FLOW_L3_IPV4 ? ip + 12 : ip + 8,
				k->l3 == FLOW_L3_IPV4 ? 8 : 32);

	sum += k->proto + l4_bytes;
	return csum_add(sum, k->frame + k->l4_off, l4_bytes);
}

/* ---- receiving ---- */

enum { L2_OK = 1, L3_OK = 2, L4_OK = 4 };                             /* hds_ip_ext */
enum { CVLAN_STRIPPED = 1, IP_FRAG = 2, L3_SHIFT = 2, L4_SHIFT = 4 }; /* l4_hdr_type_etc */

struct raw_meta {
	uint32_t hash, tag;
	uint8_t hash_type, hds_ip_ext, l4_hdr_type;
	uint16_t vlan, check_sum;
	bool stripped;
};

/* The bytes for the receive buffer: the frame, without its VLAN tag or with its FCS if the queue
 * asks for that. */
struct raw_bytes {
	struct {
		const uint8_t *at;
		uint32_t len;
	} part[3];
	uint32_t part_cnt, len;
	uint8_t fcs[4];
};

/* What hds_ip_ext and l4_hdr_type report. UDP over IPv4 without a checksum counts as
 * correct. */
static void raw_check_sums(const struct flow_key *k, struct raw_meta *m)
{
	const uint8_t l3_type = k->l3 == FLOW_L3_IPV4   ? SPW_PRM_L3_IPV4
				: k->l3 == FLOW_L3_IPV6 ? SPW_PRM_L3_IPV6
							: 0;
	uint8_t l4_type = 0;

	m->hds_ip_ext = L2_OK;
	if (k->l3 == FLOW_L3_IPV6 ||
	    (k->l3 == FLOW_L3_IPV4 && k->l4_off > k->l3_off &&
	     csum_add(0, k->frame + k->l3_off, k->l4_off - k->l3_off) == 0xffff))
		m->hds_ip_ext |= L3_OK;
	if (!k->is_frag && (k->l4 == FLOW_L4_UDP || k->l4 == FLOW_L4_TCP)) {
		l4_type = k->l4 == FLOW_L4_UDP ? SPW_PRM_L4_UDP : SPW_PRM_L4_TCP_NO_ACK;
		if ((k->l4 == FLOW_L4_UDP && k->l3 == FLOW_L3_IPV4 &&
		     spw_prm_ld16(k->frame + k->l4_off + 6) == 0) ||
		    csum_l4(k) == 0xffff)
			m->hds_ip_ext |= L4_OK;
	}
	m->l4_hdr_type =
		(uint8_t)(l4_type << L4_SHIFT | l3_type << L3_SHIFT | (k->is_frag ? IP_FRAG : 0));
}

/* A frame is delivered in up to three parts, so that stripping a tag copies nothing. */
static void raw_add_part(struct raw_bytes *b, const uint8_t *at, uint32_t len)
{
	b->part[b->part_cnt].at = at;
	b->part[b->part_cnt++].len = len;
	b->len += len;
}

/* The FCS covers the frame as it was on the wire, tag included. Cables carry none, so it is
 * computed. */
static void raw_bytes_for(const struct nic_rq *r, const struct hca_tir *tir,
			  const struct flow_key *k, struct raw_meta *m, struct raw_bytes *b)
{
	const bool strip = r->wq ? r->wq->flags & IB_UVERBS_WQ_FLAGS_CVLAN_STRIPPING
				 : tir->qp->create_flags & IB_UVERBS_QP_CREATE_CVLAN_STRIPPING;
	const bool fcs = r->wq ? r->wq->flags & IB_UVERBS_WQ_FLAGS_SCATTER_FCS
			       : tir->qp->create_flags & IB_UVERBS_QP_CREATE_SCATTER_FCS;
	const uint32_t crc = spw_unlikely(fcs) ? libdeflate_crc32(0, k->frame, k->frame_bytes) : 0;

	b->part_cnt = b->len = 0;
	m->stripped = strip && k->has_vlan && spw_prm_ld16(k->frame + 12) == TYPE_CVLAN;
	if (spw_unlikely(m->stripped)) {
		m->vlan = k->vlan_tci;
		raw_add_part(b, k->frame, 12);
		raw_add_part(b, k->frame + 12 + TAG_BYTES, k->frame_bytes - 12 - TAG_BYTES);
	} else {
		raw_add_part(b, k->frame, k->frame_bytes);
	}
	if (spw_likely(!fcs))
		return;
	for (unsigned i = 0; i < sizeof(b->fcs); i++)
		b->fcs[i] = (uint8_t)(crc >> 8 * i);
	raw_add_part(b, b->fcs, sizeof(b->fcs));
}

/* The CQE of one frame. r->dropped counts the frames before it that found no WQE; a CQE reports and
 * clears it. */
static void raw_cqe(struct nic_rq *r, const struct raw_meta *m, uint32_t byte_cnt, uint32_t wqe_id,
		    uint32_t counter, uint64_t stamp)
{
	struct nic_cqe e;

	cq_start(&e);
	spw_prm_cqe64_set_wqe_id(&e, wqe_id);
	spw_prm_cqe64_set_rx_hash_result(&e, m->hash);
	spw_prm_cqe64_set_rx_hash_type(&e, m->hash_type);
	spw_prm_cqe64_set_check_sum(&e, m->check_sum);
	spw_prm_cqe64_set_hds_ip_ext(&e, m->hds_ip_ext);
	spw_prm_cqe64_set_l4_hdr_type_etc(&e, m->l4_hdr_type | (m->stripped ? CVLAN_STRIPPED : 0));
	spw_prm_cqe64_set_vlan_info(&e, m->vlan);
	spw_prm_cqe64_set_srqn_uidx(&e, r->uidx);
	spw_prm_cqe64_set_byte_cnt(&e, byte_cnt);
	spw_prm_cqe64_set_timestamp(&e, stamp);
	if (spw_unlikely(r->dropped != 0) && !adv_keeps_drops(r)) {
		spw_prm_cqe64_set_send_opcode(&e, r->dropped); /* its low 8 bits */
		r->dropped = 0;
	}
	spw_prm_cqe64_set_qpn(&e, m->tag);
	spw_prm_cqe64_set_wqe_counter(&e, counter);
	cq_reuse_check(r->cq, r, (uint16_t)(r->striding ? wqe_id : counter));
	cq_put(r->cq, &e, SPW_PRM_CQE_RESP_SEND, false,
	       r->striding ? spw_prm_cqe64_get_mprq_strides(&e) : 1);
}

/* A frame is longer than the receive WQE that it met: an error completion, and the WQE is used up.
 * The queue stays ready and raises no event, as on a card (DPDK's net_mlx5 resets after QP_OP, PROT
 * and FLUSH errors only: commits aa67ed3084, ef296e8f61). */
static void raw_frame_too_long(struct nic_dev *nd, struct nic_rq *r, uint32_t wqe_counter)
{
	NIC_CNT(nd, resp_local_length_error);
	rq_complete_err(nd, r, 0, wqe_counter, SPW_PRM_SYN_LOCAL_LENGTH_ERR);
}

/* A receive WQE is unusable: its queue goes to ERR, as on a card, until the application resets it.
 */
static void raw_wq_fail(struct nic_dev *nd, struct nic_rq *r, uint32_t wqe_counter,
			uint8_t syndrome)
{
	if (spw_unlikely(inject_wq_fatal(nd))) {
		late_wq_fails(nd, r, wqe_counter, syndrome);
		return;
	}
	r->wq->state = HCA_WQS_ERR;
	rq_complete_err(nd, r, 0, wqe_counter, syndrome);
	rq_flush(nd, r, 0);
	hca_event_wq(r->wq, HCA_EVENT_WQ_FATAL);
}

void raw_rq_fail(struct nic_dev *nd, struct nic_qp *q, struct nic_rq *r, uint32_t wqe_counter,
		 uint8_t syndrome)
{
	r->stride_at = 0;
	if (r->wq) {
		raw_wq_fail(nd, r, wqe_counter, syndrome);
		return;
	}
	rq_complete_err(nd, r, 0, wqe_counter, syndrome);
	qp_to_err(q);
	hca_event_qp(q->qp, HCA_EVENT_QP_FATAL);
}

/* Striding: a frame that does not fit into the rest of the WQE leaves that rest as filler. */
static bool raw_stride_put(struct nic_dev *nd, struct nic_rq *r, const struct raw_bytes *b,
			   const struct raw_meta *m)
{
	const uint32_t len = b->len;
	const uint32_t need = (len + r->two_byte_shift + r->stride_bytes - 1) / r->stride_bytes;
	const struct hca_mr *mr;
	const uint8_t *seg;
	uint64_t addr;
	uint8_t *to;

	if (need > r->stride_cnt || len > 0xffff)
		return false;
	if (r->stride_at && r->stride_at + need > r->stride_cnt) {
		raw_cqe(r, m, MPRQ_FILLER | (r->stride_cnt - r->stride_at) << MPRQ_STRIDES, r->ci,
			r->stride_at, nd->stamp);
		r->stride_at = 0;
		r->ci++;
	}
	if (rq_room(r) == 0 || rq_room(r) > r->rq->wqe_cnt)
		return false;
	seg = r->wqes + ((uint64_t)(r->ci & (r->rq->wqe_cnt - 1)) << r->rq->wqe_shift) + 16;
	addr = spw_prm_wqe_data_get_addr(seg) + (uint64_t)r->stride_at * r->stride_bytes +
	       r->two_byte_shift;
	mr = hca_mr_get(nd->dev, spw_prm_wqe_data_get_lkey(seg));
	to = mr && (uint64_t)r->stride_at * r->stride_bytes + r->two_byte_shift + len <=
				     spw_prm_wqe_data_get_byte_count(seg)
		     ? hca_mr_at(mr, r->pd, addr, len, IB_UVERBS_ACCESS_LOCAL_WRITE)
		     : NULL;
	if (!to) {
		raw_rq_fail(nd, nd->cur, r, r->ci++, SPW_PRM_SYN_LOCAL_PROT_ERR);
		return true;
	}
	for (uint32_t i = 0; i < b->part_cnt; to += b->part[i++].len)
		memcpy(to, b->part[i].at, b->part[i].len);
	raw_cqe(r, m, need << MPRQ_STRIDES | len, r->ci, r->stride_at, nd->stamp);
	r->stride_at += need;
	if (r->stride_at == r->stride_cnt) {
		r->stride_at = 0;
		r->ci++;
	}
	return true;
}

/* One WQE per frame. False: no WQE is posted, and the frame is dropped by the caller. */
static bool raw_plain_put(struct nic_dev *nd, struct nic_rq *r, const struct raw_bytes *b,
			  const struct raw_meta *m)
{
	struct nic_rwqe w;
	uint8_t syn = 0;

	if (rq_take(r, &w) != RQ_OK)
		return false;
	for (uint32_t i = 0; i < b->part_cnt && !syn; i++)
		syn = rq_scatter(nd, r, &w, b->part[i].at, b->part[i].len);
	if (spw_unlikely(syn)) {
		if (syn == SPW_PRM_SYN_LOCAL_LENGTH_ERR)
			raw_frame_too_long(nd, r, w.idx);
		else
			raw_rq_fail(nd, nd->cur, r, w.idx, syn);
		return true;
	}
	raw_cqe(r, m, b->len, 0, w.idx, nd->stamp);
	return true;
}

/* The CQ looks full. Its consumer index may only lag (DPDK publishes the RQ's first), so the frame
 * waits a while before this counts as an overrun. */
static bool raw_must_wait(struct nic_dev *nd, struct nic_tir *t, struct nic_rq *r)
{
	if (spw_likely(!cq_full(r->cq)) || r->cq->cq->ignore_overrun || r->cq->err) {
		t->cq_full_ns = 0;
		return false;
	}
	if (!t->cq_full_ns)
		t->cq_full_ns = nd->now_ns;
	return nd->now_ns - t->cq_full_ns < CQ_WAIT_NS;
}

/* Returns false if the frame must be offered again. */
static bool raw_deliver(struct nic_dev *nd, struct hca_tir *tir, const struct flow_key *k,
			uint32_t tag, bool may_wait, const struct raw_meta *sums)
{
	struct raw_meta m = *sums;
	struct raw_bytes bytes;
	struct nic_rq *r;
	bool ok;

	m.tag = tag;
	r = rss_pick(tir, k, &m.hash, &m.hash_type);
	if (!r) {
		NIC_CNT(nd, out_of_buffer);
		return true;
	}
	if (may_wait && rq_room(r) && raw_must_wait(nd, tir->nic, r))
		return false;
	if (r->cq->cq->comp_en && r->cq->cq->comp_format != MLX5_IB_CQE_RES_FORMAT_HASH)
		m.check_sum = (uint16_t)csum_add(0, k->frame + 14, k->frame_bytes - 14);
	raw_bytes_for(r, tir, k, &m, &bytes);
	nd->cur = r->wq ? NULL : tir->qp->nic;
	nd->cur_rx = true;
	nd->cur_rq = r;
	ok = r->striding ? raw_stride_put(nd, r, &bytes, &m) : raw_plain_put(nd, r, &bytes, &m);
	nd->cur = NULL;
	nd->cur_rq = NULL;
	if (!ok) {
		r->dropped++;
		if (r->wq && r->wq->cnt)
			r->wq->cnt->out_of_buffer++;
		NIC_CNT(nd, out_of_buffer);
	}
	return true;
}

/* roce: a packet that a QP of this NIC takes; only sniffers get a copy. False: the first receiver's
 * CQ is full, and the frame must be offered again. */
bool raw_steer(struct nic_dev *nd, const uint8_t *frame, uint32_t len, bool roce)
{
	struct raw_meta m = {0};
	struct flow_hit hit;
	struct flow_key k;

	if (roce) {
		flow_sniff(nd->dev, &hit);
		if (!hit.dst_cnt)
			return true;
		flow_parse(frame, len, &k);
	} else {
		flow_parse(frame, len, &k);
		flow_steer(nd->dev, &k, &hit);
	}
	if (hit.dst_cnt)
		raw_check_sums(&k, &m);
	for (uint32_t i = 0; i < hit.dst_cnt; i++)
		if (!raw_deliver(nd, hit.dst[i].tir, &k, hit.dst[i].tag, i == 0 && !roce, &m))
			return false;
	flow_count(&hit, len);
	return true;
}

/* Nothing can wait here, since the frame is not on the cable: without room it is dropped. */
void raw_rx_looped(struct nic_dev *nd, const uint8_t *frame, uint32_t len,
		   const struct hca_ctx *from)
{
	struct raw_meta m = {0};
	struct flow_hit hit;
	struct flow_key k;

	flow_parse(frame, len, &k);
	flow_steer(nd->dev, &k, &hit);
	raw_check_sums(&k, &m);
	for (uint32_t i = 0; i < hit.dst_cnt; i++) {
		struct hca_tir *tir = hit.dst[i].tir;

		if (tir->o.ctx != from || tir->self_lb_mc)
			raw_deliver(nd, tir, &k, hit.dst[i].tag, false, &m);
	}
	flow_count(&hit, len);
}
