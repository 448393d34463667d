/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Receive and send queues of raw frames: an RQ is a WQ as verbs make it (cmd_wq.c), an SQ a packet
 * QP without a receive queue.
 *
 *   RST --modify--> RDY --modify, or the NIC--> ERR       any state --modify--> RST
 *
 * In a mailbox:
 *
 *   rqc, sqc    what the queue does: CQ, user index, VLAN, FCS, TIS, state
 *     wq        where it lies: umem of ring and record, PD, register page, sizes
 *
 *   RQ    ring of 1 << (log_size + log_stride) bytes     record word 0
 *   SQ    the same, with blocks of 64 bytes              record word 1, and a register page
 *
 * The caller names the state that it believes in. For an SQ that the NIC has moved to ERR, RDY is
 * taken as well: DPDK says so when it recovers one (mlx5_txq_devx_modify).
 */
#include <errno.h>

#include "softhca/kernel/devx/devx.h"
#include "softhca/nic/nic.h"

#define WQ_CYCLIC       1u
#define WQ_STRIDING     3u
#define SHIFT_MIN       4u
#define SHIFT_STRIDING  5u /* the segment before the data */
#define SHIFT_MAX       10u
#define SQ_SHIFT        6u
#define WQE_LOG2_MAX    15u /* CAP_WQE_CNT */
#define STRIDES_LOG2_AT 9   /* value 0 of a signed field of 4 bits */
#define STRIDE_LOG2_AT  6u

enum { DEVX_RST = 0, DEVX_RDY = 1, DEVX_ERR = 3 };
/* modify_bitmask of MODIFY_RQ */
enum { RQ_LWM = 1, RQ_VSD = 2, RQ_FCS = 4, RQ_COUNTER = 8 };

/* Hairpin queues, queues in other memory (RMP), data split from headers, limit watermarks, UMR and
 * pacing are not modelled: the fields that ask for them must be 0. A card's firmware would refuse
 * them as well if its capability page says 0, as ours does. */

/* Of a wq structure: what both kinds of queue have. */
struct wq_mem {
	uint8_t *ring;
	spw_be32 *rec;
	struct hca_obj *ring_umem, *rec_umem;
	struct hca_pd *pd;
	uint32_t shift, log2_cnt;
};

/* Signatures, peer commands, split headers and watermarks are not there. The ring lies where a
 * card's page tables could put it: at a multiple of 64 bytes, inside one umem. */
static int wq_mem_read(struct devx_cmd *c, const uint8_t *wq, struct wq_mem *m)
{
	static const uint32_t zero[] = {DEVX_WQ_SIGNATURE, DEVX_WQ_CD_SLAVE, DEVX_WQ_HDS_SIZE,
					DEVX_WQ_PAGE_OFFSET, DEVX_WQ_LWM};

	for (uint32_t i = 0; i < SPW_ARRAY_CNT(zero); i++)
		if (devx_get(wq, zero[i]))
			return devx_refuse(c, DEVX_BAD_PARAM, zero[i]);
	m->shift = (uint32_t)devx_get(wq, DEVX_WQ_LOG_STRIDE);
	m->log2_cnt = (uint32_t)devx_get(wq, DEVX_WQ_LOG_SIZE);
	m->pd = devx_number(c->ctx, HCA_PD, devx_get(wq, DEVX_WQ_PD));
	if (m->log2_cnt > WQE_LOG2_MAX)
		return devx_refuse(c, DEVX_BAD_PARAM, DEVX_WQ_LOG_SIZE);
	if (!m->pd)
		return devx_refuse(c, DEVX_BAD_RES, DEVX_WQ_PD);
	m->ring = devx_umem_at(c->ctx, devx_get(wq, DEVX_WQ_UMEM_ID),
			       devx_get(wq, DEVX_WQ_UMEM_OFFSET), 1ull << (m->log2_cnt + m->shift),
			       64, &m->ring_umem);
	if (!m->ring)
		return devx_refuse(c, DEVX_BAD_RES, DEVX_WQ_UMEM_ID);
	m->rec = (spw_be32 *)devx_umem_at(c->ctx, devx_get(wq, DEVX_WQ_DBR_UMEM_ID),
					  devx_get(wq, DEVX_WQ_DBR_ADDR), 8, 8, &m->rec_umem);
	return m->rec ? 0 : devx_refuse(c, DEVX_BAD_RES, DEVX_WQ_DBR_UMEM_ID);
}

