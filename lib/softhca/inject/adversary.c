/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Set-up and end of the adversary, and what it does to work queues and registers (adversary.h). Its
 * CQEs are in adversary_cq.c, its WRITEs in adversary_write.c.
 *
 *   SQ   rung ... late-wqe ... fetched, sent | completed: the WQE is overwritten
 *   RQ   the record is read: 1 .. all posted WQEs are copied to r->wqes, a ring of the NIC's own;
 *        their addresses in the application's ring and their buffers are overwritten
 *
 * The last WQE of a burst is overwritten only after its doorbell was taken. The records alone send
 * the NIC to a WQE, when another QP of the page was rung, and its owner may still be copying it to
 * the register:
 *
 *   application   WQE   record                     copy to the register: reads the WQE
 *   NIC                   other QP rung: fetched, sent, completed
 *
 * Buffers belong to the NIC from posting to completion, so a card may write anything there. WQEs
 * belong to it until they are fetched; an application has to write of a receive WQE at least the
 * addresses again (libmlx5, UCX and DPDK leave lkey, length and SRQ links as they were), and all of
 * a send WQE.
 */
#include <stdlib.h>

#include "softhca/inject/adversary.h"
#include "softhca/nic/run/run.h"
#include "softhca/nic/transport/qp.h"

#define POISON     0xa5
#define BUFFER_MAX 65536u /* bytes of a buffer that are overwritten: its first ones */
#define ADDR_AT    8u     /* of the address in a data segment */
#define SEG_BYTES  16u
#define FATE_SEED  0x5eedull

struct adv_sq {
	uint64_t rng, due;
	uint16_t pi; /* the record as it was when the QP was rung last */
	bool rung;
	uint16_t poisoned; /* WQEBBs before this one have been overwritten, or never will be */
	uint16_t taken;    /* the doorbell taken last named the WQE that ends before this WQEBB */
};

struct adv_rq {
	uint64_t rng;
	struct nic_dev *nd;
	uint8_t *ring; /* NULL: WQEs are read where the application wrote them */
};

/* One start for each kind and number of a queue: its random numbers do not depend on other
 * queues. */
uint64_t adv_seed(const struct adversary *adv, uint32_t kind, uint32_t number)
{
	uint64_t rng = adv->seed ^ (uint64_t)kind << 56 ^ (uint64_t)number << 24;

	return adv_random(&rng);
}

/* The index of the device is in the seed, so that two devices meet different fates. */
struct adversary *adv_open(const struct hca_adversary *conf, uint32_t dev_idx)
{
	struct adversary *adv = calloc(1, sizeof(*adv));

	if (!adv)
		return NULL;
	adv->seed = conf->seed + dev_idx * FATE_SEED;
	adv->what = conf->what;
	adv->bf_rng = adv_seed(adv, ADV_BF, 0);
	return adv;
}

void adv_close(struct adversary *adv)
{
	free(adv);
}

/* ---- send queues ---- */

/* A queue that no word concerns has no state, and costs one test. */
bool adv_sq_init(struct nic_qp *q)
{
	const struct adversary *adv = q->nd->adv;

	if (!adv || !(adv->what & (HCA_ADV_late_wqe | HCA_ADV_poison)) || !q->swr)
		return true;
	q->adv = calloc(1, sizeof(*q->adv));
	if (q->adv)
		q->adv->rng = adv_seed(adv, ADV_SQ, HCA_QPN_SLOT(q->qp->qpn));
	return q->adv != NULL;
}

void adv_sq_fini(struct nic_qp *q)
{
	free(q->adv);
	q->adv = NULL;
}

/* A doorbell that comes while one waits is taken with it: the record has both. */
bool adv_rung(struct nic_qp *q, uint16_t pi)
{
	struct adv_sq *s = q->adv;
	uint32_t rounds;

	if (!s->rung) {
		if (pi == q->sq_pi || !(q->nd->adv->what & HCA_ADV_late_wqe))
			return false;
		rounds = adv_rounds(&s->rng);
		if (!rounds)
			return false;
		s->rung = true;
		s->due = q->nd->adv->round + rounds;
	}
	s->pi = pi;
	return true;
}

void adv_sq_forget(struct nic_qp *q)
{
	if (!q->adv)
		return;
	q->adv->rung = false;
	q->adv->poisoned = q->adv->taken = 0;
}

/* 1: a doorbell waits, or was taken just now; the thread must not nap. */
static uint32_t sq_round(struct nic_qp *q, uint64_t round)
{
	struct adv_sq *s = q->adv;

	if (!s || !s->rung)
		return 0;
	if (s->due > round)
		return 1;
	s->rung = false;
	q->sq_pi = s->pi;
	if (q->qp->state >= HCA_QPS_RTS)
		qp_activate(q);
	return 1;
}

void adv_doorbell(struct nic_qp *q, uint16_t end)
{
	if (q->adv)
		q->adv->taken = end;
}

void adv_wqes_done(struct nic_qp *q, const struct nic_swr *w)
{
	const uint16_t end = (uint16_t)(w->idx + (w->ds + 3u) / 4);
	struct adv_sq *s = q->adv;
	bool copied;

	if (!(q->nd->adv->what & HCA_ADV_poison))
		return;
	copied = s->taken == end || nic_sq_record(q->qp) != end; /* a later post */
	for (; s->poisoned != (copied ? end : w->idx); s->poisoned++)
		memset(sq_bytes(q, s->poisoned, 0), POISON, SPW_PRM_WQE_BB_BYTES);
	s->poisoned = end;
}

