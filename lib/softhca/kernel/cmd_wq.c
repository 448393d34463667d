/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Commands on receive work queues, striding ones included, and on the indirection tables of RSS.
 * Source: Linux drivers/infiniband/hw/mlx5/qp.c (mlx5_ib_create_wq).
 *
 *   frame --> RSS QP --hash--> indirection table --> WQ --> CQ
 *             (cmd_qp.c)       cmd_ex_create_rwq_tbl |
 *                                                    ring and doorbell record: application memory
 *
 * States of a WQ. The application changes them by modify; the NIC changes RDY to ERR by itself,
 * when a WQE cannot be used (inject/late.c).
 *
 *   RESET --modify--> RDY --modify, or the NIC--> ERR
 *     ^                |                           |
 *     +----modify------+-----------modify----------+
 *
 * A WQ is created in RESET and takes no frame before RDY. Each object counts those that refer to it
 * (use_cnt): destroying a WQ that a table names is EBUSY.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "softhca/kernel/cmd.h"
#include "softhca/kernel/ctl.h"
#include "softhca/nic/nic.h"

#define WQN_FIRST    1u
#define WQ_SHIFT_MIN 4u
#define WQ_SHIFT_MAX 10u
#define UIDX_MAX     0xffffffu
#define FLAGS_KNOWN                                                            \
	(IB_UVERBS_WQ_FLAGS_CVLAN_STRIPPING | IB_UVERBS_WQ_FLAGS_SCATTER_FCS | \
	 IB_UVERBS_WQ_FLAGS_PCI_WRITE_END_PADDING)
enum { WQA_STATE = 1, WQA_CUR_STATE = 2, WQA_FLAGS = 4, WQA_ALL = 7 };

/* Does the card lack what these flags ask for? */
static bool wq_lacks(const struct hca_card *card, uint32_t flags)
{
	return (flags & IB_UVERBS_WQ_FLAGS_CVLAN_STRIPPING &&
		!(card->raw_caps & IB_UVERBS_RAW_PACKET_CAP_CVLAN_STRIPPING)) ||
	       (flags & IB_UVERBS_WQ_FLAGS_SCATTER_FCS &&
		!(card->raw_caps & IB_UVERBS_RAW_PACKET_CAP_SCATTER_FCS));
}

/* EOPNOTSUPP is for what the card does not know, EINVAL for a value outside the ranges that
 * query_device reports. */
static int wq_striding_fill(struct hca_wq *wq, const struct mlx5_ib_create_wq *drv)
{
	const struct hca_card *card = wq->o.ctx->dev->cfg->card;
	uint32_t bytes = drv->single_stride_log_num_of_bytes,
		 cnt = drv->single_wqe_log_num_of_strides;

	if (drv->comp_mask & ~(uint32_t)MLX5_IB_CREATE_WQ_STRIDING_RQ)
		return -EOPNOTSUPP;
	if (!(drv->comp_mask & MLX5_IB_CREATE_WQ_STRIDING_RQ))
		return 0;
	if (!card->stride_log2_max)
		return -EOPNOTSUPP;
	if (bytes < card->stride_log2_min || bytes > card->stride_log2_max ||
	    cnt < card->strides_log2_min || cnt > card->strides_log2_max)
		return -EINVAL;
	wq->striding = true;
	wq->stride_log2_bytes = (uint8_t)bytes;
	wq->strides_log2_cnt = (uint8_t)cnt;
	wq->two_byte_shift = drv->two_byte_shift_en;
	return 0;
}

/* Everything that the NIC thread is to read later is checked here, once: the ring and the doorbell
 * record are addresses of the application. max_sge follows from the WQE's size: a data segment has
 * 16 bytes. */
static int wq_fill(struct uv_call *c, const struct ib_uverbs_ex_create_wq *req, struct hca_wq *wq)
{
	const struct mlx5_ib_create_wq *drv = c->uhw_in;
	uint64_t bytes;

	if (c->uhw_in_bytes < offsetof(struct mlx5_ib_create_wq, single_stride_log_num_of_bytes) ||
	    drv->user_index > UIDX_MAX || drv->flags & ~(uint32_t)MLX5_WQ_FLAG_SIGNATURE ||
	    drv->db_addr & 7)
		return -EINVAL;
	if (drv->flags) /* receive WQEs with signatures */
		return -EOPNOTSUPP;
	if (!SPW_IS_POW2(drv->rq_wqe_count) || drv->rq_wqe_count > CAP_WQE_CNT ||
	    drv->rq_wqe_shift < WQ_SHIFT_MIN || drv->rq_wqe_shift > WQ_SHIFT_MAX ||
	    req->max_wr > drv->rq_wqe_count)
		return -EINVAL;
	bytes = (uint64_t)drv->rq_wqe_count << drv->rq_wqe_shift;
	if (hca_umem_check(drv->buf_addr, bytes, true) || hca_umem_check(drv->db_addr, 8, true))
		return -EFAULT;
	wq->rq = (struct hca_rq){.buf = (uint8_t *)(uintptr_t)drv->buf_addr,
				 .dbrec = (spw_be32 *)(uintptr_t)drv->db_addr,
				 .wqe_cnt = drv->rq_wqe_count,
				 .wqe_shift = drv->rq_wqe_shift,
				 .max_sge = (1u << drv->rq_wqe_shift) / 16u};
	wq->uidx = drv->user_index;
	return wq_striding_fill(wq, drv);
}