/* ---- RQ ---- */

/* The count of strides has an offset and a sign: 1 << 3 strides are -6. */
static int rq_striding(struct devx_cmd *c, const uint8_t *wq, struct hca_wq *want)
{
	const struct hca_card *card = c->ctx->dev->cfg->card;
	const int raw = (int)devx_get(wq, DEVX_WQ_LOG_STRIDES);
	const int strides = STRIDES_LOG2_AT + (raw & 8 ? raw - 16 : raw);

	want->striding = true;
	want->stride_log2_bytes =
		(uint8_t)(devx_get(wq, DEVX_WQ_LOG_STRIDE_BYTES) + STRIDE_LOG2_AT);
	want->strides_log2_cnt = (uint8_t)strides;
	want->two_byte_shift = devx_get(wq, DEVX_WQ_TWO_BYTE_SHIFT);
	if (!card->stride_log2_max)
		return devx_refuse(c, DEVX_BAD_PARAM, DEVX_WQ_TYPE);
	if (strides < card->strides_log2_min || strides > card->strides_log2_max)
		return devx_refuse(c, DEVX_BAD_PARAM, DEVX_WQ_LOG_STRIDES);
	return want->stride_log2_bytes < card->stride_log2_min ||
			       want->stride_log2_bytes > card->stride_log2_max
		       ? devx_refuse(c, DEVX_BAD_PARAM, DEVX_WQ_LOG_STRIDE_BYTES)
		       : 0;
}

/* Frames keep their VLAN tag with vsd, and their FCS with scatter_fcs. */
static int rq_flags(struct devx_cmd *c, const uint8_t *rqc, struct hca_wq *want)
{
	const uint32_t raw_caps = c->ctx->dev->cfg->card->raw_caps;

	want->flags = (devx_get(rqc, DEVX_RQC_VSD) ? 0 : IB_UVERBS_WQ_FLAGS_CVLAN_STRIPPING) |
		      (devx_get(rqc, DEVX_RQC_SCATTER_FCS) ? IB_UVERBS_WQ_FLAGS_SCATTER_FCS : 0);
	if (want->flags & IB_UVERBS_WQ_FLAGS_CVLAN_STRIPPING &&
	    !(raw_caps & IB_UVERBS_RAW_PACKET_CAP_CVLAN_STRIPPING))
		return devx_refuse(c, DEVX_BAD_PARAM, DEVX_RQC_VSD);
	return want->flags & IB_UVERBS_WQ_FLAGS_SCATTER_FCS &&
			       !(raw_caps & IB_UVERBS_RAW_PACKET_CAP_SCATTER_FCS)
		       ? devx_refuse(c, DEVX_BAD_PARAM, DEVX_RQC_SCATTER_FCS)
		       : 0;
}

static int rq_context(struct devx_cmd *c, const uint8_t *rqc, struct hca_wq *want)
{
	static const uint32_t zero[] = {DEVX_RQC_RLKY, DEVX_RQC_DELAY_DROP, DEVX_RQC_MEM_TYPE,
					DEVX_RQC_HAIRPIN, DEVX_RQC_STATE};
	const uint32_t id = (uint32_t)devx_get(rqc, DEVX_RQC_COUNTER_SET);

	for (uint32_t i = 0; i < SPW_ARRAY_CNT(zero); i++)
		if (devx_get(rqc, zero[i]))
			return devx_refuse(c, DEVX_BAD_PARAM, zero[i]);
	if (!devx_get(rqc, DEVX_RQC_FLUSH)) /* a queue that goes to ERR in silence */
		return devx_refuse(c, DEVX_BAD_PARAM, DEVX_RQC_FLUSH);
	if (!devx_ts_ok(c->ctx->dev->cfg->card, devx_get(rqc, DEVX_RQC_TS_FORMAT)))
		return devx_refuse(c, DEVX_BAD_PARAM, DEVX_RQC_TS_FORMAT);
	want->uidx = (uint32_t)devx_get(rqc, DEVX_RQC_USER_INDEX);
	want->cq = devx_cq_number(c->ctx, devx_get(rqc, DEVX_RQC_CQN));
	if (!want->cq)
		return devx_refuse(c, DEVX_BAD_RES, DEVX_RQC_CQN);
	want->cnt = id ? hca_tbl_get(&c->ctx->dev->q_cnts, id) : NULL;
	if (id && (!want->cnt || want->cnt->o.ctx != c->ctx))
		return devx_refuse(c, DEVX_BAD_RES, DEVX_RQC_COUNTER_SET);
	return rq_flags(c, rqc, want);
}

