/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Commands on completion queues and channels. The ring and the doorbell record are the
 * application's memory; the NIC writes CQEs into it (nic/cq/cq.c) until nic_cq_destroy returns.
 * Source: Linux drivers/infiniband/hw/mlx5/cq.c (checks and errno values).
 *
 * What NIC and application share, and who writes it:
 *
 *   ring          NIC: CQEs, the byte with the owner bit last    application: reads
 *   dbrec[0]      application: consumer index                    NIC: reads, to find an overrun
 *   dbrec[1]      application: arm, with a serial number         NIC: reads; ARM_NEVER until then
 *
 * In order: cq_make pins and checks; hca_cq_attach gives it a number, a register page and the NIC's
 * part; destroy undoes all of it at once, and is EBUSY while a QP or WQ completes to the CQ.
 */
#include <errno.h>
#include <string.h>

#include "softhca/kernel/cmd.h"
#include "softhca/kernel/ctl.h"
#include "softhca/nic/nic.h"

#define CQN_FIRST   1u
#define ARM_NEVER   0xffffffffu /* libmlx5 never writes it: any arming changes the word */
#define MOD_COUNT   1u          /* attr_mask of modify_cq */
#define FLAGS_KNOWN (IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION | IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN)
#define DRV_FLAGS_KNOWN \
	(MLX5_IB_CREATE_CQ_FLAGS_CQE_128B_PAD | MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX)

/* The descriptor is the application's; the channel lives until it is closed and no CQ uses it
 * (events.c). */
int cmd_create_comp_channel(struct uv_call *c)
{
	struct ib_uverbs_create_comp_channel_resp *resp = c->out;
	int fd, rc = hca_channel_open(c->ctx, &fd);

	if (!rc)
		resp->fd = (uint32_t)fd;
	return rc;
}

/* The fields that both create commands share. */
struct cq_req {
	uint64_t user_handle;
	uint32_t cqe, flags;
	int32_t channel_fd;
	uint32_t vector;
};

/* libmlx5's part of a request. Compression exists for CQEs of 64 bytes only, and in the formats
 * that the card reports. */
static int cq_drv_check(const struct hca_card *card, const struct mlx5_ib_create_cq *drv)
{
	if (drv->flags & ~DRV_FLAGS_KNOWN || drv->reserved0 || drv->reserved1)
		return -EINVAL;
	if (drv->cqe_size != 64 && drv->cqe_size != 128)
		return -EINVAL;
	if (drv->cqe_comp_en && (drv->cqe_size != 64 || !SPW_IS_POW2(drv->cqe_comp_res_format) ||
				 drv->cqe_comp_res_format & ~card->mini_formats))
		return -EOPNOTSUPP;
	if (drv->flags & MLX5_IB_CREATE_CQ_FLAGS_CQE_128B_PAD && drv->cqe_size != 128)
		return -EOPNOTSUPP;
	return 0;
}

/* The record has two words, and must not straddle a cache line. */
static int cq_umem_ring(uint64_t buf, uint64_t bytes, uint64_t db)
{
	if (db & 7)
		return -EINVAL;
	if (hca_umem_check(buf, bytes, true) || hca_umem_check(db, 8, true))
		return -EFAULT;
	return 0;
}

/* libmlx5 asks for one entry less than its ring has, and is answered alike; ncqe counts all of the
 * ring, a power of 2. */
static void cq_fill(struct hca_cq *cq, const struct cq_req *req,
		    const struct mlx5_ib_create_cq *drv)
{
	cq->buf = (uint8_t *)(uintptr_t)drv->buf_addr;
	cq->dbrec = (spw_be32 *)(uintptr_t)drv->db_addr;
	cq->ncqe = spw_pow2_ceil32(req->cqe + 1);
	cq->cqe_bytes = drv->cqe_size;
	cq->comp_en = drv->cqe_comp_en;
	cq->comp_format = drv->cqe_comp_res_format;
	/* The create command has no field for the layout (a card is asked by DEVX): an option. */
	cq->comp_enhanced = cq->comp_en && cq->o.ctx->dev->cfg->cqe_enhanced;
	cq->asks_stamps = req->flags & IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION;
	cq->ignore_overrun = req->flags & IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN;
}

