/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * TIRs: where flow rules send frames. A packet QP owns one (cmd_qp.c); DEVX makes them by
 * themselves, and a rule points to either.
 *
 *   ibv_create_flow  --> QP --------> its TIR --> its ring, or its table (RSS)
 *   matcher's rule   --> QP or TIR --> TIR ----> a WQ, or a table
 *
 * The NIC sees TIRs only (nic/eth/rss.c). A TIR keeps its queue or table; rules keep the TIR, and a
 * packet QP whose TIR has rules is busy. The hash table of a key is made once, with the TIR.
 */
#include <errno.h>
#include <string.h>

#include "softhca/kernel/ctl.h"
#include "softhca/nic/nic.h"

/* Frames of the function itself come back while some TIR asks for them (nic/eth/l2.c). */
void hca_tir_refs(struct hca_tir *t, uint32_t d)
{
	if (t->wq)
		t->wq->o.use_cnt += d;
	if (t->tbl)
		t->tbl->o.use_cnt += d;
	t->o.ctx->dev->self_lb_cnt += t->self_lb_mc ? d : 0;
}

/* Who checks the fields knows the format of its command: here they are taken as they are. */
int hca_tir_make(struct hca_ctx *ctx, const struct hca_tir *want, struct hca_tir **tir_out)
{
	struct hca_tir *t = hca_obj_new(ctx, HCA_TIR, sizeof(*t), 0);
	int rc;

	if (!t)
		return -ENOMEM;
	t->o.devx = true; /* no verbs command makes one */
	t->wq = want->wq;
	t->tbl = want->tbl;
	t->fields = want->fields;
	t->self_lb_mc = want->self_lb_mc;
	memcpy(t->key, want->key, sizeof(t->key));
	rc = nic_tir_create(t);
	if (rc) {
		hca_obj_free(&t->o);
		return rc;
	}
	hca_tir_refs(t, 1);
	*tir_out = t;
	return 0;
}

/* No rule points to it any more. */
void hca_tir_free(struct hca_tir *t)
{
	nic_tir_destroy(t);
	hca_tir_refs(t, -1u);
	hca_obj_free(&t->o);
}
