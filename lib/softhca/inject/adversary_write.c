/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What the adversary does to WRITEs (adversary.h). Of the memory that a WRITE reaches IBA promises
 * its reader nothing until a later message of the QP is visible: the completion of a receive (a
 * SEND, or the immediate of this WRITE or a later one), or a word that an atomic has changed
 * (IBTA volume 1, 9.5, o9-20). A READ of the same QP finds what was written before it (table 79).
 * An ACK says nothing of memory.
 *
 *   WRITE a ─┬─ pieces ───────┬─► memory            WRITE a ── late ──────┐
 *            └─ pieces, late ─┼──────────► memory   WRITE b ─► memory     ▼
 *                             └ in any order        atomic: a is settled, then carried out
 *
 * Of two WRITEs to one place the later one stays: what is held back there is settled first. A
 * region that is gone by then takes the bytes that are held back for it along.
 */
#include <stdlib.h>

#include "softhca/inject/adversary.h"
#include "softhca/nic/transport/qp.h"

#define PIECE_MIN   8u /* an aligned word is whole on every bus and CPU */
#define PIECE_SIZES 5u /* 8 .. 128 */
#define HELD_MAX    128u

struct held {
	struct held *next;
	uint64_t va, due;
	uint32_t rkey, bytes;
	uint8_t data[];
};

struct adv_writes {
	uint64_t rng;
	uint64_t due; /* late-writes: until this round the WRITE at work is held back */
	struct held *first, **end;
	uint32_t held_cnt;
	struct held *placed; /* freed by the next: a fault may leave the round in between */
};

bool adv_writes_init(struct nic_qp *q)
{
	const struct adversary *adv = q->nd->adv;

	if (!adv || !(adv->what & (HCA_ADV_split_writes | HCA_ADV_late_writes)))
		return true;
	q->adv_writes = calloc(1, sizeof(*q->adv_writes));
	if (!q->adv_writes)
		return false;
	q->adv_writes->rng = adv_seed(adv, ADV_WRITES, HCA_QPN_SLOT(q->qp->qpn));
	q->adv_writes->end = &q->adv_writes->first;
	return true;
}

void adv_writes_fini(struct nic_qp *q)
{
	if (q->adv_writes)
		free(q->adv_writes->placed);
	free(q->adv_writes);
	q->adv_writes = NULL;
}

/* ---- to memory ---- */

static void piece_place(struct nic_qp *q, struct held **at)
{
	struct adv_writes *w = q->adv_writes;
	struct held *h = *at;
	const struct hca_mr *mr = hca_mr_get(q->nd->dev, h->rkey);
	uint8_t *to = mr ? hca_mr_at(mr, q->qp->pd, h->va, h->bytes, IB_UVERBS_ACCESS_REMOTE_WRITE)
			 : NULL;

	*at = h->next;
	w->held_cnt--;
	if (!h->next)
		w->end = at;
	free(w->placed);
	w->placed = h;
	if (to)
		resp_place(q->nd, to, h->data, h->bytes);
}

void adv_writes_settle(struct nic_qp *q)
{
	while (q->adv_writes && q->adv_writes->first)
		piece_place(q, &q->adv_writes->first);
}

void adv_writes_due(struct nic_qp *q)
{
	struct adv_writes *w = q->adv_writes;
	struct held **at = &w->first;

	q->nd->cur = q;
	while (*at) {
		if ((*at)->due > q->nd->adv->round)
			at = &(*at)->next;
		else
			piece_place(q, at);
	}
	q->nd->cur = NULL;
}

/* ---- held back ---- */

static uint64_t piece_delay(const struct adversary *adv, struct adv_writes *w)
{
	return adv->round + adv_rounds(&w->rng);
}

static bool piece_overlaps(const struct adv_writes *w, uint64_t va, uint32_t bytes)
{
	for (const struct held *h = w->first; h; h = h->next)
		if (va < h->va + h->bytes && h->va < va + bytes)
			return true;
	return false;
}

/* Returns: false: enough is held back, or there is no memory. */
static bool piece_hold(struct nic_qp *q, uint64_t va, const uint8_t *from, uint32_t bytes,
		       uint64_t due)
{
	struct adv_writes *w = q->adv_writes;
	struct held *h = w->held_cnt < HELD_MAX ? malloc(sizeof(*h) + bytes) : NULL;

	if (!h)
		return false;
	h->next = NULL;
	h->va = va;
	h->rkey = q->wr_rkey;
	h->bytes = bytes;
	h->due = due;
	memcpy(h->data, from, bytes);
	*w->end = h;
	w->end = &h->next;
	w->held_cnt++;
	return true;
}

/* Without split-writes the packets of a WRITE share a fate: its bytes stay in order. */
void adv_write(struct nic_qp *q, uint8_t *to, const uint8_t *from, uint32_t bytes, bool first)
{
	const struct adversary *adv = q->nd->adv;
	const bool splits = adv->what & HCA_ADV_split_writes;
	struct adv_writes *w = q->adv_writes;
	const uint32_t size = PIECE_MIN << adv_random(&w->rng) % PIECE_SIZES;
	uint64_t va = q->wr_va;

	if (piece_overlaps(w, va, bytes))
		adv_writes_settle(q);
	if (first)
		w->due = adv->what & HCA_ADV_late_writes ? piece_delay(adv, w) : 0;
	for (uint32_t n; bytes; bytes -= n, va += n, from += n, to += n) {
		const uint64_t due = splits ? SPW_MAX(w->due, piece_delay(adv, w)) : w->due;

		n = splits ? SPW_MIN(bytes, size - ((uint32_t)(uintptr_t)to & (size - 1))) : bytes;
		if (due > adv->round) {
			if (piece_hold(q, va, from, n, due))
				continue;
			adv_writes_settle(q); /* what is behind it may not be in front */
		}
		resp_place(q->nd, to, from, n);
	}
}
