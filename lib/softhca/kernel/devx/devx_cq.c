/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * CREATE_CQ. The application has made its CQEs invalid before, so they are left alone; of the
 * record only the arm word is written (hca_cq_attach).
 *
 *   umem     | CQE | CQE | ...                    | record: consumer index, arm word |
 *            ^ cq_umem_offset                     ^ dbr_addr, perhaps in another umem
 *
 * What verbs asks for by other means stands in the mailbox: the layout of compressed CQEs, which is
 * an option for verbs (--cqe-layout), and moderation, which is a command of its own there.
 */
#include <errno.h>

#include "softhca/kernel/devx/devx.h"

#define LAYOUT_ENHANCED 1u

/* mini_format by its two fields: 0 hash, 1 checksum, 3 checksum and stride index. */
static int cq_compression(struct devx_cmd *c, const uint8_t *cqc, struct hca_cq *cq)
{
	static const uint8_t formats[] = {MLX5_IB_CQE_RES_FORMAT_HASH, MLX5_IB_CQE_RES_FORMAT_CSUM,
					  0, MLX5_IB_CQE_RES_FORMAT_CSUM_STRIDX};
	const uint64_t layout = devx_get(cqc, DEVX_CQC_COMP_LAYOUT);

	if (!devx_get(cqc, DEVX_CQC_COMP_EN))
		return 0;
	cq->comp_en = true;
	cq->comp_format = formats[devx_get(cqc, DEVX_CQC_MINI_FORMAT)];
	cq->comp_enhanced = layout == LAYOUT_ENHANCED;
	if (devx_get(cqc, DEVX_CQC_MINI_FORMAT_EXT) ||
	    !(cq->comp_format & c->ctx->dev->cfg->card->mini_formats) || cq->cqe_bytes != 64)
		return devx_refuse(c, DEVX_BAD_PARAM, DEVX_CQC_MINI_FORMAT);
	return layout > LAYOUT_ENHANCED ? devx_refuse(c, DEVX_BAD_PARAM, DEVX_CQC_COMP_LAYOUT) : 0;
}

/* What does not depend on memory. */
static int cq_format(struct devx_cmd *c, const uint8_t *cqc, struct hca_cq *cq)
{
	const struct hca_card *card = c->ctx->dev->cfg->card;
	const uint64_t eqn = devx_get(cqc, DEVX_CQC_EQN);

	cq->cqe_bytes = devx_get(cqc, DEVX_CQC_CQE_SZ) ? 128 : 64;
	cq->ncqe = 1u << devx_get(cqc, DEVX_CQC_LOG_SIZE);
	cq->ignore_overrun = devx_get(cqc, DEVX_CQC_OI);
	cq->mod_cnt = (uint16_t)devx_get(cqc, DEVX_CQC_MAX_COUNT);
	cq->mod_period_us = (uint16_t)devx_get(cqc, DEVX_CQC_PERIOD);
	if (devx_get(cqc, DEVX_CQC_CQE_SZ) > 2)
		return devx_refuse(c, DEVX_BAD_PARAM, DEVX_CQC_CQE_SZ);
	if (devx_get(cqc, DEVX_CQC_CC))
		return devx_refuse(c, DEVX_BAD_PARAM, DEVX_CQC_CC);
	if (cq->ignore_overrun && !card->cq_ignore_overrun)
		return devx_refuse(c, DEVX_BAD_PARAM, DEVX_CQC_OI);
	if (cq->ncqe > CAP_CQE_CNT)
		return devx_refuse(c, DEVX_BAD_PARAM, DEVX_CQC_LOG_SIZE);
	if (devx_get(cqc, DEVX_CQC_PAGE_OFFSET))
		return devx_refuse(c, DEVX_BAD_PARAM, DEVX_CQC_PAGE_OFFSET);
	if (!devx_ts_ok(card, devx_get(cqc, DEVX_CQC_TS_FORMAT)))
		return devx_refuse(c, DEVX_BAD_PARAM, DEVX_CQC_TS_FORMAT);
	if (eqn < DEVX_EQN_FIRST || eqn >= DEVX_EQN_FIRST + CAP_VECTOR_CNT)
		return devx_refuse(c, DEVX_BAD_RES, DEVX_CQC_EQN);
	return cq_compression(c, cqc, cq);
}

int devx_create_cq(struct devx_cmd *c)
{
	const uint8_t *cqc = c->in + DEVX_CQ_CTX_AT;
	struct hca_uar *uar = hca_uar_find(c->ctx, (uint32_t)devx_get(cqc, DEVX_CQC_UAR_PAGE));
	struct hca_obj *ring, *rec;
	struct hca_cq want = {0}, *cq;
	int rc = cq_format(c, cqc, &want);

	if (rc)
		return rc;
	if (!uar)
		return devx_refuse(c, DEVX_BAD_RES, DEVX_CQC_UAR_PAGE);
	want.buf = devx_umem_at(c->ctx, devx_get(c->in, DEVX_CREATE_CQ_UMEM_ID),
				devx_get(c->in, DEVX_CREATE_CQ_UMEM_OFFSET),
				(uint64_t)want.ncqe * want.cqe_bytes, 64, &ring);
	if (!want.buf || !((struct hca_umem *)ring)->writable)
		return devx_refuse(c, DEVX_BAD_RES, DEVX_CREATE_CQ_UMEM_ID);
	want.dbrec = (spw_be32 *)devx_umem_at(c->ctx, devx_get(cqc, DEVX_CQC_DBR_UMEM_ID),
					      devx_get(cqc, DEVX_CQC_DBR_ADDR), 8, 8, &rec);
	if (!want.dbrec)
		return devx_refuse(c, DEVX_BAD_RES, DEVX_CQC_DBR_UMEM_ID);
	cq = hca_obj_new(c->ctx, HCA_CQ, sizeof(*cq), 0);
	if (!cq)
		return devx_refuse(c, DEVX_LIM_ERR, 0);
	want.o = cq->o;
	*cq = want;
	hca_obj_hold(&cq->o, ring);
	hca_obj_hold(&cq->o, rec);
	if (hca_cq_attach(cq, uar)) {
		hca_obj_free(&cq->o);
		return devx_refuse(c, DEVX_LIM_ERR, 0);
	}
	c->obj = &cq->o;
	devx_put(c->out, DEVX_OUT_NUMBER, cq->cqn);
	return 0;
}
