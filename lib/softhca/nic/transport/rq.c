/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Receive WQEs: taking one from an RQ or an SRQ, scattering a message into it, flushing.
 *
 * The transports (rc_rsp, ud) and raw.c call rq_take() for each message or frame and rq_scatter()
 * for each packet of it. The WQE is copied when it is taken, because the application may write it
 * again; the memory that it names is looked up for every packet, because a region may be
 * deregistered.
 *
 * Source of the formats: rdma-core providers/mlx5/mlx5dv.h, by way of prm/spw_prm.h.
 *
 *   taken ........ pi ............ record        posted = record - taken
 *     | room          | not read yet
 *
 * `pi` is the record as read last. It is read again only when all that it covered has been taken,
 * so the application's cache line is left alone.
 *
 *   RQ    a ring: WQE ci & (cnt - 1)               SRQ   a linked list: head, then next_wqe_index
 */
#include "softhca/inject/inject.h"
#include "softhca/kernel/kernel.h"
#include "softhca/nic/cq/cq.h"
#include "softhca/nic/transport/copy.h"
#include "softhca/nic/transport/rq.h"

/* Receive WQEs prefetched ahead of the one at work: they lie in the application's cache. */
#define RWQE_AHEAD 4u

/* The acquire load pairs with the application's barrier between its WQEs and the doorbell record.
 */
uint16_t rq_posted(const struct nic_rq *r)
{
	if (r->srq)
		return (uint16_t)(spw_be32_to_cpu(spw_thr_load_acq(&r->srq->dbrec[0])) -
				  r->srq->nic->taken);
	if (!r->rq || !r->rq->wqe_cnt)
		return 0;
	return (uint16_t)(spw_be32_to_cpu(spw_thr_load_acq(r->rq->dbrec)) - r->ci);
}

/* WQEs that may be fetched by a fresh read of the record; *pi is where they end. */
static SPW_COLD uint16_t rq_room_read(struct nic_rq *r, uint16_t *pi, uint16_t taken)
{
	uint16_t posted = rq_posted(r);

	if (spw_unlikely(posted > (r->srq ? r->srq->wqe_cnt : r->rq ? r->rq->wqe_cnt : 0)))
		return posted; /* out of range: not stored, so that it is read again */
	if (spw_unlikely(r->adv != NULL))
		posted = adv_fetch(r, taken, posted);
	*pi = (uint16_t)(taken + posted);
	return posted;
}

/* Receives that may be taken now. A record beyond the ring's size must not happen:
 * the caller fails the queue. */
uint16_t rq_room(struct nic_rq *r)
{
	uint16_t *pi = r->srq ? &r->srq->nic->pi : &r->pi;
	const uint16_t taken = r->srq ? r->srq->nic->taken : r->ci;

	return *pi == taken ? rq_room_read(r, pi, taken) : (uint16_t)(*pi - taken);
}

/* Data segments up to the terminator or the end of the WQE. */
static void rq_read_sges(struct nic_rwqe *w, const uint8_t *seg, uint32_t bytes)
{
	w->sge_cnt = 0;
	w->at_sge = 0;
	w->at_off = 0;
	for (uint32_t off = 0; off + 16 <= bytes && w->sge_cnt < NIC_SGE_MAX; off += 16) {
		struct nic_sge *s = &w->sge[w->sge_cnt];

		s->lkey = spw_prm_wqe_data_get_lkey(seg + off);
		if (s->lkey == SPW_PRM_INVALID_LKEY)
			break;
		s->len = spw_prm_wqe_data_get_byte_count(seg + off);
		s->addr = spw_prm_wqe_data_get_addr(seg + off);
		w->sge_cnt++;
	}
}

/* The link is read before the WQE is used up, since libmlx5 writes it again when the WQE is free. A
 * limit that is reached raises its event once. */
static enum rq_verdict rq_srq_take(struct hca_srq *srq, struct nic_rwqe *w)
{
	struct nic_srq *n = srq->nic;
	uint8_t *wqe;