/* References are counted last, when nothing can fail any more. */
int hca_wq_attach(struct hca_wq *wq)
{
	struct hca_dev *dev = wq->o.ctx->dev;
	int rc = hca_tbl_add(&dev->wqs, wq, WQN_FIRST, CAP_WQ_LOG2, &wq->wqn);

	if (rc)
		return rc;
	rc = nic_wq_create(wq);
	if (rc) {
		hca_tbl_del(&dev->wqs, wq->wqn);
		return rc;
	}
	wq->pd->o.use_cnt++;
	wq->cq->o.use_cnt++;
	return 0;
}

/* Order of creation, undone backwards on failure: object, contents, pinned pages, WQ number, the
 * NIC's own part. */
int cmd_ex_create_wq(struct uv_call *c)
{
	const struct ib_uverbs_ex_create_wq *req = c->in;
	struct ib_uverbs_ex_create_wq_resp *resp = c->out;
	struct hca_pd *pd = hca_obj_find(c->ctx, HCA_PD, req->pd_handle);
	struct hca_cq *cq = hca_obj_find(c->ctx, HCA_CQ, req->cq_handle);
	struct hca_wq *wq;
	int rc;

	if (req->comp_mask || req->wq_type != IB_UVERBS_WQT_RQ ||
	    req->create_flags & ~(uint32_t)FLAGS_KNOWN ||
	    wq_lacks(c->ctx->dev->cfg->card, req->create_flags))
		return -EOPNOTSUPP;
	if (!pd || !cq)
		return -EINVAL;
	rc = cq_stamps_check(cq);
	if (rc)
		return rc;
	wq = hca_obj_new(c->ctx, HCA_WQ, sizeof(*wq), req->user_handle);
	if (!wq)
		return -ENOMEM;
	wq->flags = req->create_flags;
	wq->max_wr = req->max_wr;
	wq->pd = pd;
	wq->cq = cq;
	rc = wq_fill(c, req, wq);
	if (!rc)
		rc = hca_obj_pin(&wq->o, (uintptr_t)wq->rq.buf,
				 (uint64_t)wq->rq.wqe_cnt << wq->rq.wqe_shift);
	rc = rc ? rc : hca_wq_attach(wq);
	if (rc) {
		hca_obj_free(&wq->o);
		return rc;
	}
	*resp = (struct ib_uverbs_ex_create_wq_resp){.response_length = sizeof(*resp),
						     .wq_handle = wq->o.handle,
						     .max_wr = req->max_wr,
						     .max_sge = req->max_sge,
						     .wqn = wq->wqn};
	uv_uhw_reply(c, &(struct mlx5_ib_create_wq_resp){.response_length = 8},
		     sizeof(struct mlx5_ib_create_wq_resp));
	return 0;
}

static bool wq_transition_ok(uint8_t from, uint8_t to)
{
	/* The diagram above; besides, every state to itself. */
	return to == HCA_WQS_RESET || to == from || (from == HCA_WQS_RESET && to == HCA_WQS_RDY) ||
	       (from == HCA_WQS_RDY && to == HCA_WQS_ERR);
}

/* Nothing changes before all of the request is checked. Only CVLAN stripping can change after
 * creation. The NIC learns of a new state after it is stored, with the old one as argument. */
int cmd_ex_modify_wq(struct uv_call *c)
{
	const struct ib_uverbs_ex_modify_wq *req = c->in;
	const struct mlx5_ib_modify_wq *drv = c->uhw_in;
	struct hca_wq *wq = hca_obj_find(c->ctx, HCA_WQ, req->wq_handle);
	uint8_t from;

	if (!req->attr_mask || req->attr_mask & ~(uint32_t)WQA_ALL || !wq)
		return -EINVAL;
	if (c->uhw_in_bytes && (drv->comp_mask || drv->reserved))
		return -EOPNOTSUPP;
	if ((req->attr_mask & WQA_STATE && req->wq_state > HCA_WQS_ERR) ||
	    (req->attr_mask & WQA_CUR_STATE && req->curr_wq_state != wq->state))
		return -EINVAL;
	if (req->attr_mask & WQA_FLAGS &&
	    (req->flags_mask & ~(uint32_t)IB_UVERBS_WQ_FLAGS_CVLAN_STRIPPING ||
	     wq_lacks(c->ctx->dev->cfg->card, req->flags_mask)))
		return -EOPNOTSUPP;
	from = wq->state;
	if (req->attr_mask & WQA_STATE && !wq_transition_ok(from, (uint8_t)req->wq_state))
		return -EINVAL;
	if (req->attr_mask & WQA_FLAGS)
		wq->flags = (wq->flags & ~req->flags_mask) | (req->flags & req->flags_mask);
	if (req->attr_mask & WQA_STATE) {
		wq->state = (uint8_t)req->wq_state;
		nic_wq_modified(wq, from);
	}
	return 0;
}