static int rq_ring(struct devx_cmd *c, const uint8_t *wq, const struct wq_mem *m,
		   struct hca_wq *want)
{
	const uint64_t type = devx_get(wq, DEVX_WQ_TYPE);

	if (type != WQ_CYCLIC && type != WQ_STRIDING)
		return devx_refuse(c, DEVX_BAD_PARAM, DEVX_WQ_TYPE);
	if (m->shift < (type == WQ_STRIDING ? SHIFT_STRIDING : SHIFT_MIN) || m->shift > SHIFT_MAX)
		return devx_refuse(c, DEVX_BAD_PARAM, DEVX_WQ_LOG_STRIDE);
	want->pd = m->pd;
	want->max_wr = 1u << m->log2_cnt;
	want->rq = (struct hca_rq){.buf = m->ring,
				   .dbrec = m->rec,
				   .wqe_cnt = 1u << m->log2_cnt,
				   .wqe_shift = m->shift,
				   .max_sge = (1u << m->shift) / 16u};
	return type == WQ_STRIDING ? rq_striding(c, wq, want) : 0;
}

/* Checked in full before the object exists; references and the number come last. */
int devx_create_rq(struct devx_cmd *c)
{
	const uint8_t *rqc = c->in + DEVX_CTX_AT, *ctx = rqc + DEVX_WQ_AT;
	struct hca_wq want = {0}, *wq;
	struct wq_mem m;
	int rc = rq_context(c, rqc, &want);

	rc = rc ? rc : wq_mem_read(c, ctx, &m);
	rc = rc ? rc : rq_ring(c, ctx, &m, &want);
	if (rc)
		return rc;
	wq = hca_obj_new(c->ctx, HCA_WQ, sizeof(*wq), 0);
	if (!wq)
		return devx_refuse(c, DEVX_LIM_ERR, 0);
	want.o = wq->o;
	*wq = want;
	hca_obj_hold(&wq->o, m.ring_umem);
	hca_obj_hold(&wq->o, m.rec_umem);
	if (wq->cnt)
		hca_obj_hold(&wq->o, &wq->cnt->o);
	if (hca_wq_attach(wq)) {
		hca_obj_free(&wq->o);
		return devx_refuse(c, DEVX_LIM_ERR, 0);
	}
	c->obj = &wq->o;
	devx_put(c->out, DEVX_OUT_NUMBER, wq->wqn);
	return 0;
}

/* The firmware's names of the states that verbs and the NIC use. */
static uint8_t rq_state(const struct hca_wq *wq)
{
	return wq->state == HCA_WQS_RESET ? DEVX_RST
	       : wq->state == HCA_WQS_RDY ? DEVX_RDY
					  : DEVX_ERR;
}

/* The diagram above; a state to itself is legal but for ERR to RDY. */
static bool transition_ok(uint8_t from, uint64_t to)
{
	return to == DEVX_RST || (to == DEVX_RDY && from != DEVX_ERR) ||
	       (to == DEVX_ERR && from != DEVX_RST);
}

/* The mask names what changes besides the state. */
int devx_modify_rq(struct devx_cmd *c)
{
	const uint8_t *rqc = c->in + DEVX_CTX_AT;
	const uint64_t mask = devx_get(c->in, DEVX_IN_MODIFY_MASK),
		       to = devx_get(rqc, DEVX_RQC_STATE);
	struct hca_wq *wq = (struct hca_wq *)c->obj, want = {0};
	const uint32_t keep = (mask & RQ_VSD ? 0 : IB_UVERBS_WQ_FLAGS_CVLAN_STRIPPING) |
			      (mask & RQ_FCS ? 0 : IB_UVERBS_WQ_FLAGS_SCATTER_FCS);
	const uint8_t from = wq->state;
	int rc;

	if (devx_get(c->in, DEVX_IN_OLD_STATE) != rq_state(wq))
		return devx_refuse(c, DEVX_BAD_RES_STATE, DEVX_IN_OLD_STATE);
	if (!transition_ok(rq_state(wq), to))
		return devx_refuse(c, DEVX_BAD_RES_STATE, DEVX_RQC_STATE);
	if (mask & ~(uint64_t)(RQ_VSD | RQ_FCS))
		return devx_refuse(c, DEVX_BAD_PARAM, DEVX_IN_MODIFY_MASK);
	rc = rq_flags(c, rqc, &want);
	if (mask && rc)
		return rc;
	wq->flags = (wq->flags & (keep | IB_UVERBS_WQ_FLAGS_PCI_WRITE_END_PADDING)) |
		    (want.flags & ~keep);
	wq->state = to == DEVX_RST ? HCA_WQS_RESET : to == DEVX_RDY ? HCA_WQS_RDY : HCA_WQS_ERR;
	nic_wq_modified(wq, from);
	return 0;
}

