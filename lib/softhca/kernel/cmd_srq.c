/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Commands on shared receive queues. A WQE is a segment that links to the next WQE, then data
 * segments; the NIC follows the links (nic/transport/rq.c).
 * Source: Linux drivers/infiniband/hw/mlx5/srq.c, rdma-core providers/mlx5/srq.c.
 *
 * States: none. A limit that is armed (srq_limit) raises one event when fewer WQEs than that are
 * left, and is then 0 again (nic/transport/rq.c).
 *
 *   cmd_create_srq, cmd_create_xsrq --> srq_object_make: object --> ring --> number --> NIC
 *
 * uverbs.c calls these with the device lock held. What to know before changing it: an SRQ outlives
 * the QPs that use it (use_cnt), and its WQEs are no QP's: a QP that fails flushes none of them.
 */
#include <errno.h>

#include "softhca/kernel/cmd.h"
#include "softhca/kernel/ctl.h"
#include "softhca/nic/nic.h"

#define SRQN_FIRST 1u
#define NEXT_BYTES 16u /* the segment that links WQEs; a data segment is as long */
#define STRIDE_MIN 32u
enum { SRQ_MAX_WR = 1, SRQ_LIMIT = 2 };

struct srq_req {
	uint64_t user_handle;
	uint32_t pd_handle, max_wr, max_sge, limit;
};

/* The stride of a WQE has room for its link and its data segments, and is a power of 2. */
static int srq_fill(struct hca_srq *srq, const struct srq_req *req,
		    const struct mlx5_ib_create_srq *drv)
{
	/* libmlx5 allocates one WQE more than may be posted; max_wr is without it. */
	srq->wqe_cnt = spw_pow2_ceil32(req->max_wr + 1);
	srq->wqe_shift = spw_log2_floor64(spw_pow2_ceil32(
		SPW_MAX(STRIDE_MIN, NEXT_BYTES + NEXT_BYTES * SPW_MAX(req->max_sge, 1u))));
	srq->max_wr = srq->wqe_cnt - 1;
	srq->max_sge = ((1u << srq->wqe_shift) - NEXT_BYTES) / NEXT_BYTES;
	srq->limit = req->limit;
	srq->uidx = drv->uidx;
	srq->buf = (uint8_t *)(uintptr_t)drv->buf_addr;
	srq->dbrec = (spw_be32 *)(uintptr_t)drv->db_addr;
	if (drv->db_addr & 7)
		return -EINVAL;
	if (hca_umem_check(drv->buf_addr, (uint64_t)srq->wqe_cnt << srq->wqe_shift, true) ||
	    hca_umem_check(drv->db_addr, 8, true))
		return -EFAULT;
	return 0;
}

int hca_srq_attach(struct hca_srq *srq)
{
	struct hca_dev *dev = srq->o.ctx->dev;
	int rc = hca_tbl_add(&dev->srqs, srq, SRQN_FIRST, CAP_SRQ_LOG2, &srq->srqn);

	if (rc)
		return rc;
	rc = nic_srq_create(srq);
	if (rc) {
		hca_tbl_del(&dev->srqs, srq->srqn);
		return rc;
	}
	srq->pd->o.use_cnt++;
	return 0;
}

