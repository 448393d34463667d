/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The adversary's CQEs (adversary.h): cq_publish() and cq/comp.c ask it.
 *
 *   CQ     | visible ......... | held back ....... | free
 *                               ^pi - held          ^pi
 *          e[head] is the oldest that is held back; it is written first, each when it is due
 *
 * A CQE that is held back has its place in the ring; only what marks its owner must not be there
 * before its time. `early` ones have all other bytes written. Two neighbours that are not, and that
 * are of different queues (by srqn_uidx), may change places: cards order the CQEs of one queue
 * only.
 *
 * A compressed block is held back like a CQE; its minis are in the ring already.
 */
#include <stdlib.h>

#include "softhca/inject/adversary.h"
#include "softhca/nic/cq/cq.h"

#define HELD_MAX 128u /* a power of 2 */
#define MARKS    1u   /* last bytes of a CQE that mark its owner */
#define MARKS_EN 2u   /* the same in the enhanced layout */
#define LAST_AT  56u

struct adv_cqe {
	uint64_t w[7], last; /* as for cq_store */
	uint32_t pi, span;
	uint64_t due;
	bool se, early;
};

struct adv_cq {
	struct nic_cq *c;
	struct adv_cq *next;
	uint64_t rng;
	uint32_t head, tail;
	uint64_t open_until; /* round at which the open session ends; 0: not decided */
	struct adv_cqe e[HELD_MAX];
};

static uint32_t cq_what(const struct nic_cq *c)
{
	return c->nd->adv->what;
}

/* Every CQ of the device has one, in a list that adv_cqes_due() walks. */
bool adv_cq_init(struct nic_cq *c)
{
	struct adversary *adv = c->nd->adv;

	if (!adv)
		return true;
	c->adv = calloc(1, sizeof(*c->adv));
	if (!c->adv)
		return false;
	c->adv->c = c;
	c->adv->rng = adv_seed(adv, ADV_CQ, c->cq->cqn);
	c->adv->next = adv->held;
	adv->held = c->adv;
	return true;
}

void adv_cq_fini(struct nic_cq *c)
{
	if (!c->adv)
		return;
	HCA_UNLINK(c->nd->adv->held, c->adv, next);
	free(c->adv);
	c->adv = NULL;
}

/* ---- holding back ---- */

static struct adv_cqe *held_at(struct adv_cq *a, uint32_t n)
{
	return &a->e[n & (HELD_MAX - 1)];
}

/* All bytes but those that mark the owner: who reads before checking them gets this. */
static void held_write_early(struct nic_cq *c, struct adv_cqe *e)
{
	uint8_t *slot = (uint8_t *)cq_slot(c, e->pi);
	const uint32_t to = 64 - (c->cq->comp_enhanced ? MARKS_EN : MARKS);

	e->early = true;
	for (unsigned i = 0; i < 7; i++)
		spw_dma_store((uint64_t *)slot + i, e->w[i]);
	for (uint32_t i = LAST_AT; i < to; i++)
		spw_dma_store(&slot[i], (uint8_t)(e->last >> 8 * (63 - i)));
}

/* In the order of the ring: what is due waits for what lies before it. */
static void held_write_head(struct adv_cq *a)
{
	struct adv_cqe *e = held_at(a, a->head++);

	cq_store(cq_slot(a->c, e->pi), e->w, e->last);
	a->c->held -= e->span;
	cq_event_check(a->c, e->se);
}

/* Not past a CQE that is partly in the ring, nor where compressed blocks have an order. */
static bool held_may_pass(const struct nic_cq *c, const struct adv_cqe *a, const struct adv_cqe *b)
{
	return !c->comp && !a->early &&
	       spw_prm_cqe64_get_srqn_uidx(a->w) != spw_prm_cqe64_get_srqn_uidx(b->w);
}

/* The owner bit belongs to the place in the ring, not to the CQE. */
static void cqe_set_owner(const struct nic_cq *c, struct adv_cqe *e)
{
	e->last = (e->last & ~1ull) | (e->pi & c->cq->ncqe ? 1 : 0);
}

/* The two neighbours change places; the places keep their indices and times. */
static void held_exchange(struct nic_cq *c, struct adv_cqe *a, struct adv_cqe *b)
{
	const struct adv_cqe was = *a;

	memcpy(a->w, b->w, sizeof(a->w));
	a->last = b->last;
	a->se = b->se;
	memcpy(b->w, was.w, sizeof(b->w));
	b->last = was.last;
	b->se = was.se;
	cqe_set_owner(c, a);
	cqe_set_owner(c, b);
	cq_reuse_swap(c, a->pi, b->pi);
}

