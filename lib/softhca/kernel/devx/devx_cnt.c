/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Counters: objects that queues or flow rules name, and that the NIC counts in.
 *
 *   ALLOC_Q_COUNTER    --> id --> CREATE_RQ: counter_set_id     --> nic/eth/raw.c
 *   ALLOC_FLOW_COUNTER --> id --> CREATE_FLOW: the handle of it --> nic/eth/table.c, flow_count
 *
 * Q counters: a set of counts. Of the vendor's only out_of_buffer is counted by set; the others
 * read 0. A queue without a set is counted in the port's counters alone, as all queues are.
 *
 * Flow counters: one at a time. Bulks of 128 and more, their offsets, and answers that the card
 * writes to memory need capability bits that read 0 here.
 */
#include <errno.h>

#include "softhca/kernel/devx/devx.h"

#define ID_LOG2 8u /* numbers have 8 bits, and 0 is none */

int devx_alloc_q_cnt(struct devx_cmd *c)
{
	struct hca_q_cnt *q = hca_obj_new(c->ctx, HCA_Q_CNT, sizeof(*q), 0);

	if (!q)
		return devx_refuse(c, DEVX_LIM_ERR, 0);
	if (hca_tbl_add(&c->ctx->dev->q_cnts, q, 1, ID_LOG2, &q->id)) {
		hca_obj_free(&q->o);
		return devx_refuse(c, DEVX_LIM_ERR, 0);
	}
	c->obj = &q->o;
	devx_put(c->out, DEVX_ALLOC_Q_CNT_OUT_ID, q->id);
	return 0;
}

int devx_query_q_cnt(struct devx_cmd *c)
{
	struct hca_q_cnt *q = (struct hca_q_cnt *)c->obj;

	devx_put(c->out, DEVX_QUERY_Q_CNT_OUT_OF_BUFFER, q->out_of_buffer);
	if (devx_get(c->in, DEVX_QUERY_Q_CNT_CLEAR))
		q->out_of_buffer = 0;
	return 0;
}

int devx_alloc_flow_cnt(struct devx_cmd *c)
{
	if (devx_get(c->in, DEVX_ALLOC_FLOW_CNT_BULK))
		return devx_refuse(c, DEVX_BAD_PARAM, DEVX_ALLOC_FLOW_CNT_BULK);
	return devx_make_plain(c, HCA_FLOW_CNT, sizeof(struct hca_flow_cnt));
}

/* Frames that were dropped by their rule, or for want of a WQE, are counted too. */
int devx_query_flow_cnt(struct devx_cmd *c)
{
	struct hca_flow_cnt *f = (struct hca_flow_cnt *)c->obj;

	if (devx_get(c->in, DEVX_QUERY_FLOW_CNT_BULK))
		return devx_refuse(c, DEVX_BAD_PARAM, DEVX_QUERY_FLOW_CNT_BULK);
	devx_put(c->out, DEVX_QUERY_FLOW_CNT_OUT_FRAMES, f->frames);
	devx_put(c->out, DEVX_QUERY_FLOW_CNT_OUT_BYTES, f->bytes);
	if (devx_get(c->in, DEVX_QUERY_FLOW_CNT_CLEAR))
		f->frames = f->bytes = 0;
	return 0;
}
