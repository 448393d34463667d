/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Contexts (opens of the device file) and the handles of their objects. Closing a context destroys
 * what it still has, as the kernel does when a process dies.
 *
 *   open("/dev/infiniband/uverbsN")   hca_ctx_open: ctx->fd, clock pages; no object yet
 *   GET_CONTEXT                       cmd_dev.c: ctx->ready, the asynchronous event file
 *   create, destroy                   hca_obj_new, hca_obj_free: one handle per object
 *   close                             hca_ctx_close: all objects, by free_order
 *
 * A handle is an index into the context's table, so one context cannot name another's objects.
 * Numbers that travel or stand in CQEs (QPN, CQN, keys) are the device's, in tables of hca_dev.c.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "softhca/kernel/ctl.h"
#include "softhca/kernel/devx_events.h"
#include "softhca/nic/nic.h"

#define HANDLES_LOG2 20u /* objects of one context */

/* The lock is not held while pages are mapped; the context becomes visible to the NIC thread at the
 * end. */
int hca_ctx_open(struct hca_dev *dev, struct hca_ctx **ctx_out)
{
	struct hca_ctx *ctx = calloc(1, sizeof(*ctx));
	int rc;

	if (!ctx)
		return -ENOMEM;
	ctx->dev = dev;
	hca_lock(dev);
	rc = -nic_fault_of(dev, "open");
	hca_unlock(dev);
	rc = rc ? rc : hca_uar_map_ctx(ctx);
	if (rc) {
		free(ctx);
		return rc;
	}
	hca_lock(dev);
	ctx->res_id = ++dev->res_last;
	ctx->next = dev->ctxs;
	dev->ctxs = ctx;
	hca_unlock(dev);
	*ctx_out = ctx;
	return 0;
}

/* Objects before those that they refer to. */
static const enum hca_obj_type free_order[] = {
	HCA_FLOW, HCA_MATCHER, HCA_QP,    HCA_TIR,      HCA_RWQ_TBL, HCA_WQ,
	HCA_SRQ,  HCA_CQ,      HCA_MR,    HCA_AH,       HCA_PD,      HCA_UAR,
	HCA_TIS,  HCA_TD,      HCA_Q_CNT, HCA_FLOW_CNT, HCA_UMEM};

void hca_obj_destroy(struct hca_obj *o)
{
	switch ((enum hca_obj_type)o->type) {
	case HCA_PD:
		hca_pd_free((struct hca_pd *)o);
		return;
	case HCA_MR:
		hca_mr_free((struct hca_mr *)o);
		return;
	case HCA_CQ:
		hca_cq_free((struct hca_cq *)o);
		return;
	case HCA_SRQ:
		hca_srq_free((struct hca_srq *)o);
		return;
	case HCA_WQ:
		hca_wq_free((struct hca_wq *)o);
		return;
	case HCA_RWQ_TBL:
		hca_rwq_tbl_free((struct hca_rwq_tbl *)o);
		return;
	case HCA_TIR:
		hca_tir_free((struct hca_tir *)o);
		return;
	case HCA_QP:
		hca_qp_free((struct hca_qp *)o);
		return;
	case HCA_FLOW:
		hca_flow_free(o);
		return;
	case HCA_UAR:
		hca_uar_free((struct hca_uar *)o);
		return;
	case HCA_Q_CNT:
		hca_tbl_del(&o->ctx->dev->q_cnts, ((struct hca_q_cnt *)o)->id);
		hca_obj_free(o);
		return;
	case HCA_AH:
	case HCA_UMEM:
	case HCA_TD:
	case HCA_TIS:
	case HCA_MATCHER:
	case HCA_FLOW_CNT:
		hca_obj_free(o);
		return;
	}
}

/* The table may be walked while its entries vanish: an index is never used again meanwhile. */
static void destroy_all(struct hca_ctx *ctx, enum hca_obj_type type)
{
	for (uint32_t i = 0; i < ctx->objs.cap; i++) {
		struct hca_obj *o = ctx->objs.slot[i];

		if (o && o->type == type)
			hca_obj_destroy(o);
	}
}

/* One hold of the lock from the first object to the last: the NIC thread observes all of them or
 * none. user_cnt counts contexts that came as far as GET_CONTEXT. */
void hca_ctx_close(struct hca_ctx *ctx)
{
	struct hca_dev *dev = ctx->dev;

	hca_lock(dev);
	for (uint32_t i = 0; i < SPW_ARRAY_CNT(free_order); i++)
		destroy_all(ctx, free_order[i]);
	HCA_UNLINK(dev->ctxs, ctx, next);
	dev->user_cnt -= ctx->ready;
	while (ctx->channels)
		hca_channel_put(ctx->channels);
	hca_async_close(ctx);
	devx_files_end(ctx);
	hca_unlock(dev);
	hca_uar_unmap_ctx(ctx);
	hca_tbl_free(&ctx->objs);
	free(ctx);
}

/* obj_cnt enforces the limits that query_device reports (limits.c), as a card's firmware does. */
void *hca_obj_new(struct hca_ctx *ctx, enum hca_obj_type type, size_t bytes, uint64_t user_handle)
{
	struct hca_obj *o = hca_obj_room(ctx->dev, type) ? calloc(1, bytes) : NULL;

	if (!o)
		return NULL;
	if (hca_tbl_add(&ctx->objs, o, 1, HANDLES_LOG2, &o->handle)) {
		free(o);
		return NULL;
	}
	o->ctx = ctx;
	o->res_id = ++ctx->dev->res_last;
	o->type = (uint8_t)type;
	ctx->dev->obj_cnt[type]++;
	o->user_handle = user_handle;
	return o;
}

/* A handle of another type is not found: handles of all types share one table. */
void *hca_obj_find(struct hca_ctx *ctx, enum hca_obj_type type, uint32_t handle)
{
	struct hca_obj *o = hca_tbl_get(&ctx->objs, handle);

	return o && o->type == type && !o->devx ? o : NULL;
}

void *hca_devx_find(struct hca_ctx *ctx, enum hca_obj_type type, uint32_t handle)
{
	struct hca_obj *o = hca_tbl_get(&ctx->objs, handle);

	return o && o->type == type && o->devx ? o : NULL;
}

void hca_obj_hold(struct hca_obj *o, struct hca_obj *other)
{
	uint32_t i = 0;

	while (o->held[i])
		i++;
	o->held[i] = other;
	other->use_cnt++;
}

int hca_obj_find_destroy(struct hca_ctx *ctx, enum hca_obj_type type, uint32_t handle,
			 void *obj_out)
{
	struct hca_obj *o = hca_tbl_get(&ctx->objs, handle);

	if (!o)
		return -ENOENT;
	if (o->type != type || o->devx)
		return -EINVAL;
	*(struct hca_obj **)obj_out = o;
	return 0;
}

/* The last step of every hca_*_free: what is specific to the type has been undone. */
void hca_obj_free(struct hca_obj *o)
{
	hca_tbl_del(&o->ctx->objs, o->handle);
	o->ctx->dev->obj_cnt[o->type]--;
	for (uint32_t i = 0; i < SPW_ARRAY_CNT(o->held) && o->held[i]; i++)
		o->held[i]->use_cnt--;
	hca_obj_unpin(o);
	devx_subs_detach(o);
	free(o);
}