/* The newest goes before some of its neighbours. */
static void held_mix(struct adv_cq *a)
{
	for (uint32_t n = a->tail - 1; n != a->head && adv_random(&a->rng) & 1; n--) {
		if (!held_may_pass(a->c, held_at(a, n - 1), held_at(a, n)))
			return;
		held_exchange(a->c, held_at(a, n - 1), held_at(a, n));
	}
}

/* A due time is never earlier than that of the CQE before. */
void adv_hold(struct nic_cq *c, const uint64_t *w, uint64_t last, uint32_t span, bool se)
{
	struct adv_cq *a = c->adv;
	const uint32_t rounds = cq_what(c) & HCA_ADV_late_cqe ? adv_rounds(&a->rng) : 0;
	const bool early = cq_what(c) & HCA_ADV_early_bytes && adv_random(&a->rng) % 4 == 0;
	const uint64_t before = a->head != a->tail ? held_at(a, a->tail - 1)->due : 0;
	struct adv_cqe *e;

	if (a->tail - a->head == HELD_MAX)
		held_write_head(a);
	e = held_at(a, a->tail++);
	*e = (struct adv_cqe){.last = last, .pi = c->pi, .span = span, .se = se};
	memcpy(e->w, w, sizeof(e->w));
	e->due = SPW_MAX(c->nd->adv->round + rounds + early, before);
	c->pi += span;
	c->held += span;
	if (cq_what(c) & HCA_ADV_mixed)
		held_mix(a);
	if (early)
		held_write_early(c, e);
}

/* Called before a reset or a destruction of a queue, a resize and an overrun: all is in the ring
 * then. */
void adv_settle(struct nic_cq *c)
{
	if (!c || !c->adv)
		return;
	cq_comp_flush(c);
	while (c->adv->head != c->adv->tail)
		held_write_head(c->adv);
}

uint32_t adv_cqes_due(struct adversary *adv)
{
	uint32_t left = 0;

	for (struct adv_cq *a = adv->held; a; a = a->next) {
		left += a->tail - a->head;
		while (a->head != a->tail && held_at(a, a->head)->due <= adv->round)
			held_write_head(a);
	}
	return left;
}

/* ---- compression ---- */

uint32_t adv_session_max(struct nic_cq *c, uint32_t max, uint32_t to_end)
{
	const uint64_t r = adv_random(&c->adv->rng);
	const uint32_t n = r & 1 ? max : 1 + (uint32_t)((r >> 8) % max);

	if (!(cq_what(c) & HCA_ADV_sessions))
		return SPW_MIN(max, to_end);
	return r & 6 ? SPW_MIN(n, to_end) : n; /* one of four goes on at the start of the ring */
}

/* A session may outlast its round, up to a round that is drawn when it is first asked for. */
bool adv_stays_open(struct nic_cq *c)
{
	struct adv_cq *a = c->adv;

	if (!(cq_what(c) & HCA_ADV_sessions) || !c->comp->cnt)
		return false;
	if (!a->open_until)
		a->open_until = c->nd->adv->round + adv_rounds(&a->rng);
	if (a->open_until > c->nd->adv->round)
		return true;
	a->open_until = 0;
	return false;
}

bool adv_holds_one(struct nic_cq *c)
{
	return cq_what(c) & HCA_ADV_sessions && adv_random(&c->adv->rng) & 1;
}

/* A card leaves these slots as they are. Here they look like CQEs of the last lap, which a reader
 * must not take. */
void adv_holes(struct nic_cq *c, const uint64_t *title, uint32_t cnt)
{
	uint8_t cqe[64];

	if (!(cq_what(c) & HCA_ADV_holes))
		return;
	memcpy(cqe, title, sizeof(cqe));
	for (uint32_t i = 1; i < cnt; i++) {
		const uint32_t lap = (c->pi + i) / c->cq->ncqe - 1;

		cqe[63] = (uint8_t)(SPW_PRM_CQE_RESP_SEND << 4 | (lap & 1));
		if (c->cq->comp_enhanced)
			cqe[62] = (uint8_t)lap;
		memcpy(cq_slot(c, c->pi + i), cqe, sizeof(cqe));
	}
}