/* The NIC comes first: from then on it writes into no ring of the WQ. */
void hca_wq_free(struct hca_wq *wq)
{
	nic_wq_destroy(wq);
	hca_tbl_del(&wq->o.ctx->dev->wqs, wq->wqn);
	hca_event_purge_async(&wq->o);
	wq->pd->o.use_cnt--;
	wq->cq->o.use_cnt--;
	hca_obj_free(&wq->o);
}

/* events_reported: libibverbs waits until the application has acknowledged so many asynchronous
 * events of the WQ. Those that nobody has read are withdrawn first, since nobody can acknowledge
 * them. */
int cmd_ex_destroy_wq(struct uv_call *c)
{
	const struct ib_uverbs_ex_destroy_wq *req = c->in;
	struct ib_uverbs_ex_destroy_wq_resp *resp = c->out;
	struct hca_wq *wq;
	int rc;

	if (req->comp_mask)
		return -EOPNOTSUPP;
	rc = hca_obj_find_destroy(c->ctx, HCA_WQ, req->wq_handle, &wq);
	if (rc)
		return rc;
	if (wq->o.use_cnt)
		return -EBUSY;
	hca_event_purge_async(&wq->o);
	resp->response_length = SPW_MIN(c->out_bytes, (uint32_t)sizeof(*resp));
	resp->events_reported = wq->o.async_sent;
	hca_wq_free(wq);
	return 0;
}

/* ---- indirection tables ---- */

void hca_rwq_refs(struct hca_wq **queues, uint32_t log2_cnt, uint32_t d)
{
	for (uint32_t i = 0; i < 1u << log2_cnt; i++)
		queues[i]->o.use_cnt += d;
}

int hca_rwq_tbl_make(struct hca_ctx *ctx, struct hca_wq **queues, uint32_t log2_cnt,
		     struct hca_rwq_tbl **tbl_out)
{
	struct hca_rwq_tbl *t = hca_obj_new(ctx, HCA_RWQ_TBL, sizeof(*t), 0);

	if (!t)
		return -ENOMEM;
	t->log2_cnt = log2_cnt;
	t->wq = queues;
	hca_rwq_refs(queues, log2_cnt, 1);
	*tbl_out = t;
	return 0;
}

/* The handles follow the fixed part of the request; their number is a power of 2 by its form. A
 * table has no number of its own on the wire, so its handle serves. */
int cmd_ex_create_rwq_tbl(struct uv_call *c)
{
	const struct ib_uverbs_ex_create_rwq_ind_table *req = c->in;
	struct ib_uverbs_ex_create_rwq_ind_table_resp *resp = c->out;
	struct hca_wq **queues;
	struct hca_rwq_tbl *t;
	uint32_t cnt;
	int rc = 0;

	if (req->comp_mask)
		return -EOPNOTSUPP;
	if (req->log_ind_tbl_size > c->ctx->dev->cfg->card->rss_table_log2)
		return -EINVAL;
	cnt = 1u << req->log_ind_tbl_size;
	if (c->in_bytes < sizeof(*req) + cnt * sizeof(req->wq_handles[0]))
		return -ENOSPC;
	queues = calloc(cnt, sizeof(struct hca_wq *));
	if (!queues)
		return -ENOMEM;
	for (uint32_t i = 0; i < cnt && !rc; i++) {
		queues[i] = hca_obj_find(c->ctx, HCA_WQ, req->wq_handles[i]);
		rc = queues[i] ? 0 : -EINVAL;
	}
	rc = rc ? rc : hca_rwq_tbl_make(c->ctx, queues, req->log_ind_tbl_size, &t);
	if (rc) {
		free(queues);
		return rc;
	}
	*resp = (struct ib_uverbs_ex_create_rwq_ind_table_resp){.response_length = sizeof(*resp),
								.ind_tbl_handle = t->o.handle,
								.ind_tbl_num = t->o.handle};
	uv_uhw_reply(c, &(struct mlx5_ib_create_rwq_ind_tbl_resp){.response_length = 8},
		     sizeof(struct mlx5_ib_create_rwq_ind_tbl_resp));
	return 0;
}

/* No QP uses the table any more: each counts as a user of it (use_cnt). */
void hca_rwq_tbl_free(struct hca_rwq_tbl *t)
{
	hca_rwq_refs(t->wq, t->log2_cnt, -1u);
	free(t->wq);
	hca_obj_free(&t->o);
}

int cmd_ex_destroy_rwq_tbl(struct uv_call *c)
{
	const struct ib_uverbs_ex_destroy_rwq_ind_table *req = c->in;
	struct hca_rwq_tbl *t;
	int rc;

	if (req->comp_mask)
		return -EOPNOTSUPP;
	rc = hca_obj_find_destroy(c->ctx, HCA_RWQ_TBL, req->ind_tbl_handle, &t);
	if (rc)
		return rc;
	if (t->o.use_cnt)
		return -EBUSY;
	hca_rwq_tbl_free(t);
	return 0;
}