/* What DPDK reads of it: the counter set, 0 for a queue of verbs. */
int devx_query_rq(struct devx_cmd *c)
{
	const struct hca_wq *wq = (const struct hca_wq *)c->obj;
	uint8_t *rqc = c->out + DEVX_CTX_AT;

	devx_put(rqc, DEVX_RQC_STATE, rq_state(wq));
	devx_put(rqc, DEVX_RQC_FLUSH, 1);
	devx_put(rqc, DEVX_RQC_VSD, !(wq->flags & IB_UVERBS_WQ_FLAGS_CVLAN_STRIPPING));
	devx_put(rqc, DEVX_RQC_SCATTER_FCS, !!(wq->flags & IB_UVERBS_WQ_FLAGS_SCATTER_FCS));
	devx_put(rqc, DEVX_RQC_USER_INDEX, wq->uidx);
	devx_put(rqc, DEVX_RQC_CQN, wq->cq->cqn);
	devx_put(rqc, DEVX_RQC_COUNTER_SET, wq->cnt ? wq->cnt->id : 0);
	return 0;
}

/* ---- SQ ---- */

/* Multi-packet WQEs, software parsing and pacing are what query_device denies, too. */
static int sq_context(struct devx_cmd *c, const uint8_t *sqc, struct hca_qp *want,
		      struct hca_obj **tis_out)
{
	static const uint32_t zero[] = {
		DEVX_SQC_RLKY,      DEVX_SQC_CD_MASTER,    DEVX_SQC_FRE,     DEVX_SQC_ALLOW_MPW,
		DEVX_SQC_REG_UMR,   DEVX_SQC_ALLOW_SWP,    DEVX_SQC_HAIRPIN, DEVX_SQC_NON_WIRE,
		DEVX_SQC_STATIC_WQ, DEVX_SQC_PACING_INDEX, DEVX_SQC_STATE};
	const struct hca_card *card = c->ctx->dev->cfg->card;
	const uint64_t min_inline = devx_get(sqc, DEVX_SQC_MIN_INLINE);

	for (uint32_t i = 0; i < SPW_ARRAY_CNT(zero); i++)
		if (devx_get(sqc, zero[i]))
			return devx_refuse(c, DEVX_BAD_PARAM, zero[i]);
	if (!devx_get(sqc, DEVX_SQC_FLUSH))
		return devx_refuse(c, DEVX_BAD_PARAM, DEVX_SQC_FLUSH);
	if (min_inline > 1 || (card->min_inline_bytes && !min_inline))
		return devx_refuse(c, DEVX_BAD_PARAM, DEVX_SQC_MIN_INLINE);
	if (!devx_ts_ok(card, devx_get(sqc, DEVX_SQC_TS_FORMAT)))
		return devx_refuse(c, DEVX_BAD_PARAM, DEVX_SQC_TS_FORMAT);
	want->uidx = (uint32_t)devx_get(sqc, DEVX_SQC_USER_INDEX);
	want->send_cq = devx_cq_number(c->ctx, devx_get(sqc, DEVX_SQC_CQN));
	if (!want->send_cq)
		return devx_refuse(c, DEVX_BAD_RES, DEVX_SQC_CQN);
	*tis_out = devx_number(c->ctx, HCA_TIS, devx_get(sqc, DEVX_SQC_TIS));
	if (devx_get(sqc, DEVX_SQC_TIS_CNT) != 1)
		return devx_refuse(c, DEVX_BAD_PARAM, DEVX_SQC_TIS_CNT);
	return *tis_out ? 0 : devx_refuse(c, DEVX_BAD_RES, DEVX_SQC_TIS);
}

