/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Q counters: a set of counts that receive queues name when they are created. Of the vendor's only
 * out_of_buffer is counted by set; the others read 0.
 *
 *   ALLOC_Q_COUNTER --> id --> CREATE_RQ: counter_set_id --> nic/eth/raw.c counts
 *
 * A queue without a set is counted in the port's counters alone, as all queues are.
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