/* Both create commands end here. */
static int srq_object_make(struct uv_call *c, const struct srq_req *req)
{
	const struct mlx5_ib_create_srq *drv = c->uhw_in;
	struct ib_uverbs_create_srq_resp *resp = c->out;
	struct hca_pd *pd = hca_obj_find(c->ctx, HCA_PD, req->pd_handle);
	struct hca_srq *srq;
	int rc;

	if (c->uhw_in_bytes < offsetof(struct mlx5_ib_create_srq, uidx) || drv->flags ||
	    drv->reserved0 || drv->reserved1 || !pd)
		return -EINVAL;
	if (req->max_wr == 0 || req->max_wr >= CAP_WQE_CNT || req->max_sge > CAP_SGE_CNT ||
	    req->limit > req->max_wr)
		return -EINVAL;
	srq = hca_obj_new(c->ctx, HCA_SRQ, sizeof(*srq), req->user_handle);
	if (!srq)
		return -ENOMEM;
	srq->pd = pd;
	rc = srq_fill(srq, req, drv);
	rc = rc ? rc
		: hca_obj_pin(&srq->o, drv->buf_addr, (uint64_t)srq->wqe_cnt << srq->wqe_shift);
	rc = rc ? rc : hca_srq_attach(srq);
	if (rc) {
		hca_obj_free(&srq->o);
		return rc;
	}
	resp->srq_handle = srq->o.handle;
	resp->max_wr = srq->max_wr;
	resp->max_sge = srq->max_sge;
	resp->srqn = srq->srqn;
	uv_uhw_reply(c, &(struct mlx5_ib_create_srq_resp){.srqn = srq->srqn},
		     sizeof(struct mlx5_ib_create_srq_resp));
	return 0;
}

int cmd_create_srq(struct uv_call *c)
{
	const struct ib_uverbs_create_srq *req = c->in;
	const struct srq_req r = {req->user_handle, req->pd_handle, req->max_wr, req->max_sge,
				  req->srq_limit};

	return srq_object_make(c, &r);
}

/* The form that ibv_create_srq_ex uses; only the basic type is modelled. */
int cmd_create_xsrq(struct uv_call *c)
{
	const struct ib_uverbs_create_xsrq *req = c->in;
	const struct srq_req r = {req->user_handle, req->pd_handle, req->max_wr, req->max_sge,
				  req->srq_limit};

	return req->srq_type == IB_UVERBS_SRQT_BASIC ? srq_object_make(c, &r) : -EOPNOTSUPP;
}

/* A new limit counts from the next WQE that the NIC takes. */
int cmd_modify_srq(struct uv_call *c)
{
	const struct ib_uverbs_modify_srq *req = c->in;
	struct hca_srq *srq = hca_obj_find(c->ctx, HCA_SRQ, req->srq_handle);

	if (!srq || req->attr_mask & ~(uint32_t)(SRQ_MAX_WR | SRQ_LIMIT))
		return -EINVAL;
	if (req->attr_mask & SRQ_MAX_WR) /* mlx5 cannot resize one */
		return -EINVAL;
	if (req->attr_mask & SRQ_LIMIT) {
		if (req->srq_limit > srq->max_wr)
			return -EINVAL;
		srq->limit = req->srq_limit;
	}
	return 0;
}

/* srq_limit 0: no limit is armed, perhaps because it was reached. */
int cmd_query_srq(struct uv_call *c)
{
	const struct ib_uverbs_query_srq *req = c->in;
	struct ib_uverbs_query_srq_resp *resp = c->out;
	struct hca_srq *srq = hca_obj_find(c->ctx, HCA_SRQ, req->srq_handle);

	if (!srq)
		return -EINVAL;
	resp->max_wr = srq->max_wr;
	resp->max_sge = srq->max_sge;
	resp->srq_limit = srq->limit;
	return 0;
}

/* QPs that use the SRQ hold a reference, so none is left here. */
void hca_srq_free(struct hca_srq *srq)
{
	nic_srq_destroy(srq);
	hca_tbl_del(&srq->o.ctx->dev->srqs, srq->srqn);
	hca_event_purge_async(&srq->o);
	srq->pd->o.use_cnt--;
	hca_obj_free(&srq->o);
}

/* Events that were not read are withdrawn first; libibverbs then waits until the application has
 * acknowledged the others. */
int cmd_destroy_srq(struct uv_call *c)
{
	const struct ib_uverbs_destroy_srq *req = c->in;
	struct ib_uverbs_destroy_srq_resp *resp = c->out;
	struct hca_srq *srq;
	int rc = hca_obj_find_destroy(c->ctx, HCA_SRQ, req->srq_handle, &srq);

	if (rc)
		return rc;
	if (srq->o.use_cnt)
		return -EBUSY;
	hca_event_purge_async(&srq->o);
	resp->events_reported = srq->o.async_sent;
	hca_srq_free(srq);
	return 0;
}