	w->idx = n->head;
	if (n->head >= srq->wqe_cnt)
		return RQ_BAD;
	wqe = srq->buf + ((uint64_t)n->head << srq->wqe_shift);
	rq_read_sges(w, wqe + 16, (1u << srq->wqe_shift) - 16);
	n->head = spw_prm_wqe_srq_next_get_next_wqe_index(wqe);
	n->taken++;
	if (spw_unlikely(n->adv))
		adv_srq_taken(srq, wqe);
	if (spw_unlikely(srq->limit &&
			 (uint16_t)(spw_be32_to_cpu(spw_thr_load_acq(&srq->dbrec[0])) - n->taken) <
				 srq->limit)) {
		srq->limit = 0;
		hca_event_srq(srq, HCA_EVENT_SRQ_LIMIT_REACHED);
	}
	return RQ_OK;
}

/* Copies the segments out of the ring: from here on the application may write the WQE again. */
enum rq_verdict rq_take(struct nic_rq *r, struct nic_rwqe *w)
{
	const uint16_t posted = rq_room(r);
	const uint8_t *wqe;

	if (posted == 0)
		return RQ_EMPTY;
	if (r->srq)
		return posted > r->srq->wqe_cnt ? RQ_BAD : rq_srq_take(r->srq, w);
	if (spw_unlikely(posted > r->rq->wqe_cnt))
		return RQ_BAD;
	wqe = r->wqes + ((uint64_t)(r->ci & (r->rq->wqe_cnt - 1)) << r->rq->wqe_shift);
	if (posted > RWQE_AHEAD)
		spw_prefetch_read(r->wqes + ((uint64_t)((r->ci + RWQE_AHEAD) & (r->rq->wqe_cnt - 1))
					     << r->rq->wqe_shift));
	w->idx = r->ci;
	r->ci++;
	rq_read_sges(w, wqe, 1u << r->rq->wqe_shift);
	return RQ_OK;
}

/* Continues where the last packet of the message ended. Returns a syndrome; 0: written. */
uint8_t rq_scatter(struct nic_dev *nd, struct nic_rq *r, struct nic_rwqe *w, const uint8_t *data,
		   uint32_t len)
{
	while (len) {
		const struct nic_sge *s = &w->sge[w->at_sge];
		const struct hca_mr *mr;
		uint8_t *to;
		uint32_t n;

		if (w->at_sge >= w->sge_cnt)
			return SPW_PRM_SYN_LOCAL_LENGTH_ERR;
		n = SPW_MIN(len, s->len - w->at_off);
		mr = hca_mr_get(nd->dev, s->lkey);
		to = mr ? hca_mr_at(mr, r->pd, s->addr + w->at_off, n, IB_UVERBS_ACCESS_LOCAL_WRITE)
			: NULL;
		if (n && !to)
			return SPW_PRM_SYN_LOCAL_PROT_ERR;
		if (n)
			nic_copy(nd, to, data, n);
		data += n;
		len -= n;
		w->at_off += n;
		if (w->at_off == s->len) {
			w->at_sge++;
			w->at_off = 0;
		}
	}
	return 0;
}

/* All posted receives complete with a flush error, as a QP in ERR reports them. */
void rq_flush(struct nic_dev *nd, struct nic_rq *r, uint32_t qpn)
{
	if (r->srq || !r->rq)
		return;
	r->pi = r->ci;
	if (rq_posted(r) > r->rq->wqe_cnt) { /* the record is out of range: skip all of it */
		r->ci = (uint16_t)(r->ci + rq_posted(r));
		return;
	}
	if (spw_unlikely(inject_no_flush(nd))) {
		r->ci = (uint16_t)(r->ci + rq_posted(r));
		r->pi = r->ci;
		return;
	}
	while (rq_posted(r) && r->cq && !r->cq->err)
		rq_complete_err(nd, r, qpn, r->ci++, SPW_PRM_SYN_WR_FLUSH_ERR);
	r->pi = r->ci;
}