/* dbrec[1] begins with a value that libmlx5 never writes, so that the first arming is a change that
 * the NIC finds. */
int hca_cq_attach(struct hca_cq *cq, struct hca_uar *uar)
{
	int rc = hca_tbl_add(&cq->o.ctx->dev->cqs, cq, CQN_FIRST, CAP_CQ_LOG2, &cq->cqn);

	if (rc)
		return rc;
	spw_dma_store(&cq->dbrec[1], spw_cpu_to_be32(ARM_NEVER));
	hca_uar_bind_cq(uar, cq);
	rc = nic_cq_create(cq);
	if (rc) {
		hca_uar_unbind_cq(cq);
		hca_tbl_del(&cq->o.ctx->dev->cqs, cq->cqn);
	}
	return rc;
}

/* Both create commands end here. The channel gets a reference at its look-up, which the error path
 * gives back. */
static int cq_make(struct uv_call *c, const struct cq_req *req, struct hca_cq **cq_out)
{
	const struct mlx5_ib_create_cq *drv = c->uhw_in;
	const struct hca_card *card = c->ctx->dev->cfg->card;
	struct hca_comp_channel *ch = NULL;
	struct hca_uar *uar = hca_uar_find(c->ctx, drv->uar_page_index);
	struct hca_cq *cq;
	int rc;

	if (c->uhw_in_bytes < offsetof(struct mlx5_ib_create_cq, uar_page_index))
		return -EINVAL;
	if (req->cqe < 1 || req->cqe >= CAP_CQE_CNT || req->flags & ~(uint32_t)FLAGS_KNOWN ||
	    req->vector >= CAP_VECTOR_CNT)
		return -EINVAL;
	if (req->flags & IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN && !card->cq_ignore_overrun)
		return -EOPNOTSUPP;
	rc = cq_drv_check(card, drv);
	if (rc)
		return rc;
	if (!(drv->flags & MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX) || !uar)
		return -EINVAL;
	rc = cq_umem_ring(drv->buf_addr, (uint64_t)spw_pow2_ceil32(req->cqe + 1) * drv->cqe_size,
			  drv->db_addr);
	if (rc)
		return rc;
	if (req->channel_fd >= 0 && !(ch = hca_channel_get(c->ctx, req->channel_fd)))
		return -EINVAL;
	cq = hca_obj_new(c->ctx, HCA_CQ, sizeof(*cq), req->user_handle);
	rc = cq ? hca_obj_pin(&cq->o, drv->buf_addr,
			      (uint64_t)spw_pow2_ceil32(req->cqe + 1) * drv->cqe_size)
		: -ENOMEM;
	if (!rc) {
		cq_fill(cq, req, drv);
		cq->channel = ch;
		rc = hca_cq_attach(cq, uar);
	}
	if (rc) {
		if (cq)
			hca_obj_free(&cq->o);
		if (ch)
			hca_channel_put(ch);
		return rc;
	}
	uv_uhw_reply(c, &(struct mlx5_ib_create_cq_resp){.cqn = cq->cqn},
		     sizeof(struct mlx5_ib_create_cq_resp));
	*cq_out = cq;
	return 0;
}

int cmd_create_cq(struct uv_call *c)
{
	const struct ib_uverbs_create_cq *req = c->in;
	const struct cq_req r = {req->user_handle, req->cqe, 0, req->comp_channel,
				 req->comp_vector};
	struct ib_uverbs_create_cq_resp *resp = c->out;
	struct hca_cq *cq;
	int rc = cq_make(c, &r, &cq);

	if (rc)
		return rc;
	resp->cq_handle = cq->o.handle;
	resp->cqe = cq->ncqe - 1;
	return 0;
}

int cmd_ex_create_cq(struct uv_call *c)
{
	const struct ib_uverbs_ex_create_cq *req = c->in;
	const struct cq_req r = {req->user_handle, req->cqe, req->flags, req->comp_channel,
				 req->comp_vector};
	struct ib_uverbs_ex_create_cq_resp *resp = c->out;
	struct hca_cq *cq;
	int rc;

	if (req->comp_mask || req->reserved)
		return -EINVAL;
	rc = cq_make(c, &r, &cq);
	if (rc)
		return rc;
	resp->base.cq_handle = cq->o.handle;
	resp->base.cqe = cq->ncqe - 1;
	resp->response_length = SPW_MIN(c->out_bytes, (uint32_t)sizeof(*resp));
	return 0;
}