/* Of a half that waits the later pieces may have arrived: a doorbell that comes after its data. */
bool adv_half_waits(struct nic_dev *nd, uint64_t *half)
{
	struct adversary *adv = nd->adv;
	uint64_t r;

	if (!(adv->what & HCA_ADV_pieces))
		return false;
	r = adv_random(&adv->bf_rng);
	if (r & 3)
		return false;
	for (uint32_t i = 1; i < 8 && !nd->dev->cfg->trap_blueflame; i++)
		if (r >> 8 & 1u << i)
			spw_thr_store_rlx(&half[i], 0ull);
	adv->halves++;
	return true;
}

/* ---- receive queues ---- */

static uint32_t rq_ring_bytes(const struct hca_rq *rq)
{
	return rq->wqe_cnt << rq->wqe_shift;
}

bool adv_rq_init(struct nic_dev *nd, struct nic_rq *r, uint32_t number)
{
	struct adversary *adv = nd->adv;

	if (!adv || !r->rq || !r->rq->wqe_cnt)
		return true;
	r->adv = calloc(1, sizeof(*r->adv));
	if (!r->adv)
		return false;
	r->adv->nd = nd;
	r->adv->rng = adv_seed(adv, ADV_RQ, number);
	if (!(adv->what & (HCA_ADV_prefetch | HCA_ADV_poison)))
		return true;
	r->adv->ring = malloc(rq_ring_bytes(r->rq));
	if (!r->adv->ring) {
		adv_rq_fini(r);
		return false;
	}
	r->wqes = r->adv->ring;
	return true;
}

void adv_rq_fini(struct nic_rq *r)
{
	if (r->adv)
		free(r->adv->ring);
	free(r->adv);
	r->adv = NULL;
}

/* Only where the NIC may write: a wrong key is the completion's to report. */
static void buffer_poison(struct nic_dev *nd, const struct hca_pd *pd, const uint8_t *seg)
{
	const struct hca_mr *mr = hca_mr_get(nd->dev, (uint32_t)spw_prm_wqe_data_get_lkey(seg));
	const uint32_t len = (uint32_t)spw_prm_wqe_data_get_byte_count(seg),
		       bytes = SPW_MIN(len, BUFFER_MAX);
	uint8_t *to = mr ? hca_mr_at(mr, pd, spw_prm_wqe_data_get_addr(seg), bytes,
				     IB_UVERBS_ACCESS_LOCAL_WRITE)
			 : NULL;

	if (to && bytes)
		memset(to, POISON, bytes);
}

/* The data segments of a WQE that was fetched; the list ends as it does in rq.c. */
static void segs_poison(struct nic_dev *nd, const struct hca_pd *pd, uint8_t *seg, uint32_t bytes)
{
	for (uint32_t off = 0; off + SEG_BYTES <= bytes; off += SEG_BYTES) {
		if (spw_prm_wqe_data_get_lkey(seg + off) == SPW_PRM_INVALID_LKEY)
			return;
		buffer_poison(nd, pd, seg + off);
		memset(seg + off + ADDR_AT, POISON, SEG_BYTES - ADDR_AT);
	}
}

/* A WQE of a striding queue begins with a segment that is no data segment. */
static void rq_fetch_one(struct nic_rq *r, uint16_t idx)
{
	const uint32_t bytes = 1u << r->rq->wqe_shift, next = r->striding ? SEG_BYTES : 0;
	const size_t at = (size_t)(idx & (r->rq->wqe_cnt - 1)) << r->rq->wqe_shift;
	uint8_t *wqe = r->rq->buf + at;

	memcpy(r->adv->ring + at, wqe, bytes);
	if (r->adv->nd->adv->what & HCA_ADV_poison)
		segs_poison(r->adv->nd, r->pd, wqe + next, bytes - next);
}

uint16_t adv_fetch(struct nic_rq *r, uint16_t taken, uint16_t posted)
{
	const uint64_t dice = adv_random(&r->adv->rng);
	uint16_t n = posted;

	if (!r->adv->ring || !posted)
		return posted;
	if (!(r->adv->nd->adv->what & HCA_ADV_prefetch) || dice & 1)
		n = (uint16_t)(1 + (dice >> 8) % SPW_MIN(posted, 4u));
	for (uint16_t i = 0; i < n; i++)
		rq_fetch_one(r, (uint16_t)(taken + i));
	return n;
}

void adv_srq_taken(struct hca_srq *srq, uint8_t *wqe)
{
	struct nic_dev *nd = srq->o.ctx->dev->nic;

	if (nd->adv->what & HCA_ADV_poison)
		segs_poison(nd, srq->pd, wqe + SEG_BYTES, (1u << srq->wqe_shift) - SEG_BYTES);
}

/* Half of the CQEs leave the count to a later one. */
bool adv_keeps_drops(struct nic_rq *r)
{
	return r->adv && r->adv->nd->adv->what & HCA_ADV_late_drops && adv_random(&r->adv->rng) & 1;
}

/* ---- rounds ---- */

uint32_t adv_round(struct nic_dev *nd)
{
	struct adversary *adv = nd->adv;
	uint32_t left = adv->halves + (nd->comp_list != NULL);

	adv->round++;
	adv->halves = 0;
	for (struct nic_qp *q = nd->qps; q; q = q->next) {
		left += sq_round(q, adv->round);
		if (q->adv_writes)
			adv_writes_due(q);
	}
	return left + adv_cqes_due(adv);
}
