/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The objects of this process as rows. Source of what is shown: Linux
 * drivers/infiniband/core/nldev.c, the fill_res_ functions. Left out is what Linux does not track:
 * objects of DEVX, and packet QPs with RSS.
 *
 * Numbers of QPs are the device's. Those of other objects count up for each device and process
 * (res_id), with the cable's port above, so that processes of one machine do not share them.
 */
#include "softhca/kernel/nldev/nl_row.h"

#include <stdlib.h>
#include <unistd.h>

#include "softhca/kernel/nldev/nldev.h"

#define ROWS_FIRST 64u

static nl_more_fn *more;

struct nl_row *nl_row_add(struct nl_rows *rows)
{
	if (rows->cnt == rows->room) {
		const uint32_t room = SPW_MAX(rows->room * 2, ROWS_FIRST);
		struct nl_row *row = realloc(rows->row, room * sizeof(*row));

		if (!row)
			return NULL;
		rows->row = row;
		rows->room = room;
	}
	rows->row[rows->cnt] = (struct nl_row){.pid = (uint32_t)getpid()};
	return &rows->row[rows->cnt++];
}

uint32_t nl_row_id(const struct hca_dev *dev, uint32_t res_id)
{
	return dev->cable_port << 24 | (res_id & 0xffffff);
}

static void row_qp(struct nl_row *r, const struct hca_qp *qp)
{
	r->kind = NL_QP;
	r->id = qp->qpn;
	r->type = qp->qp_type;
	r->state = qp->state;
	r->mig_state = qp->attr.path_mig_state;
	r->port = qp->attr.port;
	r->pdn = nl_row_id(qp->o.ctx->dev, qp->pd->o.res_id);
	r->srqn = qp->srq ? nl_row_id(qp->o.ctx->dev, qp->srq->o.res_id) : 0;
	r->rqpn = qp->attr.dest_qpn;
	r->rq_psn = qp->attr.rq_psn;
	r->sq_psn = qp->attr.sq_psn;
}

/* Fills what the kind of object has. */
static void row_object(struct nl_row *r, const struct hca_obj *o)
{
	r->use_cnt = o->use_cnt;
	if (o->type == HCA_PD) {
		r->kind = NL_PD;
	} else if (o->type == HCA_CQ) {
		r->kind = NL_CQ;
		r->cqe = ((const struct hca_cq *)o)->ncqe - 1;
	} else if (o->type == HCA_MR) {
		const struct hca_mr *mr = (const struct hca_mr *)o;

		r->kind = NL_MR;
		r->key = mr->key;
		r->bytes = mr->length_bytes;
		r->pdn = nl_row_id(o->ctx->dev, mr->pd->o.res_id);
	} else if (o->type == HCA_SRQ) {
		r->kind = NL_SRQ;
		r->pdn = nl_row_id(o->ctx->dev, ((const struct hca_srq *)o)->pd->o.res_id);
	} else {
		row_qp(r, (const struct hca_qp *)o);
	}
}

static bool row_is_shown(const struct hca_obj *o)
{
	if (o->devx)
		return false;
	if (o->type == HCA_QP)
		return !((const struct hca_qp *)o)->is_rss;
	return o->type == HCA_PD || o->type == HCA_CQ || o->type == HCA_MR || o->type == HCA_SRQ;
}

static void rows_context(const struct hca_ctx *ctx, struct nl_rows *rows)
{
	const struct hca_dev *dev = ctx->dev;
	struct nl_row *r = ctx->ready ? nl_row_add(rows) : NULL;
	const uint32_t ctxn = nl_row_id(dev, ctx->res_id);

	if (r) {
		r->dev = dev->idx;
		r->kind = NL_CTX;
		r->id = ctxn;
	}
	for (uint32_t i = 0; i < ctx->objs.cap; i++) {
		const struct hca_obj *o = ctx->objs.slot[i];

		r = o && row_is_shown(o) ? nl_row_add(rows) : NULL;
		if (!r)
			continue;
		r->dev = dev->idx;
		r->id = nl_row_id(dev, o->res_id);
		r->ctxn = ctxn;
		row_object(r, o);
	}
}

void nl_rows_own(struct hca_dev *devs, uint32_t cnt, struct nl_rows *rows)
{
	nl_more_fn *fn = spw_thr_load_rlx(&more);

	for (uint32_t i = 0; i < cnt; i++) {
		hca_lock(&devs[i]);
		for (const struct hca_ctx *ctx = devs[i].ctxs; ctx; ctx = ctx->next)
			rows_context(ctx, rows);
		hca_unlock(&devs[i]);
	}
	if (fn)
		fn(rows);
}

void nl_rows_more(nl_more_fn *fn)
{
	spw_thr_store_rlx(&more, fn);
}

static int rows_compare(const void *a, const void *b)
{
	const struct nl_row *l = a, *r = b;

	return l->id < r->id ? -1 : l->id > r->id;
}

void nl_rows_all(struct hca_dev *devs, uint32_t cnt, struct nl_rows *rows)
{
	nl_rows_own(devs, cnt, rows);
	nl_machine_rows(devs, cnt, rows);
	if (rows->cnt)
		qsort(rows->row, rows->cnt, sizeof(*rows->row), rows_compare);
}

void nl_rows_free(struct nl_rows *rows)
{
	free(rows->row);
	*rows = (struct nl_rows){0};
}