/* Moderation of completion events: stored, for the NIC to apply. */
int cmd_ex_modify_cq(struct uv_call *c)
{
	const struct ib_uverbs_ex_modify_cq *req = c->in;
	struct hca_cq *cq = hca_obj_find(c->ctx, HCA_CQ, req->cq_handle);

	if (!req->attr_mask || req->reserved)
		return -EINVAL;
	if (req->attr_mask & ~MOD_COUNT)
		return -EOPNOTSUPP;
	if (!cq || req->attr.cq_period > 0xfff)
		return -EINVAL;
	cq->mod_cnt = req->attr.cq_count;
	cq->mod_period_us = req->attr.cq_period;
	return 0;
}

/* libmlx5 allocates the new ring and moves the CQEs itself, up to the mark that nic_cq_resize
 * writes. If the NIC refuses because the new ring is too short, the old one stays in use. */
int cmd_resize_cq(struct uv_call *c)
{
	const struct ib_uverbs_resize_cq *req = c->in;
	const struct mlx5_ib_resize_cq *drv = c->uhw_in;
	struct ib_uverbs_resize_cq_resp *resp = c->out;
	struct hca_cq *cq = hca_obj_find(c->ctx, HCA_CQ, req->cq_handle);
	uint32_t ncqe;
	int rc;

	if (!cq || req->cqe < 1 || req->cqe >= CAP_CQE_CNT)
		return -EINVAL;
	if (c->uhw_in_bytes < sizeof(*drv) || drv->reserved0 || drv->reserved1)
		return -EINVAL;
	/* The size of a CQE cannot change: libmlx5 copies CQEs one by one. */
	if (drv->cqe_size && drv->cqe_size != cq->cqe_bytes)
		return -EINVAL;
	ncqe = spw_pow2_ceil32(req->cqe + 1);
	resp->cqe = ncqe - 1;
	if (ncqe == cq->ncqe && drv->buf_addr == (uint64_t)(uintptr_t)cq->buf)
		return 0;
	if (hca_umem_check(drv->buf_addr, (uint64_t)ncqe * cq->cqe_bytes, true))
		return -EFAULT;
	rc = hca_obj_repin(&cq->o, drv->buf_addr, (uint64_t)ncqe * cq->cqe_bytes);
	if (rc)
		return rc;
	rc = nic_cq_resize(cq, (uint8_t *)(uintptr_t)drv->buf_addr, ncqe);
	if (rc) { /* the old ring stays */
		hca_obj_repin(&cq->o, (uintptr_t)cq->buf, (uint64_t)cq->ncqe * cq->cqe_bytes);
		return rc;
	}
	cq->buf = (uint8_t *)(uintptr_t)drv->buf_addr;
	cq->ncqe = ncqe;
	return 0;
}

/* The NIC comes first, so that no CQE and no event follows. Events in the channel name the CQ by
 * the application's pointer, hence the purge. */
void hca_cq_free(struct hca_cq *cq)
{
	nic_cq_destroy(cq);
	hca_uar_unbind_cq(cq);
	hca_tbl_del(&cq->o.ctx->dev->cqs, cq->cqn);
	hca_event_purge_cq(cq);
	if (cq->channel)
		hca_channel_put(cq->channel);
	hca_obj_free(&cq->o);
}

int cmd_destroy_cq(struct uv_call *c)
{
	const struct ib_uverbs_destroy_cq *req = c->in;
	struct ib_uverbs_destroy_cq_resp *resp = c->out;
	struct hca_cq *cq;
	int rc = hca_obj_find_destroy(c->ctx, HCA_CQ, req->cq_handle, &cq);

	if (rc)
		return rc;
	if (cq->o.use_cnt)
		return -EBUSY;
	/* libibverbs waits until the application has acknowledged as many events as are reported.
	 */
	hca_event_purge_cq(cq);
	resp->comp_events_reported = cq->comp_sent;
	resp->async_events_reported = cq->o.async_sent;
	hca_cq_free(cq);
	return 0;
}
