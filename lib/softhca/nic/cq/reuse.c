/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A trap for CQs that ignore overruns. A card then writes over CQEs that the application has not
 * read; it loses completions and reports nothing. An application may ignore overruns if its queues
 * cannot have more completions than the CQ has entries. It shows that it has read the completion
 * of a receive WQE by posting the WQE again:
 *
 *   slot s holds the completion of WQE w     re-posted:  posted - w > wqe_cnt  (mod 2^16)
 *
 * A CQ is read in order, so a later completion that was read shows the same of all before it: an
 * application may keep a few WQEs of an idle queue back while others on the CQ go on. A completion
 * that goes to slot s before s is known to be read is counted in struct nic_strict (cqe_reuse). All
 * who complete a WQE call cq_reuse_check() before cq_put(). Receive WQEs of rings are tracked, not
 * those of SRQs, nor send WQEs. A compressed block takes as many slots as it has completions, so
 * the slot is known before its session ends.
 */
#include <stdlib.h>

#include "softhca/nic/cq/cq.h"
#include "softhca/nic/dev.h"
#include "softhca/nic/transport/rq.h"

struct nic_cq_use {
	struct nic_rq *rq; /* NULL: no completion, or one that is not tracked */
	uint16_t wqe;
};

bool cq_reuse_init(struct nic_cq *c)
{
	if (!c->cq->ignore_overrun)
		return true;
	c->use = calloc(c->cq->ncqe, sizeof(*c->use));
	return c->use != NULL;
}

void cq_reuse_fini(struct nic_cq *c)
{
	free(c->use);
	c->use = NULL;
}

/* Reads the doorbell record only if the one last read does not show it. */
static bool use_is_reposted(struct nic_rq *r, uint16_t wqe)
{
	const uint32_t cnt = r->rq->wqe_cnt;

	return (uint16_t)(r->pi - wqe) > cnt || (uint16_t)(r->ci + rq_posted(r) - wqe) > cnt;
}

/* Indices are 16 bits wide: on a CQ of more entries, one lap could pass unnoticed. */
static bool use_laps_differ(const struct nic_cq *c, const struct nic_rq *r)
{
	return c->cq->ncqe + r->rq->wqe_cnt <= UINT16_MAX;
}

/* Does a later completion show that the one in slot `at`, the oldest of the CQ, was read? */
static SPW_COLD bool use_is_read(const struct nic_cq *c, uint32_t at)
{
	for (uint32_t i = 1; i < c->cq->ncqe; i++) {
		const struct nic_cq_use *u = &c->use[(at + i) & (c->cq->ncqe - 1)];

		if (u->rq && use_is_reposted(u->rq, u->wqe))
			return true;
	}
	return false;
}

/* The slot of the next completion, behind those of an open session. */
static uint32_t use_end(const struct nic_cq *c)
{
	return c->pi + (c->comp ? c->comp->cnt : 0);
}

void cq_reuse_track(struct nic_cq *c, struct nic_rq *r, uint16_t wqe)
{
	struct nic_cq_use *u;

	if (c->err)
		return;
	u = &c->use[use_end(c) & (c->cq->ncqe - 1)];
	if (u->rq && !use_is_reposted(u->rq, u->wqe) && !use_is_read(c, use_end(c)))
		spw_thr_count(&c->nd->strict.cqe_reuse, 1u);
	u->rq = r && r->rq && use_laps_differ(c, r) ? r : NULL;
	u->wqe = wqe;
}

void cq_reuse_swap(struct nic_cq *c, uint32_t a, uint32_t b)
{
	struct nic_cq_use *u, was;

	if (!c->use)
		return;
	u = &c->use[a & (c->cq->ncqe - 1)];
	was = *u;
	*u = c->use[b & (c->cq->ncqe - 1)];
	c->use[b & (c->cq->ncqe - 1)] = was;
}

/* What the queue showed of others stays: all before its last completion that was read were read. */
void cq_reuse_forget(const struct nic_rq *r)
{
	struct nic_cq *c = r->cq;
	bool read = false;
	uint32_t end;

	if (!c || !c->use)
		return;
	end = use_end(c);
	for (uint32_t i = 1; i <= c->cq->ncqe; i++) { /* the newest first */
		struct nic_cq_use *u = &c->use[(end - i) & (c->cq->ncqe - 1)];

		if (u->rq == r)
			read |= use_is_reposted(u->rq, u->wqe);
		if (read || u->rq == r)
			u->rq = NULL;
	}
}