/* Raw frames need the right to send them: the context's, on a card (create_uctx_in, cap). */
int devx_create_sq(struct devx_cmd *c)
{
	const uint8_t *sqc = c->in + DEVX_CTX_AT, *ctx = sqc + DEVX_WQ_AT;
	struct hca_uar *uar = hca_uar_find(c->ctx, (uint32_t)devx_get(ctx, DEVX_WQ_UAR_PAGE));
	struct hca_qp want = {.qp_type = IB_UVERBS_QPT_RAW_PACKET}, *qp;
	struct hca_obj *tis;
	struct wq_mem m;
	int rc = sq_context(c, sqc, &want, &tis);

	rc = rc ? rc : wq_mem_read(c, ctx, &m);
	if (rc)
		return rc;
	if (devx_get(ctx, DEVX_WQ_TYPE) != WQ_CYCLIC)
		return devx_refuse(c, DEVX_BAD_PARAM, DEVX_WQ_TYPE);
	if (m.shift != SQ_SHIFT)
		return devx_refuse(c, DEVX_BAD_PARAM, DEVX_WQ_LOG_STRIDE);
	if (!uar)
		return devx_refuse(c, DEVX_BAD_RES, DEVX_WQ_UAR_PAGE);
	if (!c->ctx->raw_tx)
		return devx_refuse(c, DEVX_BAD_RES, DEVX_IN_OPCODE);
	qp = hca_obj_new(c->ctx, HCA_QP, sizeof(*qp), 0);
	if (!qp)
		return devx_refuse(c, DEVX_LIM_ERR, 0);
	want.o = qp->o;
	want.pd = m.pd;
	want.sq_buf = m.ring;
	want.sq_wqebb_cnt = 1u << m.log2_cnt;
	want.sq_dbrec = m.rec + 1;
	want.cap.max_send_wr = want.sq_wqebb_cnt;
	*qp = want;
	hca_obj_hold(&qp->o, m.ring_umem);
	hca_obj_hold(&qp->o, m.rec_umem);
	hca_obj_hold(&qp->o, tis);
	if (hca_qp_attach(qp, uar)) {
		hca_obj_free(&qp->o);
		return devx_refuse(c, DEVX_LIM_ERR, 0);
	}
	c->obj = &qp->o;
	devx_put(c->out, DEVX_OUT_NUMBER, qp->qpn);
	return 0;
}

/* A packet QP that fails goes to SQE, a state that an SQ does not have: ERR. */
static uint8_t sq_state(const struct hca_qp *qp)
{
	return qp->state == HCA_QPS_RESET ? DEVX_RST
	       : qp->state == HCA_QPS_RTS ? DEVX_RDY
					  : DEVX_ERR;
}

/* Only the state can change; a rate would be by the index of a table that is not there. */
int devx_modify_sq(struct devx_cmd *c)
{
	const uint64_t believed = devx_get(c->in, DEVX_IN_OLD_STATE);
	const uint64_t to = devx_get(c->in + DEVX_CTX_AT, DEVX_SQC_STATE);
	struct hca_qp *qp = (struct hca_qp *)c->obj;
	const uint8_t from = qp->state, is = sq_state(qp);

	/* A QP has a send queue that is no SQ. */
	if (!qp->o.devx || qp->qp_type != IB_UVERBS_QPT_RAW_PACKET)
		return -EINVAL;
	if (believed != is && !(believed == DEVX_RDY && is == DEVX_ERR))
		return devx_refuse(c, DEVX_BAD_RES_STATE, DEVX_IN_OLD_STATE);
	if (!transition_ok(is, to))
		return devx_refuse(c, DEVX_BAD_RES_STATE, DEVX_SQC_STATE);
	if (devx_get(c->in, DEVX_IN_MODIFY_MASK))
		return devx_refuse(c, DEVX_BAD_PARAM, DEVX_IN_MODIFY_MASK);
	qp->state = to == DEVX_RST ? HCA_QPS_RESET : to == DEVX_RDY ? HCA_QPS_RTS : HCA_QPS_ERR;
	nic_qp_modified(qp, from, 0);
	return 0;
}

/* ---- QP ---- */

/* What libibverbs asks for: does the QP store the bytes of a WRITE in their order? Not if the
 * adversary takes WRITEs apart. */
int devx_query_qp(struct devx_cmd *c)
{
	const struct hca_cfg *cfg = c->ctx->dev->cfg;

	devx_put(c->out, DEVX_QUERY_QP_OUT_DATA_IN_ORDER,
		 cfg->card->data_in_order && !(cfg->adversary.what & HCA_ADV_split_writes));
	return 0;
}
