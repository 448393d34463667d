/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Completion queues: writing CQEs, overrun, arming, moderated events (cq.h shows a CQE's path).
 *
 *   CQ lap    0 0 0 0 | 1 1 1 1 |     owner bit = lap & 1. The application owns a CQE whose bit is
 *             ^pi                     that of the lap that it is reading.
 *
 * What to know before changing it: a CQE may overrun the CQ, and cq_overrun() flushes every QP on
 * it from within cq_put(). Callers therefore advance their queue's indices first.
 *
 * Source: [PRM] "Mellanox Adapters Programmer's Reference Manual" rev 0.40, 8.18 (CQE, doorbell
 * record, arming).
 */
#include "softhca/inject/inject.h"
#include "softhca/kernel/kernel.h"
#include "softhca/nic/cq/cq.h"
#include "softhca/nic/dev.h"
#include "softhca/nic/host/host.h"
#include "softhca/nic/port/trace.h"
#include "softhca/nic/up.h"

#define ARM_NEVER 0xffffffffu /* arm word until the first arming (hca_obj.h) */

void cq_start(struct nic_cqe *e)
{
	memset(e, 0, sizeof(*e));
}

/* Big-endian, in 24 bits. */
static uint32_t cq_ci(const struct nic_cq *c)
{
	return spw_be32_to_cpu(spw_thr_load_acq(&c->cq->dbrec[0])) & NIC_CQ_INDEX_MASK;
}

/* Is the ring full by that consumer index? Only as many of its bits count as the ring index and its
 * owner bit have: DPDK's net_mlx5 publishes 16 bits for its send CQs. */
static bool cq_is_full_by(const struct nic_cq *c, uint32_t ci)
{
	const uint32_t cnt = c->comp ? c->comp->cnt : 0;

	return ((c->pi + cnt - ci) & (2 * c->cq->ncqe - 1)) >= c->cq->ncqe;
}

/* The consumer index may lag behind what the application has read. The record is read only when the
 * ring looks full by the last read: its cache line stays with the application. The ring fills by
 * one CQE at a time, so no lap is missed. */
bool cq_full(struct nic_cq *c)
{
	if (spw_likely(!cq_is_full_by(c, c->ci_read)))
		return false;
	c->ci_read = cq_ci(c);
	return cq_is_full_by(c, c->ci_read);
}

/* What the adversary holds back is written first: it came before the overrun. */
void cq_overrun(struct nic_cq *c)
{
	if (c->err)
		return;
	adv_settle(c);
	c->err = true;
	hca_event_cq(c->cq, HCA_EVENT_CQ_ERR);
	qp_cq_failed(c);
}

/* CQEs that the application can read: all, unless the adversary holds some back. */
static uint32_t cq_written(const struct nic_cq *c)
{
	return c->pi - c->held;
}

/* One-shot: the application arms again before it waits. */
static void cq_event_now(struct nic_cq *c)
{
	c->armed = NIC_ARM_NONE;
	c->event_pi = cq_written(c);
	c->mod_at_ns = 0;
	hca_event_comp(c->cq);
}

/* Moderation: the event comes after mod_cnt CQEs, or mod_period_us after the first of them. Starts
 * the timer; returns whether the event is delayed. */
static bool cq_mod_delays(struct nic_cq *c)
{
	struct nic_dev *nd = c->nd;

	if (!c->mod_at_ns) {
		c->mod_pi = cq_written(c) - 1;
		c->mod_at_ns = nic_now_ns() + c->cq->mod_period_us * 1000ull;
		nic_timer_at(nd, c->mod_at_ns);
		if (!c->mod_listed) {
			c->mod_listed = true;
			c->mod_next = nd->mod_list;
			nd->mod_list = c;
		}
	}
	return cq_written(c) - c->mod_pi < c->cq->mod_cnt;
}

void cq_mod_timers(struct nic_dev *nd)
{
	for (struct nic_cq **p = &nd->mod_list; *p;) {
		struct nic_cq *c = *p;

		if (c->mod_at_ns > nd->now_ns) {
			nic_timer_at(nd, c->mod_at_ns);
			p = &c->mod_next;
			continue;
		}
		*p = c->mod_next;
		c->mod_listed = false;
		if (c->mod_at_ns)
			cq_event_now(c);
	}
}

/* One event per arming. A CQ armed for solicited CQEs waits for one of those, or for an error. */
void cq_event_check(struct nic_cq *c, bool se)
{
	if (spw_likely(c->armed == NIC_ARM_NONE) || (c->armed == NIC_ARM_SOLICITED && !se))
		return;
	if (c->cq->mod_cnt && c->cq->mod_period_us &&
	    cq_mod_delays(c)) /* either 0: no moderation */
		return;
	cq_event_now(c);
}

SPW_INLINE void cq_write(struct nic_cq *c, const uint64_t *w, uint64_t last, uint32_t span, bool se)
{
	if (spw_unlikely(c->adv != NULL)) {
		adv_hold(c, w, last, span, se);
		return;
	}
	cq_store(cq_slot(c, c->pi), w, last);
	c->pi += span;
	cq_event_check(c, se);
}

void cq_publish(struct nic_cq *c, const uint64_t *w, uint64_t last, uint32_t span, bool se)
{
	cq_write(c, w, last, span, se);
}

void cq_put(struct nic_cq *c, struct nic_cqe *e, uint8_t opcode, bool se, uint32_t step)
{
	if (spw_unlikely(c->err))
		return;
	if (spw_unlikely(cq_full(c)) && !c->cq->ignore_overrun) {
		cq_overrun(c);
		return;
	}
	if (spw_unlikely(c->nd->trace != NULL))
		trace_cqe(c->nd->trace, c->cq->cqn, e->w, opcode, c->nd->stamp);
	if (spw_unlikely(c->comp != NULL)) {
		spw_prm_cqe64_set_op_own(e, opcode << 4 | (se ? 2 : 0));
		cq_comp_put(c, e, step);
		return;
	}
	cq_write(c, e->w,
		 (SPW_SWAP64(e->w[7]) & ~0xffull) | (uint8_t)(opcode << 4 | (se ? 2 : 0)) |
			 (c->pi & c->cq->ncqe ? 1 : 0),
		 1, se || opcode >= SPW_PRM_CQE_SIG_ERR);
}

/* The arm word: [PRM] 8.18, sequence number in bits 29..28, command in bit 24, consumer index
 * in 23..0.
 *
 * An event is raised at once if a CQE at or after that index came after the last event. CQEs that
 * an event has reported do not raise another one, read or not. Two applications depend on this:
 *
 *   perftest -e   takes an event, arms, then polls: a second event for the CQEs that the first one
 *                 reported makes ib_send_lat count a completion too many and overrun its send queue
 *   mlx5_ib       does not poll after arming: CQEs that came before arming must raise an event
 */
static void cq_arm(struct nic_cq *c, uint32_t word_be)
{
	const uint32_t record[2] = {0, word_be};
	const uint32_t ci = spw_prm_dbrec_cq_get_arm_ci(record);
	const bool solicited = spw_prm_dbrec_cq_get_arm_cmd(record);
	const uint32_t unread = (cq_written(c) - ci) & NIC_CQ_INDEX_MASK,
		       unreported = cq_written(c) - c->event_pi;

	c->arm_word = word_be;
	if (c->armed != NIC_ARM_ANY)
		c->armed = solicited ? NIC_ARM_SOLICITED : NIC_ARM_ANY;
	if (SPW_MIN(unread, unreported) != 0 && !solicited)
		cq_event_check(c, true);
}

/* The register names one CQ, but the next write may have replaced it before it was taken; the
 * records have all of them. */
void cq_arm_scan(struct hca_uar *uar)
{
	for (struct hca_cq *cq = uar->cqs; cq; cq = cq->uar_next) {
		const uint32_t word = (SPW_FORCE uint32_t)spw_thr_load_acq(&cq->dbrec[1]);

		if (cq->nic && word != cq->nic->arm_word && word != ARM_NEVER)
			cq_arm(cq->nic, word);
	}
}
