/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The adversary (--adversary): what a card may do, at times of its own choice, and this NIC by
 * itself does not. The words are in hca_adversary.h. All of it happens between the NIC and the
 * application's memory; frames on the cable are those of a NIC without an adversary.
 *
 * Where it is asked (each is one test of a pointer that is NULL without an adversary):
 *
 *   cq.c       cq_publish      adv_hold          late-cqe early-bytes mixed
 *   cq/comp.c  session_max     adv_session_max   sessions
 *              flush_basic     adv_holes         holes
 *              flush_enhanced  adv_holds_one     sessions
 *              cq_comp_flush_all  adv_stays_open sessions
 *   run/doorbell.c   uar_rung        adv_rung          late-wqe
 *              half_take       adv_half_waits    pieces
 *              value_rings     adv_doorbell      poison
 *   rq.c       rq_room         adv_fetch         prefetch poison
 *              srq_take        adv_srq_taken     poison
 *   cq.c       cq_put_req      adv_wqes_done     poison
 *   raw.c      raw_cqe         adv_keeps_drops   late-drops
 *   resp_write.c  resp_write   adv_write         split-writes late-writes
 *   rc_rsp.c   resp_recv_cqe   adv_writes_settle what IBA promises of a WRITE
 *   rc_rd.c    rc_rd_rx        adv_writes_settle
 *   run/dev.c  nic_round       adv_round         what is due
 *   run/obj.c  reset, destroy  adv_settle        a card has written all CQEs of a queue before it
 *                                                answers its reset
 *
 * Times are counted in rounds of the NIC thread, 0.1 to 1 us each while it works. What is held back
 * counts as work, so the thread does not nap on it, but for WRITEs. Each queue (CQ, SQ, RQ,
 * register page) has random numbers of its own, from the seed and its number: the n-th CQE of a CQ
 * meets the same fate in each run, whatever the threads do.
 *
 * Thread: all calls with the device lock held.
 */
#ifndef SPW_SOFTHCA_INJECT_ADVERSARY_H
#define SPW_SOFTHCA_INJECT_ADVERSARY_H

#include "softhca/hca_adversary.h"
#include "softhca/nic/cq/cq.h"
#include "softhca/nic/transport/rq.h"

struct adv_writes;
struct hca_uar;
struct nic_dev;
struct nic_qp;
struct nic_swr;

struct adversary {
	uint64_t seed;
	uint32_t what;
	uint64_t round;      /* number of the present round */
	uint32_t halves;     /* register halves that were left waiting in this round */
	uint64_t bf_rng;     /* register pages share it: which one is polled first is fixed */
	struct adv_cq *held; /* CQs, all of them, by next */
};

/* ---- life ---- */

/* NULL: there is no memory. */
struct adversary *adv_open(const struct hca_adversary *conf, uint32_t dev_idx);
void adv_close(struct adversary *adv);
/* Without an adversary these do nothing. false: there is no memory. */
bool adv_cq_init(struct nic_cq *c);
void adv_cq_fini(struct nic_cq *c);
bool adv_rq_init(struct nic_dev *nd, struct nic_rq *r, uint32_t number);
void adv_rq_fini(struct nic_rq *r);
bool adv_sq_init(struct nic_qp *q);
void adv_sq_fini(struct nic_qp *q);
bool adv_writes_init(struct nic_qp *q);
void adv_writes_fini(struct nic_qp *q);

/* ---- CQEs: adversary_cq.c ---- */

/* Takes over the CQE that goes to c->pi and stands for span entries, and its event. */
void adv_hold(struct nic_cq *c, const uint64_t *w, uint64_t last, uint32_t span, bool se);
/* Writes everything that is held back of a CQ, its open session too. */
void adv_settle(struct nic_cq *c);
uint32_t adv_session_max(struct nic_cq *c, uint32_t max, uint32_t to_end);
bool adv_stays_open(struct nic_cq *c);
bool adv_holds_one(struct nic_cq *c);
/* Fills the entries of a block of cnt at c->pi, before its minis are written. */
void adv_holes(struct nic_cq *c, const uint64_t *title, uint32_t cnt);

/* ---- WRITEs: adversary_write.c ---- */

/* Takes over the payload of a packet of the WRITE at work, which belongs at `to`. */
void adv_write(struct nic_qp *q, uint8_t *to, const uint8_t *from, uint32_t bytes, bool first);
/* Everything of the QP's WRITEs that is held back reaches memory now. */
void adv_writes_settle(struct nic_qp *q);
/* What is due. What is not is no work: the thread may nap on it, so that whoever polls for it where
 * cores are few gets one. */
void adv_writes_due(struct nic_qp *q);

/* ---- queues: adversary.c ---- */

/* The QP was rung, its record is pi. true: it is taken later. */
bool adv_rung(struct nic_qp *q, uint16_t pi);
/* The SQ was reset: what was rung before is forgotten. */
void adv_sq_forget(struct nic_qp *q);
/* true: the half that was written is not there yet. */
bool adv_half_waits(struct nic_dev *nd, uint64_t *half);
/* `posted` WQEs from taken on may be fetched. Returns how many were; r->wqes has them. */
uint16_t adv_fetch(struct nic_rq *r, uint16_t taken, uint16_t posted);
void adv_srq_taken(struct hca_srq *srq, uint8_t *wqe);
/* A doorbell was taken; the WQE that it names ends before WQEBB `end`. */
void adv_doorbell(struct nic_qp *q, uint16_t end);
/* A WQE is about to be reported as completed, and all before it with it. */
void adv_wqes_done(struct nic_qp *q, const struct nic_swr *w);
bool adv_keeps_drops(struct nic_rq *r);

/* Does what is due. Returns how much was held back. */
uint32_t adv_round(struct nic_dev *nd);
uint32_t adv_cqes_due(struct adversary *adv);

/* ---- random numbers ---- */

enum { ADV_CQ = 1, ADV_SQ, ADV_RQ, ADV_SRQ, ADV_BF, ADV_WRITES };

/* The start of a queue's numbers. */
uint64_t adv_seed(const struct adversary *adv, uint32_t kind, uint32_t number);

/* splitmix64 (Steele, Lea, Flood 2014) */
SPW_INLINE uint64_t adv_random(uint64_t *rng)
{
	uint64_t z = (*rng += 0x9e3779b97f4a7c15ull);

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

/* How many rounds something takes: none half of the time, else 1 to 2, 4, ... 512. */
SPW_INLINE uint32_t adv_rounds(uint64_t *rng)
{
	const uint64_t r = adv_random(rng);

	return r & 1 ? 1u + (uint32_t)(r >> 8 & ((2u << (r >> 4 & 7) * (r >> 2 & 1)) - 1)) : 0;
}

#endif
